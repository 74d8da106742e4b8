"""Pictures through Pillow: every format, and JPEG where TurboJPEG is missing."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
from PIL.BmpImagePlugin import BmpImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.TiffImagePlugin import TiffImageFile
from PIL.WebPImagePlugin import WebPImageFile

from pipeplug import DecodeError
from pipeplug_image.codecs.convert import orient
from pipeplug_image.codecs.exif import inverse
from pipeplug_image.codecs.header import ImageHeader
from pipeplug_image.codecs.picture import Picture
from pipeplug_image.kernels.opencv import Array

if TYPE_CHECKING:
    from PIL import Image
    from PIL.ImageFile import ImageFile

# `Image.open` would try every format, and apply its own limit on pixels, which is one for the whole process.
_FILES: dict[str, type[ImageFile]] = {
    "JPEG": JpegImageFile,
    "PNG": PngImageFile,
    "WebP": WebPImageFile,
    "TIFF": TiffImageFile,
    "BMP": BmpImageFile,
    "GIF": GifImageFile,
}


def read(data: bytes, header: ImageHeader, *, reduce: int = 1, gray: bool = False) -> Picture:
    """The stored picture in the channels that the header names, without regard to orientation.

    A picture that is cut or broken is returned as far as it could be decoded, with a complaint; what is missing is
    black.

    Args:
        data: the file.
        header: what `probe` made of it.
        reduce: 1, 2, 4 or 8, for JPEG only; no side may be smaller.
        gray: whether a JPEG is decoded to its luma alone, which changes the channels to "L".

    Raises:
        DecodeError: nothing could be decoded.
    """
    # Pillow's readers raise a dozen kinds of exceptions for broken data, from struct.error to SyntaxError.
    complaint = None
    try:
        image = _FILES[header.format](io.BytesIO(data))
        color = _draft(image, header, reduce, gray) if header.format == "JPEG" else header.color
        complaint = _load(image)
        pixels = _pixels(image, color)
    except MemoryError:
        raise
    except Exception as error:
        raise DecodeError(f"{header.format} is broken: {complaint or _text(error)}") from None
    if header.format == "TIFF" and complaint is None:
        pixels = orient(pixels, inverse(header.orientation))  # Pillow has turned it while loading
    if pixels.shape[:2] != header.output_size(orient=False, reduce=reduce):
        raise DecodeError(
            f"{header.format} is broken: its header says {header.height} x {header.width}, "
            f"and its picture has {pixels.shape[0]} x {pixels.shape[1]}"
        )
    return Picture(pixels, complaint)


def _draft(image: ImageFile, header: ImageHeader, reduce: int, gray: bool) -> str:
    luma = gray and header.color != "CMYK"
    size = (header.width // reduce, header.height // reduce)
    image.draft("L" if luma else None, size)
    return "L" if luma else header.color


def _load(image: ImageFile) -> str | None:
    try:
        image.load()
    except MemoryError:
        raise
    except Exception as error:
        image.tile = []  # nothing is left to load, so Pillow gives what it has
        return _text(error)
    return None


def _pixels(image: Image.Image, color: str) -> Array:
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        pixels = np.asarray(image)
        return pixels.astype(pixels.dtype.newbyteorder("="), copy=False)[:, :, None]
    if image.mode == "1" and color != "L":
        image = image.convert("L")
    if image.mode != color:
        image = image.convert(color)
    pixels = np.asarray(image)
    return pixels.reshape(*pixels.shape[:2], -1)


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__
