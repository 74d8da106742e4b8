"""Blocks kept for reuse: what makes an allocation cheap, and its pages warm."""

from __future__ import annotations

from dataclasses import dataclass
from threading import RLock

from pipeplug.errors import ArgumentError, StateError
from pipeplug.memory.adaptors import Adaptor, not_ours
from pipeplug.memory.host import view_of
from pipeplug.memory.resource import Buffer, MemoryResource, OwnedBuffer, Stream

SMALLEST = 64
"""Bytes of the smallest block."""


def block_size(size: int) -> int:
    """The bytes of the block that holds `size`: four sizes a power of two, so less than 25 % more than asked for."""
    if size <= SMALLEST:
        return SMALLEST
    step = 1 << ((size - 1).bit_length() - 3)
    return (size + step - 1) & -step


@dataclass(frozen=True, slots=True)
class _Block:
    """A buffer of the upstream resource, out or free."""

    handle: int
    size: int
    view: memoryview | None
    buffer: Buffer


class PoolResource(Adaptor):
    """Keeps blocks that come back, by size, and hands out the last one first, which is the warmest in the cache.

    When upstream has no room (MemoryError, a met limit among them) free blocks go back upstream, the largest first,
    until it has; its error passes when no free block is left.

    All state is two tables, changed only by single operations that are atomic in Python (`dict.pop`, `list.append`,
    `list.pop`). So `deallocate`, which Python may call in any thread and in the midst of any other call (a collection
    that drops the last reference to an array), waits for nothing and finds no half-made state. The one lock puts those
    in line who go upstream: one that gives blocks back to make room must not see its room taken by its like, nor take
    blocks that another is still giving back for memory in use.
    """

    def __init__(self, upstream: MemoryResource) -> None:
        super().__init__(upstream)
        self._free: dict[int, list[_Block]] = {}  # by size; a size once there stays
        self._out: dict[int, _Block] = {}  # by address
        self._closed = False
        self._upstream_lock = RLock()  # re-entrant: a finaliser that runs in a collection may allocate

    @property
    def live_bytes(self) -> int:
        """Bytes of the blocks that are out."""
        return sum(block.size for block in self._out.copy().values())

    @property
    def pooled_bytes(self) -> int:
        """Bytes of the blocks that wait for reuse."""
        return sum(size * len(blocks) for size, blocks in self._free.copy().items())

    def allocate(self, size: int, *, stream: Stream | None = None) -> OwnedBuffer:
        """A buffer of `size` bytes; a block of up to a quarter more backs it.

        Raises the MemoryError of upstream when it has no room, StateError when the pool is closed.
        """
        needed = block_size(size)
        try:
            block = self._free[needed].pop()
        except (KeyError, IndexError):
            block = self._grow(size, needed, stream)
        self._out[block.handle] = block
        return OwnedBuffer(block.handle, size, self, block.view)

    def deallocate(self, ptr: int, size: int, *, stream: Stream | None = None) -> None:
        """Keep the block at `ptr` for reuse. Raises ArgumentError if none of this pool starts there."""
        block = self._out.pop(ptr, None)
        if block is None:
            raise not_ours(self, ptr)
        self._free[block.size].append(block)
        if self._closed:  # asked after the block is in the table, so that it and close() cannot miss each other
            self._give_back(block.size)

    def trim(self, keep_bytes: int = 0) -> int:
        """Give free blocks back upstream, the largest first, until at most `keep_bytes` wait; the bytes given back."""
        with self._upstream_lock:
            return self._give_back(self.pooled_bytes - keep_bytes)

    def close(self) -> None:
        """Give all free blocks back upstream, and from now on every block as it comes; allocating raises StateError."""
        with self._upstream_lock:
            self._closed = True
            self.trim()

    def _grow(self, size: int, needed: int, stream: Stream | None) -> _Block:
        if size < 0:
            raise ArgumentError(f"cannot allocate {size} bytes: a size is at least 0")
        with self._upstream_lock:
            if self._closed:
                raise StateError("this pool is closed; memory for tensors lives as long as the `with` block it is of")
            free = self._free.setdefault(needed, [])
            block = _last(free)  # one may have come back while this thread waited for the lock
            return block if block is not None else self._from_upstream(needed, stream)

    def _from_upstream(self, needed: int, stream: Stream | None) -> _Block:
        while True:
            try:
                buffer = self.upstream.allocate(needed, stream=stream)
                return _Block(buffer.handle, needed, view_of(buffer), buffer)
            except MemoryError:
                if not self._give_back(needed):
                    raise

    def _give_back(self, wanted: int) -> int:
        given = 0
        for size in sorted(self._free.copy(), reverse=True):
            while given < wanted and (block := _last(self._free[size])) is not None:
                block.buffer.close()
                given += size
        return given


def _last(blocks: list[_Block]) -> _Block | None:
    try:
        return blocks.pop()
    except IndexError:  # asking for the length first could race with another thread's pop
        return None
