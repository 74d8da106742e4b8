from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeplug_image.native import library
from pipeplug_image.native.resample import Form, Resampler, takes

pytestmark = pytest.mark.skipif(library() is None, reason="the kernels were not compiled")

sides = st.integers(1, 40)
FACTOR, OFFSET = (0.5, 2.0, -1.0, 3.0), (-3.0, 0.25, 7.0, 1.0)


def weights(length, count, span, antialias):
    """The matrix that resamples `length` pixels to `count`, by the definition, in float64."""
    support = max(1.0, span[1]) if antialias else 1.0
    places = span[0] + (np.arange(count) + 0.5) * span[1] - 0.5
    matrix = np.maximum(0, 1 - np.abs(places[:, None] - np.arange(length)) / support)
    return matrix / matrix.sum(axis=1, keepdims=True)


def exact(image, size, spans, antialias):
    tall, wide = (
        weights(length, count, span, antialias) for length, count, span in zip(image.shape, size, spans, strict=False)
    )
    return np.einsum("oh,hwc,pw->opc", tall, image.astype(np.float64), wide)


def noise(shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def whole(image, size) -> tuple[tuple[float, float], tuple[float, float]]:
    return (0.0, image.shape[0] / size[0]), (0.0, image.shape[1] / size[1])


@given(sides, sides, sides, sides, st.sampled_from([1, 3, 4]), st.booleans(), st.booleans(), st.booleans())
def test_floats_are_the_definition(height, width, rows, columns, channels, antialias, upside_down, left_to_right):
    image, size = noise((height, width, channels)), (rows, columns)
    reference = exact(image, size, whole(image, size), antialias) * FACTOR[:channels] + OFFSET[:channels]
    reference = reference[:: -1 if upside_down else 1, :: -1 if left_to_right else 1]
    forms: dict[Form, tuple[int, ...]] = {"floats": (*size, channels), "planes": (channels, *size)}
    for form, shape in forms.items():
        resampler = Resampler(antialias=antialias, form=form, factor=FACTOR[:channels], offset=OFFSET[:channels])
        out = np.full(shape, np.nan, np.float32)
        resampler(image, out, size, *whole(image, size), upside_down, left_to_right)
        ours = out if form == "floats" else np.moveaxis(out, 0, 2)
        assert np.abs(ours - reference).max() < 255 * 3 * 2.0**-20


@given(sides, sides, sides, sides, st.sampled_from([1, 3, 4]), st.booleans())
def test_bytes_are_the_definition_rounded(height, width, rows, columns, channels, antialias):
    image, size = noise((height, width, channels)), (rows, columns)
    out = np.zeros((*size, channels), np.uint8)
    Resampler(antialias=antialias)(image, out, size, *whole(image, size))
    reference = exact(image, size, whole(image, size), antialias)
    assert np.abs(out - reference).max() <= 0.5 + 1e-4


@given(st.lists(st.floats(0, 1), min_size=4, max_size=4), st.booleans())
def test_a_box_with_fractions(parts, antialias):
    image, size = noise((30, 41, 3)), (9, 17)
    top, left = parts[0] * 29, parts[1] * 40
    rows = top, max(0.01, (30 - top) * parts[2]) / size[0]
    columns = left, max(0.01, (41 - left) * parts[3]) / size[1]
    out = np.zeros((*size, 3), np.float32)
    Resampler(antialias=antialias, form="floats")(image, out, size, rows, columns)
    assert np.abs(out - exact(image, size, (rows, columns), antialias)).max() < 1e-3


@pytest.mark.parametrize("value", [0, 1, 127, 128, 254, 255])
def test_an_even_image_stays_what_it_is(value):
    image = np.full((37, 53, 3), value, np.uint8)
    out = np.zeros((20, 20, 3), np.uint8)
    Resampler(antialias=True)(image, out, (20, 20), *whole(image, (20, 20)))
    assert (out == value).all()


@pytest.mark.parametrize("view", ["rows apart", "upside down", "mirrored", "pixels apart", "two dimensions"])
def test_views_are_read_where_they_lie(view):
    base = noise((40, 50, 4))
    image = {
        "rows apart": base[5:30, 6:40],
        "upside down": base[::-1],
        "mirrored": base[:, ::-1],
        "pixels apart": base[:, ::2, :3],
        "two dimensions": base[:, :, 0],
    }[view]
    assert takes(image)
    size = (13, 11)
    one, other = (np.zeros((*size, *image.shape[2:]), np.uint8) for _ in range(2))
    Resampler(antialias=True)(image, one, size, *whole(image, size))
    Resampler(antialias=True)(image.copy(), other, size, *whole(image, size))
    assert np.array_equal(one, other)


def test_nothing_is_written_beyond_the_result():
    image = noise((31, 29, 3))
    for size in ((1, 1), (5, 7), (31, 30)):
        forms: dict[Form, type] = {"bytes": np.uint8, "floats": np.float32, "planes": np.float32}
        for form, dtype in forms.items():
            memory: np.ndarray = np.full(size[0] * size[1] * 3 + 64, 77, dtype)
            out = memory[32:-32].reshape((3, *size) if form == "planes" else (*size, 3))
            Resampler(antialias=False, form=form)(image, out, size, *whole(image, size))
            assert (memory[:32] == 77).all()
            assert (memory[-32:] == 77).all()


def test_only_a_part_of_the_memory_is_read():
    # What lies around a part must not show, not even where vectors read too much.
    image = np.full((20, 20, 3), 255, np.uint8)
    image[5:15, 5:15] = 100
    out = np.zeros((30, 30, 3), np.uint8)
    Resampler(antialias=False)(image[5:15, 5:15], out, (30, 30), *whole(image[5:15, 5:15], (30, 30)))
    assert (out == 100).all()


def test_threads_share_a_resampler():
    resampler, image = Resampler(antialias=True), noise((200, 180, 3))

    def resized(_):
        out = np.zeros((90, 70, 3), np.uint8)
        resampler(image, out, (90, 70), *whole(image, (90, 70)))
        return out

    with ThreadPoolExecutor(4) as threads:
        first, *others = threads.map(resized, range(40))
    assert all(np.array_equal(first, other) for other in others)


@pytest.mark.parametrize(
    "image",
    [np.zeros((4, 4, 3), np.float32), np.zeros((4, 4, 2), np.uint8), np.zeros((0, 4, 3), np.uint8), np.zeros(4)],
)
def test_what_it_does_not_take(image):
    assert not takes(image)


def test_a_large_reduction_sums_many_pixels():
    image = noise((700, 900, 3))
    out = np.zeros((2, 3, 3), np.float32)
    Resampler(antialias=True, form="floats")(image, out, (2, 3), *whole(image, (2, 3)))
    assert np.abs(out - exact(image, (2, 3), whole(image, (2, 3)), True)).max() < 1e-3


def test_memory_that_cannot_be_had_is_said(monkeypatch):
    resampler = Resampler(antialias=False)
    monkeypatch.setattr(resampler, "_run", lambda job: -1)
    with pytest.raises(MemoryError, match="no memory to resize an image of 4 x 6 pixels to 2 x 3"):
        resampler(noise((4, 6, 3)), np.zeros((2, 3, 3), np.uint8), (2, 3), (0, 2), (0, 2))
