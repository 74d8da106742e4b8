"""Exports to CuPy, which is imported when one is asked for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipeplug.memory.cuda import ordinal_of

if TYPE_CHECKING:
    import cupy

    from pipeplug.memory.device import DeviceArray


@contextmanager
def on_stream(handle: int, device: str) -> Iterator[None]:
    """Makes a stream CuPy's current one inside the block, and PyTorch's where PyTorch is in use."""
    import cupy

    torch = sys.modules.get("torch")
    with ExitStack() as streams:
        streams.enter_context(cupy.cuda.Device(ordinal_of(device)))
        streams.enter_context(_foreign_stream(cupy, handle, ordinal_of(device)))
        if torch is not None and torch.cuda.is_available():
            streams.enter_context(torch.cuda.stream(torch.cuda.ExternalStream(handle, device)))
        yield


def _foreign_stream(cupy: Any, handle: int, ordinal: int) -> Any:
    if hasattr(cupy.cuda.Stream, "from_external"):  # CuPy 14 takes objects with the CUDA stream protocol
        return cupy.cuda.Stream.from_external(_Handle(handle))
    return cupy.cuda.ExternalStream(handle, ordinal)


@dataclass(frozen=True)
class _Handle:
    """A stream by its handle, https://nvidia.github.io/cuda-python/cuda-core/latest/interoperability.html."""

    handle: int

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle


def to_cupy(array: DeviceArray) -> cupy.ndarray:
    """A `cupy.ndarray` over the memory of `array`, ready on CuPy's current stream.

    Raises ImportError with advice when CuPy is not installed.
    """
    try:
        import cupy
    except ImportError as error:
        raise ImportError("`.cupy()` needs CuPy: pip install cupy-cuda13x (or cupy-cuda12x)") from error
    ordinal = ordinal_of(array.device)
    with cupy.cuda.Device(ordinal):
        stream = cupy.cuda.get_current_stream()
        array.hand_over(stream.ptr, stream)
        memory = cupy.cuda.UnownedMemory(array.address, array.nbytes, array, ordinal)
        return cupy.ndarray(array.shape, array.dtype, cupy.cuda.MemoryPointer(memory, 0))
