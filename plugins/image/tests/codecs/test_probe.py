from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image, ImageOps, PngImagePlugin

from pipeplug import DecodeError
from pipeplug_image.codecs.header import ImageHeader
from pipeplug_image.codecs.probe import find_cut, probe

CASES = [
    ("JPEG", "L", "L"), ("JPEG", "RGB", "RGB"), ("JPEG", "CMYK", "CMYK"),
    ("PNG", "1", "L"), ("PNG", "L", "L"), ("PNG", "LA", "LA"), ("PNG", "RGB", "RGB"), ("PNG", "RGBA", "RGBA"),
    ("PNG", "P", "RGB"), ("WebP", "RGB", "RGB"), ("WebP", "RGBA", "RGBA"), ("TIFF", "1", "L"), ("TIFF", "L", "L"),
    ("TIFF", "LA", "LA"), ("TIFF", "RGB", "RGB"), ("TIFF", "RGBA", "RGBA"), ("TIFF", "P", "RGB"),
    ("TIFF", "CMYK", "CMYK"), ("BMP", "L", "RGB"), ("BMP", "RGB", "RGB"), ("BMP", "RGBA", "RGB"), ("BMP", "P", "RGB"),
    ("GIF", "P", "RGB"), ("GIF", "L", "RGB"),
]  # fmt: skip


@pytest.mark.parametrize(("format", "mode", "color"), CASES)
def test_headers_of_every_format(samples, format, mode, color):
    data = samples.file(format, mode)
    header = probe(data)
    assert (header.format, header.color, header.dtype) == (format, color, "uint8")
    assert (header.height, header.width) == (samples.height, samples.width)
    assert header.palette == (format == "GIF" or mode == "P" or (format, mode) == ("BMP", "L"))
    assert not header.animated
    assert find_cut(data, header) is None


@pytest.mark.parametrize("options", [{"lossless": True}, {"lossless": False}])
def test_webp_without_alpha_is_the_simple_file(samples, options):
    assert probe(samples.file("WebP", **options)).color == "RGB"


def test_transparent_colours_count_as_alpha(samples):
    assert probe(samples.file("PNG", "P", transparency=3)).color == "RGBA"
    assert probe(samples.file("PNG", "L", transparency=8)).color == "LA"
    assert probe(samples.file("PNG", "RGB", transparency=(0, 0, 0))).color == "RGBA"
    assert probe(samples.file("GIF", "P", transparency=3)).color == "RGBA"


@pytest.mark.parametrize(("format", "mode"), [("GIF", "P"), ("WebP", "RGB"), ("PNG", "RGB"), ("TIFF", "RGB")])
def test_more_frames_or_pages_are_seen(samples, format, mode):
    second = Image.fromarray(samples.rgb[::-1].copy()).convert("RGB").quantize(8) if mode == "P" else None
    second = second or Image.fromarray(samples.rgb[::-1].copy())
    assert probe(samples.file(format, mode, save_all=True, append_images=[second])).animated


def test_progressive_files_are_seen(samples):
    assert probe(samples.file("JPEG", progressive=True)).progressive
    assert not probe(samples.file("JPEG")).progressive
    assert probe(samples.file("GIF", "P", interlace=1)).progressive
    assert not probe(samples.file("GIF", "P", interlace=0)).progressive


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WebP", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_is_read_and_swaps_the_output_shape(samples, format, orientation):
    header = probe(samples.file(format, orientation=orientation))
    assert header.orientation == orientation
    sides = (samples.height, samples.width)
    assert header.output_shape("gray") == (*(sides if orientation < 5 else sides[::-1]), 1)
    assert header.output_shape("RGBA", orient=False) == (*sides, 4)
    assert header.output_size(reduce=4, orient=False) == (10, 14)


def xmp_packet(orientation):
    return f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf tiff:Orientation="{orientation}"/></x:xmpmeta>'.encode()


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WebP", "TIFF"])
def test_orientation_in_xmp_counts_where_exif_has_none(samples, format):
    note = xmp_packet(6)
    if format == "PNG":
        info = PngImagePlugin.PngInfo()
        info.add_itxt("XML:com.adobe.xmp", note.decode())
        data = samples.file(format, pnginfo=info)
    elif format == "TIFF":
        data = samples.file(format, tiffinfo={700: note})
    else:
        data = samples.file(format, xmp=note)
    upright = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    assert upright.size == (samples.height, samples.width)
    assert probe(data).orientation == 6


