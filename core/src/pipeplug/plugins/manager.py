"""The plugins that answer hooks: a tolerant loader over pluggy, which by itself stops at the first failing import."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TypeVar

import pluggy

from pipeplug.errors import PluginError
from pipeplug.plugins import hookspecs
from pipeplug.plugins.compat import check_compatibility
from pipeplug.plugins.distributions import PluginEntry, canonical_name, find_entries, import_target
from pipeplug.plugins.hookspecs import Check
from pipeplug.plugins.registry import describe_import_failure

HOOKS = "pipeplug.plugins"
"""The group of entry points that name modules with hooks."""

G = TypeVar("G")


@dataclass(frozen=True, slots=True)
class PluginFailure:
    """A plugin whose hooks could not be loaded.

    Attributes:
        name: of its entry point.
        distribution: its name and version.
        error: why, and what to do.
    """

    name: str
    distribution: str
    error: str


class PluginManager:
    """Loads hook modules one by one and calls their hooks; one that fails hurts no other.

    Args:
        entries: the hook modules that are installed, else those of all installed distributions.
    """

    def __init__(self, entries: Iterable[PluginEntry] | None = None) -> None:
        self._waiting = list(find_entries(HOOKS) if entries is None else entries)
        self._failures: list[PluginFailure] = []
        self._pluggy = pluggy.PluginManager(hookspecs.PROJECT)
        self._pluggy.add_hookspecs(hookspecs)

    @property
    def failures(self) -> tuple[PluginFailure, ...]:
        """Why hook modules that should have been loaded are not there."""
        return tuple(self._failures)

    def load_all(self) -> None:
        """Loads the hooks of all plugins."""
        self._load(self._waiting)

    def load_for(self, distributions: Collection[str]) -> None:
        """Loads the hooks of these distributions and imports no others."""
        wanted = {canonical_name(name) for name in distributions}
        self._load([entry for entry in self._waiting if entry.distribution.name in wanted])

    def register(self, plugin: object, name: str) -> None:
        """Adds a module or an object with hooks.

        Raises:
            PluginError: it is there already, or answers a hook that does not exist or is declared otherwise.
        """
        try:
            self._pluggy.register(plugin, name)
        except ValueError as error:
            raise PluginError(f"the hooks of {name} are there already: {error}") from error
        except pluggy.PluginValidationError as error:
            if self._pluggy.is_registered(plugin):  # older versions of pluggy validate too late
                self._pluggy.unregister(plugin)
            raise PluginError(f"the hooks of {name} do not fit: {error}") from error
        if unknown := self._unknown_hooks(plugin):
            self._pluggy.unregister(plugin)
            raise PluginError(f"{name} answers the hook {unknown[0]}, which this version of pipeplug does not have")

    def check(self) -> list[Check]:
        """The checks of all loaded plugins; one that raises is a failed check."""
        return [check for name, plugin in self._pluggy.list_name_plugin() for check in self._checks_of(name, plugin)]

    def rewrite(self, graph: G) -> G:
        """The graph after each loaded plugin in turn has rewritten it.

        Raises:
            PluginError: a plugin raised, or gave something else than a graph.
        """
        for name, plugin in self._pluggy.list_name_plugin():
            for rewritten in self._ask_to_rewrite(name, plugin, graph):
                if not isinstance(rewritten, type(graph)):
                    raise PluginError(
                        f"{name} rewrote the graph into {type(rewritten).__name__}, not {type(graph).__name__}; "
                        "its author has to correct pipeplug_rewrite"
                    )
                graph = rewritten
        return graph

    def _load(self, entries: Iterable[PluginEntry]) -> None:
        for entry in tuple(entries):
            self._waiting.remove(entry)
            try:
                self._load_one(entry)
            except PluginError as error:
                self._failures.append(PluginFailure(entry.name, str(entry.distribution), str(error)))

    def _load_one(self, entry: PluginEntry) -> None:
        if misfit := check_compatibility(entry.distribution):
            raise PluginError(misfit)
        try:
            plugin = import_target(entry.target)
        except (Exception, SystemExit) as error:  # a module may even try to end the process
            raise PluginError(describe_import_failure(entry, error)) from error
        self.register(plugin, f"{entry.distribution} ({entry.name})")

    def _unknown_hooks(self, plugin: object) -> list[str]:
        callers = self._pluggy.get_hookcallers(plugin) or []
        return [caller.name for caller in callers if not caller.has_spec()]

    def _caller(self, hook: str, plugin: object) -> pluggy.HookCaller:
        """The hook as answered by one plugin alone, so that what it raises can be put down to it."""
        others = [each for each in self._pluggy.get_plugins() if each is not plugin]
        return self._pluggy.subset_hook_caller(hook, others)

    def _checks_of(self, name: str, plugin: object) -> list[Check]:
        try:
            checks = [check for answer in self._caller("pipeplug_doctor", plugin)() for check in answer]
        except Exception as error:
            return [Check(name, False, f"its check raised {type(error).__name__}: {error}", "tell its author")]
        if strange := [each for each in checks if not isinstance(each, Check)]:
            return [Check(name, False, f"its check gave {strange[0]!r}, which is no Check", "tell its author")]
        return checks

    def _ask_to_rewrite(self, name: str, plugin: object, graph: object) -> list[object]:
        try:
            return list(self._caller("pipeplug_rewrite", plugin)(graph=graph))
        except Exception as error:
            raise PluginError(
                f"{name} failed to rewrite the graph ({type(error).__name__}: {error}); "
                "tell its author, or uninstall it to run the operators as they are written"
            ) from error
