"""Resizing.

Output pixel o lies at `start + (o + 0.5) * scale - 0.5` of the source. The definitions are Pillow's
(`reducing_gap=None`); OpenCV and our compiled kernel compute what they compute equally and faster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import isfinite
from typing import TYPE_CHECKING, Literal, TypeAlias

import cv2
import numpy as np
from PIL import Image

from pipeplug import ArgumentError
from pipeplug_image.kernels.convert import cast
from pipeplug_image.kernels.opencv import Array, channels_of, copied, settle, target, white_of
from pipeplug_image.native import library
from pipeplug_image.native.resample import Resampler, takes

if TYPE_CHECKING:
    from numpy.typing import NDArray

Interpolation: TypeAlias = Literal["nearest", "linear", "cubic", "lanczos"]
Region: TypeAlias = tuple[float, float, float, float]
"""y, x, height, width in pixels, fractions allowed."""

_FILTERS = {"linear": Image.Resampling.BILINEAR, "cubic": Image.Resampling.BICUBIC, "lanczos": Image.Resampling.LANCZOS}


@dataclass(frozen=True, slots=True)
class _Grid:
    """Places of `count` output pixels along one axis that has `length` source pixels."""

    start: float
    scale: float
    count: int
    length: int

    def places(self) -> NDArray[np.float64]:
        return self.start + np.arange(0.5, self.count, dtype=np.float64) * self.scale - 0.5


def resize(
    image: Array,
    size: tuple[int, int],
    *,
    interpolation: Interpolation = "linear",
    antialias: bool = True,
    box: Region | None = None,
    out: Array | None = None,
) -> Array:
    """The image, or the region `box` of it, at `size` (height, width).

    Near the edge of a box the pixels around it count, as with Pillow; crop first where they must not. Channels are
    independent: no alpha is multiplied. Takes uint8, uint16 and float32.

    * nearest: Pillow's pixel, always.
    * linear, not antialiased: within 1 level of OpenCV's INTER_LINEAR and of the exact value.
    * linear, cubic (a = -0.5), lanczos (3 lobes), antialiased, or not shrinking: within 1 level of Pillow. Antialiasing
      stretches the kernel by max(1, scale).
    * cubic and lanczos, not antialiased: the same kernels, unstretched.

    Raises ArgumentError when the box is empty or leaves the image, or the size is not positive.
    """
    shape = (*size, *image.shape[2:])
    direct = target(out, shape, image.dtype)
    if box is None and interpolation == "linear" and (not antialias or _enlarges(image, size)):
        return settle(_stretched(image, size, direct), out, shape)
    rows, columns = _grids(image, size, box)
    if rows == _identity(rows) and columns == _identity(columns):
        return copied(image, out)
    if interpolation == "nearest":
        return settle(_nearest(image, rows, columns, direct), out, shape)
    if interpolation == "linear":
        if not antialias or max(rows.scale, columns.scale) <= 1:
            return settle(_linear(image, rows, columns, direct), out, shape)
        compiled = _antialiased() if takes(image) else None
        if compiled is not None:
            result = direct if direct is not None else np.empty(shape, np.uint8)
            compiled(image, result, size, (rows.start, rows.scale), (columns.start, columns.scale))
            return settle(result, out, shape)
    if not antialias:
        return settle(_unstretched(image, rows, columns, interpolation), out, shape)
    return settle(_pillow(image, rows, columns, interpolation), out, shape)


@cache
def _antialiased() -> Resampler | None:
    return None if library() is None else Resampler(antialias=True)


def _enlarges(image: Array, size: tuple[int, int]) -> bool:
    return bool(size[0] >= image.shape[0] and size[1] >= image.shape[1])


def _stretched(image: Array, size: tuple[int, int], out: Array | None) -> Array:
    """The whole image at another size, linearly: what loaders do most, so no grid is made for it."""
    _check(image, size)
    return cv2.resize(image, (size[1], size[0]), dst=out, interpolation=cv2.INTER_LINEAR)


def _check(image: Array, size: tuple[int, int]) -> None:
    channels_of(image)
    white_of(image)
    if min(size) < 1:
        raise ArgumentError(f"cannot resize to height {size[0]} and width {size[1]}: both must be at least 1")


def _grids(image: Array, size: tuple[int, int], box: Region | None) -> tuple[_Grid, _Grid]:
    _check(image, size)
    height, width = image.shape[:2]
    y, x, box_height, box_width = (0, 0, height, width) if box is None else box
    inside = y >= 0 and x >= 0 and y + box_height <= height and x + box_width <= width
    if not (inside and box_height > 0 and box_width > 0 and isfinite(y + x)):
        raise ArgumentError(
            f"the box y={y}, x={x}, height={box_height}, width={box_width} is not inside the image "
            f"of height {height} and width {width}"
        )
    return _Grid(y, box_height / size[0], size[0], height), _Grid(x, box_width / size[1], size[1], width)


def _identity(grid: _Grid) -> _Grid:
    return _Grid(0, 1, grid.length, grid.length)


def _nearest(image: Array, rows: _Grid, columns: _Grid, out: Array | None) -> Array:
    picked = image.take(_pillow_nearest(rows), axis=0)
    return picked.take(_pillow_nearest(columns), axis=1, out=out, mode="clip")


def _pillow_nearest(grid: _Grid) -> NDArray[np.int64]:
    # Pillow adds the scale once a pixel; where a place falls on the border of two pixels its rounding decides.
    steps = np.full(grid.count, grid.scale)
    steps[0] = grid.start + grid.scale * 0.5
    places = np.add.accumulate(steps).astype(np.int64)
    clipped: NDArray[np.int64] = np.minimum(places, grid.length - 1)
    return clipped


def _linear(image: Array, rows: _Grid, columns: _Grid, out: Array | None) -> Array:
    ends = [_whole_span(grid) for grid in (rows, columns)]
    if ends[0] is not None and ends[1] is not None:
        part = image[slice(*ends[0]), slice(*ends[1])]
        return cv2.resize(part, (columns.count, rows.count), dst=out, interpolation=cv2.INTER_LINEAR)
    matrix = np.array([[columns.scale, 0, columns.places()[0]], [0, rows.scale, rows.places()[0]]])
    return cv2.warpAffine(
        image,
        matrix,
        (columns.count, rows.count),
        dst=out,
        flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
        borderMode=cv2.BORDER_REPLICATE,
    )


def _whole_span(grid: _Grid) -> tuple[int, int] | None:
    """The span of source pixels, if it is whole and no output pixel looks beyond it."""
    start, end = grid.start, grid.start + grid.scale * grid.count
    if start != round(start) or abs(end - round(end)) > 1e-9 * grid.length:
        return None
    span = round(start), round(end)
    return span if grid.scale >= 1 or span == (0, grid.length) else None


def _pillow(image: Array, rows: _Grid, columns: _Grid, interpolation: Interpolation) -> Array:
    box = (
        columns.start,
        rows.start,
        min(columns.start + columns.scale * columns.count, columns.length),
        min(rows.start + rows.scale * rows.count, rows.length),
    )

    def one(plane: Array, mode: str) -> Array:
        picture = _picture(plane, mode)
        return np.asarray(picture.resize((columns.count, rows.count), _FILTERS[interpolation], box))

    channels = channels_of(image)
    if image.dtype == np.uint8:
        return one(image, {1: "L", 3: "RGB", 4: "CMYK"}[channels])
    planes = [one(cast(plane, "float32"), "F") for plane in cv2.split(image)]
    return cast(cv2.merge(planes), image.dtype.name)


def _picture(plane: Array, mode: str) -> Image.Image:
    # "CMYK" for four channels, because Pillow multiplies "RGBA" by its alpha.
    height, width = plane.shape[:2]
    return Image.frombuffer(mode, (width, height), np.ascontiguousarray(plane), "raw", mode, 0, 1)


def _unstretched(image: Array, rows: _Grid, columns: _Grid, interpolation: Interpolation) -> Array:
    pixels = cast(image, "float32")
    tall = _weighted(pixels, rows, interpolation)
    wide = _weighted(np.ascontiguousarray(tall.swapaxes(0, 1)), columns, interpolation)
    return cast(np.ascontiguousarray(wide.swapaxes(0, 1)), image.dtype.name)


def _weighted(pixels: Array, grid: _Grid, interpolation: Interpolation) -> Array:
    """The lines of `pixels` resampled along axis 0; weights outside the image are left out, the others normalised."""
    kernel, radius = _KERNELS[interpolation]
    places = grid.places()
    taps = np.floor(places).astype(np.int64)[:, None] + np.arange(1 - radius, radius + 1)
    weights = kernel(np.abs(places[:, None] - taps)) * ((taps >= 0) & (taps < grid.length))
    weights = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
    taps = taps.clip(0, grid.length - 1)
    total = np.zeros((grid.count, *pixels.shape[1:]), np.float32)
    for tap, weight in zip(taps.T, weights.T, strict=True):
        total += pixels.take(tap, axis=0) * weight.reshape(-1, *[1] * (pixels.ndim - 1))
    return total


def _cubic(distance: NDArray[np.float64]) -> NDArray[np.float64]:
    near = (1.5 * distance - 2.5) * distance**2 + 1
    far = -0.5 * (((distance - 5) * distance + 8) * distance - 4)
    return np.where(distance < 1, near, np.where(distance < 2, far, 0.0))


def _lanczos(distance: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(distance < 3, np.sinc(distance) * np.sinc(distance / 3), 0.0)


_KERNELS: dict[str, tuple[Callable[[NDArray[np.float64]], NDArray[np.float64]], int]] = {
    "cubic": (_cubic, 2),
    "lanczos": (_lanczos, 3),
}
