"""What an operator makes of the specs of its inputs, with errors that name the call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeplug.errors import DeclarationError, PipeplugError, SpecError
from pipeplug.operator import Operator, per_sample_fields
from pipeplug.signature import check_is_given
from pipeplug.source import Source
from pipeplug.spec import TensorSpec


def infer(operator: Operator, inputs: Sequence[TensorSpec]) -> tuple[tuple[TensorSpec, ...], tuple[str, ...] | None]:
    """The specs of the outputs, and their names: None for a single output without a name."""
    declared: Any = operator
    if not hasattr(declared, "infer"):
        raise DeclarationError(f"{type(operator).__name__} has no infer(self, …) -> TensorSpec")
    inferred = declared.infer(*inputs)
    if isinstance(inferred, TensorSpec):
        return (inferred,), None
    specs = tuple(inferred.values()) if isinstance(inferred, Mapping) else inferred
    if not isinstance(specs, tuple) or not all(isinstance(spec, TensorSpec) for spec in specs):
        raise DeclarationError(
            f"{type(operator).__name__}.infer gives a TensorSpec, or a tuple or dict of them, not {inferred!r:.80}"
        )
    return specs, tuple(inferred) if isinstance(inferred, Mapping) else ()


def infer_call(
    operator: Operator, name: str, location: str, inputs: Sequence[TensorSpec]
) -> tuple[tuple[TensorSpec, ...], tuple[str, ...] | None]:
    """As `infer`, for a call: its errors say which call it was."""
    for kernel in operator.kernels.values():
        check_is_given(type(operator), kernel, per_sample_fields(type(operator)))
    check_input_count(operator, name, location, len(inputs))
    try:
        return infer(operator, inputs)
    except PipeplugError as error:
        kind = type(error) if isinstance(error, (SpecError, DeclarationError)) else SpecError
        raise kind(f"{name} at {location}: {error}") from error
    except Exception as error:
        error.add_note(f"in infer of {name} at {location}, for inputs {', '.join(map(str, inputs)) or 'none'}")
        raise


def check_input_count(operator: Operator, name: str, location: str, count: int) -> None:
    """Raises SpecError unless the kernels take `count` inputs."""
    for kernel in operator.kernels.values():
        least = len(kernel.inputs) - kernel.variadic
        if count == least or (kernel.variadic and count > least):
            continue
        wanted = ", ".join(kernel.inputs) or "nothing"
        number = f"at least {least}" if kernel.variadic else str(least)
        raise SpecError(f"{name} at {location}: takes {number} input(s) ({wanted}), got {count}")
    if isinstance(operator, Source) and count:
        raise SpecError(f"{name} at {location}: a source takes arguments and no inputs, got {count}")


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
