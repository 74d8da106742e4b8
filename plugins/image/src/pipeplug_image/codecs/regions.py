"""What must be decoded of a JPEG for a part of it."""

from __future__ import annotations

from pipeplug_image.codecs.exif import Box
from pipeplug_image.kernels.opencv import Array

_MARGIN = 1
"""Pixels around a part that must be decoded so that smooth upsampling of its colours sees its neighbours."""


def around(box: Box, size: tuple[int, int], align: int) -> Box:
    """The frame to decode for a box of a picture of `size` (height, width); its left edge is a multiple of `align`."""
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


def cut(pixels: Array, frame: Box, box: Box) -> Array:
    """The box of a picture of which the frame around it is there."""
    y, x = box[0] - frame[0], box[1] - frame[1]
    return pixels[y : y + box[2], x : x + box[3]]
