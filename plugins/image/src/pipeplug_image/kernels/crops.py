"""The boxes of random resized crops."""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]

TRIES = 10
"""How many sizes are tried before the central one is taken."""


def random_resized_crop_box(
    shape: tuple[int, ...],
    tries: Iterable[tuple[float, float]],
    place: tuple[float, float],
    ratio: tuple[float, float],
) -> tuple[int, int, int, int]:
    """y, x, height and width by the law of torchvision's `RandomResizedCrop`.

    The first try that fits into the image is taken, at a uniform place; if none fits, the largest central box whose
    ratio is inside the bounds. Only operations that IEEE 754 rounds exactly: the box is the same on every processor.

    Args:
        shape: of the image, height and width first.
        tries: areas, as shares of the image's, and width / height.
        place: two numbers in [0, 1) for y and x.
        ratio: bounds of width / height.
    """
    rows, columns = shape[:2]
    pixels = rows * columns
    for share, aspect in tries:
        area = pixels * share
        height, width = round(sqrt(area / aspect)), round(sqrt(area * aspect))
        if 0 < height <= rows and 0 < width <= columns:
            return int(place[0] * (rows - height + 1)), int(place[1] * (columns - width + 1)), height, width
    return _central(rows, columns, ratio)


def _central(rows: int, columns: int, ratio: tuple[float, float]) -> tuple[int, int, int, int]:
    height, width = rows, columns
    if columns / rows < ratio[0]:
        height = max(1, round(columns / ratio[0]))
    elif columns / rows > ratio[1]:
        width = max(1, round(rows * ratio[1]))
    return (rows - height) // 2, (columns - width) // 2, height, width


def random_resized_crop_boxes(sizes: Array, tries: Array, place: Array, ratio: tuple[float, float]) -> Array:
    """What `random_resized_crop_box` gives, for many images at once: int64 (images, 4).

    Args:
        sizes: height and width of each image, int64 (images, 2), at least 1.
        tries: (images, tries, 2).
        place: (images, 2).
        ratio: bounds of width / height.
    """
    areas = sizes.prod(axis=1)[:, None] * tries[:, :, 0]
    tried = np.rint(np.sqrt(np.stack((areas / tries[:, :, 1], areas * tries[:, :, 1]), axis=2)))
    fits = ((tried > 0) & (tried <= sizes[:, None, :])).all(axis=2)
    first = fits.argmax(axis=1)
    parts = tried[np.arange(len(sizes)), first].astype(np.int64)
    boxes = np.concatenate(((place * (sizes - parts + 1)).astype(np.int64), parts), axis=1)
    for row in np.flatnonzero(~fits.any(axis=1)).tolist():
        rows, columns = sizes[row].tolist()
        boxes[row] = _central(rows, columns, ratio)
    return boxes
