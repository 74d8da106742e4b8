"""Conversions of pixel values: dtypes and grey."""

from __future__ import annotations

from functools import partial

import cv2
import numpy as np

from pipeplug import SpecError
from pipeplug_image.kernels.opencv import Array, channels_of, copied, in_bands, settle, target, white_of

_LOOKED_UP = frozenset({"uint8", "int8", "uint16", "int16", "int32", "float16", "float32", "float64"})
_DEPTHS = {
    "uint8": cv2.CV_8U,
    "int8": cv2.CV_8S,
    "uint16": cv2.CV_16U,
    "int16": cv2.CV_16S,
    "float32": cv2.CV_32F,
}


def rounded(values: Array, dtype: str) -> Array:
    """Values as `dtype`: to integers halves round to even, what does not fit saturates, NaN becomes 0."""
    if np.dtype(dtype).kind == "f":
        with np.errstate(over="ignore"):  # what is beyond float16 is infinite there
            return values.astype(dtype)
    limits = np.iinfo(dtype)
    return np.nan_to_num(np.rint(values), nan=0.0).clip(float(limits.min), float(limits.max)).astype(dtype)


def can_look_up(image: Array, dtype: str) -> bool:
    """Whether a table turns these pixels into `dtype`."""
    return image.dtype == np.uint8 and dtype in _LOOKED_UP


def look_up(image: Array, table: Array, out: Array | None = None) -> Array:
    """`table[image]` for uint8 pixels; a `table` has shape (1, 256) or (1, 256, channels), a dtype of `can_look_up`."""
    # OpenCV moves bytes here: a table of float16 goes through as integers of its size.
    stored = table.view(np.uint16) if table.dtype == np.float16 else table
    direct = None if out is None else out.view(stored.dtype)
    result = cv2.LUT(image, stored, dst=direct)
    return out if out is not None and result is direct else result.view(table.dtype).reshape(image.shape)


def cast(image: Array, dtype: str, scale: float = 1.0, *, out: Array | None = None) -> Array:
    """`scale * image` as `dtype`.

    To integers, halves round to even and what does not fit saturates, infinities included; NaN becomes an integer that
    is not specified. Without a scale 65535 becomes 255 in uint8: `scale=1 / 257` is what keeps white white.
    """
    direct = target(out, image.shape, dtype)
    if image.dtype == dtype and scale == 1:
        return copied(image, out)
    return settle(_convert(image, dtype, scale, direct), out, image.shape)


def _convert(image: Array, dtype: str, scale: float, out: Array | None) -> Array:
    if image.ndim and image.size:  # OpenCV has neither single numbers nor empty arrays
        if can_look_up(image, dtype):
            return look_up(image, rounded(np.arange(256.0)[None] * scale, dtype), out)
        if image.dtype.name in _DEPTHS and dtype in _DEPTHS and image.ndim <= 3 and scale > 0:
            return _scaled(image, dtype, scale, out)
    exact = scale == 1 and np.dtype(dtype).kind == "f"
    return np.asarray(rounded(image if exact else image.astype(np.float64) * scale, dtype))


def _scaled(image: Array, dtype: str, scale: float, out: Array | None) -> Array:
    flat = image.reshape(len(image), -1)  # an array of many channels is one of many columns
    result = np.empty(image.shape, dtype) if out is None else out
    into = result.reshape(flat.shape)
    if image.dtype.kind == "u" and dtype == "uint8":
        cv2.convertScaleAbs(flat, dst=into, alpha=scale)
    elif image.dtype.kind == "f" and dtype != "float32":
        in_bands(partial(_saturated, scale=scale), flat, into)
    else:
        cv2.addWeighted(flat, scale, flat, 0, 0, dst=into, dtype=_DEPTHS[dtype])
    return result


def _saturated(image: Array, out: Array, scale: float) -> None:
    # What OpenCV makes of infinities and of values beyond int32 depends on the processor.
    # NumPy limits them, as `cv2.min` takes an image of one pixel for the constant.
    limits = np.iinfo(out.dtype)
    limited = np.clip(image, limits.min / scale, limits.max / scale)
    cv2.addWeighted(limited, scale, limited, 0, 0, dst=out, dtype=_DEPTHS[out.dtype.name])


def grayscale(image: Array, channels: int = 1, *, out: Array | None = None) -> Array:
    """The grey of an RGB image, 0.299 R + 0.587 G + 0.114 B, in 1 or 3 equal channels: within 1 level of Pillow's "L".

    A grey image stays as it is; the fourth channel of RGBA is dropped. Raises SpecError for another number of channels.
    """
    white_of(image)
    if channels not in (1, 3):
        raise SpecError(f"grey has 1 or 3 channels, not {channels}")
    shape = (*image.shape[:2], channels)
    direct = target(out, shape, image.dtype)
    step = partial(cv2.cvtColor, dst=direct if channels == 1 else None)
    given = channels_of(image)
    if given == 1:
        grey = image
    else:
        grey = step(image, cv2.COLOR_RGB2GRAY if given == 3 else cv2.COLOR_RGBA2GRAY)
    if channels == 3:
        grey = cv2.cvtColor(grey, cv2.COLOR_GRAY2RGB, dst=direct)
    return settle(grey, out, shape)
