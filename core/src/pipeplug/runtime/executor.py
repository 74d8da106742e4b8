"""The threads around the schedule of one epoch: one lock, one condition, no thread outlives the block."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Protocol, Self

from pipeplug.errors import MemoryLimitError
from pipeplug.runtime.iteration import forget_frames
from pipeplug.runtime.schedule import Schedule, Task


class Work(Protocol):
    """What the tasks of an epoch do. All but `run` are called under the executor's lock."""

    def fits(self, in_flight: int) -> bool:
        """Whether the memory limit has room for one more iteration."""

    def begin(self, iteration: int) -> None:
        """An iteration is admitted."""

    def run(self, task: Task) -> int | None:
        """Runs a task; the first one of a serial source returns how many samples it read."""

    def release(self, iteration: int, values: list[int]) -> None:
        """Nobody needs these values any more."""

    def restart(self, iteration: int) -> None:
        """An iteration starts over: all its values are to be dropped."""

    def cancel(self) -> None:
        """The epoch ends early: running tasks should return soon."""


class Executor:
    """Runs the tasks of a schedule in threads, from entering the block to leaving it.

    An exception in a thread ends the epoch and is raised by `take`.
    """

    def __init__(self, schedule: Schedule, work: Work, threads: int) -> None:
        self._schedule = schedule
        self._work = work
        self._changed = threading.Condition()
        self._stopped = False
        self._error: BaseException | None = None
        self._threads = [
            threading.Thread(target=self._serve, name=f"pipeplug-{number}", daemon=False) for number in range(threads)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._changed:
            self._stopped = True
            self._work.cancel()
            self._changed.notify_all()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()
        self._error = None

    def take(self) -> int | None:
        """Waits for the next iteration in order and returns its number; None after the last one."""
        with self._changed:
            while True:
                if self._error is not None:
                    raise self._error
                if self._schedule.deliverable():
                    return self._schedule.deliver()
                if self._schedule.finished:
                    return None
                self._changed.wait()

    def resume(self) -> None:
        """Lets the threads go on after an iteration was taken and its values were let go."""
        with self._changed:
            self._schedule.retry()
            self._changed.notify_all()

    def _serve(self) -> None:
        with self._changed:
            try:
                while not self._stopped:
                    task = self._next_task()
                    if task is None:
                        self._changed.wait()
                    else:
                        self._run(task)
            except BaseException as error:
                self._stop_with(error)

    def _next_task(self) -> Task | None:
        while self._schedule.may_admit() and self._work.fits(self._schedule.in_flight):
            iteration = self._schedule.admit()
            if iteration is None:
                self._changed.notify_all()
                break
            self._work.begin(iteration)
        return self._schedule.start()

    def _run(self, task: Task) -> None:
        rows, error = None, None
        self._changed.release()
        try:
            rows = self._work.run(task)
        except MemoryLimitError as met:
            forget_frames(met)
            error = met
        finally:
            self._changed.acquire()
        if self._stopped:
            return
        if error is not None:
            self._hold_back(task, error)
        else:
            self._work.release(task.iteration, self._schedule.finish(task, rows))
            self._schedule.retry()
        if self._schedule.has_ready or self._schedule.deliverable() or self._schedule.finished:
            self._changed.notify_all()

    def _hold_back(self, task: Task, error: MemoryLimitError) -> None:
        """Puts a task back that met the limit. Whatever frees memory wakes it; where nothing can, the oldest raises."""
        self._schedule.hold_back(task)
        if self._schedule.running:
            return
        evicted = self._schedule.evict()
        if evicted is not None:
            self._work.restart(evicted)
            self._schedule.retry()
        elif task.iteration == self._schedule.oldest:
            raise error

    def _stop_with(self, error: BaseException) -> None:
        forget_frames(error)
        self._error = self._error or error
        self._stopped = True
        self._work.cancel()
        self._changed.notify_all()
