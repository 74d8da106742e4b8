"""Cropping, padding, flipping, and moving axes: pixels change place, never value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import cv2
import numpy as np

from pipeplug import ArgumentError
from pipeplug_image.kernels.convert import rounded
from pipeplug_image.kernels.opencv import (
    BORDERS,
    Array,
    Fill,
    channels_of,
    copied,
    per_channel,
    scalar,
    settle,
    target,
)

Box: TypeAlias = tuple[int, int, int, int]
"""y, x, height, width in pixels."""

Border: TypeAlias = Literal["constant", "edge", "reflect_101", "reflect_1001", "wrap"]


def crop(image: Array, box: Box, *, out: Array | None = None) -> Array:
    """A view of the part of the image inside `box`, or `out` with a copy of it.

    Raises ArgumentError when the box is empty or leaves the image.
    """
    y, x, height, width = inside(image.shape, box)
    return copied(image[y : y + height, x : x + width], out)


def inside(shape: tuple[int, ...], box: Box) -> Box:
    """The box. Raises ArgumentError when it is empty or leaves an image of `shape`."""
    y, x, height, width = box
    if min(y, x) < 0 or min(height, width) < 1 or y + height > shape[0] or x + width > shape[1]:
        raise ArgumentError(
            f"the box y={y}, x={x}, height={height}, width={width} is not inside the image "
            f"of height {shape[0]} and width {shape[1]}"
        )
    return box


def crop_anchor(size: Array | int, crop: Array | int, position: Array | float) -> Array:
    """Where a crop of length `crop` starts in `size` pixels: `position * (size - crop)`, halves rounded away from zero.

    `position` is 0 at the start, 0.5 centred, 1 at the end. Arrays broadcast; the result is int64.
    """
    offset = np.asarray(position, np.float64) * (np.asarray(size, np.int64) - np.asarray(crop, np.int64))
    whole = np.trunc(offset)
    anchor: Array = np.asarray(whole + np.copysign(np.abs(offset - whole) >= 0.5, offset)).astype(np.int64)
    return anchor


def anchored_box(shape: tuple[int, ...], size: tuple[int, int], position: tuple[float, float] = (0.5, 0.5)) -> Box:
    """The box of a crop of `size` (height, width) at `position` (y, x) of an image of `shape`: centred by default.

    Raises ArgumentError when the crop is larger than the image.
    """
    if size[0] > shape[0] or size[1] > shape[1]:
        raise ArgumentError(
            f"a crop of height {size[0]} and width {size[1]} does not fit into an image of height {shape[0]} "
            f"and width {shape[1]}: pad or resize the image first"
        )
    y, x = (int(crop_anchor(shape[axis], size[axis], position[axis])) for axis in (0, 1))
    return y, x, size[0], size[1]


def anchored_boxes(sizes: Array, size: tuple[int, int], position: Array | float = 0.5) -> Array:
    """What `anchored_box` gives, for many images at once: int64 (images, 4), all 0 where a crop does not fit.

    Args:
        sizes: height and width of each image, int64 (images, 2).
        size: height and width of the crops.
        position: (images, 2), or one number for all.
    """
    wanted = np.array(size, np.int64)
    return _fitting(sizes, crop_anchor(sizes, wanted, position), wanted)


def random_boxes(sizes: Array, size: tuple[int, int], place: Array) -> Array:
    """Boxes of `size` at uniform places, for two numbers in [0, 1) an image: int64 (images, 4), 0 where none fits."""
    wanted = np.array(size, np.int64)
    return _fitting(sizes, (place * (sizes - wanted + 1)).astype(np.int64), wanted)


def given_boxes(sizes: Array, boxes: Array) -> Array:
    """Boxes of numbers (images, 4) as they are, in int64; all 0 where one is no box of pixels inside its image."""
    ends = boxes[:, :2] + boxes[:, 2:]
    good = (boxes == np.trunc(boxes)) & (boxes >= (0, 0, 1, 1)) & np.tile(ends <= sizes, 2)
    return np.where(good.all(axis=1, keepdims=True), boxes, 0).astype(np.int64)


def placed_boxes(sizes: Array, size: tuple[int, int], positions: Array) -> Array:
    """As `anchored_boxes`, for positions (images, 2) that may be no numbers from 0 to 1: all 0 where they are not."""
    good = ((positions >= 0) & (positions <= 1)).all(axis=1, keepdims=True)
    return np.where(good, anchored_boxes(sizes, size, np.where(good, positions, 0)), 0)


def numbers_of(column: Sequence[object] | Array, rows: Array, count: int) -> Array:
    """Rows of a column of `count` numbers a sample, float64; NaN where the column holds something else."""
    try:
        numbers = np.asarray(column, np.float64)
    except (TypeError, ValueError):
        numbers = np.empty(0)
    return numbers[rows] if numbers.shape == (len(column), count) else np.full((len(rows), count), np.nan)


def _fitting(sizes: Array, starts: Array, wanted: Array) -> Array:
    boxes = np.concatenate((starts, np.broadcast_to(wanted, starts.shape)), axis=1)
    return np.where((sizes >= wanted).all(axis=1, keepdims=True), boxes, 0)


def pad(
    image: Array,
    margins: tuple[int, int, int, int],
    *,
    border: Border = "constant",
    fill: Fill = 0.0,
    out: Array | None = None,
) -> Array:
    """The image with `margins` (top, bottom, left, right) pixels around it.

    Borders follow `numpy.pad`: reflect_101 is its "reflect", reflect_1001 its "symmetric"; they bounce as often as they
    must. Raises ArgumentError for a negative margin.
    """
    top, bottom, left, right = margins
    if min(margins) < 0:
        raise ArgumentError(
            f"margins must not be negative, got top, bottom, left, right = {tuple(margins)}: crop instead"
        )
    channels = channels_of(image)
    shape = (image.shape[0] + top + bottom, image.shape[1] + left + right, *image.shape[2:])
    result = cv2.copyMakeBorder(
        image,
        top,
        bottom,
        left,
        right,
        BORDERS[border],
        dst=target(out, shape, image.dtype),
        value=scalar(fill, channels),
    )
    return settle(result, out, shape)


def flip(image: Array, *, horizontal: bool = False, vertical: bool = False, out: Array | None = None) -> Array:
    """The image mirrored left to right, upside down, or both; the image itself when neither."""
    if not (horizontal or vertical):
        return copied(image, out)
    code = -1 if horizontal and vertical else int(horizontal)
    return settle(cv2.flip(image, code, dst=target(out, image.shape, image.dtype)), out, image.shape)


def erase(image: Array, boxes: Array, fill: Fill = 0.0, *, out: Array | None = None) -> Array:
    """A copy of the image with `fill` inside the boxes, integer rows of y, x, height, width.

    What a box has outside the image counts for nothing. A fill that the dtype does not hold saturates.
    """
    values = rounded(np.array(per_channel(fill, channels_of(image), "fill")), image.dtype.name)
    result = copied(image, out) if out is not None else image.copy()
    for y, x, height, width in np.asarray(boxes, np.int64).reshape(-1, 4).tolist():
        part = result[max(y, 0) : max(y + height, 0), max(x, 0) : max(x + width, 0)]
        part[...] = values if image.ndim == 3 else values[0]
    return result


def transpose(image: Array, source: str, destination: str, *, out: Array | None = None) -> Array:
    """The array with its axes, named by the letters of `source` such as "HWC", in the order of `destination`.

    Without `out` the result is contiguous. Raises ArgumentError when the letters are not the same.
    """
    if sorted(source) != sorted(destination) or len(source) != image.ndim:
        raise ArgumentError(f"cannot bring shape {image.shape}, layout {source!r}, to layout {destination!r}")
    axes = [source.index(letter) for letter in destination]
    if destination == "CHW" and source == "HWC" and image.shape[2] <= 4:
        return _planes(image, out)
    moved = image.transpose(axes)
    if out is None:
        return np.ascontiguousarray(moved)
    return copied(moved, out)


def _planes(image: Array, out: Array | None) -> Array:
    shape = (image.shape[2], *image.shape[:2])
    planes = np.empty(shape, image.dtype) if out is None else out
    direct = target(planes, shape, image.dtype)
    results = cv2.split(image, None if direct is None else list(direct))
    for plane, result in zip(planes, results, strict=True):
        settle(result, plane, plane.shape)
    return planes
