from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from pipeplug_image.codecs.options import DecodeOptions
from pipeplug_image.codecs.probe import probe


@pytest.mark.parametrize("reduce", [2, 4, 8])
@pytest.mark.parametrize("format", ["JPEG", "PNG", "WebP", "TIFF", "BMP", "GIF"])
def test_reduced_sizes_are_rounded_up(decoder, samples, format, reduce):
    options = DecodeOptions(reduce=reduce)
    data = samples.file(format, "P" if format == "GIF" else "RGB")
    result = decoder.decode(data, options)
    assert result.shape == options.shape(probe(data)) == (-(-37 // reduce), -(-53 // reduce), 3)
    if format != "JPEG":
        reference = Image.fromarray(decoder.decode(data)).reduce(reduce)
        assert np.abs(result.astype(int) - np.asarray(reference)).max() <= 1  # Pillow rounds some halves down


@pytest.mark.parametrize("reduce", [2, 4, 8])
def test_a_reduced_jpeg_is_what_pillow_drafts(decoder, samples, reduce):
    data = samples.file("JPEG", image=Image.fromarray(samples.noise(100, 75)))
    image = Image.open(io.BytesIO(data))
    image.draft("RGB", (75 // reduce, 100 // reduce))
    assert np.array_equal(decoder.decode(data, DecodeOptions(reduce=reduce)), np.asarray(image))


@pytest.mark.parametrize("mode", ["RGB", "gray", "unchanged"])
def test_a_jpeg_smaller_than_the_factor_is_averaged(decoder, samples, mode):
    data = samples.file("JPEG", image=Image.fromarray(samples.noise(5, 20)))
    options = DecodeOptions(mode=mode, reduce=8)
    whole = decoder.decode(data, DecodeOptions(mode=mode))
    image = Image.fromarray(whole if whole.shape[2] > 1 else whole[:, :, 0]).reduce(8)
    result = decoder.decode(data, options)
    assert result.shape == (1, 3, whole.shape[2])
    assert np.abs(result.astype(int) - np.asarray(image).reshape(result.shape)).max() <= 1
