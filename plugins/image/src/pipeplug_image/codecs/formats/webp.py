"""The structure of WebP (RFC 9649): its chunks in a RIFF container."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from pipeplug import DecodeError
from pipeplug_image.codecs.exif import exif_orientation, xmp_orientation
from pipeplug_image.codecs.header import Color, ImageHeader

_CHUNK = struct.Struct("<4sI").unpack_from
_ALPHA, _ANIMATION = 0x10, 0x02


def is_webp(data: bytes) -> bool:
    """Whether the first bytes are those of a WebP."""
    return data[:4] == b"RIFF" and data[8:12] == b"WEBP"


def chunks(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Name, offset and length of the contents of each chunk; the last one may end beyond the data."""
    at, end = 12, min(len(data), 8 + int.from_bytes(data[4:8], "little"))
    while at + 8 <= end:
        name, length = _CHUNK(data, at)
        yield name, at + 8, length
        at += 8 + length + (length & 1)


def read_header(data: bytes) -> ImageHeader:
    """The header of a WebP. Raises DecodeError when it is cut or of another kind than VP8, VP8L and VP8X."""
    if len(data) < 30:
        raise DecodeError(f"WebP is cut: its header takes 30 bytes, and there are {len(data)}")
    kind = data[12:16]
    if kind == b"VP8 ":
        if data[23:26] != b"\x9d\x01\x2a":
            raise DecodeError("WebP is broken: its picture does not begin with a key frame")
        width, height = struct.unpack_from("<HH", data, 26)
        return ImageHeader("WebP", height & 0x3FFF, width & 0x3FFF, "RGB")
    if kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        if data[20] != 0x2F:
            raise DecodeError("WebP is broken: its picture does not begin with the signature of lossless coding")
        return ImageHeader("WebP", (bits >> 14 & 0x3FFF) + 1, (bits & 0x3FFF) + 1, "RGBA" if bits >> 28 & 1 else "RGB")
    if kind != b"VP8X":
        raise DecodeError(f"WebP is broken: its first chunk is called {kind!r}")
    return _extended(data)


def _extended(data: bytes) -> ImageHeader:
    flags = data[20]
    width, height = (int.from_bytes(data[at : at + 3], "little") + 1 for at in (24, 27))
    notes = {name: data[at : at + length] for name, at, length in chunks(data) if name in (b"EXIF", b"XMP ")}
    exif = exif_orientation(notes.get(b"EXIF", b"").removeprefix(b"Exif\0\0"))
    orientation = exif or xmp_orientation(notes.get(b"XMP ", b"")) or 1
    color: Color = "RGBA" if flags & _ALPHA else "RGB"
    return ImageHeader("WebP", height, width, color, "uint8", orientation, animated=bool(flags & _ANIMATION))


def find_cut(data: bytes, header: ImageHeader) -> str | None:
    """What is missing at the end; None for a whole file."""
    size = 8 + int.from_bytes(data[4:8], "little")
    if size > len(data):
        return f"it says that it has {size} bytes, and there are {len(data)}"
    return None
