"""One epoch: which samples its iterations have, what its tasks do, and the batches that come out."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from itertools import islice
from time import perf_counter
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np

from pipeplug.errors import SampleFailed, SourceError, TooManyFailuresError
from pipeplug.graph.graph import Ref
from pipeplug.runtime.executor import Executor
from pipeplug.runtime.invoke import outputs_of, run_batch, run_samples, wrap
from pipeplug.runtime.iteration import Iteration, Rows
from pipeplug.runtime.order import LastBatch, Order, Partition
from pipeplug.runtime.outputs import Outputs
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


class Sampling(Protocol):
    """Which samples an iteration has."""

    def rows(self, iteration: int) -> Rows | None:
        """The samples of an iteration; None when they are known only once they are read, no rows after the last."""

    def delivered(self, iteration: int) -> int:
        """Positions that all ranks have delivered once this iteration is."""


class IndexedSampling:
    """The samples of an indexed source, in the epoch's order."""

    def __init__(self, order: Order, partition: Partition) -> None:
        self._order = order
        self._partition = partition

    def rows(self, iteration: int) -> Rows:
        if iteration >= len(self._partition):
            return Rows(np.empty(0, np.int64), np.empty(0, np.int64))
        positions = np.asarray(self._partition.positions(iteration), np.int64)
        padding = self._partition.padding(iteration)
        positions = np.concatenate([positions, np.full(padding, self._partition.length - 1)])
        order = self._order
        indices = positions if isinstance(order, range) else order[positions]
        return Rows(positions, indices, padding)

    def delivered(self, iteration: int) -> int:
        return self._partition.delivered(iteration)


