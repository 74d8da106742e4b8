"""Flip, pad, erase, transpose, cast: pixels move or are replaced, values are exact."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from PIL import Image, ImageOps

from pipeplug import ArgumentError, Batch, SampleFailed, SpecError, Tensor, ops

NUMPY_BORDERS: dict[str, Any] = {
    "constant": "constant",
    "edge": "edge",
    "reflect_101": "reflect",
    "reflect_1001": "symmetric",
    "wrap": "wrap",
}
DTYPES = ("uint8", "int8", "uint16", "int16", "int32", "float16", "float32", "float64")


def test_flips_are_pillows(noise):
    image = noise((7, 10, 3))
    mirrored, flipped = (np.asarray(turn(Image.fromarray(image))) for turn in (ImageOps.mirror, ImageOps.flip))
    assert np.array_equal(ops.image.flip(image, probability=1), mirrored)
    assert np.array_equal(ops.image.flip(image, probability=1, direction="vertical"), flipped)
    assert np.array_equal(ops.image.flip(image, probability=0), image)


def test_flips_happen_as_often_as_asked(run):
    ramp = np.tile(np.arange(3, dtype=np.uint8)[None, None, :, None], (2000, 1, 1, 1))
    flipped = run(lambda image: ops.image.flip(image, probability=0.3), ramp)["out"].numpy()[:, 0, 0, 0] == 2
    assert abs(flipped.mean() - 0.3) < 0.04


@given(
    margins=st.tuples(*[st.integers(0, 9)] * 4),
    border=st.sampled_from(sorted(NUMPY_BORDERS)),
    count=st.sampled_from([1, 3, 4]),
)
def test_padding_is_numpys(margins, border, count, noise):
    image = noise((3, 4, count), "uint16")
    top, bottom, left, right = margins
    fill: dict[str, Any] = {"constant_values": 513} if border == "constant" else {}
    expected = np.pad(image, ((top, bottom), (left, right), (0, 0)), mode=NUMPY_BORDERS[border], **fill)
    assert np.array_equal(ops.image.pad(image, margins=margins, border=border, fill=513), expected)


def test_a_fill_may_have_a_value_a_channel_and_saturates(noise):
    image = noise((3, 4, 3))
    padded = ops.image.pad(image, margins=(1, 0, 0, 0), fill=(1, 2, 300)).numpy()
    assert padded[0].tolist() == [[1, 2, 255]] * 4
    erased = ops.image.erase(image, boxes=[(0, 0, 1, 4)], fill=(1, -2, 300)).numpy()
    assert erased[0].tolist() == [[1, 0, 255]] * 4


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("pad", {"margins": (1, 1, 1, 1)}),
        ("erase", {"boxes": [(0, 0, 1, 1)]}),
        ("rotate", {"angle": 3}),
        ("affine", {"matrix": ((1, 0, 0), (0, 1, 0))}),
    ],
)
def test_a_fill_for_another_number_of_channels_is_refused_before_anything_runs(name, arguments, noise):
    message = rf"image.{name} at .*: fill has 2 numbers, but the image has 3 channels: give 1 or 3"
    with pytest.raises(SpecError, match=message):
        getattr(ops.image, name)(noise((3, 4, 3)), **arguments, fill=(1, 2))


def test_margins_are_not_negative(noise):
    with pytest.raises(ArgumentError, match=r"margins are not negative, got \(-1, 0, 0, 0\); crop instead"):
        ops.image.pad(noise((3, 4, 3)), margins=(-1, 0, 0, 0))


boxes_of = st.lists(st.tuples(*[st.integers(-5, 12)] * 2, *[st.integers(0, 12)] * 2), max_size=4)


@given(boxes=boxes_of, dtype=st.sampled_from(["uint8", "uint16", "float32"]), count=st.sampled_from([1, 3, 4]))
def test_erasing_fills_each_pixel_inside_a_box(boxes, dtype, count, noise):
    image = noise((8, 9, count), dtype)
    y, x = np.mgrid[:8, :9]
    inside = np.zeros((8, 9), bool)
    for top, left, height, width in boxes:
        inside |= (top <= y) & (y < top + height) & (left <= x) & (x < left + width)
    expected = np.where(inside[:, :, None], np.array(0.75 if dtype == "float32" else 77, dtype), image)
    assert np.array_equal(ops.image.erase(image, boxes=boxes, fill=0.75 if dtype == "float32" else 77), expected)


def test_boxes_vary_by_sample_and_in_number(noise, run):
    images = [noise((8, 9, 3), seed=row) for row in range(3)]
    boxes = [np.array([[0, 0, 2, 2], [5, 5, 1, 1]]), np.zeros((0, 4), int), np.array([1, 2, 3, 4])]
    out = run(lambda image, each: ops.image.erase(image, boxes=each, fill=9), images, boxes)["out"]
    for result, image, each in zip(out, images, boxes, strict=True):
        rows = [tuple(row) for row in each.reshape(-1, 4).tolist()]
        assert np.array_equal(result, ops.image.erase(image, boxes=rows, fill=9))
    assert np.array_equal(np.asarray(out[1]), images[1])


@pytest.mark.parametrize("wrong", [np.array([[0.5, 0, 2, 2]]), np.array([[0, 0, 2]]), np.zeros((1, 1, 4), int)])
def test_boxes_that_are_none_are_named(wrong, noise, run):
    with pytest.raises(SampleFailed, match=r"boxes are rows of y, x, height and width in whole pixels, got .*array"):
        run(lambda image, each: ops.image.erase(image, boxes=each), [noise((8, 9, 3))], [wrong])


@given(data=st.data(), letters=st.permutations("FHWC").map("".join))
def test_transposing_is_numpys(data, letters):
    values = data.draw(arrays(np.int16, (2, 3, 4, 5), elements=st.integers(-9, 9)))
    result = ops.image.transpose(Tensor(values, "FHWC"), layout=letters)
    assert np.array_equal(result, values.transpose(["FHWC".index(letter) for letter in letters]))
    assert result.layout == letters
    assert result.numpy().flags.c_contiguous


def test_three_dimensions_without_a_layout_are_height_width_channels(noise, run):
    image = noise((5, 7, 3))
    assert np.array_equal(ops.image.transpose(image, layout="CHW"), image.transpose(2, 0, 1))
    there_and_back = run(lambda x: ops.image.transpose(ops.image.transpose(x, layout="CWH"), layout="HWC"), [image])
    assert np.array_equal(there_and_back["out"][0], image)
    assert there_and_back["out"].layout == "HWC"


@pytest.mark.parametrize(
    ("values", "layout", "message"),
    [
        (b"JPEG", "CHW", "needs numbers, got a Python object; decode it first"),
        (np.zeros((2, 3)), "WH", r"needs a layout, got float64 \(2, 3\); eager calls take Tensor\(array, layout\)"),
        (np.zeros((2, 3, 4)), "HW", "cannot bring layout HWC to HW: the letters differ"),
        (Tensor(np.zeros((2, 3)), "FT"), "TC", "cannot bring layout FT to TC: the letters differ"),
    ],
)
def test_layouts_that_do_not_fit_are_named(values, layout, message):
    with pytest.raises(SpecError, match=rf"image.transpose at .*: {message}"):
        ops.image.transpose(values, layout=layout)


@pytest.mark.parametrize("layout", ["", "HWW"])
def test_a_layout_names_each_dimension_once(layout, noise):
    with pytest.raises(ArgumentError, match=rf"a layout names each dimension once, got '{layout}'"):
        ops.image.transpose(noise((2, 3, 3)), layout=layout)


def exactly_cast(value: Any, dtype: str, scale: float) -> Any:
    """Rational numbers, rounded half to even and saturated."""
    exact = Fraction(value.item()) * Fraction(scale)
    limits = np.iinfo(dtype)
    return min(max(round(exact), limits.min), limits.max)


@given(
    data=st.data(),
    source=st.sampled_from([*DTYPES, "int64", "uint32", "bool"]),
    scale=st.sampled_from([1.0, 0.5, -2.0]),
)
@settings(max_examples=150)
def test_casts_to_integers_round_half_to_even_and_saturate(data, source, scale):
    shape = data.draw(st.one_of(st.just(()), array_shapes(min_dims=1, max_dims=5, max_side=4), st.just((0, 3))))
    elements: dict[str, Any] = {"min_value": -(2**20), "max_value": 2**20} if source[:5] in ("int64", "uint3") else {}
    if source == "uint32":
        elements["min_value"] = 0
    if source.startswith("float"):
        elements = {
            "allow_nan": False,
            "allow_infinity": False,
            "allow_subnormal": False,
            "min_value": -1e4,
            "max_value": 1e4,
        }
    values = data.draw(arrays(source, shape, elements=elements))
    dtype = data.draw(st.sampled_from(["uint8", "int8", "uint16", "int16", "int32"]))
    result = ops.image.cast(values, dtype=dtype, scale=scale)
    expected = [exactly_cast(each, dtype, scale) for each in values.ravel()]
    assert result.dtype == dtype
    assert result.shape == shape
    # float32 work may bring a value that lies next to a half to its other side
    tolerance = 1 if source == "float32" and scale != 1 else 0
    assert np.abs(result.numpy().ravel().astype(np.int64) - np.array(expected, np.int64)).max(initial=0) <= tolerance


@given(data=st.data(), source=st.sampled_from(["uint8", "int32", "float32", "float64", "bool"]))
def test_casts_to_floats_are_numpys(data, source):
    elements: dict[str, Any] = (
        {"min_value": -9999, "max_value": 9999} if source in ("int32", "float32", "float64") else {}
    )
    shape = data.draw(array_shapes(min_dims=0, max_dims=4, max_side=4))
    values = data.draw(arrays(source, shape, elements=elements))
    for dtype in ("float16", "float32", "float64"):
        assert np.array_equal(ops.image.cast(values, dtype=dtype), values.astype(dtype))


def test_casts_keep_layouts_scale_labels_and_saturate_infinities(run):
    assert ops.image.cast(Tensor(np.zeros((3, 2, 2), np.uint8), "CHW"), dtype="float32").layout == "CHW"
    labels = run(lambda label: ops.image.cast(label, dtype="float32", scale=0.5), np.arange(5))["out"]
    assert labels.numpy().tolist() == [0, 0.5, 1, 1.5, 2]
    ends = ops.image.cast(np.array([np.inf, -np.inf], np.float32), dtype="uint8")
    assert ends.numpy().tolist() == [255, 0]
    assert ops.image.cast(np.full((2, 2, 3), 65535, np.uint16), dtype="uint8", scale=1 / 257).numpy().min() == 255


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (b"JPEG", "needs numbers, got a Python object; decode it first"),
        (np.zeros(3, complex), "needs real numbers, got complex128; take their parts with ops.map"),
    ],
)
def test_what_cannot_be_cast_is_named(values, message):
    with pytest.raises(SpecError, match=rf"image.cast at .*: {message}"):
        ops.image.cast(values, dtype="float32")


def test_a_batch_of_objects_is_no_batch_of_images():
    with pytest.raises(SpecError, match=r"image.flip at .*: needs an image, got a Python object; decode it first"):
        ops.image.flip(Batch.objects([b"a"]))
