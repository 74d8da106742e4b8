"""NumPy arrays that give their memory back by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any
from weakref import ref

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pipeplug.errors import ArgumentError
from pipeplug.memory.host import view_of
from pipeplug.memory.resource import Buffer, MemoryResource


class _Lease(ref[NDArray[Any]]):
    """A weak reference to an array, and the buffer that goes back when the array is gone."""

    __slots__ = ("buffer", "memory")

    buffer: Buffer
    memory: Any


def empty(resource: MemoryResource, shape: Sequence[int], dtype: DTypeLike) -> NDArray[Any]:
    """A C-contiguous array of any content in memory of `resource`, aligned as its buffers are.

    The memory goes back to the resource when the last reference goes to the array, or to any view of it: slices,
    reshapes, `memoryview`s, DLPack consumers, arrays of another library that keep the one they were made from. (Bytes
    taken from `array.base` by hand are not a view of the array; do not keep them.)

    Raises ArgumentError for a shape or dtype that no such array can have (Python objects), and what the resource
    raises: MemoryLimitError when a limit is met.
    """
    dtype = np.dtype(dtype)
    nbytes = int(prod(shape)) * dtype.itemsize
    if nbytes < 0 or dtype.hasobject:  # NumPy would take -1 for "all there is", and read pointers from the memory
        raise ArgumentError(f"{_cannot(shape, dtype)}: sizes are at least 0, and Python objects need no buffer")
    buffer = resource.allocate(nbytes)
    try:
        array: NDArray[Any] = np.ndarray(shape, dtype, _host_view(buffer))
        _lease(array, buffer)
    except BaseException as error:
        buffer.close()
        if isinstance(error, ValueError | TypeError):
            raise ArgumentError(f"{_cannot(shape, dtype)}: {error}") from error
        raise
    return array


def _cannot(shape: Sequence[int], dtype: np.dtype[Any]) -> str:
    return f"cannot make an array of shape {tuple(shape)} and dtype {dtype}"


def _host_view(buffer: Buffer) -> memoryview:
    view = view_of(buffer)
    if view is None:  # NumPy would take None for "allocate it yourself"
        raise TypeError(f"the host cannot read or write memory of {type(buffer.memory_resource).__name__}")
    return view


def _lease(array: NDArray[Any], buffer: Buffer) -> None:
    # A view's `base` is the first array over memory that is no array, however long the chain of views: this one. So a
    # weak reference to it dies with the last view. The memory's owner, which `array.base` is, keeps the reference
    # alive for exactly as long as it must be: NumPy lets go of `base` only after weak references have been told.
    lease = _Lease(array, _release)
    lease.buffer = buffer
    lease.memory = array.base
    lease.memory.lease = lease


def _release(lease: _Lease) -> None:
    lease.memory.lease = None  # before the memory goes back, for then it may be leased again at once
    lease.buffer.close()
