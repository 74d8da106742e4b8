"""Resize, rotate, affine, gaussian_blur against Pillow, OpenCV and SciPy."""

from __future__ import annotations

from fractions import Fraction
from math import cos, radians, sin

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy.ndimage import convolve1d, map_coordinates

from pipeplug import ArgumentError, Batch, SampleFailed, ops

FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "linear": Image.Resampling.BILINEAR,
    "cubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}
WHITE = {"uint8": 255, "uint16": 65535, "float32": 1.0}
sides = st.integers(1, 40)


def apart(a, b):
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    assert a.shape == b.shape
    return np.abs(a - b).max()


def by_plane(image, function):
    return np.stack([function(plane) for plane in np.moveaxis(image, 2, 0)], axis=2)


@given(height=sides, width=sides, size=st.tuples(sides, sides), name=st.sampled_from(sorted(FILTERS)))
@settings(max_examples=60)
def test_a_resize_is_pillows(height, width, size, name, noise):
    image = noise((height, width, 3))
    expected = Image.fromarray(image).resize(size[::-1], FILTERS[name], reducing_gap=None)
    assert apart(ops.image.resize(image, size=size, interpolation=name), expected) <= (name != "nearest")


@given(height=sides, width=sides, size=st.tuples(sides, sides), count=st.sampled_from([1, 4]))
@settings(max_examples=40)
def test_a_resize_of_float32_is_pillows_plane_by_plane(height, width, size, count, noise):
    image = noise((height, width, count), "float32")
    expected = by_plane(
        image, lambda plane: np.asarray(Image.fromarray(plane).resize(size[::-1], Image.Resampling.BILINEAR))
    )
    assert apart(ops.image.resize(image, size=size), expected) <= 1 / 255


@given(height=sides, width=sides, size=st.tuples(sides, sides), dtype=st.sampled_from(["uint8", "uint16"]))
@settings(max_examples=60)
def test_a_linear_resize_without_antialias_is_opencvs(height, width, size, dtype, noise):
    image = noise((height, width, 3), dtype)
    expected = cv2.resize(image, size[::-1], interpolation=cv2.INTER_LINEAR)
    assert apart(ops.image.resize(image, size=size, antialias=False), expected) <= 1


@given(
    height=st.integers(1, 99),
    width=st.integers(1, 99),
    wanted=st.integers(1, 50),
    by=st.sampled_from(["shorter", "longer"]),
)
def test_the_other_side_keeps_the_ratio_rounded_down(height, width, wanted, by, noise):
    side = (min if by == "shorter" else max)(height, width)
    expected = tuple(max(1, int(Fraction(n * wanted, side))) for n in (height, width))
    result = ops.image.resize(noise((height, width, 1)), **{by: wanted}, interpolation="nearest")
    assert result.shape[:2] == expected
    assert result.shape[:2][(height, width).index(side)] == wanted


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, r"image.resize: give one of size=\(height, width\), shorter= and longer="),
        ({"size": (3, 3), "shorter": 3}, "give one of"),
        ({"shorter": 0}, "a size is at least 1, got 0"),
        ({"longer": -3}, "a size is at least 1, got -3"),
        ({"size": (3, 0)}, r"a size is at least 1, got \(3, 0\)"),
        ({"size": 3}, r"takes tuple\[int, int\] | None, got 3"),
        (
            {"size": (3, 3), "interpolation": "bicubic"},
            "takes 'nearest' | 'linear' | 'cubic' | 'lanczos', got 'bicubic'",
        ),
    ],
)
def test_arguments_of_a_resize_are_checked(arguments, message, noise):
    with pytest.raises(ArgumentError, match=message):
        ops.image.resize(noise((8, 9, 3)), **arguments)


