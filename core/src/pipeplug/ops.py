"""`ops`: the operators that are installed, by namespace and name, such as `ops.image.resize`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING
from typing import Any

from pipeplug.arguments import type_name
from pipeplug.description import describe
from pipeplug.errors import ArgumentError, DeclarationError, UnknownOperatorError
from pipeplug.mapping import map_values
from pipeplug.operator import Call, Operator, current_caller, field_types, fields_of
from pipeplug.plugins.registry import FIRST_PARTY, OperatorRegistry, bring, default_registry
from pipeplug.signature import declaration_place
from pipeplug.source import Source, positional_arguments


class OperatorCall:
    """An operator by its name; calling it with inputs and arguments records a node or computes at once."""

    def __init__(self, name: str, operator: type[Operator]) -> None:
        self.operator = operator
        self._name = name
        self._bound: dict[object, Operator] = {}
        self.__name__ = name
        self.__doc__ = operator.__doc__

    def __call__(
        self,
        *inputs: object,
        name: str | None = None,
        device: str | None = None,
        key: str | None = None,
        **arguments: Any,
    ) -> Any:
        """Applies the operator.

        Args:
            inputs: values of the graph while a pipeline is traced, else data; a source's own arguments in order.
            name: of the node, instead of the operator's name and an ordinal; random numbers go by it.
            device: where it runs.
            key: shares random numbers with other nodes of this key.
            arguments: the operator's fields.
        """
        if issubclass(self.operator, Source):  # kept by no cache, which would hold on to data
            inputs, arguments = (), positional_arguments(self.operator, self._name, inputs, arguments)
            operator = bind(self.operator, self._name, arguments)
        else:
            operator = self._bind(arguments)
        return current_caller().call(Call(operator, inputs, operator.varying, name, device, key))

    def _bind(self, arguments: Mapping[str, Any]) -> Operator:
        # Checking arguments takes longer than a small kernel, so operators are kept by their arguments.
        given = tuple([(name, _exactly(value)) for name, value in arguments.items()])
        try:
            return self._bound[given]
        except KeyError:
            operator = bind(self.operator, self._name, arguments)
        except TypeError:  # a list or an array, which has no hash
            return bind(self.operator, self._name, arguments)
        if not operator.varying and len(self._bound) < 256:
            self._bound[given] = operator
        return operator

    def __repr__(self) -> str:
        return f"<operator {self._name}{describe(self.operator).signature}>"


class Namespace:
    """The operators of one namespace."""

    def __init__(self, registry: OperatorRegistry, name: str) -> None:
        self._registry = registry
        self._name = name

    def __getattr__(self, operator: str) -> OperatorCall:
        if operator.startswith("__"):
            raise AttributeError(operator)
        call = operator_call(self._registry, f"{self._name}.{operator}")
        self.__dict__[operator] = call
        return call

    def __dir__(self) -> list[str]:
        prefix = self._name + "."
        return [name.removeprefix(prefix) for name in self._registry.names() if name.startswith(prefix)]

    def __repr__(self) -> str:
        return f"<operators {', '.join(f'{self._name}.{each}' for each in dir(self))}>"


class Operators:
    """All operators of a registry, and `map`, which applies any Python function."""

    def __init__(self, registry: Callable[[], OperatorRegistry]) -> None:
        self._registry = registry
        self.map = map_values

    def __getattr__(self, namespace: str) -> Namespace:
        if namespace.startswith("__"):
            raise AttributeError(namespace)
        registry = self._registry()
        if namespace not in registry.namespaces():
            raise UnknownOperatorError(_explain_unknown(registry, namespace))
        found = Namespace(registry, namespace)
        self.__dict__[namespace] = found
        return found

    def __dir__(self) -> list[str]:
        return ["map", *self._registry().namespaces()]


def _exactly(value: object) -> object:
    """What tells an argument from others that equal it: 1, 1.0 and True are three."""
    return tuple([_exactly(each) for each in value]) if type(value) is tuple else (type(value), value)


def bind(cls: type[Operator], name: str, arguments: Mapping[str, Any]) -> Operator:
    """The operator with these arguments.

    Raises ArgumentError for an unknown, a missing, or an ill-typed argument, naming the operator.
    """
    known = field_types(cls)
    if unknown := [each for each in arguments if each not in known]:
        raise ArgumentError(f"{name} has no argument {unknown[0]!r}; it has {', '.join(known) or 'none'}")
    required = [item.name for item in fields_of(cls) if item.default is MISSING and item.default_factory is MISSING]
    if missing := [each for each in required if each not in arguments]:
        raise ArgumentError(f"{name} needs the argument {missing[0]}: {type_name(known[missing[0]])}")
    try:
        return cls(**arguments)
    except ArgumentError as error:
        message = str(error)
        raise ArgumentError(message if message.startswith(name) else f"{name}: {message}") from None


def _explain_unknown(registry: OperatorRegistry, namespace: str) -> str:
    import difflib

    if namespace in FIRST_PARTY:
        return f"there are no {namespace} operators; {bring(namespace)}"
    if meant := [name for name in registry.names() if name.endswith(f".{namespace}")]:
        return f"there are no operators {namespace!r}; did you mean {' or '.join(f'ops.{name}' for name in meant[:3])}?"
    known = ["map", *registry.namespaces()]
    if similar := difflib.get_close_matches(namespace, known, 1):
        return f"there are no operators {namespace!r}; did you mean ops.{similar[0]}?"
    return f"there are no operators {namespace!r}; there are {', '.join(known)}"


def operator_call(registry: OperatorRegistry, name: str) -> OperatorCall:
    """The operator of this name, loaded. Raises DeclarationError when the entry point names no operator."""
    loaded = registry.load(name)
    if not issubclass(loaded, Operator):
        raise DeclarationError(
            f"{registry.entry(name).target}, the entry point of {name}, is {loaded!r}, not a subclass of Operator"
        )
    if taken := [each for each in ("name", "device", "key") if each in field_types(loaded)]:
        raise DeclarationError(
            f"{declaration_place(loaded)}: {name} has a field {taken[0]!r}, which calls take for themselves; rename it"
        )
    loaded.registered_name = name
    return OperatorCall(name, loaded)


ops = Operators(default_registry)
