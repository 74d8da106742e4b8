import sys
from pathlib import Path

import pytest

from pipeplug.plugins.distributions import (
    PluginDistribution,
    canonical_name,
    find_entries,
    import_target,
    installed_distributions,
    read_distribution,
)

GROUP = "pipeplug.operators"


def test_names_are_compared_in_one_spelling():
    assert {canonical_name(name) for name in ("Pipe_Plug.Image", "pipe-plug--image")} == {"pipe-plug-image"}


def test_an_entry_says_what_where_and_whose_it_is(site):
    site.add("Acme_Tools", "2.5", requires=["numpy", "pipeplug>=0.1"], operators={"acme.blur": "acme:Blur"})
    [entry] = find_entries(GROUP, site.distributions())
    assert (entry.name, entry.target) == ("acme.blur", "acme:Blur")
    assert entry.distribution == PluginDistribution("acme-tools", "2.5", ("numpy", "pipeplug>=0.1"))
    assert str(entry.distribution) == "acme-tools 2.5"


def test_without_distributions_it_looks_at_what_is_installed(site):
    site.add("acme", operators={"acme.blur": "acme:Blur"})
    assert "acme.blur" in {entry.name for entry in find_entries(GROUP)}


def test_only_the_group_asked_for_is_given(site):
    site.add("acme", operators={"acme.blur": "acme:Blur"}, hooks={"acme": "acme_hooks"})
    assert [entry.name for entry in find_entries("pipeplug.plugins", site.distributions())] == ["acme"]


def test_of_two_copies_the_first_on_the_path_counts(site, tmp_path: Path):
    site.add("acme", "1.0")
    other = type(site)(tmp_path / "other")
    other.add("Acme", "2.0")
    found = installed_distributions([str(site.folder), str(other.folder)])
    assert [str(read_distribution(each)) for each in found if each.metadata["Name"] != "pipeplug"] == ["acme 1.0"]


@pytest.mark.parametrize("emptied", [True, False])
def test_a_half_removed_distribution_is_unknown_but_harmless(site, emptied: bool):
    info = site.add("acme", operators={"acme.blur": "acme:Blur"})
    (info / "METADATA").unlink()
    if emptied:
        (info / "METADATA").touch()
    [entry] = find_entries(GROUP, site.distributions())
    assert entry.distribution == PluginDistribution("unknown", "unknown")


class TestImporting:
    @pytest.fixture(autouse=True)
    def package(self, site) -> None:
        package = site.folder / "acme_package"
        package.mkdir()
        (package / "__init__.py").touch()
        (package / "good.py").write_text("class A:\n    b = 3\n", encoding="utf-8")
        (package / "bad.py").write_text("import no_such_library", encoding="utf-8")

    def test_modules_and_what_is_in_them(self):
        assert import_target("acme_package.good") is sys.modules["acme_package.good"]
        assert import_target("acme_package.good:A.b") == 3

    @pytest.mark.parametrize("target", ["acme_package.bad", "acme_package.bad:A"])
    def test_the_reason_of_a_failure_is_the_module_s_own(self, target: str):
        with pytest.raises(ModuleNotFoundError, match="no_such_library"):
            import_target(target)

    def test_a_module_that_is_not_there(self):
        with pytest.raises(ModuleNotFoundError, match=r"acme_package\.ugly"):
            import_target("acme_package.ugly")
