"""The compiled steps from JPEGs to parts of their pixels, and on to rows of a batch."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeplug_image.native import library
from pipeplug_image.native.resample import Law

Array: TypeAlias = NDArray[Any]


class Picture(NamedTuple):
    """What is to be done with one JPEG: the structure `picture` of parts.c.

    Attributes:
        row: of the batch, where the result goes.
        size: bytes of the file.
        height, width: of the picture, as its header says.
        frame_y, frame_x, frame_height, frame_width: what is decoded.
        y, x, part_height, part_width: what is resampled, within the frame.
        mirror_rows, mirror_columns: whether it is turned upside down, or left to right.
    """

    row: int
    size: int
    height: int
    width: int
    frame_y: int
    frame_x: int
    frame_height: int
    frame_width: int
    y: int
    x: int
    part_height: int
    part_width: int
    mirror_rows: bool
    mirror_columns: bool


class _Job(ctypes.Structure):
    """The structure `decoding` of jpeg.h."""

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
        self._run_many = compiled.pipeplug_resample_parts
        size, pointer = ctypes.c_int64, ctypes.c_void_p
        self._run_many.argtypes = (ctypes.POINTER(_Job), ctypes.POINTER(Law), pointer, pointer, size, pointer, size)
        self._run_many.restype = size
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

    def resample(
        self,
        handle: int,
        files: Sequence[bytes],
        pictures: Sequence[Picture],
        law: Law,
        buffer: Array,
        out: Array,
        pixel_format: int,
    ) -> int:
        """Decodes parts and resamples them into their rows of `out`; how many were done.

        Fewer than all when something is out of the ordinary with the next one; the handle is then in the middle of it.
        `buffer` has room for the largest frame.
        """
        job = self._job
        job.handle, job.format = handle, pixel_format
        job.out = buffer.__array_interface__["data"][0]
        data = (ctypes.c_char_p * len(files))(*files)
        numbers = np.array(pictures, np.int64)
        done: int = self._run_many(job, law, data, numbers.ctypes.data, len(files), out.ctypes.data, out.strides[0])
        return done
