"""The schedule as plain data: random epochs, played at random, against a model that recomputes everything."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeplug.runtime.schedule import Schedule, StageShape, Task


class Model:
    """What must hold, worked out anew from what was done so far, with no heap, no queue and no counter."""

    def __init__(self, epoch):
        self.epoch = epoch
        self.schedule = epoch.schedule()
        self.admitted = 0
        self.delivered = 0
        self.exhausted = False
        self.done = {}  # iteration: by stage, the chunks that are done
        self.released = {}  # iteration: values
        self.running = set()
        self.held_back = set()
        self.evicted = set()
        self.ever_evicted = set()
        self.begun = set()  # iterations in which part of a serial task is done
        self.turns = {number: (0, 0) for number, stage in enumerate(epoch.stages) if stage.serial}

    def stages(self):
        return range(len(self.epoch.stages))

    def complete(self, iteration, stage):
        done = self.done[iteration]
        read = self.epoch.reading is None or bool(done[self.epoch.reading])
        return read and len(done[stage]) == len(self.epoch.chunks(iteration, stage))

    def startable(self, iteration):
        """The tasks of an iteration that could start now."""
        if iteration in self.evicted:
            return []
        read = self.epoch.reading is None or self.complete(iteration, self.epoch.reading)
        complete = [self.complete(iteration, stage) for stage in self.stages()]
        found = []
        for stage in self.stages():
            shape = self.epoch.stages[stage]
            if not (read or stage == self.epoch.reading) or complete[stage]:
                continue
            if not all(complete[self.epoch.makers[value]] for value in shape.inputs):
                continue
            for chunk in self.epoch.chunks(iteration, stage):
                task = Task(iteration, stage, chunk)
                if shape.serial and self.turns[stage] != (iteration, chunk):
                    continue
                started = chunk in self.done[iteration][stage] or task in self.running
                if not started and task not in self.held_back:
                    found.append(task)
        return found

    def begin(self, iteration):
        self.done[iteration] = [set() for _ in self.epoch.stages]
        self.released[iteration] = set()

    def admit(self):
        number = self.schedule.admit()
        if number is None:
            assert self.epoch.reading is None
            assert self.admitted == len(self.epoch.rows)
            self.exhausted = True
            return
        assert number == self.admitted
        self.admitted += 1
        self.begin(number)
        assert len(self.done) == self.schedule.in_flight <= self.epoch.prefetch
        assert not self.evicted, "one that follows an evicted iteration might need its turn"
        assert not self.held_back, "memory is short"

    def start(self):
        expected: list[Task] = next((found for each in sorted(self.done) if (found := self.startable(each))), [])
        assert self.schedule.has_ready == bool(expected)
        task = self.schedule.start()
        assert task == min(expected, default=None)
        if task is not None:
            self.running.add(task)
        return task

    def finish(self, task):
        iteration = task.iteration
        rows = self.epoch.rows_of(iteration) if task.stage == self.epoch.reading else None
        released = self.schedule.finish(task, rows)
        self.running.remove(task)
        self.held_back.clear()
        if rows == 0:
            self.end_at(iteration)
            assert released == []
            return released
        self.done[iteration][task.stage].add(task.chunk)
        if task.stage in self.turns:
            last = task.chunk + 1 == len(self.epoch.chunks(iteration, task.stage))
            self.turns[task.stage] = (iteration + 1, 0) if last else (iteration, task.chunk + 1)
        assert sorted(released) == sorted(self.unneeded(iteration) - self.released[iteration])
        self.released[iteration].update(released)
        return released

    def unneeded(self, iteration):
        return {
            value
            for number, stage in enumerate(self.epoch.stages)
            for value in stage.outputs
            if value not in self.epoch.delivered
            and self.complete(iteration, number)
            and all(self.complete(iteration, user) for user in self.epoch.users[value])
        }

    def end_at(self, iteration):
        self.exhausted = True
        for each in [each for each in self.done if each >= iteration]:
            assert not any(self.done.pop(each))
            self.evicted.discard(each)
            self.held_back = {task for task in self.held_back if task.iteration != each}
        assert not any(task.iteration >= iteration for task in self.running)

    def hold_back(self, task, partly_done=False):
        failed_alone = self.schedule.hold_back(task, partly_done=partly_done)
        if partly_done and task.stage in self.turns:
            self.begun.add(task.iteration)
        self.running.remove(task)
        self.held_back.add(task)
        return failed_alone

    def retry(self):
        self.schedule.retry()
        self.held_back.clear()

    def retry_oldest(self):
        self.schedule.retry_oldest()
        task = min(self.held_back)
        assert task.iteration == self.delivered
        self.held_back.remove(task)

    def evict(self):
        assert not self.running
        number = self.schedule.evict()
        if number is None:
            assert not self.evictable()
            return None
        assert number == max(self.evictable())
        assert number not in self.ever_evicted
        self.ever_evicted.add(number)
        self.evicted.add(number)
        self.held_back = {task for task in self.held_back if task.iteration != number}
        self.begin(number)
        return number

    def evictable(self):
        """All but the oldest that are not evicted, and have no serial task behind them."""
        return [
            each
            for each in self.done
            if each > self.delivered and each not in self.evicted and not self.serial_done(each)
        ]

    def serial_done(self, iteration):
        return iteration in self.begun or any(self.done[iteration][stage] for stage in self.turns)

    def deliverable(self):
        oldest = self.delivered
        expected = oldest in self.done and all(self.complete(oldest, stage) for stage in self.stages())
        assert self.schedule.deliverable() == expected
        return expected

    def deliver(self):
        number = self.schedule.deliver()
        assert number == self.delivered
        values = {value for stage in self.epoch.stages for value in stage.outputs}
        assert self.released.pop(number) == values - self.epoch.delivered
        del self.done[number]
        self.delivered += 1
        self.evicted.discard(self.delivered)
        return number

    def stuck(self):
        idle = not self.running and not any(self.startable(each) for each in self.done)
        expected = bool(self.held_back) and idle and not self.deliverable()
        assert self.schedule.stuck == expected
        return expected

    def check_end(self):
        assert self.exhausted
        assert self.delivered == len(self.epoch.rows)
        assert not self.running
        assert not self.schedule.has_ready
        assert self.schedule.start() is None
        assert self.schedule.in_flight == 0
        assert not self.schedule.may_admit()


class Memory:
    """A budget. A task takes its stage's outputs whole, those that are not there yet, and scratch until it ends."""

    def __init__(self, epoch, budget, random):
        self.epoch = epoch
        self.budget = budget
        self.sizes = {value: random.randint(0, 9) for stage in epoch.stages for value in stage.outputs}
        self.scratch = [random.randint(0, 5) for _ in epoch.stages]
        self.values = {}
        self.scratches = {}
        self.consumers = 0

    def used(self):
        return sum(self.values.values()) + sum(self.scratches.values()) + self.consumers

    def enough(self):
        """What one iteration and a consumer that holds a batch can never exceed."""
        return sum(self.sizes.values()) + max(self.scratch) + sum(self.sizes[each] for each in self.epoch.delivered)

    def take(self, task):
        """Takes what a task needs, one after the other; what it got of its outputs stays when the rest does not fit."""
        if task.stage == self.epoch.reading and self.epoch.rows_of(task.iteration) == 0:
            return True
        for value in self.epoch.stages[task.stage].outputs:
            if (task.iteration, value) not in self.values:
                if self.used() + self.sizes[value] > self.budget:
                    return False
                self.values[task.iteration, value] = self.sizes[value]
        if self.used() + self.scratch[task.stage] > self.budget:
            return False
        self.scratches[task] = self.scratch[task.stage]
        return True

    def drop(self, iteration, values=None):
        for each, value in list(self.values):
            if each == iteration and (values is None or value in values):
                del self.values[each, value]


