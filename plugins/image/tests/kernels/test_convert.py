from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from pipeplug import SpecError
from pipeplug_image.kernels.convert import cast, grayscale

REAL = ["uint8", "int8", "uint16", "int16", "int32", "float16", "float32", "float64"]


def exact(values: np.ndarray, dtype: str, scale: float) -> np.ndarray:
    scaled = values.astype(np.float64) * scale
    if np.dtype(dtype).kind == "f":
        with np.errstate(over="ignore"):
            return scaled.astype(dtype)
    limits = np.iinfo(dtype)
    return np.array([min(max(round(v), limits.min), limits.max) for v in scaled.ravel().tolist()], dtype).reshape(
        scaled.shape
    )


@pytest.mark.parametrize("source", REAL)
@pytest.mark.parametrize("destination", REAL)
@pytest.mark.parametrize("scale", [1.0, 0.5, 3.0])
def test_every_pair_of_dtypes(source, destination, scale):
    random = np.random.default_rng(0)
    values = (random.integers(-80000, 80000, (13, 11, 3)) / 2).clip(-60000, 60000)
    if np.dtype(source).kind != "f":
        values = values.clip(np.iinfo(source).min, np.iinfo(source).max)
    image = values.astype(source)
    image.flat[:6] = np.array([0, 1, 2, 3, 5, 7])  # halves, where the scale is 0.5
    result = cast(image, destination, scale)
    assert result.dtype == destination
    assert np.array_equal(result, exact(image, destination, scale))
    out = np.zeros((2, *image.shape), destination)[1]
    assert cast(image, destination, scale, out=out) is out
    assert np.array_equal(out, result)


@pytest.mark.parametrize("destination", ["uint8", "int8", "uint16", "int16", "int32"])
@pytest.mark.parametrize("source", ["float32", "float64"])
def test_infinities_saturate(source, destination):
    limits = np.iinfo(destination)
    image = np.array([[np.inf, -np.inf, 1e20, -1e20]], source)
    assert cast(image, destination).tolist() == [[limits.max, limits.min] * 2]


def test_sixteen_bits_to_eight():
    image = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    assert np.array_equal(cast(image, "uint8", 1 / 257), np.rint(np.arange(65536) / 257).reshape(256, 256))
    assert cast(image, "uint8")[1, :2].tolist() == [255, 255]


def test_many_dimensions():
    clip = np.arange(2 * 3 * 4 * 5, dtype=np.uint16).reshape(2, 3, 4, 5)
    assert np.array_equal(cast(clip, "float32", 0.5), clip / 2)


def test_the_same_dtype_is_the_same_image():
    image = np.zeros((2, 2), np.uint8)
    assert cast(image, "uint8") is image


@given(st.integers(1, 30), st.integers(1, 30), st.sampled_from([3, 4]), st.sampled_from([1, 3]))
def test_grey_is_pillows(height, width, channels, wanted):
    image = np.random.default_rng(height).integers(0, 256, (height, width, channels), np.uint8)
    grey = grayscale(image, wanted)
    reference = np.asarray(Image.fromarray(np.ascontiguousarray(image[..., :3])).convert("L"), int)
    assert grey.shape == (height, width, wanted)
    assert np.abs(grey - reference[..., None]).max() <= 1
    out = np.empty_like(grey)
    assert grayscale(image, wanted, out=out) is out
    assert np.array_equal(out, grey)


@pytest.mark.parametrize(("dtype", "white", "bound"), [("uint16", 65535, 2), ("float32", 1, 1e-6)])
def test_grey_of_other_dtypes(dtype, white, bound):
    image = (np.random.default_rng(0).random((9, 8, 3)) * white).astype(dtype)
    assert np.abs(grayscale(image)[..., 0] - image @ np.array([0.299, 0.587, 0.114])).max() <= bound


def test_grey_of_grey():
    image = np.random.default_rng(0).integers(0, 256, (9, 8, 1), np.uint8)
    assert grayscale(image) is image or np.array_equal(grayscale(image), image)
    assert np.array_equal(grayscale(image, 3), np.repeat(image, 3, 2))
    with pytest.raises(SpecError, match="1 or 3 channels, not 2"):
        grayscale(image, 2)
