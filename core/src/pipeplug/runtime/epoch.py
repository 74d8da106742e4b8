"""One epoch: which samples its iterations have, what its tasks do, and the batches that come out."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from time import perf_counter, perf_counter_ns
from typing import Any, Literal, TypeAlias

import numpy as np

from pipeplug.batch import Batch
from pipeplug.errors import MemoryLimitError, SampleFailed, SpecError, TooManyFailuresError
from pipeplug.graph.graph import Node, Ref
from pipeplug.memory.units import format_bytes
from pipeplug.operator import calling
from pipeplug.runtime.admission import Admission
from pipeplug.runtime.column import as_input, check_value
from pipeplug.runtime.eager import CALLS_OF_KERNELS
from pipeplug.runtime.executor import Executor
from pipeplug.runtime.frames import forget_frames
from pipeplug.runtime.invoke import outputs_of, run_batch, run_samples
from pipeplug.runtime.iteration import Iteration, Rows, by_device
from pipeplug.runtime.order import LastBatch
from pipeplug.runtime.outputs import Outputs
from pipeplug.runtime.reading import ItemReading
from pipeplug.runtime.sampling import Sampling
from pipeplug.runtime.schedule import Schedule, StageShape, Task
from pipeplug.runtime.session import Session
from pipeplug.runtime.statistics import Timings
from pipeplug.source import Source, origin_of

OnError: TypeAlias = Literal["raise", "skip", "replace"]


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How an epoch runs; none of it changes what a sample becomes.

    Attributes:
        threads: how many threads run kernels.
        batch_size: samples in an iteration.
        prefetch: iterations that may be under way or waiting for the loop.
        last_batch: what becomes of the epoch's last, incomplete batch.
        on_error: what becomes of samples that fail.
        max_failures: how many may fail in an epoch before it is an error; None means any number.
    """

    threads: int
    batch_size: int
    prefetch: int
    last_batch: LastBatch
    on_error: OnError
    max_failures: int | None


