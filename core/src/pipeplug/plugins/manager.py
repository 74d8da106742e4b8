"""The plugins that answer hooks: a tolerant loader over pluggy, which by itself stops at the first failing import."""

from __future__ import annotations

import threading
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
        self._failures: dict[PluginEntry, PluginFailure] = {}
        self._owners: dict[str, str] = {}  # distribution by the name of what it registered
        # Held while plugins are imported: a graph planned meanwhile waits for them. An import may itself plan one.
        self._loading = threading.RLock()
        self._pluggy = pluggy.PluginManager(hookspecs.PROJECT)
        self._pluggy.add_hookspecs(hookspecs)

    @property
    def failures(self) -> tuple[PluginFailure, ...]:
        """Why hook modules that should have been loaded are not there."""
        return tuple(self._failures.values())

    def load_all(self) -> None:
        """Loads the hooks of all plugins."""
        with self._loading:
            self._load(self._waiting)

    def load_for(self, distributions: Collection[str]) -> tuple[PluginFailure, ...]:
        """Loads the hooks of these distributions and imports no others; gives those that failed, now or before."""
        wanted = {canonical_name(name) for name in distributions}
        with self._loading:
            self._load([entry for entry in self._waiting if entry.distribution.name in wanted])
            return tuple(failure for entry, failure in self._failures.items() if entry.distribution.name in wanted)

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

    def rewrite(self, graph: G, distributions: Collection[str] | None = None) -> G:
        """The graph after each loaded plugin in turn has rewritten it.

        Args:
            graph: what to rewrite.
            distributions: asks only the plugins of these and what was registered without one, else all that are
                loaded; with them the result does not depend on what was loaded for other graphs.

        Raises:
            PluginError: a plugin raised, or gave something else than a graph.
        """
        for name, plugin in self._plugins_of(distributions):
            for rewritten in self._ask_to_rewrite(name, plugin, graph):
                if not isinstance(rewritten, type(graph)):
                    raise PluginError(
                        f"{name} rewrote the graph into {type(rewritten).__name__}, not {type(graph).__name__}; "
                        "its author has to correct pipeplug_rewrite"
                    )
                graph = rewritten
        return graph

    def _plugins_of(self, distributions: Collection[str] | None) -> list[tuple[str, object]]:
        plugins = self._pluggy.list_name_plugin()
        if distributions is None:
            return plugins
        wanted = {None, *map(canonical_name, distributions)}
        return [(name, plugin) for name, plugin in plugins if self._owners.get(name) in wanted]

    def _load(self, entries: Iterable[PluginEntry]) -> None:
        for entry in tuple(entries):
            if entry not in self._waiting:  # an import of this loop has asked for it
                continue
            self._waiting.remove(entry)
            try:
                self._load_one(entry)
            except PluginError as error:
                self._failures[entry] = PluginFailure(entry.name, str(entry.distribution), str(error))

    def _load_one(self, entry: PluginEntry) -> None:
        if misfit := check_compatibility(entry.distribution):
            raise PluginError(misfit)
        try:
            plugin = import_target(entry.target)
        except (Exception, SystemExit) as error:  # a module may even try to end the process
            raise PluginError(describe_import_failure(entry, error)) from error
        name = f"{entry.distribution} ({entry.name})"
        self.register(plugin, name)
        self._owners[name] = entry.distribution.name

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
