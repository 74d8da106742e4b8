"""A GPU that is none: its memory is the host's, and its streams do their work in order, late.

It stands for a card in tests of the runtime: work is queued as Python functions, and runs when somebody waits for it,
so that what nobody waited for has not happened.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import count
from threading import RLock
from typing import TYPE_CHECKING, Any

from pipeplug.memory import HostResource, MemoryResource, OwnedBuffer
from pipeplug.memory import cuda as real
from pipeplug.runtime import cuda_context

if TYPE_CHECKING:
    import pytest

_LOCK = RLock()
_HANDLES = count(1000)


@dataclass(eq=False)
class FakeEvent:
    """A mark in a stream: how many pieces of its work come before."""

    stream: FakeStream | None = None
    place: int = 0

    @property
    def is_done(self) -> bool:
        return self.stream is None or self.stream.done >= self.place

    def sync(self) -> None:
        if self.stream is not None:
            self.stream.run_to(self.place)


@dataclass(eq=False)
class FakeStream:
    """Work that waits for somebody to want it done."""

    handle: int = field(default_factory=lambda: next(_HANDLES))
    work: list[Callable[[], None]] = field(default_factory=list)
    done: int = 0

    def queue(self, work: Callable[[], None]) -> None:
        with _LOCK:
            self.work.append(work)

    def run_to(self, place: int) -> None:
        with _LOCK:
            while self.done < place:
                self.work[self.done]()
                self.done += 1

    def record(self, event: Any = None) -> FakeEvent:
        event = event or FakeEvent()
        with _LOCK:
            event.stream, event.place = self, len(self.work)
        return event

    def wait(self, event: Any) -> None:
        mark = FakeEvent(event.stream, event.place) if isinstance(event, FakeEvent) else event.record()
        self.queue(mark.sync)

    def sync(self) -> None:
        self.run_to(len(self.work))


class FakeMemory(HostResource):
    """Memory that the host must not look at."""

    device_id = 0
    is_host_accessible = False
    is_device_accessible = True

    def __init__(self, room: int = 1 << 30) -> None:
        self._left = room
        self._views: dict[int, object] = {}

    def allocate(self, size: int, *, stream: Any = None) -> OwnedBuffer:
        if size > self._left:
            raise RuntimeError("CUDA_ERROR_OUT_OF_MEMORY: there is no more")
        buffer = super().allocate(size, stream=stream)
        self._left -= size
        ctypes.memset(buffer.handle, 0xCD, size)
        self._views[buffer.handle] = buffer.view
        return OwnedBuffer(buffer.handle, size, self, None)

    def deallocate(self, ptr: int, size: int, *, stream: Any = None) -> None:
        ctypes.memset(ptr, 0xDD, size)
        self._left += size
        del self._views[ptr]


class FakePinned(HostResource):
    is_device_accessible = True


class FakeDevice:
    """What the runtime uses of a `cuda.core.Device`."""

    def __init__(self, ordinal: int, memory: MemoryResource) -> None:
        self.device_id = ordinal
        self.memory = memory
        self.context = self
        self.handle = ordinal
        self.streams: list[FakeStream] = []

    def create_event(self, options: object = None) -> FakeEvent:
        return FakeEvent()

    def create_stream(self) -> FakeStream:
        self.streams.append(FakeStream())
        return self.streams[-1]

    def set_current(self) -> None:
        """There is nothing to switch."""

    def sync(self) -> None:
        for stream in self.streams:
            stream.sync()


def install(
    monkeypatch: pytest.MonkeyPatch,
    *,
    cards: int = 2,
    room: int = 1 << 30,
    kernels: Mapping[str, Callable[[tuple[int, ...], Sequence[int]], None]] | None = None,
) -> list[FakeDevice]:
    """Lets the runtime find cards that are none; `kernels`, given grid and arguments, stand for those of CUDA."""
    devices = [FakeDevice(ordinal, FakeMemory(room)) for ordinal in range(cards)]
    monkeypatch.setattr(real, "open_device", lambda name: devices[real.ordinal_of(name)])
    monkeypatch.setattr(real, "_device_memory", lambda device: device.memory)
    monkeypatch.setattr(real, "_pinned_memory", FakePinned)
    monkeypatch.setattr(real.CudaDevice, "entered", lambda self: nullcontext())
    monkeypatch.setattr(real.CudaDevice, "copy", _copy)
    monkeypatch.setattr(real._DriverResource, "_room", lambda self: "")

    def launch(kernel: Any, device: str, stream: FakeStream, grid: Any, block: Any, arguments: Any) -> None:
        stream.queue(lambda: (kernels or {})[kernel.name](grid, arguments))

    monkeypatch.setattr(cuda_context, "launch", launch)
    return devices


def _copy(self: Any, target: int, source: int, size: int, stream: Any) -> None:
    stream.queue(lambda: ctypes.memmove(target, source, size) and None)
