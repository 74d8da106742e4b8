"""The graph rewrites of the plugins whose operators a graph uses; no other plugin is imported for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import TypeVar

from pipeplug.errors import PluginError
from pipeplug.plugins.manager import PluginManager
from pipeplug.plugins.registry import default_registry

G = TypeVar("G")


@cache
def default_manager() -> PluginManager:
    """The plugins that are installed, each loaded when it is first asked for."""
    return PluginManager()


def rewrite_for(operators: Iterable[str]) -> Callable[[G], G]:
    """What the plugins of these operators, by registered name, make of a graph.

    Raises PluginError when the hooks of one cannot be loaded.
    """
    registry, manager = default_registry(), default_manager()
    known = {name for name in operators if name in registry.names()}
    wanted = {registry.entry(name).distribution.name for name in known}
    manager.load_for(wanted)
    for failure in manager.load_for(wanted):
        raise PluginError(failure.error)
    return partial(manager.rewrite, distributions=wanted)
