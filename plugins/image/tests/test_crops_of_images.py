from __future__ import annotations

from math import floor, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from pipeplug import ArgumentError, Batch, Draws, SampleFailed, SpecError, eager, ops
from pipeplug.runtime.randomness import key_hash
from pipeplug_image.random_resized_crop import RandomResizedCrop


@given(data=st.data(), height=st.integers(1, 30), width=st.integers(1, 30))
@settings(max_examples=50)
def test_a_crop_begins_at_its_share_of_the_free_pixels_rounded_half_away_from_zero(data, height, width, noise):
    image = noise((height, width, 3))
    size = data.draw(st.tuples(st.integers(1, height), st.integers(1, width)))
    position = data.draw(st.tuples(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), st.floats(0, 1)))
    y, x = (floor(p * (n - m) + 0.5) for p, n, m in zip(position, (height, width), size, strict=True))
    part = ops.image.crop(image, size=size, position=position)
    assert np.array_equal(part, image[y : y + size[0], x : x + size[1]])
    assert np.shares_memory(part.numpy(), image)


@given(data=st.data(), height=st.integers(1, 30), width=st.integers(1, 30))
@settings(max_examples=50)
def test_the_central_crop_is_the_crop_in_the_middle(data, height, width, noise):
    image = noise((height, width, 3))
    size = data.draw(st.tuples(st.integers(1, height), st.integers(1, width)))
    y, x = (height - size[0] + 1) // 2, (width - size[1] + 1) // 2
    central = ops.image.center_crop(image, size=size)
    assert np.array_equal(central, image[y : y + size[0], x : x + size[1]])
    assert np.array_equal(central, ops.image.crop(image, size=size))


def test_a_random_crop_is_at_every_place_as_often():
    image = np.arange(20, dtype=np.uint8).reshape(4, 5, 1)
    counts = np.zeros((3, 3), int)
    with eager(seed=0):
        for part in ops.image.random_crop(Batch.equal(np.tile(image, (4500, 1, 1, 1))), size=(2, 3)):
            y, x = divmod(int(part.numpy()[0, 0, 0]), 5)
            assert np.array_equal(part, image[y : y + 2, x : x + 3])
            counts[y, x] += 1
    assert counts.sum() == 4500
    assert abs(counts - 500).max() < 100


def test_a_random_crop_of_the_whole_image_is_the_image(noise):
    image = noise((4, 5, 3))
    assert np.array_equal(ops.image.random_crop(image, size=(4, 5)), image)


def test_images_that_share_a_key_are_cut_at_the_same_place(noise, run):
    images, masks = np.stack([noise((9, 12, 3))] * 6), np.stack([noise((9, 12, 3))[:, :, :1]] * 6)

    def pair(image, mask):
        image = ops.image.random_crop(image, size=(4, 5), key="pair")
        mask = ops.image.random_crop(mask, size=(4, 5), key="pair")
        return ops.map(lambda a, b: bool((a[:, :, :1] == b).all()), image, mask)

    assert run(pair, images, masks)["out"].list() == [True] * 6


def test_positions_vary_by_sample(noise, run):
    images = np.stack([noise((9, 12, 3), seed=row) for row in range(3)])
    positions = np.array([[0, 0], [0.5, 1], [1, 0.25]])
    out = run(lambda image, position: ops.image.crop(image, size=(4, 5), position=position), images, positions)["out"]
    corners = [(0, 0), (3, 7), (5, 2)]
    expected = [image[y : y + 4, x : x + 5] for image, (y, x) in zip(images, corners, strict=True)]
    assert np.array_equal(out.numpy(), expected)
    eagerly = ops.image.crop(Batch.equal(images), size=(4, 5), position=Batch.equal(positions))
    assert np.array_equal(eagerly.numpy(), expected)


@pytest.mark.parametrize("name", ["crop", "center_crop", "random_crop"])
def test_a_part_larger_than_the_image_names_both_and_the_sample(name, noise, run):
    crop = getattr(ops.image, name)
    message = r"a crop of height 9 and width 4 does not fit into an image of height 8 and width 5: pad or resize"
    with pytest.raises(ArgumentError, match=message):
        crop(noise((8, 5, 3)), size=(9, 4))
    with pytest.raises(SampleFailed, match=rf"image.{name} failed on item 1 \(position 1, index 1\): .*{message}"):
        run(lambda image: crop(image, size=(9, 4)), [noise((9, 5, 3)), noise((8, 5, 3))])
    with pytest.raises(ArgumentError, match=rf"image.{name}: size is at least \(1, 1\), got \(0, 4\)"):
        crop(noise((8, 5, 3)), size=(0, 4))
    with pytest.raises(ArgumentError, match=rf"image.{name}.*size=….* takes tuple\[int, int\].*, got 4"):
        crop(noise((8, 5, 3)), size=4)


