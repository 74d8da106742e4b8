from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from pipeplug_image.codecs.convert import orient
from pipeplug_image.codecs.exif import exif_orientation, inverse, stored_box, xmp_orientation


def upright(stored, orientation):
    image = Image.fromarray(stored)
    image.getexif()[0x0112] = orientation
    return np.asarray(ImageOps.exif_transpose(image))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_orienting_equals_pillow(orientation, channels, dtype):
    stored = np.arange(5 * 7, dtype=np.uint8).reshape(5, 7)
    planes = np.stack([stored + 40 * c for c in range(channels)], axis=2).astype(dtype)
    planes.setflags(write=False)
    result = orient(planes, orientation)
    expected = np.stack([upright(planes[:, :, c].astype(np.uint8), orientation) for c in range(channels)], axis=2)
    assert result.dtype == dtype
    assert np.array_equal(result, expected)
    out = np.empty_like(result)
    assert orient(planes, orientation, out) is out
    assert np.array_equal(out, expected)
    assert np.array_equal(orient(result, inverse(orientation)), planes)


@given(st.data(), st.integers(1, 8), st.integers(1, 12), st.integers(1, 12))
def test_a_box_of_the_upright_picture_lies_where_its_pixels_are_stored(data, orientation, height, width):
    stored = np.arange(height * width, dtype=np.uint8).reshape(height, width)
    turned = upright(stored, orientation)
    y, x = (data.draw(st.integers(0, side - 1)) for side in turned.shape)
    h, w = (data.draw(st.integers(1, side - at)) for side, at in zip(turned.shape, (y, x), strict=True))
    top, left, rows, columns = stored_box((y, x, h, w), orientation, height, width)
    part = stored[top : top + rows, left : left + columns, None]
    assert np.array_equal(orient(part, orientation)[:, :, 0], turned[y : y + h, x : x + w])


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("kind", "size"), [(1, "B"), (3, "H"), (4, "I")])
def test_an_orientation_is_read_in_either_byte_order(order, kind, size):
    value = struct.pack(order + size, 6).ljust(4, b"\0")
    block = {"<": b"II*\0", ">": b"MM\0*"}[order] + struct.pack(order + "IHHHI", 8, 1, 0x0112, kind, 1) + value
    assert exif_orientation(block) == 6
    assert exif_orientation(b"note" + block, 4) == 6


@pytest.mark.parametrize(
    "block", [b"", b"II", b"II*\0\xff\xff\xff\xff", b"XX*\0\x08\0\0\0", b"II*\0\x08\0\0\0\x01\0\x12"]
)
def test_a_damaged_block_names_none(block):
    assert exif_orientation(block) is None


def test_an_impossible_orientation_changes_nothing():
    assert exif_orientation(b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x63\0\0\0") == 1
    assert xmp_orientation(b'tiff:Orientation="9"') == 1
    assert xmp_orientation(b"nothing") is None
