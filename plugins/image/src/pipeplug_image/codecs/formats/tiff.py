"""The structure of TIFF (6.0, and BigTIFF): its first directory."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from pipeplug import DecodeError
from pipeplug_image.codecs.exif import TAG as ORIENTATION
from pipeplug_image.codecs.exif import xmp_orientation
from pipeplug_image.codecs.header import Color, ImageHeader

SIGNATURES = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")

_WIDTH, _HEIGHT, _BITS, _PHOTOMETRIC, _SAMPLES = 256, 257, 258, 262, 277
_OFFSETS, _COUNTS, _TILE_OFFSETS, _TILE_COUNTS = 273, 279, 324, 325
_EXTRA, _SAMPLE_FORMAT, _XMP = 338, 339, 700
_COLORS: dict[int, tuple[Color, int]] = {
    0: ("L", 1), 1: ("L", 1), 2: ("RGB", 3), 3: ("RGB", 1), 5: ("CMYK", 4), 6: ("RGB", 3),
}  # fmt: skip
_WITH_ALPHA: dict[Color, Color] = {"L": "LA", "RGB": "RGBA"}
_TYPES = {1: "B", 2: "B", 3: "H", 4: "I", 6: "b", 7: "B", 8: "h", 9: "i", 13: "I", 16: "Q", 17: "q", 18: "Q"}
_SIZES = {**{kind: struct.calcsize("=" + code) for kind, code in _TYPES.items()}, 5: 8, 10: 8, 11: 4, 12: 8}
_DTYPES = {(1, 16): "uint16", (3, 32): "float32", (2, 32): "int32"}


@dataclass(frozen=True, slots=True)
class Directory:
    """The tags of the first directory that hold integers, and where the next directory is (0: nowhere)."""

    tags: dict[int, tuple[int, ...]]
    next: int


def read_header(data: bytes) -> ImageHeader:
    """The header of a TIFF's first page. Raises DecodeError when its directory is cut or of a kind not supported."""
    directory = read_directory(data)
    tags = directory.tags
    if _WIDTH not in tags or _HEIGHT not in tags:
        raise DecodeError("TIFF is broken: its directory names no size")
    kind = _first(tags, _PHOTOMETRIC, 0)
    if kind not in _COLORS:
        raise DecodeError(f"TIFF stores colours of kind {kind}; grey, RGB, palette, CMYK and YCbCr can be decoded")
    color, base = _COLORS[kind]
    samples = _first(tags, _SAMPLES, base)
    alpha = color in _WITH_ALPHA and samples == base + 1 and _first(tags, _EXTRA, 2) in (1, 2)
    return ImageHeader(
        "TIFF",
        tags[_HEIGHT][0],
        tags[_WIDTH][0],
        _WITH_ALPHA[color] if alpha else color,
        _dtype(tags),
        _orientation(tags),
        palette=kind == 3,
        animated=directory.next != 0,
    )


def _dtype(tags: dict[int, tuple[int, ...]]) -> str:
    bits, kind = _first(tags, _BITS, 1), _first(tags, _SAMPLE_FORMAT, 1)
    if kind == 1 and bits <= 8:
        return "uint8"
    if (kind, bits) not in _DTYPES:
        raise DecodeError(
            f"TIFF has {bits} bits a channel of sample format {kind}; 8, uint16, int32 and float32 can be decoded"
        )
    return _DTYPES[kind, bits]


def _first(tags: dict[int, tuple[int, ...]], tag: int, default: int) -> int:
    return tags[tag][0] if tag in tags else default


def _orientation(tags: dict[int, tuple[int, ...]]) -> int:
    if ORIENTATION in tags:
        value = tags[ORIENTATION][0]
        return value if 1 <= value <= 8 else 1
    xmp = bytes(value & 0xFF for value in tags.get(_XMP, ()))
    return xmp_orientation(xmp) or 1


def read_directory(data: bytes) -> Directory:
    """The first directory. Raises DecodeError when it, or a value of it, lies beyond the data."""
    try:
        return _read(data, "<" if data[:2] == b"II" else ">", data[2:4] in (b"+\0", b"\0+"))
    except (struct.error, OverflowError, IndexError):
        raise DecodeError(f"TIFF is cut: its directory does not end within {len(data)} bytes") from None


def _read(data: bytes, order: str, big: bool) -> Directory:
    long, count_code, entry_size = ("Q", "Q", 20) if big else ("I", "H", 12)
    (at,) = struct.unpack_from(order + long, data, 8 if big else 4)
    (count,) = struct.unpack_from(order + count_code, data, at)
    at += struct.calcsize("=" + count_code)
    tags: dict[int, tuple[int, ...]] = {}
    for place in range(at, at + count * entry_size, entry_size):
        tag, kind, number = struct.unpack_from(order + "HH" + long, data, place)
        value = place + 4 + struct.calcsize("=" + long)
        size = _SIZES.get(kind, 0) * number
        if size > struct.calcsize("=" + long):
            (value,) = struct.unpack_from(order + long, data, value)
        if value + size > len(data):
            raise DecodeError(f"TIFF is cut: tag {tag} ends at byte {value + size}, and there are {len(data)}")
        if kind in _TYPES and number:
            tags[tag] = struct.unpack_from(f"{order}{number}{_TYPES[kind]}", data, value)
    (following,) = struct.unpack_from(order + long, data, at + count * entry_size)
    return Directory(tags, following)


def find_cut(data: bytes, header: ImageHeader) -> str | None:
    """What is missing at the end; None when all strips and tiles of the first page are there."""
    tags = read_directory(data).tags
    for offsets, counts in ((_OFFSETS, _COUNTS), (_TILE_OFFSETS, _TILE_COUNTS)):
        for offset, count in zip(tags.get(offsets, ()), tags.get(counts, ()), strict=False):
            if offset + count > len(data):
                return f"its pixels end at byte {offset + count}, and there are {len(data)}"
    return None
