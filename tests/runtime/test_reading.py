from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pipeplug.runtime.reading import ItemReading


def reading(items: Iterator[object], start: int = 0, batch_size: int = 4, last_batch: Any = "keep") -> ItemReading:
    return ItemReading(items, "read.items", start=start, batch_size=batch_size, last_batch=last_batch)


def never() -> bool:
    return False


def everything(source: ItemReading) -> list[tuple[list[object], list[int], int]]:
    found = []
    while items := source.read(never):
        rows = source.rows()
        source.accept()
        found.append((items, rows.positions.tolist(), rows.padding))
    return found


@pytest.mark.parametrize(
    ("last_batch", "last"),
    [("keep", [(["8", "9"], [8, 9], 0)]), ("drop", []), ("pad", [(["8", "9", "9", "9"], [8, 9, 9, 9], 2)])],
)
@pytest.mark.parametrize("start", [0, 4])
def test_iterations(last_batch: str, last: list[Any], start: int):
    whole = [(["0", "1", "2", "3"], [0, 1, 2, 3], 0), (["4", "5", "6", "7"], [4, 5, 6, 7], 0), *last]
    assert everything(reading(map(str, range(10)), start, last_batch=last_batch)) == whole[start // 4 :]


@pytest.mark.parametrize("start", [10, 11, 100])
def test_a_start_at_or_after_the_end(start: int):
    assert everything(reading(iter(range(10)), start)) == []


def test_the_same_items_until_they_are_accepted():
    source = reading(iter(range(6)))
    assert source.read(never) == source.read(never) == [0, 1, 2, 3]
    source.accept()
    assert source.read(never) == source.read(never) == [4, 5]
    source.accept()
    assert source.read(never) == []


def test_ends_between_two_items_when_cancelled():
    taken = []

    def items() -> Iterator[int]:
        for number in range(100):
            taken.append(number)
            yield number

    assert reading(items(), batch_size=50).read(lambda: len(taken) == 3) == []
    assert taken == [0, 1, 2]


@pytest.mark.parametrize("start", [0, 2])
def test_keeps_what_was_raised(start: int):
    def items() -> Iterator[int]:
        yield from range(6)
        raise OSError("gone")

    source = reading(items(), start)
    assert source.read(never) == list(range(start, start + 4))
    source.accept()
    assert source.read(never) == []
    assert str(source.error) == "read.items raised OSError after 6 items: gone"
    assert source.error is not None
    assert isinstance(source.error.__cause__, OSError)
    assert source.read(never) == []
