"""The operators that are installed, by name."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from importlib import metadata

from pipeplug.errors import DeclarationError, OperatorConflictError, PluginError, UnknownOperatorError
from pipeplug.plugins.compat import check_compatibility
from pipeplug.plugins.distributions import (
    PluginDistribution,
    PluginEntry,
    find_entries,
    import_target,
    read_distribution,
)

OPERATORS = "pipeplug.operators"
"""The group of entry points whose names are operators. An incompatible protocol would get another group."""

FIRST_PARTY = frozenset({"image", "video", "audio"})
"""Namespaces that come from plugins of this project, named `pipeplug-<namespace>`."""

_NAME = re.compile(r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class OperatorEntry:
    """An operator that a distribution offers; nothing of it has been imported.

    Attributes:
        name: `namespace.operator`.
        target: where its class is, `module:Class`.
        distribution: who offers it.
        rivals: the other distributions that offer the same name, which makes it unusable.
    """

    name: str
    target: str
    distribution: PluginDistribution
    rivals: tuple[PluginDistribution, ...] = ()


class OperatorRegistry:
    """The operators by name; each is imported when it is first loaded.

    Args:
        entries: what the installed distributions offer, in the order in which they are found.
    """

    def __init__(self, entries: Iterable[PluginEntry]) -> None:
        self._entries = _merge(entries)
        self._loaded: dict[str, type] = {}

    def names(self) -> tuple[str, ...]:
        """All names in order, also of operators that cannot be loaded."""
        return tuple(self._entries)

    def namespaces(self) -> tuple[str, ...]:
        """The parts before the dot, in order."""
        return tuple(dict.fromkeys(name.partition(".")[0] for name in self._entries if is_operator_name(name)))

    def entry(self, name: str) -> OperatorEntry:
        """What is known of an operator without importing it.

        Raises:
            UnknownOperatorError: nobody offers it; the message tells similar names, or what to install.
        """
        try:
            return self._entries[name]
        except KeyError:
            raise UnknownOperatorError(self._explain_unknown(name)) from None

    def name_of(self, target: str) -> str | None:
        """The first name under which `module:Class` is offered and can be used; None when there is none."""
        return next((each.name for each in self._entries.values() if each.target == target and not each.rivals), None)

    def load(self, name: str) -> type:
        """The class of an operator.

        Raises:
            UnknownOperatorError: nobody offers it.
            OperatorConflictError: two distributions offer it.
            PluginError: its plugin needs another core, fails to import, or offers no class.
        """
        if name not in self._loaded:
            entry = self.entry(name)
            _check_usable(entry)
            self._loaded[name] = _import_class(entry)
        return self._loaded[name]

    def _explain_unknown(self, name: str) -> str:
        namespace = name.partition(".")[0]
        message = f"there is no operator {name!r}"
        if namespace in FIRST_PARTY and not self._offers_anything(f"pipeplug-{namespace}"):
            return f"{message}; {bring(namespace)}"
        if similar := self._similar(name):
            return f"{message}; did you mean {' or '.join(similar)}?"
        return f"{message}; `pipeplug ops` lists those that are installed"

    def _offers_anything(self, distribution: str) -> bool:
        return any(entry.distribution.name == distribution for entry in self._entries.values())

    def _similar(self, name: str) -> tuple[str, ...]:
        import difflib

        operator = name.rpartition(".")[2]
        related = [each for each in self._entries if operator in _words(each)]
        return tuple(dict.fromkeys([*difflib.get_close_matches(name, self._entries, cutoff=0.8), *related]))[:3]


@cache
def default_registry() -> OperatorRegistry:
    """The operators of all installed distributions, as they were when this was first asked."""
    return OperatorRegistry(find_entries(OPERATORS))


def is_operator_name(name: str) -> bool:
    """Whether a name is `namespace.operator`, both lower-case identifiers and no keywords."""
    return _NAME.fullmatch(name) is not None and not any(map(keyword.iskeyword, name.split(".")))


def describe_import_failure(entry: PluginEntry | OperatorEntry, error: BaseException) -> str:
    """What could not be imported, whose it is, why, and what to do."""
    distribution = entry.distribution
    reason = f"{type(error).__name__}: {error}"
    if isinstance(error, (ImportError, AttributeError)):
        advice = f"install what is missing, or all of it anew: `pip install --force-reinstall {distribution.name}`"
    elif isinstance(error, DeclarationError):
        advice = "correct the declaration there, or tell its author"
    else:
        advice = f"try another version: `pip install --upgrade {distribution.name}`, or uninstall it"
    return f"{entry.name} of {distribution} cannot be imported from {entry.target} ({reason}); {advice}"


def _merge(entries: Iterable[PluginEntry]) -> dict[str, OperatorEntry]:
    merged: dict[str, OperatorEntry] = {}
    for each in sorted(entries, key=lambda entry: entry.name):
        first = merged.setdefault(each.name, OperatorEntry(each.name, each.target, each.distribution))
        # One distribution may be found twice, as when an editable installation hides another.
        if each.distribution.name not in {known.name for known in (first.distribution, *first.rivals)}:
            merged[each.name] = replace(first, rivals=(*first.rivals, each.distribution))
    return merged


def _check_usable(entry: OperatorEntry) -> None:
    if entry.rivals:
        offers = " and ".join(str(each) for each in (entry.distribution, *entry.rivals))
        raise OperatorConflictError(f"{entry.name} is offered by {offers}; uninstall all but one of them")
    if not is_operator_name(entry.name):
        raise PluginError(
            f"{entry.distribution} offers an operator named {entry.name!r}, but names are namespace.operator in "
            "lower-case identifiers; its author has to rename the entry point"
        )
    if misfit := check_compatibility(entry.distribution):
        raise PluginError(f"{entry.name} cannot be used: {misfit}")


def _import_class(entry: OperatorEntry) -> type:
    try:
        loaded = import_target(entry.target)
    except (Exception, SystemExit) as error:  # a module may even try to end the process
        raise PluginError(describe_import_failure(entry, error)) from error
    if not isinstance(loaded, type):
        raise PluginError(
            f"{entry.name} of {entry.distribution} is {loaded!r}, not an operator class; "
            f"its author has to correct the entry point {entry.target}"
        )
    return loaded


def _words(name: str) -> set[str]:
    operator = name.rpartition(".")[2]
    return {operator, *operator.split("_")}


def bring(namespace: str) -> str:
    """What to do for operators of a namespace of this project that are not there."""
    name = f"pipeplug-{namespace}"
    try:
        installed = read_distribution(metadata.distribution(name))
    except metadata.PackageNotFoundError:
        return f"{namespace} operators come with `pip install {name}`"
    return f"{installed} is installed and does not offer it; `pip install --upgrade {name}` brings the newest"
