"""What the distributions of this repository promise in their metadata, and that they promise it alike."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PLUGINS = sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))
DEPENDANTS = [*PLUGINS, ROOT / "sdk"]
DISTRIBUTIONS = [ROOT / "core", *DEPENDANTS]


def project(directory: Path) -> dict:
    return tomllib.loads((directory / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def name(directory: Path) -> str:
    return directory.relative_to(ROOT).as_posix()


def extra(name: str) -> list[Requirement]:
    return [Requirement(text) for text in project(ROOT / "plugins/image")["optional-dependencies"][name]]


def test_the_first_party_plugins_are_here():
    assert [path.name for path in PLUGINS] == ["audio", "image", "video"]


@pytest.mark.parametrize("directory", DISTRIBUTIONS, ids=name)
class TestEveryDistribution:
    def test_runs_on_the_same_pythons(self, directory: Path):
        assert SpecifierSet(project(directory)["requires-python"]) == SpecifierSet(">=3.11")

    def test_has_the_licence_of_the_repository(self, directory: Path):
        assert project(directory)["license"] == "Apache-2.0"
        assert project(directory)["license-files"] == ["LICENSE"]
        assert (directory / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()

    def test_is_named_after_its_package_and_typed(self, directory: Path):
        package = directory / "src" / project(directory)["name"].replace("-", "_")
        assert (package / "__init__.py").is_file()
        assert (package / "py.typed").is_file()

    def test_describes_itself(self, directory: Path):
        assert project(directory)["description"]
        assert (directory / project(directory)["readme"]).read_text(encoding="utf-8").startswith("# pipeplug")

    def test_has_the_version_of_the_core(self, directory: Path):
        assert project(directory)["version"] == project(ROOT / "core")["version"]

    def test_is_installed_by_make(self, directory: Path):
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        assert f"-e ./{name(directory)} " in makefile.replace("'", "").replace("[turbo]", "").replace("\n", " ")


@pytest.mark.parametrize("directory", DEPENDANTS, ids=name)
def test_a_plugin_takes_this_core_and_no_next_major_version(directory: Path):
    core = Version(project(ROOT / "core")["version"])
    requirements = {r.name: r for r in map(Requirement, project(directory)["dependencies"])}
    expected = SpecifierSet(f">={core.major}.{core.minor},<{core.major + 1}")
    assert requirements["pipeplug"].specifier == expected


@pytest.mark.parametrize("directory", DISTRIBUTIONS, ids=name)
def test_entry_points_lead_into_the_distribution_s_own_package(directory: Path):
    package = project(directory)["name"].replace("-", "_")
    for group in project(directory).get("entry-points", {}).values():
        for target in group.values():
            assert target.partition(":")[0].split(".")[0] == package


@pytest.mark.parametrize("directory", PLUGINS, ids=name)
def test_a_plugin_s_operators_are_in_its_namespace(directory: Path):
    operators = project(directory).get("entry-points", {}).get("pipeplug.operators", {})
    assert {operator.split(".")[0] for operator in operators} <= {directory.name}


@pytest.mark.parametrize(
    ("platform", "machine", "python", "wheels"),
    [
        ("linux", "x86_64", "3.11", 1),
        ("darwin", "arm64", "3.14", 1),
        ("linux", "aarch64", "3.12", 0),
        ("darwin", "x86_64", "3.12", 0),
        ("win32", "AMD64", "3.12", 0),
        ("linux", "x86_64", "3.15", 0),
    ],
)
def test_the_extra_turbo_asks_only_for_wheels_that_exist(platform: str, machine: str, python: str, wheels: int):
    environment = {"sys_platform": platform, "platform_machine": machine, "python_version": python}
    asked = [r for r in extra("turbo") if r.marker and r.marker.evaluate(environment)]
    assert len(asked) == wheels