def mapped(image, matrix, size, order=1, fill=0.0):
    """SciPy's interpolation in float64 of an image that goes on with `fill`."""
    margin = 150
    y, x = np.mgrid[: size[0], : size[1]] + 0.5
    places = np.tensordot(np.array(matrix), np.stack((x, y, np.ones_like(x))), 1)[::-1] - 0.5 + margin
    return by_plane(
        image,
        lambda plane: map_coordinates(np.pad(plane.astype(float), margin, constant_values=fill), places, order=order),
    )


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
@given(angle=st.floats(-720, 720), count=st.sampled_from([1, 3, 4]))
@settings(max_examples=25)
def test_a_rotation_turns_counter_clockwise_about_the_centre(dtype, angle, count, noise):
    image = noise((21, 30, count), dtype)
    c, s = cos(radians(angle)), sin(radians(angle))
    # Rows grow downwards, so that a point of the upright output comes from the one turned clockwise on the screen.
    matrix = [[c, -s, 15 - c * 15 + s * 10.5], [s, c, 10.5 - s * 15 - c * 10.5]]
    bound = {"uint8": 1, "uint16": 10, "float32": 1e-4}[dtype]
    result = ops.image.rotate(image, angle=angle, fill=WHITE[dtype] / 5)
    assert apart(result, mapped(image, matrix, (21, 30), fill=WHITE[dtype] / 5)) <= bound


@pytest.mark.parametrize("quarters", range(-5, 6))
def test_quarter_turns_are_exact_and_pillows(quarters, noise):
    image = noise((21, 30, 3))
    turned = ops.image.rotate(image, angle=90 * quarters, expand=True)
    assert np.array_equal(turned, np.rot90(image, quarters))
    assert np.array_equal(turned, np.asarray(Image.fromarray(image).rotate(90 * quarters, expand=True)))


def test_expanding_holds_all_of_the_image(noise):
    image = np.full((21, 30, 1), 200, np.uint8)
    turned = ops.image.rotate(image, angle=33, expand=True)
    c, s = cos(radians(33)), sin(radians(33))
    assert turned.shape == (int(21 * c + 30 * s) + 1, int(30 * c + 21 * s) + 1, 1)
    assert abs(turned.numpy().astype(float).sum() / 200 - 21 * 30) < 3


@given(
    matrix=st.tuples(*[st.tuples(st.floats(-1.5, 1.5), st.floats(-1.5, 1.5), st.floats(-9, 9))] * 2),
    size=st.one_of(st.none(), st.tuples(sides, sides)),
)
@settings(max_examples=40)
def test_an_affine_map_goes_from_output_to_input(matrix, size, noise):
    image = noise((21, 30, 3))
    result = ops.image.affine(image, matrix=matrix, size=size, fill=99)
    assert apart(result, mapped(image, matrix, size or (21, 30), fill=99)) <= 1


@pytest.mark.parametrize("interpolation", ["nearest", "linear", "cubic"])
def test_the_identity_changes_nothing(interpolation, noise):
    image = noise((21, 30, 3))
    matrix = ((1, 0, 0), (0, 1, 0))
    assert np.array_equal(ops.image.affine(image, matrix=matrix, interpolation=interpolation), image)
    assert np.array_equal(ops.image.rotate(image, angle=0, interpolation=interpolation), image)


def test_angles_and_matrices_vary_by_sample(noise, run):
    images = np.stack([noise((9, 12, 3), seed=row) for row in range(3)])
    angles, matrices = np.array([0.0, 90.0, -30.0]), np.array([[[1, 0, k], [0, 1, -k]] for k in range(3)], float)
    turned = run(lambda image, angle: ops.image.rotate(image, angle=angle), images, angles)["out"].numpy()
    moved = run(lambda image, matrix: ops.image.affine(image, matrix=matrix), images, matrices)["out"].numpy()
    for row, image in enumerate(images):
        assert np.array_equal(turned[row], ops.image.rotate(image, angle=angles[row]))
        assert np.array_equal(moved[row], ops.image.affine(image, matrix=matrices[row].tolist()))
    assert np.array_equal(ops.image.rotate(Batch.equal(images), angle=Batch.equal(angles)).numpy(), turned)