@given(data=st.data(), height=st.integers(1, 30), width=st.integers(1, 30))
@settings(max_examples=30)
def test_a_box_is_those_pixels(data, height, width, noise):
    image = noise((height, width, 3))
    y, x = data.draw(st.integers(0, height - 1)), data.draw(st.integers(0, width - 1))
    box = (y, x, data.draw(st.integers(1, height - y)), data.draw(st.integers(1, width - x)))
    part = ops.image.crop(image, box=box)
    assert np.array_equal(part, image[y : y + box[2], x : x + box[3]])
    assert np.shares_memory(part.numpy(), image)


def test_every_sample_may_have_a_box_of_its_own(noise, run):
    images = [noise((9, 12, 3))] * 3
    boxes = [np.array(box) for box in ((0, 0, 9, 12), (2, 3, 1, 5), (8, 11, 1, 1))]
    outputs = run(lambda image, box: ops.image.crop(image, box=box), images, boxes)
    for part, (y, x, height, width) in zip(outputs["out"].list(), boxes, strict=True):
        assert np.array_equal(part, images[0][y : y + height, x : x + width])
    eagerly = ops.image.crop(Batch.equal(np.stack(images)), box=Batch.equal(np.stack(boxes)))
    assert [part.shape for part in eagerly] == [(9, 12, 3), (1, 5, 3), (1, 1, 3)]


def test_a_box_lies_within_the_image(noise, run):
    image = noise((8, 5, 3))
    with pytest.raises(ArgumentError, match=r"give one of size=\(height, width\) and box=\(y, x, height, width\)"):
        ops.image.crop(image)
    with pytest.raises(ArgumentError, match=r"give one of size="):
        ops.image.crop(image, size=(2, 2), box=(0, 0, 2, 2))
    for box in ((0, 0, 0, 2), (-1, 0, 2, 2)):
        with pytest.raises(ArgumentError, match="box is y, x, height and width in whole pixels a sample, got"):
            ops.image.crop(image, box=box)
    outside = "the box y=3, x=1, height=6, width=2 is not inside the image of height 8 and width 5"
    with pytest.raises(ArgumentError, match=outside):
        ops.image.crop(image, box=(3, 1, 6, 2))
    boxes = [np.array([0, 0, 1.5, 1]), np.array([0, 0, 1, 1, 1])]
    with pytest.raises(SampleFailed, match="box is y, x, height and width in whole pixels a sample, got"):
        run(lambda image, box: ops.image.crop(image, box=box), [image, image], boxes)


def test_a_position_is_two_numbers_from_0_to_1(noise, run):
    image = noise((8, 5, 3))
    for position in ((0.5, 1.1), (-0.1, 0.5), (0.5, float("nan"))):
        with pytest.raises(ArgumentError, match=r"image.crop: position is a number from 0 to 1, got"):
            ops.image.crop(image, size=(2, 2), position=position)
    column = np.array([[0.5, 0.5], [0.5, 2.0]])
    with pytest.raises(SampleFailed, match=r"image.crop failed on item 1 .*: position is a number from 0 to 1, got 2"):
        run(lambda image, p: ops.image.crop(image, size=(2, 2), position=p), [image, image], list(column))
    with pytest.raises(SampleFailed, match=r"position is two numbers a sample, vertical and horizontal, got .*0.25"):
        run(lambda image, p: ops.image.crop(image, size=(2, 2), position=p), np.stack([image]), np.array([0.25]))


def torchvision_box(areas, ratios, places, height, width, ratio):
    """The law of torchvision 0.25, `RandomResizedCrop.get_params`, with the numbers drawn beforehand; no side is 0."""
    for share, aspect in zip(areas, ratios, strict=True):
        w = round(sqrt(height * width * share * aspect))
        h = round(sqrt(height * width * share / aspect))
        if 0 < w <= width and 0 < h <= height:
            return floor(places[0] * (height - h + 1)), floor(places[1] * (width - w + 1)), h, w
    w, h = width, height
    if width / height < ratio[0]:
        h = max(1, round(w / ratio[0]))
    elif width / height > ratio[1]:
        w = max(1, round(h * ratio[1]))
    return (height - h) // 2, (width - w) // 2, h, w


