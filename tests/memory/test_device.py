import gc
import threading
from contextlib import nullcontext

import numpy as np
import pytest

from pipeplug.memory.device import DeviceArray, DeviceMemory, DeviceSamples, Kept, holders_of
from tests.fakes.gpu import FakeEvent, FakeStream


class Space:
    """A device that notes what is asked of it."""

    name = "cuda:0"

    def __init__(self) -> None:
        self.leases: set[object] = set()
        self.joint = FakeStream()
        self.streams: dict[int, FakeStream] = {}
        self.synced = 0

    def new_event(self) -> FakeEvent:
        return FakeEvent()

    def entered(self):
        return nullcontext()

    def consumer(self, handle):
        return self.streams.setdefault(handle, FakeStream(handle))

    def sync(self) -> None:
        self.synced += 1

    def joined(self, marks):
        for stream, event in marks:
            stream.record(event)
            self.joint.wait(event)
        return self.joint

    def keep(self, lease: object) -> None:
        self.leases.add(lease)

    def drop(self, lease: object) -> None:
        self.leases.discard(lease)


@pytest.fixture
def space() -> Space:
    return Space()


class Made:
    """A piece of memory made on a stream, and the stream on which it came back."""

    def __init__(self, space: Space) -> None:
        self.stream = FakeStream()
        self.back: list[object] = []
        self.memory = DeviceMemory(space, 0x1000, self.stream, self.back.append)
        self.stream.queue(lambda: None)
        self.memory.ready = self.stream.record()


class TestRelease:
    def test_memory_that_nobody_used_comes_back_where_it_was_made(self, space):
        made = Made(space)
        del made.memory
        assert made.back == [made.stream]
        assert space.leases == set()

    def test_its_one_user_stands_for_the_maker(self, space):
        made, user = Made(space), FakeStream()
        made.memory.use(user)
        user.queue(lambda: None)
        del made.memory
        assert made.back == [user]
        user.sync()
        assert made.stream.done == 1, "the user waited for the maker"

    def test_of_several_users_all_are_waited_for(self, space):
        made, users = Made(space), [FakeStream(), FakeStream(), FakeStream()]
        for user in users:
            made.memory.use(user)
            made.memory.use(user)
            user.queue(lambda: None)
        del made.memory
        assert made.back == [space.joint]
        space.joint.sync()
        assert [user.done for user in users] == [2, 2, 2], "its own work, and the wait for the maker"

    def test_the_maker_may_be_one_of_them(self, space):
        made, user = Made(space), FakeStream()
        made.memory.use(user)
        made.memory.use(made.stream)
        del made.memory
        assert made.back == [space.joint]

    def test_users_in_several_threads_are_all_remembered(self, space):
        for _ in range(50):
            made, users = Made(space), [FakeStream() for _ in range(8)]
            start = threading.Barrier(8)

            def use(user, made=made, start=start):
                start.wait()
                made.memory.use(user)

            threads = [threading.Thread(target=use, args=(user,)) for user in users]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for user in users:
                user.queue(lambda: None)
            del made.memory
            space.joint.sync()
            assert all(user.done == len(user.work) for user in users)

    def test_views_keep_it(self, space):
        made = Made(space)
        array = DeviceArray(0x1000, (4, 2), np.dtype("float32"), "cuda:0", (made.memory,))
        row = array[2]
        del made.memory, array
        gc.collect()
        assert made.back == []
        assert row.address == 0x1000 + 16
        del row
        assert made.back == [made.stream]

    def test_an_owner_is_kept_until_then(self, space):
        class Owner:
            pass

        order: list[str] = []
        owner = Owner()
        stream = FakeStream()
        memory = DeviceMemory(space, 0, stream, lambda last: order.append("given back"), owner)
        import weakref

        weakref.finalize(owner, lambda: order.append("owner gone"))
        del owner
        gc.collect()
        assert order == []
        del memory
        gc.collect()
        assert order == ["given back", "owner gone"]


class TestHandingOver:
    def test_to_a_stream_that_is_kept(self, space):
        made, owner = Made(space), object()
        made.memory.hand_over(77, owner)
        del made.memory
        assert made.back == [space.streams[77]]
        assert space.synced == 0

    def test_to_a_default_stream(self, space):
        made = Made(space)
        made.memory.hand_over(1)
        del made.memory
        assert made.back == [space.streams[1]]

    def test_to_a_stream_that_may_be_gone_by_then(self, space):
        made = Made(space)
        made.memory.hand_over(77)
        assert len(space.streams[77].work) == 1, "it waits for the content"
        del made.memory
        assert made.back == [made.stream]
        assert space.synced == 1

    def test_to_whichever_stream(self, space):
        made = Made(space)
        made.memory.hand_over(None)
        assert made.stream.done == 1, "the content is there"
        del made.memory
        assert space.synced == 1


class TestSamples:
    def array(self, space: Space, shape: tuple[int, ...]) -> DeviceArray:
        return DeviceArray(0x1000, shape, np.dtype("uint8"), "cuda:0", (Kept(space),))

    def test_rows_of_an_array_and_back(self, space):
        array = self.array(space, (3, 2, 5))
        samples = array.rows()
        assert samples.addresses.tolist() == [0x1000, 0x100A, 0x1014]
        assert samples.shapes.tolist() == [[2, 5]] * 3
        whole = samples.as_array()
        assert whole is not None
        assert (whole.address, whole.shape) == (0x1000, (3, 2, 5))

    def test_rows_that_lie_apart_are_no_array(self, space):
        samples = self.array(space, (4, 8)).rows()
        assert samples.take(np.array([0, 2])).as_array() is None
        assert samples.take(np.array([2, 1])).as_array() is None
        neighbours = samples.take(np.array([1, 2])).as_array()
        assert neighbours is not None
        assert neighbours.address == 0x1008

    def test_ragged(self, space):
        shapes = np.array([[2, 3], [1, 3]], np.int64)
        samples = DeviceSamples(np.array([16, 64], np.uint64), shapes, np.dtype("float32"), "cuda:0", (Kept(space),))
        assert samples.as_array() is None
        assert (samples.nbytes, samples.sizes.tolist()) == (36, [24, 12])
        assert [(each.address, each.shape) for each in samples] == [(16, (2, 3)), (64, (1, 3))]
        assert samples[1:].addresses.tolist() == [64]

    def test_places_of_an_array(self, space):
        array = self.array(space, (3, 4))
        assert (array[-1].address, array[1:].shape, array[1:].address) == (0x1008, (2, 4), 0x1004)
        assert array[5:].shape == (0, 4)
        with pytest.raises(IndexError, match="row 3 of 3"):
            array[3]
        with pytest.raises(IndexError, match="one by one, or side by side"):
            array[::2]

    def test_holders(self, space):
        made = Made(space)
        array = DeviceArray(0, (1,), np.dtype("uint8"), "cuda:0", (made.memory,))
        other = self.array(space, (2,))
        assert holders_of((array, array, other)) == (made.memory, *other.holders)
        anything = object()
        (kept,) = holders_of(anything)
        assert isinstance(kept, Kept)
        assert kept.owner is anything
