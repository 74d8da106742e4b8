"""`samples`: chosen positions, here and now. That they equal training's is in integration/test_determinism.py."""

from __future__ import annotations

import threading
import traceback
from typing import Any

import numpy as np
import pytest

from pipeplug import ArgumentError, Array, Pipeline, SampleFailed, ops, pipeline


def calling(function: Any, **options: Any) -> Pipeline:
    @pipeline(**{"batch_size": 4, "threads": 3, **options})
    def made() -> Any:
        numbers = ops.read.arrays(np.arange(10) * 10)
        return {"n": ops.map(lambda whole: whole + 1, ops.map(function, numbers), batch=True), "numbers": numbers}

    return made()


def test_runs_in_the_calling_thread_whatever_the_positions():
    threads = set()

    def note(number: Array) -> Array:
        threads.add(threading.current_thread())
        return number

    chosen = calling(note).samples([7, 7, 0])
    assert chosen["n"].numpy().tolist() == [71, 71, 1]
    assert chosen["numbers"].numpy().tolist() == [70, 70, 0]
    assert chosen.positions.tolist() == [7, 7, 0]
    assert (chosen.padding, chosen.failures) == (0, ())
    assert threads == {threading.current_thread()}


def test_may_run_beside_a_loop():
    made = calling(lambda number: number)
    with made as batches:
        for batch in batches:
            again = made.samples(batch.positions.tolist(), epoch=batch.epoch)
            assert (again["n"].numpy() == batch["n"].numpy()).all()


@pytest.mark.parametrize("positions", [[10], [0, -1]])
def test_positions_outside(positions: list[int]):
    with pytest.raises(ArgumentError, match=rf"position {positions[-1]} is outside of the epoch's 10 samples"):
        calling(lambda number: number).samples(positions)


def test_needs_a_length():
    with pytest.raises(ArgumentError, match="needs a source with a length"):
        pipeline(batch_size=1)(lambda: ops.read.items({1}))().samples([0])


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_the_first_failure_comes_with_its_whole_traceback(on_error: str):
    def refuse(number: Array) -> Array:
        remember = int(number)
        if remember in (30, 50):
            raise ValueError("bad")
        return number

    with pytest.raises(SampleFailed, match=r"map.refuse failed on row 5 \(position 5, index 5\)") as raised:
        calling(refuse, on_error=on_error).samples([1, 5, 3])
    cause = raised.value.__cause__
    assert cause is raised.value.cause
    assert cause is not None
    frames = [frame for frame, _ in traceback.walk_tb(cause.__traceback__)]
    assert frames[-1].f_code is refuse.__code__
    assert frames[-1].f_locals["remember"] == 50  # a debugger can look at it
