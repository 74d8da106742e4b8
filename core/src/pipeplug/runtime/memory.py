"""The memory of an open pipeline: of the host, of each device, and pinned memory between them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pipeplug.batch import Batch
from pipeplug.memory import HostResource, LimitResource, PoolResource, StatisticsResource
from pipeplug.memory.array import empty
from pipeplug.memory.cuda import CudaDevice, MemoryPool, pinned_memory
from pipeplug.runtime.statistics import MemoryUse
from pipeplug.runtime.transfers import packed
from pipeplug.tensor import Array

HOST = "cpu"
PINNED = "pinned"


class HostMemory:
    """The pageable memory of the host: a pool over a limit."""

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self._taken = StatisticsResource(HostResource())
        self._pool = PoolResource(self._taken if limit is None else LimitResource(self._taken, limit))
        self._lent = StatisticsResource(self._pool)

    def empty(self, shape: tuple[int, ...], dtype: str) -> Array:
        """An uninitialised array, whose memory comes back when nobody refers to it any more."""
        return empty(self._lent, shape, dtype)

    def fits(self, size: int) -> bool:
        """Whether `size` more bytes would stay within the limit, which counts whole blocks."""
        return self.limit is None or self._pool.live_bytes + size <= self.limit

    def use(self) -> MemoryUse:
        """What values hold, the most that they held, and what waits for reuse."""
        lent, taken = self._lent.statistics, self._taken.statistics
        return MemoryUse(lent.live, lent.peak, taken.live, taken.peak, self.limit)

    def close(self) -> None:
        """Gives free memory back to the system, and the rest when consumers let go of it."""
        self._pool.close()


class Memory:
    """All memory of a pipeline by device.

    Args:
        limits: bytes by device, `"cpu"`, `"pinned"` or such as `"cuda:0"`; a device that is not there has no limit.
        devices: the devices that the plan runs on.

    Raises DeviceError when a GPU cannot be used.
    """

    def __init__(self, limits: Mapping[str, int], devices: Collection[str] = ()) -> None:
        self.host = HostMemory(limits.get(HOST))
        self.empty = self.host.empty
        self._devices = {name: CudaDevice(name, limits.get(name)) for name in sorted(devices) if name != HOST}
        self.pinned: MemoryPool | None = None
        for device in self._devices.values():
            self.pinned = pinned_memory(limits.get(PINNED), device.new_event)
            break
        self.is_limited = any(limit is not None for limit in limits.values())

    def device(self, name: str) -> CudaDevice:
        """One of the GPUs."""
        return self._devices[name]

    def staging(self) -> MemoryPool:
        """Pinned memory of the host, which there is where there is a device."""
        assert self.pinned is not None, "who plans a stage on a device opens the device"
        return self.pinned

    def packed(self, batch: Batch) -> Batch:
        """The batch with equal samples side by side, as who receives it takes them: copied where they are not."""
        if batch.device == HOST:
            return batch
        device = self.device(batch.device)
        with device.stream() as stream:
            whole, made = packed(batch, device, stream)
            if made is not None:
                made.ready = stream.record()
        return whole

    def fits(self, sizes: Mapping[str, int]) -> bool:
        """Whether so many more bytes by device would stay within the limits."""
        places: Mapping[str, HostMemory | MemoryPool] = {
            HOST: self.host,
            **{name: device.memory for name, device in self._devices.items()},
        }
        return all(places[name].fits(size) for name, size in sizes.items())

    def use(self) -> dict[str, MemoryUse]:
        """What each device's memory holds, and pinned memory."""
        pools = {} if self.pinned is None else {PINNED: self.pinned}
        pools |= {name: device.memory for name, device in self._devices.items()}
        return {HOST: self.host.use(), **{name: MemoryUse(*pool.use()) for name, pool in pools.items()}}

    def close(self) -> None:
        """Gives free memory back, and the rest when consumers let go of it."""
        self.host.close()
        for device in self._devices.values():
            device.close()
        if self.pinned is not None:
            self.pinned.close()
