import argparse
import re
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal

import pytest

from pipeplug.cli import main
from pipeplug.cli import plan as plan_command
from pipeplug.cli import run as run_command
from pipeplug.cli.flags import RESERVED, Unreadable, count_of, is_readable, option_flags, parse_text, parse_texts
from pipeplug.options import PipelineOptions

TRAIN = ["photos.py:train", "--root", "."]


def plan(arguments: list[str], capsys: pytest.CaptureFixture) -> str:
    assert main(["plan", *arguments]) == 0
    return capsys.readouterr().out


def fail(arguments: list[str], capsys: pytest.CaptureFixture, status: int = 2) -> str:
    assert main(["plan", *arguments]) == status
    written = capsys.readouterr()
    assert written.out == ""
    return written.err.splitlines()[-1].removeprefix("pipeplug").removeprefix(" plan photos.py:train: error")


def seen(folder: Path) -> str:
    return (folder / "seen.txt").read_text(encoding="utf-8")


class TestTexts:
    @pytest.mark.parametrize(
        ("text", "annotation", "value"),
        [
            ("3", int, 3),
            ("3", float, 3.0),
            ("3", str, "3"),
            ("3", int | str, 3),
            ("3", str | int, 3),
            ("2GiB", int | str | None, "2GiB"),
            ("None", int | None, None),
            ("none", str, "none"),
            ("yes", bool, True),
            ("FALSE", bool | None, False),
            ("a/b", Path, Path("a/b")),
            ("2", Literal["1", 2], 2),
            ("1", Literal["1", 2], "1"),
            ("x", Any, "x"),
            ("4", Annotated[int, "mark"], 4),
            ("a", str | list[str], "a"),
        ],
    )
    def test_what_a_text_means(self, text: str, annotation: object, value: object):
        parsed = parse_text(text, annotation)
        assert parsed == value
        assert type(parsed) is type(value)

    @pytest.mark.parametrize(
        ("text", "annotation"),
        [("x", int), ("1.5", int), ("x", float), ("maybe", bool), ("x", int | None), ("3", Literal["1", 2])],
    )
    def test_what_means_nothing(self, text: str, annotation: object):
        with pytest.raises(Unreadable):
            parse_text(text, annotation)

    @pytest.mark.parametrize(
        ("texts", "annotation", "count", "value"),
        [
            (["1", "2"], tuple[int, float], 2, (1, 2.0)),
            (["1", "2", "3"], tuple[int, ...], "+", (1, 2, 3)),
            (["1", "2", "3"], list[int] | None, "+", [1, 2, 3]),
            (["1"], list, "+", ["1"]),
            (["1", "a"], tuple, "+", ("1", "a")),
        ],
    )
    def test_sequences(self, texts: list[str], annotation: object, count: int | str, value: object):
        assert count_of(annotation) == count
        assert parse_texts(texts, annotation) == value

    def test_what_cannot_be_written(self):
        kinds = [dict, dict[str, int], list[list[int]], tuple[dict, ...], type(None), object().__class__.__call__]
        assert [is_readable(kind) for kind in kinds] == [False] * len(kinds)
        assert all(is_readable(kind) for kind in [str, object, dict | str, list[int] | None, Literal["a"]])


