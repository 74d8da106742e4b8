"""The structure of BMP: the headers of Windows 3 to 5 and OS/2."""

from __future__ import annotations

import struct

from pipeplug import DecodeError
from pipeplug_image.codecs.header import ImageHeader

SIGNATURE = b"BM"

_CORE = 12
_SIZES = (12, 40, 52, 56, 64, 108, 124)
_DEPTHS = (1, 4, 8, 16, 24, 32)
_PLAIN, _BITFIELDS = 0, 3


def is_bmp(data: bytes) -> bool:
    """Whether the first bytes are those of a BMP."""
    return data[:2] == SIGNATURE and (len(data) < 18 or int.from_bytes(data[14:18], "little") in _SIZES)


def read_header(data: bytes) -> ImageHeader:
    """The header of a BMP. Raises DecodeError when it is cut or has a depth that does not exist."""
    try:
        return _read(data)
    except struct.error:
        raise DecodeError(f"BMP is cut: its header does not end within {len(data)} bytes") from None


def _read(data: bytes) -> ImageHeader:
    (size,) = struct.unpack_from("<I", data, 14)
    if size == _CORE:
        width, height, _, bits = struct.unpack_from("<HHHH", data, 18)
        compression = _PLAIN
    else:
        width, height, _, bits, compression = struct.unpack_from("<iiHHI", data, 18)
    if bits not in _DEPTHS or width < 0:
        raise DecodeError(f"BMP is broken: it says it has {bits} bits a pixel and is {width} pixels wide")
    alpha = bits == 32 and compression == _BITFIELDS and _has_alpha(data, size)
    return ImageHeader("BMP", abs(height), width, "RGBA" if alpha else "RGB", palette=bits <= 8)


def _has_alpha(data: bytes, size: int) -> bool:
    masks = struct.unpack_from("<IIII", data, 54)
    # Masks that are all 0 mean blue, green, red, alpha to Pillow.
    return size >= 56 and (masks[3] != 0 or not any(masks))


def find_cut(data: bytes, header: ImageHeader) -> str | None:
    """What is missing at the end; None for a file whose uncompressed pixels are all there."""
    (offset, size) = struct.unpack_from("<II", data, 10)
    bits = int.from_bytes(data[24:26] if size == _CORE else data[28:30], "little")
    compression = _PLAIN if size == _CORE else int.from_bytes(data[30:34], "little")
    if compression not in (_PLAIN, _BITFIELDS):
        return None  # run lengths: only decoding tells
    end = offset + (header.width * bits + 31) // 32 * 4 * header.height
    return f"its pixels end at byte {end}, and there are {len(data)}" if end > len(data) else None
