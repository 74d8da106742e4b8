"""Installed distributions, and the entry points that they offer to pipeplug."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from email.parser import HeaderParser
from importlib import metadata

CORE = "pipeplug"
"""The distribution of the core."""


def canonical_name(name: str) -> str:
    """A distribution's name in the one spelling by which names are compared (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


@dataclass(frozen=True, slots=True)
class PluginDistribution:
    """An installed distribution that offers something to pipeplug.

    Attributes:
        name: its canonical name, such as `pipeplug-image`.
        version: its version, as its metadata says it.
        requires: its requirements, as its metadata says them.
    """

    name: str
    version: str
    requires: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


@dataclass(frozen=True, slots=True)
class PluginEntry:
    """One entry point of a plugin.

    Attributes:
        name: the name under which it is offered.
        target: where it is, `module:object` or `module`.
        distribution: who offers it.
    """

    name: str
    target: str
    distribution: PluginDistribution


def read_distribution(distribution: metadata.Distribution) -> PluginDistribution:
    """What the metadata of a distribution says; an interrupted installation may lack any of it."""
    # Not `distribution.metadata`: without the file it raises, or is None, as the version of Python would have it.
    text = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or ""
    fields = HeaderParser().parsestr(text, headersonly=True)
    name, version = (str(fields.get(field, "unknown")) for field in ("Name", "Version"))
    return PluginDistribution(canonical_name(name), version, tuple(map(str, fields.get_all("Requires-Dist", ()))))


def installed_distributions(path: list[str] | None = None) -> tuple[metadata.Distribution, ...]:
    """The distributions on `path`, else on `sys.path`; of two copies of one distribution, the one that is imported."""
    found = metadata.distributions() if path is None else metadata.distributions(path=path)
    first: dict[str, metadata.Distribution] = {}
    for distribution in found:
        first.setdefault(read_distribution(distribution).name, distribution)
    return tuple(first.values())


def find_entries(group: str, distributions: Iterable[metadata.Distribution] | None = None) -> tuple[PluginEntry, ...]:
    """The entry points of a group, offered by `distributions`, else by all that are installed; imports none of them."""
    known: dict[metadata.Distribution, PluginDistribution] = {}
    entries = []
    for point in _entry_points(group, distributions):
        if point.dist is not None:
            if point.dist not in known:
                known[point.dist] = read_distribution(point.dist)
            entries.append(PluginEntry(point.name, point.value, known[point.dist]))
    return tuple(entries)


def import_target(target: str) -> object:
    """The module or object at `module` or `module:object`; raises whatever importing it raises."""
    # Without the colon `resolve_name` would take a submodule that fails to import for an attribute that is missing.
    return pkgutil.resolve_name(target if ":" in target else f"{target}:")


def _entry_points(group: str, distributions: Iterable[metadata.Distribution] | None) -> Iterator[metadata.EntryPoint]:
    if distributions is None:
        # Reads no metadata but the entry points, and takes the first of two copies of a distribution.
        yield from metadata.entry_points(group=group)
        return
    for distribution in distributions:
        yield from distribution.entry_points.select(group=group)
