"""Where the bytes of tensors come from, and how they get back.

A `MemoryResource` hands out `Buffer`s. Resources stack, each over the one that it takes from:

    limited = LimitResource(HostResource(), parse_bytes("2GiB"))   # what bounds live + pooled bytes
    pool = PoolResource(limited)                                   # what makes an allocation cheap
    image = empty(pool, (224, 224, 3), "uint8")                    # an ndarray that gives its memory back by itself

An array from `empty` needs no closing: its memory goes back to the pool when the last reference to it or to any view
of it goes, wherever that is (NumPy views, memoryviews, DLPack consumers). The limit stands below the pool, so that
blocks which wait for reuse count; when it is met the pool gives such blocks up and tries again before it raises.
Names and signatures are those of `cuda.core`, so that its resources, buffers and streams fit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeplug.memory.adaptors import LimitResource, MemoryStatistics, StatisticsResource
from pipeplug.memory.host import HostResource
from pipeplug.memory.pool import PoolResource
from pipeplug.memory.resource import Buffer, Event, MemoryResource, OwnedBuffer, Stream
from pipeplug.memory.units import format_bytes, parse_bytes

if TYPE_CHECKING:
    from pipeplug.memory.array import empty

__all__ = [
    "Buffer",
    "Event",
    "HostResource",
    "LimitResource",
    "MemoryResource",
    "MemoryStatistics",
    "OwnedBuffer",
    "PoolResource",
    "StatisticsResource",
    "Stream",
    "empty",
    "format_bytes",
    "parse_bytes",
]


def __getattr__(name: str) -> object:
    if name == "empty":  # the one name that needs NumPy, whose import takes longer than all the rest
        from pipeplug.memory.array import empty

        return empty
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
