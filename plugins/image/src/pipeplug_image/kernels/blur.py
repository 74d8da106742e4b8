"""Gaussian blur."""

from __future__ import annotations

from math import ceil

import cv2

from pipeplug import ArgumentError
from pipeplug_image.kernels.opencv import BORDERS, Array, channels_of, copied, settle, target, white_of


def gaussian_blur(
    image: Array,
    sigma: float | tuple[float, float],
    *,
    kernel_size: int | tuple[int, int] | None = None,
    out: Array | None = None,
) -> Array:
    """The image convolved with a Gaussian of standard deviation `sigma` pixels (one, or y and x).

    The kernel has `kernel_size` taps (one, or y and x), by default `2 * ceil(3 * sigma) + 1`, and sums to 1. The image
    is reflected at its edges, whose pixels are not repeated (reflect_101). uint8 and uint16 are within
    1 level of the exact value, float32 within 1e-6 of white. A sigma of 0 leaves its axis alone.

    Raises ArgumentError when a kernel size is even or not positive, or a sigma is negative.
    """
    white_of(image)
    channels_of(image)
    sigmas = sigma if isinstance(sigma, tuple) else (sigma, sigma)
    sizes = _sizes(sigmas, kernel_size)
    if sizes == (1, 1):
        return copied(image, out)
    y, x = (cv2.getGaussianKernel(size, sigma or 1.0) for size, sigma in zip(sizes, sigmas, strict=True))
    # `GaussianBlur` rounds the taps of uint8 to 1/256: twice as slow as this, and up to 2 levels off.
    direct = target(out, image.shape, image.dtype)
    result = cv2.sepFilter2D(image, -1, x, y, dst=direct, borderType=BORDERS["reflect_101"])
    return settle(result, out, image.shape)


def _sizes(sigmas: tuple[float, float], kernel_size: int | tuple[int, int] | None) -> tuple[int, int]:
    if min(sigmas) < 0:
        raise ArgumentError(f"sigma must not be negative, got {sigmas}")
    given = kernel_size if isinstance(kernel_size, tuple) else (kernel_size, kernel_size)
    y, x = (_size(sigma, size) for sigma, size in zip(sigmas, given, strict=True))
    return y, x


def _size(sigma: float, size: int | None) -> int:
    if size is not None and (size < 1 or size % 2 == 0):
        raise ArgumentError(f"a kernel size is odd and positive, got {size}")
    if sigma == 0:
        return 1
    return 2 * ceil(3 * sigma) + 1 if size is None else size
