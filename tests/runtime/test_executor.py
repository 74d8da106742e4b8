"""The executor with real threads: results, errors, interrupts; no thread is left, and nothing hangs."""

from __future__ import annotations

import gc
import signal
import threading
import weakref
from random import Random

import pytest

from pipeplug.errors import MemoryLimitError
from pipeplug.runtime.executor import Executor
from pipeplug.runtime.schedule import Schedule, StageShape

THREADS = [1, 2, 8]


@pytest.fixture(autouse=True)
def no_thread_is_left():
    before = threading.enumerate()
    yield
    assert threading.enumerate() == before


class Idle:
    """Work that does nothing but call what a test puts in the way."""

    def __init__(self, **ways):
        self.cancelled = threading.Event()
        self.ways = ways

    def _do(self, name, *args):
        return self.ways[name](*args) if name in self.ways else None

    def fits(self):
        return self._do("fits") is not False

    def is_partly_done(self, task):
        return self._do("is_partly_done", task) is True

    def begin(self, iteration):
        self._do("begin", iteration)

    def run(self, task):
        return self._do("run", task)

    def release(self, iteration, values):
        self._do("release", iteration, values)

    def restart(self, iteration):
        self._do("restart", iteration)

    def cancel(self):
        self.cancelled.set()
        self._do("cancel")


def chain(iterations=4, length=3, prefetch=2, rows=20, chunk=5):
    stages = [StageShape(() if each == 0 else (each - 1,), (each,)) for each in range(length)]
    return Schedule(
        stages,
        frozenset({length - 1}),
        prefetch=prefetch,
        rows=lambda number: rows if number < iterations else 0,
        chunk=chunk,
    )


def take_all(executor):
    taken = []
    while (number := executor.take()) is not None:
        taken.append(number)
        executor.resume()
    return taken


def raising(error):
    def way(*args):
        raise error

    return way


# What it computes.


class Computing:
    """Work that computes with values: a number a row, from the inputs of the row or, in batched stages, from all.

    With a budget a task takes its stage's outputs, a unit a row, and raises when they do not fit.
    """

    def __init__(self, epoch, budget=None):
        self.epoch = epoch
        self.budget = budget
        self.lock = threading.Lock()
        self.columns = {}
        self.active = set()
        self.serial_calls: dict[int, list] = {number: [] for number, stage in enumerate(epoch.stages) if stage.serial}
        self.restarts = 0
        self.most = 0

    def fits(self):
        return True

    def is_partly_done(self, task):
        return False

    def begin(self, iteration):
        assert iteration not in self.active
        self.active.add(iteration)

    def run(self, task):
        if task.stage == self.epoch.reading and self.epoch.rows_of(task.iteration) == 0:
            return 0
        self.make_room(task)
        stage = self.epoch.stages[task.stage]
        if stage.serial:
            self.serial_calls[task.stage].append((task.iteration, task.chunk))
        inputs = [self.columns[task.iteration, value] for value in stage.inputs]
        rows = range(self.epoch.rows_of(task.iteration))
        for row in rows if stage.batched else rows[task.chunk * self.epoch.chunk :][: self.epoch.chunk]:
            for value in stage.outputs:
                self.columns[task.iteration, value][row] = compute(stage, value, task.iteration, row, inputs)
        if task.stage != self.epoch.reading:
            return None
        for row in rows:
            for value in stage.outputs:
                self.columns[task.iteration, value][row] = compute(stage, value, task.iteration, row, inputs)
        return len(rows)

    def make_room(self, task):
        rows = self.epoch.rows_of(task.iteration)
        with self.lock:
            for value in self.epoch.stages[task.stage].outputs:
                if (task.iteration, value) in self.columns:
                    continue
                used = sum(len(column) for column in self.columns.values())
                if self.budget is not None and used + rows > self.budget:
                    raise MemoryLimitError(f"{used} + {rows} > {self.budget}")
                self.columns[task.iteration, value] = [None] * rows
                self.most = max(self.most, used + rows)

    def drop(self, iteration, values):
        with self.lock:
            return {value: self.columns.pop((iteration, value)) for value in values}

    def release(self, iteration, values):
        self.drop(iteration, values)

    def restart(self, iteration):
        self.restarts += 1
        self.drop(iteration, [value for number, value in list(self.columns) if number == iteration])

    def cancel(self):
        pass

    def deliver(self, iteration):
        self.active.remove(iteration)
        return self.drop(iteration, self.epoch.delivered)


def compute(stage, value, iteration, row, inputs):
    used = [sum(column) if stage.batched else column[row] for column in inputs]
    return hash((value, iteration, row, *used)) % 1_000_003


