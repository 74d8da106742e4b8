import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pipeplug.cli import main

TRAIN = ["photos.py:train", "--root", "."]
FRAGILE = [*TRAIN, "--kind", "fragile"]


def run(arguments: list[str], capsys: pytest.CaptureFixture, status: int = 0) -> tuple[str, str]:
    assert main(["run", *arguments]) == status
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("pipeplug")]
    out, err = capsys.readouterr()
    return out, err


def run_json(arguments: list[str], capsys: pytest.CaptureFixture) -> dict:
    out, err = run([*arguments, "--json"], capsys)
    assert err == ""
    return json.loads(out)


class TestTable:
    def test_what_was_done(self, folder: Path, capsys):
        out, err = run([*TRAIN, "--epochs", "2"], capsys)
        lines = [line.split() for line in out.splitlines()]
        assert lines[0] == ["operator", "calls", "total", "a", "call", "share", "failures"]
        assert [line[:2] for line in lines[1:3]] == [["read.arrays", "20"], ["map.double", "20"]]
        assert sum(float(line[6].removesuffix("%")) for line in lines[1:3]) == pytest.approx(100, abs=0.2)
        assert lines[3] == []
        assert out.splitlines()[4].startswith("photos.py:train: 20 samples in 6 batches; ")
        assert "samples/s; the loop waited" in out
        assert len(lines) == 5
        assert err == ""

    def test_memory(self, folder: Path, capsys):
        out, _ = run([*TRAIN, "--memory", "--memory-limit", "1MiB"], capsys)
        *_, headings, row = out.splitlines()
        assert headings.split("  ")[0] == "memory"
        assert headings.split() == ["memory", "held", "held", "at", "most", "taken", "taken", "at", "most", "limit"]
        assert row.split()[0] == "cpu"
        assert row.endswith("1.0 MiB")

    def test_failures(self, folder: Path, capsys):
        out, _ = run([*FRAGILE, "--on-error", "skip", "--threads", "1"], capsys)
        assert "9 samples in 3 batches" in out
        assert out.endswith("1 sample failed\n  row 2: map.fragile: ValueError: row is bad\n")
        [line] = [line.split() for line in out.splitlines() if line.startswith("map.fragile")]
        assert line[1] == "9"
        assert line[-1] == "1"

    def test_a_few_failures_of_many(self, folder: Path, capsys):
        (folder / "sums.py").write_text("def double(row):\n    raise OSError('no')\n", encoding="utf-8")
        out, err = run([*TRAIN, "--on-error", "replace", "--memory"], capsys, status=1)
        assert out == ""
        assert err.startswith(
            "pipeplug: no sample of the epoch is good, all 10 failed; the first one: map.double failed"
        )

    def test_a_batch_without_a_good_sample(self, folder: Path, capsys):
        double = "def double(row):\n    if row[0] < 12:\n        raise OSError('no')\n    return row\n"
        (folder / "sums.py").write_text(double, encoding="utf-8")
        out, _ = run([*TRAIN, "--on-error", "skip"], capsys)
        assert "1 batch without a good sample left out" in out
        assert "samples failed\n  row 0: map.double: OSError: no\n" in out


class TestJson:
    def test_one_object(self, folder: Path, capsys):
        outcome = run_json([*FRAGILE, "--on-error", "skip"], capsys)
        assert (outcome["pipeline"], outcome["samples"], outcome["batches"]) == ("photos.py:train", 9, 3)
        assert outcome["samples_per_second"] == pytest.approx(9 / outcome["seconds"])
        assert 0 <= outcome["waiting_share"] <= 1
        assert [(each["name"], each["calls"]) for each in outcome["operators"]] == [
            ("read.arrays", 10),
            ("map.fragile", 9),
        ]
        assert outcome["failures"] == 1
        assert outcome["failed"] == [
            {"origin": "row 2", "position": 2, "index": 2, "node": "map.fragile", "cause": "ValueError: row is\nbad"}
        ]
        assert set(outcome["memory"]) == {"cpu"}

    def test_limit_and_epochs(self, folder: Path, capsys):
        assert run_json([*TRAIN, "--limit", "2", "--epochs", "3"], capsys)["batches"] == 6
        assert run_json([*TRAIN, "--limit", "9"], capsys)["batches"] == 3
        assert run_json(["--limit", "1", *TRAIN], capsys)["samples"] == 4

    def test_a_source_without_length(self, folder: Path, capsys):
        source = "from pipeplug import ops, pipeline\n@pipeline(batch_size=2)\ndef f():\n"
        (folder / "made.py").write_text(f"{source}    return ops.read.items(iter(range(5)))\n", encoding="utf-8")
        assert run_json(["made.py:f"], capsys)["samples"] == 5
        assert run_json(["made.py:f", "--limit", "2"], capsys)["samples"] == 4


class TestErrors:
    @pytest.mark.parametrize("flag", ["--limit", "--epochs"])
    @pytest.mark.parametrize("text", ["0", "-1", "x", "1.5"])
    def test_no_number(self, flag: str, text: str, folder: Path, capsys):
        _, err = run([*TRAIN, flag, text], capsys, status=2)
        assert err.endswith(f"error: argument {flag}: takes a whole number from 1, got '{text}'\n")

    def test_a_sample_that_fails(self, folder: Path, capsys):
        out, err = run(FRAGILE, capsys, status=1)
        assert out == ""
        line = (folder / "photos.py").read_text().splitlines().index('        raise ValueError("row is\\nbad")') + 1
        assert err == (
            "pipeplug: map.fragile failed on row 2 (position 2, index 2): ValueError: row is bad "
            f"(raised at {folder / 'photos.py'}:{line})\n"
        )

    def test_too_many_failures(self, folder: Path, capsys):
        _, err = run([*FRAGILE, "--on-error", "skip", "--max-failures", "0"], capsys, status=1)
        assert err.startswith("pipeplug: 1 samples of this epoch failed, max_failures=0; the last one: map.fragile")

    def test_an_interruption_ends_the_threads(self, folder: Path, capsys):
        source = (
            "import signal, threading\n"
            "def double(row):\n    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)\n    return row\n"
        )
        (folder / "sums.py").write_text(source, encoding="utf-8")
        _, err = run([*TRAIN, "--epochs", "100000"], capsys, status=130)
        assert err == "pipeplug: interrupted\n"


def test_as_a_process(folder: Path):
    command = [sys.executable, "-c", "import sys; from pipeplug.cli import main; sys.exit(main())", "run", *TRAIN]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert done.stderr == ""
    assert "10 samples in 3 batches" in done.stdout