class Epoch:
    """The work of one epoch, which an executor's threads call, and the iterator over its batches."""

    def __init__(
        self,
        session: Session,
        options: RunOptions,
        *,
        number: int,
        sampling: Sampling,
        items: Iterator[object] | None,
        start: int,
    ) -> None:
        self._session = session
        self._options = options
        self._number = number
        self._sampling = sampling
        self._reading = self._item_reading(items, start) if items is not None else None
        self._iterations: dict[int, Iteration] = {}
        self._failures = 0
        self._delivered_any = False
        self._whole = start == 0
        self._unreported: tuple[SampleFailed, ...] = ()  # of iterations passed over, for the next batch
        self._cancelled = False
        self._stages = session.plan.stages
        self._refs = [ref for stage in self._stages for ref in stage.outputs]
        self._outputs = session.plan.graph.outputs
        self._admission = Admission(session.memory, options.prefetch)

    def batches(self, on_delivered: Callable[[int], None]) -> Generator[Outputs, None, None]:
        """The batches of the epoch in order; threads live until it is exhausted or closed.

        `on_delivered` is told, before each batch, how many positions all ranks have delivered with it.
        """
        executor = Executor(self._schedule(), self, self._options.threads)
        try:
            with executor:
                yield from self._delivered(executor, on_delivered)
        except Exception as error:
            forget_frames(error)  # they hold batches, and the loop may keep the error
            if isinstance(error, MemoryLimitError):
                error.args = (f"{error}. {self._holders()}",)
            raise
        finally:
            executor.leave()  # an interrupt may have met the end of the block as it began
            for iteration in self._iterations.values():
                iteration.restart()  # closures in the frames of an error that is kept hold iterations
            self._iterations.clear()

    def _delivered(self, executor: Executor, on_delivered: Callable[[int], None]) -> Generator[Outputs, None, None]:
        while True:
            started = perf_counter()
            number = executor.take()
            self._session.counters.waiting_seconds += perf_counter() - started
            if number is None:
                break
            # A list, emptied in the act: this frame must not hold what the loop has let go.
            delivered: list[Any] = [self._deliver(self._iterations.pop(number))]
            on_delivered(self._sampling.delivered(number))
            self._admission.handed_over = number + 1
            executor.resume()
            if delivered[0] is not None:
                yield delivered.pop()
        if self._reading is not None and self._reading.error is not None:
            raise self._reading.error
        if self._unreported and not self._delivered_any and self._whole:
            raise TooManyFailuresError(
                f"no sample of the epoch is good, all {self._failures} failed; the first one: {self._unreported[0]}"
            ) from self._unreported[0].cause

    def _holders(self) -> str:
        """Who holds memory: nodes, and whoever keeps what was delivered."""
        held: dict[tuple[str, str], int] = {}
        for iteration in list(self._iterations.values()):
            for holder, size in iteration.held().items():
                held[holder] = held.get(holder, 0) + size
        parts = [f"{format_bytes(size)} {_on(device)}by {node}" for (device, node), size in held.items() if size]
        by_iterations = by_device(held)
        for device, use in self._session.memory.use().items():
            others = max(use.live - by_iterations.get(device, 0), 0)
            if others or device == "cpu":
                parts.append(
                    f"{format_bytes(others)} {_on(device)}by batches that the loop keeps and by running kernels"
                )
        return f"Held: {', '.join(parts)}"

    def _schedule(self) -> Schedule:
        numbers = {ref: number for number, ref in enumerate(self._refs)}
        shapes = [
            StageShape(
                tuple(numbers[ref] for ref in stage.inputs),
                tuple(numbers[ref] for ref in stage.outputs),
                stage.whole,
                stage.serial,
            )
            for stage in self._stages
        ]
        sources = [place for place, stage in enumerate(self._stages) if isinstance(stage.nodes[0].operator, Source)]
        return Schedule(
            shapes,
            frozenset(numbers[ref] for _, ref in self._outputs),
            prefetch=self._options.prefetch,
            rows=lambda number: len(self._rows(number)),
            chunk=self._chunk(),
            reading=sources[0] if self._reading is not None else None,
        )

    def _chunk(self) -> int:
        # Small enough that every thread has work to the end of a batch, large enough that a task's cost does not show.
        return max(1, min(16, -(-self._options.batch_size // (4 * self._options.threads))))

    def _rows(self, number: int) -> Rows:
        rows = self._sampling.rows(number)
        assert rows is not None
        return rows

    # What the executor calls.

    def fits(self) -> bool:
        return self._admission.allows(list(self._iterations.values()))

    def begin(self, iteration: int) -> None:
        self._admission.begun += 1
        rows = self._sampling.rows(iteration)
        if rows is None:
            rows = Rows(np.empty(0, np.int64), np.empty(0, np.int64))
        self._iterations[iteration] = Iteration(iteration, self._number, rows, self._origin)

    def run(self, task: Task) -> int | None:
        with calling(CALLS_OF_KERNELS):
            return self._run(task)

    def _run(self, task: Task) -> int | None:
        iteration = self._iterations[task.iteration]
        stage, program = self._stages[task.stage], self._session.programs[task.stage]
        timings = Timings()
        memory = self._session.memory
        try:
            if self._reading is not None and isinstance(stage.nodes[0].operator, Source):
                return self._read(iteration, stage.nodes[0], task.stage, timings)
            rows = range(len(iteration.rows))
            if not stage.whole:
                chunk = self._chunk()
                rows = rows[task.chunk * chunk : (task.chunk + 1) * chunk]
            if stage.batched:
                run_batch(
                    program, iteration, rows, memory, timings, self._is_cancelled, self._session.seed, stage.device
                )
            else:
                run_samples(program, iteration, rows, memory, timings, self._is_cancelled, stage.device)
        finally:
            self._session.counters.merge(timings)
        return None

    def is_partly_done(self, task: Task) -> bool:
        first = task.chunk * self._chunk()
        return self._iterations[task.iteration].reached.get((task.stage, first), first) > first

    def release(self, iteration: int, values: list[int]) -> None:
        if values:
            self._admission.before_release(self._iterations[iteration])
            self._iterations[iteration].release([self._refs[value] for value in values])

    def restart(self, iteration: int) -> None:
        self._iterations[iteration].restart()

    def cancel(self) -> None:
        self._cancelled = True

    def _is_cancelled(self) -> bool:
        return self._cancelled

    def _origin(self, index: int) -> str:
        return origin_of(self._session.reader, index)

    def _item_reading(self, items: Iterator[object], start: int) -> ItemReading:
        source = next(node for node in self._session.plan.graph if isinstance(node.operator, Source))
        options = self._options
        return ItemReading(
            items, source.name, start=start, batch_size=options.batch_size, last_batch=options.last_batch
        )

    def _read(self, iteration: Iteration, node: Node, stage: int, timings: Timings) -> int:
        """Reads the samples of an iteration from an iterable; 0 when there are no more."""
        assert self._reading is not None
        started = perf_counter_ns()
        items = self._reading.read(self._is_cancelled)
        if not items:
            return 0
        iteration.rows = self._reading.rows()
        for row, item in enumerate(items):
            try:
                self._put(iteration, node, row, item)
            except MemoryLimitError:
                raise
            except Exception as error:
                iteration.fail(row, node, error, stage)
                timings.failed(node.name)
        self._reading.accept()
        timings.add(node.name, perf_counter_ns() - started, len(items) - len(iteration.failures))
        return len(items)

    def _put(self, iteration: Iteration, node: Node, row: int, item: object) -> None:
        for ref, spec, value in zip(node.refs, node.specs, outputs_of(node, item), strict=True):
            column, wrapped = iteration.unfilled(ref, spec, self._session.memory.empty), as_input(value, spec)
            if column.array is None:
                check_value(spec, wrapped)
            column.put(row, wrapped)

    # Delivery.

    def _deliver(self, iteration: Iteration) -> Outputs | None:
        failures = iteration.distinct_failures()
        if failures and self._options.on_error == "raise":
            raise failures[0] from failures[0].cause
        counters = self._session.counters
        counters.fail(failures)
        self._failures += len(failures)
        if self._options.max_failures is not None and self._failures > self._options.max_failures:
            raise TooManyFailuresError(
                f"{self._failures} samples of this epoch failed, max_failures={self._options.max_failures}; "
                f"the last one: {failures[-1]}"
            ) from failures[-1].cause
        failures = (*self._unreported, *failures)
        good = iteration.good_rows()
        self._unreported = () if good else failures
        if not good:
            self._admission.learn(iteration, {})
            counters.passed += 1
            return None
        rows = good if self._options.on_error == "skip" else replaced(len(iteration.rows), good)
        outputs = self._outputs_of(iteration, rows, failures)
        self._delivered_any = True
        counters.batches += 1
        counters.samples += len(rows)
        return outputs

    def _outputs_of(self, iteration: Iteration, rows: list[int], failures: tuple[SampleFailed, ...]) -> Outputs:
        positions = iteration.rows.positions
        first_padding = len(iteration.rows) - iteration.rows.padding
        if self._options.on_error == "replace":
            for row, failure in iteration.failures.items():
                failure.replaced_by = int(positions[rows[row]])
            padding = iteration.rows.padding
        else:
            padding = sum(row >= first_padding for row in rows)
        batches = {name: self._batch(iteration, name, ref, rows) for name, ref in self._outputs}
        copied: dict[str, int] = {}
        if iteration.failures:
            for batch in batches.values():
                copied[batch.device] = copied.get(batch.device, 0) + batch.nbytes
        self._admission.learn(iteration, copied)
        return Outputs(batches, positions[rows], iteration.rows.indices[rows], padding, iteration.epoch, failures)

    def _batch(self, iteration: Iteration, name: str, ref: Ref, rows: list[int]) -> Batch:
        try:
            return self._session.memory.packed(iteration.columns[ref].batch(rows, self._session.memory.empty))
        except SpecError as error:
            raise SpecError(f"output {name!r}, which {ref} makes: {error}; convert them to one kind before") from error


def _on(device: str) -> str:
    return "" if device == "cpu" else f"on {device} "


def replaced(total: int, good: list[int]) -> list[int]:
    """For every row itself if it is good, else the next good one of the batch, around its end."""
    places = np.searchsorted(good, range(total)) % len(good)
    return [good[place] for place in places]
