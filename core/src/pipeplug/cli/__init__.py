"""The command line, `pipeplug`. A command's module is imported when the command is given."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, cast

from pipeplug.errors import PipeplugError, SampleFailed

__all__ = ["main"]


class Command(Protocol):
    """What the module of a command offers."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Declares the command's arguments."""

    def execute(self, options: argparse.Namespace) -> int:
        """Runs the command and gives the exit status."""


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """A command, and the module that implements it."""

    name: str
    summary: str
    module: str


COMMANDS = (
    CommandEntry("ops", "list the installed operators, or describe one", "pipeplug.cli.ops"),
    CommandEntry("doctor", "check the installation and all plugins", "pipeplug.cli.doctor"),
    CommandEntry("plan", "show what a pipeline function says, and what runs", "pipeplug.cli.plan"),
    CommandEntry("run", "run a pipeline function and say what it took", "pipeplug.cli.run"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        argv: the arguments, else those of the process.

    Returns:
        The exit status: 0 for success, 1 for failure, 2 for wrong usage, 130 when interrupted.
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a letter that the terminal lacks is no reason to fail
    try:
        status = _run(arguments)
        sys.stdout.flush()
        return status
    except PipeplugError as error:
        return complain(f"{error}{_place_of(error)}")
    except KeyboardInterrupt:
        return complain("interrupted", status=130)
    except BrokenPipeError:
        # Whoever read has gone; the interpreter would fail once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _place_of(error: PipeplugError) -> str:
    """Where a sample's failure was raised, if it was a mistake in somebody's code, not one of ours with advice."""
    if not isinstance(error, SampleFailed) or isinstance(error.cause, PipeplugError):
        return ""
    from pipeplug.runtime.frames import place_of

    place = place_of(error.cause)
    return f" (raised at {place})" if place else ""


def complain(error: object, status: int = 1) -> int:
    """Writes a message to standard error on one line; gives the exit status back."""
    sys.stderr.write(f"pipeplug: {' '.join(str(error).split())}\n")
    return status


def _run(arguments: Sequence[str]) -> int:
    chosen = next((each for each in arguments if not each.startswith("-")), None)
    parser = argparse.ArgumentParser(prog="pipeplug", description="Operators that load, decode and augment data.")
    parser.add_argument("--version", action=_ShowVersion, help="show the version of pipeplug and exit")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for entry in COMMANDS:
        command_parser = commands.add_parser(entry.name, help=entry.summary, description=f"{entry.summary}.")
        if entry.name == chosen:
            command = cast("Command", import_module(entry.module))
            command.configure(command_parser)
            command_parser.set_defaults(execute=command.execute)
    try:
        options = parser.parse_args(arguments)
        return int(options.execute(options))
    except SystemExit as stop:  # argparse ends the process after --help and after wrong usage
        return int(stop.code or 0)


class _ShowVersion(argparse.Action):
    """Finds the version only when asked: reading metadata takes longer than parsing arguments."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str | None = None) -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, help=help)

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        from pipeplug.plugins.compat import core_version

        sys.stdout.write(f"pipeplug {core_version() or '(not installed)'}\n")
        parser.exit()