def expected(epoch, iteration):
    rows = range(epoch.rows_of(iteration))
    columns: dict[int, list] = {}
    for stage in epoch.stages:
        inputs = [columns[value] for value in stage.inputs]
        for value in stage.outputs:
            columns[value] = [compute(stage, value, iteration, row, inputs) for row in rows]
    return {value: columns[value] for value in epoch.delivered}


def check_run(epoch, work, threads):
    with Executor(epoch.schedule(), work, threads) as executor:
        for iteration in range(len(epoch.rows)):
            assert executor.take() == iteration
            assert work.deliver(iteration) == expected(epoch, iteration)
            executor.resume()
        assert executor.take() is None
        assert executor.take() is None
    assert not work.columns
    for stage, calls in work.serial_calls.items():
        assert calls == [
            (iteration, chunk) for iteration in range(len(epoch.rows)) for chunk in epoch.chunks(iteration, stage)
        ]


@pytest.mark.parametrize("threads", THREADS)
def test_random_epochs_give_the_values_of_a_plain_loop(random_epoch, threads):
    for seed in range(150):
        epoch = random_epoch(Random(seed))
        check_run(epoch, Computing(epoch), threads)


@pytest.mark.parametrize("threads", THREADS)
def test_at_the_memory_limit_the_values_are_the_same(random_epoch, threads):
    for seed in range(150):
        epoch = random_epoch(Random(seed), serial=False)
        one = max(epoch.rows, default=0) * sum(len(stage.outputs) for stage in epoch.stages)
        work = Computing(epoch, budget=one)
        check_run(epoch, work, threads)
        assert work.most <= one


@pytest.mark.parametrize("threads", THREADS)
def test_an_iteration_that_never_fits_raises_the_limits_error_after_all_others_made_room(threads):
    evicted: list[int] = []

    def run(task):
        if task.stage == 2:
            raise MemoryLimitError(f"no room for iteration {task.iteration}")

    with Executor(chain(prefetch=4), Idle(run=run, restart=evicted.append), threads) as executor:
        with pytest.raises(MemoryLimitError, match="no room for iteration 0"):
            executor.take()
    assert evicted == [3, 2, 1]


@pytest.mark.parametrize("threads", THREADS)
def test_memory_that_the_consumer_lets_go_is_tried_before_the_error(threads):
    consumer_holds = threading.Event()
    failed = threading.Event()

    def run(task):
        if task.iteration == 1 and consumer_holds.is_set():
            failed.set()
            raise MemoryLimitError("full")

    with Executor(chain(iterations=2, prefetch=1), Idle(run=run), threads) as executor:
        assert executor.take() == 0
        consumer_holds.set()
        executor.resume()
        failed.wait()
        consumer_holds.clear()
        assert executor.take() == 1


def test_the_error_of_a_task_that_runs_again_is_gone_by_then():
    """It would keep memory, which the task may need, until the garbage collector comes."""
    errors: list[weakref.ref] = []

    def run(task):
        if not errors:
            error = MemoryLimitError("full")
            errors.append(weakref.ref(error))
            raise error
        assert errors[0]() is None

    gc.disable()
    try:
        with Executor(chain(), Idle(run=run), 1) as executor:
            assert take_all(executor) == [0, 1, 2, 3]
    finally:
        gc.enable()


def test_all_threads_get_work():
    """Every thread is woken for a stage that falls into as many chunks as there are threads."""
    together = threading.Barrier(4)

    def run(task):
        if task.stage == 1:
            together.wait()

    with Executor(chain(prefetch=1), Idle(run=run), 4) as executor:
        assert take_all(executor) == [0, 1, 2, 3]


def test_threads_are_woken_for_an_iteration_that_is_admitted_late():
    together = threading.Barrier(4)
    first = threading.Event()

    def run(task):
        if task.iteration == 0:
            first.wait()
        else:
            together.wait()

    with Executor(chain(iterations=2, length=1, prefetch=1), Idle(run=run), 4) as executor:
        first.set()
        assert take_all(executor) == [0, 1]


def test_iterations_wait_until_they_fit():
    schedule, in_flight = chain(prefetch=4), []

    def fits():
        return schedule.in_flight == 0

    work = Idle(fits=fits, begin=lambda iteration: in_flight.append(schedule.in_flight))
    with Executor(schedule, work, 2) as executor:
        assert take_all(executor) == [0, 1, 2, 3]
    assert in_flight == [1, 1, 1, 1]


def test_taking_without_resuming_goes_on():
    with Executor(chain(), Idle(), 2) as executor:
        assert [executor.take() for _ in range(5)] == [0, 1, 2, 3, None]


# Errors.


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("way", ["run", "begin", "release", "fits"])
@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), MemoryError("no"), KeyboardInterrupt()])
def test_an_error_is_raised_by_take_and_again(threads, way, error):
    work = Idle(**{way: raising(error)})
    with Executor(chain(), work, threads) as executor:
        for _ in range(2):
            with pytest.raises(type(error)) as met:
                executor.take()
            assert met.value is error
    assert work.cancelled.is_set()


