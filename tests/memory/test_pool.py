from __future__ import annotations

import itertools
import threading
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeplug.errors import ArgumentError, MemoryLimitError, StateError
from pipeplug.memory import HostResource, LimitResource, OwnedBuffer, PoolResource, StatisticsResource, Stream, empty
from pipeplug.memory.pool import block_size

THREADS = 8


@given(st.integers(0, 1 << 45))
def test_blocks_waste_less_than_a_quarter(size: int) -> None:
    block = block_size(size)
    assert block >= size
    assert size <= 64 or Fraction(block - size, size) < Fraction(1, 4)
    assert block_size(block) == block


def test_four_block_sizes_a_power_of_two() -> None:
    sizes = sorted({block_size(size) for size in range(4097)})
    assert sizes[:9] == [64, 80, 96, 112, 128, 160, 192, 224, 256]
    assert sizes[-4:] == [2560, 3072, 3584, 4096]


def test_a_block_comes_back_and_is_used_again() -> None:
    upstream = StatisticsResource(HostResource())
    pool = PoolResource(upstream)
    first = pool.allocate(1000)
    handle = first.handle
    assert (pool.live_bytes, pool.pooled_bytes) == (1024, 0)
    first.close()
    assert (pool.live_bytes, pool.pooled_bytes) == (0, 1024)
    again = pool.allocate(900)
    assert (again.handle, again.size) == (handle, 900)
    assert upstream.statistics.count == 1


def test_the_last_block_that_came_back_goes_out_first() -> None:
    pool = PoolResource(HostResource())
    buffers = [pool.allocate(64) for _ in range(3)]
    handles = [buffer.handle for buffer in buffers]
    for buffer in buffers:
        buffer.close()
    assert [pool.allocate(64).handle for _ in range(3)] == handles[::-1]


def test_trim_gives_back_the_largest_first_until_what_stays_fits() -> None:
    upstream = StatisticsResource(HostResource())
    pool = PoolResource(upstream)
    held = pool.allocate(512)
    for buffer in [pool.allocate(size) for size in (64, 256, 1024, 1024)]:
        buffer.close()
    assert pool.trim(keep_bytes=5000) == 0
    assert pool.trim(keep_bytes=1400) == 1024
    assert pool.pooled_bytes == 64 + 256 + 1024
    assert pool.trim() == 64 + 256 + 1024
    assert upstream.statistics.live == pool.live_bytes == held.size == 512


def test_at_the_limit_only_as_much_is_given_up_as_is_needed() -> None:
    limit = LimitResource(HostResource(), 4096)
    pool = PoolResource(limit)
    for buffer in [pool.allocate(1024) for _ in range(4)]:
        buffer.close()
    held = pool.allocate(2048)
    assert pool.pooled_bytes == 2048
    assert limit.live_bytes == 4096
    with pytest.raises(MemoryLimitError, match=r"3072 bytes\) were asked for while 2048 bytes are in use"):
        pool.allocate(3000)
    held.close()
    assert pool.allocate(4096).size == 4096


def test_a_system_without_memory_makes_the_pool_give_blocks_up() -> None:
    class Small(HostResource):
        room = 2

        def allocate(self, size: int, *, stream: Stream | None = None) -> OwnedBuffer:
            if not self.room:
                raise MemoryError("the system is full")
            self.room -= 1
            return super().allocate(size, stream=stream)

        def deallocate(self, ptr: int, size: int, *, stream: Stream | None = None) -> None:
            self.room += 1

    pool = PoolResource(Small())
    first, second = pool.allocate(64), pool.allocate(128)
    second.close()
    third = pool.allocate(256)
    with pytest.raises(MemoryError, match="the system is full"):
        pool.allocate(64)
    assert (first.size, third.size) == (64, 256)


def test_sizes_at_the_edges() -> None:
    pool = PoolResource(HostResource())
    one, other = pool.allocate(0), pool.allocate(0)
    assert one.size == 0
    assert one.handle != other.handle
    with pytest.raises(ArgumentError, match="cannot allocate -64 bytes"):
        PoolResource(HostResource()).allocate(-64)


def test_a_block_goes_back_once() -> None:
    pool = PoolResource(HostResource())
    buffer = pool.allocate(64)
    handle = buffer.handle
    buffer.close()
    buffer.close()
    with pytest.raises(ArgumentError, match="PoolResource has no live buffer"):
        pool.deallocate(handle, 64)
    assert pool.pooled_bytes == 64


