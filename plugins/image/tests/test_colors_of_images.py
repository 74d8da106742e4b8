"""Adjustments of colour, grayscale, jpeg_distortion, normalize against Pillow, colorsys and exact formulas."""

from __future__ import annotations

import colorsys
import io
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageEnhance

from pipeplug import ArgumentError, Batch, Draws, SampleFailed, SpecError, eager, ops
from pipeplug.runtime.randomness import key_hash
from pipeplug_image.color_jitter import ColorJitter

WHITE = {"uint8": 255, "uint16": 65535, "float32": 1.0}
GREY = np.array([0.299, 0.587, 0.114])
MEAN, STD = (123.7, 116.3, 103.5), (58.4, 57.1, 57.4)


def brightness(x, factor, white):
    return (factor * x).clip(0, white)


def contrast(x, factor, white):
    return (factor * x + (1 - factor) * (x @ GREY).mean()).clip(0, white)


def saturation(x, factor, white):
    return (factor * x + (1 - factor) * (x @ GREY)[..., None]).clip(0, white)


def hue(x, turns, white):
    def turned(pixel):
        h, s, v = colorsys.rgb_to_hsv(*pixel)
        return colorsys.hsv_to_rgb((h + turns) % 1, s, v)

    return np.apply_along_axis(turned, 2, x / white) * white


STEPS = {"brightness": brightness, "contrast": contrast, "saturation": saturation, "hue": hue}
PILLOW = {"brightness": ImageEnhance.Brightness, "contrast": ImageEnhance.Contrast, "saturation": ImageEnhance.Color}


def bound(dtype, steps=1):
    return steps * (1e-5 if dtype == "float32" else 1)


def apart(a, b):
    return np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64)).max()


@pytest.mark.parametrize("dtype", sorted(WHITE))
@pytest.mark.parametrize("name", sorted(STEPS))
@given(amount=st.floats(0, 2))
@settings(max_examples=15)
def test_an_adjustment_is_its_formula_and_leaves_alpha(name, dtype, amount, noise):
    image = noise((9, 12, 4), dtype)
    argument = {"turns" if name == "hue" else "factor": amount}
    expected = STEPS[name](image[:, :, :3].astype(float), amount, WHITE[dtype])
    assert apart(getattr(ops.image, name)(image[:, :, :3], **argument), expected) <= bound(dtype)
    result = getattr(ops.image, name)(image, **argument).numpy()
    assert apart(result[:, :, :3], expected) <= bound(dtype)
    assert np.array_equal(result[:, :, 3], image[:, :, 3])


@pytest.mark.parametrize("name", sorted(PILLOW))
@given(factor=st.floats(0, 2))
@settings(max_examples=20)
def test_an_adjustment_by_a_factor_is_within_two_levels_of_pillow(name, factor, noise):
    image = noise((9, 12, 3))
    expected = PILLOW[name](Image.fromarray(image)).enhance(factor)
    assert apart(getattr(ops.image, name)(image, factor=factor), expected) <= 2


@pytest.mark.parametrize("count", [1, 3, 4])
def test_a_single_pixel_is_clamped_like_many(count):
    pixel = np.full((1, 1, count), 0.75, np.float32)
    colors = ops.image.brightness(pixel, factor=2).numpy()[0, 0, : min(count, 3)]
    assert colors.tolist() == [1.0] * len(colors)


@pytest.mark.parametrize("name", ["saturation", "hue"])
def test_grey_has_neither_saturation_nor_hue(name, noise):
    image = noise((9, 12, 1))
    assert np.array_equal(getattr(ops.image, name)(image, **{"turns" if name == "hue" else "factor": 0.3}), image)


@pytest.mark.parametrize("name", sorted(STEPS))
def test_amounts_vary_by_sample(name, noise, run):
    images, amounts = np.stack([noise((9, 12, 3))] * 4), np.array([0.0, 0.25, 0.5, 1.0])
    operator, argument = getattr(ops.image, name), "turns" if name == "hue" else "factor"
    out = run(lambda image, amount: operator(image, **{argument: amount}), images, amounts)["out"].numpy()
    for row, amount in enumerate(amounts):
        assert np.array_equal(out[row], operator(images[row], **{argument: amount}))
    eagerly = operator(Batch.equal(images), **{argument: Batch.equal(amounts)})
    assert np.array_equal(eagerly.numpy(), out)
    drawn = run(lambda image: operator(image, **{argument: ops.random.uniform(low=0.2, high=0.8)}), images)["out"]
    assert len({each.tobytes() for each in drawn.numpy()}) == 4