def test_an_error_while_starting_an_iteration_over_is_raised():
    def run(task):
        if task.stage == 1:
            raise MemoryLimitError("full")

    with Executor(chain(), Idle(run=run, restart=raising(ValueError("restart"))), 2) as executor:
        with pytest.raises(ValueError, match="restart"):
            executor.take()


@pytest.mark.parametrize("threads", THREADS)
def test_the_first_error_counts_and_running_tasks_are_cancelled(threads):
    started = threading.Barrier(threads)
    work = Idle()

    def run(task):
        started.wait()
        if task.chunk == 0:
            raise ValueError("first")
        work.cancelled.wait()
        raise ValueError("later")

    work.ways["run"] = run
    with Executor(chain(rows=5 * threads, prefetch=1), work, threads) as executor:
        with pytest.raises(ValueError, match="first"):
            executor.take()


def test_an_error_of_a_thread_lets_go_of_its_frames():
    class Buffer:
        pass

    buffers = []

    def run(task):
        buffer = Buffer()
        buffers.append(weakref.ref(buffer))
        raise ValueError("no")

    with Executor(chain(), Idle(run=run), 1) as executor:
        with pytest.raises(ValueError) as met:
            executor.take()
        assert met.value.__traceback__ is not None
        assert [buffer() for buffer in buffers] == [None]


def test_an_error_of_cancel_does_not_keep_the_threads():
    with pytest.raises(ValueError, match="cancel"):
        with Executor(chain(), Idle(cancel=raising(ValueError("cancel"))), 2) as executor:
            executor.take()


def test_an_interrupt_while_a_thread_starts_leaves_none(monkeypatch):
    start, calls = threading.Thread.start, []

    def interrupted(thread):
        start(thread)
        calls.append(thread)
        if len(calls) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt), Executor(chain(), Idle(), 4):
        pass
    assert not any(thread.is_alive() for thread in calls)


def test_threads_that_cannot_start_are_no_leak(monkeypatch):
    start = threading.Thread.start

    def limited(thread):
        if thread.name == "pipeplug-2":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    with pytest.raises(RuntimeError, match="can't start"):
        with Executor(chain(), Idle(), 4):
            pytest.fail("the block was entered")


# The consumer.


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("taken", [0, 1, 3])
def test_a_consumer_may_stop_early(threads, taken):
    work = Idle()
    with Executor(chain(iterations=1000), work, threads) as executor:
        for number in range(taken):
            assert executor.take() == number
            executor.resume()
    assert work.cancelled.is_set()


@pytest.mark.parametrize("threads", THREADS)
def test_a_consumers_error_passes(threads):
    with pytest.raises(ZeroDivisionError):
        with Executor(chain(iterations=1000), Idle(), threads) as executor:
            executor.take()
            raise ZeroDivisionError


def interrupt_main_until(seen):
    """Python loses a signal that comes just before a lock is waited for, until the next one: a user presses again."""
    while True:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        if seen(0.05):
            return


@pytest.mark.parametrize("threads", THREADS)
def test_a_keyboard_interrupt_ends_the_wait(threads):
    work = Idle()

    def run(task):
        if task == (0, 0, 0):
            interrupt_main_until(work.cancelled.wait)
        work.cancelled.wait()

    work.ways["run"] = run
    with pytest.raises(KeyboardInterrupt):
        with Executor(chain(), work, threads) as executor:
            executor.take()


def test_the_block_is_not_left_before_its_threads_however_often_it_is_interrupted():
    work = Idle()
    interrupted = threading.Event()
    ended = []

    def interrupt(number, frame):
        interrupted.set()
        raise KeyboardInterrupt

    def run(task):
        for _ in range(3):
            interrupt_main_until(interrupted.wait)
            interrupted.clear()
            work.cancelled.wait()
        threading.Event().wait(0.05)  # longer than a broken-off wait would take to leave the block
        ended.append(task)

    work.ways["run"] = run
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            with Executor(chain(), work, 1) as executor:
                executor.take()
        assert ended == [(0, 0, 0)]
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_block_left_in_one_of_its_own_threads_does_not_wait_for_itself():
    """The garbage collector may close an abandoned epoch in any thread."""
    executors: list[Executor] = []

    def run(task):
        executors[0].__exit__(None, None, None)

    executor = Executor(chain(), Idle(run=run), 2)
    executors.append(executor)
    with executor:
        for thread in executor._threads:
            thread.join()


def test_an_executor_lets_go_of_its_error():
    class TaskError(Exception):
        pass

    def run(task):
        raise TaskError

    with Executor(chain(), Idle(run=run), 2) as executor:
        try:
            executor.take()
        except TaskError as error:
            dead = weakref.ref(error)
    gc.collect()
    assert dead() is None