class Play:
    """Threads and a consumer played at random, on the rules of the executor."""

    def __init__(self, epoch, random, budget=None):
        self.model = Model(epoch)
        self.random = random
        self.memory = Memory(epoch, budget, random)
        if budget is None:
            self.memory.budget = float("inf")
        self.threads = random.randint(1, 5)
        self.allocated = {}  # task: whether it got its memory
        self.waits = False
        self.full = False

    def run(self, stop_after=20_000):
        """Whether the epoch ended; False when the oldest iteration does not fit. Stops early after some steps."""
        for _ in range(stop_after):
            if self.full:
                return False
            if self.model.schedule.finished:
                self.model.check_end()
                return True
            actions = self.actions()
            assert actions, "a deadlock"
            self.random.choice(actions)()
        assert stop_after < 20_000, "a livelock"
        return None

    def actions(self):
        model = self.model
        found: list[Callable[[], None]] = [partial(self.go_on, task) for task in sorted(model.running)]
        if len(model.running) < self.threads and (model.schedule.may_admit() or model.schedule.has_ready):
            found.append(self.serve)
        if not self.waits:
            found.append(self.wait)
        elif model.deliverable():
            found.append(self.deliver)
        return found

    def serve(self):
        while self.model.schedule.may_admit() and not self.model.exhausted:
            self.model.admit()
        self.model.start()

    def go_on(self, task):
        if task not in self.allocated:
            self.allocated[task] = self.memory.take(task)
            return
        if not self.allocated.pop(task):
            self.hold_back(task)
            return
        self.memory.scratches.pop(task, None)
        self.memory.drop(task.iteration, self.model.finish(task))

    def hold_back(self, task):
        model = self.model
        failed_alone = model.hold_back(task, partly_done=self.random.random() < 0.2)
        if not model.stuck():
            assert not failed_alone
            return
        if failed_alone:
            assert task.iteration == model.delivered
            evicted = model.evict()
            if evicted is None:
                self.full = self.waits
                assert not (self.full and self.memory.take(task))
                return
            self.memory.drop(evicted)
        model.retry_oldest()

    def wait(self):
        """The consumer lets go of its batch, or not, and waits for the next."""
        if self.random.random() < 0.5:
            self.memory.consumers = 0
        self.model.retry()
        self.waits = True

    def deliver(self):
        number = self.model.deliver()
        self.memory.drop(number)
        self.memory.consumers = sum(self.memory.sizes[value] for value in self.model.epoch.delivered)
        self.waits = False
        self.model.retry()


