"""Operators on data, computed at once: an array is one sample, a Batch a batch.

Inside `with eager(seed=…)` state, such as decoders, stays open between calls and random numbers follow from the seed
and the number of the call. Outside of it state opens and closes in each call and random numbers are fresh.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from pipeplug.errors import ArgumentError, GraphError, SpecError
from pipeplug.graph.derived import draw_arguments
from pipeplug.graph.graph import Node
from pipeplug.graph.inference import infer_call
from pipeplug.graph.placement import check_device
from pipeplug.operator import Call, Operator, calling, shapes_drawn_from
from pipeplug.runtime.column import Column, array_of, as_input, check_value
from pipeplug.runtime.context import BatchContext, SampleContext
from pipeplug.runtime.invoke import outputs_of, whole_constants
from pipeplug.runtime.iteration import Iteration, Rows
from pipeplug.runtime.program import constants_of
from pipeplug.runtime.randomness import Draws, check_seed, key_hash
from pipeplug.runtime.session import open_operator
from pipeplug.signature import STATE, user_location
from pipeplug.source import Source
from pipeplug.spec import TensorSpec
from pipeplug.tensor import Array, Batch, Tensor, read_only

Random: TypeAlias = Callable[[Call, int], Draws]
"""Gives a call's random numbers for a number of samples."""


@contextmanager
def eager(*, seed: int = 0) -> Iterator[None]:
    """Keeps the state of eager calls open and their random numbers reproducible inside the block.

    Each call draws new numbers; calls with the same `key=` draw the same ones.
    """
    check_seed(seed)
    with ExitStack() as states:
        session = EagerSession(seed, states)
        with calling(session):
            yield


class SingleCalls:
    """Eager calls outside of any block."""

    def call(self, call: Call) -> Any:
        if not hasattr(call.operator, "open"):
            return compute(call, _fresh_numbers, {})
        with _open(call.operator) as state:
            return compute(call, _fresh_numbers, {STATE: state})

    def transfer(self, value: Any, device: str) -> Any:
        check_device(device, "to()")
        return value


class EagerSession(SingleCalls):
    """Eager calls inside a block."""

    def __init__(self, seed: int, states: ExitStack) -> None:
        self._seed = seed
        self._states = states
        self._open: dict[object, tuple[Operator, Mapping[str, object]]] = {}
        self._drawn = 0

    def call(self, call: Call) -> Any:
        state = self._state(call.operator) if hasattr(call.operator, "open") else {}
        return compute(call, self._numbers, state)

    def _state(self, operator: Operator) -> Mapping[str, object]:
        key = operator if _is_hashable(operator) else id(operator)
        if key not in self._open:
            self._open[key] = operator, {STATE: self._states.enter_context(_open(operator))}
        return self._open[key][1]

    def _numbers(self, call: Call, rows: int) -> Draws:
        if call.key is not None:
            return Draws(self._seed, key_hash(call.key), 0, range(rows))
        first, self._drawn = self._drawn, self._drawn + rows
        return Draws(self._seed, key_hash(call.name or call.operator.title()), 0, range(first, first + rows))


SINGLE_CALLS = SingleCalls()


class _CallsOfKernels(SingleCalls):
    """Eager calls in a function that a pipeline runs, whose random numbers would be others each time."""

    def call(self, call: Call) -> Any:
        if hasattr(call.operator, "draw"):
            raise GraphError(
                f"{call.operator.title()} draws random numbers, which inside of a function of ops.map, or of a kernel, "
                "would be others in every run; apply it in the pipeline, or inside of pipeplug.eager(seed=…)"
            )
        return super().call(call)


CALLS_OF_KERNELS = _CallsOfKernels()


def _fresh_numbers(call: Call, rows: int) -> Draws:
    return Draws(secrets.randbits(64), 0, 0, range(rows))


def _open(operator: Operator) -> Any:
    return open_operator(Node(operator.title(), operator, operator.title()))