def test_after_close_blocks_go_straight_upstream() -> None:
    upstream = StatisticsResource(HostResource())
    pool = PoolResource(upstream)
    array = empty(pool, (100,), "uint8")
    view = array[10:20]
    buffer = pool.allocate(64)
    pool.allocate(4096).close()
    del array
    pool.close()
    assert upstream.statistics.live == 64 + 112
    with pytest.raises(StateError, match="this pool is closed"):
        pool.allocate(64)
    view[:] = 1
    del view
    assert upstream.statistics.live == 64
    buffer.close()
    pool.close()
    assert (upstream.statistics.live, pool.pooled_bytes, pool.live_bytes) == (0, 0, 0)


step = st.one_of(
    st.tuples(st.just("allocate"), st.integers(0, 5000)),
    st.tuples(st.just("free"), st.integers(0, 1 << 16)),
    st.tuples(st.just("trim"), st.integers(0, 10_000)),
)


@given(st.lists(step, max_size=60), st.integers(0, 20_000))
def test_any_sequence_agrees_with_the_model(steps: list[tuple[str, int]], limit_bytes: int) -> None:
    limit = LimitResource(HostResource(), limit_bytes)
    pool = PoolResource(limit)
    resource = StatisticsResource(pool)
    live: list[tuple[OwnedBuffer, int]] = []
    peak = count = total = 0
    for kind, number in steps:
        out = sum(block_size(buffer.size) for buffer, _ in live)
        if kind == "allocate" and out + block_size(number) > limit_bytes:
            with pytest.raises(MemoryLimitError):
                resource.allocate(number)
        elif kind == "allocate":
            live.append((resource.allocate(number), count % 251))
            _fill(*live[-1])
            count, total = count + 1, total + number
        elif kind == "free" and live:
            buffer, mark = live.pop(number % len(live))
            assert _holds(buffer, mark)
            buffer.close()
        elif kind == "trim":
            pool.trim(number)
            assert pool.pooled_bytes <= number
        peak = max(peak, sum(buffer.size for buffer, _ in live))
        assert pool.live_bytes == sum(block_size(buffer.size) for buffer, _ in live)
        assert pool.live_bytes + pool.pooled_bytes == limit.live_bytes <= limit_bytes
    statistics = resource.statistics
    assert (statistics.live, statistics.peak) == (sum(buffer.size for buffer, _ in live), peak)
    assert (statistics.count, statistics.total) == (count, total)
    assert all(_holds(buffer, mark) for buffer, mark in live)
    _assert_apart([buffer for buffer, _ in live])


def _fill(buffer: OwnedBuffer, mark: int) -> None:
    assert buffer.view is not None
    np.frombuffer(buffer.view, np.uint8, count=buffer.size)[:] = mark


def _holds(buffer: OwnedBuffer, mark: int) -> bool:
    assert buffer.view is not None
    return bool((np.frombuffer(buffer.view, np.uint8, count=buffer.size) == mark).all())


def _assert_apart(buffers: list[OwnedBuffer]) -> None:
    ordered = sorted(buffers, key=lambda buffer: buffer.handle)
    for lower, upper in itertools.pairwise(ordered):
        assert lower.handle + block_size(lower.size) <= upper.handle


def test_threads_that_fit_are_never_refused_and_never_share_memory() -> None:
    largest = block_size(20_000)
    limit = LimitResource(HostResource(), THREADS * 2 * largest)
    pool = PoolResource(limit)
    resource = StatisticsResource(pool)
    barrier = threading.Barrier(THREADS)
    wrong: list[object] = []

    def work(seed: int) -> None:
        random = np.random.default_rng(seed)
        kept = np.zeros(0, np.int32)
        barrier.wait()
        for number in range(300):
            array = empty(resource, (int(random.integers(1, 5001)),), "int32")
            array[:] = seed * 1000 + number
            if kept.size and not (kept == kept[0]).all():
                wrong.append((seed, number))
            kept = array[len(array) // 2 :]
            del array
            if number % 50 == seed:
                pool.trim(keep_bytes=largest)
        if limit.live_bytes > limit.limit_bytes:
            wrong.append(limit.live_bytes)

    def guarded(seed: int) -> None:
        try:
            work(seed)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=guarded, args=(seed,)) for seed in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert (resource.statistics.live, resource.statistics.count) == (0, THREADS * 300)
    assert pool.live_bytes == 0
    pool.close()
    assert limit.live_bytes == 0
