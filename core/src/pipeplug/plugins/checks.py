"""What `pipeplug doctor` looks at: the core, the installation of each plugin, and what plugins check themselves."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Collection, Iterator
from importlib import import_module, metadata
from json import loads
from pathlib import Path
from shlex import quote
from urllib.parse import urlsplit
from urllib.request import url2pathname

from pipeplug.errors import PipeplugError
from pipeplug.plugins.compat import check_compatibility, core_version
from pipeplug.plugins.distributions import CORE, PluginDistribution, find_entries, read_distribution
from pipeplug.plugins.hookspecs import Check
from pipeplug.plugins.manager import HOOKS, PluginManager
from pipeplug.plugins.registry import OPERATORS, OperatorEntry, OperatorRegistry

GROUPS = (OPERATORS, HOOKS)

EntryPoints = dict[str, dict[str, str]]
"""Target by name by group."""


def check_installation(distributions: Collection[metadata.Distribution]) -> list[Check]:
    """All checks, of the core and of every plugin among the distributions; imports every operator."""
    return [
        *_check_core(),
        *_check_compatibility(distributions),
        *_check_editable_installs(distributions),
        *_check_operators(distributions),
        *_check_hooks(distributions),
    ]


def _check_core() -> Iterator[Check]:
    python = ".".join(map(str, sys.version_info[:3]))
    yield Check("python", sys.version_info[:2] >= (3, 11), f"{python}, {sys.executable}", "use Python 3.11 or newer")
    version = core_version()
    place = Path(__file__).parents[1]
    advice = f"run `pip install {CORE}`; without it neither its operators nor its version are known"
    yield Check(CORE, version is not None, f"{version or 'not installed, but importable'}, {place}", advice)
    yield _check_numpy()


def _check_numpy() -> Check:
    try:
        numpy = import_module("numpy")
    except Exception as error:
        return Check("numpy", False, f"{type(error).__name__}: {error}", "run `pip install --force-reinstall numpy`")
    return Check("numpy", True, f"{numpy.__version__}, {Path(str(numpy.__file__)).parent}")


def _check_compatibility(distributions: Collection[metadata.Distribution]) -> Iterator[Check]:
    for plugin in _plugins(distributions):
        misfit = check_compatibility(plugin)
        yield Check(plugin.name, misfit is None, misfit or f"{plugin.version}, fits this core")


def _plugins(distributions: Collection[metadata.Distribution]) -> tuple[PluginDistribution, ...]:
    offers = [entry.distribution for group in GROUPS for entry in find_entries(group, distributions)]
    return tuple(sorted({each for each in offers if each.name != CORE}, key=str))


def _check_operators(distributions: Collection[metadata.Distribution]) -> Iterator[Check]:
    """One check for all operators that load, and one for each that does not."""
    registry = OperatorRegistry(find_entries(OPERATORS, distributions))
    loaded = 0
    for name in registry.names():
        try:
            registry.load(name)
            loaded += 1
        except PipeplugError as error:
            if not _is_misfit(registry.entry(name)):
                yield Check(name, False, str(error))
    yield Check("operators", True, f"{loaded} of {len(registry.names())} can be used")


def _is_misfit(entry: OperatorEntry) -> bool:
    """Whether its distribution does not fit the core, which is said once and not for each of its operators."""
    return not entry.rivals and check_compatibility(entry.distribution) is not None


def _check_hooks(distributions: Collection[metadata.Distribution]) -> Iterator[Check]:
    fitting = [entry for entry in find_entries(HOOKS, distributions) if check_compatibility(entry.distribution) is None]
    plugins = PluginManager(fitting)
    plugins.load_all()
    for failure in plugins.failures:
        yield Check(f"hooks of {failure.distribution}", False, failure.error)
    yield from plugins.check()


def _check_editable_installs(distributions: Collection[metadata.Distribution]) -> Iterator[Check]:
    """An editable installation keeps the entry points that its project had when it was installed."""
    for distribution in distributions:
        project = _editable_project(distribution)
        if project is None:
            continue
        installed, declared = _installed_entry_points(distribution), _declared_entry_points(project)
        if declared is not None and installed != declared:
            name = read_distribution(distribution).name
            detail = f"{project / 'pyproject.toml'} has changed since: {_differences(installed, declared)}"
            yield Check(f"entry points of {name}", False, detail, f"run `pip install -e {quote(str(project))}` again")


def _editable_project(distribution: metadata.Distribution) -> Path | None:
    """The folder of a distribution that was installed in place (PEP 660), by its `direct_url.json` (PEP 610)."""
    try:
        origin = loads(distribution.read_text("direct_url.json") or "{}")
        editable = origin.get("dir_info", {}).get("editable", False)
        return Path(url2pathname(urlsplit(origin["url"]).path)) if editable else None
    except (ValueError, LookupError, AttributeError):  # what another tool wrote may be anything
        return None


def _installed_entry_points(distribution: metadata.Distribution) -> EntryPoints:
    points = {group: {p.name: p.value for p in distribution.entry_points.select(group=group)} for group in GROUPS}
    return {group: targets for group, targets in points.items() if targets}


def _declared_entry_points(project: Path) -> EntryPoints | None:
    """What `pyproject.toml` declares, or None when something else does."""
    try:
        settings = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    declared = settings.get("project", {})
    if "name" not in declared or "entry-points" in declared.get("dynamic", ()):
        return None
    return {group: dict(points) for group in GROUPS if (points := declared.get("entry-points", {}).get(group))}


def _differences(installed: EntryPoints, declared: EntryPoints) -> str:
    before = {(group, *point) for group, points in installed.items() for point in points.items()}
    after = {(group, *point) for group, points in declared.items() for point in points.items()}
    added = [f"{name} = {target} is new" for _, name, target in sorted(after - before)]
    return ", ".join(added + [f"{name} = {target} is gone" for _, name, target in sorted(before - after)])
