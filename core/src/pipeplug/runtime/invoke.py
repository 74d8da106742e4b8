"""Running one task: a chunk of samples through the kernels of a stage, or a whole batch through one.

A stage is compiled once into steps over numbered slots, so that a sample costs no look-up by name. A slot is cleared
after its last use: of a chain of kernels only one input and one output are alive in a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter_ns
from typing import Any

import numpy as np

from pipeplug.errors import DeclarationError, MemoryLimitError
from pipeplug.graph.graph import Node, Ref
from pipeplug.graph.placement import kind_of
from pipeplug.graph.plan import Stage
from pipeplug.operator import PER_SAMPLE, per_sample_fields
from pipeplug.runtime.context import BatchContext, SampleContext
from pipeplug.runtime.iteration import Column, Empty, Iteration
from pipeplug.runtime.statistics import Timings
from pipeplug.signature import STATE
from pipeplug.source import IndexedReader, Source
from pipeplug.tensor import Array, Batch, Tensor

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Step:
    """One kernel of a stage.

    Attributes:
        inputs: slots of the positional inputs.
        keywords: names and slots of the arguments that vary by sample.
        constants: the other keyword arguments.
        outputs: slots of the outputs.
        leaving: for each output its value when others use it, else None.
        cleared: slots that nobody uses after this step.
    """

    node: Node
    function: Function
    inputs: tuple[int, ...]
    keywords: tuple[tuple[str, int], ...]
    constants: Mapping[str, object]
    outputs: tuple[int, ...]
    leaving: tuple[Ref | None, ...]
    cleared: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """A stage, compiled.

    Attributes:
        samples: slots that receive kernel inputs from other stages.
        arguments: slots that receive keyword arguments from other stages.
    """

    steps: tuple[Step, ...]
    slots: int
    samples: tuple[tuple[int, Ref], ...]
    arguments: tuple[tuple[int, Ref], ...]


@dataclass
class _Compiler:
    """Numbers the slots of a stage."""

    stage: Stage
    state: Mapping[str, object]
    reader: object
    slots: dict[tuple[Ref, bool], int] = field(default_factory=dict)

    def program(self) -> Program:
        steps = [self._step(node) for node in self.stage.nodes]
        outside = [(slot, ref, keyword) for (ref, keyword), slot in self.slots.items() if ref in self.stage.inputs]
        return Program(
            steps=_with_clearing(steps),
            slots=len(self.slots),
            samples=tuple((slot, ref) for slot, ref, keyword in outside if not keyword),
            arguments=tuple((slot, ref) for slot, ref, keyword in outside if keyword),
        )

    def _slot(self, ref: Ref, keyword: bool = False) -> int:
        # A value of this stage has one slot; one from outside has one for each of the two forms that kernels take.
        outside = ref in self.stage.inputs
        return self.slots.setdefault((ref, keyword and outside), len(self.slots))

    def _step(self, node: Node) -> Step:
        leaving = tuple(ref if ref in self.stage.outputs else None for ref in node.refs)
        return Step(
            node=node,
            function=kernel_of(node, self.reader),
            inputs=tuple(self._slot(ref) for ref in node.inputs),
            keywords=tuple((name, self._slot(ref, keyword=True)) for name, ref in node.arguments),
            constants=constants_of(node, self.state),
            outputs=tuple(self._slot(ref) for ref in node.refs),
            leaving=leaving,
            cleared=(),
        )


def compile_stage(stage: Stage, state: Mapping[str, object], reader: object) -> Program:
    """The program of a stage; `state` is what the nodes' `open` gave, `reader` what the source reads from.

    A source that is read serially has none: whoever reads does it.
    """
    if isinstance(stage.nodes[0].operator, Source) and not isinstance(reader, IndexedReader):
        return Program((), 0, (), ())
    return _Compiler(stage, state, reader).program()


def kernel_of(node: Node, reader: object) -> Function:
    """The function that runs a node."""
    if isinstance(node.operator, Source):
        assert isinstance(reader, IndexedReader)
        indexed = reader
        return lambda context: indexed[context.index]
    kernel: Function = getattr(node.operator, kind_of(node.device or "cpu"))
    return kernel


def constants_of(node: Node, state: Mapping[str, object]) -> dict[str, object]:
    """The keyword arguments of a node's kernel that are the same for all samples."""
    names = per_sample_fields(type(node.operator))
    constants = {name: getattr(node.operator, name) for name in sorted(names)}
    constants = {name: value for name, value in constants.items() if value is not PER_SAMPLE}
    if node.name in state:
        constants[STATE] = state[node.name]
    return constants


def _with_clearing(steps: Sequence[Step]) -> tuple[Step, ...]:
    seen: set[int] = set()
    cleared = []
    for step in reversed(steps):
        used = {*step.inputs, *(slot for _, slot in step.keywords), *step.outputs} - seen
        seen |= used
        cleared.append(replace(step, cleared=tuple(sorted(used))))
    return tuple(reversed(cleared))


