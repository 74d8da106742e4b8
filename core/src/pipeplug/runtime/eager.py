"""Operators on data, computed at once: an array is one sample, a Batch a batch.

Inside `with eager(seed=…)` state, such as decoders, stays open between calls and random numbers follow from the seed
and the number of the call. Outside of it state opens and closes in each call and random numbers are fresh.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from itertools import count
from typing import Any

import numpy as np

from pipeplug.errors import ArgumentError, GraphError, SpecError
from pipeplug.graph.graph import Node
from pipeplug.graph.inference import infer_call
from pipeplug.graph.placement import check_device
from pipeplug.operator import Call, Operator, calling, shapes_drawn_from, user_location
from pipeplug.runtime.context import BatchContext, SampleContext
from pipeplug.runtime.invoke import constants_of, outputs_of, whole_constants, wrap
from pipeplug.runtime.iteration import Column, Iteration, Rows
from pipeplug.runtime.randomness import Draws, check_seed, key_hash
from pipeplug.runtime.session import open_operator
from pipeplug.source import Source
from pipeplug.spec import TensorSpec
from pipeplug.tensor import Array, Batch, Tensor


@contextmanager
def eager(*, seed: int = 0) -> Iterator[None]:
    """Keeps the state of eager calls open and their random numbers reproducible inside the block."""
    check_seed(seed)
    with ExitStack() as states:
        session = EagerSession(seed, states)
        with calling(session):
            yield


class SingleCalls:
    """Eager calls outside of any block."""

    def call(self, call: Call) -> Any:
        if not hasattr(call.operator, "open"):
            return compute(call, secrets.randbits(64), range(1), None)
        with open_operator(_node(call.operator, call.name)) as state:
            return compute(call, secrets.randbits(64), range(1), state)

    def transfer(self, value: Any, device: str) -> Any:
        check_device(device, "to()")
        return value


class EagerSession(SingleCalls):
    """Eager calls inside a block."""

    def __init__(self, seed: int, states: ExitStack) -> None:
        self._seed = seed
        self._states = states
        self._open: dict[Operator, object] = {}
        self._positions = count()

    def call(self, call: Call) -> Any:
        operator = call.operator
        state = None
        if hasattr(operator, "open"):
            if operator not in self._open:
                self._open[operator] = self._states.enter_context(open_operator(_node(operator, call.name)))
            state = self._open[operator]
        return compute(call, self._seed, self._positions, state)


SINGLE_CALLS = SingleCalls()


@lru_cache(maxsize=256)
def _node(operator: Operator, name: str | None) -> Node:
    return Node(name or operator.title(), operator, operator.title())


def compute(call: Call, seed: int, positions: Any, state: object) -> Any:
    """The outputs of a call on data; random numbers are those of the next of `positions`."""
    operator = call.operator
    if isinstance(operator, Source):
        raise GraphError(f"{operator.title()} is a source, which only a pipeline reads; see @pipeline")
    check_device(call.device or "cpu", operator.title())
    kernel = operator.kernels["cpu"]
    inputs = [_as_input(value) for value in call.inputs]
    length = _batch_length(inputs, call)
    rows = 1 if length is None else length
    specs, names = _infer(operator, tuple(_spec_of(value) for value in inputs))
    node = Node(call.name or operator.title(), operator, operator.title(), specs=specs, output_names=names)
    keywords = {name: _column(value, rows) for name, value in call.per_sample.items()}
    if hasattr(operator, "draw"):
        own = [next(iter(positions)) for _ in range(rows)]
        random = Draws(seed, key_hash(call.key or node.name), 0, own)
        keywords |= _drawn(operator, random, inputs, length)
    constants = constants_of(node, {node.name: state} if state is not None else {})
    run = _batch_kernel if kernel.batched else _sample_kernel
    results = run(node, inputs, keywords, constants, length)
    if names is None:
        return results[0]
    return dict(zip(names, results, strict=True)) if names else tuple(results)


@lru_cache(maxsize=1024)
def _infer(operator: Operator, inputs: tuple[TensorSpec, ...]) -> Any:
    return infer_call(operator, operator.title(), user_location(), inputs)


def _as_input(value: object) -> Any:
    if isinstance(value, np.ndarray):
        return Tensor(value)
    if isinstance(value, (int, float, np.generic)):
        return Tensor(np.asarray(value))
    return value


def _spec_of(value: Any) -> TensorSpec:
    return value.spec if isinstance(value, (Tensor, Batch)) else TensorSpec.object()


def _batch_length(inputs: Sequence[Any], call: Call) -> int | None:
    """The number of samples of the batches among the inputs; None when there are only single samples."""
    lengths = {len(value) for value in inputs if isinstance(value, Batch)}
    if len(lengths) > 1 or (lengths and not all(isinstance(value, Batch) for value in inputs)):
        raise SpecError(f"{call.operator.title()}: give single samples, or batches of one length")
    return lengths.pop() if lengths else None


def _column(value: Any, rows: int) -> Any:
    column = value.list() if isinstance(value, Batch) else value
    if len(column) != rows:
        raise ArgumentError(f"an argument that varies by sample has {len(column)} entries for {rows} samples")
    return column


def _drawn(operator: Operator, random: Draws, inputs: Sequence[Any], length: int | None) -> Mapping[str, Array]:
    declared: Any = operator
    drawn_from = [inputs[place] for place in shapes_drawn_from(type(operator))]
    shapes = [_shapes(value, length) for value in drawn_from]
    drawn: Mapping[str, Array] = declared.draw(random, *shapes)
    return drawn


def _shapes(value: Any, length: int | None) -> Array:
    samples = [value] if length is None else value
    return np.array([sample.shape for sample in samples], np.int64)


def _sample_kernel(
    node: Node, inputs: Sequence[Any], keywords: Mapping[str, Any], constants: Mapping[str, object], length: int | None
) -> list[Any]:
    function: Callable[..., Any] = getattr(node.operator, "cpu")  # noqa: B009 - `Operator` has no kernel itself
    context = SampleContext("cpu", np.empty)
    rows = []
    for row in range(1 if length is None else length):
        samples = inputs if length is None else [batch[row] for batch in inputs]
        varying = {name: column[row] for name, column in keywords.items()}
        result = function(*samples, context=context, **constants, **varying)
        rows.append([_checked(value, node, place) for place, value in enumerate(outputs_of(node, result))])
    if length is None:
        return rows[0]
    return [_gathered(values, spec) for values, spec in zip(zip(*rows, strict=True), node.specs, strict=True)]


def _checked(value: Any, node: Node, output: int) -> Any:
    spec = node.specs[output]
    if spec.dtype is not None and not spec.is_object and not isinstance(value, (Tensor, np.ndarray)):
        value = np.asarray(value)
    return wrap(value, spec.layout)


def _gathered(values: Sequence[Any], spec: TensorSpec) -> Batch:
    column = Column.unfilled(spec, len(values), np.empty)
    for row, value in enumerate(values):
        column.put(row, value)
    return column.batch(range(len(values)), np.empty)


def _batch_kernel(
    node: Node, inputs: Sequence[Any], keywords: Mapping[str, Any], constants: Mapping[str, object], length: int | None
) -> list[Any]:
    function: Callable[..., Any] = getattr(node.operator, "cpu")  # noqa: B009 - `Operator` has no kernel itself
    rows = 1 if length is None else length
    batches = [_one(value) if length is None else value for value in inputs]
    none = np.zeros(rows, np.int64)
    iteration = Iteration(0, 0, Rows(none, none), lambda index: "the call's input")
    context = BatchContext("cpu", np.empty, iteration, range(rows), 0)
    columns = whole_constants(constants, rows)
    results = outputs_of(node, function(*batches, context=context, **columns, **keywords))
    if context.failed:
        raise next(iter(context.failed.values()))
    gathered = [
        Column.filled(values, spec.layout, range(rows), rows).batch(range(rows), np.empty)
        for values, spec in zip(results, node.specs, strict=True)
    ]
    return [batch[0] for batch in gathered] if length is None else gathered


def _one(value: Any) -> Batch:
    return Batch.ragged([value]) if isinstance(value, Tensor) else Batch.objects([value])
