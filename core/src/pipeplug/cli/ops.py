"""`pipeplug ops`: the installed operators."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from pipeplug.cli import complain
from pipeplug.errors import PipeplugError, PluginError, UnknownOperatorError
from pipeplug.plugins.registry import OperatorRegistry, default_registry

if TYPE_CHECKING:
    from pipeplug.description import Argument, Description


@dataclass(frozen=True, slots=True)
class Row:
    """What the list says of one operator that one distribution offers."""

    name: str
    devices: tuple[str, ...]
    plugin: str
    version: str
    summary: str
    error: str | None


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="describe this operator, such as image.resize")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("-q", "--quiet", action="store_true", help="names only; imports no plugin")
    form.add_argument("--json", action="store_true", help="write JSON")


def execute(options: argparse.Namespace) -> int:
    """Lists the operators, or describes one."""
    registry = default_registry()
    if options.name is not None:
        return _show_one(registry, options)
    if options.quiet:
        sys.stdout.write("".join(f"{name}\n" for name in registry.names()))
    elif options.json:
        _write_json([asdict(row) for row in list_operators(registry)])
    else:
        _write_table(list_operators(registry))
    return 0


def list_operators(registry: OperatorRegistry) -> list[Row]:
    """A row for each offer of an operator; the reason stands in the rows of those that cannot be used."""
    return [row for name in registry.names() for row in _rows(registry, name)]


def _rows(registry: OperatorRegistry, name: str) -> Iterable[Row]:
    entry = registry.entry(name)
    try:
        description = _describe(registry, name)
        devices, summary, error = description.devices, description.summary, None
    except PipeplugError as failure:
        devices, summary, error = (), "", " ".join(str(failure).split())
    for distribution in (entry.distribution, *entry.rivals):
        yield Row(name, devices, distribution.name, distribution.version, summary, error)


def _describe(registry: OperatorRegistry, name: str) -> Description:
    cls = registry.load(name)
    from pipeplug.description import describe

    try:
        return describe(cls)
    except PipeplugError:
        raise
    except Exception as error:
        raise PluginError(
            f"{name} of {registry.entry(name).distribution} cannot be described ({type(error).__name__}: {error}); "
            "tell its author"
        ) from error


def _show_one(registry: OperatorRegistry, options: argparse.Namespace) -> int:
    name = options.name
    try:
        distribution = registry.entry(name).distribution
    except UnknownOperatorError as error:
        return complain(error, status=2)
    if options.quiet:
        sys.stdout.write(f"{name}\n")
        return 0
    description = _describe(registry, name)
    plugin = {"plugin": distribution.name, "version": distribution.version}
    if options.json:
        _write_json({"name": name, **plugin, **asdict(description), "error": None})
    else:
        sys.stdout.write(_format(name, description, str(distribution)))
    return 0


def _write_json(value: object) -> None:
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def _write_table(rows: Iterable[Row]) -> None:
    from rich.table import Table
    from rich.text import Text

    from pipeplug.cli.terminal import show

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("name", "devices", "plugin"):
        table.add_column(heading, no_wrap=True)
    table.add_column("summary")
    for row in rows:
        last = Text(row.summary) if row.error is None else Text(f"error: {row.error}", style="red")
        table.add_row(row.name, ", ".join(row.devices) or "-", f"{row.plugin} {row.version}", last)
    show(table)


def _format(name: str, description: Description, plugin: str) -> str:
    facts = {
        "inputs": ", ".join(description.inputs) or "none",
        "outputs": description.outputs or "none",
        "devices": ", ".join(description.devices),
        "plugin": plugin,
        "source": description.source,
    }
    parts = [f"{name}{description.signature}", description.doc, _format_arguments(description.arguments)]
    parts.append("\n".join(f"{fact:8} {text}" for fact, text in facts.items()))
    return "\n\n".join(part for part in parts if part) + "\n"


def _format_arguments(arguments: tuple[Argument, ...]) -> str:
    if not arguments:
        return ""
    cells = [(each.name, each.type + " per sample" * each.per_sample, _format_default(each)) for each in arguments]
    names, types = (max(len(cell[column]) for cell in cells) for column in (0, 1))
    return "\n".join(["arguments", *(f"  {name:{names}}  {kind:{types}}  {rest}" for name, kind, rest in cells)])


def _format_default(argument: Argument) -> str:
    return "required" if argument.required else f"default {argument.default}"
