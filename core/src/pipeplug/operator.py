"""The declaration of operators: a frozen dataclass whose fields are the arguments.

What an operator call does is decided by whoever listens: a tracer makes a node of it, eager mode computes it. Both
enter themselves with `calling`.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, NoReturn, Protocol, TypeVar, cast, dataclass_transform, get_type_hints

from pipeplug.arguments import convert, type_name
from pipeplug.errors import ArgumentError, DeclarationError, GraphError
from pipeplug.spec import TensorSpec

T = TypeVar("T")

DEVICES = ("cpu", "cuda")
"""The kinds of device, and the names of the methods that serve them."""

STATE = "state"
"""The keyword by which a kernel receives what `open` gave."""


class Value:
    """An output of a node while a pipeline function is traced; it stands for data that does not exist yet."""

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

    def __len__(self) -> NoReturn:
        self._refuse("its length")

    def __array__(self, *_: object, **__: object) -> NoReturn:
        self._refuse("its numbers")

    def _refuse(self, what: str) -> NoReturn:
        raise GraphError(
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


@dataclass(frozen=True, slots=True)
class Call:
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


def user_location() -> str:
    """`file:line` of the innermost frame outside this package."""
    frame = sys._getframe(1)
    package = str(Path(__file__).parent)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


@dataclass(frozen=True, slots=True)
class Kernel:
    """What the signature of a kernel method says.

    Attributes:
        device: `"cpu"` or `"cuda"`.
        batched: whether it takes whole batches; else one sample a call.
        inputs: names of the inputs; the last one takes any number when `variadic`.
        keywords: names of the arguments that vary by sample, and `"state"`.
    """

    device: str
    batched: bool
    inputs: tuple[str, ...]
    variadic: bool
    keywords: tuple[str, ...]


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
class Operator:
    """The base of all operators; a subclass becomes a frozen, keyword-only dataclass.

    Fields are the arguments. `infer(self, *specs)` gives the specs of the outputs. A method named after a device,
    `cpu` or `cuda`, is the support of that device; it works on samples, or on batches when its annotations say
    `Batch`. `draw(self, random, *shapes)` gives random arguments, a row a sample; `open(self)` gives state that lives
    as long as the pipeline; `peek(self, *inputs)` tells the output's spec from encoded inputs without decoding them.

    Attributes:
        parallel: whether kernel calls may run at the same time; False means one after the other, in order.
        kernels: what the signatures of the kernel methods say, by device.
        registered_name: the name under which it was found, such as `image.resize`.
    """

    parallel: ClassVar[bool] = True
    registered_name: ClassVar[str] = ""
    kernels: ClassVar[Mapping[str, Kernel]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        try:
            dataclass(frozen=True, kw_only=True)(cls)
        except (TypeError, ValueError) as error:
            raise DeclarationError(f"{declaration_place(cls)}: {error}") from error
        cls.kernels = {device: _read_kernel(cls, device) for device in DEVICES if hasattr(cls, device)}
        if cls.kernels and not hasattr(cls, "infer"):
            raise DeclarationError(
                f"{declaration_place(cls)}: {cls.__name__} has a kernel but no infer(self, …) -> TensorSpec"
            )

    def __post_init__(self) -> None:
        for name, annotation in field_types(type(self)).items():
            value = getattr(self, name)
            if value is not PER_SAMPLE:
                object.__setattr__(self, name, convert(value, annotation, f"{type(self).__name__}({name}=…)"))
        self.check()

    def is_parallel(self) -> bool:
        """Whether kernel calls of this instance may run at the same time."""
        return self.parallel

    def title(self) -> str:
        """What the operator is called in the graph and in messages."""
        return self.registered_name or type(self).__name__

    def check(self) -> None:
        """Raises ArgumentError when arguments do not fit together; a subclass overrides it."""

    def __call__(
        self, *inputs: object, name: str | None = None, device: str | None = None, key: str | None = None
    ) -> Any:
        """Applies the operator: records a node while a pipeline is traced, else computes at once."""
        return current_caller().call(Call(self, inputs, {}, name, device, key))


class Context(Protocol):
    """What a kernel may use."""

    @property
    def device(self) -> str:
        """The device that the kernel runs on."""

    def empty(self, spec: TensorSpec) -> Any:
        """An uninitialised `Tensor` of a static spec: the sample's place in the batch where it can be, else scratch."""

    def empty_batch(self, specs: Sequence[TensorSpec]) -> Any:
        """An uninitialised `Batch` of static specs, in one array when they are equal."""

    def fail(self, row: int, cause: Exception) -> None:
        """Takes one sample of a batch kernel's input out of the iteration."""

    def random(self, key: str) -> Any:
        """The random numbers of the samples at hand for `key`."""


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


