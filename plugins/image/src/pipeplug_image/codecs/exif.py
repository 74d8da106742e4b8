"""The orientation that a camera stored, and what it does to pictures and boxes. The definition is Pillow's."""

from __future__ import annotations

import re
import struct

TAG = 0x0112
"""The tag `Orientation` of TIFF 6.0 and EXIF."""

Box = tuple[int, int, int, int]
"""y, x, height, width."""

_XMP = re.compile(rb'tiff:Orientation(?:="|>)([0-9])')
_READERS = {
    order: (struct.Struct(sign + "I"), struct.Struct(sign + "H"), struct.Struct(sign + "HHIHH"))
    for order, sign in ((b"II", "<"), (b"MM", ">"))
}
_BYTE, _SHORT, _LONG = 1, 3, 4


def exif_orientation(block: bytes, start: int = 0) -> int | None:
    """The orientation in an EXIF block, which is a TIFF file's first directory; None if it names none.

    A value beyond 1 to 8 counts as 1, as it does for Pillow; a damaged block counts as none.
    """
    readers = _READERS.get(block[start : start + 2])
    if readers is None:
        return None
    long, short, entry = readers
    try:
        at = start + long.unpack_from(block, start + 4)[0]
        count = short.unpack_from(block, at)[0]
        for place in range(at + 2, at + 2 + 12 * count, 12):
            tag, kind, _, high, low = entry.unpack_from(block, place)
            if tag == TAG:
                return _value(block[start : start + 2], kind, high, low)
    except struct.error:
        return None
    return None


def _value(order: bytes, kind: int, first: int, second: int) -> int:
    if kind == _LONG:
        value = first | second << 16 if order == b"II" else first << 16 | second
    elif kind == _BYTE:
        value = first & 0xFF if order == b"II" else first >> 8
    else:
        value = first if kind == _SHORT else 1
    return value if 1 <= value <= 8 else 1


def xmp_orientation(text: bytes) -> int | None:
    """The orientation in an XMP packet, which Pillow heeds where EXIF names none."""
    found = _XMP.search(text)
    return None if found is None else _valid(int(found[1]))


def _valid(value: int) -> int:
    return value if 1 <= value <= 8 else 1


def inverse(orientation: int) -> int:
    """The orientation that undoes this one."""
    return {6: 8, 8: 6}.get(orientation, orientation)


def stored_box(box: Box, orientation: int, height: int, width: int) -> Box:
    """Where a box of the upright picture lies in the stored one, whose height and width are given."""
    y, x, h, w = box if orientation < 5 else (box[1], box[0], box[3], box[2])
    if orientation in (3, 4, 6, 7):
        y = height - y - h
    if orientation in (2, 3, 7, 8):
        x = width - x - w
    return y, x, h, w
