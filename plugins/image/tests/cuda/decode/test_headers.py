"""What the headers of JPEGs say: the compiled reader, the one in Python, and Pillow agree; nothing damaged is plain."""

from __future__ import annotations

import io
import random
import struct
from typing import get_args

import numpy as np
import pytest
from PIL import Image

from pipeplug import DecodeError
from pipeplug_image.codecs import headers
from pipeplug_image.codecs.decode import Decoder
from pipeplug_image.codecs.encode import Subsampling, encode_jpeg
from pipeplug_image.codecs.formats.plain_jpeg import read_row
from pipeplug_image.codecs.headers import BASELINE, END, KIND, PROGRESSIVE, read_headers
from pipeplug_image.codecs.options import DecodeOptions
from pipeplug_image.codecs.probe import probe
from pipeplug_image.native import library

NOTHING = [0] * 6


def picture(height=37, width=53, seed=0):
    y, x = np.mgrid[:height, :width]
    smooth = np.dstack((x * 4 % 256, y * 6 % 256, (x + y) * 2 % 256))
    return (smooth * 0.7 + np.random.default_rng(seed).integers(0, 70, (height, width, 3))).astype(np.uint8)


def jpeg(image=None, mode="RGB", **options):
    file = io.BytesIO()
    Image.fromarray(picture() if image is None else image).convert(mode).save(file, "JPEG", **options)
    return file.getvalue()


def exif(orientation, order="MM", kind=3, count=1):
    """A block with an entry before the orientation, in the byte order wanted."""
    sign = {"MM": ">", "II": "<"}[order]
    value = {1: struct.pack("B3x", orientation), 3: struct.pack(sign + "H2x", orientation)}.get(kind)
    value = struct.pack(sign + "I", orientation) if value is None else value
    entries = struct.pack(sign + "HHII", 0x010F, 2, 3, 0) + struct.pack(sign + "HHI", 0x0112, kind, count) + value
    head = order.encode() + struct.pack(sign + "HIH", 42, 8, 2)
    return b"Exif\0\0" + head + entries + bytes(4)


def with_segment(data, marker, body, at=2):
    return data[:at] + struct.pack(">BBH", 0xFF, marker, len(body) + 2) + body + data[at:]


def segments(data):
    """Marker, start and end of each segment, coded pixels being part of their scan's."""
    at, found = 2, []
    while data[at + 1] != 0xD9:
        end = at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        if data[at + 1] == 0xDA:
            while data[end] != 0xFF or data[end + 1] == 0 or 0xD0 <= data[end + 1] <= 0xD7:
                end += 1
        found.append((data[at + 1], at, end))
        at = end
    return found


def without(data, marker, ordinal=0):
    _, start, end = [each for each in segments(data) if each[0] == marker][ordinal]
    return data[:start] + data[end:]


def edited(data, marker, offset, value, ordinal=0):
    """The file with one byte of a segment's body changed."""
    _, start, _ = [each for each in segments(data) if each[0] == marker][ordinal]
    changed = bytearray(data)
    changed[start + 4 + offset] = value
    return bytes(changed)


PLAIN = {
    **{name: encode_jpeg(picture(), 90, subsampling=name) for name in get_args(Subsampling)},
    "grey": jpeg(mode="L"),
    "progressive": jpeg(progressive=True),
    "grey, progressive": jpeg(mode="L", progressive=True),
    "optimized": jpeg(optimize=True, quality=97),
    "restart markers": jpeg(restart_marker_blocks=3),
    "many restart markers": jpeg(picture(90, 90), restart_marker_blocks=1),
    "one pixel": jpeg(picture(1, 1)),
    "wide": jpeg(picture(3, 700)),
    "with notes": jpeg(comment=b"\xff\xda no scan", icc_profile=bytes(range(200)), dpi=(72, 72)),
}

