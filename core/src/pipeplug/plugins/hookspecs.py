"""The hooks: what every plugin may answer."""

from __future__ import annotations

from dataclasses import dataclass

import pluggy

PROJECT = "pipeplug"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
"""Marks a function of a plugin's hook module as the answer to the hook of its name."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that `pipeplug doctor` looked at.

    Attributes:
        name: what was looked at.
        ok: whether it is as it should be.
        detail: what was found.
        advice: what to do when it is not.
    """

    name: str
    ok: bool
    detail: str
    advice: str = ""


@hookspec
def pipeplug_doctor() -> list[Check]:
    """Checks of what the plugin needs: libraries, their versions, drivers."""
    raise NotImplementedError


@hookspec
def pipeplug_rewrite(graph: object) -> object | None:
    """The `Graph` that the plugin would rather run, with the same results, or None to leave it as it is.

    Called while planning for the plugins whose operators the graph uses, each with the graph of the one before.
    """
    raise NotImplementedError
