"""Operators on data, computed at once: an array is one sample, a Batch a batch.

Inside `with eager(seed=…)` state, such as decoders, stays open between calls and random numbers follow from the seed
and the number of the call. Outside of it state opens and closes in each call and random numbers are fresh.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from pipeplug.errors import ArgumentError, GraphError, SpecError
from pipeplug.graph.derived import draw_arguments
from pipeplug.graph.graph import Node
from pipeplug.graph.inference import infer_call
from pipeplug.graph.placement import device_named, kind_of
from pipeplug.operator import Call, Operator, calling, shapes_drawn_from
from pipeplug.runtime.column import Column, array_of, as_input, check_value
from pipeplug.runtime.context import BatchContext, SampleContext
from pipeplug.runtime.cuda_context import CudaBatchContext
from pipeplug.runtime.invoke import outputs_of, whole_constants
from pipeplug.runtime.iteration import Iteration, Rows
from pipeplug.runtime.memory import Memory
from pipeplug.runtime.program import constants_of
from pipeplug.runtime.randomness import Draws, check_seed, key_hash
from pipeplug.runtime.session import open_operator
from pipeplug.signature import STATE, user_location
from pipeplug.source import Source
from pipeplug.spec import TensorSpec
from pipeplug.tensor import Array, Batch, Tensor, read_only

Random: TypeAlias = Callable[[Call, int], Draws]
"""Gives a call's random numbers for a number of samples."""

MemoryOf: TypeAlias = Callable[[str], AbstractContextManager[Memory]]
"""Gives the memory of a device inside a block."""


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
            return compute(call, _fresh_numbers, {}, self.memory)
        with _open(call.operator) as state:
            return compute(call, _fresh_numbers, {STATE: state}, self.memory)

    def transfer(self, value: Any, device: str) -> Any:
        return transferred(value, device_named(device, "to()"), self.memory)

    @contextmanager
    def memory(self, device: str) -> Iterator[Memory]:
        """Memory of a device for one call; what it gives outlives the block."""
        memory = Memory({}, (device,))
        try:
            yield memory
        finally:
            memory.close()


class EagerSession(SingleCalls):
    """Eager calls inside a block."""

    def __init__(self, seed: int, states: ExitStack) -> None:
        self._seed = seed
        self._states = states
        self._open: dict[object, tuple[Operator, Mapping[str, object]]] = {}
        self._drawn = 0
        self._memories: dict[str, Memory] = {}

    def call(self, call: Call) -> Any:
        with self.memory(_device_of(call)):  # before the state, which has memory of it
            state = self._state(call.operator) if hasattr(call.operator, "open") else {}
        return compute(call, self._numbers, state, self.memory)

    @contextmanager
    def memory(self, device: str) -> Iterator[Memory]:
        """Memory of a device, kept for the calls that follow."""
        if device not in self._memories:
            memory = self._memories[device] = Memory({}, (device,))
            self._states.callback(memory.close)
        yield self._memories[device]

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


def _device_of(call: Call) -> str:
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


def compute(call: Call, random: Random, state: Mapping[str, object], memory: MemoryOf) -> Any:
    """The outputs of a call on data."""
    operator, device = call.operator, _device_of(call)
    inputs = [read_only(value if isinstance(value, (Tensor, Batch)) else _as_input(value)) for value in call.inputs]
    prepared = _prepare(operator, inputs, kind_of(device))
    try:
        constants = {**prepared.constants, **state}
        if device == "cpu":
            results = _run(call, prepared, inputs, random, constants)
        else:
            with memory(device) as opened:
                results = run_on_device(call, prepared, inputs, random, constants, opened, device)
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
    if elsewhere := [value.device for value in inputs if isinstance(value, (Tensor, Batch)) and value.device != "cpu"]:
        raise SpecError(f"an input is on {elsewhere[0]}: take input.to('cpu'), or call with device={elsewhere[0]!r}")
    length = _batch_length(inputs)
    if length == 0:
        return [Column.unfilled(spec, 0, np.empty).batch((), np.empty) for spec in prepared.node.specs]
    keywords = _keywords(call, prepared, inputs, random, length)
    if prepared.batched:
        return _run_batch(prepared, inputs, keywords, constants, length)
    if length is None:
        return _run_sample(prepared, inputs, {**constants, **{name: rows[0] for name, rows in keywords.items()}})
    return _run_samples(prepared, inputs, keywords, constants, length)


def _keywords(
    call: Call, prepared: _Prepared, inputs: Sequence[Any], random: Random, length: int | None
) -> dict[str, Any]:
    """The arguments that vary by sample, a row a sample."""
    keywords: dict[str, Any] = {}
    if call.per_sample or prepared.draws:
        rows = 1 if length is None else length
        keywords = {name: _column(name, value, rows) for name, value in call.per_sample.items()}
        if prepared.draws:
            keywords |= _drawn(call.operator, random(call, rows), inputs, length)
    return keywords


