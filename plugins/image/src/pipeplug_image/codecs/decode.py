"""Encoded pictures to arrays.

JPEG goes through TurboJPEG where it is installed, and through Pillow, to the same pixels, where it is not; all other
formats go through Pillow, or through OpenCV where Pillow would lose bits. Nothing here holds the GIL while it decodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray

from pipeplug import ArgumentError, DecodeError
from pipeplug_image.codecs import opencv, pillow
from pipeplug_image.codecs.convert import averaged, orient, to_bytes, to_color
from pipeplug_image.codecs.exif import Box, stored_box
from pipeplug_image.codecs.header import CHANNELS, MODE_COLORS, Color, ImageHeader
from pipeplug_image.codecs.options import DecodeOptions
from pipeplug_image.codecs.picture import Picture
from pipeplug_image.codecs.probe import find_cut, probe
from pipeplug_image.codecs.tj3 import find_library
from pipeplug_image.codecs.turbojpeg import JpegPart, TurboJpeg
from pipeplug_image.kernels.opencv import Array
from pipeplug_image.native.resample import Resampler

Encoded: TypeAlias = bytes | bytearray | memoryview | NDArray[np.uint8]
"""The content of a file; anything but bytes is copied once."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """A picture of which parts may be missing.

    Attributes:
        pixels: (height, width, channels); what is missing is black or grey.
        damage: what is missing or broken, None for a whole picture.
    """

    pixels: Array
    damage: str | None


DEFAULT = DecodeOptions()


class Decoder:
    """Decodes pictures in any number of threads, until it is closed.

    Threads may share it: it keeps what JPEG needs for each. `close` waits for nobody: call it when no thread decodes
    any more.

    Args:
        turbo: whether TurboJPEG is used where it is installed.
    """

    def __init__(self, *, turbo: bool = True) -> None:
        library = find_library() if turbo else None
        self._jpeg = None if library is None else TurboJpeg(library)

    def __enter__(self) -> Decoder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Gives back the memory of all threads. Calling it again does nothing."""
        if self._jpeg is not None:
            self._jpeg.close()

    def decode(
        self,
        data: Encoded,
        options: DecodeOptions = DEFAULT,
        *,
        header: ImageHeader | None = None,
        out: Array | None = None,
    ) -> Array:
        """The picture in `data`, (height, width, channels).

        Args:
            data: the file's content.
            options: the channels, the dtype, the size.
            header: what `probe` made of the data, if it is known already.
            out: an array of the result's shape and dtype that takes it.

        Raises:
            DecodeError: the data is empty, cut, broken, of an unknown format, or has more than `max_pixels`.
            ArgumentError: `out` does not fit.
        """
        data, header = _opened(data, header, options)
        _refuse_cut(data, header)
        _check_out(out, header, options)
        orientation = header.orientation if options.orient else 1
        direct = out if orientation == 1 and out is not None and _has_whole_pixels(out) else None
        pixels, complaint = self._stored(data, header, options, out=direct, borrow=orientation != 1)
        _refuse(complaint, header)
        if direct is not None and pixels is direct:
            return direct
        upright = orient(pixels, orientation, out)
        return upright if out is not None else _owned(upright)

    def recover(
        self, data: Encoded, options: DecodeOptions = DEFAULT, *, header: ImageHeader | None = None
    ) -> Recovered:
        """Like `decode`, but of a file that is cut or broken what there is.

        Raises DecodeError when nothing can be had: no whole header, or a format that is decoded wholly or not at all
        (WebP; PNG and TIFF with 16 bits in several channels).
        """
        data, header = _opened(data, header, options)
        cut = find_cut(data, header)
        pixels, complaint = self._stored(data, header, options, blank=True)
        upright = orient(pixels, header.orientation if options.orient else 1)
        return Recovered(_owned(upright), cut or complaint)

    def decode_region(
        self,
        data: Encoded,
        box: Box,
        options: DecodeOptions = DEFAULT,
        *,
        header: ImageHeader | None = None,
        borrow: bool = False,
    ) -> Array:
        """The part `box` of the picture that `decode` would return, bit for bit, (height, width, channels).

        Of a JPEG only what the part needs is decoded, when TurboJPEG is installed; damage elsewhere is not seen then,
        except that a file without its end is refused.

        Args:
            data: the file's content.
            box: y, x, height and width of the part, within the picture as it is returned: upright and reduced.
            options: the channels, the dtype, the size of the picture.
            header: what `probe` made of the data, if it is known already.
            borrow: whether the result may lie in memory that this thread's next call overwrites, which saves
                the time that the system takes to hand out new memory. Its rows may be apart.

        Raises:
            DecodeError: as in `decode`.
            ArgumentError: the box is empty or does not lie within the picture.
        """
        data, header = _opened(data, header, options)
        _check_box(box, *header.output_size(orient=options.orient, reduce=options.reduce))
        _refuse_cut(data, header)
        orientation = header.orientation if options.orient else 1
        part = stored_box(box, orientation, *header.output_size(orient=False, reduce=options.reduce))
        pixels, complaint = self._stored(data, header, options, box=part, borrow=borrow or orientation != 1)
        _refuse(complaint, header)
        return orient(pixels, orientation)

    def decode_part(
        self, data: bytes, box_of: Callable[[tuple[int, int, int]], Box], options: DecodeOptions = DEFAULT
    ) -> Array:
        """As `decode_region` with `borrow=True`, for a box that depends on the shape of the picture."""
        header = probe(data)
        header.check_size(options.max_pixels)
        if self._jpeg is None or not options.are_plain(header):
            return self.decode_region(data, box_of(options.shape(header)), options, header=header, borrow=True)
        # What training does most, without the steps that would change nothing.
        color = header.color_of(options.mode)
        box = box_of((header.height, header.width, CHANNELS[color]))
        _check_box(box, header.height, header.width)
        _refuse_cut(data, header)
        pixels, complaint = self._jpeg.read(data, header, color, box=box, borrow=True)
        _refuse(complaint, header)
        return pixels

    def resample_parts(
        self,
        files: Sequence[object],
        box_of: Callable[[int, tuple[int, int]], Box],
        options: DecodeOptions,
        resampler: Resampler,
        out: Array,
        size: tuple[int, int],
        mirrors: Sequence[tuple[bool, bool]],
        cancelled: Callable[[], bool],
    ) -> list[int]:
        """Decodes parts of JPEGs and resamples them into rows of a batch, in few calls of compiled code.

        Args:
            files: their contents.
            box_of: gives y, x, height and width of the part for a row and the height and width of its picture.
            options: the channels, which are not "unchanged".
            resampler: to the form that `out` has.
            out: the batch, a row a file.
            size: height and width of a result.
            mirrors: by row, whether rows and columns are mirrored.
            cancelled: says whether nobody wants the results any more.

        Returns the rows that it left, in order: of other formats, and those with which anything is wrong. They are to
        be decoded one by one, which says what.
        """
        if self._jpeg is None:
            return list(range(len(files)))
        parts, left = [], []
        for row, data in enumerate(files):
            header = _plain_header(data, options)
            if header is None:
                left.append(row)
            else:
                assert type(data) is bytes
                parts.append(JpegPart(row, data, header, box_of(row, (header.height, header.width)), *mirrors[row]))
        left += self._jpeg.resample(parts, MODE_COLORS[options.mode], resampler, size, out, cancelled)
        return sorted(left)

    def _stored(
        self,
        data: bytes,
        header: ImageHeader,
        options: DecodeOptions,
        *,
        box: Box | None = None,
        out: Array | None = None,
        borrow: bool = False,
        blank: bool = False,
    ) -> Picture:
        """The picture in the channels, the dtype and the size that are wanted, but in its stored orientation."""
        want = header.color_of(options.mode)
        scale = options.reduce if header.format == "JPEG" and min(header.height, header.width) >= options.reduce else 1
        if self._jpeg is None or header.format != "JPEG":
            pixels, complaint, have = _read(data, header, scale, want)
        else:
            have = "CMYK" if header.color == "CMYK" else want
            whole = scale != options.reduce
            pixels, complaint = self._jpeg.read(
                data,
                header,
                have,
                reduce=scale,
                box=None if whole else box,
                out=out if have == want and not whole else None,
                borrow=borrow,
                blank=blank,
            )
            if not whole:
                box = None
            if have == "CMYK":
                pixels = cv2.bitwise_not(pixels)  # Adobe's files say how much paper is left; Pillow says how much ink
        pixels = to_color(pixels, have, want)
        if options.dtype == "uint8":
            pixels = to_bytes(pixels)
        pixels = averaged(pixels, options.reduce // scale)
        return Picture(pixels if box is None else _part(pixels, box), complaint)


def decode(data: Encoded, options: DecodeOptions = DEFAULT, *, out: Array | None = None) -> Array:
    """One picture, with a decoder opened for it: see `Decoder.decode`."""
    with Decoder() as decoder:
        return decoder.decode(data, options, out=out)


def decode_region(data: Encoded, box: Box, options: DecodeOptions = DEFAULT) -> Array:
    """A part of one picture, with a decoder opened for it: see `Decoder.decode_region`."""
    with Decoder() as decoder:
        return decoder.decode_region(data, box, options)


def _opened(data: Encoded, header: ImageHeader | None, options: DecodeOptions) -> tuple[bytes, ImageHeader]:
    content = data.tobytes() if isinstance(data, np.ndarray) else data if type(data) is bytes else bytes(data)
    if header is None:
        header = probe(content)
    header.check_size(options.max_pixels)
    return content, header


def _read(data: bytes, header: ImageHeader, scale: int, want: Color) -> tuple[Array, str | None, Color]:
    if header.dtype == "uint16" and header.color != "L":
        return (*opencv.read(data, header), header.color)
    luma = header.format == "JPEG" and want == "L" and header.color != "CMYK"
    return (*pillow.read(data, header, reduce=scale, gray=luma), "L" if luma else header.color)


def _part(pixels: Array, box: Box) -> Array:
    y, x, height, width = box
    return pixels[y : y + height, x : x + width]


def _owned(pixels: Array) -> Array:
    # Pillow's arrays are views of bytes, which nobody may write to.
    return np.ascontiguousarray(pixels) if pixels.flags.writeable else pixels.copy()


def _plain_header(data: object, options: DecodeOptions) -> ImageHeader | None:
    """The header of a whole JPEG that TurboJPEG decodes as wanted; None of anything else."""
    if type(data) is not bytes:
        return None
    try:
        header = probe(data)
        header.check_size(options.max_pixels)
    except DecodeError:
        return None
    plain = options.are_plain(header) and header.block_width and find_cut(data, header) is None
    return header if plain else None


def _refuse_cut(data: bytes, header: ImageHeader) -> None:
    cut = find_cut(data, header)
    if cut is not None:
        raise DecodeError(f"{header.format} of {header.width} x {header.height} pixels is cut or damaged: {cut}")


def _refuse(complaint: str | None, header: ImageHeader) -> None:
    if complaint is not None:
        raise DecodeError(f"{header.format} of {header.width} x {header.height} pixels is broken: {complaint}")


def _check_box(box: Box, rows: int, columns: int) -> None:
    y, x, height, width = box
    if not (0 <= y < y + height <= rows and 0 <= x < x + width <= columns):
        raise ArgumentError(f"box (y, x, height, width) = {box} is not within the picture of {rows} x {columns} pixels")


def _check_out(out: Array | None, header: ImageHeader, options: DecodeOptions) -> None:
    if out is None:
        return
    shape, dtype = options.shape(header), options.dtype_of(header)
    if out.shape != shape or out.dtype != dtype:
        raise ArgumentError(f"the picture is {dtype} {shape}, but `out` is {out.dtype} {out.shape}")


def _has_whole_pixels(out: Array) -> bool:
    packed = out.strides[1:] == (out.shape[2], 1) and out.strides[0] >= out.shape[1] * out.shape[2]
    return packed and out.flags.writeable
