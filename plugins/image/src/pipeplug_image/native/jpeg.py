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


class PartJob(NamedTuple):
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


class _Decoding(ctypes.Structure):
    """The structure `decoding` of jpeg.h."""

    _fields_ = (
        ("init", ctypes.c_void_p),
        ("set", ctypes.c_void_p),
        ("read_header", ctypes.c_void_p),
        ("get", ctypes.c_void_p),
        ("crop", ctypes.c_void_p),
        ("decompress", ctypes.c_void_p),
        ("destroy", ctypes.c_void_p),
        ("scan_limit", ctypes.c_int32),
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
    """Decodes parts of JPEGs with the functions of TurboJPEG 3, in any number of threads.

    Args:
        functions: addresses of tj3Init, tj3Set, tj3DecompressHeader, tj3Get, tj3SetCroppingRegion, tj3Decompress8 and
            tj3Destroy.
        scan_limit: how many scans a progressive file may have.

    Raises RuntimeError when the kernels were not compiled: ask `library()` first.
    """

    def __init__(self, functions: Sequence[int], scan_limit: int) -> None:
        compiled = library()
        if compiled is None:
            raise RuntimeError("the kernels of pipeplug-image were not compiled when it was installed")
        self._run = compiled.pipeplug_decode_part
        self._run.argtypes = (ctypes.POINTER(_Decoding),)
        self._run_many = compiled.pipeplug_resample_parts
        size, pointer = ctypes.c_int64, ctypes.c_void_p
        self._run_many.argtypes = (
            ctypes.POINTER(_Decoding),
            ctypes.POINTER(Law),
            pointer,
            pointer,
            size,
            pointer,
            size,
        )
        self._run_many.restype = size
        self._decoding = _Decoding(*functions, scan_limit)

    def __call__(
        self, data: bytes, size: tuple[int, int], part: tuple[int, int, int, int], out: Array, pixel_format: int
    ) -> bool:
        """Decodes the part (y, x, height, width) of a picture of `size` (height, width) into `out`.

        False when something is out of the ordinary.
        """
        decoding = _Decoding.from_buffer_copy(self._decoding)
        decoding.data, decoding.size = data, len(data)
        decoding.height, decoding.width = size
        decoding.y, decoding.x, decoding.rows, decoding.columns = part
        decoding.out = out.__array_interface__["data"][0]
        decoding.stride = out.strides[0]
        decoding.format = pixel_format
        done: bool = self._run(decoding) == 0
        return done

    def resample(
        self,
        files: Sequence[bytes],
        jobs: Sequence[PartJob],
        law: Law,
        buffer: Array,
        out: Array,
        pixel_format: int,
    ) -> int:
        """Decodes parts and resamples them into their rows of `out`; how many were done.

        Fewer than all when something is out of the ordinary with the next one. `buffer` has room for the largest frame.
        """
        decoding = _Decoding.from_buffer_copy(self._decoding)
        decoding.out = buffer.__array_interface__["data"][0]
        decoding.format = pixel_format
        data = (ctypes.c_char_p * len(files))(*files)
        numbers = np.array(jobs, np.int64)
        done: int = self._run_many(
            decoding, law, data, numbers.ctypes.data, len(files), out.ctypes.data, out.strides[0]
        )
        return done
