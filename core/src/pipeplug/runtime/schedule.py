"""What may run next: the pure state of an epoch under way, without threads, clocks or buffers.

An epoch is a row of *iterations*; each runs every *stage* of the plan, a batched stage in one task, the others in one
task a *chunk* of samples. A task is in one of four places:

    parked    its inputs are complete, but it is not the turn of its serial stage
    ready     in one heap, the oldest iteration first
    running   given out by `start`
    held back met the memory limit; ready again when memory may have become free

A value is complete when the last chunk of its stage is, and released when the last stage that uses it is. Iterations
are admitted while fewer than `prefetch` are undelivered, and delivered in order. An indexed source's iterations know
their number of samples when they are admitted; a serial source's first task tells it when it finishes.

Invariants: a task runs once an attempt; no stage starts before its inputs are complete; a value is released once, after
its last use; tasks of a serial stage run one by one in the order of iterations and chunks.

At the memory limit the oldest iteration goes first, so that the epoch always ends. When nothing but tasks held back is
left (`stuck`), one task of the oldest runs alone; while that fails, the youngest iteration is evicted. An evicted one
has no tasks until it is the oldest, which is never evicted: so each is evicted once at most. The evicted are always the
youngest admitted, and none follow them meanwhile: so no later one can need the turn that an evicted one has not taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
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
        inputs: numbers of the values that it uses, each once.
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
    """The progress of one iteration.

    Attributes:
        missing: how many inputs of each stage are not complete.
        left: how many tasks of each stage are not done, once it is launched.
        uses: how many stages still use each value.
        serial_done: whether a task of a serial stage is done, or part of one, which must not run twice.
    """

    number: int
    rows: int
    missing: list[int]
    left: list[int]
    uses: dict[int, int]
    unfinished: int
    evicted: bool = False
    serial_done: bool = False


@dataclass(slots=True)
class _Turns:
    """Whose turn it is at a serial stage, and who waits for theirs."""

    next: tuple[int, int] = (0, 0)
    parked: list[Task] = field(default_factory=list)


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
        self._prefetch = prefetch
        self._rows = rows
        self._chunk = chunk
        self._reading = reading
        self._users = _users_of_values(stages)
        self._inputless = [number for number, stage in enumerate(stages) if not stage.inputs and number != reading]
        self._first = self._inputless if reading is None else [reading]
        # A delivered value has one use more, which never ends.
        self._uses = {value: len(users) + (value in delivered) for value, users in self._users.items()}
        self._turns = {number: _Turns() for number, stage in enumerate(stages) if stage.serial}
        self._iterations: dict[int, _Iteration] = {}
        self._ready: list[Task] = []
        self._held_back: list[Task] = []
        self._running = 0
        self._alone = False
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
    def has_ready(self) -> bool:
        """Whether a task could start."""
        return bool(self._ready)

    @property
    def stuck(self) -> bool:
        """Whether only tasks that were held back are left.

        One of them is the oldest iteration's then: it has tasks that are not done, and waits for nobody's turn.
        """
        return bool(self._held_back) and not self._running and not self._ready and not self.deliverable()

    def may_admit(self) -> bool:
        """Whether the epoch goes on and there is room for one more iteration."""
        if self._exhausted or self._held_back or len(self._iterations) >= self._prefetch:
            return False
        return not self._iterations or not self._iterations[self._next_admitted - 1].evicted

    def admit(self) -> int | None:
        """Admits the next iteration and returns its number; None when the epoch has no more."""
        number = self._next_admitted
        rows = self._rows(number) if self._reading is None else 1
        if rows == 0:
            self._exhausted = True
            return None
        self._next_admitted += 1
        self._iterations[number] = self._new_iteration(number, rows)
        self._launch(self._iterations[number], self._first)
        return number

    def start(self) -> Task | None:
        """The next task to run, of the oldest iteration that has one; None when nothing is ready."""
        if not self._ready:
            return None
        self._alone = self._running == 0
        self._running += 1
        return heappop(self._ready)

    def finish(self, task: Task, rows: int | None = None) -> list[int]:
        """Records that a task is done, and returns the values that nobody needs any more.

        `rows` is how many samples a serial source's task read; 0 ends the epoch.
        """
        number, stage, _ = task
        self._running -= 1
        self.retry()
        if rows == 0:
            self._end_at(number)
            return []
        iteration = self._iterations[number]
        if rows is not None:
            iteration.rows = rows
            self._launch(iteration, self._inputless)
        if stage in self._turns:
            self._pass_turn(iteration, task)
        iteration.left[stage] -= 1
        return [] if iteration.left[stage] else self._complete(iteration, stage)

    def hold_back(self, task: Task, *, partly_done: bool = False) -> bool:
        """Puts a running task back that met the memory limit.

        `partly_done` says that it will go on where it stopped: one of a serial stage must not begin again. Returns
        whether only `evict` makes more room: it is the oldest iteration's, it ran alone, and all is `stuck`.
        """
        self._running -= 1
        heappush(self._held_back, task)
        if partly_done and task.stage in self._turns:
            self._iterations[task.iteration].serial_done = True
        # Nothing ran when the last task started, and nothing runs now: so it was this one, alone throughout.
        return self._alone and task.iteration == self._next_delivered and self.stuck

    def retry(self) -> None:
        """Makes the tasks ready that were held back, since memory may have become free."""
        self._alone = False  # a task that runs now may have met the limit before that
        while self._held_back:
            self.retry_oldest()

    def retry_oldest(self) -> None:
        """Makes one task of the oldest iteration ready, to run alone. Two at once might never fit together."""
        heappush(self._ready, heappop(self._held_back))

    def evict(self) -> int | None:
        """Starts the youngest iteration over that can be, so that all its values can be dropped; returns its number.

        That is for when all is `stuck`. The oldest is never one, nor any with `serial_done`, which those before it
        have too.
        """
        young = [each for each in list(self._iterations.values())[1:] if not (each.evicted or each.serial_done)]
        if not young:
            return None
        number = young[-1].number
        self._forget_tasks(number)
        self._iterations[number] = self._new_iteration(number, young[-1].rows)
        self._iterations[number].evicted = True
        return number

    def deliverable(self) -> bool:
        """Whether the oldest iteration is complete."""
        oldest = self._iterations.get(self._next_delivered)
        return oldest is not None and oldest.unfinished == 0

    def deliver(self) -> int:
        """Takes the oldest iteration out, which must be complete, and returns its number."""
        number = self._next_delivered
        del self._iterations[number]
        self._next_delivered += 1
        oldest = self._iterations.get(self._next_delivered)
        if oldest is not None and oldest.evicted:
            oldest.evicted = False
            self._launch(oldest, self._first)
        return number

    def _new_iteration(self, number: int, rows: int) -> _Iteration:
        missing = [len(stage.inputs) for stage in self._stages]
        return _Iteration(number, rows, missing, [0] * len(missing), self._uses.copy(), len(missing))

    def _launch(self, iteration: _Iteration, stages: Sequence[int]) -> None:
        for stage in stages:
            whole = self._stages[stage].batched or stage == self._reading
            iteration.left[stage] = chunks = 1 if whole else -(-iteration.rows // self._chunk)
            turns = self._turns.get(stage)
            for chunk in range(chunks):
                into = self._ready if turns is None or turns.next == (iteration.number, chunk) else turns.parked
                heappush(into, Task(iteration.number, stage, chunk))

    def _pass_turn(self, iteration: _Iteration, task: Task) -> None:
        iteration.serial_done = True
        turns = self._turns[task.stage]
        last = iteration.left[task.stage] == 1
        turns.next = (task.iteration + 1, 0) if last else (task.iteration, task.chunk + 1)
        if turns.parked and (turns.parked[0].iteration, turns.parked[0].chunk) == turns.next:
            heappush(self._ready, heappop(turns.parked))

    def _complete(self, iteration: _Iteration, stage: int) -> list[int]:
        iteration.unfinished -= 1
        shape = self._stages[stage]
        for value in shape.outputs:
            for user in self._users[value]:
                iteration.missing[user] -= 1
                if iteration.missing[user] == 0:
                    self._launch(iteration, (user,))
        for value in shape.inputs:
            iteration.uses[value] -= 1
        return [value for value in (*shape.inputs, *shape.outputs) if iteration.uses[value] == 0]

    def _end_at(self, number: int) -> None:
        # The iterations from here on have nothing but the task that would have read their samples.
        self._exhausted = True
        for each in range(number, self._next_admitted):
            self._forget_tasks(each)
            del self._iterations[each]

    def _forget_tasks(self, number: int) -> None:
        for tasks in (self._ready, self._held_back, *(turns.parked for turns in self._turns.values())):
            tasks[:] = [task for task in tasks if task.iteration != number]
            heapify(tasks)


def _users_of_values(stages: Sequence[StageShape]) -> dict[int, list[int]]:
    """By value, the stages that use it."""
    values = [value for stage in stages for value in stage.outputs]
    return {value: [user for user, stage in enumerate(stages) if value in stage.inputs] for value in values}
