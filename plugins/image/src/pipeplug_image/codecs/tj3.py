"""The functions of TurboJPEG 3 (libjpeg-turbo), called with ctypes, and the one picture that a handle is for.

The library is optional. `find_library` says where one is; nothing else of the carrier is imported or run.
"""

from __future__ import annotations

import ctypes
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

from pipeplug import DecodeError
from pipeplug_image.codecs.exif import Box
from pipeplug_image.codecs.header import Color, ImageHeader
from pipeplug_image.codecs.regions import around
from pipeplug_image.kernels.opencv import Array

# Values of turbojpeg.h, version 3.
_INIT_DECOMPRESS = 1
_SUBSAMPLING, _WIDTH, _HEIGHT, _SCAN_LIMIT = 4, 5, 6, 13
_MCU_WIDTHS = (8, 16, 16, 8, 8, 32, 8)  # of 4:4:4, 4:2:2, 4:2:0, grey, 4:4:0, 4:1:1, 4:4:1
_WARNING = 0
PIXEL_FORMATS: dict[Color, int] = {"RGB": 0, "L": 6, "RGBA": 7, "CMYK": 11}

MAX_SCANS = 500
"""A progressive file of a few kB can hold so many scans that decoding takes minutes; cameras write about ten."""

# What only a note got wrong does not touch the picture, nor do bytes between two segments of the header. Bytes before a
# restart marker, or before the end unless they are padding, are left of pixels that were lost.
_HARMLESS = re.compile(
    r"extraneous bytes before marker 0x(?!d[0-79])|unknown JFIF revision|Unknown Adobe color transform"
)
_BEFORE_END = re.compile(r"(\d+) extraneous bytes before marker 0xd9")


class _Region(ctypes.Structure):
    _fields_ = (("x", ctypes.c_int), ("y", ctypes.c_int), ("w", ctypes.c_int), ("h", ctypes.c_int))


class _Factor(ctypes.Structure):
    _fields_ = (("num", ctypes.c_int), ("denom", ctypes.c_int))


_WHOLE = _Region(0, 0, 0, 0)


@cache
def find_library() -> str | None:
    """Where a shared library with TurboJPEG 3 is: in the wheel `pylibjxl`, else the system's; None if there is none."""
    return next((path for path in _candidates() if _has_regions(path)), None)


def _candidates() -> list[str]:
    wheel = find_spec("pylibjxl")  # finds it without importing it
    folders = wheel.submodule_search_locations or () if wheel is not None else ()
    extensions = [str(path) for folder in folders for path in sorted(Path(folder).glob("_pylibjxl*.so"))]
    return [*extensions, "libturbojpeg.so.0", "libturbojpeg.dylib"]


def _has_regions(path: str) -> bool:
    try:
        library = ctypes.CDLL(path)
    except OSError:
        return False
    return all(hasattr(library, name) for name in ("tj3Decompress8", "tj3SetCroppingRegion", "tj3GetErrorCode"))


class Library:
    """The functions of the library. Those that take microseconds keep the GIL: giving it up would cost more.

    Attributes:
        addresses: of the functions that `native.jpeg.PartDecoder` wants, in its order.
    """

    def __init__(self, path: str) -> None:
        quick, slow = ctypes.PyDLL(path), ctypes.CDLL(path)
        handle, number, size, data = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t, ctypes.c_char_p
        self.init = _typed(quick.tj3Init, handle, number)
        self.destroy = _typed(quick.tj3Destroy, None, handle)
        self.get = _typed(quick.tj3Get, number, handle, number)
        self.set = _typed(quick.tj3Set, number, handle, number, number)
        self.scale = _typed(quick.tj3SetScalingFactor, number, handle, _Factor)
        self.crop = _typed(quick.tj3SetCroppingRegion, number, handle, _Region)
        self.error_code = _typed(quick.tj3GetErrorCode, number, handle)
        self.error_text = _typed(quick.tj3GetErrorStr, data, handle)
        self.read_header = _typed(quick.tj3DecompressHeader, number, handle, data, size)
        self.decompress = _typed(slow.tj3Decompress8, number, handle, data, size, handle, number, number)
        wanted = (self.init, self.set, self.read_header, self.get, self.crop, self.decompress, self.destroy)
        self.addresses = tuple(ctypes.cast(each, ctypes.c_void_p).value or 0 for each in wanted)


