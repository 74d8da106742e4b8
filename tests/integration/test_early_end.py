"""However a loop ends, its threads end with it; and threads there are while it runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pipeplug import Array, Context, Operator, Pipeline, SampleFailed, SourceError, Tensor, TensorSpec, ops, pipeline


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) == before


class Gate:
    """A function that waits until it is opened, and counts its calls."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.entered = threading.Event()
        self.calls = 0

    def __call__(self, number: Array) -> Array:
        self.calls += 1
        if number >= 8:
            self.entered.set()
            self.opened.wait()
        return number


def gated(gate: Gate, **options: Any) -> Pipeline:
    @pipeline(**{"batch_size": 8, "threads": 2, "prefetch": 4, **options})
    def function() -> Any:
        return {"n": ops.map(gate, ops.read.arrays(np.arange(1000)))}

    return function()


def open_soon(gate: Gate) -> threading.Thread:
    """Opens the gate once the main thread waits for the threads that are in it."""

    def wait_and_open() -> None:
        gate.entered.wait()
        gate.opened.set()

    thread = threading.Thread(target=wait_and_open)
    thread.start()
    return thread


@pytest.mark.parametrize("threads", [1, 2, 8])
class TestEnds:
    def test_a_break(self, threads: int):
        gate = Gate()
        with gated(gate, threads=threads) as batches:
            opening = open_soon(gate)
            for _ in batches:
                break
            opening.join()
            assert threading.active_count() == 1
        assert gate.calls <= 8 + 4 * 8  # what was admitted, not the epoch

    def test_an_exception(self, threads: int):
        gate = Gate()
        with pytest.raises(ZeroDivisionError), gated(gate, threads=threads) as batches:
            opening = open_soon(gate)
            for batch in batches:
                assert len(batch.positions) // 0
        opening.join()

    def test_the_kernel_that_runs_is_the_last(self, threads: int):
        gate = Gate()
        with gated(gate, threads=threads) as batches:
            iterator = iter(batches)
            next(iterator)
            gate.entered.wait()
            opening = open_soon(gate)
            iterator.close()  # type: ignore[attr-defined]  # a generator
            opening.join()
            calls = gate.calls
            assert threading.active_count() == 1
        assert gate.calls == calls

    def test_an_interrupt_while_waiting(self, threads: int):
        gate, waiting = Gate(), threading.Event()

        def interrupt() -> None:
            gate.entered.wait()
            waiting.wait()
            os.kill(os.getpid(), signal.SIGINT)
            gate.opened.set()

        interrupting = threading.Thread(target=interrupt)
        with gated(gate, threads=threads) as batches:
            with pytest.raises(KeyboardInterrupt):
                for batch in batches:
                    if batch.positions[0] == 0:
                        interrupting.start()
                        waiting.set()
            interrupting.join()
            assert threading.active_count() == 1
            assert next(iter(batches)).epoch == 1

    def test_a_kernel_that_raises(self, threads: int):
        def refuse(number: Array) -> Array:
            raise ValueError(number)

        with pipeline(batch_size=4, threads=threads)(lambda: ops.map(refuse, ops.read.arrays(np.arange(100))))() as it:
            for epoch in range(3):
                with pytest.raises(SampleFailed, match="position 0"):
                    list(it)
                assert it.state().epoch == epoch
                assert threading.active_count() == 1

    def test_a_kernel_that_exits(self, threads: int):
        def leave(number: Array) -> Array:
            raise SystemExit(3)

        with pipeline(batch_size=4, threads=threads)(lambda: ops.map(leave, ops.read.arrays(np.arange(100))))() as it:
            with pytest.raises(SampleFailed, match=r"map.leave failed on row 0 .*SystemExit: 3"):
                list(it)

    def test_a_source_that_raises(self, threads: int):
        def items() -> Iterator[int]:
            yield from range(5)
            raise OSError("gone")

        with pipeline(batch_size=4, threads=threads)(lambda: ops.read.items(items()))() as batches:
            with pytest.raises(SourceError, match="raised OSError after 5 items: gone"):
                list(batches)

    def test_a_slow_source(self, threads: int):
        gate = Gate()

        def items() -> Iterator[Array]:
            return (gate(np.asarray(number)) for number in range(1000))

        @pipeline(batch_size=8, threads=threads)
        def function() -> Any:
            return ops.read.items(items())

        with function() as batches:
            for _ in batches:
                gate.entered.wait()
                opening = open_soon(gate)
                break
            opening.join()
        assert gate.calls <= 8 + 2 * 8


