"""The declaration of operators: a frozen dataclass whose fields are the arguments.

What an operator call does is decided by whoever listens: a tracer makes a node of it, eager mode computes it. Both
enter themselves with `calling`.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import Field, dataclass, field, fields
from functools import cache
from typing import (
    Annotated,
    Any,
    ClassVar,
    NamedTuple,
    NoReturn,
    Protocol,
    TypeVar,
    cast,
    dataclass_transform,
    get_type_hints,
)

from pipeplug.arguments import convert
from pipeplug.errors import ArgumentError, DeclarationError, GraphError
from pipeplug.signature import STATE, Kernel, check_keywords, declaration_place, read_kernels, user_location
from pipeplug.spec import TensorSpec

T = TypeVar("T")


class ValueAttributeError(GraphError, AttributeError):
    """A value of the graph was asked for what only data has."""


class Value:
    """An output of a node while a pipeline function is traced; it stands for data that does not exist yet."""

    varies_by_sample: ClassVar[bool] = True

    def __init__(self, caller: Caller, node: str, output: int, spec: TensorSpec) -> None:
        self._caller = caller
        self.node = node
        self.output = output
        self.spec = spec

    def to(self, device: str) -> Value:
        """The same value on another device: a visible copy in the graph, nothing when it is there already."""
        moved: Value = self._caller.transfer(self, device)
        return moved

    def __bool__(self) -> NoReturn:
        self._refuse("its truth")

    def __iter__(self) -> NoReturn:
        self._refuse("its elements")

    def __getitem__(self, place: object) -> NoReturn:
        self._refuse("its elements")

    def __len__(self) -> NoReturn:
        self._refuse("its length")

    def __array__(self, *_: object, **__: object) -> NoReturn:
        self._refuse("its numbers")

    def __eq__(self, other: object) -> NoReturn:
        self._refuse("its numbers")

    __hash__ = object.__hash__
    __lt__ = __le__ = __gt__ = __ge__ = __eq__
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __eq__
    __truediv__ = __rtruediv__ = __floordiv__ = __mod__ = __pow__ = __matmul__ = __eq__

    def __neg__(self) -> NoReturn:
        self._refuse("its numbers")

    __pos__ = __abs__ = __invert__ = __int__ = __float__ = __neg__

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):  # which is how Python and libraries ask what something is
            raise AttributeError(name)
        self._refuse(f".{name}", ValueAttributeError)

    def _refuse(self, what: str, kind: type[GraphError] = GraphError) -> NoReturn:
        raise kind(
            f"{user_location()}: {self.node} has no data while the pipeline function is traced, so {what} cannot be "
            "used; write the Python code as a function and apply it with ops.map(function, value)"
        )

    def __repr__(self) -> str:
        return f"Value({self.node}, {self.spec})"


@dataclass(frozen=True, slots=True)
class PerSampleMark:
    """Marks a field whose value may vary by sample, and stands in for such a value in the operator."""

    def __repr__(self) -> str:
        return "per sample"


PER_SAMPLE = PerSampleMark()
PerSample = Annotated[T, PER_SAMPLE]
"""`PerSample[float]` annotates a field that takes one constant or a value of the graph, a row a sample."""


class Call(NamedTuple):
    """One call of an operator: what a tracer records and eager mode computes."""

    operator: Operator
    inputs: tuple[object, ...]
    per_sample: Mapping[str, object]
    name: str | None = None
    device: str | None = None
    key: str | None = None


class Caller(Protocol):
    """Who decides what an operator call does."""

    def call(self, call: Call) -> Any: ...

    def transfer(self, value: Any, device: str) -> Any: ...


_CALLER: ContextVar[Caller | None] = ContextVar("pipeplug_caller", default=None)


def current_caller() -> Caller:
    """The tracer or eager session around this call, or the eager mode that needs no session."""
    return _CALLER.get() or cast("Caller", _module_of_eager_mode().SINGLE_CALLS)


@cache
def _module_of_eager_mode() -> Any:
    # Named, not imported: declarations know nothing of the runtime that stands above them.
    return importlib.import_module("pipeplug.runtime.eager")


@contextmanager
def calling(caller: Caller) -> Iterator[None]:
    """Directs the operator calls of this context to `caller`."""
    token = _CALLER.set(caller)
    try:
        yield
    finally:
        _CALLER.reset(token)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
class Operator:
    """The base of all operators; a subclass becomes a frozen, keyword-only dataclass.

    Fields are the arguments. `infer(self, *specs)` gives the specs of the outputs. A method named after a device,
    `cpu` or `cuda`, is the support of that device; it works on samples, or on batches when its annotations say
    `Batch`. `draw(self, random, *shapes)` gives random arguments, a row a sample; `open(self)` gives state that lives
    as long as the pipeline; `peek(self, *inputs)` tells the output's spec from encoded inputs without decoding them.

    Attributes:
        parallel: whether kernel calls may run at the same time; False means one after the other, in order.
        splittable: whether a batch kernel may get a batch in parts, which run in parallel: no row depends on another.
        kernels: what the signatures of the kernel methods say, by device.
        registered_name: the name under which it was found, such as `image.resize`.
        varying: the values of arguments that vary by sample; their fields hold a mark instead.
    """

    parallel: ClassVar[bool] = True
    splittable: ClassVar[bool] = False
    registered_name: ClassVar[str] = ""
    kernels: ClassVar[Mapping[str, Kernel]] = {}
    varying: ClassVar[Mapping[str, object]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        doc = cls.__doc__
        try:
            dataclass(frozen=True, kw_only=True)(cls)
        except (TypeError, ValueError) as error:
            raise DeclarationError(f"{declaration_place(cls)}: {error}") from error
        cls.__doc__ = doc  # a dataclass without one gets its signature
        cls.registered_name = vars(cls).get("registered_name", "")  # a subclass is another operator than its base
        cls.kernels = read_kernels(cls)
        if cls.kernels and not hasattr(cls, "infer"):
            raise DeclarationError(
                f"{declaration_place(cls)}: {cls.__name__} has a kernel but no infer(self, …) -> TensorSpec"
            )

    def __post_init__(self) -> None:
        cls = type(self)
        _check_keywords(cls)
        varying = {}
        for name, annotation in field_types(cls).items():
            value = getattr(self, name)
            if _varies(value):
                varying[name] = _if_per_sample(cls, name, value)
                object.__setattr__(self, name, PER_SAMPLE)
            elif value is not PER_SAMPLE:
                object.__setattr__(self, name, convert(value, annotation, f"{cls.__name__}({name}=…)"))
        if varying:
            object.__setattr__(self, "varying", varying)
        self.check()

    def is_parallel(self) -> bool:
        """Whether kernel calls of this instance may run at the same time."""
        return self.parallel

    def devices(self) -> tuple[str, ...]:
        """The kinds of device that this instance has kernels for."""
        return tuple(self.kernels)

    def title(self) -> str:
        """What the operator is called in the graph and in messages: its registered name, else that of its class.

        It does not depend on whether the class was found by its name or imported: random numbers go by it.
        """
        cls = type(self)
        return cls.registered_name or _offered_name(cls) or cls.__name__

    def check(self) -> None:
        """Raises ArgumentError when arguments do not fit together; a subclass overrides it."""

    def __call__(
        self, *inputs: object, name: str | None = None, device: str | None = None, key: str | None = None
    ) -> Any:
        """Applies the operator: records a node while a pipeline is traced, else computes at once."""
        return current_caller().call(Call(self, inputs, self.varying, name, device, key))


def _once_a_class(function: Callable[[type[Operator]], T]) -> Callable[[type[Operator]], T]:
    """Keeps the result for every class; `cache` as the type checker does not see it, which finds classes unhashable."""
    return cast("Callable[[type[Operator]], T]", cache(function))


@_once_a_class
def field_types(cls: type[Operator]) -> Mapping[str, object]:
    """The annotations of an operator's fields, evaluated."""
    try:
        hints = get_type_hints(cls, include_extras=True)
    except NameError as error:
        raise DeclarationError(
            f"{declaration_place(cls)}: an annotation of {cls.__name__} cannot be evaluated ({error}); "
            "import that name at run time, not only for type checking"
        ) from error
    return {item.name: hints[item.name] for item in fields_of(cls)}