class Given:
    """Numbers in the place of random ones."""

    def __init__(self, areas, ratios, places):
        self.areas, self.ratios, self.places = (np.array(each)[None] for each in (areas, ratios, places))

    def uniform(self, low=0.0, high=1.0, size=()):
        return self.places if size == 2 else low + (high - low) * self.areas

    def log_uniform(self, low, high, size=()):
        return np.array([[low * (high / low) ** each for each in row] for row in self.ratios.tolist()])


unit = st.floats(0, 1, exclude_max=True)


@given(
    height=st.integers(1, 300),
    width=st.integers(1, 300),
    areas=st.lists(unit, min_size=10, max_size=10),
    ratios=st.lists(unit, min_size=10, max_size=10),
    places=st.tuples(unit, unit),
    bounds=st.sampled_from([((0.08, 1.0), (3 / 4, 4 / 3)), ((1.0, 1.0), (1.5, 2.0)), ((0.5, 0.9), (0.1, 0.2))]),
)
def test_the_boxes_of_a_random_resized_crop_follow_torchvision(height, width, areas, ratios, places, bounds):
    scale, ratio = bounds
    operator = RandomResizedCrop(size=(8, 8), scale=scale, ratio=ratio)
    numbers: Any = Given(areas, ratios, places)
    drawn = {name: rows[0] for name, rows in operator.draw(numbers).items()}
    shares = [scale[0] + (scale[1] - scale[0]) * each for each in areas]
    aspects = [ratio[0] * (ratio[1] / ratio[0]) ** each for each in ratios]
    assert operator.box((height, width, 3), **drawn) == torchvision_box(shares, aspects, places, height, width, ratio)


def test_a_random_resized_crop_is_its_part_resized(noise, run):
    images = [noise((40, 61, 3), seed=row) for row in range(8)]
    operator = RandomResizedCrop(size=(13, 17))
    drawn = operator.draw(Draws(5, key_hash("cut"), 0, range(8)))
    boxes = [
        operator.box(image.shape, tries, place)
        for image, tries, place in zip(images, drawn["tries"], drawn["place"], strict=True)
    ]

    def crop(image):
        return ops.image.random_resized_crop(image, size=(13, 17), interpolation="cubic", key="cut")

    delivered = run(crop, images, seed=5)["out"].numpy()
    assert len(np.unique(boxes, axis=0)) == 8
    for out, image, (y, x, height, width) in zip(delivered, images, boxes, strict=True):
        part = Image.fromarray(image[y : y + height, x : x + width])
        assert np.abs(out - np.asarray(part.resize((17, 13), Image.Resampling.BICUBIC)).astype(int)).max() <= 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": (0, 3)}, r"size is at least \(1, 1\), got \(0, 3\)"),
        ({"size": (3, 3), "scale": (0.0, 1.0)}, r"scale is two rising numbers in \(0, 1\], got \(0.0, 1.0\)"),
        ({"size": (3, 3), "scale": (0.5, 0.4)}, "scale is two rising numbers"),
        ({"size": (3, 3), "scale": (0.5, 1.4)}, "scale is two rising numbers"),
        ({"size": (3, 3), "ratio": (0.0, 1.0)}, r"ratio is two rising positive numbers, got \(0.0, 1.0\)"),
        ({"size": (3, 3), "ratio": (2.0, 1.0)}, "ratio is two rising positive numbers"),
        ({"size": (3, 3), "interpolation": "area"}, "takes 'nearest' | 'linear' | 'cubic' | 'lanczos', got 'area'"),
        ({}, "image.random_resized_crop needs the argument size: tuple"),
        ({"size": (3, 3), "sice": 1}, "image.random_resized_crop has no argument 'sice'; it has size, scale, ratio"),
    ],
)
def test_arguments_of_a_random_resized_crop_are_checked(arguments, message, noise):
    with pytest.raises(ArgumentError, match=message):
        ops.image.random_resized_crop(noise((8, 9, 3)), **arguments)


def test_a_random_resized_crop_needs_an_image_to_draw_for():
    with pytest.raises(SpecError, match="decode it first"):
        ops.image.random_resized_crop(Batch.objects([b"a", b"b"]), size=(3, 3))