def _described(inputs: Sequence[Any]) -> str:
    return ", ".join(f"{value!r:.60}" + ("…" if len(repr(value)) > 60 else "") for value in inputs) or "nothing"


def _as_input(value: object) -> Any:
    if isinstance(value, np.ndarray):
        return Tensor(value)
    array = np.asarray(value) if isinstance(value, (int, float)) else array_of(value)
    return value if array is None else Tensor(array)


def _prepare(operator: Operator, inputs: Sequence[Any], kind: str) -> _Prepared:
    # Kept in the operator, so that it goes when the operator goes; being no field, it is no part of its value.
    known: dict[object, _Prepared] = vars(operator).setdefault("_prepared", {})
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


def _new_prepared(operator: Operator, inputs: Sequence[Any], kind: str) -> _Prepared:
    title = operator.title()
    if isinstance(operator, Source):
        raise GraphError(f"{title} is a source, which only a pipeline reads; see @pipeline")
    specs, names = infer_call(operator, title, user_location(), [_spec_of(value) for value in inputs])
    node = Node(title, operator, title, specs=specs, output_names=names)
    return _Prepared(
        node, getattr(operator, kind), constants_of(node, {}), operator.kernels[kind].batched, hasattr(operator, "draw")
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
    batches = [one(value) if length is None else value for value in inputs]
    context = BatchContext("cpu", np.empty, of_a_call(rows), range(rows), 0)
    result = prepared.function(*batches, context=context, **whole_constants(constants, rows), **keywords)
    if context.failed:
        raise next(iter(context.failed.values()))
    gathered = [
        Column.filled(values, spec.layout, range(rows), rows).batch(range(rows), np.empty)
        for values, spec in zip(outputs_of(node, result), node.specs, strict=True)
    ]
    return [batch[0] for batch in gathered] if length is None else gathered


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


def run_on_device(
    call: Call,
    prepared: _Prepared,
    inputs: Sequence[Any],
    random: Random,
    constants: Mapping[str, object],
    memory: Memory,
    device: str,
) -> list[Any]:
    """The outputs of a call on a GPU; inputs of the host are copied to it."""
    length = _batch_length(inputs)
    rows = 1 if length is None else length
    keywords = _keywords(call, prepared, inputs, random, length)
    batches = [value if isinstance(value, Batch) else one(value) for value in inputs]
    with device_work(memory, device, rows) as work:
        moved = [work.moved(batch) for batch in batches]
        for batch in moved:
            if not batch.is_object:
                batch.samples.use(work.stream)
        if prepared.batched:
            columns = {name: np.asarray(column) for name, column in keywords.items()}
            results = outputs_of(
                prepared.node,
                prepared.function(*moved, context=work, **whole_constants(constants, rows), **columns),
            )
            if work.failed:
                raise next(iter(work.failed.values()))
            gathered = [
                work.as_batch(values, spec.layout) for values, spec in zip(results, prepared.node.specs, strict=True)
            ]
        else:
            gathered = _each(prepared, moved, keywords, constants, work, rows)
        gathered = [memory.packed(batch) if batch.device != "cpu" else batch for batch in gathered]
    return [batch[0] for batch in gathered] if length is None else gathered


def _each(
    prepared: _Prepared,
    batches: Sequence[Batch],
    keywords: Mapping[str, Any],
    constants: Mapping[str, object],
    work: CudaBatchContext,
    rows: int,
) -> list[Batch]:
    """The outputs of a per-sample kernel, sample by sample."""
    outputs: list[list[Any]] = [[] for _ in prepared.node.specs]
    for row in range(rows):
        varying = {name: column[row] for name, column in keywords.items()}
        result = prepared.function(*[batch[row] for batch in batches], context=work, **constants, **varying)
        for samples, value in zip(outputs, outputs_of(prepared.node, result), strict=True):
            samples.append(value)
    return [Batch.ragged(samples) for samples in outputs]


@contextmanager
def device_work(memory: Memory, device: str, rows: int) -> Iterator[CudaBatchContext]:
    """The context of one call on a GPU; what it makes is ready for others behind the block."""
    gpu = memory.device(device)
    with gpu.stream() as stream:
        work = CudaBatchContext(gpu, memory.staging(), stream, of_a_call(rows), range(rows), 0)
        try:
            yield work
        finally:
            work.end()


def transferred(value: Any, device: str, memory_of: MemoryOf) -> Any:
    """A tensor or batch on a device: itself where it is there, else a copy."""
    batch = value if isinstance(value, Batch) else one(value)
    if batch.is_object or batch.device == device:
        return value
    with memory_of(device if batch.device == "cpu" else batch.device) as memory:
        rows = len(batch)
        if device == "cpu":
            moved = BatchContext("cpu", np.empty, of_a_call(rows), range(rows), 0, memory=memory).moved(batch)
        else:
            with device_work(memory, device, rows) as work:
                moved = work.moved(batch)
    return moved if isinstance(value, Batch) else moved[0]