class TestFunction:
    def test_defaults(self, folder: Path, capsys):
        plan(TRAIN, capsys)
        assert seen(folder) == "(1, (1, 1), None, None, 3, {}, 'x', {})"

    def test_every_kind(self, folder: Path, capsys):
        flags = ["--scale=-2.5", "--sizes", "3", "4", "--names", "a", "b", "--train-limit", "7", "--count", "9"]
        out = plan([*TRAIN, "--shuffle", "--last", "-", *flags], capsys)
        assert seen(folder) == "(-2.5, (3, 4), ['a', 'b'], 7, 9, {}, '-', {})"
        assert "shuffle=True" in out
        assert "shuffle=True" not in plan([*TRAIN, "--no-shuffle"], capsys)

    def test_a_name_that_a_command_has_taken(self, folder: Path, capsys):
        assert main(["run", *TRAIN, "--limit", "1", "--train-limit", "8"]) == 0
        assert "4 samples in 1 batch" in capsys.readouterr().out
        assert "None, 8, 3" in seen(folder)

    @pytest.mark.parametrize("command", [plan_command, run_command])
    def test_the_flags_of_commands_are_reserved(self, command: ModuleType):
        parser = argparse.ArgumentParser()
        command.declare_flags(parser)
        flags = re.findall(r"--[a-z-]+", parser.format_usage())
        assert flags
        assert set(flags) <= RESERVED

    def test_help(self, folder: Path, capsys):
        out = plan(["photos.py:train", "--help"], capsys)
        assert out.startswith("usage: pipeplug plan photos.py:train --root ... [options]\n")
        assert "Rows to train on, 100 % of them." in out
        assert "  --root ROOT           required\n" in out
        assert "  --sizes SIZES SIZES   default (1, 1)\n" in out
        assert "samples in a batch (now 4)" in out
        assert "--call" not in out

    def test_missing(self, folder: Path, capsys):
        assert fail(["photos.py:train"], capsys) == ": train needs --root"

    def test_unknown(self, folder: Path, capsys):
        assert fail([*TRAIN, "--shufle"], capsys) == ": there is no argument --shufle; did you mean --shuffle?"
        assert fail([*TRAIN, "--sh=1"], capsys) == ": there is no argument --sh=1; did you mean --shuffle?"
        assert fail(["photos.py:train", "data"], capsys) == ": there is no argument data; --help lists them"

    def test_ill_typed(self, folder: Path, capsys):
        assert fail([*TRAIN, "--scale", "big"], capsys) == ": --scale takes float, got 'big'"
        assert fail([*TRAIN, "--kind", "odd"], capsys) == ": --kind takes 'plain' | 'fragile', got 'odd'"
        assert fail([*TRAIN, "--sizes", "1", "x"], capsys) == ": --sizes takes tuple[int, int], got '1 x'"

    def test_the_wrong_number_of_texts(self, folder: Path, capsys):
        assert fail([*TRAIN, "--sizes", "1"], capsys) == ": argument --sizes: expected 2 arguments"

    def test_before_the_file(self, folder: Path, capsys):
        assert fail(["--root", ".", "photos.py:train"], capsys).endswith(" unrecognized arguments: --root")

    def test_a_required_argument_that_cannot_be_written(self, folder: Path, capsys):
        source = "from pipeplug import pipeline\n@pipeline(batch_size=2)\ndef f(table: dict[str, int]):\n    pass\n"
        (folder / "made.py").write_text(source, encoding="utf-8")
        assert fail(["made.py:f"], capsys, status=1) == (
            f": {folder / 'made.py'}:2: f needs table, and the command line cannot give dict; "
            "give it a default, or annotate it as text or a number"
        )

    def test_an_annotation_without_meaning(self, folder: Path, capsys):
        source = "from pipeplug import pipeline\n@pipeline(batch_size=2)\ndef f(table: 'Table'):\n    pass\n"
        (folder / "made.py").write_text(source, encoding="utf-8")
        assert fail(["made.py:f"], capsys, status=1) == (
            f": {folder / 'made.py'}:2: an annotation of f cannot be evaluated (name 'Table' is not defined); "
            "import that name at run time, not only for type checking"
        )


class TestOptions:
    def test_every_option_has_a_flag_and_help(self):
        flags = option_flags(PipelineOptions(batch_size=3))
        assert [flag.name for flag in flags][:3] == ["--batch-size", "--threads", "--device"]
        assert all(is_readable(flag.annotation) for flag in flags)
        assert all(len(flag.help.partition(" (now ")[0]) > 10 for flag in flags)

    def test_they_stand_after_or_before_the_file(self, folder: Path, capsys):
        first = "photos.py:train: batches of 8, 1 thread, device cpu, seed 6, memory limit 1MiB\n"
        changes = ["--batch-size", "8", "--threads", "1", "--seed", "6", "--memory-limit", "1MiB"]
        assert plan([*TRAIN, *changes], capsys).startswith(first)
        assert plan([*changes, *TRAIN], capsys).startswith(first)
        assert plan(TRAIN, capsys).startswith("photos.py:train: batches of 4, 2 threads, device cpu, seed 5\n")

    def test_ill_typed(self, folder: Path, capsys):
        assert fail([*TRAIN, "--threads", "many"], capsys) == ": --threads takes int | None, got 'many'"
        message = ": --last-batch takes 'keep' | 'drop' | 'pad', got 'lose'"
        assert fail([*TRAIN, "--last-batch", "lose"], capsys) == message

    def test_out_of_range(self, folder: Path, capsys):
        message = ": pipeline option threads is at least 1, got 0"
        assert fail([*TRAIN, "--threads", "0"], capsys) == message
        assert fail([*TRAIN, "--memory-limit", "2 pages"], capsys).startswith(": '2 pages' is not a size in bytes")

    def test_another_device(self, folder: Path, capsys):
        assert fail([*TRAIN, "--device", "tpu"], capsys, status=1).startswith(": the pipeline asks for device 'tpu'")