class TestOpen:
    @pytest.mark.parametrize("threads", [1, 4])
    def test_one_that_raises(self, threads: int):
        closed: list[str] = []

        class Opened(Operator):
            fails: bool

            def infer(self, value: TensorSpec) -> TensorSpec:
                return value

            def open(self) -> Any:
                return Door(self.fails, closed)

            def cpu(self, value: Tensor, context: Context, *, state: object) -> Tensor:
                return value

        made = pipeline(batch_size=1, threads=threads)(
            lambda: Opened(fails=True)(Opened(fails=False)(ops.read.arrays(np.arange(3))))
        )()
        for _ in range(2):
            with pytest.raises(OSError, match="no device") as raised, made:
                pytest.fail("it opened")
            assert "in open of Opened_2, called at " in raised.value.__notes__[0]
            assert f"{__file__}:" in raised.value.__notes__[0]
        assert closed == ["closed"] * 2


class Door:
    """The state of an operator, which may not open."""

    def __init__(self, fails: bool, closed: list[str]) -> None:
        self._fails = fails
        self._closed = closed

    def __enter__(self) -> None:
        if self._fails:
            raise OSError("no device")

    def __exit__(self, *_: object) -> None:
        self._closed.append("closed")


def test_kernels_that_wait_overlap():
    """Eight at a time, sixteen in all: each goes on only when eight are there."""
    together = threading.Barrier(8, timeout=60)

    def meet(number: Array) -> Array:
        together.wait()
        return number

    with pipeline(batch_size=16, threads=8)(lambda: ops.map(meet, ops.read.arrays(np.arange(16))))() as batches:
        (batch,) = batches
    assert batch["0"].numpy().tolist() == list(range(16))


def test_batches_are_prepared_while_the_loop_works():
    made = [threading.Event() for _ in range(6)]

    def note(numbers: Array) -> Array:
        made[numbers[0]].set()
        return numbers

    @pipeline(batch_size=1, threads=1, prefetch=2)
    def function() -> Any:
        return ops.map(note, ops.read.arrays(np.arange(6)), batch=True)

    with function() as batches:
        for batch in batches:
            for ahead in made[: batch["0"].numpy()[0] + 3]:
                assert ahead.wait(60)


GIVEN_UP = """
import signal, sys
import numpy as np
from pipeplug import ops, pipeline

@pipeline(batch_size=4, threads=2)
def numbers():
    return ops.read.arrays(np.arange(1000))

def for_ever():
    with numbers() as batches:
        while True:
            yield from batches

if sys.argv[1] == "generator":
    loop = for_ever()
else:
    opened = numbers()
    loop = iter(opened.__enter__())
next(loop)
if sys.argv[2] == "error":
    raise ValueError("the training step broke")
if sys.argv[2] == "exit":
    sys.exit(3)
if sys.argv[2] == "interrupt":
    signal.raise_signal(signal.SIGINT)
print("end")
"""


@pytest.mark.parametrize("loop", ["generator", "iterator"])
@pytest.mark.parametrize("how", ["end", "error", "exit", "interrupt"])
def test_a_program_ends_whose_loop_was_given_up(loop: str, how: str):
    done = subprocess.run([sys.executable, "-c", GIVEN_UP, loop, how], capture_output=True, text=True, timeout=60)
    codes = {"end": 0, "error": 1, "exit": 3, "interrupt": -signal.SIGINT}
    assert done.returncode == codes[how]
    assert "Exception ignored" not in done.stderr
    assert ("the training step broke" in done.stderr) == (how == "error")


FORKED = """
import os, sys
import numpy as np
from pipeplug import StateError, ops, pipeline

@pipeline(batch_size=4, threads=2)
def numbers():
    return ops.read.arrays(np.arange(400))

with numbers() as batches:
    loop = iter(batches)
    next(loop)
    for _ in range(20):  # whoever holds the lock at that moment
        child = os.fork()
        if child == 0:
            try:
                next(loop)
            except StateError as error:
                assert "are in the process that began it" in str(error)
                sys.exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert sum(1 for _ in loop) == 99
print("end")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only some systems fork")
def test_a_forked_process_ends_and_leaves_the_loop_to_its_parent():
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr
