"""Checks of arguments against the annotations that declare them."""

from __future__ import annotations

import operator as operators
import types
from collections.abc import Callable as AbstractCallable
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pipeplug.errors import ArgumentError


class Misfit(Exception):  # noqa: N818 - never leaves this module
    """A value is not of the annotated type."""


def convert(value: object, annotation: object, where: str) -> Any:
    """`value` as the annotated type: lists become tuples, whole numbers floats, NumPy scalars Python numbers.

    Raises ArgumentError that names `where` when the value does not fit.
    """
    try:
        return _convert(value, annotation)
    except Misfit:
        raise ArgumentError(f"{where} takes {type_name(annotation)}, got {value!r:.80}") from None


def _convert(value: object, annotation: object) -> object:
    if type(value) is annotation:
        return value
    origin = get_origin(annotation)
    if origin is Annotated:
        return _convert(value, get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return _convert_union(value, get_args(annotation))
    if origin is Literal:
        return _expect(value, any(value == choice and type(value) is type(choice) for choice in get_args(annotation)))
    if origin is tuple:
        return _convert_tuple(value, get_args(annotation))
    if origin is AbstractCallable:
        return _expect(value, callable(value))
    if annotation in _PLAIN:
        return _PLAIN[annotation](value)
    return _expect(value, _is_of(value, origin or annotation))


def _is_of(value: object, kind: object) -> bool:
    try:
        return not isinstance(kind, type) or isinstance(value, kind)
    except TypeError:  # a TypedDict or a Protocol, which does not tell its instances
        return True


def _expect(value: object, fits: bool) -> object:
    if not fits:
        raise Misfit
    return value


def _convert_union(value: object, choices: tuple[object, ...]) -> object:
    if type(value) in choices:
        return value
    for choice in choices:
        try:
            return _convert(value, choice)
        except Misfit:
            continue
    raise Misfit


def _convert_tuple(value: object, items: tuple[object, ...]) -> tuple[object, ...]:
    value = _plain(value)
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        raise Misfit
    values = tuple(value)
    if len(items) == 2 and items[1] is Ellipsis:
        return tuple(_convert(each, items[0]) for each in values)
    _expect(values, len(values) == len(items))
    return tuple(_convert(each, item) for each, item in zip(values, items, strict=True))


def _plain(value: object) -> object:
    """Arrays, NumPy scalars and Tensors as Python lists and numbers; everything else as it is."""
    return value.__array__().tolist() if hasattr(value, "__array__") else value


def _to_int(value: object) -> int:
    value = _plain(value)
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise Misfit
    return operators.index(value)


def _to_float(value: object) -> float:
    value = _plain(value)
    if isinstance(value, bool) or not (hasattr(value, "__float__") or hasattr(value, "__index__")):
        raise Misfit
    try:
        return float(value)  # type: ignore[arg-type]  # as just seen
    except (TypeError, ValueError, OverflowError):
        raise Misfit from None


def _to_bool(value: object) -> bool:
    value = _plain(value)
    if not isinstance(value, bool):
        raise Misfit
    return value


def _to_none(value: object) -> None:
    _expect(value, value is None)


_PLAIN: dict[object, AbstractCallable[[object], object]] = {
    Any: lambda value: value,
    object: lambda value: value,
    int: _to_int,
    float: _to_float,
    bool: _to_bool,
    type(None): _to_none,
    None: _to_none,
}


def type_name(annotation: object) -> str:
    """An annotation as a user would write it."""
    origin, items = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return type_name(items[0])
    if origin in (Union, types.UnionType):
        return " | ".join(type_name(item) for item in items)
    if origin is Literal:
        return " | ".join(repr(item) for item in items)
    if annotation in (None, type(None)):
        return "None"
    if annotation is Ellipsis:
        return "..."
    if origin is tuple:
        return f"tuple[{', '.join(type_name(item) for item in items)}]"
    return getattr(origin or annotation, "__name__", str(annotation))