def test_an_angle_drawn_is_between_its_bounds(noise, run):
    ramp = np.tile(np.arange(40, dtype=np.float32)[None, None, :, None] / 40, (50, 40, 1, 1))

    def turned(image):
        return ops.image.rotate(image, angle=ops.random.uniform(low=-10, high=10), border="edge")

    out = run(turned, ramp)["out"].numpy()[..., 0].astype(float)
    slopes = [np.degrees(np.arctan2(rows[30, 20] - rows[10, 20], rows[20, 30] - rows[20, 10])) for rows in out]
    assert len({round(slope, 3) for slope in slopes}) == 50
    assert max(map(abs, slopes)) <= 10.01
    assert max(slopes) > 5 > -5 > min(slopes)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
@given(sigma=st.floats(0.2, 4), count=st.sampled_from([1, 3, 4]))
@settings(max_examples=20)
def test_a_blur_is_scipys_convolution(dtype, sigma, count, noise):
    image = noise((30, 23, count), dtype)
    radius = int(np.ceil(3 * sigma))
    taps = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2)
    expected = image.astype(float)
    for axis in (0, 1):
        expected = convolve1d(expected, taps / taps.sum(), axis, mode="mirror")
    bound = 1 if dtype != "float32" else 1e-6
    assert apart(ops.image.gaussian_blur(image, sigma=sigma), expected) <= bound


def test_sigmas_vary_by_sample_and_zero_is_none(noise, run):
    images = np.stack([noise((9, 12, 3), seed=row) for row in range(3)])
    sigmas = np.array([0.0, 0.8, 2.0])
    out = run(lambda image, sigma: ops.image.gaussian_blur(image, sigma=sigma), images, sigmas)["out"].numpy()
    assert np.array_equal(out[0], images[0])
    for row in (1, 2):
        assert np.array_equal(out[row], ops.image.gaussian_blur(images[row], sigma=sigmas[row]))


@pytest.mark.parametrize(
    ("name", "argument", "wrong", "message"),
    [
        ("gaussian_blur", "sigma", -1.0, "sigma is a number from 0 on, got -1"),
        ("gaussian_blur", "sigma", np.nan, "sigma is a number from 0 on, got nan"),
        ("rotate", "angle", np.inf, "angle is a number, and a finite one, got inf"),
    ],
)
def test_numbers_out_of_bounds_are_named(name, argument, wrong, message, noise, run):
    operator = getattr(ops.image, name)
    with pytest.raises(ArgumentError, match=f"image.{name}: {message}"):
        operator(noise((8, 9, 3)), **{argument: wrong})
    columns = np.stack([noise((8, 9, 3))] * 2), np.array([1.0, wrong])
    with pytest.raises(SampleFailed, match=f"image.{name} failed on row 1 .*ArgumentError: {message}"):
        run(lambda image, value: operator(image, **{argument: value}), *columns)
    with pytest.raises(SampleFailed, match=f"{argument} is one number a sample, got array"):
        run(lambda image, value: operator(image, **{argument: value}), columns[0], np.ones((2, 2)))


def test_other_arguments_of_warps_and_blurs_are_checked(noise, run):
    image = noise((8, 9, 3))
    with pytest.raises(ArgumentError, match=r"image.gaussian_blur: kernel_size is odd and positive, got 4"):
        ops.image.gaussian_blur(image, sigma=1, kernel_size=4)
    with pytest.raises(ArgumentError, match=r"image.affine: size is at least \(1, 1\), got \(0, 3\)"):
        ops.image.affine(image, matrix=((1, 0, 0), (0, 1, 0)), size=(0, 3))
    with pytest.raises(ArgumentError, match=r"image.affine.*matrix=….* takes tuple\[tuple\[float, float, float\]"):
        ops.image.affine(image, matrix=((1, 0), (0, 1)))
    with pytest.raises(SampleFailed, match=r"image.affine failed on item 0 .*a finite 2x3 matrix, got \[\[nan"):
        run(lambda image, matrix: ops.image.affine(image, matrix=matrix), [image], [np.full((2, 3), np.nan)])
