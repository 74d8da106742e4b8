"""Pictures through OpenCV: 16 bits a channel with more than one channel, which Pillow cuts to 8 bits."""

from __future__ import annotations

import threading

import cv2
import numpy as np

from pipeplug import DecodeError
from pipeplug_image.codecs.formats import png
from pipeplug_image.codecs.header import ImageHeader
from pipeplug_image.codecs.picture import Picture
from pipeplug_image.kernels.opencv import Array

_LOG = threading.Lock()
"""OpenCV has one log level for the whole process: who silences it does so alone."""

_SILENT = 0


def read(data: bytes, header: ImageHeader) -> Picture:
    """The stored picture (PNG or TIFF) in the channels that the header names, without regard to orientation.

    Raises DecodeError when it is cut or broken; nothing can be had of it then.
    """
    if header.format == "PNG":
        png.check_pixels(data, header)  # libpng would print what is wrong, and OpenCV not say that anything is
        pixels = _decode(data)
    else:
        with _LOG:
            level = cv2.utils.logging.getLogLevel()
            cv2.utils.logging.setLogLevel(_SILENT)
            try:
                pixels = _decode(data)
            finally:
                cv2.utils.logging.setLogLevel(level)
    if pixels is None or pixels.dtype != header.dtype or pixels.shape[:2] != (header.height, header.width):
        raise DecodeError(f"{header.format} is broken: OpenCV cannot decode it as its header says")
    return Picture(_channels(pixels, header), None)


def _decode(data: bytes) -> Array | None:
    try:
        decoded: Array | None = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    except cv2.error:
        return None
    return decoded


def _channels(pixels: Array, header: ImageHeader) -> Array:
    pixels = pixels.reshape(*pixels.shape[:2], -1)
    given = pixels.shape[2]
    if header.color == "LA" and given == 4:
        return np.ascontiguousarray(pixels[:, :, ::3])
    if given < header.channels or given < 3:
        raise DecodeError(
            f"{header.format} with {header.color} of {header.dtype} cannot be decoded: OpenCV gives {given} channels"
        )
    rgb = cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB if given == 3 else cv2.COLOR_BGRA2RGBA)
    return rgb[:, :, : header.channels]  # a fourth channel that the header calls no alpha is dropped
