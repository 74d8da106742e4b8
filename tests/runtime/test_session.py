from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from pipeplug import Array, Context, MemoryLimitError, Operator, PipeplugError, Tensor, TensorSpec, ops, pipeline
from pipeplug.memory.pool import block_size
from pipeplug.runtime.memory import HostMemory


class Opened:
    """A reader, or the state of an operator, that notes when it is entered and left."""

    def __init__(self, name: str, events: list[str]) -> None:
        self.name = name
        self.events = events

    def __enter__(self) -> Opened:
        self.events.append(f"enter {self.name}")
        return self

    def __exit__(self, *_: object) -> None:
        self.events.append(f"leave {self.name}")

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> np.int64:
        return np.int64(index)


class Stateful(Operator):
    """Opens what it is given."""

    state: Any

    def infer(self, value: TensorSpec) -> TensorSpec:
        return value

    def open(self) -> Any:
        return self.state

    def cpu(self, value: Tensor, context: Context, *, state: Any) -> Tensor:
        assert isinstance(state, Opened)
        return value


class TestOpen:
    def test_reader_and_states_live_as_long_as_the_block(self):
        events: list[str] = []

        @pipeline(batch_size=4)
        def function() -> Any:
            value = ops.read.items(Opened("reader", events))
            return Stateful(state=Opened("second", events))(Stateful(state=Opened("first", events))(value))

        with function() as batches:
            list(batches)
            list(batches)
            assert events == ["enter reader", "enter first", "enter second"]
        assert events[3:] == ["leave second", "leave first", "leave reader"]

    def test_what_is_no_context_manager(self):
        made = pipeline(batch_size=4)(lambda: Stateful(state=3)(ops.read.arrays(np.arange(3))))()
        with pytest.raises(PipeplugError, match=r"Stateful: open\(\) gives 3, which is not a context manager"), made:
            pytest.fail("it opened")


class TestHostMemory:
    def test_arrays_come_back(self):
        memory = HostMemory(None)
        array: Array | None = memory.empty((1000,), "float64")
        assert memory.use().live == 8000
        assert memory.use().taken == block_size(8000)
        view = array[10:] if array is not None else None
        array = None
        assert memory.use().live == 8000
        del view
        gc.collect()
        assert (memory.use().live, memory.use().peak) == (0, 8000)
        assert memory.use().taken == block_size(8000)  # waits for reuse
        memory.close()
        assert memory.use().taken == 0

    def test_a_limit_counts_blocks(self):
        memory = HostMemory(4096)
        assert memory.fits(4096)
        assert not memory.fits(4097)
        array = memory.empty((2050,), "uint8")
        assert block_size(2050) == 2560
        assert memory.fits(4096 - 2560)
        assert not memory.fits(4096 - 2560 + 1)
        with pytest.raises(MemoryLimitError, match="2048 bytes"):
            memory.empty((2000,), "uint8")
        assert memory.use().limit == 4096
        assert len(array) == 2050
        memory.close()

    def test_free_blocks_do_not_stand_in_the_way(self):
        memory = HostMemory(4096)
        assert len(memory.empty((4096,), "uint8")) == 4096
        assert memory.use().taken == 4096
        assert memory.fits(4096)
        assert len(memory.empty((100,), "uint8")) == 100
        memory.close()

    def test_without_a_limit_all_fits(self):
        assert HostMemory(None).fits(2**60)
