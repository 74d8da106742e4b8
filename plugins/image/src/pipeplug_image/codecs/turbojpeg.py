"""JPEG through TurboJPEG 3 (libjpeg-turbo), called with ctypes: whole pictures, parts, and reduced sizes.

The library is optional. `find_library` says where one is; nothing else of the carrier is imported or run.
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import numpy as np

from pipeplug import DecodeError, StateError
from pipeplug_image.codecs.exif import Box
from pipeplug_image.codecs.header import CHANNELS, Color, ImageHeader
from pipeplug_image.codecs.picture import Picture
from pipeplug_image.kernels.opencv import Array
from pipeplug_image.native import library as compiled
from pipeplug_image.native.jpeg import PartDecoder
from pipeplug_image.native.jpeg import Picture as PartJob
from pipeplug_image.native.resample import Law, Resampler

# Values of turbojpeg.h, version 3.
_INIT_DECOMPRESS = 1
_SUBSAMPLING, _WIDTH, _HEIGHT, _SCAN_LIMIT = 4, 5, 6, 13
_PIXEL_FORMATS: dict[Color, int] = {"RGB": 0, "L": 6, "RGBA": 7, "CMYK": 11}
_MCU_WIDTHS = (8, 16, 16, 8, 8, 32, 8)  # of 4:4:4, 4:2:2, 4:2:0, grey, 4:4:0, 4:1:1, 4:4:1
_WARNING = 0

_MAX_SCANS = 500
"""A progressive file of a few kB can hold so many scans that decoding takes minutes; cameras write about ten."""

_MARGIN = 1
"""Pixels around a part that must be decoded so that smooth upsampling of its colours sees its neighbours."""

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


class _Library:
    """The functions of the library. Those that take microseconds keep the GIL: giving it up would cost more."""

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
        self.addresses = [_address(each) for each in (self.read_header, self.get, self.crop, self.decompress)]


@cache
def _loaded(path: str) -> _Library:
    return _Library(path)  # it stays loaded until the process ends, whoever asks


def _typed(function: ctypes._NamedFuncPointer, result: object, *arguments: object) -> ctypes._NamedFuncPointer:
    function.restype = result  # type: ignore[assignment]
    function.argtypes = arguments  # type: ignore[assignment]
    return function


def _address(function: ctypes._NamedFuncPointer) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


class JpegPart(NamedTuple):
    """A part of a JPEG, and what becomes of it.

    Attributes:
        row: of the batch, where the result goes.
        header: what `probe` made of the data.
        box: y, x, height and width of the part.
        mirror_rows, mirror_columns: whether it is turned upside down, or left to right.
    """

    row: int
    data: bytes
    header: ImageHeader
    box: Box
    mirror_rows: bool
    mirror_columns: bool


class TurboJpeg:
    """Decodes JPEGs in any number of threads, with a decompressor and a buffer for each, until it is closed.

    Threads may share it. `close` waits for nobody: call it when no thread decodes any more.
    """

    def __init__(self, path: str) -> None:
        self._library = _loaded(path)
        self._thread = threading.local()
        self._lock = threading.Lock()
        self._owned: dict[threading.Thread, _Decompressor] = {}
        self._closed = False

    def __enter__(self) -> TurboJpeg:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Gives back the memory of all threads. Calling it again does nothing."""
        with self._lock:
            self._closed = True
            while self._owned:
                self._owned.popitem()[1].close()

    def read(
        self,
        data: bytes,
        header: ImageHeader,
        color: Color,
        *,
        reduce: int = 1,
        box: Box | None = None,
        out: Array | None = None,
        borrow: bool = False,
        blank: bool = False,
    ) -> Picture:
        """The stored picture, or the part `box` of it, without regard to orientation.

        A part is exactly what the whole picture has there.

        Args:
            data: the file.
            header: what `probe` made of it.
            color: the channels wanted: "L", "RGB", "RGBA", or "CMYK" of a CMYK file, in the polarity stored.
            reduce: 1, 2, 4 or 8; sizes are rounded up.
            box: y, x, height and width of the part, within the reduced picture.
            out: where the whole picture goes: rows may be apart, pixels may not.
            borrow: whether the result may lie in memory that this thread's next call overwrites.
            blank: whether new memory is black first, so that what is missing is not what another picture left there.

        Raises:
            DecodeError: the data is no JPEG that the library can decode. What is decoded with a mere warning is
                returned with a complaint, unless the warning is harmless.
        """
        own = self._own()
        if box is not None and borrow and reduce == 1:
            part = own.part(data, header, box, color)
            if part is not None:
                return Picture(part, None)
        own.start(data, header, reduce)
        frame = own.crop(box, header.output_size(orient=False, reduce=reduce))
        shape = (*frame[2:], 1 if color == "L" else len(color))
        new = np.zeros if blank else np.empty
        pixels = out if out is not None else own.buffer(shape) if borrow else new(shape, np.uint8)
        complaint = own.fill(data, pixels, _PIXEL_FORMATS[color])
        return Picture(pixels if box is None else _cut(pixels, frame, box), complaint)

    def resample(
        self, parts: Sequence[JpegPart], color: Color, resampler: Resampler, size: tuple[int, int], out: Array
    ) -> list[int]:
        """Decodes parts and resamples each to `size` (height, width) in its row of `out`; the rows that it left.

        A row is left when anything is out of the ordinary, a complaint of the library among them; all are where the
        kernels were not compiled.
        """
        if compiled() is None or not parts:
            return [part.row for part in parts]
        channels = CHANNELS[color]
        return self._own().resample(parts, resampler.law(size, channels), channels, _PIXEL_FORMATS[color], out)

    def _own(self) -> _Decompressor:
        own: _Decompressor | None = getattr(self._thread, "own", None)
        if own is None or self._closed:
            own = self._thread.own = self._add()
        return own

    def _add(self) -> _Decompressor:
        with self._lock:
            if self._closed:
                raise StateError("this JPEG decoder is closed; decode within its `with` block")
            # Every epoch has threads of its own: what those of earlier ones left is used on.
            gone = next((thread for thread in self._owned if not thread.is_alive()), None)
            own = _Decompressor(self._library) if gone is None else self._owned.pop(gone)
            self._owned[threading.current_thread()] = own
            return own


