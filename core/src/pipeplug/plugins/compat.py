"""Whether a plugin fits the installed core, told from metadata before anything of it is imported."""

from __future__ import annotations

from importlib import metadata

from pipeplug.plugins.distributions import CORE, PluginDistribution, canonical_name


def core_version() -> str | None:
    """The version of the installed core, or None when it is importable without being installed."""
    try:
        return metadata.version(CORE)
    except metadata.PackageNotFoundError:
        return None


def check_compatibility(distribution: PluginDistribution, core: str | None = None) -> str | None:
    """Why a plugin does not fit the core, and what to do, or None when it fits.

    Its `Requires-Dist: pipeplug…` decides. A plugin without one fits every core.

    Args:
        distribution: the plugin.
        core: a version of the core, else the installed one; nothing is checked when it is not installed.
    """
    core = core or core_version()
    if core is None or distribution.name == CORE:
        return None
    from packaging.requirements import InvalidRequirement

    try:
        unmet = [text for text in distribution.requires if not _allows(text, core)]
    except InvalidRequirement as error:
        reason = " ".join(str(error).split())
        return f"the metadata of {distribution} cannot be read ({reason}); run `pip install -U {distribution.name}`"
    if not unmet:
        return None
    return (
        f"{distribution} needs {unmet[0]}, but {CORE} {core} is installed; "
        f"run `pip install --upgrade {CORE} {distribution.name}`"
    )


def _allows(text: str, core: str) -> bool:
    from packaging.requirements import Requirement

    requirement = Requirement(text)
    if canonical_name(requirement.name) != CORE:
        return True
    if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
        return True
    return requirement.specifier.contains(core, prereleases=True)
