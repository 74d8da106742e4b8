from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeplug.errors import ArgumentError, MemoryLimitError
from pipeplug.memory import HostResource, LimitResource, MemoryStatistics, OwnedBuffer, StatisticsResource, Stream

THREADS = 8


class Failing(HostResource):
    """A resource whose memory has run out."""

    def allocate(self, size: int, *, stream: Stream | None = None) -> OwnedBuffer:
        raise MemoryError("out of it")


def test_statistics_by_hand() -> None:
    resource = StatisticsResource(HostResource())
    first = resource.allocate(100)
    second = resource.allocate(50)
    assert resource.statistics == MemoryStatistics(live=150, peak=150, count=2, total=150)
    first.close()
    assert resource.statistics == MemoryStatistics(live=50, peak=150, count=2, total=150)
    resource.reset_peak()
    resource.allocate(10).close()
    second.close()
    assert resource.statistics == MemoryStatistics(live=0, peak=60, count=3, total=160)


@given(st.lists(st.tuples(st.integers(0, 1000), st.booleans())))
def test_statistics_of_any_sequence(steps: list[tuple[int, bool]]) -> None:
    resource = StatisticsResource(HostResource())
    live: list[OwnedBuffer] = []
    peak = total = 0
    for size, free_one in steps:
        live.append(resource.allocate(size))
        total += size
        peak = max(peak, sum(buffer.size for buffer in live))
        if free_one:
            live.pop(size % len(live)).close()
    expected = MemoryStatistics(sum(buffer.size for buffer in live), peak, len(steps), total)
    assert resource.statistics == expected


def test_an_allocation_that_fails_upstream_is_not_counted() -> None:
    statistics = StatisticsResource(Failing())
    limit = LimitResource(Failing(), 100)
    for resource in (statistics, limit):
        with pytest.raises(MemoryError, match="out of it"):
            resource.allocate(60)
    assert statistics.statistics == MemoryStatistics(0, 0, 0, 0)
    assert limit.live_bytes == 0


def test_the_limit_is_met_exactly() -> None:
    resource = LimitResource(HostResource(), 1000)
    first = resource.allocate(400)
    resource.allocate(600)
    with pytest.raises(MemoryLimitError):
        resource.allocate(1)
    resource.allocate(0)
    first.close()
    assert resource.live_bytes == 600
    resource.allocate(400)
    assert resource.live_bytes == 1000


def test_the_message_of_the_limit() -> None:
    resource = LimitResource(HostResource(), 4096)
    resource.allocate(3000)
    with pytest.raises(MemoryLimitError) as caught:
        resource.allocate(2048)
    assert str(caught.value) == (
        "2.0 KiB (2048 bytes) were asked for while 3000 bytes are in use, and memory_limit is 4096 bytes (4.0 KiB); "
        "raise memory_limit, or lower batch_size or prefetch"
    )
    assert isinstance(caught.value, MemoryError)


def test_a_limit_below_zero() -> None:
    with pytest.raises(ArgumentError, match="a memory limit of -1 bytes makes no sense"):
        LimitResource(HostResource(), -1)


def test_a_buffer_goes_back_once_and_to_its_own_resource() -> None:
    resource = StatisticsResource(HostResource())
    buffer = resource.allocate(10)
    handle = buffer.handle
    buffer.close()
    buffer.close()
    with pytest.raises(ArgumentError, match=rf"StatisticsResource has no live buffer at {handle:#x}"):
        resource.deallocate(handle, 10)
    assert resource.statistics.live == 0


def test_adaptors_are_of_the_nature_of_their_upstream() -> None:
    resource = StatisticsResource(LimitResource(HostResource(), 10))
    assert (resource.device_id, resource.is_host_accessible, resource.is_device_accessible) == (-1, True, False)
    assert resource.allocate(1).memory_resource is resource


class Watched(HostResource):
    """Host memory that counts for itself, under a lock, what is out."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.live = self.peak = 0

    def allocate(self, size: int, *, stream: Stream | None = None) -> OwnedBuffer:
        with self.lock:
            self.live += size
            self.peak = max(self.peak, self.live)
        return super().allocate(size, stream=stream)

    def deallocate(self, ptr: int, size: int, *, stream: Stream | None = None) -> None:
        with self.lock:
            self.live -= size


def test_the_limit_holds_under_threads_and_is_used_to_the_full() -> None:
    watched = Watched()
    resource = StatisticsResource(LimitResource(watched, THREADS * 100))
    too_much = THREADS * 100 + 1
    barrier = threading.Barrier(THREADS)
    refused: list[int] = []

    def work(seed: int) -> None:
        barrier.wait()
        for step in range(500):
            size = too_much if step % 50 == seed else 1 + (seed * 31 + step * 7) % 100
            try:
                resource.allocate(size).close()
            except MemoryLimitError:
                refused.append(size)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert watched.peak <= THREADS * 100
    assert refused == [too_much] * (THREADS * 10)
    assert watched.live == 0
    statistics = resource.statistics
    assert statistics.live == 0
    assert statistics.count == THREADS * 500 - len(refused)