def _is_harmless(complaint: str, data: bytes) -> bool:
    """Whether a complaint of the library does not concern pixels."""
    before_end = _BEFORE_END.search(complaint)
    if before_end is None:
        return _HARMLESS.search(complaint) is not None
    end = data.rfind(b"\xff\xd9")
    left = data[max(0, end - int(before_end[1])) : end]
    return not left.strip(b"\0") or not left.strip(b"\xff")


def _job_of(part: JpegPart) -> PartJob:
    header, box = part.header, part.box
    size = header.height, header.width
    frame = _around(box, size, header.block_width)
    return PartJob(part.row, len(part.data), *size, *frame, *box, part.mirror_rows, part.mirror_columns)


def _cut(pixels: Array, frame: Box, box: Box) -> Array:
    """The box of a picture of which the frame around it is there."""
    y, x = box[0] - frame[0], box[1] - frame[1]
    return pixels[y : y + box[2], x : x + box[3]]


def _around(box: Box, size: tuple[int, int], align: int) -> Box:
    """What must be decoded for a box, whose left edge lies at a multiple of `align`."""
    top, bottom = max(0, box[0] - _MARGIN), min(size[0], box[0] + box[2] + _MARGIN)
    left, right = _columns(box[1], box[1] + box[3], size[1], align)
    return top, left, bottom - top, right - left


def _columns(start: int, end: int, width: int, align: int) -> tuple[int, int]:
    """The columns to decode for those from `start` to `end`: a whole block at least, or all there are.

    The library does not smooth the colours of a part that is a few pixels wide, as it would those of the whole.
    """
    left, right = max(0, start - _MARGIN) // align * align, min(width, end + _MARGIN)
    right = min(width, max(right, left + align))
    return (left, right) if right - left >= align else (max(0, left - align), right)


