"""Damaged files of every format, some thousand of them: an error that we raise, or a picture, but nothing else."""

from __future__ import annotations

import random
import warnings
import zlib

import cv2
import numpy as np
import pytest

from pipeplug import DecodeError
from pipeplug_image.codecs.options import DecodeOptions
from pipeplug_image.codecs.probe import probe

LIMIT = 2**18
OPTIONS = [
    DecodeOptions(max_pixels=LIMIT),
    DecodeOptions(mode="unchanged", dtype="unchanged", max_pixels=LIMIT),
    DecodeOptions(mode="gray", reduce=2, max_pixels=LIMIT),
]


def files_of(samples, format):
    if format == "16 bits":
        return [cv2.imencode(".png", samples.deep)[1].tobytes(), cv2.imencode(".tiff", samples.deep)[1].tobytes()]
    modes = {"GIF": ("P", "L"), "BMP": ("RGB", "P"), "WebP": ("RGB", "RGBA"), "JPEG": ("RGB", "L", "CMYK")}
    files = [samples.file(format, mode) for mode in modes.get(format, ("RGB", "RGBA", "P", "L"))]
    if format in ("JPEG", "PNG", "WebP", "TIFF"):
        files.append(samples.file(format, orientation=6))
    if format == "JPEG":
        files.append(samples.file(format, progressive=True))
    if format == "TIFF":
        files += [samples.file(format, compression=name) for name in ("tiff_lzw", "tiff_adobe_deflate", "packbits")]
    return files


def damaged(chance, data):
    """The file with a few bytes changed, most of them in its header, and now and then cut."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 5)):
        at = chance.randrange(len(changed) if chance.random() < 0.5 else min(200, len(changed)))
        changed[at] = chance.choice((0, 255, chance.randrange(256)))
    end = chance.randrange(len(changed)) if chance.random() < 0.15 else len(changed)
    return bytes(changed[:end])


def with_checksums(data):
    """A PNG whose chunks have the right checksums, so that the damage reaches the decoder."""
    changed = bytearray(data)
    at = 8
    while at + 12 <= len(changed):
        end = at + 8 + int.from_bytes(changed[at : at + 4], "big")
        if end + 4 > len(changed):
            break
        changed[end : end + 4] = zlib.crc32(changed[at + 4 : end]).to_bytes(4, "big")
        at = end + 4
    return bytes(changed)


def region(decoder, data, options):
    height, width, _ = options.shape(probe(data))
    box = (height // 3, width // 4, max(1, height // 4), max(1, width // 3))
    return decoder.decode_region(data, box, options)


CALLS = {
    "decode": lambda decoder, data, options: decoder.decode(data, options),
    "recover": lambda decoder, data, options: decoder.recover(data, options).pixels,
    "region": region,
}


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WebP", "TIFF", "BMP", "GIF", "16 bits"])
def test_damage_is_an_error_of_ours_or_a_picture(decoder, samples, format, capfd):
    chance = random.Random(format)
    files = files_of(samples, format)
    outcomes = {"picture": 0, "error": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if format == "TIFF" else "error")  # Pillow warns of TIFF's notes
        for _ in range(400):
            data = damaged(chance, chance.choice(files))
            if data.startswith(b"\x89PNG") and chance.random() < 0.7:
                data = with_checksums(data)
            options = chance.choice(OPTIONS)
            for call in CALLS.values():
                try:
                    pixels = call(decoder, data, options)
                except DecodeError:
                    outcomes["error"] += 1
                else:
                    assert pixels.size <= LIMIT * 4
                    outcomes["picture"] += 1
    assert min(outcomes.values()) > 0
    if format != "TIFF":  # the libtiff within Pillow prints what it finds wrong, besides the error that we raise
        assert capfd.readouterr().err == ""
    for good in files:
        assert isinstance(decoder.decode(good, OPTIONS[0]), np.ndarray)
