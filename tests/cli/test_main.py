import argparse
import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

from pipeplug import cli
from pipeplug.cli import CommandEntry, main
from pipeplug.errors import SourceError

PROGRAM = "import sys; from pipeplug.cli import main; sys.exit(main())"


class FakeCommand:
    """A command that does what its argument says."""

    @staticmethod
    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("what")

    @staticmethod
    def execute(options: argparse.Namespace) -> int:
        if options.what == "interrupt":
            raise KeyboardInterrupt
        if options.what == "raise":
            raise SourceError("photos is empty;\n  put pictures there")
        return int(options.what)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "COMMANDS", (CommandEntry("fake", "do as told", "fake_command"),))
    monkeypatch.setitem(sys.modules, "fake_command", FakeCommand())


def run(arguments: Sequence[str], code: str = PROGRAM) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60)


def test_the_version(site, capsys: pytest.CaptureFixture):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == "pipeplug 0.1.0\n"


def test_help_names_all_commands(capsys: pytest.CaptureFixture):
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(entry.name in out and entry.summary in out for entry in cli.COMMANDS)


@pytest.mark.parametrize("arguments", [[], ["dance"], ["ops", "-q", "--json"], ["doctor", "extra"]])
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture):
    assert main(arguments) == 2
    assert "usage: pipeplug" in capsys.readouterr().err


def test_the_status_of_a_command_is_that_of_the_process(fake, capsys: pytest.CaptureFixture):
    assert main(["fake", "5"]) == 5
    assert capsys.readouterr() == ("", "")


def test_an_error_is_one_line(fake, capsys: pytest.CaptureFixture):
    assert main(["fake", "raise"]) == 1
    assert capsys.readouterr() == ("", "pipeplug: photos is empty; put pictures there\n")


def test_an_interruption(fake, capsys: pytest.CaptureFixture):
    assert main(["fake", "interrupt"]) == 130
    assert capsys.readouterr() == ("", "pipeplug: interrupted\n")


def test_the_arguments_of_the_process_are_the_default(fake, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.argv", ["pipeplug", "fake", "7"])
    assert main() == 7


def test_other_commands_are_not_imported():
    code = f"{PROGRAM.replace('sys.exit(main())', 'main()')}; print([m for m in sys.modules if 'pipeplug.cli.' in m])"
    assert run(["ops", "-q"], code).stdout.endswith("['pipeplug.cli.ops']\n")


@pytest.mark.parametrize("command", [["ops", "-q"], ["ops", "--json"], ["ops"], ["doctor"], ["--version"]])
def test_a_reader_that_has_gone(command: list[str]):
    reading, writing = os.pipe()
    os.close(reading)
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM, *command], stdout=writing, stderr=subprocess.PIPE, timeout=60
    )
    os.close(writing)
    assert process.stderr == b""
    assert process.returncode in (0, 1)