class _Decompressor:
    """A handle of the library, which one thread uses, and a buffer that grows.

    The library leaves a handle on which anything failed in the middle of that picture, and the next one would fail
    too: a handle is given up with its first complaint.
    """

    def __init__(self, library: _Library) -> None:
        self._library = library
        self._handle: int | None = None
        self._reduce = 1
        self._cropped = False
        self._buffer = np.empty(0, np.uint8)
        self._decode_part = None if compiled() is None else PartDecoder(library.addresses)

    def close(self) -> None:
        self._give_up()
        self._buffer = np.empty(0, np.uint8)

    def buffer(self, shape: tuple[int, int, int]) -> Array:
        size = shape[0] * shape[1] * shape[2]
        if size > self._buffer.size:
            self._buffer = np.empty(size, np.uint8)
        return self._buffer[:size].reshape(shape)

    def part(self, data: bytes, header: ImageHeader, box: Box, color: Color) -> Array | None:
        """A box in one call of compiled code; None where there is none, and where something is out of the ordinary."""
        if self._decode_part is None or self._reduce != 1 or not header.block_width:
            return None
        size = header.height, header.width
        frame = _around(box, size, header.block_width)
        pixels = self.buffer((frame[2], frame[3], 1 if color == "L" else len(color)))
        self._cropped = True
        if self._decode_part(self._opened(), data, size, frame, pixels, _PIXEL_FORMATS[color]):
            return _cut(pixels, frame, box)
        self._give_up()
        return None

    def resample(self, parts: Sequence[JpegPart], law: Law, channels: int, pixel_format: int, out: Array) -> list[int]:
        """Takes parts through the compiled kernel; the rows that it left."""
        if self._decode_part is None or self._reduce != 1:
            return [part.row for part in parts]
        pictures = [_job_of(part) for part in parts]
        buffer = self.buffer((1, max(each.frame_height * each.frame_width for each in pictures), channels))
        files = [part.data for part in parts]
        self._cropped = True
        left, at = [], 0
        while at < len(parts):
            at += self._decode_part.resample(self._opened(), files[at:], pictures[at:], law, buffer, out, pixel_format)
            if at < len(parts):
                self._give_up()
                left.append(parts[at].row)
                at += 1
        return left

    def start(self, data: bytes, header: ImageHeader, reduce: int) -> None:
        """Reads the header. Raises DecodeError unless the library can decode it and sees the size that we do."""
        library = self._library
        handle = self._opened()
        if library.read_header(handle, data, len(data)):
            self._refuse_fatal()
            # The library reports a fatal error after a warning as a warning. A new handle has no size of an earlier
            # picture, so that the next check finds it out.
            self._give_up()
            handle = self._opened()
            library.read_header(handle, data, len(data))
        size = library.get(handle, _HEIGHT), library.get(handle, _WIDTH)
        if size != (header.height, header.width):  # or the library would write past the buffer
            text = self._text()
            self._give_up()
            raise DecodeError(f"JPEG of {header.width} x {header.height} pixels is broken: {text}")
        if reduce != self._reduce:
            library.scale(handle, _Factor(1, reduce))
            self._reduce = reduce

    def crop(self, box: Box | None, size: tuple[int, int]) -> Box:
        """Limits decoding to a box and what lies around it, if the library can; what will be decoded."""
        subsampling = self._library.get(self._handle, _SUBSAMPLING)
        if box is None or not 0 <= subsampling < len(_MCU_WIDTHS):
            return self._uncropped(size)
        # The alignment that it asks for in a reduced picture is a divisor of that in the whole.
        top, left, height, width = frame = _around(box, size, _MCU_WIDTHS[subsampling])
        self._cropped = True
        if self._library.crop(self._handle, _Region(left, top, width, height)):
            return self._uncropped(size)
        return frame

    def _uncropped(self, size: tuple[int, int]) -> Box:
        if self._cropped:  # by the picture before
            self._library.crop(self._handle, _WHOLE)
            self._cropped = False
        return (0, 0, *size)

    def fill(self, data: bytes, pixels: Array, pixel_format: int) -> str | None:
        """Decodes into `pixels`; what the library complained about. Raises DecodeError if it had to give up."""
        address = pixels.__array_interface__["data"][0]
        if not self._library.decompress(self._handle, data, len(data), address, pixels.strides[0], pixel_format):
            return None
        self._refuse_fatal()
        text = self._text()
        self._give_up()
        return None if _is_harmless(text, data) else text

    def _opened(self) -> int:
        if self._handle is None:
            self._handle = self._library.init(_INIT_DECOMPRESS)
            if not self._handle:
                raise MemoryError("TurboJPEG could not make a decompressor")
            self._library.set(self._handle, _SCAN_LIMIT, _MAX_SCANS)
            self._reduce, self._cropped = 1, False
        return self._handle

    def _give_up(self) -> None:
        if self._handle is not None:
            self._library.destroy(self._handle)
            self._handle = None

    def _refuse_fatal(self) -> None:
        if self._library.error_code(self._handle) != _WARNING:
            text = self._text()
            self._give_up()
            raise DecodeError(f"JPEG is broken: {text}")

    def _text(self) -> str:
        return str(self._library.error_text(self._handle).decode("ascii", "replace"))
