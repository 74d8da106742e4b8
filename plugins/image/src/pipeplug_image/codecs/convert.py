"""From the channels and the orientation that are stored to those that are wanted."""

from __future__ import annotations

import cv2
import numpy as np
from PIL import Image

from pipeplug import DecodeError
from pipeplug_image.codecs.header import Color
from pipeplug_image.kernels.convert import cast, grayscale
from pipeplug_image.kernels.opencv import Array

_FLIPS = {2: 1, 3: -1, 4: 0}


def to_color(pixels: Array, have: Color, want: Color) -> Array:
    """Pixels (height, width, channels) of `have` in the channels of `want`.

    Alpha is dropped, not blended; where it is wanted and missing it is opaque. Grey is 0.299 R + 0.587 G + 0.114 B,
    CMYK becomes RGB as in Pillow.
    """
    if have == want:
        return pixels
    if have == "CMYK":
        return to_color(_rgb_of_cmyk(pixels), "RGB", want)
    if want == "L":
        return pixels[:, :, :1] if have == "LA" else grayscale(pixels)
    if want == "RGB":
        return pixels[:, :, :3] if have == "RGBA" else cv2.merge([pixels[:, :, 0]] * 3)
    if have == "LA":
        return cv2.merge([pixels[:, :, 0]] * 3 + [pixels[:, :, 1]])
    planes = [pixels[:, :, 0]] * 3 if have == "L" else list(cv2.split(pixels))
    return cv2.merge([*planes, np.full_like(planes[0], _opaque(pixels))])


def _opaque(pixels: Array) -> float:
    return 1.0 if pixels.dtype.kind == "f" else float(np.iinfo(pixels.dtype).max)


def _rgb_of_cmyk(pixels: Array) -> Array:
    size = pixels.shape[1::-1]
    image = Image.frombuffer("CMYK", size, np.ascontiguousarray(pixels), "raw", "CMYK", 0, 1)
    return np.asarray(image.convert("RGB"))


def to_bytes(pixels: Array) -> Array:
    """Pixels as uint8: of uint16, v / 257 rounded. Raises DecodeError for a dtype that has no white."""
    if pixels.dtype == np.uint8:
        return pixels
    if pixels.dtype != np.uint16:
        raise DecodeError(f'the picture holds {pixels.dtype} of unknown range; decode it with dtype="unchanged"')
    return cast(pixels, "uint8", 1 / 257)


def averaged(pixels: Array, factor: int) -> Array:
    """The picture made smaller by a whole factor, sizes rounded up: means of blocks, as Pillow's `Image.reduce`."""
    if factor == 1:
        return pixels
    rows, columns = (np.arange(0, side, factor) for side in pixels.shape[:2])
    heights, widths = (
        np.diff(starts, append=side) for starts, side in zip((rows, columns), pixels.shape, strict=False)
    )
    sums = np.add.reduceat(np.add.reduceat(pixels.astype(np.float64), rows, axis=0), columns, axis=1)
    means = sums / np.outer(heights, widths)[:, :, None]
    averages: Array = (means if pixels.dtype.kind == "f" else np.floor(means + 0.5)).astype(pixels.dtype)
    return averages


def orient(pixels: Array, orientation: int, out: Array | None = None) -> Array:
    """The upright picture of one stored with an EXIF orientation, equal to Pillow's `exif_transpose`.

    `out` takes it, if given; else the result may be `pixels` itself.
    """
    turned = _oriented(pixels, orientation).reshape(*oriented_size(pixels, orientation), pixels.shape[2])
    if out is None:
        return turned
    np.copyto(out, turned)
    return out


def oriented_size(pixels: Array, orientation: int) -> tuple[int, int]:
    """Height and width of the upright picture."""
    height, width = pixels.shape[:2]
    return (width, height) if orientation > 4 else (height, width)


def _oriented(pixels: Array, orientation: int) -> Array:
    if orientation == 1:
        return pixels
    if orientation in _FLIPS:
        return cv2.flip(pixels, _FLIPS[orientation])
    if orientation == 6:
        return cv2.rotate(pixels, cv2.ROTATE_90_CLOCKWISE)
    if orientation == 8:
        return cv2.rotate(pixels, cv2.ROTATE_90_COUNTERCLOCKWISE)
    turned = cv2.transpose(pixels)
    return turned if orientation == 5 else cv2.flip(turned, -1)