@given(st.randoms(use_true_random=False))
def test_any_epoch_ends_in_any_order_of_events(random_epoch, random):
    assert Play(random_epoch(random), random).run()


def test_thousands_of_epochs_end(random_epoch):
    for seed in range(1000):
        random = Random(seed)
        assert Play(random_epoch(random), random).run(), seed


def test_stopping_early_leaves_a_consistent_state(random_epoch):
    for seed in range(200):
        random = Random(seed)
        play = Play(random_epoch(random), random)
        play.run(stop_after=random.randint(0, 60))
        assert play.model.schedule.in_flight == len(play.model.done) <= play.model.epoch.prefetch


@given(st.randoms(use_true_random=False), st.integers(0, 40))
def test_with_any_budget_an_epoch_ends_or_the_oldest_iteration_does_not_fit(random_epoch, random, budget):
    epoch = random_epoch(random, serial=random.random() < 0.3)
    check_budget(Play(epoch, random, budget))


def test_thousands_of_epochs_end_with_any_budget(random_epoch):
    ended, evictions = [], 0
    for seed in range(1500):
        random = Random(seed)
        play = Play(random_epoch(random, serial=seed % 3 == 0), random, budget=random.randint(0, 80))
        ended.append(check_budget(play))
        evictions += len(play.model.ever_evicted)
    assert 300 < sum(ended) < 1400
    assert evictions > 400


def check_budget(play):
    if play.run():
        return True
    oldest = play.model.delivered
    assert not play.model.running
    assert play.waits
    others = {iteration for iteration, _ in play.memory.values if iteration != oldest}
    assert all(play.model.serial_done(each) for each in others)
    assert others or play.memory.enough() > play.memory.budget
    return False


def test_an_epoch_ends_when_one_iteration_fits(random_epoch):
    evictions = 0
    for seed in range(600):
        random = Random(seed)
        play = Play(random_epoch(random, serial=False), random)
        play.memory.budget = play.memory.enough()
        assert play.run(), seed
        evictions += len(play.model.ever_evicted)
    assert evictions > 50


def chain(length, **shape):
    return [StageShape(() if each == 0 else (each - 1,), (each,), **shape) for each in range(length)]


def make(stages, rows, *, delivered, prefetch=2, chunk=4, reading=None):
    count = len(rows)
    return Schedule(
        stages,
        frozenset(delivered),
        prefetch=prefetch,
        rows=lambda number: rows[number] if number < count else 0,
        chunk=chunk,
        reading=reading,
    )


