"""Resources over another resource, which bound or count what passes through them (as RMM's adaptors do)."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from threading import RLock

from pipeplug.errors import ArgumentError, MemoryLimitError
from pipeplug.memory.host import view_of
from pipeplug.memory.resource import Buffer, MemoryResource, OwnedBuffer, Stream
from pipeplug.memory.units import format_bytes


class Adaptor:
    """A resource over another: its memory is of the same nature."""

    def __init__(self, upstream: MemoryResource) -> None:
        self.upstream = upstream

    @property
    def device_id(self) -> int:
        return self.upstream.device_id

    @property
    def is_host_accessible(self) -> bool:
        return self.upstream.is_host_accessible

    @property
    def is_device_accessible(self) -> bool:
        return self.upstream.is_device_accessible


class _Lender(Adaptor):
    """Hands on the buffers of the upstream resource as its own.

    They go back by their own `close`, never by `deallocate`: a `cuda.core.Buffer` frees its memory when it goes, and a
    second time would be an error.
    """

    def __init__(self, upstream: MemoryResource) -> None:
        super().__init__(upstream)
        self._out: dict[int, Buffer] = {}  # by address; only single, atomic operations

    def allocate(self, size: int, *, stream: Stream | None = None) -> OwnedBuffer:
        """A buffer of `size` bytes from the upstream resource, whose errors it raises."""
        buffer = self.upstream.allocate(size, stream=stream)
        self._out[buffer.handle] = buffer
        return OwnedBuffer(buffer.handle, size, self, view_of(buffer))

    def deallocate(self, ptr: int, size: int, *, stream: Stream | None = None) -> None:
        """Give the buffer at `ptr` back upstream. Raises ArgumentError if none of this resource starts there."""
        self._take_back(ptr).close(stream)

    def _take_back(self, ptr: int) -> Buffer:
        buffer = self._out.pop(ptr, None)
        if buffer is None:
            raise not_ours(self, ptr)
        return buffer


def not_ours(resource: MemoryResource, ptr: int) -> ArgumentError:
    """The error for an address that `resource` has not handed out, or has taken back already."""
    return ArgumentError(
        f"{type(resource).__name__} has no live buffer at {ptr:#x}; close a buffer once, where it came from"
    )


@dataclass(frozen=True, slots=True)
class MemoryStatistics:
    """What has passed through a resource.

    Attributes:
        live: bytes handed out and not given back.
        peak: the most that were live at once since the start, or since `reset_peak()`.
        count: allocations so far.
        total: bytes of all of them.
    """

    live: int
    peak: int
    count: int
    total: int


_JOURNAL = 1024
"""Entries of a ledger's journal from which an allocation adds them up: often enough to stay small."""


class _Ledger:
    """Counts bytes, exactly under threads.

    What happens is only appended to a journal, which is atomic and waits for nothing: Python drops references in any
    thread, also in a collection that starts while this very thread holds the lock, and threads that queue for a lock
    on every sample pay several times what they count. Whoever asks adds the journal up, in its order, so the peak is
    exact. The lock is re-entrant because a finaliser in a collection may allocate; nothing between reading and writing
    one of the sums can start a collection.
    """

    def __init__(self) -> None:
        self._lock = RLock()
        self._journal: deque[int] = deque()  # a size taken, or the complement (so below zero) of one given back
        self._live = self._peak = self._count = self._total = 0

    def took(self, size: int) -> None:
        self._journal.append(size)
        if len(self._journal) >= _JOURNAL and self._lock.acquire(blocking=False):
            try:
                self._add_up()
            finally:
                self._lock.release()

    def gave(self, size: int) -> None:
        self._journal.append(~size)

    def take_within(self, limit: int, size: int) -> bool:
        """Take `size` bytes unless more than `limit` would then be live."""
        with self._lock:
            self._add_up()
            fits = self._live + size <= limit
            if fits:
                self._journal.append(size)
            return fits

    def read(self) -> MemoryStatistics:
        with self._lock:
            self._add_up()
            return MemoryStatistics(self._live, self._peak, self._count, self._total)

    def reset_peak(self) -> None:
        with self._lock:
            self._add_up()
            self._peak = self._live

    def _add_up(self) -> None:
        with suppress(IndexError):  # the journal is empty; asking first could race with a finaliser that adds up too
            while True:
                self._enter(self._journal.popleft())

    def _enter(self, entry: int) -> None:
        if entry < 0:
            self._live -= ~entry
            return
        self._live += entry
        self._count += 1
        self._total += entry
        if self._live > self._peak:
            self._peak = self._live


