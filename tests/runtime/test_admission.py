from __future__ import annotations

import numpy as np
import pytest

from pipeplug import TensorSpec
from pipeplug.graph.graph import Ref
from pipeplug.runtime.admission import Admission
from pipeplug.runtime.iteration import Iteration, Rows
from pipeplug.runtime.memory import Memory

KIB = TensorSpec((1024,), "uint8")


def iteration(memory: Memory, *names: str) -> Iteration:
    """One of four samples that holds 4 KiB a value."""
    rows = np.arange(4)
    made = Iteration(0, 0, Rows(rows, rows), str)
    for name in names:
        made.unfilled(Ref(name), KIB, memory.empty)
    return made


@pytest.mark.parametrize("prefetch", [1, 3])
def test_by_number_alone_without_a_limit(prefetch: int):
    admission = Admission(Memory({}), prefetch)
    for _ in range(prefetch):
        assert admission.allows([])
        admission.begun += 1
    assert not admission.allows([])
    admission.handed_over += 1
    assert admission.allows([])


def test_the_first_goes_alone_and_the_others_by_what_it_held():
    memory = Memory({"cpu": 20 << 10})
    admission = Admission(memory, 10)
    assert admission.allows([])
    admission.begun = 1
    first = iteration(memory, "a", "b")
    assert not admission.allows([first])
    admission.before_release(first)
    first.release([Ref("a")])
    admission.learn(first, {})
    admission.handed_over = 1
    assert first.peak == {"cpu": 8 << 10}  # and the loop keeps 4 of them
    admission.begun = 2
    second = iteration(memory, "a")
    assert admission.allows([second])  # 4 + 2 * 8 = 20
    kept = iteration(memory, "kept by the loop")
    assert not admission.allows([second])
    kept.restart()
    assert admission.allows([second])
    admission.learn(first, {"cpu": 1})
    assert not admission.allows([second])


def test_one_is_always_admitted_when_none_is_under_way():
    memory = Memory({"cpu": 4 << 10})
    admission = Admission(memory, 2)
    kept = iteration(memory, "kept by the loop")
    admission.learn(kept, {})
    assert admission.allows([])
    admission.begun = 1
    assert not admission.allows([])