@pytest.mark.parametrize("name", ["brightness", "contrast", "saturation"])
def test_a_factor_is_not_negative(name, noise, run):
    operator, message = getattr(ops.image, name), "factor is a number from 0 on, got -0.5"
    with pytest.raises(ArgumentError, match=f"image.{name}: {message}"):
        operator(noise((8, 9, 3)), factor=-0.5)
    with pytest.raises(SampleFailed, match=f"image.{name} failed on row 0 .*: {message}"):
        run(lambda image, factor: operator(image, factor=factor), np.stack([noise((8, 9, 3))]), np.array([-0.5]))
    with pytest.raises(ArgumentError, match=r"image.hue: turns is a number, and a finite one, got nan"):
        ops.image.hue(noise((8, 9, 3)), turns=float("nan"))


@pytest.mark.parametrize("dtype", sorted(WHITE))
def test_jitter_is_its_steps_in_the_drawn_order(dtype, noise, run):
    images = np.stack([noise((9, 12, 3), dtype, seed=row) for row in range(20)])
    strengths: dict[str, Any] = {"brightness": 0.4, "contrast": (0.5, 0.9), "saturation": 2.0, "hue": 0.2}
    operator = ColorJitter(**strengths)
    drawn = operator.draw(Draws(4, key_hash("image.color_jitter"), 0, range(20)))
    low, high = np.array([[0.6, 0.5, 0, -0.2], [1.4, 0.9, 3, 0.2]])
    assert ((low <= drawn["amounts"]) & (drawn["amounts"] <= high)).all()
    assert len({tuple(order) for order in drawn["order"].tolist()}) > 10
    out = run(lambda image: ops.image.color_jitter(image, **strengths), images, seed=4)["out"].numpy()
    for result, image, amounts, order in zip(out, images, drawn["amounts"], drawn["order"], strict=True):
        for which in order:
            name = list(STEPS)[which]
            argument = {"turns" if name == "hue" else "factor": amounts[which]}
            image = getattr(ops.image, name)(image, **argument)
        assert np.array_equal(result, image)


@pytest.mark.parametrize("name", sorted(STEPS))
def test_each_jitter_works_alone(name, noise):
    image, strength = noise((9, 12, 3)), cast("dict[str, Any]", {name: 0.3})
    with eager(seed=2):
        result = ops.image.color_jitter(image, key="one", **strength)
    operator = ColorJitter(**strength)
    drawn = operator.draw(Draws(2, key_hash("one"), 0, [0]))
    amounts = dict(zip(STEPS, drawn["amounts"][0], strict=True))
    argument: dict[str, Any] = {"turns" if name == "hue" else "factor": amounts.pop(name)}
    assert np.array_equal(result, getattr(ops.image, name)(image, **argument))
    assert set(amounts.values()) <= {0.0, 1.0}


def test_jitter_of_nothing_changes_nothing(noise):
    image = noise((9, 12, 3))
    assert np.array_equal(ops.image.color_jitter(image), image)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"brightness": -0.1}, "brightness is a number from 0 on, or two rising ones, got -0.1"),
        ({"contrast": (0.9, 0.5)}, r"contrast is a number from 0 on, or two rising ones, got \(0.9, 0.5\)"),
        ({"saturation": (-0.5, 0.5)}, "saturation is a number from 0 on, or two rising ones"),
        ({"hue": 0.6}, "hue is a number from 0 to 0.5, or two rising ones from -0.5, got 0.6"),
        ({"hue": (0.2, 0.1)}, "hue is a number from 0 to 0.5, or two rising ones from -0.5"),
    ],
)
def test_strengths_of_jitter_are_checked(arguments, message, noise):
    with pytest.raises(ArgumentError, match=f"image.color_jitter: {message}"):
        ops.image.color_jitter(noise((8, 9, 3)), **arguments)


@pytest.mark.parametrize("dtype", sorted(WHITE))
@pytest.mark.parametrize("channels", [1, 3])
def test_grey_is_pillows(dtype, channels, noise):
    image = noise((9, 12, 4), dtype)
    expected = image[:, :, :3].astype(float) @ GREY
    for source in (image, image[:, :, :3]):
        grey = ops.image.grayscale(source, channels=channels).numpy()
        assert grey.shape == (9, 12, channels)
        assert np.array_equal(grey, np.repeat(grey[:, :, :1], channels, axis=2))
        assert apart(grey[:, :, 0], expected) <= {"uint8": 1, "uint16": 2, "float32": 1e-5}[dtype]
    if dtype == "uint8":
        assert apart(ops.image.grayscale(image).numpy()[:, :, 0], Image.fromarray(image[:, :, :3]).convert("L")) <= 1


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("quality", [1, 20, 75, 100])
def test_jpeg_distortion_is_a_pass_through_pillow(count, quality):
    y, x = np.mgrid[:37, :53]
    image = np.dstack((x * 4, y * 6, (x + y) * 2)).astype(np.uint8)[:, :, :count]
    file = io.BytesIO()
    Image.fromarray(image.squeeze()).save(file, "JPEG", quality=quality, subsampling="4:2:0")
    expected = np.asarray(Image.open(file)).reshape(image.shape)
    assert apart(ops.image.jpeg_distortion(image, quality=quality), expected) <= 1