def _is_hashable(operator: Operator) -> bool:
    try:
        hash(operator)
    except TypeError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What calls of one operator on inputs of one kind share."""

    node: Node
    function: Callable[..., Any]
    constants: Mapping[str, object]
    batched: bool
    draws: bool


def compute(call: Call, random: Random, state: Mapping[str, object]) -> Any:
    """The outputs of a call on data."""
    operator = call.operator
    if call.device is not None:
        check_device(call.device, operator.title())
    inputs = [read_only(value if isinstance(value, (Tensor, Batch)) else _as_input(value)) for value in call.inputs]
    prepared = _prepare(operator, inputs)
    try:
        results = _run(call, prepared, inputs, random, {**prepared.constants, **state})
    except Exception as error:
        error.add_note(f"in {operator.title()}, called on {_described(inputs)}")
        raise
    names = prepared.node.output_names
    if names is None:
        return results[0]
    return dict(zip(names, results, strict=True)) if names else tuple(results)


def _run(
    call: Call, prepared: _Prepared, inputs: Sequence[Any], random: Random, constants: Mapping[str, object]
) -> list[Any]:
    length = _batch_length(inputs)
    if length == 0:
        return [Column.unfilled(spec, 0, np.empty).batch((), np.empty) for spec in prepared.node.specs]
    keywords: dict[str, Any] = {}
    if call.per_sample or prepared.draws:
        rows = 1 if length is None else length
        keywords = {name: _column(name, value, rows) for name, value in call.per_sample.items()}
        if prepared.draws:
            keywords |= _drawn(call.operator, random(call, rows), inputs, length)
    if prepared.batched:
        return _run_batch(prepared, inputs, keywords, constants, length)
    if length is None:
        return _run_sample(prepared, inputs, {**constants, **{name: rows[0] for name, rows in keywords.items()}})
    return _run_samples(prepared, inputs, keywords, constants, length)


def _described(inputs: Sequence[Any]) -> str:
    return ", ".join(f"{value!r:.60}" + ("…" if len(repr(value)) > 60 else "") for value in inputs) or "nothing"


def _as_input(value: object) -> Any:
    if isinstance(value, np.ndarray):
        return Tensor(value)
    array = np.asarray(value) if isinstance(value, (int, float)) else array_of(value)
    return value if array is None else Tensor(array)


def _prepare(operator: Operator, inputs: Sequence[Any]) -> _Prepared:
    # Kept in the operator, so that it goes when the operator goes; being no field, it is no part of its value.
    known: dict[object, _Prepared] = vars(operator).setdefault("_prepared", {})
    kinds = tuple([_kind_of(value) for value in inputs])
    prepared = known.get(kinds)
    if prepared is None:
        if len(known) >= 256:
            known.clear()
        prepared = known[kinds] = _new_prepared(operator, inputs)
    return prepared


def _kind_of(value: Any) -> object:
    if isinstance(value, Tensor):
        array = value.numpy()
        return array.shape, array.dtype, value.layout
    return value.spec if isinstance(value, Batch) else None


def _new_prepared(operator: Operator, inputs: Sequence[Any]) -> _Prepared:
    title = operator.title()
    if isinstance(operator, Source):
        raise GraphError(f"{title} is a source, which only a pipeline reads; see @pipeline")
    if "cpu" not in operator.kernels:
        raise GraphError(f"{title} has no kernel for cpu, only for: {', '.join(operator.kernels) or 'nothing'}")
    specs, names = infer_call(operator, title, user_location(), [_spec_of(value) for value in inputs])
    node = Node(title, operator, title, specs=specs, output_names=names)
    declared: Any = operator
    return _Prepared(
        node, declared.cpu, constants_of(node, {}), operator.kernels["cpu"].batched, hasattr(operator, "draw")
    )


def _spec_of(value: Any) -> TensorSpec:
    return value.spec if isinstance(value, (Tensor, Batch)) else TensorSpec.object()


def _batch_length(inputs: Sequence[Any]) -> int | None:
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


def _run_sample(prepared: _Prepared, inputs: Sequence[Any], keywords: Mapping[str, Any]) -> list[Any]:
    node = prepared.node
    result = prepared.function(*inputs, context=SampleContext("cpu", np.empty), **keywords)
    return [_checked(value, spec) for value, spec in zip(outputs_of(node, result), node.specs, strict=True)]


def _checked(value: Any, spec: TensorSpec) -> Any:
    """A result as a Tensor or an object; DeclarationError when it is not what `infer` says."""
    value = as_input(value, spec)
    check_value(spec, value)
    return value


def _run_samples(
    prepared: _Prepared,
    inputs: Sequence[Batch],
    keywords: Mapping[str, Any],
    constants: Mapping[str, object],
    length: int,
) -> list[Any]:
    columns = [Column.unfilled(spec, length, np.empty) for spec in prepared.node.specs]
    for row in range(length):
        varying = {name: column[row] for name, column in keywords.items()}
        try:
            results = _run_sample(prepared, [batch[row] for batch in inputs], {**constants, **varying})
        except Exception as error:
            error.add_note(f"in row {row} of the batch")
            raise
        for column, value in zip(columns, results, strict=True):
            column.put(row, value)
    return [column.batch(range(length), np.empty) for column in columns]


def _run_batch(
    prepared: _Prepared,
    inputs: Sequence[Any],
    keywords: Mapping[str, Any],
    constants: Mapping[str, object],
    length: int | None,
) -> list[Any]:
    node, rows = prepared.node, 1 if length is None else length
    batches = [_one(value) if length is None else value for value in inputs]
    none = np.zeros(rows, np.int64)
    iteration = Iteration(0, 0, Rows(none, none), lambda index: "the call's input")
    context = BatchContext("cpu", np.empty, iteration, range(rows), 0)
    result = prepared.function(*batches, context=context, **whole_constants(constants, rows), **keywords)
    if context.failed:
        raise next(iter(context.failed.values()))
    gathered = [
        Column.filled(values, spec.layout, range(rows), rows).batch(range(rows), np.empty)
        for values, spec in zip(outputs_of(node, result), node.specs, strict=True)
    ]
    return [batch[0] for batch in gathered] if length is None else gathered


def _one(value: Any) -> Batch:
    return Batch.equal(value.numpy()[None], value.layout) if isinstance(value, Tensor) else Batch.objects([value])
