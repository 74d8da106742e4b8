"""Running one task: a chunk of samples through the kernels of a stage, or a whole batch through one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter_ns
from typing import Any

import numpy as np

from pipeplug.batch import Batch, read_only
from pipeplug.errors import DeclarationError, DeviceError, MemoryLimitError, SpecError
from pipeplug.graph.graph import Node
from pipeplug.runtime.column import Column, Empty, as_argument, as_input, check_value
from pipeplug.runtime.context import BatchContext, SampleContext
from pipeplug.runtime.cuda_context import CudaBatchContext, CudaSampleContext
from pipeplug.runtime.iteration import Iteration
from pipeplug.runtime.memory import Memory
from pipeplug.runtime.program import Program, Step
from pipeplug.runtime.statistics import Timings
from pipeplug.signature import STATE
from pipeplug.spec import TensorSpec
from pipeplug.tensor import Array, Tensor, locked


def run_samples(
    program: Program,
    iteration: Iteration,
    rows: range,
    memory: Memory,
    timings: Timings,
    cancelled: Callable[[], bool],
    device: str,
) -> None:
    """Takes the samples of `rows` one by one through a program; one that fails leaves the iteration.

    After a MemoryLimitError the next call for these rows goes on with the sample that met the limit.
    """
    if device == "cpu":
        _run_rows(program, iteration, rows, memory.empty, timings, SampleContext(device, memory.empty, cancelled))
        return
    gpu, pinned = memory.device(device), memory.staging()
    with gpu.stream() as stream:
        context = CudaSampleContext(gpu, pinned, stream, cancelled)
        try:
            for _, ref in program.samples:
                if ref in iteration.columns:
                    iteration.columns[ref].use(stream)
            _run_rows(program, iteration, rows, memory.empty, timings, context)
        finally:
            context.end()


def _run_rows(
    program: Program, iteration: Iteration, rows: range, empty: Empty, timings: Timings, context: SampleContext
) -> None:
    task = program.number, rows.start
    rows = range(iteration.reached.get(task, rows.start), rows.stop)
    # A column is missing when no row of its stage succeeded; then no row is left here either.
    columns = iteration.columns
    samples = [(slot, columns[ref]) for slot, ref in program.samples if ref in columns]
    arguments = [(slot, columns[ref].arguments(rows)) for slot, ref in program.arguments if ref in columns]
    indices = iteration.rows.indices[rows.start : rows.stop].tolist()
    targets = [_targets(step, iteration, empty, context.device) for step in program.steps]
    spent = _Spent(program)
    try:
        for place, row in enumerate(rows):
            if iteration.failures and iteration.has_lost(row, program.lineage):
                continue
            if context.cancelled():
                return
            slots: list[Any] = [None] * program.slots
            for slot, column in samples:
                slots[slot] = column.sample(row)
            for slot, values in arguments:
                slots[slot] = values[place]
            context.index = indices[place]
            _run_sample(program, slots, targets, context, iteration, row, spent)
    except MemoryLimitError:
        iteration.reached[task] = row
        raise
    finally:
        spent.add_to(timings)


class _Spent:
    """Time, calls and failures of the steps of a stage in one task: lists, for they are counted for every sample."""

    __slots__ = ("calls", "counts", "failures", "nanoseconds", "steps")

    def __init__(self, program: Program) -> None:
        self.steps = program.steps
        self.counts = Timings()
        self.calls = [0] * len(self.steps)
        self.failures = [0] * len(self.steps)
        self.nanoseconds = [0] * len(self.steps)

    def count(self, step: Step, counts: dict[str, int]) -> None:
        """Moves what a kernel counted."""
        self.counts.count(step.node.name, counts)
        counts.clear()

    def add_to(self, timings: Timings) -> None:
        timings.merge(self.counts)
        for step, nanoseconds, calls, failures in zip(
            self.steps, self.nanoseconds, self.calls, self.failures, strict=True
        ):
            timings.add(step.node.name, nanoseconds, calls, failures)


def _targets(step: Step, iteration: Iteration, empty: Empty, device: str = "cpu") -> list[Column | None]:
    """The columns in which the outputs of a step belong that leave its stage."""
    try:
        return [
            None if ref is None else iteration.unfilled(ref, spec, empty, device)
            for ref, spec in zip(step.leaving, step.node.specs, strict=True)
        ]
    except MemoryLimitError as error:
        raise _named(error, step.node) from None


def _named(error: MemoryLimitError, node: Node) -> MemoryLimitError:
    return MemoryLimitError(f"{node.name}: {error}")


def _run_sample(
    program: Program,
    slots: list[Any],
    targets: Sequence[Sequence[Column | None]],
    context: SampleContext,
    iteration: Iteration,
    row: int,
    spent: _Spent,
) -> None:
    started = perf_counter_ns()
    for number, step in enumerate(program.steps):
        columns = targets[number]
        try:
            context.aim(columns, row)
            result = _called(step, slots, context)
            if step.node.output_names is None:
                value = _keep(result, step.node.specs[0], columns[0], context.handed[0], row)
                if step.used[0]:
                    slots[step.outputs[0]] = read_only(value)
            else:
                _keep_all(step, columns, context, slots, outputs_of(step.node, result), row)
        except MemoryLimitError as error:
            raise _named(error, step.node) from None
        except (Exception, SystemExit) as error:  # an operator that calls exit() ends its sample, not the program
            if isinstance(error, DeviceError):  # which no other sample can be run on either
                raise
            inputs = [slots[slot] for slot in step.inputs]
            iteration.fail(row, step.node, _explained(error, inputs), program.number)
            spent.failures[number] += 1
            return
        if context.counts:
            spent.count(step, context.counts)
        for slot in step.cleared:
            slots[slot] = None
        ended = perf_counter_ns()
        spent.calls[number] += 1
        spent.nanoseconds[number] += ended - started
        started = ended


def _called(step: Step, slots: list[Any], context: SampleContext) -> Any:
    """What a kernel gives for one sample."""
    varying = {name: slots[slot] for name, slot in step.keywords}
    for name, slot in step.made:
        varying[name] = as_argument(slots[slot])
    result = step.function(*[slots[slot] for slot in step.inputs], context=context, **step.constants, **varying)
    return result if context.device == "cpu" else _on_device(step, context, result)


def _on_device(step: Step, context: SampleContext, result: Any) -> Any:
    """What a kernel for a device gave, arrays of other libraries as tensors."""
    results = zip(outputs_of(step.node, result), step.node.specs, strict=True)
    tensors = [context.as_sample(value, spec.layout) for value, spec in results]
    names = step.node.output_names
    if names is None:
        return tensors[0]
    return dict(zip(names, tensors, strict=True)) if names else tuple(tensors)


def _explained(error: BaseException, inputs: Sequence[Any]) -> BaseException:
    """The error, or a better one where a kernel took a Python object for a tensor."""
    for place, value in enumerate(inputs):
        if isinstance(error, AttributeError) and error.obj is value and not isinstance(value, Tensor):
            explained = SpecError(
                f"input {place} is a Python object, {type(value).__name__}, where the operator takes a tensor; "
                "read.items(…, outputs=n) takes tuples apart, and ops.map turns other objects into arrays"
            )
            explained.__cause__ = error
            return explained
    return error


def _keep(value: Any, spec: TensorSpec, column: Column | None, handed: Tensor | None, row: int) -> Any:
    """Puts an output in its place in the batch, unless it is there; what kernels of the same stage take of it."""
    if value is handed and value is not None:
        return value
    if column is not None and column.put_whole_number(row, value):
        return column.sample(row)
    value = as_input(value, spec)
    if column is None or column.array is None:
        check_value(spec, value)
    if column is not None:
        column.put(row, value)
        if column.array is not None:
            return column.sample(row)  # the one given may lie in that place too, another way round
    return value


def _keep_all(
    step: Step,
    columns: Sequence[Column | None],
    context: SampleContext,
    slots: list[Any],
    results: Sequence[Any],
    row: int,
) -> None:
    specs = step.node.specs
    if any(context.handed):
        converted = [as_input(value, spec) for value, spec in zip(results, specs, strict=True)]
        results = _without_swaps(converted, context.handed)
    for output, value in enumerate(results):
        kept = _keep(value, specs[output], columns[output], context.handed[output], row)
        if step.used[output]:
            slots[step.outputs[output]] = read_only(kept)


def _without_swaps(values: Sequence[Any], handed: Sequence[Tensor | None]) -> list[Any]:
    """The values, with a copy of one that lies in the place of another output, which would overwrite it."""
    return [
        Tensor(value.numpy().copy(), value.layout)
        if isinstance(value, Tensor) and _overlaps(value, [*handed[:output], *handed[output + 1 :]])
        else value
        for output, value in enumerate(values)
    ]


def _overlaps(value: Tensor, others: Sequence[Tensor | None]) -> bool:
    return any(other is not None and np.may_share_memory(value.numpy(), other.numpy()) for other in others)


def outputs_of(node: Node, result: Any) -> Sequence[Any]:
    """The outputs of a kernel in the order of `infer`. Raises DeclarationError when they do not agree with it."""
    names = node.output_names
    if names is None:
        return (result,)
    if names:
        if not isinstance(result, Mapping) or set(result) != set(names):
            raise DeclarationError(f"infer names the outputs {', '.join(names)}, but the kernel gave {result!r:.80}")
        return [result[name] for name in names]
    if not isinstance(result, tuple) or len(result) != len(node.specs):
        raise DeclarationError(f"infer gives {len(node.specs)} outputs, but the kernel gave {result!r:.80}")
    return result


def run_batch(
    program: Program,
    iteration: Iteration,
    rows: range,
    memory: Memory,
    timings: Timings,
    cancelled: Callable[[], bool],
    seed: int,
    device: str,
) -> None:
    """Takes the samples of `rows`, a part of the batch or all of it, that have not failed through a batch kernel."""
    (step,) = program.steps
    good: Sequence[int] = rows
    if iteration.failures:
        good = [row for row in rows if not iteration.has_lost(row, program.lineage)]
    if not good:
        return
    if device == "cpu":
        # Parts of a batch are put together; of a whole one the kernel's own batch is taken.
        columns = _targets(step, iteration, memory.empty) if step.node.operator.splittable else []
        context = BatchContext(device, memory.empty, iteration, good, seed, columns, cancelled, memory)
        _run_whole(program, iteration, good, context, columns, memory.empty, timings)
        return
    gpu, pinned = memory.device(device), memory.staging()
    with gpu.stream() as stream:
        work = CudaBatchContext(gpu, pinned, stream, iteration, good, seed, cancelled)
        try:
            for ref in step.node.inputs:
                iteration.columns[ref].use(stream)
            _run_whole(program, iteration, good, work, [], memory.empty, timings)
        finally:
            work.end()


def _run_whole(
    program: Program,
    iteration: Iteration,
    rows: Sequence[int],
    context: BatchContext,
    columns: Sequence[Column | None],
    empty: Empty,
    timings: Timings,
) -> None:
    (step,) = program.steps
    started = perf_counter_ns()
    try:
        _call_batch_kernel(step, iteration, rows, context, columns, empty)
    except MemoryLimitError as error:
        raise _named(error, step.node) from None
    except DeviceError:  # which is no fault of the samples
        raise
    except (Exception, SystemExit) as error:
        context.failed = dict.fromkeys(range(len(rows)), error)
    else:
        calls = len(rows) - len(context.failed) if columns else 1
        timings.add(step.node.name, perf_counter_ns() - started, calls)
    if context.counts:
        timings.count(step.node.name, context.counts)
    for place, cause in context.failed.items():
        iteration.fail(rows[place], step.node, cause, program.number)
        timings.failed(step.node.name)


def _call_batch_kernel(
    step: Step,
    iteration: Iteration,
    rows: Sequence[int],
    context: BatchContext,
    columns: Sequence[Column | None],
    empty: Empty,
) -> None:
    node = step.node
    inputs = [read_only(iteration.columns[ref].batch(rows, empty)) for ref in node.inputs]
    keywords = {name: _whole_column(iteration.columns[ref], rows, empty) for name, ref in node.arguments}
    constants = whole_constants(step.constants, len(rows)) if step.constants else {}
    results = outputs_of(node, step.function(*inputs, context=context, **constants, **keywords))
    left = rows if not context.failed else [row for place, row in enumerate(rows) if place not in context.failed]
    if columns:
        results = _without_swapped_parts(results, columns, context.handed)
    for output, values in enumerate(results):
        spec = node.specs[output]
        batch = context.as_batch(values, spec.layout)
        part = Column.filled(batch, spec.layout, left, len(iteration.rows), failed=len(context.failed))
        part.check(spec)
        if not columns:
            iteration.columns[step.refs[output]] = part
        elif (column := columns[output]) is not None:
            column.put_part(left, part)


def _without_swapped_parts(
    results: Sequence[Any], columns: Sequence[Column | None], handed: Sequence[Array]
) -> list[Any]:
    """The results, with a copy of one that lies in the place of another output, which would overwrite it."""
    copied = []
    for values, column in zip(results, columns, strict=True):
        own = None if column is None else column.array
        array = values.numpy() if isinstance(values, Batch) and values.is_equal else values
        others = [place for place in handed if own is None or not np.may_share_memory(place, own)]
        swapped = isinstance(array, np.ndarray) and any(np.may_share_memory(array, place) for place in others)
        copied.append(Batch.equal(array.copy(), getattr(values, "layout", None)) if swapped else values)
    return copied


def whole_constants(constants: Mapping[str, Any], rows: int) -> dict[str, Any]:
    """Constants as batch kernels take them: a row a sample, but for the state."""
    return {
        name: value if name == STATE else np.broadcast_to(np.asarray(value), (rows, *np.shape(value)))
        for name, value in constants.items()
    }


def _whole_column(column: Column, rows: Sequence[int], empty: Empty) -> Array | list[Any]:
    batch: Batch = column.batch(rows, empty)
    return locked(batch.numpy()) if batch.is_equal else batch.list()
