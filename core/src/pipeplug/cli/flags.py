"""Flags made of annotations: the parameters of a pipeline function, and the options of pipelines."""

from __future__ import annotations

import argparse
import inspect
import re
import types
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from pipeplug.arguments import type_name
from pipeplug.errors import ArgumentError
from pipeplug.options import OptionChanges, PipelineOptions
from pipeplug.signature import declaration_place

SCALARS = (str, int, float, bool, Path, PurePath)
SEQUENCES = (list, tuple, Sequence, Iterable)
OPTION = "option "
PARAMETER = "parameter "
RESERVED = frozenset(("--help", "--limit", "--epochs", "--memory", "--json", "--mermaid"))
"""The commands' own flags: of all of them, so that a parameter has one flag whatever the command."""


class Unreadable(Exception):  # noqa: N818 - never leaves this module
    """A text is not of the annotated type."""


def parse_text(text: str, annotation: object) -> Any:
    """What a text means where this type is wanted: `none` means None where that is allowed, booleans are words."""
    choices = _alternatives(annotation)
    if len(choices) > 1:
        return _parse_any(text, choices)
    [kind] = choices
    if get_origin(kind) is Literal:
        return _pick({str(choice): choice for choice in get_args(kind)}, text)
    if kind in (None, type(None)):
        return _pick({"none": None}, text.lower())
    if kind is bool:
        return _pick({"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}, text.lower())
    try:
        return cast("Callable[[str], object]", kind)(text) if kind in SCALARS else text
    except ValueError:
        raise Unreadable from None


def _parse_any(text: str, choices: Sequence[object]) -> Any:
    for choice in sorted(choices, key=lambda choice: choice is str):  # every text is a str, so that comes last
        try:
            return parse_text(text, choice)
        except Unreadable:
            continue
    raise Unreadable


def _pick(meanings: dict[str, Any], text: str) -> Any:
    if text not in meanings:
        raise Unreadable
    return meanings[text]


def _alternatives(annotation: object) -> tuple[object, ...]:
    """The types of a union, those that a single text can be before sequences; else the type alone."""
    if get_origin(annotation) is Annotated:
        return _alternatives(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(each for item in get_args(annotation) for each in _alternatives(item))
    return (annotation,)


def _sequence(annotation: object) -> object | None:
    """The list or tuple that an annotation asks for, unless a single text will do."""
    wanted = [each for each in _alternatives(annotation) if each not in (None, type(None))]
    sequences = [each for each in wanted if (get_origin(each) or each) in SEQUENCES]
    return sequences[0] if sequences and len(sequences) == len(wanted) else None


def is_readable(annotation: object) -> bool:
    """Whether a value of this type can be written on the command line."""
    sequence = _sequence(annotation)
    if sequence is not None:
        items = [item for item in get_args(sequence) if item is not Ellipsis]
        return all(_sequence(item) is None and is_readable(item) for item in items)
    choices = _alternatives(annotation)
    return any(each in SCALARS or each in (Any, object) or get_origin(each) is Literal for each in choices)


def count_of(annotation: object) -> int | str | None:
    """How many texts a flag takes, as argparse says it."""
    sequence = _sequence(annotation)
    if sequence is None:
        return None
    items = get_args(sequence)
    return len(items) if get_origin(sequence) is tuple and Ellipsis not in items else "+"


def parse_texts(given: str | list[str], annotation: object) -> Any:
    """The value of a flag. Raises Unreadable."""
    if isinstance(given, str):
        return parse_text(given, annotation)
    sequence = _sequence(annotation)
    items = [item for item in get_args(sequence) if item is not Ellipsis] or [str]
    kinds = items if len(items) == len(given) else items[:1] * len(given)
    values = [parse_text(text, kind) for text, kind in zip(given, kinds, strict=True)]
    return tuple(values) if tuple in (sequence, get_origin(sequence)) else values


@dataclass(frozen=True)
class Flag:
    """One flag: what it is called, where argparse keeps its text, and the annotation that says what it takes."""

    name: str
    dest: str
    annotation: object
    help: str
    required: bool = False

    def declare(self, parser: argparse._ActionsContainer) -> None:
        if self.annotation is bool:
            parser.add_argument(
                self.name,
                dest=self.dest,
                action=argparse.BooleanOptionalAction,
                default=argparse.SUPPRESS,
                help=self.help,
            )
            return
        parser.add_argument(
            self.name,
            dest=self.dest,
            nargs=count_of(self.annotation),
            metavar=self.dest.split()[-1].upper(),
            default=argparse.SUPPRESS,
            help=self.help,
        )

    def value(self, parser: argparse.ArgumentParser, flags: argparse.Namespace) -> Any:
        given = getattr(flags, self.dest)
        if isinstance(given, bool):
            return given
        try:
            return parse_texts(given, self.annotation)
        except Unreadable:
            shown = given if isinstance(given, str) else " ".join(given)
            parser.error(f"{self.name} takes {type_name(self.annotation)}, got {shown!r}")


def option_flags(options: PipelineOptions | None) -> list[Flag]:
    """A flag for each option of pipelines; its help comes from the documentation of the options."""
    texts = dict(re.findall(r"^\s+(\w+): (.+)$", PipelineOptions.__doc__ or "", re.MULTILINE))
    hints = get_type_hints(PipelineOptions)
    flags = []
    for item in fields(PipelineOptions):
        now = f" (now {_as_text(getattr(options, item.name))})" if options else ""
        text = texts.get(item.name, "").replace("`", "").rstrip(".")
        flags.append(Flag(_flag_name(item.name), OPTION + item.name, hints[item.name], _literally(text + now)))
    return flags


def add_option_flags(parser: argparse.ArgumentParser, options: PipelineOptions | None) -> None:
    """Declares the options of pipelines; `options` are those that hold without flags."""
    group = parser.add_argument_group("options of the pipeline")
    for flag in option_flags(options):
        flag.declare(group)


def changed_options(parser: argparse.ArgumentParser, flags: argparse.Namespace) -> OptionChanges:
    """The options that were given."""
    given = [flag for flag in option_flags(None) if hasattr(flags, flag.dest)]
    return cast("OptionChanges", {flag.dest.removeprefix(OPTION): flag.value(parser, flags) for flag in given})


def _flag_name(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _as_text(value: object) -> str:
    return "none" if value is None else str(value)


def _literally(text: str) -> str:
    return text.replace("%", "%%")  # argparse fills help texts in with `%`


class FunctionFlags:
    """The flags of a pipeline function's parameters.

    A parameter that is called like a flag of any command has the function's name before its own. One of a type that
    cannot be written on the command line has no flag and keeps its default.
    """

    def __init__(self, function: Callable[..., object], name: str) -> None:
        self._name = name
        self._signature = inspect.signature(function)
        flags = ((each.name, _parameter_flag(function, name, each)) for each in self._signature.parameters.values())
        self._flags = {parameter: flag for parameter, flag in flags if flag is not None}

    @property
    def required(self) -> list[str]:
        """The flags that must be given."""
        return [flag.name for flag in self._flags.values() if flag.required]

    def declare(self, parser: argparse.ArgumentParser, group: argparse._ActionsContainer) -> None:
        """Declares the flags in a group of the parser, whose usage names those that are required."""
        for flag in self._flags.values():
            flag.declare(group)
        needed = "".join(f" {flag} ..." for flag in self.required)
        parser.usage = f"{parser.prog}{needed} [options]"

    def values(
        self, parser: argparse.ArgumentParser, flags: argparse.Namespace
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The positional and the keyword arguments, those that were not given by default."""
        given = {name: flag for name, flag in self._flags.items() if hasattr(flags, flag.dest)}
        missing = [flag.name for name, flag in self._flags.items() if flag.required and name not in given]
        if missing:
            parser.error(f"{self._name} needs {', '.join(missing)}")
        values = {name: flag.value(parser, flags) for name, flag in given.items()}
        bound = inspect.BoundArguments(self._signature, cast("OrderedDict[str, Any]", values))
        bound.apply_defaults()
        return bound.args, bound.kwargs


def _parameter_flag(function: Callable[..., object], name: str, parameter: inspect.Parameter) -> Flag | None:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        return None
    required = parameter.default is parameter.empty
    annotation = _annotation(function, parameter)
    if is_readable(annotation):
        text = "required" if required else f"default {_as_text(parameter.default)}"
        flag = _flag_name(parameter.name)
        if flag in RESERVED or flag in {each.name for each in option_flags(None)}:
            flag = f"{_flag_name(name)}-{flag[2:]}"
        return Flag(flag, PARAMETER + parameter.name, annotation, _literally(text), required)
    if required:
        raise ArgumentError(
            f"{_place(function)}: {name} needs {parameter.name}, and the command line cannot give "
            f"{type_name(annotation)}; give it a default, or annotate it as text or a number"
        )
    return None


def _annotation(function: Callable[..., object], parameter: inspect.Parameter) -> object:
    if parameter.annotation is parameter.empty:
        default = parameter.default
        return str if default is parameter.empty or default is None else type(default)
    try:
        return inspect.signature(function, eval_str=True).parameters[parameter.name].annotation
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        raise ArgumentError(
            f"{_place(function)}: an annotation of {function.__name__} cannot be evaluated ({error}); "
            "import that name at run time, not only for type checking"
        ) from error


def _place(function: Callable[..., object]) -> str:
    return declaration_place(cast("Any", function))
