"""Boxes of random resized crops, for all samples of an iteration at once."""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

TRIES = 10
UNIFORMS = 2 * TRIES + 2
"""How many random numbers a box takes: an area and a ratio a try, then its y and its x."""


def random_resized_crop_boxes(
    uniforms: NDArray[np.float64],
    shapes: NDArray[np.int64],
    scale: tuple[float, float] = (0.08, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
) -> NDArray[np.int64]:
    """Boxes by the law of torchvision's `RandomResizedCrop`, a row of y, x, height, width a sample.

    The area is uniform in `scale` times the image's, width / height log-uniform in `ratio`. The first of ten tries that
    fits is taken, at a uniform place; if none fits, the largest central box whose ratio is inside the bounds.

    Args:
        uniforms: numbers in [0, 1), (samples, UNIFORMS).
        shapes: heights and widths, (samples, 2).
    """
    image = np.asarray(shapes, np.int64)
    sizes = _tried_sizes(uniforms, image, scale, ratio)
    fits = ((sizes > 0) & (sizes <= image[:, None])).all(axis=2)
    rows = np.arange(len(image))
    size = sizes[rows, fits.argmax(axis=1)]
    corner = np.floor(uniforms[:, 2 * TRIES :] * (image - size + 1)).astype(np.int64)
    boxes = np.concatenate((corner, size), axis=1)
    failed = ~fits.any(axis=-1)
    if failed.any():
        boxes[failed] = _central(image[failed], ratio)
    return boxes


def _tried_sizes(
    uniforms: NDArray[np.float64], image: NDArray[np.int64], scale: tuple[float, float], ratio: tuple[float, float]
) -> NDArray[np.int64]:
    tries = uniforms[:, : 2 * TRIES].reshape(-1, TRIES, 2)
    area = (image[:, :1] * image[:, 1:]) * (scale[0] + (scale[1] - scale[0]) * tries[..., 0])
    aspect = np.exp(log(ratio[0]) + (log(ratio[1]) - log(ratio[0])) * tries[..., 1])
    return np.rint(np.sqrt(np.stack((area / aspect, area * aspect), axis=2))).astype(np.int64)


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
