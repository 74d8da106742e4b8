"""Boxes of random resized crops, for all samples of an iteration at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

TRIES = 10
"""How many sizes are tried before the central one is taken."""


def random_resized_crop_boxes(
    areas: NDArray[np.float64],
    aspects: NDArray[np.float64],
    places: NDArray[np.float64],
    shapes: NDArray[np.int64],
    ratio: tuple[float, float],
) -> NDArray[np.int64]:
    """Boxes by the law of torchvision's `RandomResizedCrop`, a row of y, x, height, width a sample.

    The first of ten tries that fits into the image is taken, at a uniform place; if none fits, the largest central box
    whose ratio is inside the bounds.

    Args:
        areas: the areas tried, as shares of the image's, (samples, TRIES).
        aspects: their width / height, (samples, TRIES).
        places: numbers in [0, 1) for y and x, (samples, 2).
        shapes: heights and widths, (samples, 2).
        ratio: bounds of width / height.
    """
    image = np.asarray(shapes, np.int64)
    area = (image[:, :1] * image[:, 1:]) * areas
    # Only operations that IEEE 754 rounds exactly: boxes are the same on every processor.
    sizes = np.rint(np.sqrt(np.stack((area / aspects, area * aspects), axis=2))).astype(np.int64)
    fits = ((sizes > 0) & (sizes <= image[:, None])).all(axis=2)
    size = sizes[np.arange(len(image)), fits.argmax(axis=1)]
    corner = np.floor(places * (image - size + 1)).astype(np.int64)
    boxes = np.concatenate((corner, size), axis=1)
    failed = ~fits.any(axis=-1)
    if failed.any():
        boxes[failed] = _central(image[failed], ratio)
    return boxes


def _central(image: NDArray[np.int64], ratio: tuple[float, float]) -> NDArray[np.int64]:
    height, width = image.T
    least_height = np.rint(width / ratio[0])
    least_width = np.rint(height * ratio[1])
    size = np.stack(
        (
            np.where(width / height < ratio[0], least_height, height),
            np.where(width / height > ratio[1], least_width, width),
        ),
        axis=1,
    )
    size = np.maximum(size, 1).astype(np.int64)
    return np.concatenate(((image - size) // 2, size), axis=1)
