"""What may run next: the pure state of an epoch under way, without threads, clocks or buffers.

An epoch is a row of *iterations*; each runs every *stage* of the plan, a batched stage in one task, the others in one
task a *chunk* of samples. A task is in one of four places:

    waiting   its inputs are not complete, or it is not the turn of its serial stage
    ready     in one heap, the oldest iteration first
    running   given out by `start`
    held back met the memory limit; ready again when memory may have become free

A value is complete when the last chunk of its stage is, and released when the last stage that uses it is. Iterations
are admitted while fewer than `prefetch` are undelivered, and delivered in order. An indexed source's iterations know
their number of samples when they are admitted; a serial source's first task tells it when it finishes.

Invariants: a task runs once an attempt; no stage starts before its inputs are complete; a value is released once, after
its last use; tasks of a serial stage run one by one in the order of iterations and chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple


class Task(NamedTuple):
    """A piece of work: a stage of an iteration, on one chunk of its samples."""

    iteration: int
    stage: int
    chunk: int


@dataclass(frozen=True, slots=True)
class StageShape:
    """What the schedule knows of a stage.

    Attributes:
        inputs: numbers of the values that it uses.
        outputs: numbers of the values that it makes.
        batched: whether one task takes the whole batch.
        serial: whether its tasks run one by one, in order.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    batched: bool = False
    serial: bool = False


@dataclass(slots=True)
class _Iteration:
    """The progress of one iteration."""

    number: int
    chunks: int
    missing: list[int]
    uses: dict[int, int]
    left: dict[int, int] = field(default_factory=dict)
    unfinished: int = 0
    running: int = 0
    started_serial: bool = False


