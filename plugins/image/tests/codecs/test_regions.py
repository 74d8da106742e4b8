from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from pipeplug import ArgumentError
from pipeplug_image.codecs.decode import Decoder
from pipeplug_image.codecs.options import DecodeOptions


@settings(max_examples=150)
@given(
    st.data(),
    st.sampled_from(["JPEG", "progressive", "CMYK", "PNG", "TIFF", "GIF"]),
    st.integers(1, 8),
    st.sampled_from([1, 2, 8]),
    st.sampled_from(["RGB", "gray", "unchanged"]),
    st.booleans(),
)
def test_a_part_is_what_the_whole_has_there(samples, data, kind, orientation, reduce, mode, turbo):
    height, width = data.draw(st.integers(1, 70)), data.draw(st.integers(1, 70))
    image = Image.fromarray(samples.noise(height, width, seed=width))
    options = {"orientation": 1 if kind == "GIF" else orientation, "image": image}
    if kind == "CMYK":
        options["image"] = image.convert("CMYK")
    format = {"progressive": "JPEG", "CMYK": "JPEG"}.get(kind, kind)
    file = samples.file(format, **options, **({"progressive": True} if kind == "progressive" else {}))
    wanted = DecodeOptions(mode=mode, reduce=reduce)
    with Decoder(turbo=turbo) as decoder:
        whole = decoder.decode(file, wanted)
        y, x = (data.draw(st.integers(0, side - 1)) for side in whole.shape[:2])
        h, w = (data.draw(st.integers(1, side - at)) for side, at in zip(whole.shape[:2], (y, x), strict=True))
        part = decoder.decode_region(file, (y, x, h, w), wanted, borrow=data.draw(st.booleans()))
        assert np.array_equal(part, whole[y : y + h, x : x + w])


@pytest.mark.parametrize("box", [(0, 0, 38, 1), (0, 0, 0, 5), (-1, 0, 3, 3), (0, 50, 3, 4), (5, 5, 3, -2)])
def test_a_box_beyond_the_picture_is_refused(decoder, samples, box):
    with pytest.raises(ArgumentError, match="is not within the picture of 37 x 53 pixels"):
        decoder.decode_region(samples.file("JPEG"), box)
