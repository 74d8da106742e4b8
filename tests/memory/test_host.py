from __future__ import annotations

import itertools
import mmap
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeplug.errors import ArgumentError
from pipeplug.memory import HostResource, MemoryResource
from pipeplug.memory.host import HUGE_FROM, PAGES_FROM

SIZES = [0, 1, 63, 64, 4096, PAGES_FROM - 1, PAGES_FROM, HUGE_FROM - 1, HUGE_FROM, HUGE_FROM + 1]


@pytest.mark.parametrize("size", SIZES)
def test_a_buffer_is_aligned_and_can_be_written_from_end_to_end(size: int) -> None:
    buffer = HostResource().allocate(size)
    assert buffer.size == size
    assert buffer.handle % 64 == 0
    assert buffer.view is not None
    array = np.frombuffer(buffer.view, np.uint8, count=size)
    array[:] = 7
    assert array.sum() == 7 * size
    assert size == 0 or array.ctypes.data == buffer.handle


@given(st.lists(st.integers(0, 1 << 16), max_size=30))
def test_live_buffers_do_not_overlap(sizes: list[int]) -> None:
    resource = HostResource()
    buffers = sorted((resource.allocate(size) for size in sizes), key=lambda buffer: buffer.handle)
    for lower, upper in itertools.pairwise(buffers):
        assert lower.handle + lower.size <= upper.handle
        assert lower.handle < upper.handle


@pytest.mark.parametrize("size", [64, HUGE_FROM])
def test_closing_twice_does_nothing(size: int) -> None:
    buffer = HostResource().allocate(size)
    assert repr(buffer).startswith(f"<OwnedBuffer of HostResource: {size} bytes at 0x")
    buffer.close()
    buffer.close()
    assert (buffer.handle, buffer.size, buffer.view) == (0, 0, None)
    assert repr(buffer) == "<OwnedBuffer of HostResource: closed>"


def test_large_buffers_are_pages_which_go_with_their_last_view() -> None:
    buffer = HostResource().allocate(HUGE_FROM)
    assert buffer.view is not None
    view, pages = buffer.view, buffer.view.obj
    assert isinstance(pages, mmap.mmap)
    buffer.close()
    with pytest.raises(BufferError):
        pages.close()  # the view still holds it
    view.release()
    pages.close()
    assert pages.closed


def test_the_nature_of_host_memory() -> None:
    resource: MemoryResource = HostResource()
    assert resource.device_id == -1
    assert resource.is_host_accessible
    assert not resource.is_device_accessible


def test_a_negative_size_is_refused() -> None:
    with pytest.raises(ArgumentError, match="cannot allocate -1 bytes"):
        HostResource().allocate(-1)


@pytest.mark.parametrize("size", [1 << 62, 1 << 80])
def test_more_than_the_system_has(size: int) -> None:
    with pytest.raises(MemoryError, match=r"the system has no .* TiB of memory left .*; lower the batch size"):
        HostResource().allocate(size)


def test_names_without_arrays_need_no_numpy() -> None:
    code = (
        "import sys; from pipeplug.memory import PoolResource, parse_bytes; import pipeplug.memory.resource;"
        "assert 'numpy' not in sys.modules; from pipeplug.memory import empty; assert 'numpy' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_unknown_names_of_the_package() -> None:
    import pipeplug.memory

    assert all(hasattr(pipeplug.memory, name) for name in pipeplug.memory.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        pipeplug.memory.nothing  # noqa: B018
