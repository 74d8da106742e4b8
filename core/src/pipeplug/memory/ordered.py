"""Blocks kept for reuse where work on them may still be queued: memory of a device, pinned memory of the host.

A block comes back when nobody refers to it any more, which may be long before the device is done with it. So it comes
back with a mark in the stream that used it last. It is handed out again on that very stream at once, since the stream's
order does what is needed; on another stream when the mark is passed; and, where there is no room for another block,
before that, to a stream that is made to wait for the mark.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from threading import RLock

from pipeplug.errors import ArgumentError, StateError
from pipeplug.memory.adaptors import Adaptor, not_ours
from pipeplug.memory.host import view_of
from pipeplug.memory.pool import block_size
from pipeplug.memory.resource import Buffer, Event, MemoryResource, OwnedBuffer, Stream


@dataclass(slots=True)
class _Block:
    """A buffer of the upstream resource, out or free.

    Attributes:
        event: its own mark, recorded each time when it comes back with a stream.
        stream: whose work on it may not be done yet; None when no work is queued.
    """

    handle: int
    size: int
    view: memoryview | None
    buffer: Buffer
    event: Event
    stream: Stream | None = None

    def is_idle(self) -> bool:
        """Whether no work on it is queued any more."""
        if self.stream is not None and self.event.is_done:
            self.stream = None
        return self.stream is None

    def settle(self, stream: Stream | None) -> None:
        """Lets `stream`, or the calling thread, wait until no work on it is queued."""
        if self.is_idle():
            return
        if stream is None:
            self.event.sync()
            self.stream = None
        else:
            stream.wait(self.event)


class OrderedPoolResource(Adaptor):
    """Keeps blocks that come back, by size, and hands them out again in the order of the streams' work.

    When upstream has no room (MemoryError, a met limit among them) a block that is still in use is taken and waited
    for, else free blocks go back upstream, the largest first, and upstream is asked again; its error passes when no
    free block is left.

    `deallocate` may be called wherever Python drops a reference: it only records a mark and appends to a queue, both
    of which wait for nothing. Whoever allocates next sorts the queue in, under the lock.

    Args:
        upstream: where blocks come from.
        new_event: makes a mark. Blocks get theirs when they are made, because a thread that drops one may not be able
            to make any.
    """

    def __init__(self, upstream: MemoryResource, new_event: Callable[[], Event]) -> None:
        super().__init__(upstream)
        self._new_event = new_event
        self._free: dict[int, list[_Block]] = {}
        self._returned: deque[_Block] = deque()
        self._out: dict[int, _Block] = {}
        self._closed = False
        self._lock = RLock()

    @property
    def live_bytes(self) -> int:
        """Bytes of the blocks that are out."""
        return sum(block.size for block in self._out.copy().values())

    @property
    def pooled_bytes(self) -> int:
        """Bytes of the blocks that wait for reuse."""
        with self._lock:
            self._sort_in()
            return sum(size * len(blocks) for size, blocks in self._free.items())

    def allocate(self, size: int, *, stream: Stream | None = None) -> OwnedBuffer:
        """A buffer of `size` bytes that may be used on `stream` at once, or without a stream by the host.

        Raises the MemoryError of upstream when it has no room, StateError when the pool is closed.
        """
        if size < 0:
            raise ArgumentError(f"cannot allocate {size} bytes: a size is at least 0")
        needed = block_size(size)
        with self._lock:
            if self._closed:
                raise StateError("this pool is closed; memory for tensors lives as long as the `with` block it is of")
            self._sort_in()
            block = self._ready_block(needed, stream) or self._from_upstream(needed, stream)
            self._out[block.handle] = block
        return OwnedBuffer(block.handle, size, self, block.view)

    def deallocate(self, ptr: int, size: int, *, stream: Stream | None = None) -> None:
        """Keep the block at `ptr` for when the work queued on `stream` so far is done.

        Raises ArgumentError if none of this pool starts there.
        """
        block = self._out.pop(ptr, None)
        if block is None:
            raise not_ours(self, ptr)
        block.stream = None
        if stream is not None:
            stream.record(block.event)
            block.stream = stream
        self._returned.append(block)
        if self._closed:  # asked after the block is in the queue, so that it and close() cannot miss each other
            self.trim()

    def trim(self, keep_bytes: int = 0) -> int:
        """Give free blocks back upstream, the largest first, until at most `keep_bytes` wait; the bytes given back.

        Waits for the work that is queued on them.
        """
        with self._lock:
            self._sort_in()
            return self._give_back(self.pooled_bytes - keep_bytes)

    def close(self) -> None:
        """Give all free blocks back upstream, and from now on every block as it comes; allocating raises StateError."""
        with self._lock:
            self._closed = True
            self.trim()

    def _sort_in(self) -> None:
        while self._returned:
            block = self._returned.popleft()
            self._free.setdefault(block.size, []).append(block)

    def _ready_block(self, needed: int, stream: Stream | None) -> _Block | None:
        """The last block to come back that can be used at once: of the same stream, else one that is idle."""
        blocks = self._free.get(needed, [])
        for wanted in (lambda block: stream is not None and block.stream == stream, _Block.is_idle):
            for place in reversed(range(len(blocks))):
                if wanted(blocks[place]):
                    return blocks.pop(place)
        return None

    def _from_upstream(self, needed: int, stream: Stream | None) -> _Block:
        while True:
            try:
                buffer = self.upstream.allocate(needed, stream=stream)
            except MemoryError:
                if blocks := self._free.get(needed):
                    block = blocks.pop(0)  # the one that has waited longest
                    block.settle(stream)
                    return block
                if not self._give_back(needed):
                    raise
            else:
                return _Block(buffer.handle, needed, view_of(buffer), buffer, self._new_event())

    def _give_back(self, wanted: int) -> int:
        given = 0
        for size in sorted(self._free, reverse=True):
            while given < wanted and self._free[size]:
                block = self._free[size].pop()
                block.settle(None)
                block.buffer.close()
                given += size
        return given
