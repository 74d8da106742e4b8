"""Memory of a device as values hold it: who may use it when, and what becomes of it when nobody holds it any more.

A piece of memory is made on one stream and ready at an event. Whoever uses it on another stream lets that stream wait
for the event first, and is remembered: when the last reference goes, the memory goes back on the stream that used it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from math import prod
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias
from weakref import ref

import numpy as np

from pipeplug.memory.resource import Event, Stream

if TYPE_CHECKING:
    from numpy.typing import NDArray

DEFAULT_STREAMS = (0, 1, 2)
"""Handles of streams that there always are: the legacy default stream, under two names, and the thread's."""

Marks: TypeAlias = Sequence[tuple[Stream, Event]]


class Space(Protocol):
    """The device that memory is of, as far as memory needs it."""

    def new_event(self) -> Event:
        """A mark, which can be recorded in any thread later."""

    def entered(self) -> AbstractContextManager[None]:
        """Makes the device the calling thread's current one inside the block."""

    def consumer(self, handle: int) -> Stream:
        """The stream of somebody else that has this handle; 0 and 1 are the legacy default stream, 2 the thread's."""

    def sync(self) -> None:
        """Waits for all work on the device."""

    def joined(self, marks: Marks) -> Stream:
        """A stream whose work from now on comes after the work that is queued on all of these, marked by the events."""

    def keep(self, lease: object) -> None:
        """Keeps a weak reference alive until `drop`: one that goes together with what it refers to is not called."""

    def drop(self, lease: object) -> None: ...


class Holder(Protocol):
    """What keeps memory, and orders its use."""

    def use(self, stream: Stream) -> None:
        """Lets work queued on `stream` from now on come after what made the content, and the memory outlive it."""

    def hand_over(self, handle: int | None, owner: object = None) -> None:
        """As `use`, for the stream of somebody else that has this handle.

        Args:
            handle: None means whichever stream: the content is waited for here.
            owner: what keeps the stream alive; of one whose owner is not known, all work on the device is waited for
                when the memory goes, as the stream may be gone by then.
        """


class Kept:
    """Keeps anything that memory is of; its content is there, and nobody else orders its use."""

    def __init__(self, owner: object) -> None:
        self.owner = owner

    def use(self, stream: Stream) -> None:
        """Nothing has to be waited for."""

    def hand_over(self, handle: int | None, owner: object = None) -> None:
        """Nothing has to be waited for."""


class _Lease(ref["DeviceMemory"]):
    """A weak reference to memory, and what has to be known when the memory is gone."""

    __slots__ = ("give_back", "lock", "marks", "owner", "space", "streams", "unordered", "users")

    space: Space
    lock: Lock
    users: list[Stream]
    marks: list[Event]
    streams: list[object]
    unordered: bool
    owner: object
    give_back: Callable[[Stream], None]


class DeviceMemory:
    """A piece of a device's memory with one owner.

    Args:
        space: the device.
        address: of the first byte; 0 where it is in several pieces.
        stream: on which it is made, and used at once.
        give_back: called once with the stream after whose queued work the memory may be used anew.
        owner: kept until then.

    Attributes:
        ready: marks the end of the work that makes the content; None while the task that makes it runs.
    """

    __slots__ = ("__weakref__", "_lease", "address", "ready", "stream")

    def __init__(
        self, space: Space, address: int, stream: Stream, give_back: Callable[[Stream], None], owner: object = None
    ) -> None:
        self.address = address
        self.stream = stream
        self.ready: Event | None = None
        lease = self._lease = _Lease(self, _release)
        lease.space, lease.users, lease.marks, lease.streams, lease.unordered = space, [stream], [], [], False
        lease.owner, lease.give_back, lease.lock = owner, give_back, Lock()
        space.keep(lease)

    def use(self, stream: Stream) -> None:
        """See `Holder`."""
        lease = self._lease
        with lease.lock:
            if stream in lease.users:
                return
            if stream != self.stream and self.ready is not None and not self.ready.is_done:
                stream.wait(self.ready)
            if lease.users == [self.stream]:
                lease.users[0] = stream  # which waited for the maker, and so stands for it
            else:
                # Made here, as a thread that lets go of the last reference may not be able to.
                lease.marks += [lease.space.new_event() for _ in range(1 if lease.marks else 2)]
                lease.users.append(stream)

    def hand_over(self, handle: int | None, owner: object = None) -> None:
        """See `Holder`."""
        lease = self._lease
        with lease.space.entered():
            if handle is not None and (owner is not None or handle in DEFAULT_STREAMS):
                self.use(lease.space.consumer(handle))
                lease.streams.append(owner)
                return
            lease.unordered = True
            if self.ready is None or self.ready.is_done:
                return
            if handle is None:
                self.ready.sync()
            else:
                lease.space.consumer(handle).wait(self.ready)


def _release(lease: _Lease) -> None:
    lease.space.drop(lease)
    owner, lease.owner = lease.owner, None
    with lease.space.entered():
        if lease.unordered:
            lease.space.sync()
        joined = lease.space.joined(list(zip(lease.users, lease.marks, strict=True))) if lease.marks else lease.users[0]
        lease.give_back(joined)
        del owner  # before the streams go, on which its own memory may be freed


