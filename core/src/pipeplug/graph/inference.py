"""What an operator makes of the specs of its inputs, with errors that name the call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeplug.errors import DeclarationError, PipeplugError, SpecError
from pipeplug.operator import Operator
from pipeplug.spec import TensorSpec


def infer(operator: Operator, inputs: Sequence[TensorSpec]) -> tuple[tuple[TensorSpec, ...], tuple[str, ...] | None]:
    """The specs of the outputs, and their names: None for a single output without a name."""
    declared: Any = operator
    inferred = declared.infer(*inputs)
    if isinstance(inferred, TensorSpec):
        return (inferred,), None
    if isinstance(inferred, Mapping):
        return _checked(operator, tuple(inferred.values())), tuple(inferred)
    return _checked(operator, tuple(inferred)), ()


def _checked(operator: Operator, specs: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
    if all(isinstance(spec, TensorSpec) for spec in specs):
        return specs
    raise DeclarationError(f"{type(operator).__name__}.infer gives a TensorSpec, or a tuple or dict of them")


def infer_call(
    operator: Operator, name: str, location: str, inputs: Sequence[TensorSpec]
) -> tuple[tuple[TensorSpec, ...], tuple[str, ...] | None]:
    """As `infer`, for a call: its errors say which call it was."""
    check_input_count(operator, name, location, len(inputs))
    try:
        return infer(operator, inputs)
    except PipeplugError as error:
        kind = type(error) if isinstance(error, (SpecError, DeclarationError)) else SpecError
        raise kind(f"{name} at {location}: {error}") from error


def check_input_count(operator: Operator, name: str, location: str, count: int) -> None:
    """Raises SpecError unless the kernels take `count` inputs."""
    for kernel in operator.kernels.values():
        if count == len(kernel.inputs) or (kernel.variadic and count >= len(kernel.inputs) - 1):
            continue
        wanted = ", ".join(kernel.inputs) or "nothing"
        raise SpecError(f"{name} at {location}: takes {len(kernel.inputs)} input(s) ({wanted}), got {count}")


def infers_shape(operator: Operator, inputs: Sequence[TensorSpec], output: int) -> bool:
    """Whether known shapes of all inputs are enough to know the shape of an output."""
    probes = [_filled(spec) for spec in inputs]
    if not all(spec.is_static for spec in probes):
        return False
    try:
        return infer(operator, probes)[0][output].is_static
    except (PipeplugError, ArithmeticError):
        return False


def _filled(spec: TensorSpec) -> TensorSpec:
    if spec.shape is None:
        return spec
    return spec.with_shape(64 if size is None else size for size in spec.shape)
