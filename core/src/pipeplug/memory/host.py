"""Memory of the host, straight from the operating system or from the C heap."""

from __future__ import annotations

import mmap
import sys
from contextlib import suppress
from ctypes import addressof, c_char

from pipeplug.errors import ArgumentError
from pipeplug.memory.resource import Buffer, OwnedBuffer, Stream
from pipeplug.memory.units import format_bytes

ALIGNMENT = 64
"""Every buffer starts at a multiple of this many bytes: a cache line, and the widest vector register."""

PAGES_FROM = 256 << 10
"""Bytes from which a buffer has pages of its own, so that freeing it gives them back to the system at once."""

HUGE_FROM = 2 << 20
"""Bytes from which huge pages are asked for: the size of one."""


class _Pages(mmap.mmap):
    """Pages of their own, zeroed by the system when first touched."""

    lease: object = None


class _Heap(bytearray):
    """A piece of the C heap."""

    lease: object = None


class HostResource:
    """Pageable memory of the host; addresses are multiples of 64 bytes.

    Memory lasts as long as its buffer is open or any array or view of it lives; so `deallocate` has nothing to do.
    """

    device_id = -1
    is_host_accessible = True
    is_device_accessible = False

    def allocate(self, size: int, *, stream: Stream | None = None) -> OwnedBuffer:
        """A buffer of `size` bytes. Raises MemoryError when the system has no room, ArgumentError if `size` < 0."""
        if size < 0:
            raise ArgumentError(f"cannot allocate {size} bytes: a size is at least 0")
        try:
            view = _pages(size) if size >= PAGES_FROM else _heap(size)
        except (OSError, OverflowError, ValueError, MemoryError) as error:
            raise MemoryError(
                f"the system has no {format_bytes(size)} of memory left ({error}); "
                "lower the batch size, or set memory_limit below what the machine has"
            ) from None
        return OwnedBuffer(addressof(c_char.from_buffer(view)), size, self, view)

    def deallocate(self, ptr: int, size: int, *, stream: Stream | None = None) -> None:
        """Nothing: the memory goes with the last view of it."""


def _pages(size: int) -> memoryview:
    if sys.platform == "win32":
        return memoryview(_Pages(-1, size))
    # mmap's own default is a mapping that is shared with forked children: slower to touch first, and writes would show.
    pages = _Pages(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if size >= HUGE_FROM and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel built without huge pages; ordinary ones serve
            pages.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(pages)


def _heap(size: int) -> memoryview:
    memory = _Heap(size + ALIGNMENT)
    start = -addressof(c_char.from_buffer(memory)) % ALIGNMENT
    return memoryview(memory)[start : start + max(size, 1)]


def view_of(buffer: Buffer) -> memoryview | None:
    """The bytes of any buffer as `OwnedBuffer.view` has them; None where the host has no access.

    The view does not keep a buffer of another library alive: keep the buffer as long as the view.
    """
    view: memoryview | None = getattr(buffer, "view", None)
    if view is None and buffer.memory_resource.is_host_accessible:
        view = memoryview((c_char * max(buffer.size, 1)).from_address(buffer.handle))
    return view
