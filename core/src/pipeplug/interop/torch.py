"""Exports to PyTorch, which is imported when one is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray


def to_torch(array: NDArray[Any]) -> torch.Tensor:
    """A tensor over the memory of `array`, or over a copy where PyTorch cannot share it: read-only or reversed.

    Raises ImportError with advice when PyTorch is not installed.
    """
    try:
        import torch
    except ImportError as error:
        raise ImportError("`.torch()` needs PyTorch: pip install torch") from error
    shared = array.flags.writeable and all(stride >= 0 for stride in array.strides)
    return torch.from_numpy(array if shared else array.copy())
