"""What a memory resource is. Names and signatures are those of `cuda.core`, whose own objects fit."""

from __future__ import annotations

from typing import Any, Protocol


class Event(Protocol):
    """A mark in a stream's work (`cuda.core.Event`)."""

    @property
    def is_done(self) -> bool:
        """Whether the work before the mark has ended."""

    def sync(self) -> None:
        """Block until it has."""


class Stream(Protocol):
    """An ordered queue of a device's work (`cuda.core.Stream`)."""

    @property
    def handle(self) -> Any:
        """What a driver's functions take; its `int` is the address."""

    def record(self, event: Event | None = None) -> Event:
        """Mark the end of the work queued so far, with `event` if one is given, which marks nothing else then."""

    def wait(self, event_or_stream: Event | Stream, /) -> None:
        """Let work queued from now on start after the event, or after the other stream's work so far."""

    def sync(self) -> None:
        """Block until all queued work has ended."""


class Buffer(Protocol):
    """Memory with one owner (`cuda.core.Buffer`)."""

    @property
    def handle(self) -> int:
        """The address of the first byte."""

    @property
    def size(self) -> int:
        """Bytes that the owner may use."""

    @property
    def memory_resource(self) -> MemoryResource:
        """Where it came from and goes back to."""

    def close(self, stream: Stream | None = None) -> None:
        """Give the memory back, ordered on `stream`. Closing a closed buffer does nothing."""


class MemoryResource(Protocol):
    """A place that memory comes from (`cuda.core.MemoryResource`); all of it may be called from any thread.

    `deallocate` may be called wherever Python drops a reference: in any thread, inside a garbage collection, while the
    same thread is in the middle of `allocate`. It must not wait for a lock that `allocate` holds.
    """

    @property
    def device_id(self) -> int:
        """The device's ordinal; -1 for memory of the host."""

    @property
    def is_host_accessible(self) -> bool:
        """Whether the host may read and write at a buffer's address."""

    @property
    def is_device_accessible(self) -> bool:
        """Whether device code may."""

    def allocate(self, size: int, *, stream: Stream | None = None) -> Buffer:
        """A buffer of `size` bytes of any content, for use on `stream`. Raises MemoryError when there is no room."""

    def deallocate(self, ptr: int, size: int, *, stream: Stream | None = None) -> None:
        """Take the buffer at `ptr` back. `Buffer.close` calls this."""


class OwnedBuffer:
    """The buffer that resources of pipeplug hand out: it goes back when it is closed, and only then.

    Attributes:
        handle: the address of the first byte, 0 once closed.
        size: bytes that the owner may use, 0 once closed.
        memory_resource: the resource whose `deallocate` it calls.
        view: at least those bytes as a memoryview whose `obj` accepts an attribute `lease`; None where the host has no
            access, and once closed.
    """

    __slots__ = ("handle", "memory_resource", "size", "view")

    def __init__(self, handle: int, size: int, memory_resource: MemoryResource, view: memoryview | None) -> None:
        self.handle = handle
        self.size = size
        self.memory_resource = memory_resource
        self.view = view

    def close(self, stream: Stream | None = None) -> None:
        """Give the memory back, ordered on `stream`. Closing a closed buffer does nothing."""
        handle, self.handle = self.handle, 0
        if handle:
            size, self.size = self.size, 0
            self.view = None
            self.memory_resource.deallocate(handle, size, stream=stream)

    def __repr__(self) -> str:
        state = f"{self.size} bytes at {self.handle:#x}" if self.handle else "closed"
        return f"<OwnedBuffer of {type(self.memory_resource).__name__}: {state}>"
