from __future__ import annotations

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from pipeplug import ArgumentError, SpecError
from pipeplug_image.kernels.resample import resize

FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "linear": Image.Resampling.BILINEAR,
    "cubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}
sides = st.integers(1, 70)


def noise(shape: tuple[int, ...], dtype: str = "uint8", seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    if dtype == "float32":
        return random.random(shape, np.float32)
    return random.integers(0, np.iinfo(dtype).max + 1, shape, dtype)


def pillow(image: np.ndarray, size, interpolation, box=None) -> np.ndarray:
    """Channel by channel, in Pillow's mode of one channel."""
    y, x, height, width = box or (0, 0, *image.shape[:2])
    planes = [
        np.asarray(Image.fromarray(plane).resize(size[::-1], FILTERS[interpolation], (x, y, x + width, y + height)))
        for plane in np.moveaxis(np.atleast_3d(image), 2, 0)
    ]
    return np.stack(planes, axis=2).reshape(*size, *image.shape[2:])


def exact_linear(image: np.ndarray, size, box=None) -> np.ndarray:
    y, x, height, width = box or (0, 0, *image.shape[:2])
    pixels = image.astype(np.float64)
    for axis, (start, length) in enumerate(((y, height), (x, width))):
        places = (start + (np.arange(size[axis]) + 0.5) * length / size[axis] - 0.5).clip(0, image.shape[axis] - 1)
        low = np.floor(places).astype(int)
        high = np.minimum(low + 1, image.shape[axis] - 1)
        part = (places - low).reshape([-1 if a == axis else 1 for a in range(image.ndim)])
        pixels = pixels.take(low, axis) * (1 - part) + pixels.take(high, axis) * part
    return pixels


def difference(a: np.ndarray, b: np.ndarray) -> float:
    assert a.shape == b.shape
    return float(np.abs(a.astype(np.float64) - b).max())


@given(sides, sides, sides, sides, st.sampled_from([1, 3, 4]), st.sampled_from(sorted(FILTERS)))
def test_antialiased_equals_pillow(height, width, rows, columns, channels, interpolation):
    image = noise((height, width, channels))
    ours = resize(image, (rows, columns), interpolation=interpolation)
    assert difference(ours, pillow(image, (rows, columns), interpolation)) <= (0 if interpolation == "nearest" else 1)


@given(st.integers(1, 3000), st.integers(1, 3000))
def test_nearest_takes_pillows_pixel(length, count):
    image = np.arange(length, dtype=np.float32)[None]
    assert np.array_equal(resize(image, (1, count), interpolation="nearest"), pillow(image, (1, count), "nearest"))


@given(
    st.tuples(st.integers(4, 60), st.integers(4, 60)),
    st.tuples(sides, sides),
    st.lists(st.floats(0, 1), min_size=4, max_size=4),
    st.sampled_from(["linear", "cubic", "lanczos"]),
)
def test_a_fractional_box_equals_pillow(shape, size, parts, interpolation):
    (height, width), (a, b, c, d) = shape, parts
    box = (a * (height - 2), b * (width - 2), 1 + c * (height - 2) * (1 - a), 1 + d * (width - 2) * (1 - b))
    image = noise((*shape, 3))
    ours = resize(image, size, interpolation=interpolation, box=box)
    assert difference(ours, pillow(image, size, interpolation, box)) <= 1


@given(sides, sides, sides, sides, st.sampled_from([1, 3, 4]))
def test_linear_without_antialiasing(height, width, rows, columns, channels):
    image = noise((height, width, channels))
    ours = resize(image, (rows, columns), antialias=False)
    assert difference(ours, exact_linear(image, (rows, columns))) <= 1
    theirs = cv2.resize(image, (columns, rows), interpolation=cv2.INTER_LINEAR).reshape(ours.shape)
    assert difference(ours, theirs) <= 1


@pytest.mark.parametrize("box", [(3, 5, 40, 31), (3.25, 5.5, 40.5, 31.25), (0, 0, 10, 12), (50, 60, 7, 3)])
@pytest.mark.parametrize("size", [(20, 15), (90, 101)])
def test_linear_without_antialiasing_in_a_box(box, size):
    image = noise((57, 63, 3))
    assert difference(resize(image, size, antialias=False, box=box), exact_linear(image, size, box)) <= 1


@pytest.mark.parametrize(("dtype", "bound"), [("uint16", 1.5), ("float32", 2e-6)])
@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("size", [(31, 29), (80, 90)])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_other_dtypes(dtype, bound, antialias, size, channels):
    image = noise((61, 47, channels), dtype)
    ours = resize(image, size, antialias=antialias)
    if antialias:
        reference = pillow(image.astype(np.float32), size, "linear")
    else:
        reference = exact_linear(image, size)
    assert ours.dtype == dtype
    assert difference(ours, reference) <= bound


@pytest.mark.parametrize("interpolation", ["cubic", "lanczos"])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
def test_unstretched_kernels_equal_pillows_where_nothing_shrinks(interpolation, dtype):
    # Enlarging both axes is Pillow's own work; shrinking one alone is ours, and must agree with it along the other.
    image = noise((20, 30, 3), dtype)
    smooth = np.repeat(image[:, :1], 30, axis=1)  # constant along the axis that shrinks
    ours = resize(smooth, (47, 11), interpolation=interpolation, antialias=False)
    reference = resize(smooth, (47, 30), interpolation=interpolation)[:, :11]
    assert difference(ours, reference) <= (1e-5 if dtype == "float32" else 1)


def test_an_unstretched_cubic_by_hand():
    line = np.array([[10.0, 20.0, 90.0, 40.0, 50.0, 60.0]], np.float32) / 100
    # The first of three pixels lies at 0.5: weights (-1, 9, 9, -1) / 16, of which the one outside is left out.
    middle = (-20 + 9 * 90 + 9 * 40 - 50) / 1600
    first = (9 * 10 + 9 * 20 - 90) / 1700
    ours = resize(line, (1, 3), interpolation="cubic", antialias=False)
    assert ours[0, :2].tolist() == pytest.approx([first, middle], abs=1e-6)


@pytest.mark.parametrize("interpolation", sorted(FILTERS))
@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("size", [(24, 18), (90, 100), (50, 60)])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
def test_out_is_written_in_place(interpolation, antialias, size, dtype):
    image = noise((50, 60, 3), dtype)
    batch = np.zeros((3, *size, 3), dtype)
    out = batch[1]
    assert resize(image, size, interpolation=interpolation, antialias=antialias, out=out) is out
    assert np.array_equal(batch[1], resize(image, size, interpolation=interpolation, antialias=antialias))
    assert not batch[[0, 2]].any()


def test_alpha_is_a_channel_like_the_others():
    image = noise((40, 40, 4))
    image[..., 3] = 0
    assert difference(resize(image, (17, 17))[..., :3], pillow(image[..., :3], (17, 17), "linear")) <= 1


@given(sides, sides)
@settings(max_examples=20)
def test_two_dimensions_and_views(height, width):
    image = noise((height + 2, width * 2, 3))[1:-1, ::2]
    assert np.array_equal(resize(image[..., 0], (9, 8)), resize(image, (9, 8))[..., 0])


def test_bad_arguments():
    image = noise((10, 12, 3))
    with pytest.raises(ArgumentError, match=r"box y=5, x=0, height=6, width=12 is not inside the image of height 10"):
        resize(image, (4, 4), box=(5, 0, 6, 12))
    with pytest.raises(ArgumentError, match="at least 1"):
        resize(image, (0, 4))
    with pytest.raises(SpecError, match="shape"):
        resize(np.zeros((4, 4, 2), np.uint8), (2, 2))
    with pytest.raises(SpecError, match="int64; cast the image first"):
        resize(np.zeros((4, 4, 3), np.int64), (2, 2))
    with pytest.raises(ArgumentError, match=r"result is uint8 \(4, 4, 3\), but `out` is float32"):
        resize(image, (4, 4), out=np.zeros((4, 4, 3), np.float32))
