from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, TypedDict

import numpy as np
import pytest

from pipeplug import ArgumentError, Tensor
from pipeplug.arguments import convert, type_name


class Sized(TypedDict):
    size: int


class Sampler(Protocol):
    def __call__(self, epoch: int) -> Sequence[int]: ...


@pytest.mark.parametrize(
    ("value", "annotation", "expected"),
    [
        (3, int, 3),
        (np.int64(3), int, 3),
        (np.array(3), int, 3),
        (3, float, 3.0),
        (np.float32(0.5), float, 0.5),
        (Tensor(np.array(0.5)), float, 0.5),
        (float("inf"), float, float("inf")),
        (np.True_, bool, True),
        ("a", str, "a"),
        (None, None, None),
        ([1, 2], tuple[int, int], (1, 2)),
        (np.array([1, 2]), tuple[int, ...], (1, 2)),
        (np.array([[1, 2], [3, 4]]), tuple[tuple[float, float], ...], ((1.0, 2.0), (3.0, 4.0))),
        ((), tuple[int, ...], ()),
        ([[1], ["a"]], tuple[tuple[int], tuple[str]], ((1,), ("a",))),
        (3, int | float, 3),
        (3, float | int, 3),
        (3, float | None, 3.0),
        (None, float | None, None),
        (2, bool | float, 2.0),
        ([1, 2], float | tuple[float, float], (1.0, 2.0)),
        ("x", str | Path | tuple[str | Path, ...], "x"),
        (["x", Path("y")], str | Path | tuple[str | Path, ...], ("x", Path("y"))),
        ("linear", Literal["nearest", "linear"], "linear"),
        (3, Annotated[float, "a mark"], 3.0),
        ({"a": 1}, Mapping[str, int], {"a": 1}),
        ({"size": 1}, Sized, {"size": 1}),
        (len, Callable[[Any], int], len),
        (len, Sampler, len),
        (3, Any, 3),
        ("x", object, "x"),
    ],
)
def test_values_that_fit(value: object, annotation: object, expected: object):
    converted = convert(value, annotation, "here")
    assert converted == expected
    assert type(converted) is type(expected)


@pytest.mark.parametrize(
    ("value", "annotation", "text"),
    [
        (True, int, "int, got True"),
        (3.0, int, "int, got 3.0"),
        ("3", int, "int, got '3'"),
        (np.array([1, 2]), int, "int, got array([1, 2])"),
        (np.True_, int, "int, got np.True_"),
        (np.float64(3.0), int, "int, got np.float64(3.0)"),
        ("0.5", float, "float, got '0.5'"),
        (True, float, "float, got True"),
        (np.array([0.5]), float, "float, got array([0.5])"),
        (10**400, float, "float, got 1000"),
        (1 + 2j, float, "float, got (1+2j)"),
        (1, bool, "bool, got 1"),
        (1, str, "str, got 1"),
        (0, None, "None, got 0"),
        ((1, 2, 3), tuple[int, int], "tuple[int, int], got (1, 2, 3)"),
        ((1, "a"), tuple[int, ...], "tuple[int, ...], got (1, 'a')"),
        ("ab", tuple[str, ...], "tuple[str, ...], got 'ab'"),
        (5, tuple[int, int], "tuple[int, int], got 5"),
        ("x", float | None, "float | None, got 'x'"),
        ("cubic", Literal["nearest", "linear"], "'nearest' | 'linear', got 'cubic'"),
        (True, Literal[1], "1, got True"),
        (3, Callable[[], int], "Callable, got 3"),
        ([1], Mapping[str, int], "Mapping, got [1]"),
        ("x", Annotated[float, "a mark"], "float, got 'x'"),
        ("x", Path, "Path, got 'x'"),
    ],
)
def test_values_that_do_not(value: object, annotation: object, text: str):
    with pytest.raises(ArgumentError) as caught:
        convert(value, annotation, "image.resize(size=…)")
    assert str(caught.value).startswith(f"image.resize(size=…) takes {text}")


def test_messages_stay_short():
    with pytest.raises(ArgumentError) as caught:
        convert("x" * 10_000, int, "here")
    assert len(str(caught.value)) < 120


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (int, "int"),
        (int | None, "int | None"),
        (tuple[int, ...], "tuple[int, ...]"),
        (Literal["a", "b"], "'a' | 'b'"),
        (Annotated[tuple[float, float], "a mark"], "tuple[float, float]"),
        (Any, "Any"),
        (Path, "Path"),
    ],
)
def test_names_of_types(annotation: object, text: str):
    assert type_name(annotation) == text
