from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from pipeplug import ArgumentError, SpecError
from pipeplug_image.codecs.encode import encode_jpeg


def test_a_file_equals_what_pillow_decodes_of_its_own(samples):
    image = samples.rgb
    ours = np.asarray(Image.open(io.BytesIO(encode_jpeg(image, 90, subsampling="4:4:4"))))
    theirs = np.asarray(Image.open(io.BytesIO(samples.file("JPEG", quality=90, subsampling=0))))
    assert np.array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("subsampling", "factors"),
    [("4:4:4", (1, 1)), ("4:2:2", (2, 1)), ("4:2:0", (2, 2)), ("4:4:0", (1, 2)), ("4:1:1", (4, 1))],
)
def test_subsampling_is_as_asked_for(samples, subsampling, factors):
    image = Image.open(io.BytesIO(encode_jpeg(samples.rgb, subsampling=subsampling)))
    assert image.layer[0][1:3] == factors  # type: ignore[attr-defined]


def test_less_quality_is_less_data_and_more_error(samples):
    files = [encode_jpeg(samples.noise(64, 64), quality) for quality in (10, 50, 95)]
    assert len(files[0]) < len(files[1]) < len(files[2])


def test_grey_stays_grey(samples):
    grey = samples.rgb[:, :, :1]
    decoded = np.asarray(Image.open(io.BytesIO(encode_jpeg(grey, 100))))
    assert decoded.shape == grey.shape[:2]
    assert np.abs(decoded.astype(int) - grey[:, :, 0]).max() <= 2


@pytest.mark.parametrize("image", [np.zeros((4, 4, 4), np.uint8), np.zeros((4, 4, 3)), np.zeros((4, 4), np.uint8)])
def test_other_arrays_are_refused(image):
    with pytest.raises(SpecError, match=r"JPEG holds uint8 of \(height, width, 1 or 3\)"):
        encode_jpeg(image)


def test_impossible_sides_are_refused():
    with pytest.raises(SpecError, match="sides of 1 to 65500"):
        encode_jpeg(np.zeros((0, 4, 3), np.uint8))


@pytest.mark.parametrize("quality", [0, 101])
def test_impossible_quality_is_refused(samples, quality):
    with pytest.raises(ArgumentError, match=f"quality is 1 to 100.*got {quality}"):
        encode_jpeg(samples.rgb, quality)
