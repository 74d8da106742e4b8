from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.ndimage import correlate1d

from pipeplug import ArgumentError
from pipeplug_image.kernels.blur import gaussian_blur


def noise(shape, white=255, dtype="uint8"):
    return (np.random.default_rng(0).random(shape) * white).astype(dtype)


def exact(image, sigmas, sizes=None):
    values = image.astype(float)
    for axis, sigma in enumerate(sigmas):
        if sigma:
            radius = int(np.ceil(3 * sigma)) if sizes is None else sizes[axis] // 2
            taps = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2)
            margins = [(radius, radius) if a == axis else (0, 0) for a in range(image.ndim)]
            padded = np.pad(values, margins, mode="reflect")
            blurred = correlate1d(padded, taps / taps.sum(), axis)
            values = blurred.take(np.arange(radius, radius + image.shape[axis]), axis)
    return values


@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from([1, 3, 4]), st.floats(0.1, 6))
def test_bytes_are_within_a_level(height, width, channels, sigma):
    image = noise((height, width, channels))
    assert np.abs(gaussian_blur(image, sigma) - exact(image, (sigma, sigma))).max() <= 0.51


@pytest.mark.parametrize(("dtype", "white", "bound"), [("uint16", 65535, 1), ("float32", 1, 1e-6)])
@pytest.mark.parametrize("sigma", [0.4, 1.5, 5.0])
def test_other_dtypes(dtype, white, bound, sigma):
    image = noise((31, 23, 3), white, dtype)
    assert np.abs(gaussian_blur(image, sigma) - exact(image, (sigma, sigma))).max() <= bound


def test_axes_and_kernel_sizes_of_their_own():
    image = noise((31, 23, 3))
    for sigmas, sizes in [((1.0, 3.0), None), ((0.0, 2.0), None), ((2.0, 0.0), None), ((1.0, 3.0), (9, 5))]:
        blurred = gaussian_blur(image, sigmas, kernel_size=sizes)
        assert np.abs(blurred - exact(image, sigmas, sizes)).max() <= 0.51
    assert gaussian_blur(image, 0.0) is image


def test_out_is_written_in_place():
    image = noise((31, 23, 3))
    batch = np.zeros((2, *image.shape), np.uint8)
    out = batch[1]
    assert gaussian_blur(image, 1.0, out=out) is out
    assert np.array_equal(batch[1], gaussian_blur(image, 1.0))


def test_bad_arguments():
    with pytest.raises(ArgumentError, match="odd and positive, got 4"):
        gaussian_blur(noise((5, 5, 3)), 1.0, kernel_size=4)
    with pytest.raises(ArgumentError, match="must not be negative"):
        gaussian_blur(noise((5, 5, 3)), -1.0)
