"""JPEG through TurboJPEG 3: whole pictures, parts, and reduced sizes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import NamedTuple

import numpy as np

from pipeplug import StateError
from pipeplug_image.codecs.exif import Box
from pipeplug_image.codecs.header import CHANNELS, Color, ImageHeader
from pipeplug_image.codecs.picture import Picture
from pipeplug_image.codecs.regions import around, cut
from pipeplug_image.codecs.tj3 import MAX_SCANS, PIXEL_FORMATS, Decompression, load
from pipeplug_image.kernels.opencv import Array
from pipeplug_image.native import library as compiled
from pipeplug_image.native.jpeg import PartDecoder, PartJob
from pipeplug_image.native.resample import Resampler

_PIECE = 1 << 20
"""Bytes of files after which a call of compiled code comes back, to see whether anybody still wants the results."""


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

    def job(self) -> PartJob:
        size = self.header.height, self.header.width
        frame = around(self.box, size, self.header.block_width)
        return PartJob(self.row, len(self.data), *size, *frame, *self.box, self.mirror_rows, self.mirror_columns)


class _Memory(threading.local):
    """A buffer a thread, which grows."""

    def __init__(self) -> None:
        self.buffer = np.empty(0, np.uint8)

    def take(self, shape: tuple[int, int, int]) -> Array:
        size = shape[0] * shape[1] * shape[2]
        if size > self.buffer.size:
            self.buffer = np.empty(size, np.uint8)
        return self.buffer[:size].reshape(shape)


class TurboJpeg:
    """Decodes JPEGs in any number of threads, with a buffer for each, until it is closed; threads may share it."""

    def __init__(self, path: str) -> None:
        self._library = load(path)
        self._memory: _Memory | None = _Memory()
        self._decode_part = None
        if compiled() is not None:
            self._decode_part = PartDecoder(self._library.addresses, MAX_SCANS)

    def __enter__(self) -> TurboJpeg:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the memory of all threads. Calling it again does nothing."""
        self._memory = None

    def _opened(self) -> _Memory:
        memory = self._memory
        if memory is None:
            raise StateError("this JPEG decoder is closed; decode within its `with` block")
        return memory

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
        memory = self._opened()
        if box is not None and borrow and reduce == 1:
            part = self._part(data, header, box, color, memory)
            if part is not None:
                return Picture(part, None)
        with Decompression(self._library, data) as picture:
            picture.start(header, reduce)
            frame = picture.crop(box, header.output_size(orient=False, reduce=reduce))
            shape = (frame[2], frame[3], CHANNELS[color])
            new = np.zeros if blank else np.empty
            pixels = out if out is not None else memory.take(shape) if borrow else new(shape, np.uint8)
            complaint = picture.fill(pixels, color)
        return Picture(pixels if box is None else cut(pixels, frame, box), complaint)

    def _part(self, data: bytes, header: ImageHeader, box: Box, color: Color, memory: _Memory) -> Array | None:
        """A box in one call of compiled code; None where there is none, and where something is out of the ordinary."""
        if self._decode_part is None or not header.block_width:
            return None
        size = header.height, header.width
        frame = around(box, size, header.block_width)
        pixels = memory.take((frame[2], frame[3], CHANNELS[color]))
        done = self._decode_part(data, size, frame, pixels, PIXEL_FORMATS[color])
        return cut(pixels, frame, box) if done else None

    def resample(
        self,
        parts: Sequence[JpegPart],
        color: Color,
        resampler: Resampler,
        size: tuple[int, int],
        out: Array,
        cancelled: Callable[[], bool],
    ) -> list[int]:
        """Decodes parts and resamples each to `size` (height, width) in its row of `out`; the rows that it left.

        A row is left when anything is out of the ordinary, a complaint of the library among them; all are where the
        kernels were not compiled, or when `cancelled` says that nobody wants them any more.
        """
        decode = self._decode_part
        if decode is None:
            return [part.row for part in parts]
        memory = self._opened()
        law, left = resampler.law(size, CHANNELS[color]), []
        for piece in _pieces(parts):
            if cancelled():
                left += [part.row for part in piece]
                continue
            jobs = [part.job() for part in piece]
            buffer = memory.take((1, max(job.frame_height * job.frame_width for job in jobs), law.channels))
            files, at = [part.data for part in piece], 0
            while at < len(piece):
                at += decode.resample(files[at:], jobs[at:], law, buffer, out, PIXEL_FORMATS[color])
                if at < len(piece):
                    left.append(piece[at].row)
                    at += 1
        return left


def _pieces(parts: Sequence[JpegPart]) -> Iterator[Sequence[JpegPart]]:
    start = size = 0
    for end, part in enumerate(parts, 1):
        size += len(part.data)
        if size >= _PIECE or end == len(parts):
            yield parts[start:end]
            start, size = end, 0
