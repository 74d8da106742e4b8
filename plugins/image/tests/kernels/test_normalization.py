from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeplug import ArgumentError
from pipeplug_image.kernels.normalization import Normalization, normalize

MEAN, STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)


def exact(image, mean, std, scale=1.0, shift=0.0, layout="CHW", flip=False):
    pixels = np.atleast_3d(image).astype(np.float64)
    values = scale * (pixels - np.array(mean)) / np.array(std) + shift
    values = values[:, ::-1] if flip else values
    return values.transpose(2, 0, 1) if layout == "CHW" else values


def noise(shape, dtype="uint8"):
    random = np.random.default_rng(3)
    return (
        random.random(shape, np.float32)
        if dtype == "float32"
        else random.integers(0, np.iinfo(dtype).max, shape, dtype)
    )


@given(
    st.integers(1, 20), st.integers(1, 20), st.sampled_from([1, 3, 4]), st.booleans(), st.sampled_from(["HWC", "CHW"]),
    st.sampled_from([(1.0, 0.0), (2.0, -1.0), (-1.0, 3.0)]),
)  # fmt: skip
def test_float32_is_within_its_bound(height, width, channels, flip, layout, law):
    image, mean, std = noise((height, width, channels)), (*MEAN, 0.0)[:channels], (*STD, 255.0)[:channels]
    scale, shift = law
    ours = normalize(image, mean, std, scale=scale, shift=shift, layout=layout, horizontal=flip)
    reference = exact(image, mean, std, scale, shift, layout, flip)
    assert ours.dtype == np.float32
    assert ours.shape == reference.shape
    bound = 2.0**-22 * ((255 + max(mean)) * abs(scale) / min(std) + abs(shift))
    assert np.abs(ours - reference).max() <= bound


@pytest.mark.parametrize("layout", ["HWC", "CHW"])
@pytest.mark.parametrize("dtype", ["float16", "uint8", "int8", "int16", "float64"])
@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("flip", [False, True])
def test_other_results_are_rounded_once(layout, dtype, channels, flip):
    image = noise((17, 19, channels))
    law: dict[str, Any] = {
        "mean": (*MEAN, 0.0)[:channels],
        "std": (*STD, 255.0)[:channels],
        "scale": 70.0,
        "shift": 60.0,
    }
    reference = exact(image, **law, layout=layout, flip=flip)
    ours = normalize(image, **law, dtype=dtype, layout=layout, horizontal=flip)
    assert ours.dtype == dtype
    if np.dtype(dtype).kind == "f":
        tolerance = 1e-12 if dtype == "float64" else 0.0
        assert np.abs(ours - reference.astype(dtype)).max() <= tolerance
    else:
        limits = np.iinfo(dtype)
        assert np.array_equal(ours, np.rint(reference).clip(limits.min, limits.max))


@pytest.mark.parametrize("dtype", ["uint16", "float32"])
@pytest.mark.parametrize("destination", ["float32", "float16", "uint8"])
@pytest.mark.parametrize("layout", ["HWC", "CHW"])
def test_other_inputs(dtype, destination, layout):
    image = noise((17, 19, 3), dtype)
    white = 1.0 if dtype == "float32" else 65535.0
    mean, std = np.array([0.4, 0.5, 0.6]) * white, np.array([0.2, 0.3, 0.25]) * white
    ours = normalize(image, mean, std, scale=40, shift=100, dtype=destination, layout=layout)
    reference = exact(image, mean, std, 40, 100, layout)
    assert ours.dtype == destination
    bound = {"float32": 2e-4, "float16": 0.13, "uint8": 0.501}[destination]
    assert np.abs(ours.astype(float) - reference).max() <= bound


def test_halves_round_to_even():
    image = np.array([[1, 3, 5, 7]], np.uint8)
    assert normalize(image, 0, 2, dtype="uint8", layout="HWC")[..., 0].tolist() == [[0, 2, 2, 4]]


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
@pytest.mark.parametrize("layout", ["HWC", "CHW"])
@pytest.mark.parametrize("source", ["uint8", "float32"])
def test_out_is_written_in_place(dtype, layout, source):
    image = noise((17, 19, 3), source)
    prepared = Normalization(3, MEAN, STD, dtype=dtype, layout=layout)
    expected = prepared(image)
    batch = np.zeros((3, *expected.shape), dtype)
    out = batch[1]
    assert prepared(image, out=out) is out
    assert np.array_equal(batch[1], expected)
    assert not batch[[0, 2]].any()
    scattered = np.zeros((*expected.shape, 2), dtype)[..., 0]
    assert np.array_equal(prepared(image, out=scattered), expected)


def test_a_view_and_two_dimensions():
    image = noise((20, 30, 3))
    assert np.array_equal(normalize(image[3:9, 4:17], MEAN, STD), normalize(image, MEAN, STD)[:, 3:9, 4:17])
    assert np.array_equal(normalize(image[..., 0], 100, 50), normalize(image, 100, 50)[:1])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_threads_share_one(dtype):
    images = [noise((40, 50, 3)) + np.uint8(n) for n in range(64)]
    prepared = Normalization(3, MEAN, STD, dtype=dtype)
    batch = np.zeros((64, 3, 40, 50), dtype)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda n: prepared(images[n], out=batch[n]), range(64)))
    assert np.array_equal(batch, [prepared(image) for image in images])


def test_bad_arguments():
    with pytest.raises(ArgumentError, match="std and scale must not be 0"):
        normalize(noise((3, 3, 3)), 0, (1, 0, 1))
    with pytest.raises(ArgumentError, match="mean has 3 values, but the image has 1 channels"):
        normalize(noise((3, 3, 1)), MEAN, 1)
    with pytest.raises(ArgumentError, match=r"prepared for 3 channels, got an image of shape \(3, 3, 1\)"):
        Normalization(3, MEAN, STD)(noise((3, 3, 1)))
