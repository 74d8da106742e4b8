import random
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeplug import ArgumentError, MemoryLimitError, StateError
from pipeplug.memory import HostResource, LimitResource, OwnedBuffer, StatisticsResource
from pipeplug.memory.ordered import OrderedPoolResource
from tests.fakes.gpu import FakeEvent, FakeStream

KIB = 1024


@pytest.fixture
def upstream() -> StatisticsResource:
    return StatisticsResource(HostResource())


@pytest.fixture
def pool(upstream: StatisticsResource) -> OrderedPoolResource:
    return OrderedPoolResource(upstream, FakeEvent)


def nothing() -> None:
    """Work that takes its place in a stream."""


class TestReuse:
    def test_on_the_same_stream_at_once(self, pool):
        stream = FakeStream()
        first = pool.allocate(KIB, stream=stream)
        address = first.handle
        stream.queue(nothing)
        first.close(stream)
        assert pool.allocate(KIB, stream=stream).handle == address
        assert stream.done == 0, "nobody had to wait"

    def test_on_another_stream_when_the_work_is_done(self, pool):
        one, other = FakeStream(), FakeStream()
        first = pool.allocate(KIB, stream=one)
        address = first.handle
        one.queue(nothing)
        first.close(one)
        assert pool.allocate(KIB, stream=other).handle != address, "the work is not done"
        one.sync()
        assert pool.allocate(KIB, stream=other).handle == address
        assert other.work == [], "nobody had to wait"

    def test_by_the_host_when_the_work_is_done(self, pool):
        stream = FakeStream()
        first = pool.allocate(KIB)
        address = first.handle
        stream.queue(nothing)
        first.close(stream)
        assert pool.allocate(KIB).handle != address, "the work is not done"
        stream.sync()
        assert pool.allocate(KIB).handle == address

    def test_memory_without_work_is_free_for_all(self, pool):
        first = pool.allocate(KIB)
        address = first.handle
        first.close()
        assert pool.allocate(KIB, stream=FakeStream()).handle == address

    def test_at_the_limit_a_stream_waits(self, upstream):
        pool = OrderedPoolResource(LimitResource(upstream, KIB), FakeEvent)
        one, other = FakeStream(), FakeStream()
        first = pool.allocate(KIB, stream=one)
        address = first.handle
        done: list[str] = []
        one.queue(lambda: done.append("one"))
        first.close(one)
        again = pool.allocate(KIB, stream=other)
        assert again.handle == address
        other.queue(lambda: done.append("other"))
        other.sync()
        assert done == ["one", "other"]

    def test_at_the_limit_the_host_waits(self, upstream):
        pool = OrderedPoolResource(LimitResource(upstream, KIB), FakeEvent)
        stream = FakeStream()
        first = pool.allocate(KIB)
        stream.queue(nothing)
        first.close(stream)
        pool.allocate(KIB)
        assert stream.done == 1

    def test_at_the_limit_other_sizes_go_back(self, upstream):
        pool = OrderedPoolResource(LimitResource(upstream, 4 * KIB), FakeEvent)
        stream = FakeStream()
        small = [pool.allocate(KIB, stream=stream) for _ in range(4)]
        for each in small[:3]:
            each.close(stream)
        pool.allocate(3 * KIB, stream=stream)
        assert upstream.statistics.live == 4 * KIB
        with pytest.raises(MemoryLimitError):
            pool.allocate(KIB, stream=stream)


class TestBookkeeping:
    def test_bytes(self, pool, upstream):
        buffer = pool.allocate(1000)
        assert (pool.live_bytes, pool.pooled_bytes, upstream.statistics.live) == (1024, 0, 1024)
        buffer.close()
        assert (pool.live_bytes, pool.pooled_bytes, upstream.statistics.live) == (0, 1024, 1024)
        assert pool.trim() == 1024
        assert (pool.pooled_bytes, upstream.statistics.live) == (0, 0)

    def test_trimming_waits_for_work(self, pool):
        stream = FakeStream()
        buffer = pool.allocate(KIB, stream=stream)
        stream.queue(nothing)
        buffer.close(stream)
        pool.trim()
        assert stream.done == 1

    def test_closing(self, pool, upstream):
        stream = FakeStream()
        kept, given = pool.allocate(KIB, stream=stream), pool.allocate(KIB, stream=stream)
        given.close(stream)
        pool.close()
        assert upstream.statistics.live == KIB
        with pytest.raises(StateError, match="this pool is closed"):
            pool.allocate(KIB, stream=stream)
        kept.close(stream)
        assert upstream.statistics.live == 0

    def test_what_does_not_fit(self, pool):
        with pytest.raises(ArgumentError, match="cannot allocate -1 bytes"):
            pool.allocate(-1)
        buffer = pool.allocate(0)
        address = buffer.handle
        buffer.close()
        with pytest.raises(ArgumentError, match="has no live buffer at"):
            pool.deallocate(address, 0)

    def test_errors_other_than_want_of_memory_pass(self):
        class Broken(HostResource):
            def allocate(self, size, *, stream=None):
                raise RuntimeError("broken")

        with pytest.raises(RuntimeError, match="broken"):
            OrderedPoolResource(Broken(), FakeEvent).allocate(KIB)


class Blocks:
    """Memory that work on streams writes and reads, with what it should find there."""

    def __init__(self, limit: int | None) -> None:
        upstream = HostResource()
        self.pool = OrderedPoolResource(upstream if limit is None else LimitResource(upstream, limit), FakeEvent)
        self.content: dict[int, int] = {}
        self.held: list[tuple[OwnedBuffer, FakeStream]] = []

    def work(self, stream: FakeStream, size: int, mark: int) -> None:
        buffer = self.pool.allocate(size, stream=stream)
        stream.queue(partial(self.content.__setitem__, buffer.handle, mark))
        stream.queue(partial(self.check, buffer.handle, mark))
        self.held.append((buffer, stream))

    def check(self, address: int, mark: int) -> None:
        assert self.content[address] == mark

    def drop(self, place: int) -> None:
        buffer, stream = self.held.pop(place)
        buffer.close(stream)


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), streams=st.integers(1, 4), limit=st.sampled_from([None, 4 * KIB, 16 * KIB]))
def test_no_work_ever_finds_its_memory_changed(seed, streams, limit):
    choose = random.Random(seed)
    blocks = Blocks(limit)
    lanes = [FakeStream() for _ in range(streams)]
    for mark in range(40):
        if choose.random() < 0.3:
            choose.choice(lanes).sync()
        try:
            blocks.work(choose.choice(lanes), choose.choice([KIB, 2 * KIB]), mark)
        except MemoryLimitError:
            while blocks.held:
                blocks.drop(0)
        if blocks.held and choose.random() < 0.7:
            blocks.drop(choose.randrange(len(blocks.held)))
    for lane in lanes:
        lane.sync()
