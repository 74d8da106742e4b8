from __future__ import annotations

import ctypes
import io
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from pipeplug import DecodeError, StateError
from pipeplug_image.codecs import tj3
from pipeplug_image.codecs.probe import probe
from pipeplug_image.codecs.tj3 import find_library
from pipeplug_image.codecs.turbojpeg import TurboJpeg


@pytest.fixture(scope="module")
def turbo():
    library = find_library()
    assert library is not None, 'the tests need TurboJPEG 3: pip install "pipeplug-image[turbo]"'
    with TurboJpeg(library) as opened:
        yield opened


SUBSAMPLINGS = {"4:4:4": 0x111111, "4:2:2": 0x211111, "4:2:0": 0x221111, "4:4:0": 0x121111, "4:1:1": 0x411111}


def encode(image, subsampling="4:2:0", *, progressive=False, restart=0):
    options = [
        cv2.IMWRITE_JPEG_SAMPLING_FACTOR, SUBSAMPLINGS[subsampling],
        cv2.IMWRITE_JPEG_PROGRESSIVE, int(progressive),
        cv2.IMWRITE_JPEG_RST_INTERVAL, restart,
    ]  # fmt: skip
    return cv2.imencode(".jpg", image, options)[1].tobytes()


def read(turbo, data, color="RGB", **options):
    return turbo.read(data, probe(data), color, **options)


@pytest.mark.parametrize("subsampling", SUBSAMPLINGS)
@pytest.mark.parametrize("progressive", [False, True])
def test_pixels_equal_those_of_opencv_and_pillow(turbo, samples, subsampling, progressive):
    data = encode(samples.noise(61, 75), subsampling, progressive=progressive)
    pixels, complaint = read(turbo, data)
    assert complaint is None
    by_opencv = np.asarray(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR_RGB))
    assert np.array_equal(pixels, by_opencv)
    assert np.array_equal(pixels, np.asarray(Image.open(io.BytesIO(data))))


@settings(max_examples=300)
@given(
    st.data(),
    st.sampled_from(sorted(SUBSAMPLINGS)),
    st.booleans(),
    st.sampled_from([0, 3]),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from(["RGB", "L", "RGBA"]),
)
def test_a_part_is_what_the_whole_has_there(turbo, samples, data, subsampling, progressive, restart, reduce, color):
    height, width = data.draw(st.integers(8, 80)), data.draw(st.integers(8, 80))
    file = encode(samples.noise(height, width, seed=width), subsampling, progressive=progressive, restart=restart)
    whole = read(turbo, file, color, reduce=reduce).pixels
    y, x = (data.draw(st.integers(0, side - 1)) for side in whole.shape[:2])
    most = data.draw(st.sampled_from([3, 100]))  # parts of a few pixels have pitfalls of their own
    h, w = (data.draw(st.integers(1, min(most, side - at))) for side, at in zip(whole.shape[:2], (y, x), strict=True))
    part = read(turbo, file, color, reduce=reduce, box=(y, x, h, w), borrow=True).pixels
    assert np.array_equal(part, whole[y : y + h, x : x + w])


def test_a_part_of_a_file_with_uncommon_sampling_is_right_too(turbo, samples):
    data = bytearray(encode(samples.noise(48, 64), "4:4:4"))
    frame = data.index(b"\xff\xc0")
    data[frame + 11], data[frame + 14], data[frame + 17] = 0x11, 0x11, 0x11
    whole = read(turbo, bytes(data)).pixels
    file = Image.new("YCbCr", (64, 48), (90, 100, 200))
    assert np.array_equal(read(turbo, bytes(data), box=(3, 5, 7, 9)).pixels, whole[3:10, 5:14])
    odd = io.BytesIO()
    file.save(odd, "JPEG", subsampling=0)
    raw = bytearray(odd.getvalue())
    place = raw.index(b"\xff\xc0")
    raw[place + 11], raw[place + 14], raw[place + 17] = 0x22, 0x12, 0x11  # a combination without a name
    pixels, complaint = read(turbo, bytes(raw), box=(2, 3, 4, 5))
    assert pixels.shape == (4, 5, 3)
    assert complaint is None or "Corrupt" in complaint or "Premature" in complaint


def test_a_region_decodes_into_memory_of_the_thread_only_when_asked(turbo, samples):
    data = encode(samples.noise(64, 64))
    kept = read(turbo, data, box=(0, 0, 8, 8)).pixels
    borrowed = read(turbo, data, box=(0, 0, 8, 8), borrow=True).pixels
    copy = borrowed.copy()
    assert np.array_equal(kept, copy)
    again = read(turbo, encode(samples.noise(64, 64, seed=1)), box=(0, 0, 8, 8), borrow=True).pixels
    assert np.shares_memory(borrowed, again)
    assert np.array_equal(kept, copy)


def test_rows_of_the_output_may_be_apart(turbo, samples):
    data = encode(samples.noise(20, 30))
    wide = np.zeros((20, 40, 3), np.uint8)
    read(turbo, data, out=wide[:, 5:35])
    assert np.array_equal(wide[:, 5:35], read(turbo, data).pixels)
    assert not wide[:, :5].any()
    assert not wide[:, 35:].any()