def test_chunks_cover_the_rows_and_the_oldest_iteration_comes_first():
    schedule = make(chain(1), [9, 4], delivered=[0])
    assert [schedule.admit(), schedule.admit(), schedule.may_admit()] == [0, 1, False]
    tasks = [schedule.start() for _ in range(5)]
    assert tasks == [(0, 0, 0), (0, 0, 1), (0, 0, 2), (1, 0, 0), None]


def test_a_value_goes_with_its_last_use():
    schedule = make([StageShape((), (0, 1)), StageShape((0,), (2,)), StageShape((0, 2), (3,))], [1], delivered=[3])
    schedule.admit()
    released = []
    while (task := schedule.start()) is not None:
        released.append(schedule.finish(task))
    assert released == [[1], [], [0, 2]]  # nobody uses 1


def test_an_empty_epoch_ends_at_once():
    schedule = make(chain(2), [], delivered=[1])
    assert not schedule.finished
    assert schedule.admit() is None
    assert schedule.finished


def test_a_serial_source_ends_the_epoch_for_all_that_were_admitted():
    schedule = make([StageShape((), (0,), serial=True)], [], delivered=[0], prefetch=3, reading=0)
    for _ in range(3):
        schedule.admit()
    task = schedule.start()
    assert schedule.start() is None
    schedule.finish(task, 0)
    assert schedule.finished
    assert not schedule.has_ready


@pytest.mark.parametrize("serial", [False, True])
def test_a_serial_task_behind_it_keeps_an_iteration_from_being_evicted(serial):
    schedule = make([StageShape((), (0,), serial=serial), StageShape((0,), (1,))], [4, 4], delivered=[1])
    schedule.admit(), schedule.admit()
    first = schedule.start()
    schedule.finish(first)
    for task in iter(schedule.start, None):
        if task.stage == 0:
            schedule.finish(task)
        else:
            schedule.hold_back(task)
    while not schedule.stuck:
        schedule.hold_back(schedule.start())
    assert schedule.evict() == (None if serial else 1)


@pytest.mark.parametrize("partly_done", [False, True])
def test_so_does_a_part_of_a_serial_task(partly_done):
    stages = [StageShape((), (0,)), StageShape((0,), (1,), serial=True), StageShape((1,), (2,))]
    schedule = make(stages, [4, 4], delivered=[2])
    schedule.admit(), schedule.admit()
    for _ in range(2):
        schedule.finish(schedule.start())
    last, read = schedule.start(), schedule.start()
    schedule.finish(read)
    serial = schedule.start()
    assert (last, serial) == (Task(0, 2, 0), Task(1, 1, 0))
    schedule.hold_back(serial, partly_done=partly_done)
    assert schedule.hold_back(last) is False
    schedule.retry_oldest()
    assert schedule.hold_back(schedule.start())
    assert schedule.evict() == (None if partly_done else 1)


def test_a_task_did_not_fail_alone_when_memory_was_let_go_since_it_started():
    schedule = make(chain(1), [4], delivered=[0])
    schedule.admit()
    task = schedule.start()
    schedule.retry()
    assert not schedule.hold_back(task)
    schedule.retry_oldest()
    assert schedule.hold_back(schedule.start())


def test_an_evicted_iteration_starts_over_when_it_is_the_oldest():
    schedule = make(chain(2), [4, 4, 4], delivered=[1])
    schedule.admit(), schedule.admit()
    schedule.finish(schedule.start())
    oldest, younger = schedule.start(), schedule.start()
    assert not schedule.hold_back(oldest)
    schedule.finish(younger)
    assert schedule.start() == oldest
    assert not schedule.hold_back(oldest)  # the younger one's next stage is ready
    younger = schedule.start()
    assert younger == (1, 1, 0)
    assert not schedule.hold_back(younger)
    assert schedule.stuck
    schedule.retry_oldest()
    assert schedule.start() == oldest
    assert schedule.hold_back(oldest)
    assert schedule.evict() == 1
    assert schedule.evict() is None
    schedule.retry_oldest()
    schedule.finish(schedule.start())
    assert schedule.start() is None
    assert not schedule.may_admit()
    assert schedule.deliver() == 0
    assert schedule.may_admit()
    assert schedule.start() == (1, 0, 0)
