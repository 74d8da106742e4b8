import pytest

from pipeplug.cli import main


@pytest.fixture
def examined(site, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("pipeplug.cli.doctor.installed_distributions", site.distributions)
    return site


def test_all_is_well(examined, capsys: pytest.CaptureFixture):
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[:3]] == [["ok", "python"], ["ok", "pipeplug"], ["ok", "numpy"]]
    assert lines[-1] == "all checks passed"


def test_what_fails_is_said_with_its_reason(examined, capsys: pytest.CaptureFixture):
    examined.write("acme", "raise RuntimeError('[red]no\\nlicence')")
    examined.add("acme", operators={"acme.blur": "acme:Blur"})
    assert main(["doctor"]) == 1
    lines = capsys.readouterr().out.splitlines()
    [line] = [line for line in lines if line.startswith("FAILED")]
    assert line.split()[:2] == ["FAILED", "acme.blur"]
    assert "(RuntimeError: [red]no licence)" in line
    assert lines[-1] == "1 of 6 checks failed"


def test_advice_has_a_line_of_its_own(examined, capsys: pytest.CaptureFixture):
    source = "from pipeplug.plugins.hookspecs import Check, hookimpl\n@hookimpl\ndef pipeplug_doctor():\n"
    examined.write("acme_hooks", f"{source}    return [Check('driver', False, 'too old', 'renew it')]\n")
    examined.add("acme", hooks={"acme": "acme_hooks"})
    assert main(["doctor"]) == 1
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[lines.index(["FAILED", "driver", "too", "old"]) + 1] == ["->", "renew", "it"]


def test_it_looks_at_what_is_installed(site, capsys: pytest.CaptureFixture):
    site.add("acme", "2.5", operators={"acme.blur": "no_such_module:Blur"})
    assert main(["doctor"]) == 1
    assert "acme.blur of acme 2.5 cannot be imported" in capsys.readouterr().out
