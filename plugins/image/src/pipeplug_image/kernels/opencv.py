"""OpenCV as the kernels use it: one thread a call, and results that go where the caller wants them.

Importing this module sets OpenCV to one thread a call, for the whole process and once: OpenCV has no setting a thread
or a call, its own pool fights the threads that run samples in parallel, and a kernel is first imported in such a
thread. A program that wants OpenCV's pool for its own work calls `cv2.setNumThreads` afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray

from pipeplug import ArgumentError, SpecError

cv2.setNumThreads(0)

Array: TypeAlias = NDArray[Any]
"""Pixels: (height, width) or (height, width, channels) unless a function says otherwise."""

PIXEL_DTYPES = {"uint8": 255.0, "uint16": 65535.0, "float32": 1.0}
"""The dtypes that every kernel takes, and the value of white in each."""

_WHITES = {np.dtype(name): white for name, white in PIXEL_DTYPES.items()}  # looking up a dtype's name takes longer

BORDERS = {
    "constant": cv2.BORDER_CONSTANT,
    "edge": cv2.BORDER_REPLICATE,
    "reflect_101": cv2.BORDER_REFLECT_101,
    "reflect_1001": cv2.BORDER_REFLECT,
    "wrap": cv2.BORDER_WRAP,
}
"""What lies beyond the edge of `abcd`: a fill, `aabcdd`, `babcdc`, `aabcdd` reflected with its edge, `dabcda`."""

Fill: TypeAlias = float | Sequence[float] | NDArray[np.float64]
"""One value for all channels, or one a channel."""


def channels_of(image: Array) -> int:
    """The number of channels, 1 for two dimensions. Raises SpecError unless it is 1, 3 or 4."""
    channels = image.shape[2] if image.ndim == 3 else 1
    if image.ndim not in (2, 3) or channels not in (1, 3, 4):
        raise SpecError(f"needs (height, width) or (height, width, 1, 3 or 4 channels), got shape {image.shape}")
    return channels


def white_of(image: Array) -> float:
    """The value of white. Raises SpecError for a dtype that is none of pixels."""
    white = _WHITES.get(image.dtype)
    if white is None:
        raise SpecError(f"needs one of {', '.join(PIXEL_DTYPES)}, got {image.dtype}; cast the image first")
    return white


def per_channel(value: Fill, channels: int, name: str) -> tuple[float, ...]:
    """`value` once a channel. Raises ArgumentError when it has another number of values."""
    values = (value,) if isinstance(value, int | float | np.number) else tuple(value)
    if len(values) not in (1, channels):
        raise ArgumentError(
            f"{name} has {len(values)} values, but the image has {channels} channels: give 1 or that many"
        )
    return tuple(float(v) for v in values) * (channels // len(values))


def scalar(value: Fill, channels: int, name: str = "fill") -> tuple[float, float, float, float]:
    """`value` once a channel, as the four numbers that OpenCV wants."""
    a, b, c, d = (*per_channel(value, channels, name), 0.0, 0.0, 0.0)[:4]
    return a, b, c, d


def constant(*values: float) -> NDArray[np.float64]:
    """Numbers for the channels of a pixel, as OpenCV's arithmetic takes them; 0 for those that are not given."""
    return np.array((*values, 0.0, 0.0, 0.0)[:4]).reshape(4, 1)


def target(out: Array | None, shape: tuple[int, ...], dtype: np.dtype[Any] | str) -> Array | None:
    """`out` if OpenCV can write straight into it, else None. Raises ArgumentError when the result does not fit."""
    if out is None:
        return None
    if out.shape != shape or out.dtype != dtype:
        raise ArgumentError(f"the result is {np.dtype(dtype)} {shape}, but `out` is {out.dtype} {out.shape}")
    return out if out.flags.c_contiguous and out.flags.writeable else None


def settle(result: Array, out: Array | None, shape: tuple[int, ...]) -> Array:
    """The result in `out`, if there is one: OpenCV leaves `dst` alone whenever it would have had to reallocate it."""
    if out is None:
        return result if result.shape == shape else result.reshape(shape)  # OpenCV may drop a dimension of one channel
    if result is not out:
        np.copyto(out, result.reshape(shape))
    return out


def in_bands(step: Callable[[Array, Array], object], image: Array, result: Array) -> Array:
    """`result`, filled by `step` some rows at a time, so that what it makes in between stays in the cache."""
    rows = max(1, 2**16 // max(1, image[:1].size))
    for top in range(0, len(image), rows):
        step(image[top : top + rows], result[top : top + rows])
    return result


def copied(image: Array, out: Array | None) -> Array:
    """The image itself, or `out` with its pixels."""
    target(out, image.shape, image.dtype)
    return settle(image, out, image.shape)
