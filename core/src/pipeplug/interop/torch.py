"""Exports to PyTorch, which is imported when one is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeplug.interop.dlpack import to_dlpack
from pipeplug.memory.device import DeviceArray

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray


def to_torch(array: NDArray[Any] | DeviceArray) -> torch.Tensor:
    """A tensor over the memory of `array`; on a GPU it is ready on PyTorch's current stream.

    It lies over a copy where PyTorch cannot share memory of the host: read-only or reversed. Raises ImportError with
    advice when PyTorch is not installed.
    """
    try:
        import torch
    except ImportError as error:
        raise ImportError("`.torch()` needs PyTorch: pip install torch") from error
    if isinstance(array, DeviceArray):
        stream = torch.cuda.current_stream(torch.device(array.device))
        return torch.from_dlpack(to_dlpack(array, stream=stream.cuda_stream, owner=stream))
    shared = array.flags.writeable and all(stride >= 0 for stride in array.strides)
    return torch.from_numpy(array if shared else array.copy())
