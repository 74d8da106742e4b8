from __future__ import annotations

import colorsys
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageEnhance

from pipeplug import ArgumentError
from pipeplug_image.kernels.color import (
    adjust_brightness,
    adjust_contrast,
    adjust_hue,
    adjust_saturation,
    color_jitter,
)

WHITE = {"uint8": 255.0, "uint16": 65535.0, "float32": 1.0}
factors = st.floats(0, 3)
GREY = np.array([0.299, 0.587, 0.114])


def noise(shape, dtype="uint8", seed=0):
    return (np.random.default_rng(seed).random(shape) * WHITE[dtype]).astype(dtype)


def brightness(x, factor, white=255.0):
    return (factor * x).clip(0, white)


def contrast(x, factor, white=255.0):
    return (factor * x + (1 - factor) * (x @ GREY).mean()).clip(0, white)


def saturation(x, factor, white=255.0):
    return (factor * x + (1 - factor) * (x @ GREY)[..., None]).clip(0, white)


def hue(x, turns, white=255.0):
    def turned(pixel):
        h, s, v = colorsys.rgb_to_hsv(*pixel)
        return colorsys.hsv_to_rgb((h + turns) % 1, s, v)

    return np.apply_along_axis(turned, 2, x / white) * white


STEPS = [
    (adjust_brightness, brightness, ImageEnhance.Brightness),
    (adjust_contrast, contrast, ImageEnhance.Contrast),
    (adjust_saturation, saturation, ImageEnhance.Color),
]


@pytest.mark.parametrize(("ours", "formula", "pillow"), STEPS)
@given(height=st.integers(1, 20), width=st.integers(1, 20), factor=factors)
def test_a_blend_is_within_a_level_of_the_formula_and_two_of_pillow(ours, formula, pillow, height, width, factor):
    image = noise((height, width, 3), seed=height * 100 + width)
    result = ours(image, factor)
    assert np.abs(result - formula(image.astype(float), factor)).max() <= 1
    enhanced = np.asarray(pillow(Image.fromarray(image)).enhance(factor), int)
    assert np.abs(result - enhanced).max() <= 2


@pytest.mark.parametrize(("ours", "formula"), [(a, b) for a, b, _ in STEPS] + [(adjust_hue, hue)])
@pytest.mark.parametrize(("dtype", "bound"), [("uint16", 1.0), ("float32", 1e-5)])
@pytest.mark.parametrize("amount", [0.3, 1.6])
def test_other_dtypes(ours, formula, dtype, bound, amount):
    image = noise((13, 17, 3), dtype)
    amount = amount - 1 if ours is adjust_hue else amount
    result = ours(image, amount)
    assert result.dtype == dtype
    assert np.abs(result - formula(image.astype(float), amount, WHITE[dtype])).max() <= bound


@given(st.integers(1, 12), st.integers(1, 12), st.floats(-0.5, 0.5))
def test_hue_is_within_a_level_of_the_formula(height, width, turns):
    image = noise((height, width, 3), seed=height * 100 + width)
    assert np.abs(adjust_hue(image, turns) - hue(image.astype(float), turns)).max() <= 1


def test_a_third_of_a_turn_of_hue_moves_the_channels():
    image = noise((9, 9, 3))
    assert np.abs(adjust_hue(image, 1 / 3).astype(int) - np.roll(image, 1, axis=2)).max() <= 1


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_the_steps_follow_the_order_and_clamp_between(order):
    image = noise((11, 13, 3))
    amounts = (1.7, 1.4, 0.3, 0.2)
    expected = image
    for which in order:
        step = (adjust_brightness, adjust_contrast, adjust_saturation, adjust_hue)[which]
        expected = step(expected, amounts[which])
    result = color_jitter(image, brightness=1.7, contrast=1.4, saturation=0.3, hue=0.2, order=order)
    assert np.array_equal(result, expected)


def test_a_clamp_between_steps_loses_what_is_above_white():
    image = np.array([[[200, 40, 40]] * 2], np.uint8)
    assert color_jitter(image, brightness=2.0, saturation=0.0).tolist() == [[[132] * 3] * 2]
    assert color_jitter(image, brightness=2.0, saturation=0.0, order=(2, 0, 1, 3)).tolist() == [[[176] * 3] * 2]


def test_what_changes_nothing_is_left_out():
    image = noise((5, 6, 3))
    assert color_jitter(image) is image
    out = np.zeros_like(image)
    assert color_jitter(image, out=out) is out
    assert np.array_equal(out, image)


@pytest.mark.parametrize("which", [adjust_brightness, adjust_contrast, adjust_saturation, adjust_hue])
def test_alpha_stays(which):
    image = noise((7, 8, 4))
    result = which(image, 0.4)
    assert np.array_equal(result[..., 3], image[..., 3])
    assert np.array_equal(result[..., :3], which(np.ascontiguousarray(image[..., :3]), 0.4))


def test_grey_images():
    image = noise((7, 8, 1))
    assert adjust_saturation(image, 0.3) is image
    assert adjust_hue(image, 0.3) is image
    assert np.abs(adjust_brightness(image, 1.5) - brightness(image.astype(float), 1.5)).max() <= 1
    expected = (0.5 * image + 0.5 * image.mean()).clip(0, 255)
    assert np.abs(adjust_contrast(image, 0.5) - expected).max() <= 1
    assert adjust_contrast(image[..., 0], 0.5).shape == (7, 8)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_out_is_written_in_place_and_the_input_left_alone(dtype, channels):
    image = noise((7, 8, channels), dtype)
    before = image.copy()
    for which in (adjust_brightness, adjust_contrast, adjust_saturation, adjust_hue):
        batch = np.zeros((3, *image.shape), dtype)
        out = batch[1]
        assert which(image, 0.3, out=out) is out
        assert np.array_equal(batch[1], which(image, 0.3))
        assert not batch[[0, 2]].any()
        assert np.array_equal(image, before)


def test_an_order_that_is_none():
    with pytest.raises(ArgumentError, match=r"once each, got \[0, 1, 1, 3\]"):
        color_jitter(noise((2, 2, 3)), order=(0, 1, 1, 3))


def test_hue_of_a_large_image_is_that_of_its_parts():
    image = noise((300, 400, 3))
    turned = adjust_hue(image, 0.3)
    assert np.array_equal(turned[120:180, 100:], adjust_hue(image[120:180, 100:], 0.3))
