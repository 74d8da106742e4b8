"""The box of a random resized crop."""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt

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