def fields_of(cls: type[Operator]) -> tuple[Field[Any], ...]:
    return fields(cast("Any", cls))


@_once_a_class
def per_sample_fields(cls: type[Operator]) -> frozenset[str]:
    """Names of the fields that may vary by sample."""
    return frozenset(name for name, kind in field_types(cls).items() if PER_SAMPLE in getattr(kind, "__metadata__", ()))


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


def bind(cls: type[Operator], name: str, arguments: Mapping[str, Any]) -> tuple[Operator, dict[str, object]]:
    """The operator with these arguments, and those of them that vary by sample.

    Raises ArgumentError for an unknown, a missing, or an ill-typed argument, naming the operator.
    """
    known = field_types(cls)
    if unknown := [each for each in arguments if each not in known]:
        raise ArgumentError(f"{name} has no argument {unknown[0]!r}; it has {', '.join(known) or 'none'}")
    varying = {each: value for each, value in arguments.items() if _varies(value)}
    if fixed := [each for each in varying if each not in per_sample_fields(cls)]:
        raise ArgumentError(f"{name}: {fixed[0]} is one for all samples and cannot be a value of the graph")
    required = [item.name for item in fields_of(cls) if item.default is MISSING and item.default_factory is MISSING]
    if missing := [each for each in required if each not in arguments]:
        raise ArgumentError(f"{name} needs the argument {missing[0]}: {type_name(known[missing[0]])}")
    constants = {each: PER_SAMPLE if each in varying else value for each, value in arguments.items()}
    try:
        return cls(**constants), varying
    except ArgumentError as error:
        raise ArgumentError(f"{name}: {error}") from None


def _varies(value: object) -> bool:
    return isinstance(value, Value) or (hasattr(value, "__array__") and getattr(value, "shape", ()) != ())


def _read_kernel(cls: type[Operator], device: str) -> Kernel:
    parameters = list(inspect.signature(getattr(cls, device)).parameters.values())[1:]
    keywords = tuple(each.name for each in parameters if each.kind is each.KEYWORD_ONLY)
    places = [each for each in parameters if each.kind is not each.KEYWORD_ONLY]
    variadic = any(each.kind is each.VAR_POSITIONAL for each in places)
    context = next((each for each in parameters if each.name == "context"), None)
    if context is None:
        raise DeclarationError(f"{declaration_place(cls, device)}: {cls.__name__}.{device} needs a parameter `context`")
    for each in parameters:
        if each.annotation is each.empty:
            raise DeclarationError(
                f"{declaration_place(cls, device)}: parameter {each.name} of {cls.__name__}.{device} has no annotation"
            )
    inputs = tuple(each.name for each in places if each is not context)
    returned = inspect.signature(getattr(cls, device)).return_annotation
    words = " ".join(str(kind) for kind in [*(each.annotation for each in places), returned])
    return Kernel(device, "Batch" in words, inputs, variadic, tuple(name for name in keywords if name != "context"))


def declaration_place(cls: type, method: str | None = None) -> str:
    """`file:line` of a class, or of one of its methods."""
    thing = getattr(cls, method) if method else cls
    try:
        return f"{inspect.getsourcefile(thing)}:{inspect.getsourcelines(thing)[1]}"
    except (OSError, TypeError):
        return cls.__module__
