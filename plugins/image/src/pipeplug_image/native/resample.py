"""The compiled resampler: 8-bit images linearly resized, mirrored and normalised in one pass over the pixels."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeplug_image.native import library

Array: TypeAlias = NDArray[Any]
Form: TypeAlias = Literal["bytes", "floats", "planes"]

_FORMS: dict[Form, int] = {"bytes": 0, "floats": 1, "planes": 2}
_UINT8 = np.dtype("uint8")
_LARGEST = 2**31 - 1


Span: TypeAlias = tuple[float, float]
"""Start and step: where output pixels lie along an axis, number o at `start + (o + 0.5) * step - 0.5`."""


class Law(ctypes.Structure):
    """The structure `resampling` of resample.h."""

    _fields_ = (
        ("source", ctypes.c_void_p),
        ("source_stride", ctypes.c_ssize_t),
        ("height", ctypes.c_int32),
        ("width", ctypes.c_int32),
        ("channels", ctypes.c_int32),
        ("antialias", ctypes.c_int32),
        ("top", ctypes.c_double),
        ("row_step", ctypes.c_double),
        ("left", ctypes.c_double),
        ("column_step", ctypes.c_double),
        ("out", ctypes.c_void_p),
        ("out_height", ctypes.c_int32),
        ("out_width", ctypes.c_int32),
        ("form", ctypes.c_int32),
        ("mirror_rows", ctypes.c_int32),
        ("mirror_columns", ctypes.c_int32),
        ("factor", ctypes.c_float * 4),
        ("offset", ctypes.c_float * 4),
    )


class Resampler:
    """Resamples 8-bit images linearly, in any number of threads.

    Weights outside of the image are left out and the others normalised; sums are float32, which uint8 results round,
    halves up.

    Args:
        antialias: whether the kernel, a triangle, stretches by max(1, step).
        form: what the result is: "bytes" (height, width, channels); or float32 pixels of that shape, or "planes"
            (channels, height, width), of `factor * value + offset`.
        factor: by channel.
        offset: by channel.

    Raises RuntimeError when the kernels were not compiled: ask `library()` first.
    """

    def __init__(
        self,
        *,
        antialias: bool,
        form: Form = "bytes",
        factor: Sequence[float] = (1.0,) * 4,
        offset: Sequence[float] = (0.0,) * 4,
    ) -> None:
        compiled = library()
        if compiled is None:
            raise RuntimeError("the kernels of pipeplug-image were not compiled when it was installed")
        self._run = compiled.pipeplug_resample
        self._run.argtypes = (ctypes.POINTER(Law),)
        self._law = Law(antialias=antialias, form=_FORMS[form])
        self._law.factor[: len(factor)] = factor
        self._law.offset[: len(offset)] = offset

    def __call__(
        self,
        image: Array,
        out: Array,
        size: tuple[int, int],
        rows: Span,
        columns: Span,
        mirror_rows: bool = False,
        mirror_columns: bool = False,
    ) -> None:
        """Writes the image, which `takes` agrees to, at `size` (height, width) into `out`.

        `out` is contiguous and of the shape and dtype that the form says. Raises MemoryError.
        """
        height, width, *rest = image.shape
        channels = rest[0] if rest else 1
        if image.strides[1] != channels or image.strides[-1] != 1:
            image = np.ascontiguousarray(image)
        job = Law.from_buffer_copy(self._law)
        job.source = image.__array_interface__["data"][0]
        job.source_stride = image.strides[0]
        job.height, job.width, job.channels = height, width, channels
        job.top, job.row_step = rows
        job.left, job.column_step = columns
        job.out = out.__array_interface__["data"][0]
        job.out_height, job.out_width = size
        job.mirror_rows, job.mirror_columns = bool(mirror_rows), bool(mirror_columns)
        if self._run(job):
            raise MemoryError(f"no memory to resize an image of {height} x {width} pixels to {size[0]} x {size[1]}")

    def law(self, size: tuple[int, int], channels: int) -> Law:
        """What is the same for all images of `channels` channels that become one size (height, width)."""
        law = Law.from_buffer_copy(self._law)
        law.channels = channels
        law.out_height, law.out_width = size
        return law


def takes(image: Array) -> bool:
    """Whether the resampler can read an image: (height, width) or (height, width, 1, 3 or 4) of uint8."""
    channels = image.shape[2] if image.ndim == 3 else 1
    if image.dtype != _UINT8 or image.ndim not in (2, 3) or channels not in (1, 3, 4):
        return False
    return 0 < image.shape[1] < _LARGEST // channels and len(image) > 0
