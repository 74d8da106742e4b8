"""The structure of GIF (89a): its blocks."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from pipeplug import DecodeError
from pipeplug_image.codecs.header import Color, ImageHeader

SIGNATURES = (b"GIF87a", b"GIF89a")

_EXTENSION, _IMAGE, _TRAILER = 0x21, 0x2C, 0x3B
_GRAPHIC_CONTROL = 0xF9


def read_header(data: bytes) -> ImageHeader:
    """The header of a GIF. Raises DecodeError when it is cut or has no picture."""
    try:
        return _read(data)
    except (IndexError, struct.error):
        raise DecodeError(f"GIF is cut: its header does not end within {len(data)} bytes") from None


def _read(data: bytes) -> ImageHeader:
    width, height = struct.unpack_from("<HH", data, 6)
    transparent = interlaced = False
    frames = 0
    for kind, at in blocks(data):
        if kind == _EXTENSION and frames == 0 and data[at + 1] == _GRAPHIC_CONTROL:
            transparent = bool(data[at + 3] & 1)
        elif kind == _IMAGE:
            frames += 1
            if frames == 1:
                left, top, across, down, flags = struct.unpack_from("<HHHHB", data, at + 1)
                # Pillow, too, makes room for a picture that reaches beyond the screen.
                width, height = max(width, left + across), max(height, top + down)
                interlaced = bool(flags & 0x40)
    if frames == 0:
        raise DecodeError("GIF has no picture within its bytes: it is cut, or empty")
    color: Color = "RGBA" if transparent else "RGB"
    return ImageHeader("GIF", height, width, color, progressive=interlaced, palette=True, animated=frames > 1)


def blocks(data: bytes) -> Iterator[tuple[int, int]]:
    """The kind and the offset of each block, the trailer last; stops where the data is cut or makes no sense."""
    at = 13 + _table(data[10])
    while at < len(data):
        kind = data[at]
        yield kind, at
        if kind == _IMAGE and at + 10 < len(data):
            at = _after_blocks(data, at + 11 + _table(data[at + 9]))
        elif kind == _EXTENSION:
            at = _after_blocks(data, at + 2)
        else:
            return


def _table(flags: int) -> int:
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _after_blocks(data: bytes, at: int) -> int:
    while at < len(data) and data[at]:
        at += data[at] + 1
    return at + 1


def find_cut(data: bytes, header: ImageHeader) -> str | None:
    """What is missing at the end; None for a file that ends with its trailer."""
    *_, (last, _) = blocks(data)
    return None if last == _TRAILER else f"its trailer is not in its {len(data)} bytes"
