"""Parts of many JPEGs in few calls of compiled code."""

from __future__ import annotations

import numpy as np
import pytest

from pipeplug_image.codecs import turbojpeg
from pipeplug_image.codecs.decode import Decoder
from pipeplug_image.codecs.encode import encode_jpeg
from pipeplug_image.codecs.options import DecodeOptions
from pipeplug_image.native import library
from pipeplug_image.native.resample import Resampler

pytestmark = pytest.mark.skipif(library() is None, reason="the kernels were not compiled")

SIZE = (9, 7)


def run(files, *, options=None, cancelled=lambda: False):
    out = np.zeros((len(files), *SIZE, 3), np.uint8)
    with Decoder() as decoder:
        left = decoder.resample_parts(
            files,
            lambda row, shape: (1, 2, shape[0] - 3, shape[1] - 5),
            options or DecodeOptions(),
            Resampler(antialias=True),
            out,
            SIZE,
            [(False, False)] * len(files),
            cancelled,
        )
    return out, left


def pictures(samples, count):
    return [encode_jpeg(samples.noise(40 + number, 50, seed=number), 90) for number in range(count)]


def test_rows_do_not_depend_on_how_many_go_in_one_call(samples, monkeypatch):
    files = pictures(samples, 6)
    together, left = run(files)
    assert left == []
    assert together.any(axis=(1, 2, 3)).all()
    monkeypatch.setattr(turbojpeg, "_PIECE", 1)
    apart, left = run(files)
    assert left == []
    assert np.array_equal(together, apart)


def test_what_it_does_not_decode_is_left_and_the_others_are_done(samples):
    files = pictures(samples, 7)
    expected, _ = run(files)
    files[1] = files[1][:-200]
    files[3] = b"text"
    files[4] = "a path"
    middle = len(files[6]) // 2
    files[6] = files[6][:middle] + b"\xff\xd5" + files[6][middle + 2 :]
    ours, left = run(files)
    assert left == [1, 3, 4, 6]
    for row in (0, 2, 5):
        assert np.array_equal(ours[row], expected[row])


def test_pictures_over_the_limit_are_left(samples):
    assert run(pictures(samples, 3), options=DecodeOptions(max_pixels=41 * 50))[1] == [2]


def test_when_nobody_wants_them_any_more_the_rest_is_left(samples, monkeypatch):
    monkeypatch.setattr(turbojpeg, "_PIECE", 1)
    answers = iter([False, False, True, True, True])
    assert run(pictures(samples, 5), cancelled=lambda: next(answers))[1] == [2, 3, 4]