class LimitResource(_Lender):
    """Hands out at most `limit_bytes` at a time, exactly, whatever threads do.

    It counts what it has handed out. Under a pool that is live and pooled bytes together, which is what a limit
    promises; above a pool it would bound the live bytes alone.
    """

    def __init__(self, upstream: MemoryResource, limit_bytes: int) -> None:
        if limit_bytes < 0:
            raise ArgumentError(f"a memory limit of {limit_bytes} bytes makes no sense; it is at least 0")
        super().__init__(upstream)
        self.limit_bytes = limit_bytes
        self._ledger = _Ledger()

    @property
    def live_bytes(self) -> int:
        """Bytes handed out and not given back."""
        return self._ledger.read().live

    def allocate(self, size: int, *, stream: Stream | None = None) -> OwnedBuffer:
        """A buffer of `size` bytes. Raises MemoryLimitError when it does not fit into what the limit leaves."""
        if not self._ledger.take_within(self.limit_bytes, size):
            raise self._exceeded(size)
        try:
            return super().allocate(size, stream=stream)
        except BaseException:
            self._ledger.gave(size)
            raise

    def deallocate(self, ptr: int, size: int, *, stream: Stream | None = None) -> None:
        """Give the buffer at `ptr` back upstream; its bytes are free for others after that, not before."""
        super().deallocate(ptr, size, stream=stream)
        self._ledger.gave(size)

    def reserve(self, size: int) -> None:
        """Count memory that comes from elsewhere. Raises MemoryLimitError when it does not fit."""
        if not self._ledger.take_within(self.limit_bytes, size):
            raise self._exceeded(size)

    def unreserve(self, size: int) -> None:
        """It is not in use any more."""
        self._ledger.gave(size)

    def _exceeded(self, size: int) -> MemoryLimitError:
        return MemoryLimitError(
            f"{format_bytes(size)} ({size} bytes) were asked for while {self.live_bytes} bytes are in use, and "
            f"memory_limit is {self.limit_bytes} bytes ({format_bytes(self.limit_bytes)}); "
            "raise memory_limit, or lower batch_size or prefetch"
        )


class StatisticsResource(_Lender):
    """Counts what passes through: over a pool the bytes that its users hold, under it those that it has reserved."""

    def __init__(self, upstream: MemoryResource) -> None:
        super().__init__(upstream)
        self._ledger = _Ledger()

    @property
    def statistics(self) -> MemoryStatistics:
        """The counts now, all of one moment."""
        return self._ledger.read()

    def reset_peak(self) -> None:
        """Let the peak start again from what is live now."""
        self._ledger.reset_peak()

    def allocate(self, size: int, *, stream: Stream | None = None) -> OwnedBuffer:
        """A buffer of `size` bytes from the upstream resource; one that raises is not counted."""
        buffer = super().allocate(size, stream=stream)
        self._ledger.took(size)
        return buffer

    def deallocate(self, ptr: int, size: int, *, stream: Stream | None = None) -> None:
        """Give the buffer at `ptr` back upstream."""
        buffer = self._take_back(ptr)
        self._ledger.gave(size)  # first: another thread may be given this very memory before `close` returns
        buffer.close(stream)

    def reserve(self, size: int) -> None:
        """Count memory that comes from elsewhere."""
        self._ledger.took(size)

    def unreserve(self, size: int) -> None:
        """It is not in use any more."""
        self._ledger.gave(size)
