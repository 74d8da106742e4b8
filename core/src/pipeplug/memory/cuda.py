"""Memory and streams of NVIDIA GPUs, by way of `cuda.core`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

from pipeplug.errors import DeviceError, MemoryLimitError
from pipeplug.memory.adaptors import LimitResource, StatisticsResource
from pipeplug.memory.device import DeviceMemory, Marks
from pipeplug.memory.ordered import OrderedPoolResource
from pipeplug.memory.resource import Buffer, Event, MemoryResource, OwnedBuffer, Stream
from pipeplug.memory.units import format_bytes

ADVICE = 'install the packages for your driver: pip install "pipeplug[cuda13]" (or [cuda12])'


@cache
def open_device(name: str) -> Any:
    """The `cuda.core.Device` of a name such as `"cuda:0"`, its context made.

    Raises DeviceError, saying what to install, when there is no such card, no driver or no package.
    """
    try:
        import cuda.core as core
        from cuda.bindings import nvrtc  # noqa: F401 - which compiles the kernels
    except ImportError as error:
        raise DeviceError(f"{name} needs cuda-core and NVRTC, which cannot be imported ({error}); {ADVICE}") from error
    ordinal = ordinal_of(name)
    try:
        device = core.Device(ordinal)
        device.set_current()
    except Exception as error:  # what is missing decides what kind of error cuda.core raises
        raise DeviceError(f"{name} cannot be used: {_reason(ordinal, error)}") from error
    return device


def ordinal_of(name: str) -> int:
    """0 of `"cuda:0"`."""
    return int(name.partition(":")[2] or 0)


def _reason(ordinal: int, error: Exception) -> str:
    try:
        count = device_count()
    except Exception:
        return f"there is no NVIDIA driver ({error}); install it, or run on device='cpu'"
    if count == 0:
        return "the NVIDIA driver finds no GPU; run on device='cpu'"
    if ordinal >= count:
        return f"this machine has {count} GPU(s), the last one is cuda:{count - 1}"
    return f"{type(error).__name__}: {error}"


def device_count() -> int:
    """How many GPUs the driver finds. Raises what `cuda.core` raises when there is no driver."""
    from cuda.bindings import driver

    driver.cuInit(0)
    status, count = driver.cuDeviceGetCount()
    return int(count) if status == driver.CUresult.CUDA_SUCCESS else 0


class _DriverResource:
    """Memory that the driver gives, whose want of memory is a MemoryError with advice."""

    def __init__(self, resource: Any, name: str) -> None:
        self._resource = resource
        self._name = name
        self.is_host_accessible: bool = resource.is_host_accessible
        self.is_device_accessible = True
        self.device_id = -1 if self.is_host_accessible else int(resource.device_id)

    def allocate(self, size: int, *, stream: Stream | None = None) -> Buffer:
        """A buffer of `size` bytes. Raises MemoryLimitError when the driver has no room."""
        try:
            buffer: Buffer = self._resource.allocate(size, stream=stream)
        except Exception as error:
            if "OUT_OF_MEMORY" not in str(error):
                raise
            raise MemoryLimitError(
                f"{format_bytes(size)} ({size} bytes) were asked for, and {self._name} has no room{self._room()}; "
                "lower batch_size or prefetch, or free what other programs hold"
            ) from None
        return buffer

    def _room(self) -> str:
        if self.is_host_accessible:
            return " for pinned memory"
        from cuda.bindings import driver

        status, free, total = driver.cuMemGetInfo()
        if status != driver.CUresult.CUDA_SUCCESS:
            return ""
        return f": {format_bytes(int(free))} of {format_bytes(int(total))} are free"

    def deallocate(self, ptr: int, size: int, *, stream: Stream | None = None) -> None:
        """Take the buffer at `ptr` back."""
        self._resource.deallocate(ptr, size, stream=stream)


class MemoryPool:
    """A pool over a limit, counted above and below: the memory of one device, or pinned memory of the host."""

    def __init__(self, resource: MemoryResource, limit: int | None, new_event: Callable[[], Event]) -> None:
        self.limit = limit
        self._taken = StatisticsResource(resource)
        self._limited = None if limit is None else LimitResource(self._taken, limit)
        self._pool = OrderedPoolResource(self._limited or self._taken, new_event)
        self._lent = StatisticsResource(self._pool)

    def allocate(self, size: int, stream: Stream | None) -> OwnedBuffer:
        """A buffer of `size` bytes that may be used on `stream`, or without one by the host, at once."""
        return self._lent.allocate(size, stream=stream)

    def reserve(self, size: int) -> None:
        """Counts memory that a library takes by itself. Raises MemoryLimitError beyond the limit."""
        if self._limited is not None:
            try:
                self._limited.reserve(size)
            except MemoryLimitError:
                self._pool.trim()
                self._limited.reserve(size)
        self._taken.reserve(size)

    def unreserve(self, size: int) -> None:
        """The library has given it back."""
        self._taken.unreserve(size)
        if self._limited is not None:
            self._limited.unreserve(size)

    def lend(self, size: int) -> None:
        """Counts reserved memory as held by values."""
        self._lent.reserve(size)

    def take_back(self, size: int) -> None:
        self._lent.unreserve(size)

    def fits(self, size: int) -> bool:
        """Whether `size` more bytes would stay within the limit, which counts whole blocks."""
        return self.limit is None or self._taken.statistics.live - self._pool.pooled_bytes + size <= self.limit

    def use(self) -> tuple[int, int, int, int, int | None]:
        """Bytes lent and at most lent, taken and at most taken, and the limit."""
        lent, taken = self._lent.statistics, self._taken.statistics
        return lent.live, lent.peak, taken.live, taken.peak, self.limit

    def close(self) -> None:
        """Gives free blocks back, and the rest when values let go of them."""
        self._pool.close()


class CudaDevice:
    """A GPU as one pipeline uses it: its memory, and a stream for each task that runs.

    Args:
        name: such as `"cuda:0"`.
        limit: bytes that values, free blocks and reserved memory together stay under.

    Raises DeviceError when there is no such card, no driver or no package.
    """

    def __init__(self, name: str, limit: int | None = None) -> None:
        self.name = name
        self.device = open_device(name)
        self._context = self.device.context.handle
        self.memory = MemoryPool(_DriverResource(_device_memory(self.device), name), limit, self.new_event)
        self._streams: deque[Stream] = deque()
        self._consumers: dict[int, Stream] = {}
        self._leases: set[object] = set()
        self._joins: Stream | None = None
        self._reserved: dict[int, int] = {}
        self._lock = Lock()

    def new_event(self) -> Event:
        """See `Space`; an idle thread waits for it without a busy loop."""
        event: Event = self.device.create_event({"blocking_sync": True})
        return event

    @contextmanager
    def entered(self) -> Iterator[None]:
        """See `Space`."""
        from cuda.bindings import driver

        driver.cuCtxPushCurrent(self._context)
        try:
            yield
        finally:
            driver.cuCtxPopCurrent()

    def joined(self, marks: Marks) -> Stream:
        """See `Space`."""
        with self._lock:
            if self._joins is None:
                self._joins = self.device.create_stream()
            for stream, event in marks:
                stream.record(event)
                self._joins.wait(event)
            return self._joins

    def keep(self, lease: object) -> None:
        self._leases.add(lease)

    def drop(self, lease: object) -> None:
        self._leases.discard(lease)

    @contextmanager
    def stream(self) -> Iterator[Stream]:
        """A stream that nobody else queues work on inside the block, on whose device the calling thread is then."""
        self.device.set_current()
        try:
            stream = self._streams.pop()  # the last one used, in whose order most free blocks are
        except IndexError:
            stream = self.device.create_stream()
        try:
            yield stream
        finally:
            self._streams.append(stream)

    def consumer(self, handle: int) -> Stream:
        """See `Space`."""
        stream = self._consumers.get(handle)
        if stream is None:
            import cuda.core as core

            default = {0: core.LEGACY_DEFAULT_STREAM, 1: core.LEGACY_DEFAULT_STREAM, 2: core.PER_THREAD_DEFAULT_STREAM}
            stream = self._consumers[handle] = default.get(handle) or core.Stream.from_handle(handle)
        return stream

    def sync(self) -> None:
        """See `Space`."""
        self.device.sync()

    def copy(self, target: int, source: int, size: int, stream: Stream) -> None:
        """Queues a copy of `size` bytes from one address to another, of whatever memory they are."""
        from cuda.bindings import driver

        (status,) = driver.cuMemcpyAsync(target, source, size, stream.handle)
        check(status, f"copying {size} bytes")

    def empty(self, size: int, stream: Stream) -> DeviceMemory:
        """Memory of any content, made on `stream`. Raises MemoryLimitError when there is no room."""
        try:
            buffer = self.memory.allocate(size, stream)
        except MemoryLimitError as error:
            raise MemoryLimitError(f"{self.name}: {error}") from None
        return DeviceMemory(self, int(buffer.handle), stream, buffer.close)

    def adopt(self, owner: object, size: int, stream: Stream, give_back: Callable[[Event], None]) -> DeviceMemory:
        """Memory that a library owns, of which `reserve` was told.

        `give_back` is called once, in any thread, with a mark of the end of all work on it.
        """
        event = self.new_event()
        self.memory.lend(size)

        def end(last: Stream) -> None:
            self.memory.take_back(size)
            last.record(event)
            give_back(event)

        return DeviceMemory(self, 0, stream, end, owner)

    def reserve(self, owner: object, size: int) -> None:
        """Lets `owner` hold up to `size` bytes of a library's own memory in all; 0 when it has given all back.

        Raises MemoryLimitError when they do not fit into what the limit leaves.
        """
        more = size - self._reserved.get(id(owner), 0)
        if more > 0:
            try:
                self.memory.reserve(more)
            except MemoryLimitError as error:
                raise MemoryLimitError(f"{self.name}: {error}") from None
        elif more < 0:
            self.memory.unreserve(-more)
        self._reserved[id(owner)] = size

    def close(self) -> None:
        """Gives free memory back to the driver, and the rest when consumers let go of it."""
        self.memory.close()


def _device_memory(device: Any) -> Any:
    from cuda.core import DeviceMemoryResource

    return DeviceMemoryResource(device.device_id)


def pinned_memory(limit: int | None, new_event: Callable[[], Event]) -> MemoryPool:
    """Pinned memory of the host, from and to which devices copy by themselves."""
    return MemoryPool(_DriverResource(_pinned_memory(), "the host"), limit, new_event)


def _pinned_memory() -> Any:
    from cuda.core import LegacyPinnedMemoryResource

    return LegacyPinnedMemoryResource()


def check(status: Any, what: str) -> None:
    """Raises DeviceError unless a driver's call succeeded."""
    from cuda.bindings import driver

    if status != driver.CUresult.CUDA_SUCCESS:
        _, text = driver.cuGetErrorString(status)
        raise DeviceError(f"{what} failed: {text.decode() if text else status}")
