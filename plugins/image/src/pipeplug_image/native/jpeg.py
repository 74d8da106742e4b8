"""The compiled step from a JPEG to a part of its pixels."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, TypeAlias

from numpy.typing import NDArray

from pipeplug_image.native import library

Array: TypeAlias = NDArray[Any]


class _Job(ctypes.Structure):
    """The structure `decoding` of jpeg.c."""

    _fields_ = (
        ("read_header", ctypes.c_void_p),
        ("get", ctypes.c_void_p),
        ("crop", ctypes.c_void_p),
        ("decompress", ctypes.c_void_p),
        ("handle", ctypes.c_void_p),
        ("data", ctypes.c_char_p),
        ("size", ctypes.c_size_t),
        ("height", ctypes.c_int32),
        ("width", ctypes.c_int32),
        ("x", ctypes.c_int),
        ("y", ctypes.c_int),
        ("columns", ctypes.c_int),
        ("rows", ctypes.c_int),
        ("out", ctypes.c_void_p),
        ("stride", ctypes.c_int32),
        ("format", ctypes.c_int32),
    )


class PartDecoder:
    """Decodes parts of JPEGs with the functions of TurboJPEG 3, in one thread.

    Args:
        functions: addresses of tj3DecompressHeader, tj3Get, tj3SetCroppingRegion and tj3Decompress8.

    Raises RuntimeError when the kernels were not compiled: ask `library()` first.
    """

    def __init__(self, functions: Sequence[int]) -> None:
        compiled = library()
        if compiled is None:
            raise RuntimeError("the kernels of pipeplug-image were not compiled when it was installed")
        self._run = compiled.pipeplug_decode_part
        self._run.argtypes = (ctypes.POINTER(_Job),)
        self._job = _Job(*functions)

    def __call__(
        self,
        handle: int,
        data: bytes,
        size: tuple[int, int],
        part: tuple[int, int, int, int],
        out: Array,
        pixel_format: int,
    ) -> bool:
        """Decodes the part (y, x, height, width) of a picture of `size` (height, width) into `out`.

        False when something is out of the ordinary; the handle is then in the middle of that picture.
        """
        job = self._job
        job.handle = handle
        job.data, job.size = data, len(data)
        job.height, job.width = size
        job.y, job.x, job.rows, job.columns = part
        job.out = out.__array_interface__["data"][0]
        job.stride = out.strides[0]
        job.format = pixel_format
        done: bool = self._run(job) == 0
        job.data = None  # or the file would live as long as the thread
        return done