class DeviceArray:
    """Numbers in a device's memory, packed in C order.

    Attributes:
        address: of the first one.
        shape: their number in each dimension.
        dtype: what they are.
        device: such as `"cuda:0"`.
        holders: of the memory that they lie in.
    """

    __slots__ = ("address", "device", "dtype", "holders", "shape")

    def __init__(
        self, address: int, shape: tuple[int, ...], dtype: np.dtype[Any], device: str, holders: tuple[Holder, ...]
    ) -> None:
        self.address = address
        self.shape = shape
        self.dtype = dtype
        self.device = device
        self.holders = holders

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize

    def use(self, stream: Stream) -> None:
        """Lets work queued on `stream` from now on use the numbers."""
        for holder in self.holders:
            holder.use(stream)

    def hand_over(self, handle: int | None, owner: object = None) -> None:
        """See `Holder`."""
        for holder in self.holders:
            holder.hand_over(handle, owner)

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        """https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html, version 3: ready on every stream."""
        self.hand_over(None)
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, False),
            "strides": None,
            "version": 3,
            "stream": None,
        }

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, place: int | slice) -> DeviceArray:
        """A row, or neighbouring rows. Raises IndexError for others."""
        row = prod(self.shape[1:]) * self.dtype.itemsize
        if isinstance(place, slice):
            first, stop, step = place.indices(len(self))
            if step != 1:
                raise IndexError("rows of a device's array are taken one by one, or side by side")
            return self._part(self.address + first * row, (max(stop - first, 0), *self.shape[1:]))
        if not -len(self) <= place < len(self):
            raise IndexError(f"row {place} of {len(self)}")
        return self._part(self.address + place % len(self) * row, self.shape[1:])

    def _part(self, address: int, shape: tuple[int, ...]) -> DeviceArray:
        return DeviceArray(address, shape, self.dtype, self.device, self.holders)

    def rows(self) -> DeviceSamples:
        """The rows as samples of their own."""
        row = prod(self.shape[1:]) * self.dtype.itemsize
        addresses = np.uint64(self.address) + np.arange(len(self), dtype=np.uint64) * np.uint64(row)
        shapes = np.tile(np.array(self.shape[1:], np.int64), (len(self), 1))
        return DeviceSamples(addresses, shapes, self.dtype, self.device, self.holders)

    def __repr__(self) -> str:
        return f"DeviceArray({self.dtype.name} {self.shape}, {self.device})"


class DeviceSamples(Sequence[DeviceArray]):
    """Samples in a device's memory, wherever they lie; each is packed in C order, and shapes may differ.

    Attributes:
        addresses: uint64 (samples,), of the first byte of each.
        shapes: int64 (samples, dimensions).
        dtype: of all.
        device: such as `"cuda:0"`.
        holders: of the memory that they lie in.
    """

    __slots__ = ("addresses", "device", "dtype", "holders", "shapes")

    def __init__(
        self,
        addresses: NDArray[np.uint64],
        shapes: NDArray[np.int64],
        dtype: np.dtype[Any],
        device: str,
        holders: tuple[Holder, ...],
    ) -> None:
        self.addresses = addresses
        self.shapes = shapes
        self.dtype = dtype
        self.device = device
        self.holders = holders

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Bytes of each sample."""
        sizes: NDArray[np.int64] = self.shapes.prod(axis=1) * self.dtype.itemsize
        return sizes

    @property
    def nbytes(self) -> int:
        return int(self.sizes.sum())

    @property
    def are_in_one_piece(self) -> bool:
        """Whether they lie in one piece of memory, and not in neighbours by chance, over which no copy may go."""
        return len(self.holders) == 1 and not (
            isinstance(self.holders[0], DeviceMemory) and not self.holders[0].address
        )

    def use(self, stream: Stream) -> None:
        """Lets work queued on `stream` from now on use the samples."""
        for holder in self.holders:
            holder.use(stream)

    def take(self, rows: NDArray[np.intp]) -> DeviceSamples:
        return DeviceSamples(self.addresses[rows], self.shapes[rows], self.dtype, self.device, self.holders)

    def as_array(self) -> DeviceArray | None:
        """All samples as one array, if they are equal in shape and lie one after the other in one piece of memory."""
        if not len(self) or not (self.are_in_one_piece or len(self) == 1) or (self.shapes != self.shapes[0]).any():
            return None
        size = np.uint64(self.sizes[0])
        if (np.diff(self.addresses) != size).any():
            return None
        shape = (len(self), *self.shapes[0].tolist())
        return DeviceArray(int(self.addresses[0]), shape, self.dtype, self.device, self.holders)

    def __len__(self) -> int:
        return len(self.addresses)

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return self.take(np.arange(len(self))[row])
        shape = tuple(self.shapes[row].tolist())
        return DeviceArray(int(self.addresses[row]), shape, self.dtype, self.device, self.holders)

    def __iter__(self) -> Iterator[DeviceArray]:
        return (self[row] for row in range(len(self)))


def holders_of(owner: object) -> tuple[Holder, ...]:
    """The holders of what `owner` is or has: arrays, samples, tuples of them, or anything else to be kept."""
    if isinstance(owner, DeviceArray | DeviceSamples):
        return owner.holders
    if isinstance(owner, tuple):
        return tuple(dict.fromkeys(holder for each in owner for holder in holders_of(each)))
    return (owner,) if isinstance(owner, DeviceMemory | Kept) else (Kept(owner),)