def run_samples(
    program: Program,
    iteration: Iteration,
    rows: range,
    empty: Empty,
    timings: Timings,
    cancelled: Callable[[], bool],
    device: str,
) -> None:
    """Takes the samples of `rows` one by one through a program; one that fails leaves the iteration."""
    context = SampleContext(device, empty)
    # A column is missing when no row of its stage succeeded; then no row is left here either.
    samples = [(slot, iteration.columns.get(ref)) for slot, ref in program.samples]
    arguments = [(slot, iteration.columns.get(ref)) for slot, ref in program.arguments]
    targets = [
        [
            None if ref is None else iteration.unfilled(ref, spec, empty)
            for ref, spec in zip(step.leaving, step.node.specs, strict=True)
        ]
        for step in program.steps
    ]
    for row in rows:
        if row in iteration.failures:
            continue
        if cancelled():
            return
        slots: list[Any] = [None] * program.slots
        for slot, column in samples:
            slots[slot] = column.sample(row)  # type: ignore[union-attr]
        for slot, column in arguments:
            slots[slot] = column.argument(row)  # type: ignore[union-attr]
        context.index = int(iteration.rows.indices[row])
        _run_sample(program, slots, targets, context, iteration, row, timings)


def _run_sample(
    program: Program,
    slots: list[Any],
    targets: Sequence[Sequence[Column | None]],
    context: SampleContext,
    iteration: Iteration,
    row: int,
    timings: Timings,
) -> None:
    started = perf_counter_ns()
    for step, columns in zip(program.steps, targets, strict=True):
        try:
            context.aim(columns, row)
            keywords = {name: slots[slot] for name, slot in step.keywords}
            result = step.function(
                *[slots[slot] for slot in step.inputs], context=context, **step.constants, **keywords
            )
            _store(step, columns, context, slots, outputs_of(step.node, result), row)
        except MemoryLimitError:
            raise
        except Exception as error:
            iteration.fail(row, step.node, error)
            timings.failed(step.node.name)
            return
        for slot in step.cleared:
            slots[slot] = None
        ended = perf_counter_ns()
        timings.add(step.node.name, ended - started)
        started = ended


def _store(
    step: Step,
    columns: Sequence[Column | None],
    context: SampleContext,
    slots: list[Any],
    results: Sequence[Any],
    row: int,
) -> None:
    if len(results) > 1:
        results = _without_swaps(results, context.handed)
    for output, value in enumerate(results):
        value = wrap(value, step.node.specs[output].layout)
        column = columns[output]
        if column is not None and (value is not context.handed[output] or value is None):
            column.put(row, value)
        slots[step.outputs[output]] = value


def _without_swaps(results: Sequence[Any], handed: Sequence[Tensor | None]) -> Sequence[Any]:
    """The results, with a copy of one that lies in the place of another output, which would overwrite it."""
    return [
        Tensor(value.numpy().copy(), value.layout)
        if any(value is other for place, other in enumerate(handed) if place != output and other is not None)
        else value
        for output, value in enumerate(results)
    ]


def wrap(value: Any, layout: str | None) -> Any:
    """A kernel's result as what other kernels take: arrays as Tensors, everything else as it is."""
    return Tensor(value, layout) if isinstance(value, np.ndarray) else value


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
    step: Step,
    iteration: Iteration,
    empty: Empty,
    timings: Timings,
    seed: int,
    device: str,
) -> None:
    """Takes the samples that have not failed through a batch kernel."""
    rows = iteration.good_rows()
    if not rows:
        return
    context = BatchContext(device, empty, iteration, rows, seed)
    started = perf_counter_ns()
    try:
        inputs = [iteration.columns[ref].batch(rows, empty) for ref in step.node.inputs]
        keywords = {name: _whole_column(iteration.columns[ref], rows, empty) for name, ref in step.node.arguments}
        constants = whole_constants(step.constants, len(rows))
        results = outputs_of(step.node, step.function(*inputs, context=context, **constants, **keywords))
        left = [row for place, row in enumerate(rows) if place not in context.failed]
        for ref, spec, values in zip(step.node.refs, step.node.specs, results, strict=True):
            iteration.columns[ref] = Column.filled(values, spec.layout, left, len(iteration.rows))
        for place, cause in context.failed.items():
            iteration.fail(rows[place], step.node, cause)
            timings.failed(step.node.name)
    except MemoryLimitError:
        raise
    except Exception as error:
        for row in rows:
            iteration.fail(row, step.node, error)
        timings.failed(step.node.name)
    timings.add(step.node.name, perf_counter_ns() - started)


def whole_constants(constants: Mapping[str, Any], rows: int) -> dict[str, Any]:
    """Constants as batch kernels take them: a row a sample, but for the state."""
    return {
        name: value if name == STATE else np.broadcast_to(np.asarray(value), (rows, *np.shape(value)))
        for name, value in constants.items()
    }


def _whole_column(column: Column, rows: Sequence[int], empty: Empty) -> Array | list[Any]:
    batch: Batch = column.batch(rows, empty)
    return batch.numpy() if batch.is_equal else batch.list()
