"""The threads around the schedule of one epoch: one lock, and no thread outlives the block.

Two conditions share the lock, so that a change wakes only whom it concerns: idle threads wait on one, the consumer on
the other. A thread that takes a task wakes one more while others are ready, which does the same in turn. Whatever makes
tasks ready is done by a thread that takes one next, or by the consumer, which then wakes one thread.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from types import TracebackType
from typing import Protocol, Self
from weakref import WeakSet

from pipeplug.errors import MemoryLimitError, StateError
from pipeplug.runtime.frames import forget_frames
from pipeplug.runtime.schedule import Schedule, Task


class Work(Protocol):
    """What the tasks of an epoch do. All but `run` are called under the executor's lock, and return at once."""

    def fits(self) -> bool:
        """Whether the memory limit has room for one more iteration; True when none is under way."""

    def begin(self, iteration: int) -> None:
        """An iteration is admitted."""

    def run(self, task: Task) -> int | None:
        """Runs a task; the first one of a serial source returns how many samples it read.

        MemoryLimitError says that the task is to be run again when memory may have become free.
        """

    def is_partly_done(self, task: Task) -> bool:
        """Whether a task that met the memory limit goes on where it stopped when it is run again."""

    def release(self, iteration: int, values: list[int]) -> None:
        """Nobody needs these values any more."""

    def restart(self, iteration: int) -> None:
        """An iteration starts over: all its values are to be dropped."""

    def cancel(self) -> None:
        """The epoch ends early: running tasks should return soon."""


_ENTERED: WeakSet[Executor] = WeakSet()
"""The executors whose block was entered and not left: what `_stop_all` stops, so it cannot be anyone's own."""


def _stop_all() -> None:
    """Stops what still runs when the program ends: a loop that was given up holds its block open, in a generator.

    Python waits for threads before it lets go of anything, so nobody else would tell them.
    """
    for executor in list(_ENTERED):
        executor.stop()


def _forget_all() -> None:
    """In a forked process there are no threads of the parent's, but their locks, which nobody would release."""
    for executor in list(_ENTERED):
        executor.lose_threads()
    _ENTERED.clear()