UNUSUAL = {
    "empty": b"",
    "two bytes": b"\xff\xd8",
    "no picture": b"\xff\xd8\xff\xd9",
    "png": b"\x89PNG\r\n\x1a\n" + bytes(40),
    "cmyk": jpeg(mode="CMYK"),
    "rgb by Adobe's marker": with_segment(jpeg(), 0xEE, b"Adobe" + bytes([0, 100, 0, 0, 0, 0, 0])),
    "an unknown transform": with_segment(jpeg(), 0xEE, b"Adobe" + bytes([0, 100, 0, 0, 0, 0, 7])),
    "rgb by its components' names": jpeg(keep_rgb=True),
    "12 bits": edited(jpeg(), 0xC0, 0, 12),
    "no lines": edited(edited(jpeg(), 0xC0, 1, 0), 0xC0, 2, 0),
    "too wide": edited(edited(jpeg(), 0xC0, 3, 255), 0xC0, 4, 255),
    "two components": edited(jpeg(), 0xC0, 5, 2),
    "components of one name": edited(jpeg(), 0xC0, 9, 1),
    "odd sampling": edited(jpeg(), 0xC0, 7, 0x31),
    "colours sampled like brightness": edited(jpeg(subsampling=0), 0xC0, 10, 0x21),
    "grey sampled twice": edited(jpeg(mode="L"), 0xC0, 7, 0x22),
    "extended": jpeg().replace(b"\xff\xc0", b"\xff\xc1", 1),
    "lossless": jpeg().replace(b"\xff\xc0", b"\xff\xc3", 1),
    "arithmetic": jpeg().replace(b"\xff\xc0", b"\xff\xc9", 1),
    "arithmetic conditioning": with_segment(jpeg(), 0xCC, b"\0\x10"),
    "a line count": with_segment(jpeg(), 0xDC, b"\0\x25", jpeg().rindex(b"\xff\xd9")),
    "two frames": with_segment(jpeg(), 0xC0, jpeg()[jpeg().index(b"\xff\xc0") + 4 :][:15]),
    "progressive scans in a baseline frame": jpeg(progressive=True).replace(b"\xff\xc2", b"\xff\xc0", 1),
    "a baseline scan in a progressive frame": jpeg().replace(b"\xff\xc0", b"\xff\xc2", 1),
    "the scan twice": jpeg(mode="L")[:-2] + jpeg(mode="L")[segments(jpeg(mode="L"))[-1][1] :],
    "no quantization": without(jpeg(), 0xDB, 1),
    "no codes": without(jpeg(), 0xC4, 3),
    "16-bit quantization": edited(jpeg(), 0xDB, 0, 0x10),
    "quantization for a fifth place": edited(jpeg(), 0xDB, 0, 4),
    "codes of a third class": edited(jpeg(), 0xC4, 0, 0x20),
    "more codes than there are": edited(jpeg(), 0xC4, 1, 3),
    "a code of all ones": edited(edited(jpeg(), 0xC4, 1, 2), 0xC4, 3, 3),
    "a difference of 12 bits": edited(jpeg(), 0xC4, 17, 12),
    "a coefficient of 11 bits": edited(jpeg(), 0xC4, 17, 0x1B, 1),
    "a scan of an unknown component": edited(jpeg(), 0xDA, 1, 9),
    "a scan with a component twice": edited(jpeg(), 0xDA, 3, 1),
    "a scan with codes of the third place": edited(jpeg(), 0xDA, 2, 0x20),
    "a scan of some coefficients": edited(jpeg(), 0xDA, 8, 62),
    "no coded pixels": jpeg()[: segments(jpeg())[-1][1] + 14] + b"\xff\xd9",
    "fill bytes": b"\xff\xd8\xff\xff" + jpeg()[3:],
    "junk between segments": b"\xff\xd8junk" + jpeg()[2:],
    "a restart interval of three bytes": with_segment(jpeg(), 0xDD, b"\0\1\0"),
    "restart markers without an interval": without(jpeg(restart_marker_blocks=3), 0xDD),
}


@pytest.fixture(params=["compiled", "Python"])
def read(request, monkeypatch):
    if request.param == "Python":
        monkeypatch.setattr(headers, "library", lambda: None)
    elif library() is None:
        pytest.skip("the kernels were not compiled")
    return lambda *files: read_headers(files).tolist()


@pytest.mark.parametrize("name", PLAIN)
def test_plain_files_are_what_pillow_says(read, name):
    data = PLAIN[name]
    image = Image.open(io.BytesIO(data))
    kind = PROGRESSIVE if image.info.get("progressive") else BASELINE
    assert read(data) == [[kind, image.height, image.width, len(image.getbands()), 1, len(data)]]


@pytest.mark.parametrize("name", UNUSUAL)
def test_whatever_is_out_of_the_ordinary_is_not_judged(read, name):
    assert read(UNUSUAL[name]) == [NOTHING]


def test_files_stand_in_their_rows(read):
    files = [*PLAIN.values(), *UNUSUAL.values()]
    assert read(*files) == [row for data in files for row in read(data)]
    assert read_headers([]).shape == (0, 6)


@pytest.mark.parametrize("orientation", [0, *range(1, 9), 9])
@pytest.mark.parametrize("order", ["MM", "II"])
@pytest.mark.parametrize("kind", [1, 3, 4, 7])
def test_orientations_are_those_of_exif(read, orientation, order, kind):
    data = with_segment(jpeg(), 0xE1, exif(orientation, order, kind))
    (row,) = read(data)
    assert row[:4] == [BASELINE, 37, 53, 3]
    assert row[4] == probe(data).orientation
    if kind == 3 and 1 <= orientation <= 8:
        assert row[4] == Image.open(io.BytesIO(data)).getexif()[0x0112] == orientation


