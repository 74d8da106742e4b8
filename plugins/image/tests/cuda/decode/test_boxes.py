"""The boxes of crops for many images at once are those for one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeplug import ArgumentError
from pipeplug_image.crop import Crop
from pipeplug_image.kernels.crops import TRIES, random_resized_crop_box, random_resized_crop_boxes
from pipeplug_image.kernels.geometry import (
    anchored_box,
    anchored_boxes,
    given_boxes,
    numbers_of,
    placed_boxes,
    random_boxes,
)
from pipeplug_image.random_crop import RandomCrop


def sizes_of(random, count, largest):
    return random.integers(1, largest, (count, 2))


@pytest.mark.parametrize("largest", [4, 40, 4000, 65500])
@pytest.mark.parametrize("ratio", [(3 / 4, 4 / 3), (0.1, 0.2), (5.0, 9.0)])
def test_boxes_of_random_resized_crops(largest, ratio):
    random = np.random.default_rng(largest)
    count = 3000
    sizes = sizes_of(random, count, largest)
    shares, ratios = random.uniform(0.01, 1, (count, TRIES)), random.uniform(ratio[0], ratio[1], (count, TRIES))
    tries, place = np.stack((shares, ratios), axis=2), random.random((count, 2))
    boxes = random_resized_crop_boxes(sizes, tries, place, ratio)
    assert boxes.dtype == np.int64
    drawn = zip(sizes.tolist(), tries.tolist(), place.tolist(), strict=True)
    assert boxes.tolist() == [list(random_resized_crop_box(*each, ratio)) for each in drawn]


@pytest.mark.parametrize("size", [(1, 1), (20, 31)])
def test_boxes_of_crops_of_a_size(size):
    random = np.random.default_rng(1)
    sizes, positions = sizes_of(random, 500, 60), random.random((500, 2))
    fits = (sizes >= size).all(axis=1)
    for position, boxes in (
        ((0.5, 0.5), anchored_boxes(sizes, size)),
        (None, anchored_boxes(sizes, size, positions)),
        (None, placed_boxes(sizes, size, positions)),
    ):
        assert not boxes[~fits].any()
        for row in np.flatnonzero(fits).tolist():
            expected = anchored_box(tuple(sizes[row].tolist()), size, position or tuple(positions[row].tolist()))
            assert boxes[row].tolist() == list(expected)
    crop = RandomCrop(size=size)
    boxes = random_boxes(sizes, size, positions)
    assert not boxes[~fits].any()
    for row in np.flatnonzero(fits).tolist():
        assert boxes[row].tolist() == list(crop.box(tuple(sizes[row].tolist()), positions[row]))


@pytest.mark.parametrize("position", [(-0.1, 0.5), (0.5, 1.1), (np.nan, 0.5), (0.5, np.inf)])
def test_what_is_no_position_gives_no_box(position):
    sizes = np.full((2, 2), 50)
    boxes = placed_boxes(sizes, (10, 10), np.array([(0.5, 0.5), position]))
    assert boxes.tolist() == [[20, 20, 10, 10], [0, 0, 0, 0]]


@pytest.mark.parametrize(
    "box",
    [
        (0, 0, 30, 40), (29, 39, 1, 1), (0, 0, 31, 40), (0, 1, 30, 40), (-1, 0, 5, 5), (0, 0, 0, 5), (0, 0, 5, -1),
        (0.5, 0, 5, 5), (0, 0, np.nan, 5), (0, 0, np.inf, 5),
    ],
)  # fmt: skip
def test_given_boxes_are_those_that_a_crop_takes(box):
    crop, (found,) = Crop(box=(0, 0, 1, 1)), given_boxes(np.array([(30, 40)]), np.array([box], np.float64)).tolist()
    try:
        expected = list(crop.part((30, 40), (0.5, 0.5), list(box)))
    except ArgumentError:
        expected = [0, 0, 0, 0]
    assert found == expected


def test_columns_of_something_else_are_no_numbers():
    rows = np.array([0, 2])
    column = [(0, 1), (2, 3), (4, 5)]
    assert numbers_of(column, rows, 2).tolist() == [[0, 1], [4, 5]]
    assert numbers_of(np.array(column), rows, 2).tolist() == [[0, 1], [4, 5]]
    others: list[Any] = [[(0, 1), (2,), (3, 4)], ["a", "b", "c"], [None] * 3, np.zeros((3, 4)), np.full(3, None)]
    for other in others:
        numbers = numbers_of(other, rows, 2)
        assert numbers.shape == (2, 2)
        assert np.isnan(numbers).all()