@_once_a_class
def _offered_name(cls: type[Operator]) -> str | None:
    """The name under which an installed distribution offers a class that was imported, not found by its name."""
    # Named, not imported: declarations know nothing of the registry that stands above them.
    registry = importlib.import_module("pipeplug.plugins.registry").default_registry()
    name: str | None = registry.name_of(f"{cls.__module__}:{cls.__qualname__}")
    return name


def fields_of(cls: type[Operator]) -> tuple[Field[Any], ...]:
    return fields(cast("Any", cls))


@_once_a_class
def per_sample_fields(cls: type[Operator]) -> frozenset[str]:
    """Names of the fields that may vary by sample."""
    return frozenset(name for name, kind in field_types(cls).items() if PER_SAMPLE in getattr(kind, "__metadata__", ()))


@_once_a_class
def _check_keywords(cls: type[Operator]) -> None:
    # Not when the class is made: a base may leave `draw` or `open` to its subclasses.
    for kernel in cls.kernels.values():
        check_keywords(cls, kernel, per_sample_fields(cls))


def _if_per_sample(cls: type[Operator], name: str, value: object) -> object:
    if name not in per_sample_fields(cls):
        raise ArgumentError(f"{cls.__name__}({name}=…) is one for all samples, got {value!r}")
    return value


@_once_a_class
def drawn_arguments(cls: type[Operator]) -> tuple[str, ...]:
    """Names of the kernel arguments that `draw` gives."""
    names = {name: None for kernel in cls.kernels.values() for name in kernel.keywords}
    return tuple(name for name in names if name != STATE and name not in per_sample_fields(cls))


@_once_a_class
def shapes_drawn_from(cls: type[Operator]) -> tuple[int, ...]:
    """Places of the inputs whose shapes `draw` asks for, by the names of its parameters."""
    inputs = next(iter(cls.kernels.values())).inputs
    wanted = list(inspect.signature(cast("Any", cls).draw).parameters)[2:]
    if unknown := [name for name in wanted if name not in inputs]:
        raise DeclarationError(
            f"{declaration_place(cls)}: draw asks for the shapes of {', '.join(unknown)}, "
            f"but the kernel's inputs are {', '.join(inputs) or 'none'}"
        )
    return tuple(inputs.index(name) for name in wanted)


def _varies(value: object) -> bool:
    # A value of the graph or, in eager mode, a Batch, which is not imported here: it would bring NumPy.
    return getattr(value, "varies_by_sample", False) is True
