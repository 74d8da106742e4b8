"""The structure of JPEG (ITU-T T.81): markers up to the first scan."""

from __future__ import annotations

import struct

from pipeplug import DecodeError
from pipeplug_image.codecs.exif import exif_orientation, xmp_orientation
from pipeplug_image.codecs.header import Color, ImageHeader

SIGNATURE = b"\xff\xd8\xff"

_COLORS: dict[int, Color] = {1: "L", 3: "RGB", 4: "CMYK"}
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_PROGRESSIVE = frozenset((0xC2, 0xC6, 0xCA, 0xCE))
_SCAN, _APP1, _END = 0xDA, 0xE1, 0xD9
_ALONE = frozenset((0x01, *range(0xD0, 0xD9)))  # markers without a length
_EXIF, _XMP = b"Exif\0\0", b"http://ns.adobe.com/xap/1.0/\0"
_SEGMENT = struct.Struct(">BBH").unpack_from
_FRAME = struct.Struct(">BHHBxB").unpack_from  # as far as the sampling of the first component


def read_header(data: bytes) -> ImageHeader:
    """The header of a JPEG. Raises DecodeError when it is cut or has no frame."""
    try:
        return _read(data)
    except struct.error:
        raise DecodeError(f"JPEG is cut: its header does not end within {len(data)} bytes") from None


def _read(data: bytes) -> ImageHeader:
    frame = exif = xmp = None
    kind = 0
    at = 2
    while True:
        filler, marker, length = _SEGMENT(data, at)
        if filler != 0xFF or marker == 0xFF or marker == 0 or marker in _ALONE:
            at = _next_marker(data, at)
            continue
        if marker == _SCAN:
            break
        if marker == _END:
            raise DecodeError("JPEG has no picture: it ends after its header")
        if marker == _APP1:
            if exif is None and data.startswith(_EXIF, at + 4):
                exif = exif_orientation(data[at + 10 : at + 2 + length])
            elif data.startswith(_XMP, at + 4):
                xmp = xmp_orientation(data[at + 4 : at + 2 + length])
        elif marker in _FRAMES and frame is None:
            kind, frame = marker, _FRAME(data, at + 4)
        at += 2 + length
    if frame is None:
        raise DecodeError("JPEG is broken: its first scan comes before its frame header")
    return _header(frame, kind, exif or xmp or 1, at)


def _next_marker(data: bytes, at: int) -> int:
    """Skips bytes between segments, as libjpeg does: something that is no marker, or a marker without a length."""
    if data[at] == 0xFF and data[at + 1] in _ALONE:
        return at + 2
    found = data.find(b"\xff", at + 1)
    if found < 0:
        raise DecodeError(f"JPEG is cut: its header does not end within {len(data)} bytes")
    return found


def _header(frame: tuple[int, int, int, int, int], kind: int, orientation: int, body: int) -> ImageHeader:
    bits, height, width, components, sampling = frame
    if components not in _COLORS:
        raise DecodeError(f"JPEG has {components} colour components; 1, 3 and 4 can be decoded")
    if bits != 8:
        raise DecodeError(f"JPEG has {bits} bits a channel; only 8 can be decoded")
    color, progressive = _COLORS[components], kind in _PROGRESSIVE
    return ImageHeader(
        "JPEG", height, width, color, "uint8", orientation, progressive, body=body, block_width=8 * (sampling >> 4)
    )


def find_cut(data: bytes, header: ImageHeader) -> str | None:
    """What is missing at the end; None for a file with its end.

    Coded pixels never hold the bytes of the end marker, so it is enough to find them after the header, and cheap to
    find them from the end. What follows the marker is no part of the picture.
    """
    if data.rfind(b"\xff\xd9", header.body) < 0:
        return f"the end-of-image marker is not in its {len(data)} bytes"
    return None