class SerialSampling:
    """The samples of an iterable, as they come."""

    def __init__(self, start: int, batch_size: int) -> None:
        self._start = start
        self._batch_size = batch_size

    def rows(self, iteration: int) -> None:
        return None

    def delivered(self, iteration: int) -> int:
        return self._start + (iteration + 1) * self._batch_size


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
        self._items = items
        self._next_position = start
        self._iterations: dict[int, Iteration] = {}
        self._failures = 0
        self._cancelled = False
        self._stages = session.plan.stages
        self._refs = [ref for stage in self._stages for ref in stage.outputs]
        self._outputs = session.plan.graph.outputs
        self._iteration_bytes = 0

    def batches(self, on_delivered: Callable[[int], None]) -> Generator[Outputs, None, None]:
        """The batches of the epoch in order; threads live until it is exhausted or closed.

        `on_delivered` is told, before each batch, how many positions all ranks have delivered with it.
        """
        with Executor(self._schedule(), self, self._options.threads) as executor:
            while True:
                started = perf_counter()
                number = executor.take()
                self._session.counters.waiting_seconds += perf_counter() - started
                if number is None:
                    return
                # A list, emptied in the act: this frame must not hold what the loop has let go.
                delivered: list[Any] = [self._deliver(self._iterations.pop(number))]
                executor.resume()
                on_delivered(self._sampling.delivered(number))
                if delivered[0] is not None:
                    yield delivered.pop()

    def _schedule(self) -> Schedule:
        numbers = {ref: number for number, ref in enumerate(self._refs)}
        shapes = [
            StageShape(
                tuple(numbers[ref] for ref in stage.inputs),
                tuple(numbers[ref] for ref in stage.outputs),
                stage.batched,
                stage.serial,
            )
            for stage in self._stages
        ]
        reading = None
        if self._items is not None:
            reading = next(
                place for place, stage in enumerate(self._stages) if isinstance(stage.nodes[0].operator, Source)
            )
        return Schedule(
            shapes,
            frozenset(numbers[ref] for _, ref in self._outputs),
            prefetch=self._options.prefetch,
            rows=lambda number: len(self._rows(number)),
            chunk=self._chunk(),
            reading=reading,
        )

    def _chunk(self) -> int:
        # Small enough that every thread has work to the end of a batch, large enough that a task's cost does not show.
        return max(1, min(16, -(-self._options.batch_size // (4 * self._options.threads))))

    def _rows(self, number: int) -> Rows:
        rows = self._sampling.rows(number)
        assert rows is not None
        return rows

    # What the executor calls.

    def fits(self, in_flight: int) -> bool:
        return in_flight == 0 or self._session.memory.fits(self._iteration_bytes)

    def begin(self, iteration: int) -> None:
        rows = self._sampling.rows(iteration)
        if rows is None:
            rows = Rows(np.empty(0, np.int64), np.empty(0, np.int64))
        self._iterations[iteration] = Iteration(iteration, self._number, rows, self._origin)

    def run(self, task: Task) -> int | None:
        iteration = self._iterations[task.iteration]
        stage, program = self._stages[task.stage], self._session.programs[task.stage]
        timings = Timings()
        empty = self._session.memory.empty
        try:
            if self._items is not None and isinstance(stage.nodes[0].operator, Source):
                return self._read(iteration, stage.nodes[0].refs)
            if stage.batched:
                run_batch(program.steps[0], iteration, empty, timings, self._session.seed, stage.device)
            else:
                chunk = self._chunk()
                rows = range(task.chunk * chunk, min((task.chunk + 1) * chunk, len(iteration.rows)))
                run_samples(program, iteration, rows, empty, timings, self._is_cancelled, stage.device)
        finally:
            self._session.counters.merge(timings)
        return None

    def release(self, iteration: int, values: list[int]) -> None:
        if values:
            self._iterations[iteration].release([self._refs[value] for value in values])

    def restart(self, iteration: int) -> None:
        self._iterations[iteration].restart()

    def cancel(self) -> None:
        self._cancelled = True

    def _is_cancelled(self) -> bool:
        return self._cancelled

    def _origin(self, index: int) -> str:
        return origin_of(self._session.reader, index)

    def _read(self, iteration: Iteration, refs: tuple[Ref, ...]) -> int:
        """Reads the samples of an iteration from an iterable."""
        assert self._items is not None
        size, last_batch = self._options.batch_size, self._options.last_batch
        try:
            items = list(islice(self._items, size))
        except Exception as error:
            raise SourceError(
                f"{refs[0].node} raised {type(error).__name__} after {self._next_position} items: {error}"
            ) from error
        if not items or (last_batch == "drop" and len(items) < size):
            return 0
        padding = size - len(items) if last_batch == "pad" else 0
        positions = np.arange(self._next_position, self._next_position + len(items))
        self._next_position += len(items)
        positions = np.concatenate([positions, np.full(padding, positions[-1])])
        iteration.rows = Rows(positions, positions, padding)
        items += [items[-1]] * padding
        node = self._session.plan.graph[refs[0].node]
        for row, item in enumerate(items):
            for ref, spec, value in zip(refs, node.specs, outputs_of(node, item), strict=True):
                iteration.unfilled(ref, spec, self._session.memory.empty).put(row, wrap(value, spec.layout))
        return len(items)

    # Delivery.

    def _deliver(self, iteration: Iteration) -> Outputs | None:
        failures = tuple(iteration.failures[row] for row in sorted(iteration.failures))
        if failures and self._options.on_error == "raise":
            raise failures[0]
        counters = self._session.counters
        counters.failures += len(failures)
        self._failures += len(failures)
        if self._options.max_failures is not None and self._failures > self._options.max_failures:
            raise TooManyFailuresError(
                f"{self._failures} samples of this epoch failed, max_failures={self._options.max_failures}; "
                f"the last one: {failures[-1]}"
            ) from failures[-1].cause
        good = iteration.good_rows()
        if not good:
            counters.passed += 1
            return None
        rows = good if self._options.on_error == "skip" else replaced(len(iteration.rows), good)
        outputs = self._outputs_of(iteration, rows, failures)
        counters.batches += 1
        counters.samples += len(rows)
        return outputs

    def _outputs_of(self, iteration: Iteration, rows: list[int], failures: tuple[SampleFailed, ...]) -> Outputs:
        positions = iteration.rows.positions
        for row, failure in iteration.failures.items():
            if self._options.on_error == "replace":
                failure.replaced_by = int(positions[rows[row]])
        empty = self._session.memory.empty
        batches = {name: iteration.columns[ref].batch(rows, empty) for name, ref in self._outputs}
        self._iteration_bytes = max(self._iteration_bytes, sum(batch.nbytes for batch in batches.values()))
        return Outputs(batches, positions[rows], iteration.rows.padding, iteration.epoch, failures)


def replaced(total: int, good: list[int]) -> list[int]:
    """For every row itself if it is good, else the next good one of the batch, around its end."""
    places = np.searchsorted(good, range(total)) % len(good)
    return [good[place] for place in places]
