"""What eager calls of one operator on inputs of one kind share, and their arguments that vary by sample."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from pipeplug.batch import Batch
from pipeplug.errors import ArgumentError, GraphError, SpecError
from pipeplug.graph.derived import draw_arguments
from pipeplug.graph.graph import Node
from pipeplug.graph.inference import infer_call
from pipeplug.graph.placement import device_named, kind_of
from pipeplug.operator import Call, Operator, shapes_drawn_from
from pipeplug.runtime.iteration import Iteration, Rows
from pipeplug.runtime.memory import Memory
from pipeplug.runtime.program import constants_of
from pipeplug.runtime.randomness import Draws
from pipeplug.signature import user_location
from pipeplug.source import Source
from pipeplug.spec import TensorSpec
from pipeplug.tensor import Array, Tensor

Random: TypeAlias = Callable[[Call, int], Draws]
"""Gives a call's random numbers for a number of samples."""

MemoryOf: TypeAlias = Callable[[str], AbstractContextManager[Memory]]
"""Gives the memory of a device inside a block."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What calls of one operator on inputs of one kind share."""

    node: Node
    function: Callable[..., Any]
    constants: Mapping[str, object]
    batched: bool
    draws: bool


def device_of_call(call: Call) -> str:
    """Where a call runs: where it is asked to, else where its inputs are."""
    title = call.operator.title()
    if call.device is not None:
        device = device_named(call.device, title)
    else:
        places = {value.device for value in call.inputs if isinstance(value, (Tensor, Batch)) and not _is_object(value)}
        device = next((place for place in sorted(places) if place != "cpu"), "cpu")
    if not isinstance(call.operator, Source) and kind_of(device) not in call.operator.devices():
        devices = ", ".join(call.operator.devices()) or "nothing"
        raise GraphError(f"{title} has no kernel for {kind_of(device)}, only for: {devices}")
    return device


def _is_object(value: Tensor | Batch) -> bool:
    return isinstance(value, Batch) and value.is_object


def prepare(operator: Operator, inputs: Sequence[Any], kind: str) -> Prepared:
    # Kept in the operator, so that it goes when the operator goes; being no field, it is no part of its value.
    known: dict[object, Prepared] = vars(operator).setdefault("_prepared", {})
    kinds = (kind, *[_kind_of(value) for value in inputs])
    prepared = known.get(kinds)
    if prepared is None:
        if len(known) >= 256:
            known.clear()
        prepared = known[kinds] = _new_prepared(operator, inputs, kind)
    return prepared


def _kind_of(value: Any) -> object:
    if isinstance(value, Tensor):
        array = value.data
        return array.shape, array.dtype, value.layout
    return value.spec if isinstance(value, Batch) else None


def _new_prepared(operator: Operator, inputs: Sequence[Any], kind: str) -> Prepared:
    title = operator.title()
    if isinstance(operator, Source):
        raise GraphError(f"{title} is a source, which only a pipeline reads; see @pipeline")
    specs, names = infer_call(operator, title, user_location(), [_spec_of(value) for value in inputs])
    node = Node(title, operator, title, specs=specs, output_names=names)
    return Prepared(
        node, getattr(operator, kind), constants_of(node, {}), operator.kernels[kind].batched, hasattr(operator, "draw")
    )


def _spec_of(value: Any) -> TensorSpec:
    return value.spec if isinstance(value, (Tensor, Batch)) else TensorSpec.object()


def batch_length(inputs: Sequence[Any]) -> int | None:
    """The number of samples of the batches among the inputs; None when there are only single samples."""
    lengths = [len(value) for value in inputs if isinstance(value, Batch)]
    if not lengths:
        return None
    if len(lengths) < len(inputs) or len(set(lengths)) > 1:
        raise SpecError("the inputs are neither all single samples nor all batches of one length")
    return lengths[0]


def _column(name: str, value: Any, rows: int) -> Any:
    column = value.list() if isinstance(value, Batch) else value
    if len(column) != rows:
        raise ArgumentError(f"{name} has {len(column)} entries for {rows} sample(s)")
    return column


def _drawn(operator: Operator, random: Draws, inputs: Sequence[Any], length: int | None) -> Mapping[str, Array]:
    drawn_from = (inputs[place] for place in shapes_drawn_from(type(operator)))
    return draw_arguments(operator, random, [_shapes(value, length) for value in drawn_from])


def _shapes(value: Any, length: int | None) -> Array:
    samples = [value] if length is None else value
    if not all(isinstance(sample, Tensor) for sample in samples):
        raise SpecError("random numbers that depend on an input's shape need a tensor, not an object")
    return np.array([sample.shape for sample in samples], np.int64)


def keywords_of(
    call: Call, prepared: Prepared, inputs: Sequence[Any], random: Random, length: int | None
) -> dict[str, Any]:
    """The arguments that vary by sample, a row a sample."""
    keywords: dict[str, Any] = {}
    if call.per_sample or prepared.draws:
        rows = 1 if length is None else length
        keywords = {name: _column(name, value, rows) for name, value in call.per_sample.items()}
        if prepared.draws:
            keywords |= _drawn(call.operator, random(call, rows), inputs, length)
    return keywords


def of_a_call(rows: int) -> Iteration:
    """The iteration that a call stands for."""
    none = np.zeros(rows, np.int64)
    return Iteration(0, 0, Rows(none, none), lambda index: "the call's input")


def one(value: Any) -> Batch:
    """A batch of one sample."""
    if not isinstance(value, Tensor):
        return Batch.objects([value])
    array = value.data
    return Batch.equal(array[None], value.layout) if isinstance(array, np.ndarray) else Batch.ragged([value])
