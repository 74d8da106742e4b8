import sys
from pathlib import Path

import numpy
import pytest

from pipeplug.plugins.checks import check_installation
from pipeplug.plugins.hookspecs import Check

HOOKS = """
from pipeplug.plugins.hookspecs import Check, hookimpl
@hookimpl
def pipeplug_doctor():
    return [Check("driver", False, "too old", "renew it")]
"""


def checks(site) -> dict[str, Check]:
    return {check.name: check for check in check_installation(site.distributions())}


def failed(site) -> dict[str, str]:
    return {name: check.detail for name, check in checks(site).items() if not check.ok}


def test_the_core_is_looked_at_first(site):
    found = checks(site)
    assert list(found)[:3] == ["python", "pipeplug", "numpy"]
    assert all(check.ok for check in found.values())
    assert found["python"].detail.endswith(sys.executable)
    assert found["pipeplug"].detail.startswith("0.1.0, ")
    assert (Path(found["pipeplug"].detail.partition(", ")[2]) / "errors.py").is_file()
    assert found["numpy"].detail.startswith(numpy.__version__)


def test_a_core_that_is_not_installed(site, monkeypatch: pytest.MonkeyPatch):
    distributions = site.distributions()
    monkeypatch.setattr("sys.path", [])
    core = check_installation(distributions)[1]
    assert not core.ok
    assert core.detail.startswith("not installed, but importable, ")
    assert core.advice.startswith("run `pip install pipeplug`")


def test_a_numpy_that_cannot_be_imported(site, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "numpy", None)
    check = checks(site)["numpy"]
    assert not check.ok
    assert check.detail.startswith("ModuleNotFoundError: ")
    assert check.advice == "run `pip install --force-reinstall numpy`"


def test_a_plugin_that_is_well(site):
    site.write("acme", "class Blur: pass")
    site.add("acme", "2.5", operators={"acme.blur": "acme:Blur"}, requires=["pipeplug>=0.1"])
    found = checks(site)
    assert found["acme"] == Check("acme", True, "2.5, fits this core")
    assert found["operators"] == Check("operators", True, "1 of 1 can be used")


def test_an_operator_that_cannot_be_imported(site):
    site.write("acme", "class Blur: pass")
    site.add("acme", operators={"acme.blur": "acme:Blur", "acme.cut": "acme:Cut"})
    found = checks(site)
    assert not found["acme.cut"].ok
    assert "has no attribute 'Cut'" in found["acme.cut"].detail
    assert found["operators"].detail == "1 of 2 can be used"


def test_a_plugin_for_another_core_is_said_once(site):
    hooks = {"acme": "acme_hooks"}
    site.add("acme", operators={"acme.blur": "a:B", "acme.cut": "a:C"}, hooks=hooks, requires=["pipeplug>=7"])
    assert list(failed(site)) == ["acme"]
    assert "acme 1.0 needs pipeplug>=7" in failed(site)["acme"]


def test_a_conflict(site):
    site.add("acme", operators={"image.blur": "acme:Blur"})
    site.add("zeta", operators={"image.blur": "zeta:Blur"})
    assert list(failed(site)) == ["image.blur"]
    assert "is offered by" in failed(site)["image.blur"]


def test_hooks_that_cannot_be_imported(site):
    site.write("acme_hooks", "raise RuntimeError('no licence')")
    site.add("acme", hooks={"acme": "acme_hooks"})
    assert "RuntimeError: no licence" in failed(site)["hooks of acme 1.0"]


def test_what_a_plugin_checks_itself(site):
    site.write("acme_hooks", HOOKS)
    site.add("acme", hooks={"acme": "acme_hooks"})
    assert checks(site)["driver"] == Check("driver", False, "too old", "renew it")


class TestEditableInstalls:
    @pytest.fixture
    def project(self, tmp_path: Path) -> Path:
        folder = tmp_path / "my project"
        folder.mkdir()
        self.declare(folder, 'plugins = {acme = "acme_hooks"}\noperators = {"acme.blur" = "acme:Blur"}')
        return folder

    def declare(self, project: Path, points: str, more: str = "") -> None:
        lines = "\n".join(f"pipeplug.{line}" for line in points.splitlines())
        for name in ("operators", "plugins"):
            lines = lines.replace(f"pipeplug.{name}", f'"pipeplug.{name}"')
        text = f'[project]\nname = "acme"\n{more}\n[project.entry-points]\n{lines}\n'
        (project / "pyproject.toml").write_text(text, encoding="utf-8")

    def install(self, site, project: Path, **offers) -> Check | None:
        site.write("acme", "class Blur: pass")
        site.write("acme_hooks", "")
        site.add("acme", editable=project, **offers)
        return checks(site).get("entry points of acme")

    def test_one_like_its_project_is_well(self, site, project: Path):
        offers = {"operators": {"acme.blur": "acme:Blur"}, "hooks": {"acme": "acme_hooks"}}
        assert self.install(site, project, **offers) is None

    def test_one_that_is_older_than_its_project(self, site, project: Path):
        check = self.install(site, project, operators={"acme.old": "acme:Blur"})
        assert check == Check(
            "entry points of acme",
            False,
            f"{project / 'pyproject.toml'} has changed since: acme.blur = acme:Blur is new, "
            "acme = acme_hooks is new, acme.old = acme:Blur is gone",
            f"run `pip install -e '{project}'` again",
        )

    def test_one_that_was_no_plugin_when_it_was_installed(self, site, project: Path):
        check = self.install(site, project)
        assert check is not None
        assert not check.ok

    def test_one_whose_entry_points_are_made_by_its_build(self, site, project: Path):
        self.declare(project, "", 'dynamic = ["entry-points"]')
        assert self.install(site, project, operators={"acme.blur": "acme:Blur"}) is None

    @pytest.mark.parametrize("text", ["", "[project", None])
    def test_one_that_declares_nothing_to_compare_with(self, site, project: Path, text: str | None):
        (project / "pyproject.toml").unlink()
        if text is not None:
            (project / "pyproject.toml").write_text(text, encoding="utf-8")
        assert self.install(site, project, operators={"acme.blur": "acme:Blur"}) is None

    @pytest.mark.parametrize("record", ["{", "[]", '{"url": "file:///x"}', '{"dir_info": {"editable": true}}'])
    def test_a_record_that_says_nothing(self, site, project: Path, record: str):
        info = site.add("acme", editable=project)
        (info / "direct_url.json").write_text(record, encoding="utf-8")
        assert failed(site) == {}