@cache
def load(path: str) -> Library:
    """The library at `path`; it stays loaded until the process ends, whoever asks."""
    return Library(path)


def _typed(function: Any, result: object, *arguments: object) -> ctypes._NamedFuncPointer:
    function.restype = result
    function.argtypes = arguments
    typed: ctypes._NamedFuncPointer = function
    return typed


class Decompression:
    """One picture, decoded step by step: `start`, `crop`, `fill`, within a `with` block.

    It has a handle of its own, which takes a microsecond. A handle that had another picture keeps its tables, of which
    a file that lacks them would make use, and its failures.
    """

    def __init__(self, library: Library, data: bytes) -> None:
        self._library = library
        self._data = data
        self._handle: int | None = None

    def __enter__(self) -> Decompression:
        self._handle = self._library.init(_INIT_DECOMPRESS)
        if not self._handle:
            raise MemoryError("TurboJPEG could not make a decompressor")
        self._library.set(self._handle, _SCAN_LIMIT, MAX_SCANS)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._library.destroy(self._handle)

    def start(self, header: ImageHeader, reduce: int) -> None:
        """Reads the header. Raises DecodeError unless the library can decode it and sees the size that we do."""
        library, handle = self._library, self._handle
        if library.read_header(handle, self._data, len(self._data)):
            self._refuse_fatal()
        # It reports a fatal error after a warning as a warning; then it has no size.
        size = library.get(handle, _HEIGHT), library.get(handle, _WIDTH)
        if size != (header.height, header.width):  # or the library would write past the memory
            raise DecodeError(f"JPEG of {header.width} x {header.height} pixels is broken: {self._text()}")
        if reduce != 1:
            library.scale(handle, _Factor(1, reduce))

    def crop(self, box: Box | None, size: tuple[int, int]) -> Box:
        """Limits decoding to a box and what lies around it, if the library can; what will be decoded."""
        subsampling = self._library.get(self._handle, _SUBSAMPLING)
        if box is None or not 0 <= subsampling < len(_MCU_WIDTHS):
            return (0, 0, *size)
        # The alignment that it asks for in a reduced picture is a divisor of that in the whole.
        top, left, height, width = frame = around(box, size, _MCU_WIDTHS[subsampling])
        if self._library.crop(self._handle, _Region(left, top, width, height)):
            self._library.crop(self._handle, _WHOLE)
            return (0, 0, *size)
        return frame

    def fill(self, pixels: Array, color: Color) -> str | None:
        """Decodes into `pixels`; what the library complained about. Raises DecodeError if it had to give up."""
        address, stride = pixels.__array_interface__["data"][0], pixels.strides[0]
        size, pixel_format = len(self._data), PIXEL_FORMATS[color]
        if not self._library.decompress(self._handle, self._data, size, address, stride, pixel_format):
            return None
        self._refuse_fatal()
        text = self._text()
        return None if is_harmless(text, self._data) else text

    def _refuse_fatal(self) -> None:
        if self._library.error_code(self._handle) != _WARNING:
            raise DecodeError(f"JPEG is broken: {self._text()}")

    def _text(self) -> str:
        return str(self._library.error_text(self._handle).decode("ascii", "replace"))


def is_harmless(complaint: str, data: bytes) -> bool:
    """Whether a complaint of the library does not concern pixels."""
    before_end = _BEFORE_END.search(complaint)
    if before_end is None:
        return _HARMLESS.search(complaint) is not None
    end = data.rfind(b"\xff\xd9")
    left = data[max(0, end - int(before_end[1])) : end]
    return not left.strip(b"\0") or not left.strip(b"\xff")
