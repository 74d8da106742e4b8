import re
from pathlib import Path

import pytest

from pipeplug.cli import main


def test_the_plan_as_text(folder: Path, capsys: pytest.CaptureFixture):
    assert main(["plan", "photos.py:train", "--root", ".", "--shuffle"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("photos.py:train: batches of 4, 2 threads, device cpu, seed 5\n\nWhat the function says\n")
    assert re.search(r"\n  read\.arrays\(arrays=<float32 array \(10, 2\)>, shuffle=True\) +photos\.py:\d+\n", out)
    assert (
        "-> map.double  ? (…)  not built in place: shape and dtype unknown before it runs  1 use: output 'row'" in out
    )


def test_the_plan_as_a_flowchart(folder: Path, capsys: pytest.CaptureFixture):
    assert main(["plan", "photos.py:train", "--root", ".", "--mermaid"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("flowchart TD\n")
    assert '["map.double"]' in out


def test_nothing_runs(folder: Path, capsys: pytest.CaptureFixture):
    source = "from pipeplug import ops, pipeline\n@pipeline(batch_size=2)\ndef f():\n"
    source += "    return ops.map(lambda x: open('ran', 'w'), ops.read.items([1]))\n"
    (folder / "made.py").write_text(source, encoding="utf-8")
    assert main(["plan", "made.py:f"]) == 0
    assert "map.lambda" in capsys.readouterr().out
    assert not (folder / "ran").exists()