# It has to come before Python waits for threads; `atexit` comes after. `concurrent.futures` uses the same.
if hasattr(threading, "_register_atexit"):
    threading._register_atexit(_stop_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


class Executor:
    """Runs the tasks of a schedule in threads, from entering the block to leaving it.

    An exception in a thread ends the epoch and is raised by `take`.
    """

    def __init__(self, schedule: Schedule, work: Work, threads: int) -> None:
        self._schedule = schedule
        self._work = work
        self._make_lock()
        self._consumer_waits = False
        self._stopped = False
        self._error: BaseException | None = None
        self._serving = 0
        self._threads = [
            threading.Thread(target=self._serve, name=f"pipeplug-{number}", daemon=False) for number in range(threads)
        ]

    def _make_lock(self) -> None:
        self._lock = threading.RLock()
        self._idle = threading.Condition(self._lock)
        self._consumer = threading.Condition(self._lock)

    def lose_threads(self) -> None:
        """Goes on without threads, in a forked process: taking raises, and leaving waits for nobody."""
        self._make_lock()
        self._threads, self._serving, self._stopped = [], 0, True
        self._error = StateError("the threads of this loop are in the process that began it; begin one in this process")

    def __enter__(self) -> Self:
        _ENTERED.add(self)
        try:
            for thread in self._threads:
                thread.start()
        except BaseException:
            self.leave()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.leave()

    def take(self) -> int | None:
        """Waits for the next iteration in order and returns its number; None after the last one."""
        with self._lock:
            while True:
                if self._error is not None:
                    raise self._error
                assert not self._stopped, "the block was left"
                if self._schedule.deliverable():
                    return self._schedule.deliver()
                if self._schedule.finished:
                    return None
                self._wait()

    def resume(self) -> None:
        """Lets the threads go on after an iteration was taken and its values were let go."""
        with self._lock:
            self._schedule.retry()
            self._idle.notify()

    def _wait(self) -> None:
        self.resume()  # the consumer may have let more go since the last time
        self._consumer_waits = True
        try:
            self._consumer.wait()
        finally:
            self._consumer_waits = False

    def _serve(self) -> None:
        with self._lock:
            # Counted here, as nobody knows of a start that is interrupted whether there is a thread; one that comes
            # when all is over touches nothing.
            self._serving += 1
            try:
                while not self._stopped:
                    task = self._next_task()
                    if task is None:
                        self._idle.wait()
                        continue
                    if self._schedule.has_ready:
                        self._idle.notify()
                    self._run(task)
            except BaseException as error:
                self._stop_with(error)
            finally:
                self._serving -= 1
                self._consumer.notify()

    def _next_task(self) -> Task | None:
        while self._schedule.may_admit() and self._work.fits():
            iteration = self._schedule.admit()
            if iteration is None:
                self._wake_consumer()
                break
            self._work.begin(iteration)
        return self._schedule.start()

    def _run(self, task: Task) -> None:
        rows, error = None, None
        self._lock.release()
        try:
            rows = self._work.run(task)
        except MemoryLimitError as met:
            forget_frames(met)
            error = met
        finally:
            self._lock.acquire()
        if self._stopped:
            return
        if error is None:
            self._finish(task, rows)
            return
        try:
            self._hold_back(task, error)
        finally:
            del error  # its traceback has this frame: the cycle would keep memory until the garbage collector comes

    def _finish(self, task: Task, rows: int | None) -> None:
        released = self._schedule.finish(task, rows)
        if released:
            self._work.release(task.iteration, released)
        self._wake_consumer()

    def _wake_consumer(self) -> None:
        if self._consumer_waits and (self._schedule.deliverable() or self._schedule.finished):
            self._consumer.notify()

    def _hold_back(self, task: Task, error: MemoryLimitError) -> None:
        """Puts a task back that met the limit, and makes room when nothing else will."""
        failed_alone = self._schedule.hold_back(task, partly_done=self._work.is_partly_done(task))
        if not self._schedule.stuck:
            return
        if failed_alone:
            evicted = self._schedule.evict()
            if evicted is not None:
                self._work.restart(evicted)
            elif self._consumer_waits:
                raise error
            else:
                return  # the consumer may let go of what it holds before it waits
        self._schedule.retry_oldest()

    def _stop_with(self, error: BaseException) -> None:
        forget_frames(error)
        if self._error is None:
            self._error = error
        self._stop()

    def _stop(self) -> None:
        self._stopped = True
        self._idle.notify_all()
        self._work.cancel()

    def stop(self) -> None:
        """Tells all threads to end, and waits for none."""
        with self._lock:
            self._stop()

    def leave(self) -> None:
        """Ends all threads; once more does nothing, but for an interrupt that met the first time as it began."""
        if threading.current_thread() in self._threads:  # the garbage collector closes an epoch wherever it runs
            self.stop()
            return
        interrupt = self._wait_for_threads()
        for thread in self._threads:
            with suppress(RuntimeError):  # its start was interrupted
                thread.join()
        _ENTERED.discard(self)
        self._error = None
        if interrupt is not None:
            raise interrupt

    def _wait_for_threads(self) -> BaseException | None:
        """Stops all threads and waits until they have returned; what broke in meanwhile, a KeyboardInterrupt mostly."""
        # Not with `join`: one that is broken off takes the thread for dead while it runs on. What the threads use is
        # closed after this, so they are told to stop and waited for however often the user interrupts, at any line.
        interrupt: BaseException | None = None
        cancelled = False
        while True:
            try:
                with self._lock:
                    self._stopped = True
                    self._idle.notify_all()
                    if not cancelled:
                        cancelled = True
                        self._work.cancel()
                    while self._serving:
                        self._consumer.wait()
                return interrupt
            except BaseException as error:
                interrupt = error
