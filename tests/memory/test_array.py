from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from ctypes import addressof, create_string_buffer
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from pipeplug.errors import ArgumentError, MemoryLimitError
from pipeplug.memory import (
    HostResource,
    LimitResource,
    MemoryResource,
    OwnedBuffer,
    PoolResource,
    StatisticsResource,
    Stream,
    empty,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Subclass(np.ndarray):
    """An array of another type: NumPy keeps another chain of bases for it."""


class Consumer:
    """A tensor of another library: it asks for DLPack and keeps what it gets."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.capsule = array.__dlpack__()


class Owner:
    """An image of another library: it keeps the array, and shows where its memory is."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array
        self.__array_interface__ = array.__array_interface__


@pytest.fixture
def resource() -> StatisticsResource:
    return StatisticsResource(PoolResource(HostResource()))


@pytest.fixture
def no_automatic_gc() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize(
    "shape", [(), (0,), (3, 0, 5), (1,), (2, 3, 4), (300, 400, 3), [4, 5], (np.int64(2), np.int64(3))]
)
@pytest.mark.parametrize("dtype", ["uint8", "float16", np.float32, np.dtype("complex128"), "bool"])
def test_what_an_array_is(resource: StatisticsResource, shape: tuple[int, ...], dtype: Any) -> None:
    array = empty(resource, shape, dtype)
    assert type(array) is np.ndarray
    assert array.shape == tuple(shape)
    assert array.dtype == np.dtype(dtype)
    assert array.flags.c_contiguous
    assert array.flags.writeable
    assert array.ctypes.data % 64 == 0
    array[...] = 1
    assert (array == 1).all()
    assert resource.statistics.live == array.nbytes
    assert resource.statistics.count == 1
    del array
    assert resource.statistics.live == 0


VIEWS: dict[str, Callable[[NDArray[Any]], object]] = {
    "the array": lambda array: array,
    "a slice": lambda array: array[2:, 1:2],
    "a slice of a slice": lambda array: array[2:][1:][:, 0],
    "a transpose of a reshape": lambda array: array.reshape(-1, 2).T,
    "another dtype": lambda array: array.view(np.uint8)[5:],
    "a subclass": lambda array: array.view(Subclass)[1:][1:],
    "back from a subclass": lambda array: np.asarray(array.view(Subclass)[1:]),
    "broadcast": lambda array: np.broadcast_to(array[0], (5, *array[0].shape)),
    "strided": lambda array: np.lib.stride_tricks.sliding_window_view(array, 2, axis=0),
    "memoryview": lambda array: array.data[1:],
    "array of a memoryview": lambda array: np.asarray(array.data)[1:],
    "frombuffer": lambda array: np.frombuffer(array, np.uint8),
    "DLPack": lambda array: np.from_dlpack(array)[1:],
    "DLPack of a view": lambda array: np.from_dlpack(array[1:]),
    "an unused capsule": Consumer,
    "__array_interface__": lambda array: np.asarray(Owner(array)),
    "flat iterator": lambda array: array.flat,
    "nditer": lambda array: np.nditer(array),
}


@pytest.mark.parametrize("name", VIEWS)
def test_memory_goes_back_with_the_last_view(resource: StatisticsResource, name: str) -> None:
    array = empty(resource, (10, 4), "float32")
    array[...] = np.arange(40).reshape(10, 4)
    view = VIEWS[name](array)
    assert resource.statistics.live == 160
    del array
    assert resource.statistics.live == 160
    other = empty(resource, (10, 4), "float32")
    other[...] = -1
    if isinstance(view, np.ndarray) and view.dtype == np.float32:
        assert (view >= 0).all()
    del view, other
    assert resource.statistics.live == 0


def test_memory_is_used_again_only_when_it_is_free(resource: StatisticsResource) -> None:
    array = empty(resource, (1000,), "uint8")
    address = array.ctypes.data
    view = array[1:]
    del array
    other = empty(resource, (1000,), "uint8")
    assert other.ctypes.data != address
    del view
    assert empty(resource, (1000,), "uint8").ctypes.data == address


def test_the_users_own_weak_references_still_work(resource: StatisticsResource) -> None:
    told: list[str] = []
    array = empty(resource, (4,), "uint8")
    reference = weakref.ref(array, lambda _: told.append("reference"))
    finalizer = weakref.finalize(array, told.append, "finalizer")
    del array
    assert sorted(told) == ["finalizer", "reference"]
    assert reference() is None
    assert not finalizer.alive
    assert resource.statistics.live == 0


def test_any_stack_of_resources_gets_its_memory_back() -> None:
    limit = LimitResource(HostResource(), 1000)
    array = empty(limit, (1000,), "uint8")
    with pytest.raises(MemoryLimitError):
        empty(limit, (1,), "uint8")
    del array
    assert limit.live_bytes == 0
    assert empty(HostResource(), (3,), "uint8").shape == (3,)


def test_an_array_outlives_the_resources_it_came_from() -> None:
    upstream = StatisticsResource(HostResource())
    pool = PoolResource(upstream)
    array = empty(pool, (1000,), "uint8")
    array[:] = 9
    pool_gone = weakref.ref(pool)
    del pool
    gc.collect()
    assert pool_gone() is not None, "the lease needs it"
    assert (array == 9).all()
    del array
    gc.collect()
    assert pool_gone() is None


@pytest.mark.parametrize(
    ("shape", "dtype", "message"),
    [
        ((-1,), "uint8", r"cannot make an array of shape \(-1,\) and dtype uint8: sizes are at least 0"),
        ((-2, -3), "uint8", "negative dimensions"),
        ((-1, 0), "uint8", "negative dimensions"),
        ((2.5,), "uint8", r"shape \(2.5,\)"),
        ((3,), "object", "dtype object: sizes are at least 0, and Python objects need no buffer"),
        ((1,) * 65, "uint8", "maximum supported dimension"),
    ],
)
def test_what_cannot_be_an_array(resource: StatisticsResource, shape: Any, dtype: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        empty(resource, shape, dtype)
    assert resource.statistics.live == 0


def test_memory_that_the_host_cannot_reach_is_refused() -> None:
    class Remote(HostResource):
        is_host_accessible = False

        def allocate(self, size: int, *, stream: Stream | None = None) -> OwnedBuffer:
            return OwnedBuffer(4096, size, self, None)

    with pytest.raises(ArgumentError, match="the host cannot read or write memory of Remote"):
        empty(Remote(), (4,), "uint8")


def test_an_exception_gives_the_memory_back(resource: StatisticsResource) -> None:
    def kernel() -> None:
        array = empty(resource, (100,), "uint8")
        array[:] = 1
        raise ValueError("a bad sample")

    with pytest.raises(ValueError, match="a bad sample"):
        kernel()
    gc.collect()  # pytest's record of the exception is a cycle
    assert resource.statistics.live == 0


@pytest.mark.usefixtures("no_automatic_gc")
def test_an_array_in_a_cycle_goes_back_when_it_is_collected(resource: StatisticsResource) -> None:
    _throw_away_in_a_cycle(empty(resource, (100,), "uint8"))
    assert resource.statistics.live == 100
    gc.collect()
    assert resource.statistics.live == 0


def _throw_away_in_a_cycle(array: NDArray[Any]) -> None:
    cycle: list[object] = [array]
    cycle.append(cycle)


class Collecting(HostResource):
    """A collection comes at the worst time: while a pool waits for this resource, its lock held."""

    def allocate(self, size: int, *, stream: Stream | None = None) -> OwnedBuffer:
        gc.collect()
        return super().allocate(size, stream=stream)


@pytest.mark.usefixtures("no_automatic_gc")
def test_a_collection_inside_an_allocation_gives_back_to_the_same_pool() -> None:
    pool = PoolResource(Collecting())
    resource = StatisticsResource(pool)
    _throw_away_in_a_cycle(empty(resource, (64,), "uint8"))
    array = empty(resource, (64,), "uint8")
    assert (resource.statistics.live, pool.pooled_bytes) == (64, 64)
    del array
    assert (resource.statistics.live, pool.pooled_bytes) == (0, 128)


@pytest.mark.usefixtures("no_automatic_gc")
def test_a_collection_inside_an_allocation_after_close() -> None:
    upstream = LimitResource(HostResource(), 1000)
    closed = PoolResource(upstream)
    _throw_away_in_a_cycle(empty(closed, (64,), "uint8"))
    closed.close()
    assert upstream.live_bytes == 64
    array = empty(PoolResource(Collecting()), (8,), "uint8")
    assert upstream.live_bytes == 0
    assert array.size == 8


@pytest.mark.usefixtures("no_automatic_gc")
def test_memory_comes_back_while_every_lock_is_held(resource: StatisticsResource) -> None:
    pool = resource.upstream
    assert isinstance(pool, PoolResource)
    held = [empty(resource, (64,), "uint8")]
    _throw_away_in_a_cycle(empty(resource, (128,), "uint8"))
    with pool._upstream_lock, resource._ledger._lock:
        gc.collect()
        thread = threading.Thread(target=held.clear)
        thread.start()
        thread.join(timeout=60)
        assert not thread.is_alive(), "giving memory back waits for a lock"
    assert resource.statistics.live == 0
    assert pool.pooled_bytes == 192


def test_a_finaliser_that_allocates_inside_a_collection(resource: StatisticsResource) -> None:
    pool = PoolResource(Collecting())
    made: list[NDArray[Any]] = []

    class Finalised:
        def __init__(self) -> None:
            self.cycle = self

        def __del__(self) -> None:
            made.append(empty(pool, (64,), "uint8"))

    Finalised()
    array = empty(pool, (64,), "uint8")
    made[0][:] = 1
    array[:] = 2
    assert made[0].sum() == 64
    assert pool.live_bytes == 128


def test_collections_at_every_possible_moment(resource: StatisticsResource) -> None:
    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for number in range(300):
            _throw_away_in_a_cycle(empty(resource, (1 + number,), "uint8"))
    finally:
        gc.set_threshold(*threshold)
    gc.collect()
    assert resource.statistics.live == 0
    assert resource.statistics.count == 300


class ForeignBuffer:
    """A buffer of another library, which has the protocol and nothing else."""

    def __init__(self, size: int, resource: Foreign) -> None:
        self._memory = create_string_buffer(max(size, 1))
        self.handle = addressof(self._memory)
        self.size = size
        self.memory_resource = resource
        self.closed = 0

    def close(self, stream: Stream | None = None) -> None:
        self.closed += 1


class Foreign:
    """A resource of another library."""

    device_id = 0
    is_host_accessible = True
    is_device_accessible = True

    def __init__(self) -> None:
        self.made: list[weakref.ref[ForeignBuffer]] = []

    def allocate(self, size: int, *, stream: Stream | None = None) -> ForeignBuffer:
        buffer = ForeignBuffer(size, self)
        self.made.append(weakref.ref(buffer))
        return buffer

    def deallocate(self, ptr: int, size: int, *, stream: Stream | None = None) -> None:
        raise AssertionError("its buffers free themselves")


@pytest.mark.parametrize("wrap", [lambda foreign: foreign, StatisticsResource, PoolResource])
def test_a_resource_of_another_library(wrap: Callable[[MemoryResource], MemoryResource]) -> None:
    foreign = Foreign()
    resource = wrap(foreign)
    array = empty(resource, (4, 5), "int32")
    array[...] = np.arange(20).reshape(4, 5)
    view = array[1:]
    del array
    gc.collect()
    buffer = foreign.made[0]()
    assert buffer is not None
    assert buffer.closed == 0
    assert view.sum() == sum(range(5, 20))
    del view
    if isinstance(resource, PoolResource):
        assert resource.trim() == 80
    assert buffer.closed == 1
    assert resource.device_id == 0
    assert resource.is_device_accessible


AT_EXIT = """
import atexit, threading
from pipeplug.memory import HostResource, LimitResource, PoolResource, StatisticsResource, empty

resource = StatisticsResource(PoolResource(LimitResource(HostResource(), 1 << 30)))
pool = PoolResource(HostResource())
array = empty(resource, (1000, 1000, 3), "uint8")
view = empty(resource, (10,), "uint8")[2:]
late = empty(pool, (10,), "uint8")
pool.close()
cycle = [empty(resource, (10,), "uint8")]
cycle.append(cycle)
local = threading.local()
local.array = empty(resource, (10,), "uint8")
atexit.register(lambda array: array.fill(0), empty(resource, (10,), "uint8"))
threading.Thread(target=lambda array: array.fill(1), args=(empty(resource, (10,), "uint8"),)).start()
import pipeplug.memory.array
pipeplug.memory.array.kept = empty(resource, (10,), "uint8")
threading.kept = empty(resource, (10,), "uint8")
print("done")
"""


def test_the_interpreter_exits_without_a_word() -> None:
    process = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", AT_EXIT], capture_output=True, text=True, check=False
    )
    assert (process.returncode, process.stdout, process.stderr) == (0, "done\n", "")