class Schedule:
    """Decides which task is next. All methods return at once; the caller brings threads and a lock.

    Args:
        stages: in topological order.
        delivered: numbers of the values that are delivered, which are not released before.
        prefetch: how many iterations may be admitted and undelivered.
        rows: the number of samples of an iteration; 0 ends the epoch. Not asked when a stage reads serially.
        chunk: the largest number of samples in a task.
        reading: the serial stage whose task tells the number of samples when it finishes, if there is one.
    """

    def __init__(
        self,
        stages: Sequence[StageShape],
        delivered: frozenset[int],
        *,
        prefetch: int,
        rows: Callable[[int], int],
        chunk: int,
        reading: int | None = None,
    ) -> None:
        self._stages = stages
        self._delivered_values = delivered
        self._prefetch = prefetch
        self._rows = rows
        self._chunk = chunk
        self._reading = reading
        self._users = _users_of_values(stages)
        self._iterations: dict[int, _Iteration] = {}
        self._ready: list[Task] = []
        self._held_back: list[Task] = []
        self._turns = {number: (0, 0) for number, stage in enumerate(stages) if stage.serial}
        self._parked: dict[int, list[Task]] = {number: [] for number in self._turns}
        self._next_admitted = 0
        self._next_delivered = 0
        self._exhausted = False

    @property
    def in_flight(self) -> int:
        """How many iterations are admitted and undelivered."""
        return len(self._iterations)

    @property
    def finished(self) -> bool:
        """Whether every iteration of the epoch is delivered."""
        return self._exhausted and not self._iterations

    @property
    def oldest(self) -> int:
        """The iteration that is delivered next."""
        return self._next_delivered

    @property
    def running(self) -> int:
        """How many tasks are running."""
        return sum(iteration.running for iteration in self._iterations.values())

    @property
    def has_ready(self) -> bool:
        """Whether a task could start."""
        return bool(self._ready)

    def may_admit(self) -> bool:
        """Whether the epoch goes on and there is room for one more iteration."""
        return not self._exhausted and len(self._iterations) < self._prefetch

    def admit(self) -> int | None:
        """Admits the next iteration and returns its number; None when the epoch has no more."""
        number = self._next_admitted
        rows = self._rows(number) if self._reading is None else 1
        if rows == 0:
            self._exhausted = True
            return None
        self._next_admitted += 1
        iteration = self._new_iteration(number, self._chunks_of(rows))
        self._iterations[number] = iteration
        if self._reading is None:
            self._launch_all(iteration, self._ready)
        else:
            self._launch(iteration, self._reading, self._ready)
        return number

    def start(self) -> Task | None:
        """The next task to run, of the oldest iteration that has one; None when nothing is ready."""
        if not self._ready:
            return None
        task = heappop(self._ready)
        iteration = self._iterations[task.iteration]
        iteration.running += 1
        iteration.started_serial |= self._stages[task.stage].serial
        return task

    def finish(self, task: Task, rows: int | None = None) -> list[int]:
        """Records that a task is done, and returns the numbers of the values that nobody needs any more.

        Args:
            task: what `start` gave.
            rows: for the first task of a serial source, how many samples it read; 0 ends the epoch.
        """
        iteration = self._iterations[task.iteration]
        iteration.running -= 1
        if rows == 0:
            self._end_at(iteration)
            return []
        if rows is not None:
            self._set_rows(iteration, rows)
        self._pass_turn(task)
        iteration.left[task.stage] -= 1
        if iteration.left[task.stage]:
            return []
        return self._complete(iteration, task.stage)

    def hold_back(self, task: Task) -> None:
        """Puts a running task back that met the memory limit; it is ready again after `retry`."""
        self._iterations[task.iteration].running -= 1
        self._held_back.append(task)

    def retry(self) -> None:
        """Makes the tasks ready that were held back, since memory may have become free."""
        for task in self._held_back:
            heappush(self._ready, task)
        self._held_back.clear()

    def evict(self) -> int | None:
        """Starts the youngest iteration over that can be, so that all its values can be dropped; returns its number.

        The oldest is never one, nor any with running tasks or with a serial stage begun, which must not run twice.
        """
        for number in sorted(self._iterations, reverse=True)[:-1]:
            iteration = self._iterations[number]
            if iteration.running or iteration.started_serial or not self._has_progress(iteration):
                continue
            self._forget_tasks(number)
            fresh = self._new_iteration(number, iteration.chunks)
            self._iterations[number] = fresh
            self._launch_all(fresh, self._held_back)
            return number
        return None

    def deliverable(self) -> bool:
        """Whether the oldest iteration is complete."""
        oldest = self._iterations.get(self._next_delivered)
        return oldest is not None and oldest.unfinished == 0

    def deliver(self) -> int:
        """Takes the oldest iteration out, which must be complete, and returns its number."""
        number = self._next_delivered
        del self._iterations[number]
        self._next_delivered += 1
        return number

    def _chunks_of(self, rows: int) -> int:
        return -(-rows // self._chunk)

    def _new_iteration(self, number: int, chunks: int) -> _Iteration:
        missing = [len(stage.inputs) for stage in self._stages]
        return _Iteration(number, chunks, missing, dict(self._users), unfinished=len(self._stages))

    def _set_rows(self, iteration: _Iteration, rows: int) -> None:
        iteration.chunks = self._chunks_of(rows)
        self._launch_all(iteration, self._ready)

    def _end_at(self, iteration: _Iteration) -> None:
        self._exhausted = True
        for number in [each for each in self._iterations if each >= iteration.number]:
            self._forget_tasks(number)
            del self._iterations[number]

    def _launch_all(self, iteration: _Iteration, into: list[Task]) -> None:
        """Launches the stages that wait for nothing."""
        for stage, missing in enumerate(iteration.missing):
            if missing == 0 and stage != self._reading:
                self._launch(iteration, stage, into)

    def _launch(self, iteration: _Iteration, stage: int, into: list[Task]) -> None:
        shape = self._stages[stage]
        chunks = 1 if shape.batched or stage == self._reading else iteration.chunks
        iteration.left[stage] = chunks
        for chunk in range(chunks):
            task = Task(iteration.number, stage, chunk)
            if shape.serial and self._turns[stage] != (iteration.number, chunk):
                heappush(self._parked[stage], task)
            else:
                heappush(into, task)

    def _pass_turn(self, task: Task) -> None:
        if task.stage not in self._turns:
            return
        last = self._iterations[task.iteration].left[task.stage] == 1
        turn = (task.iteration + 1, 0) if last else (task.iteration, task.chunk + 1)
        self._turns[task.stage] = turn
        parked = self._parked[task.stage]
        if parked and (parked[0].iteration, parked[0].chunk) == turn:
            heappush(self._ready, heappop(parked))

    def _complete(self, iteration: _Iteration, stage: int) -> list[int]:
        iteration.unfinished -= 1
        shape = self._stages[stage]
        for number, other in enumerate(self._stages):
            gained = sum(value in shape.outputs for value in other.inputs)
            if gained:
                iteration.missing[number] -= gained
                if iteration.missing[number] == 0:
                    self._launch(iteration, number, self._ready)
        return self._released(iteration, shape)

    def _released(self, iteration: _Iteration, shape: StageShape) -> list[int]:
        released = []
        for value in shape.inputs:
            iteration.uses[value] -= 1
            if iteration.uses[value] == 0 and value not in self._delivered_values:
                released.append(value)
        return released

    def _has_progress(self, iteration: _Iteration) -> bool:
        return iteration.unfinished < len(self._stages)

    def _forget_tasks(self, number: int) -> None:
        self._ready = sorted(task for task in self._ready if task.iteration != number)
        self._held_back = [task for task in self._held_back if task.iteration != number]
        for stage, tasks in self._parked.items():
            self._parked[stage] = sorted(task for task in tasks if task.iteration != number)


def _users_of_values(stages: Sequence[StageShape]) -> dict[int, int]:
    users = dict.fromkeys((value for stage in stages for value in stage.outputs), 0)
    for stage in stages:
        for value in stage.inputs:
            users[value] += 1
    return users
