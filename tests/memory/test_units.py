from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeplug.errors import ArgumentError
from pipeplug.memory import format_bytes, parse_bytes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("64", 64),
        ("64 B", 64),
        ("512MB", 512_000_000),
        ("512 mb", 512_000_000),
        ("3kB", 3_000),
        ("2GiB", 2_147_483_648),
        (" 1.5 GiB ", 1_610_612_736),
        ("0.1kB", 100),
        ("1TB", 1_000_000_000_000),
        ("1TiB", 1_099_511_627_776),
        (4096, 4096),
    ],
)
def test_parse_bytes(text: int | str, expected: int) -> None:
    assert parse_bytes(text) == expected


@pytest.mark.parametrize(
    "text", ["", "GiB", "2 G", "-1", "1e9", "1,5 GB", "nan", "2 GiB x", "٣MB", -1, True, 1.5, None]
)
def test_parse_bytes_refuses(text: object) -> None:
    with pytest.raises(ArgumentError, match="is not a size in bytes; write a whole number"):
        parse_bytes(text)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (-1536, "-1.5 KiB"),
        (2**20, "1.0 MiB"),
        (38_535_168, "36.8 MiB"),
        (2**31, "2.0 GiB"),
        (2**40, "1.0 TiB"),
        (2**51, "2048.0 TiB"),
    ],
)
def test_format_bytes(size: int, expected: str) -> None:
    assert format_bytes(size) == expected


@given(st.integers(1, 2**60))
def test_what_is_formatted_can_be_parsed(size: int) -> None:
    assert abs(parse_bytes(format_bytes(size)) - size) <= 0.05 * size
