"""`FILE:NAME`: the pipeline function of a Python file, with its arguments and options from the command line."""

from __future__ import annotations

import argparse
import inspect
import os
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from pipeplug.cli import complain
from pipeplug.cli.flags import FunctionFlags, add_option_flags, changed_options
from pipeplug.errors import ArgumentError, PipeplugError
from pipeplug.pipeline import Pipeline, PipelineFunction

DeclareFlags = Callable[[argparse.ArgumentParser], None]
MODULE = "__pipeline__"


@dataclass(frozen=True)
class Target:
    """A pipeline as the command line names it.

    Attributes:
        title: `FILE:NAME` as given.
        pipeline: traced and planned, not opened.
        flags: the flags of the command.
    """

    title: str
    pipeline: Pipeline
    flags: argparse.Namespace


def declare_target(parser: argparse.ArgumentParser, declare_flags: DeclareFlags) -> None:
    """Declares `FILE:NAME`, the command's own flags and the pipeline's options."""
    parser.allow_abbrev = False
    parser.usage = f"{parser.prog} [-h] FILE:NAME [the function's arguments] [options]"
    parser.add_argument("target", metavar="FILE:NAME", help="a Python file, and a pipeline function in it")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="more: FILE:NAME --help lists them")
    declare_flags(parser)
    add_option_flags(parser, None)


@contextmanager
def open_target(options: argparse.Namespace, command: str, declare_flags: DeclareFlags) -> Iterator[Target]:
    """Loads the file, reads the flags that its function has, and traces it.

    What the file defines can be imported until the block ends. Ends the process, with a message, for wrong usage.
    """
    file, name = _split(options.target)
    with _loaded(file) as module:
        function = _find(module, options.target, name)
        own = FunctionFlags(function.function, name)
        parser = _parser(f"pipeplug {command} {options.target}", function, own, declare_flags)
        flags = _parse(parser, options)
        args, kwargs = own.values(parser, flags)
        try:
            function = function.using(**changed_options(parser, flags))
            _ = function.options.memory_limits  # read here, so that a wrong size is wrong usage
        except ArgumentError as error:
            parser.error(str(error))
        with _errors_at(file):
            pipeline = function(*args, **kwargs)
        yield Target(options.target, pipeline, flags)


def _parser(
    title: str, function: PipelineFunction[...], own: FunctionFlags, declare_flags: DeclareFlags
) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(title, description=inspect.getdoc(function.function), allow_abbrev=False)
    group = parser.add_argument_group(f"arguments of {function.__name__}")
    declare_flags(parser)
    add_option_flags(parser, function.options)
    own.declare(parser, group)
    return parser


def _parse(parser: argparse.ArgumentParser, options: argparse.Namespace) -> argparse.Namespace:
    flags, unknown = parser.parse_known_args(options.arguments, options)
    if unknown:
        parser.error(f"there is no argument {unknown[0]}; {_advice(unknown[0], parser)}")
    return flags


def _advice(unknown: str, parser: argparse.ArgumentParser) -> str:
    wanted = unknown.partition("=")[0]
    known = [flag for flag in parser._option_string_actions if flag.startswith("--")]
    begun = [flag for flag in known if wanted.startswith("--") and flag.startswith(wanted)]
    close = begun or get_close_matches(wanted, known, 1, cutoff=0.75)
    return f"did you mean {close[0]}?" if close else "--help lists them"


def _split(target: str) -> tuple[Path, str]:
    file, separator, name = target.rpartition(":")
    if not separator or (os.path.exists(target) and not os.path.exists(file)):
        file, name = target, ""
    path = Path(os.path.abspath(os.path.expanduser(file)))
    if not path.exists():
        also = "" if separator else "; write FILE:NAME first, then its arguments"
        _stop(f"there is no file {file!r} in {os.getcwd()}{also}")
    if path.is_dir():
        _stop(f"{file} is a folder; name a Python file, and a pipeline function in it: FILE:NAME")
    return path, name


def _find(module: types.ModuleType, target: str, name: str) -> PipelineFunction[...]:
    found = {each: value for each, value in vars(module).items() if isinstance(value, PipelineFunction)}
    if name in found:
        return found[name]
    listing = f"the file has {', '.join(found)}" if found else "the file has no pipeline function"
    if not name:
        _stop(f"{target} names no pipeline: write FILE:NAME; {listing}")
    if name not in vars(module):
        _stop(f"{target}: there is no {name!r}; {listing}")
    return _refuse(vars(module)[name], target, listing)


def _refuse(value: object, target: str, listing: str) -> NoReturn:
    if isinstance(value, Pipeline):
        _stop(f"{target} has its arguments already; name the pipeline function that made it; {listing}")
    if isinstance(value, types.FunctionType):
        _stop(f"{target} is a plain function; put @pipeline(batch_size=...) above it, or name another; {listing}")
    _stop(f"{target} is not a pipeline function but {type(value).__name__}; {listing}")


def _stop(message: str) -> NoReturn:
    raise SystemExit(complain(message, status=2))


@contextmanager
def _loaded(path: Path) -> Iterator[types.ModuleType]:
    """Runs a file as Python runs a script, but under another name than `__main__`, and without writing byte code."""
    module = types.ModuleType(MODULE)
    module.__file__ = str(path)
    sys.path.insert(0, str(path.parent))
    sys.modules[MODULE] = module
    try:
        with _errors_at(path):
            exec(compile(path.read_bytes(), str(path), "exec", dont_inherit=True), vars(module))
        yield module
    finally:
        del sys.modules[MODULE]
        if str(path.parent) in sys.path:
            sys.path.remove(str(path.parent))


@contextmanager
def _errors_at(path: Path) -> Iterator[None]:
    """Errors of a user's file say its own line, and spare the reader the frames of this package."""
    try:
        yield
    except (Exception, SystemExit) as error:
        raise PipeplugError(_describe(error, str(path))) from error


def _describe(error: BaseException, path: str) -> str:
    if isinstance(error, SyntaxError) and error.filename == path:
        return f"{path}:{error.lineno}: {type(error).__name__}: {error.msg}: {(error.text or '').strip()}"
    frames = traceback.extract_tb(error.__traceback__)
    own: Any = next((frame for frame in reversed(frames) if frame.filename == path), None)
    message = str(error) if isinstance(error, PipeplugError) else f"{type(error).__name__}: {error}".rstrip(": ")
    if own is None:
        return message if isinstance(error, PipeplugError) else f"{path}: {message}"
    place = f"{path}:{own.lineno}"
    return message if place in message else f"{place} ({own.line}): {message}"
