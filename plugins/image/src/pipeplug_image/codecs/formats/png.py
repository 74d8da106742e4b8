"""The structure of PNG (third edition): its chunks."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator

from pipeplug import DecodeError
from pipeplug_image.codecs.exif import exif_orientation, xmp_orientation
from pipeplug_image.codecs.header import Color, ImageHeader

SIGNATURE = b"\x89PNG\r\n\x1a\n"

_COLORS: dict[int, Color] = {0: "L", 2: "RGB", 3: "RGB", 4: "LA", 6: "RGBA"}
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
_TRANSPARENT: dict[Color, Color] = {"L": "LA", "RGB": "RGBA"}
_PASSES = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1))
_CHUNK = struct.Struct(">I4s").unpack_from
_TEXT = b"XML:com.adobe.xmp\0"
_PROFILE = b"Raw profile type exif\0"
_PROFILE_LIMIT = 1 << 20


def chunks(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Name, offset and length of the contents of each chunk; the last one may end beyond the data."""
    at = len(SIGNATURE)
    while at + 8 <= len(data):
        length, name = _CHUNK(data, at)
        yield name, at + 8, length
        if name == b"IEND":
            return
        at += length + 12


def read_header(data: bytes) -> ImageHeader:
    """The header of a PNG. Raises DecodeError when it is cut or contradicts itself."""
    if len(data) < 33:
        raise DecodeError(f"PNG is cut: its header takes 33 bytes, and there are {len(data)}")
    if data[12:16] != b"IHDR":
        raise DecodeError("PNG is broken: it does not begin with IHDR")
    width, height, bits, kind, compression, filtering, interlace = struct.unpack_from(">IIBBBBB", data, 16)
    if bits not in _DEPTHS.get(kind, ()) or compression or filtering or interlace > 1:
        raise DecodeError(f"PNG is broken: {bits} bits of colour type {kind} is none that the standard knows")
    notes = {name: data[at : at + length] for name, at, length in chunks(data) if name in _NOTES}
    transparent = b"tRNS" in notes and kind in (0, 2, 3)
    return ImageHeader(
        "PNG",
        height,
        width,
        _TRANSPARENT[_COLORS[kind]] if transparent else _COLORS[kind],
        "uint16" if bits == 16 else "uint8",
        _orientation(notes),
        bool(interlace),
        kind == 3,
        b"acTL" in notes,
    )


_NOTES = frozenset((b"tRNS", b"acTL", b"eXIf", b"iTXt", b"zTXt", b"tEXt"))


def _orientation(notes: dict[bytes, bytes]) -> int:
    exif = notes.get(b"eXIf", b"").removeprefix(b"Exif\0\0") or _profile(notes)
    text = notes.get(b"iTXt", b"")
    return exif_orientation(exif) or (xmp_orientation(text) if text.startswith(_TEXT) else None) or 1


def _profile(notes: dict[bytes, bytes]) -> bytes:
    """The EXIF block that ImageMagick writes as text: a header of three lines, then hexadecimal."""
    plain, packed = notes.get(b"tEXt", b""), notes.get(b"zTXt", b"")
    try:
        if packed.startswith(_PROFILE):
            plain = _PROFILE + zlib.decompressobj().decompress(packed[len(_PROFILE) + 1 :], _PROFILE_LIMIT)
        digits = b"".join(plain.removeprefix(_PROFILE).split(b"\n")[3:]) if plain.startswith(_PROFILE) else b""
        return bytes.fromhex(digits.decode("ascii")).removeprefix(b"Exif\0\0")
    except (zlib.error, ValueError):
        return b""


def find_cut(data: bytes, header: ImageHeader) -> str | None:
    """What is missing at the end, or the chunk whose checksum is wrong; None for a whole file."""
    name = b""
    for name, at, length in chunks(data):
        if at + length + 4 > len(data):
            return f"its chunk {_printable(name)} ends {at + length + 4 - len(data)} bytes after the file"
        if not name.isalpha():
            return f"a chunk is called {_printable(name)}, which is no name"
        end = at + length
        if zlib.crc32(memoryview(data)[at - 4 : end]) != int.from_bytes(data[end : end + 4], "big"):
            return f"the checksum of its chunk {_printable(name)} is wrong"
    return None if name == b"IEND" else f"its last chunk is not in its {len(data)} bytes"


def _printable(name: bytes) -> str:
    return re.sub(r"[^ -~]", "?", name.decode("latin-1"))


def check_pixels(data: bytes, header: ImageHeader) -> None:
    """Raises DecodeError when the compressed pixels are broken in a way that `find_cut` does not see.

    For a decoder that reports broken data to the terminal instead of its caller.
    """
    packed = b"".join(data[at : at + length] for name, at, length in chunks(data) if name == b"IDAT")
    rows = list(_rows(header, data[24], data[25]))
    expected = sum(count * size for count, size in rows)
    try:
        inflater = zlib.decompressobj()
        pixels = inflater.decompress(packed, expected)
        inflater.decompress(inflater.unconsumed_tail, 1)
    except zlib.error as error:
        raise DecodeError(f"PNG is broken: {error}") from None
    if len(pixels) < expected:
        raise DecodeError(f"PNG is broken: {expected - len(pixels)} of {expected} bytes of pixels are missing")
    if not inflater.eof:
        raise DecodeError("PNG is broken: it holds more pixels than its size says")
    at = 0
    for count, size in rows:
        if count and max(pixels[at : at + count * size : size]) > 4:
            raise DecodeError("PNG is broken: a row has an unknown filter")
        at += count * size


def _rows(header: ImageHeader, bits: int, kind: int) -> Iterator[tuple[int, int]]:
    """The number of rows and the bytes of each, a pass of interlacing; each row begins with its filter's byte."""
    for y, x, down, across in _PASSES if header.progressive else ((0, 0, 1, 1),):
        width = -(-(header.width - x) // across)
        if width > 0:
            yield max(0, -(-(header.height - y) // down)), 1 + (width * _CHANNELS[kind] * bits + 7) // 8