@pytest.mark.parametrize(
    ("packet", "orientation"),
    [
        (b'<x tiff:Orientation="6"/>', 6),
        (b"<tiff:Orientation>3</tiff:Orientation>", 3),
        (b'<tiff:tiff:Orientation=6 tiff:Orientation="8"', 8),
        (b'<x tiff:Orientation="9"/>', 1),
        (b'<x tiff:Orientation="', 1),
        (b"<x tiff:Orientation", 1),
        (b"<x tiff:Orientation>", 1),
        (b"t" * 40, 1),
    ],
)
def test_orientations_are_those_of_xmp_where_exif_has_none(read, packet, orientation):
    data = with_segment(jpeg(), 0xE1, b"http://ns.adobe.com/xap/1.0/\0" + packet)
    assert probe(data).orientation == orientation
    assert read(data)[0][4] == orientation
    assert read(with_segment(data, 0xE1, exif(2)))[0][4] == 2
    assert read(with_segment(data, 0xE1, exif(2)[:-16]))[0][4] == orientation  # the block ends before its entry


@pytest.mark.parametrize("size", range(40))
def test_a_short_exif_block_names_nothing(read, size):
    data = with_segment(jpeg(), 0xE1, exif(6)[:size])
    assert read(data)[0][4] == probe(data).orientation


@pytest.mark.parametrize("name", ["4:2:0", "progressive", "many restart markers", "grey"])
def test_no_cut_file_is_plain(read, name):
    data = PLAIN[name]
    rows = read(*(data[:size] for size in range(len(data))))
    assert rows == [NOTHING] * len(data)


@pytest.mark.parametrize("name", ["4:2:0", "progressive"])
def test_what_follows_the_picture_is_none_of_it(read, name):
    data = PLAIN[name]
    for more in (b"\0", b"\xff\xd9", jpeg(), bytes(3000)):
        assert read(data + more)[0][END] == len(data)


def test_restart_markers_come_in_their_order(read):
    data = PLAIN["many restart markers"]
    first = data.index(b"\xff\xd0", segments(data)[-1][1])
    assert read(data)[0][KIND] == BASELINE
    assert read(data[:first] + data[first + 2 :]) == [NOTHING]
    assert read(data[: first + 1] + b"\xd1" + data[first + 2 :]) == [NOTHING]


@pytest.mark.parametrize("ordinal", range(10))
def test_a_progressive_picture_has_all_its_scans_once(read, ordinal):
    data = PLAIN["progressive"]
    scans = [each for each in segments(data) if each[0] == 0xDA]
    assert len(scans) == 10
    _, start, end = scans[ordinal]
    assert read(data[:start] + data[end:]) == [NOTHING]
    assert read(data[:end] + data[start:end] + data[end:]) == [NOTHING]


@pytest.mark.parametrize(("bits", "kind"), [(7, PROGRESSIVE), (8, 0)])
def test_a_file_of_very_many_scans_is_not_plain(read, bits, kind):
    data = PLAIN["grey, progressive"]
    tables = [data[start:end] for marker, start, end in segments(data) if marker in (0xDB, 0xC2, 0xC4)]
    scans = [
        b"\xff\xda\0\x08\1\1\0" + bytes([place, place, low + 1 << 4 | low if low < bits - 1 else low]) + b"\0"
        for low in reversed(range(bits))
        for place in range(64)
    ]
    assert read(b"\xff\xd8" + b"".join(tables + scans) + b"\xff\xd9")[0][KIND] == kind


def damaged(chance, data):
    changed = bytearray(data)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(changed) if chance.random() < 0.3 else min(700, len(changed)))
        changed[at] = chance.choice((0, 255, chance.randrange(256), changed[at] ^ 1 << chance.randrange(8)))
    return bytes(changed[: chance.randrange(len(changed)) if chance.random() < 0.1 else len(changed)])


def test_damage_outside_of_the_coded_pixels_is_never_plain():
    chance = random.Random(5)
    sources = [*PLAIN.values(), *(with_segment(jpeg(), 0xE1, exif(6, order)) for order in ("MM", "II"))]
    files = [damaged(chance, chance.choice(sources)) for _ in range(4000)]
    table = read_headers(files).tolist()
    assert table == [list(read_row(data)) for data in files]
    complaints = []
    options = DecodeOptions(max_pixels=2**20)
    with Decoder() as decoder:
        for data, row in zip(files, table, strict=True):
            if row == NOTHING:
                continue
            header = probe(data)
            kind = PROGRESSIVE if header.progressive else BASELINE
            assert row[:5] == [kind, header.height, header.width, header.channels, header.orientation]
            if header.height * header.width <= options.max_pixels:
                try:
                    decoder.decode(data, options, header=header)
                except DecodeError as error:
                    complaints.append(str(error))
    assert 0 < len(complaints) < len(files) / 5
    assert all("Corrupt JPEG data" in complaint for complaint in complaints)  # which is about coded pixels
