"""Copies between the host and devices: through pinned memory, from which a device copies by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeplug.batch import Batch
from pipeplug.memory.cuda import CudaDevice, MemoryPool
from pipeplug.memory.device import DeviceMemory, DeviceSamples
from pipeplug.memory.resource import OwnedBuffer, Stream
from pipeplug.runtime.column import Empty
from pipeplug.tensor import Array, Tensor, dtype_name

ALIGNMENT = 256
"""Samples of a ragged batch begin at multiples of this many bytes: wide loads are possible from their start."""


def place_samples(shapes: Any, itemsize: int) -> tuple[Any, int]:
    """Where samples of these shapes begin in one piece of memory, uint64 (samples,), and the bytes of all.

    Equal samples lie side by side, as one array.
    """
    sizes = shapes.prod(axis=1) * itemsize
    if not (len(shapes) and (shapes == shapes[0]).all()):
        sizes = (sizes + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
    ends = np.cumsum(sizes)
    return (ends - sizes).astype(np.uint64), int(ends[-1]) if len(ends) else 0


def empty_samples(
    memory: DeviceMemory, offsets: Any, shapes: Any, dtype: str, layout: str | None, device: CudaDevice
) -> Batch:
    """The batch of samples that lie at these offsets of a piece of memory."""
    addresses = np.uint64(memory.address) + offsets
    return Batch.of_samples(DeviceSamples(addresses, shapes, np.dtype(dtype), device.name, (memory,)), layout)


class Staging:
    """Pinned memory for the copies of one task, which goes back when the device has made them."""

    def __init__(self, device: CudaDevice, pinned: MemoryPool, stream: Stream) -> None:
        self._device = device
        self._pinned = pinned
        self._stream = stream
        self._buffers: list[OwnedBuffer] = []

    def copy(self, target: int, source: int, size: int) -> None:
        """Queues a copy of `size` bytes."""
        self._device.copy(target, source, size, self._stream)

    def empty(self, size: int) -> Array:
        """Pinned bytes, uint8 (size,)."""
        buffer = self._pinned.allocate(size, None)
        self._buffers.append(buffer)
        assert buffer.view is not None, "the host has access to pinned memory"
        return np.frombuffer(buffer.view, np.uint8, size)

    def close(self) -> None:
        """Gives the memory back in the stream's order."""
        for buffer in self._buffers:
            buffer.close(self._stream)
        self._buffers.clear()


def upload(arrays: Sequence[Array], addresses: Sequence[int], staging: Staging) -> None:
    """Queues one copy of arrays of the host to these addresses of a device; what lies between them is overwritten."""
    if not arrays:
        return
    base = min(addresses)
    end = max(address + array.nbytes for array, address in zip(arrays, addresses, strict=True))
    staged = staging.empty(end - base)
    for array, address in zip(arrays, addresses, strict=True):
        place = staged[address - base : address - base + array.nbytes]
        place.view(array.dtype).reshape(array.shape)[...] = array
    staging.copy(base, int(staged.ctypes.data), end - base)


def to_device(batch: Batch, device: CudaDevice, staging: Staging, stream: Stream) -> tuple[Batch, DeviceMemory | None]:
    """A copy of a batch of the host on a device, ordered on `stream`, and its memory; objects stay as they are."""
    if batch.is_object:
        return batch, None
    arrays = [batch.numpy()] if batch.is_equal else batch.list()
    shapes = batch.shapes
    offsets, size = place_samples(shapes, np.dtype(batch.dtype).itemsize)
    memory = device.empty(size, stream)
    starts = [memory.address] if batch.is_equal else [memory.address + int(offset) for offset in offsets]
    upload(arrays, starts, staging)
    return empty_samples(memory, offsets, shapes, batch.dtype, batch.layout, device), memory


def to_host(batch: Batch, staging: Staging, stream: Stream, empty: Empty) -> Batch:
    """A copy of a batch of a device in pageable memory of the host; returns when it is there."""
    samples = batch.samples
    samples.use(stream)
    staged, offsets = _download(samples, staging)
    stream.record().sync()
    dtype, shapes = dtype_name(samples.dtype), samples.shapes.tolist()
    if batch.is_equal:
        whole = staged[: samples.nbytes].view(dtype).reshape((len(samples), *shapes[0]))
        return Batch.equal(_copied(whole, empty), batch.layout)
    places = zip(shapes, offsets.tolist(), samples.sizes.tolist(), strict=True)
    parts = [staged[at : at + size].view(dtype).reshape(shape) for shape, at, size in places]
    return Batch.ragged([Tensor(_copied(part, empty), batch.layout) for part in parts], batch.layout)


def _download(samples: DeviceSamples, staging: Staging) -> tuple[Array, Any]:
    """Queues copies of samples to pinned memory: the bytes, and where each sample begins in them."""
    if not len(samples):
        return staging.empty(0), np.empty(0, np.int64)
    starts, sizes = samples.addresses.astype(np.int64), samples.sizes
    base = int(starts.min())
    span = int((starts + sizes).max()) - base
    if samples.are_in_one_piece and span <= samples.nbytes + len(samples) * ALIGNMENT:  # they lie side by side
        staged = staging.empty(span)
        staging.copy(int(staged.ctypes.data), base, span)
        return staged, starts - base
    offsets = np.cumsum(sizes) - sizes
    staged = staging.empty(samples.nbytes)
    first = int(staged.ctypes.data)
    for offset, start, size in zip(offsets.tolist(), starts.tolist(), sizes.tolist(), strict=True):
        staging.copy(first + offset, start, size)
    return staged, offsets


def _copied(part: Array, empty: Empty) -> Array:
    out = empty(part.shape, dtype_name(part.dtype))
    out[...] = part
    return out


def packed(batch: Batch, device: CudaDevice, stream: Stream) -> tuple[Batch, DeviceMemory | None]:
    """The batch with equal samples side by side, copied where they are not, and the memory of the copy."""
    samples = batch.data
    if not isinstance(samples, DeviceSamples) or not len(samples) or (samples.shapes != samples.shapes[0]).any():
        return batch, None
    samples.use(stream)
    offsets, size = place_samples(samples.shapes, samples.dtype.itemsize)
    memory = device.empty(size, stream)
    for address, offset in zip(samples.addresses.tolist(), offsets.tolist(), strict=True):
        device.copy(memory.address + int(offset), address, int(samples.sizes[0]), stream)
    dtype = dtype_name(samples.dtype)
    return empty_samples(memory, offsets, samples.shapes, dtype, batch.layout, device), memory
