from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.ndimage import map_coordinates

from pipeplug import ArgumentError
from pipeplug_image.kernels.warp import affine, rotate, rotated_size

NUMPY_BORDERS: dict[str, Any] = {
    "constant": "constant",
    "edge": "edge",
    "reflect_101": "reflect",
    "reflect_1001": "symmetric",
    "wrap": "wrap",
}
MARGIN = 200


def smooth(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(2).integers(0, 256, shape, np.uint8)


def exact(image, matrix, size, border="constant", fill=0.0, order=1):
    """SciPy's interpolation in float64 on an image that NumPy has padded."""
    y, x = np.mgrid[: size[0], : size[1]] + 0.5
    places = np.tensordot(np.array(matrix), np.stack((x, y, np.ones_like(x))), 1)[::-1] - 0.5 + MARGIN
    extra: dict[str, Any] = {"constant_values": fill} if border == "constant" else {}
    planes = [
        map_coordinates(np.pad(plane.astype(float), MARGIN, mode=NUMPY_BORDERS[border], **extra), places, order=order)
        for plane in np.moveaxis(np.atleast_3d(image), 2, 0)
    ]
    return np.stack(planes, 2).reshape(*size, *image.shape[2:])


@pytest.mark.parametrize("border", sorted(NUMPY_BORDERS))
@pytest.mark.parametrize("shape", [(31, 40, 3), (40, 31, 1), (23, 27, 4), (17, 30)])
@pytest.mark.parametrize("matrix", [[[0.9, -0.3, 4.2], [0.2, 1.1, -3.7]], [[1.7, 0, 0], [0.3, 0.4, 9]]])
def test_linear_maps_are_within_a_level(border, shape, matrix):
    image = smooth(shape)
    ours = affine(image, matrix, size=(35, 33), border=border, fill=50)
    assert np.abs(ours - exact(image, matrix, (35, 33), border, 50)).max() <= 1


@pytest.mark.parametrize(("dtype", "white", "bound"), [("uint16", 65535, 10), ("float32", 1.0, 1e-4)])
def test_other_dtypes(dtype, white, bound):
    image = (np.random.default_rng(0).random((31, 40, 3)) * white).astype(dtype)
    matrix = [[0.9, -0.3, 4.2], [0.2, 1.1, -3.7]]
    ours = affine(image, matrix, border="edge")
    assert ours.dtype == dtype
    assert np.abs(ours - exact(image, matrix, (31, 40), "edge")).max() <= bound


def test_nearest_takes_the_pixel_that_holds_the_place():
    image = smooth((31, 40, 3))
    matrix = [[0.913, -0.307, 4.2171], [0.2039, 1.107, -3.7113]]
    ours = affine(image, matrix, interpolation="nearest", border="edge")
    assert np.array_equal(ours, exact(image, matrix, (31, 40), "edge", order=0))


def test_cubic_by_hand():
    line = np.array([[0.1, 0.2, 0.9, 0.4, 0.5, 0.6]], np.float32)
    half = affine(line, np.array([[1, 0, 0.5], [0, 1, 0]]), interpolation="cubic", border="edge")
    # Weights of a = -0.75 halfway: (-3, 19, 19, -3) / 32.
    assert half[0, 2] == pytest.approx((-3 * 0.2 + 19 * 0.9 + 19 * 0.4 - 3 * 0.5) / 32, abs=1e-6)


@given(st.integers(1, 30), st.integers(1, 30), st.sampled_from([1, 3, 4]), st.integers(-4, 4))
def test_quarter_turns_are_exact_and_counter_clockwise(height, width, channels, quarters):
    image = smooth((height, width, channels))
    assert np.array_equal(rotate(image, 90.0 * quarters, expand=True), np.rot90(image, quarters))


@pytest.mark.parametrize("angle", [17.0, -30.0, 123.0, 260.5])
@pytest.mark.parametrize("size", [None, (50, 20)])
def test_rotation_about_the_centre(angle, size):
    image = smooth((31, 40, 3))
    ours = rotate(image, angle, size=size, border="edge")
    height, width = size or (31, 40)
    turn = np.exp(1j * np.radians(angle))  # y grows downwards: the input of a place is what the angle turns it to
    columns = [[turn.real, -turn.imag], [turn.imag, turn.real]]
    offset = np.array([20, 15.5]) - np.array(columns) @ [width / 2, height / 2]
    reference = exact(image, np.column_stack((columns, offset)), (height, width), "edge")
    assert np.abs(ours - reference).max() <= 1


@given(st.integers(1, 60), st.integers(1, 60), st.floats(-720, 720))
def test_the_expanded_size_holds_the_corners(height, width, angle):
    rows, columns = rotated_size((height, width), angle)
    corner = np.abs(np.exp(1j * np.radians(angle)))
    assert corner == pytest.approx(1)
    turned = np.array([width + 1j * height, width - 1j * height]) * np.exp(1j * np.radians(angle))
    assert columns == pytest.approx(np.abs(turned.real).max() + 0.5, abs=0.5 + 1e-5)
    assert rows == pytest.approx(np.abs(turned.imag).max() + 0.5, abs=0.5 + 1e-5)


def test_out_is_written_in_place():
    image = smooth((31, 40, 3))
    batch = np.zeros((2, 31, 40, 3), np.uint8)
    out = batch[1]
    assert rotate(image, 30, fill=(1, 2, 3), out=out) is out
    assert np.array_equal(batch[1], rotate(image, 30, fill=(1, 2, 3)))
    assert batch[1, 0, 0].tolist() == [1, 2, 3]


def test_a_matrix_of_another_kind():
    with pytest.raises(ArgumentError, match="finite 2x3 matrix"):
        affine(smooth((4, 4)), np.eye(3))
    with pytest.raises(ArgumentError, match="finite 2x3 matrix"):
        affine(smooth((4, 4)), np.array([[1, 0, np.nan], [0, 1, 0]]))