@pytest.mark.parametrize("damage", ["length", "marker", "tables", "size"])
def test_a_bad_file_does_not_spoil_the_next_one(turbo, samples, damage):
    good = encode(samples.noise(40, 40))
    expected = read(turbo, good).pixels
    bad = bytearray(good)
    if damage == "length":
        bad[bad.index(b"\xff\xdb") + 2 : bad.index(b"\xff\xdb") + 4] = b"\0\0"
    elif damage == "marker":
        bad[bad.index(b"\xff\xdb") + 1] = 0x1F
    elif damage == "tables":
        bad[bad.index(b"\xff\xc4") + 5] = 0xFF
    else:
        bad[bad.index(b"\xff\xc0") + 17] = 0x77
    header = probe(good)
    for _ in range(3):
        with pytest.raises(DecodeError, match="JPEG"):
            turbo.read(bytes(bad), header, "RGB")
        assert np.array_equal(read(turbo, good).pixels, expected)


def test_a_header_that_names_another_size_is_refused(turbo, samples):
    small, large = encode(samples.noise(16, 16)), encode(samples.noise(32, 32))
    with pytest.raises(DecodeError, match="16 x 16 pixels is broken"):
        turbo.read(large, probe(small), "RGB")
    assert read(turbo, small).pixels.shape == (16, 16, 3)


def test_harmless_bytes_before_the_end_are_no_complaint(turbo, samples):
    data = encode(samples.noise(40, 40))
    for count in (1, 3, 60):
        for padding in (b"\0", b"\xff"):
            assert read(turbo, data[:-2] + padding * count + data[-2:]).complaint is None


def test_lost_pixels_are_a_complaint(turbo, samples):
    data = encode(samples.noise(40, 40))
    cut = read(turbo, data[: len(data) // 2])
    assert cut.complaint == "Premature end of JPEG file"
    hole = bytearray(data)
    hole[len(data) // 2 : len(data) // 2 + 2] = b"\xff\xd9"
    assert "premature end of data segment" in str(read(turbo, bytes(hole)).complaint)


def test_bytes_before_a_restart_marker_are_a_complaint(turbo, samples):
    data = encode(samples.noise(40, 40), restart=1)
    at = data.index(b"\xff\xd1")
    assert "extraneous bytes before marker 0xd1" in str(read(turbo, data[:at] + b"\0\0" + data[at:]).complaint)


def test_too_many_scans_are_refused(turbo, samples):
    data = encode(samples.noise(16, 16), progressive=True)
    last = data.rindex(b"\xff\xda")
    with pytest.raises(DecodeError, match="more than 500 scans"):
        turbo_complaint(read(turbo, data[:last] + data[last:-2] * 600 + data[-2:]))


def turbo_complaint(picture):
    if picture.complaint is not None:
        raise DecodeError(picture.complaint)


def test_threads_share_a_decoder(turbo, samples):
    files = [encode(samples.noise(50 + i, 70, seed=i)) for i in range(8)]
    expected = [read(turbo, data).pixels for data in files]
    start = threading.Barrier(4)

    def work(_):
        start.wait()
        return [
            np.array_equal(read(turbo, data, borrow=True).pixels, e) for data, e in zip(files, expected, strict=True)
        ]

    with ThreadPoolExecutor(4) as pool:
        assert all(map(all, pool.map(work, range(4))))


@pytest.mark.parametrize("options", [{}, {"box": (3, 3, 20, 20), "borrow": True}])
def test_tables_of_another_picture_are_not_borrowed(turbo, samples, options):
    good = encode(samples.noise(40, 40))
    at = good.index(b"\xff\xdb")
    without = good[:at] + good[at + 2 + int.from_bytes(good[at + 2 : at + 4], "big") :]
    for _ in range(2):
        assert read(turbo, good, **options).complaint is None
        with pytest.raises(DecodeError, match="table 0x00 was not defined"):
            read(turbo, without, **options)


def test_a_whole_picture_after_a_part_is_whole(turbo, samples):
    one, other = encode(samples.noise(60, 60)), encode(samples.noise(50, 70, seed=1))
    expected = read(turbo, other).pixels
    read(turbo, one, box=(10, 20, 30, 40), borrow=True)
    assert np.array_equal(read(turbo, other).pixels, expected)


def test_what_is_left_of_lost_pixels_is_a_complaint(turbo, samples):
    data = encode(samples.noise(40, 40))
    assert "extraneous bytes before marker 0xd9" in str(read(turbo, data[:-2] + bytes(range(60)) + data[-2:]).complaint)


def test_a_closed_decoder_says_so(samples):
    library = find_library()
    assert library is not None
    data = encode(samples.noise(16, 16))
    with TurboJpeg(library) as closed:
        read(closed, data)
    closed.close()
    with pytest.raises(StateError, match="closed; decode within its `with` block"):
        read(closed, data)


def test_a_library_of_an_older_version_is_not_taken(monkeypatch):
    monkeypatch.setattr(tj3, "_candidates", lambda: ["no-such-library.so", ctypes.pythonapi._name, "libc.so.6"])
    assert find_library.__wrapped__() is None


def test_the_wheel_is_found_without_importing_it():
    code = "import sys, pipeplug_image.codecs.tj3 as t; print(t.find_library(), 'pylibjxl' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    path, imported = result.stdout.split()
    assert path != "None"
    assert imported == "False"
