import json
import os
import re
import subprocess
import sys

import pytest

from pipeplug.cli import main

BLUR = '''
from __future__ import annotations

from pipeplug import Context, Operator, PerSample
from pipeplug.spec import TensorSpec
from pipeplug.tensor import Tensor

class Blur(Operator):
    """Blur an image [softly] ×2.

    More of it.
    """

    sigma: PerSample[float]
    mode: str = "mirror"

    def infer(self, image: TensorSpec) -> TensorSpec:
        return image

    def cpu(self, image: Tensor, context: Context, *, sigma: float) -> Tensor:
        return image

class Plain:
    pass
'''


@pytest.fixture
def acme(site, monkeypatch: pytest.MonkeyPatch):
    site.write("acme_blur", BLUR)
    site.write("acme_bad", "raise RuntimeError('no\\nlicence')")
    targets = {"acme.blur": "acme_blur:Blur", "acme.bad": "acme_bad:Bad", "acme.plain": "acme_blur:Plain"}
    site.add("acme", "2.5", operators=targets)
    site.add("zeta", "0.2", operators={"zeta.cut": "zeta:Cut"})
    site.add("zeta-fork", "0.3", operators={"zeta.cut": "zeta_fork:Cut"})
    monkeypatch.setattr("pipeplug.cli.ops.default_registry", site.registry)
    return site


def listed(capsys: pytest.CaptureFixture) -> list[dict]:
    assert main(["ops", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


class TestList:
    def test_quiet_gives_names_and_imports_no_plugin(self, acme, capsys: pytest.CaptureFixture):
        assert main(["ops", "-q"]) == 0
        assert capsys.readouterr().out == "acme.bad\nacme.blur\nacme.plain\nzeta.cut\n"
        assert "acme_blur" not in sys.modules

    def test_json_describes_what_loads(self, acme, capsys: pytest.CaptureFixture):
        assert listed(capsys)[1] == {
            "name": "acme.blur",
            "devices": ["cpu"],
            "plugin": "acme",
            "version": "2.5",
            "summary": "Blur an image [softly] ×2.",
            "error": None,
        }

    def test_json_gives_the_reason_of_what_does_not(self, acme, capsys: pytest.CaptureFixture):
        bad = listed(capsys)[0]
        assert (bad["name"], bad["devices"], bad["plugin"], bad["summary"]) == ("acme.bad", [], "acme", "")
        assert "(RuntimeError: no licence)" in bad["error"]

    def test_a_class_that_is_no_operator_has_a_reason_too(self, acme, capsys: pytest.CaptureFixture):
        plain = listed(capsys)[2]
        assert plain["name"] == "acme.plain"
        assert plain["error"].startswith("acme.plain of acme 2.5 ")

    def test_a_conflict_is_a_row_for_each_offer(self, acme, capsys: pytest.CaptureFixture):
        rows = [row for row in listed(capsys) if row["name"] == "zeta.cut"]
        assert sorted((row["plugin"], row["version"]) for row in rows) == [("zeta", "0.2"), ("zeta-fork", "0.3")]
        assert all("is offered by zeta" in row["error"] for row in rows)

    def test_the_table_has_a_line_for_each(self, acme, capsys: pytest.CaptureFixture):
        assert main(["ops"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].split() == ["name", "devices", "plugin", "summary"]
        assert len(lines) == 1 + 5
        assert lines[2].split(maxsplit=4)[:4] == ["acme.blur", "cpu", "acme", "2.5"]
        assert lines[2].rstrip().endswith("Blur an image [softly] ×2.")
        assert "error: acme.bad of acme 2.5 cannot be imported" in lines[1]
        assert "\x1b" not in "".join(lines)

    def test_on_a_terminal_the_table_has_its_width_and_colour(self, acme, monkeypatch, capsys: pytest.CaptureFixture):
        for name, value in {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "70"}.items():
            monkeypatch.setenv(name, value)
        assert main(["ops"]) == 0
        out = capsys.readouterr().out
        assert "\x1b[31m" in out
        assert max(len(re.sub(r"\x1b\[[0-9;]*m", "", line)) for line in out.splitlines()) <= 70

    def test_without_operators_there_are_only_headings(self, site, monkeypatch, capsys: pytest.CaptureFixture):
        monkeypatch.setattr("pipeplug.cli.ops.default_registry", site.registry)
        assert main(["ops"]) == 0
        assert capsys.readouterr().out.split() == ["name", "devices", "plugin", "summary"]

    def test_letters_that_the_output_lacks_are_replaced(self, acme):
        code = "import sys; from pipeplug.cli import main; sys.exit(main())"
        path = os.pathsep.join([str(acme.folder), *sys.path])
        environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONPATH": path}
        process = subprocess.run(
            [sys.executable, "-c", code, "ops"], capture_output=True, env=environment, timeout=60, check=True
        )
        assert b"[softly] ?2." in process.stdout


class TestOne:
    def test_it_is_described(self, acme, capsys: pytest.CaptureFixture):
        assert main(["ops", "acme.blur"]) == 0
        out = capsys.readouterr().out
        assert out == (
            "acme.blur(image, *, sigma: float, mode: str = 'mirror')\n"
            "\n"
            "Blur an image [softly] ×2.\n"
            "\n"
            "More of it.\n"
            "\n"
            "arguments\n"
            "  sigma  float per sample  required\n"
            "  mode   str               default 'mirror'\n"
            "\n"
            "inputs   image\n"
            "outputs  TensorSpec\n"
            "devices  cpu\n"
            "plugin   acme 2.5\n"
            f"source   {acme.folder / 'acme_blur.py'}:8\n"
        )

    def test_it_is_described_for_programs(self, acme, capsys: pytest.CaptureFixture):
        assert main(["ops", "acme.blur", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["name"], found["plugin"], found["version"], found["error"]) == ("acme.blur", "acme", "2.5", None)
        assert [argument["name"] for argument in found["arguments"]] == ["sigma", "mode"]

    def test_quiet_says_only_that_it_is_there(self, acme, capsys: pytest.CaptureFixture):
        assert main(["ops", "-q", "acme.bad"]) == 0
        assert capsys.readouterr().out == "acme.bad\n"

    def test_an_unknown_name(self, acme, capsys: pytest.CaptureFixture):
        assert main(["ops", "acme.blurr"]) == 2
        assert capsys.readouterr() == ("", "pipeplug: there is no operator 'acme.blurr'; did you mean acme.blur?\n")

    @pytest.mark.parametrize("name", ["acme.bad", "acme.plain", "zeta.cut"])
    def test_one_that_cannot_be_used(self, acme, name: str, capsys: pytest.CaptureFixture):
        assert main(["ops", name]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith(f"pipeplug: {name} ")
        assert err.count("\n") == 1


@pytest.mark.parametrize("library", ["numpy", "rich", "pluggy", "packaging"])
def test_quiet_imports_only_what_it_needs(library: str):
    code = f"import sys; from pipeplug.cli import main; main(['ops', '-q']); sys.exit({library!r} in sys.modules)"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (process.returncode, process.stderr) == (0, "")
