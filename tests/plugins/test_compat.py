import pytest

from pipeplug.plugins.compat import check_compatibility, core_version
from pipeplug.plugins.distributions import PluginDistribution


def plugin(*requires: str) -> PluginDistribution:
    return PluginDistribution("acme", "1.0", requires)


@pytest.mark.parametrize(
    "requirement",
    [
        "pipeplug>=0.1,<1",
        "pipeplug (>=0.1)",
        "PipePlug",
        "pipeplug[torch]~=0.3",
        "pipeplug @ file:///somewhere",
        "pipeplug-image>=7",
        "pipeplug>=7; extra == 'new'",
        "pipeplug>=7; python_version < '3'",
    ],
)
def test_a_requirement_that_the_core_meets(requirement: str):
    assert check_compatibility(plugin("numpy>=99", requirement), core="0.3.1") is None


@pytest.mark.parametrize("core", ["0.3.0rc1", "0.3.0.dev4+g12ab"])
def test_a_core_before_its_release_counts(core: str):
    assert check_compatibility(plugin("pipeplug>=0.2,<1"), core) is None


@pytest.mark.parametrize("requirement", ["pipeplug>=0.4", "pipeplug<0.3", "pipeplug>=7; python_version > '3'"])
def test_a_requirement_that_the_core_does_not_meet(requirement: str):
    assert check_compatibility(plugin(requirement), core="0.3.1") == (
        f"acme 1.0 needs {requirement}, but pipeplug 0.3.1 is installed; run `pip install --upgrade pipeplug acme`"
    )


def test_a_requirement_that_is_none():
    message = check_compatibility(plugin("pipeplug>=>=1"), core="0.3.1")
    assert message is not None
    assert message.startswith("the metadata of acme 1.0 cannot be read (")
    assert "\n" not in message
    assert message.endswith("run `pip install -U acme`")


def test_a_plugin_that_asks_for_nothing_fits():
    assert check_compatibility(plugin(), core="0.3.1") is None


def test_the_core_fits_itself():
    assert check_compatibility(PluginDistribution("pipeplug", "0.1", ("pipeplug>=9",)), core="0.3.1") is None


def test_the_installed_core_is_asked(site):
    assert core_version() == "0.1.0"
    assert "but pipeplug 0.1.0 is installed" in str(check_compatibility(plugin("pipeplug>=9")))


def test_a_core_that_is_not_installed_is_not_asked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.path", [])
    assert core_version() is None
    assert check_compatibility(plugin("pipeplug>=9")) is None
