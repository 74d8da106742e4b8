"""Sizes in bytes, as people write and read them."""

from __future__ import annotations

import re
from decimal import Decimal

from pipeplug.errors import ArgumentError

_UNITS = {
    "": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
}  # fmt: skip
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]*)\s*", re.ASCII)


def parse_bytes(size: int | str) -> int:
    """The number of bytes that `size` says: `4096`, `"512 MB"`, `"1.5GiB"`; a fraction of a byte is cut off.

    Units in any case: B, kB, MB, GB, TB are powers of 1000 (SI), KiB, MiB, GiB, TiB powers of 1024 (IEC 80000-13).
    Raises ArgumentError for anything else.
    """
    if isinstance(size, int) and not isinstance(size, bool) and size >= 0:
        return size
    match = _SIZE.fullmatch(size) if isinstance(size, str) else None
    if match is None or match[2].lower() not in _UNITS:
        raise ArgumentError(f'{size!r} is not a size in bytes; write a whole number, or one such as "512MB" or "2GiB"')
    return int(Decimal(match[1]) * _UNITS[match[2].lower()])


def format_bytes(size: int) -> str:
    """`size` bytes to read: at most one decimal, in the largest of B, KiB, MiB, GiB, TiB that leaves at least one."""
    if abs(size) < 1024:
        return f"{size} B"
    power = min((abs(size).bit_length() - 1) // 10, 4)
    return f"{size / 1024**power:.1f} {'KMGT'[power - 1]}iB"
