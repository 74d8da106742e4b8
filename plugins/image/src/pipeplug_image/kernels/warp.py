"""Rotation and affine maps.

OpenCV 5, which the plugin requires, interpolates at the exact place; OpenCV 4 rounds places to 1/32 pixel.
"""

from __future__ import annotations

from math import ceil, cos, radians, sin
from typing import TYPE_CHECKING, Literal, TypeAlias

import cv2
import numpy as np

from pipeplug import ArgumentError
from pipeplug_image.kernels.geometry import Border
from pipeplug_image.kernels.opencv import BORDERS, Array, Fill, channels_of, scalar, settle, target, white_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

WarpInterpolation: TypeAlias = Literal["nearest", "linear", "cubic"]

_FLAGS = {"nearest": cv2.INTER_NEAREST, "linear": cv2.INTER_LINEAR, "cubic": cv2.INTER_CUBIC}


def affine(
    image: Array,
    matrix: ArrayLike,
    *,
    size: tuple[int, int] | None = None,
    interpolation: WarpInterpolation = "linear",
    border: Border = "constant",
    fill: Fill = 0.0,
    out: Array | None = None,
) -> Array:
    """The image seen through an affine map of output to input places.

    `matrix` is 2x3: (x, y) of the input = matrix @ (x, y, 1) of the output, in pixels from the image's corner, so that
    pixel centres lie at + 0.5. `size` is the output's (height, width), by default the image's. Nothing is smoothed when
    the map shrinks. Cubic is OpenCV's (a = -0.75). Linear results are within 1 level of the exact ones in uint8, 10 in
    uint16, 1e-4 of white in float32.

    Raises ArgumentError when the matrix is not a finite 2x3 one.
    """
    white_of(image)
    channels = channels_of(image)
    height, width = image.shape[:2] if size is None else size
    shape = (height, width, *image.shape[2:])
    result = cv2.warpAffine(
        image,
        _between_centres(matrix),
        (width, height),
        dst=target(out, shape, image.dtype),
        flags=_FLAGS[interpolation] | cv2.WARP_INVERSE_MAP,
        borderMode=BORDERS[border],
        borderValue=scalar(fill, channels),
    )
    return settle(result, out, shape)


def rotate(
    image: Array,
    angle: float,
    *,
    expand: bool = False,
    size: tuple[int, int] | None = None,
    interpolation: WarpInterpolation = "linear",
    border: Border = "constant",
    fill: Fill = 0.0,
    out: Array | None = None,
) -> Array:
    """The image turned about its centre by `angle` degrees, counter-clockwise when positive.

    The output has the image's size, `size` (height, width) if given, or with `expand` the size that holds all of it.
    Quarter turns with `expand` are exact.
    """
    if size is None:
        size = rotated_size(image.shape, angle) if expand else (image.shape[0], image.shape[1])
    matrix = rotation_matrix(image.shape, angle, size)
    return affine(image, matrix, size=size, interpolation=interpolation, border=border, fill=fill, out=out)


def rotation_matrix(shape: tuple[int, ...], angle: float, size: tuple[int, int]) -> NDArray[np.float64]:
    """The 2x3 map of output to input places that `affine` takes, for a turn about the centre of both."""
    c, s = _cos_sin(angle)
    turn = np.array([[c, -s], [s, c]])
    centre, middle = np.array([shape[1], shape[0]]) / 2, np.array([size[1], size[0]]) / 2
    return np.column_stack((turn, centre - turn @ middle))


def rotated_size(shape: tuple[int, ...], angle: float) -> tuple[int, int]:
    """Height and width that hold an image of `shape` when it is turned by `angle` degrees."""
    c, s = (abs(value) for value in _cos_sin(angle))
    height, width = shape[:2]
    rounding = 1e-6  # so that a size which is whole but for the error of cos and sin does not grow
    return ceil(height * c + width * s - rounding), ceil(width * c + height * s - rounding)


def _cos_sin(angle: float) -> tuple[float, float]:
    quarters, rest = divmod(angle, 90.0)
    c, s = cos(radians(rest)), sin(radians(rest))
    return ((c, s), (-s, c), (-c, -s), (s, -c))[int(quarters) % 4]


def _between_centres(matrix: ArrayLike) -> NDArray[np.float64]:
    array = np.array(matrix, np.float64)
    if array.shape != (2, 3) or not np.isfinite(array).all():
        raise ArgumentError(f"an affine map is a finite 2x3 matrix, got {array.tolist()}")
    array[:, 2] += array[:, :2].sum(axis=1) / 2 - 0.5
    return array