def test_qualities_vary_by_sample_and_are_checked(run):
    y, x = np.mgrid[:16, :16]
    images, qualities = np.stack([np.dstack((x * 16, y * 16, x * y)).astype(np.uint8)] * 3), np.array([5, 50, 95])
    out = run(lambda image, quality: ops.image.jpeg_distortion(image, quality=quality), images, qualities)[
        "out"
    ].numpy()
    errors = [apart(result, image) for result, image in zip(out, images, strict=True)]
    assert errors[0] > errors[1] > errors[2]
    for quality, message in ((0, "quality is a number from 1 to 100, got 0"), (101, "from 1 to 100, got 101")):
        with pytest.raises(ArgumentError, match=message):
            ops.image.jpeg_distortion(images[0], quality=quality)
    with pytest.raises(SampleFailed, match=r"quality is a whole number, got 3[0-9.]+; draw one with"):
        run(lambda image: ops.image.jpeg_distortion(image, quality=ops.random.uniform(low=30, high=40)), images)
    drawn = run(lambda image: ops.image.jpeg_distortion(image, quality=ops.random.integer(low=5, high=40)), images)
    assert len({each.tobytes() for each in drawn["out"].numpy()}) > 1


@pytest.mark.parametrize("dtype", sorted(WHITE))
@pytest.mark.parametrize("layout", ["HWC", "CHW"])
@pytest.mark.parametrize("target", ["float32", "float16", "uint8", "int8", "int16", "uint16"])
@pytest.mark.parametrize("count", [1, 3, 4])
def test_normalising_is_its_formula(dtype, layout, target, count, noise):
    image = noise((9, 12, count), dtype)
    unit = WHITE[dtype] / 255
    mean, std = tuple(unit * each for each in (*MEAN, 0.0)[:count]), tuple(unit * each for each in (*STD, 9.0)[:count])
    scale, shift = (40.0, 60.5) if target in ("uint8", "int8", "int16", "uint16") else (1.0, 0.0)
    exact = scale * (image.astype(float) - mean) / std + shift
    result = ops.image.normalize(image, mean=mean, std=std, scale=scale, shift=shift, dtype=target, layout=layout)
    got = result.numpy().astype(float)
    got = got.transpose(1, 2, 0) if layout == "CHW" else got
    assert (result.dtype, result.layout) == (target, layout)
    if target.startswith("float"):
        assert np.abs(got - exact).max() <= np.finfo(target).eps * np.abs(exact).max() + 1e-6
    else:
        limits = np.iinfo(target)
        saturated = exact.clip(limits.min, limits.max)
        assert np.abs(got - saturated).max() <= 0.5 + 1e-3
        assert (image.dtype != "uint8") or np.array_equal(got, np.rint(exact).clip(limits.min, limits.max))


def test_one_mean_is_for_all_channels(noise):
    image = noise((9, 12, 3))
    one = ops.image.normalize(image, mean=100, std=2)
    assert np.array_equal(one, ops.image.normalize(image, mean=(100, 100, 100), std=(2.0,)))
    assert np.array_equal(ops.image.normalize(image), image.astype("float32"))


def test_numbers_for_other_channels_are_refused_as_soon_as_they_are_known(noise, run):
    with pytest.raises(
        SpecError, match=r"image.normalize at .*: mean has 3 numbers, but the image has 4 channels: give 1 or 4"
    ):
        ops.image.normalize(noise((8, 9, 4)), mean=MEAN)
    with pytest.raises(SpecError, match=r"image.normalize at .*: std has 3 numbers, but the image has 1 channels"):
        run(lambda image: ops.image.normalize(image, std=STD), np.stack([noise((8, 9, 1))]))
    with pytest.raises(
        SampleFailed, match=r"image.normalize failed on item 0 .*std has 3 numbers, but the image has 1 "
    ):
        run(lambda image: ops.image.normalize(image, std=STD), [noise((8, 9, 1))])
    for wrong in ({"std": 0}, {"std": (1, 0, 1)}, {"scale": 0}):
        with pytest.raises(ArgumentError, match=r"image.normalize: std and scale are not 0, got std="):
            ops.image.normalize(noise((8, 9, 3)), **wrong)
    with pytest.raises(ArgumentError, match=r"takes 'float32' | .*, got 'float64'"):
        ops.image.normalize(noise((8, 9, 3)), dtype="float64")