@pytest.mark.parametrize("packed", [True, False])
def test_orientation_in_the_text_profile_of_a_png(samples, packed):
    block = samples.exif(8).tobytes()
    info = PngImagePlugin.PngInfo()
    info.add_text("Raw profile type exif", f"\nexif\n{len(block):8}\n{block.hex()}\n", zip=packed)
    data = samples.file("PNG", pnginfo=info)
    assert ImageOps.exif_transpose(Image.open(io.BytesIO(data))).size == (samples.height, samples.width)
    assert probe(data).orientation == 8


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b"\xff", "too short.*1 bytes"),
        (b"\xff\xd8", "too short.*2 bytes"),
        (b"\xff\xd8\xff", "JPEG is cut: its header does not end within 3 bytes"),
        (b"<!DOCTYPE html><html>", r"unknown picture format.*<!DOCTYPE ht.*HTML page"),
        (b"\n\n  <html><body></body>", "HTML page"),
        (b"<?xml version='1.0'?><svg/>", "XML"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "SVG"),
        (b"\xef\xbb\xbf\xff\xd8\xff\xe0 a JPEG behind", "byte order mark"),
        (b'{"error": "not found"}', "JSON"),
        (b"version https://git-lfs.github.com/spec/v1", "Git LFS"),
        (b"%PDF-1.7 and more", "PDF"),
        (b"\0\0\0\x20ftypavif\0\0\0\0", "AVIF"),
        (b"\0\0\0\x20ftypisom\0\0\0\0", "MP4"),
        (b"\x93NUMPY\x01\x00v\x00{'descr'", "NumPy"),
        (b"abcdefghijklmnop", r"begins with b'abcdefghijkl'; JPEG, PNG"),
        (b"BMore text than a header", "unknown picture format"),
    ],
)
def test_what_is_no_picture_is_named(data, words):
    with pytest.raises(DecodeError, match=words):
        probe(data)


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WebP", "TIFF", "BMP", "GIF"])
def test_a_cut_header_is_named(samples, format):
    data = samples.file(format, "P" if format == "GIF" else "RGB")
    length = {"JPEG": 40, "PNG": 20, "WebP": 20, "TIFF": 12, "BMP": 24, "GIF": 12}[format]
    # Pillow writes the directory of a TIFF first and the others have their header there.
    with pytest.raises(DecodeError, match=f"{format} (is cut|has no picture)"):
        probe(data[:length])


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WebP", "TIFF", "BMP", "GIF"])
@pytest.mark.parametrize("missing", [1, 2, 9])
def test_a_missing_end_is_found(samples, format, missing):
    data = samples.file(format, "P" if format == "GIF" else "RGB")
    assert find_cut(data[:-missing], probe(data)) is not None


def test_bytes_after_a_picture_are_none_of_it(samples):
    for format in ("JPEG", "PNG", "WebP", "TIFF", "BMP"):
        data = samples.file(format) + b"more"
        assert find_cut(data, probe(data)) is None


def test_a_damaged_chunk_of_a_png_is_named(samples):
    data = bytearray(samples.file("PNG"))
    data[60] ^= 1
    assert "checksum of its chunk IDAT" in str(find_cut(bytes(data), probe(bytes(data))))


def test_segments_after_fill_bytes_and_junk_are_found(samples):
    data = samples.file("JPEG", orientation=6)
    padded = data[:2] + b"\xff\xff\xff" + data[2:]
    assert probe(padded)._replace(body=0) == probe(data)._replace(body=0)
    assert probe(padded).body == probe(data).body + 3


@pytest.mark.parametrize(
    ("at", "value", "words"),
    [(4, 12, "12 bits a channel"), (9, 2, "2 colour components")],
)
def test_jpegs_that_cannot_be_decoded_say_why(samples, at, value, words):
    data = bytearray(samples.file("JPEG"))
    data[data.index(b"\xff\xc0") + at] = value
    with pytest.raises(DecodeError, match=words):
        probe(bytes(data))


def test_other_depths_are_named(samples):
    ramp = np.arange(12, dtype=np.uint16).reshape(3, 4)
    for image, dtype in ((ramp, "uint16"), (ramp.astype(np.int32), "int32"), (ramp.astype(np.float32), "float32")):
        header = probe(samples.file("TIFF", image=Image.fromarray(image)))
        assert (header.dtype, header.color) == (dtype, "L")
    assert probe(samples.file("PNG", image=Image.fromarray(ramp))).dtype == "uint16"


def test_big_tiff_is_read(samples):
    header = probe(samples.file("TIFF", "RGBA", big_tiff=True))
    assert header.output_shape("unchanged") == (samples.height, samples.width, 4)


def test_os2_bitmaps_are_read():
    core = struct.pack("<IHHHH", 12, 5, 3, 1, 24)
    data = b"BM" + struct.pack("<IHHI", 74, 0, 0, 26) + core + bytes(48)
    header = probe(data)
    assert header.output_shape() == (3, 5, 3)
    assert find_cut(data, header) is None
    assert find_cut(data[:-1], header) is not None


def test_the_limit_names_size_and_limit():
    size = struct.pack(">II5B", 30000, 30000, 1, 0, 0, 0, 0)
    chunk = struct.pack(">I", 13) + b"IHDR" + size + struct.pack(">I", zlib.crc32(b"IHDR" + size))
    header = probe(b"\x89PNG\r\n\x1a\n" + chunk)
    with pytest.raises(DecodeError, match=r"30000 x 30000 = 900,000,000 pixels.*limit of 268,435,456.*max_pixels"):
        header.check_size()
    header.check_size(30000**2)
    with pytest.raises(DecodeError, match="0 x 5"):
        ImageHeader("PNG", 5, 0, "L").check_size()
