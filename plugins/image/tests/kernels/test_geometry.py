from __future__ import annotations

from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeplug import ArgumentError
from pipeplug_image.kernels.geometry import anchored_box, crop, crop_anchor, erase, flip, pad, transpose

sides = st.integers(1, 20)
channels = st.sampled_from([1, 3, 4])
dtypes = st.sampled_from(["uint8", "uint16", "float32"])
NUMPY_BORDERS: dict[str, Any] = {
    "constant": "constant",
    "edge": "edge",
    "reflect_101": "reflect",
    "reflect_1001": "symmetric",
    "wrap": "wrap",
}


def noise(shape: tuple[int, ...], dtype: str = "uint8") -> np.ndarray:
    return (np.random.default_rng(1).random(shape) * 250).astype(dtype)


@given(st.data(), sides, sides, channels)
def test_a_crop_is_a_view_of_its_box(data, height, width, count):
    image = noise((height, width, count))
    y, x = data.draw(st.integers(0, height - 1)), data.draw(st.integers(0, width - 1))
    h, w = data.draw(st.integers(1, height - y)), data.draw(st.integers(1, width - x))
    part = crop(image, (y, x, h, w))
    assert np.shares_memory(part, image)
    assert np.array_equal(part, image[y : y + h, x : x + w])
    out = np.empty((h, w, count), np.uint8)
    assert crop(image, (y, x, h, w), out=out) is out
    assert np.array_equal(out, part)


@pytest.mark.parametrize("box", [(-1, 0, 2, 2), (0, 0, 11, 2), (0, 11, 2, 2), (0, 0, 0, 2)])
def test_a_crop_outside_names_box_and_size(box):
    with pytest.raises(ArgumentError, match=rf"y={box[0]}, x={box[1]}, .* image of height 10 and width 12"):
        crop(noise((10, 12, 3)), box)


@given(st.integers(0, 500), st.integers(0, 500), st.integers(0, 64))
def test_the_anchor_rounds_halves_away_from_zero(size, length, sixty_fourths):
    exact = Fraction(sixty_fourths, 64) * (size - length)
    expected = floor(abs(exact) + Fraction(1, 2)) * (1 if exact >= 0 else -1)
    assert crop_anchor(size, length, sixty_fourths / 64) == expected


def test_anchors_broadcast_and_do_not_round_up_what_is_below_a_half():
    assert crop_anchor(1, 0, 0.49999999999999994) == 0
    anchors = crop_anchor(np.array([[10, 11], [7, 8]]), np.array([5, 5]), 0.5)
    assert anchors.dtype == np.int64
    assert anchors.tolist() == [[3, 3], [1, 2]]


def test_boxes_at_a_place():
    assert anchored_box((11, 8, 3), (4, 4)) == (4, 2, 4, 4)
    assert anchored_box((11, 8, 3), (4, 4), (1.0, 0.0)) == (7, 0, 4, 4)
    with pytest.raises(
        ArgumentError, match="height 12 and width 4 does not fit into an image of height 11 and width 8"
    ):
        anchored_box((11, 8, 3), (12, 4))


@given(sides, sides, channels, dtypes, st.tuples(*[st.integers(0, 45)] * 4), st.sampled_from(sorted(NUMPY_BORDERS)))
def test_padding_equals_numpys(height, width, count, dtype, margins, border):
    image = noise((height, width, count), dtype)
    top, bottom, left, right = margins
    expected = np.pad(image, ((top, bottom), (left, right), (0, 0)), mode=NUMPY_BORDERS[border])
    assert np.array_equal(pad(image, margins, border=border), expected)
    batch = np.zeros((2, *expected.shape), dtype)
    out = batch[1]
    assert pad(image, margins, border=border, out=out) is out
    assert np.array_equal(batch[1], expected)


def test_padding_fills_each_channel():
    padded = pad(noise((2, 2, 3)), (1, 0, 0, 0), fill=(7, 8, 9))
    assert padded[0].tolist() == [[7, 8, 9]] * 2
    assert pad(noise((2, 2)), (0, 1, 0, 0), fill=5)[-1].tolist() == [5, 5]
    with pytest.raises(ArgumentError, match="fill has 2 values, but the image has 3 channels"):
        pad(noise((2, 2, 3)), (1, 0, 0, 0), fill=(7, 8))
    with pytest.raises(ArgumentError, match="must not be negative"):
        pad(noise((2, 2, 3)), (-1, 0, 0, 0))


@given(sides, sides, channels, dtypes, st.booleans(), st.booleans())
def test_flip(height, width, count, dtype, horizontal, vertical):
    image = noise((height, width, count), dtype)
    expected = image[:: -1 if vertical else 1, :: -1 if horizontal else 1]
    assert np.array_equal(flip(image, horizontal=horizontal, vertical=vertical), expected)
    out = np.empty_like(image)
    assert flip(image, horizontal=horizontal, vertical=vertical, out=out) is out
    assert np.array_equal(out, expected)


def test_an_out_that_is_not_contiguous_is_filled_too():
    image = noise((5, 6, 3))
    out = np.zeros((5, 12, 3), np.uint8)[:, ::2]
    assert flip(image, horizontal=True, out=out) is out
    assert np.array_equal(out, image[:, ::-1])


def test_erase_clips_its_boxes_and_leaves_the_input_alone():
    image = noise((8, 9, 3))
    before = image.copy()
    erased = erase(
        image, np.array([[1, 2, 2, 3], [-3, -2, 5, 4], [7, 8, 10, 10], [20, 20, 3, 3], [-9, 0, 3, 3]]), (1, 2, 3)
    )
    inside = np.zeros((8, 9), bool)
    inside[1:3, 2:5] = inside[:2, :2] = inside[7:, 8:] = True
    assert np.array_equal(erased, np.where(inside[..., None], np.array([1, 2, 3], np.uint8), before))
    assert np.array_equal(image, before)
    out = np.zeros_like(image)
    assert erase(image, np.array([[0, 0, 8, 9]]), 4, out=out) is out
    assert (out == 4).all()


@given(sides, sides, st.integers(1, 6), st.permutations("HWC"))
def test_transpose(height, width, count, letters):
    image = noise((height, width, count))
    destination = "".join(letters)
    expected = np.einsum(f"HWC->{destination}", image)
    moved = transpose(image, "HWC", destination)
    assert moved.flags.c_contiguous
    assert np.array_equal(moved, expected)
    assert np.array_equal(transpose(moved, destination, "HWC"), image)
    batch = np.zeros((2, *expected.shape), np.uint8)
    out = batch[1]
    assert transpose(image, "HWC", destination, out=out) is out
    assert np.array_equal(batch[1], expected)


def test_transpose_of_unlike_letters():
    with pytest.raises(ArgumentError, match="layout 'HWC', to layout 'CHF'"):
        transpose(noise((2, 3, 3)), "HWC", "CHF")
