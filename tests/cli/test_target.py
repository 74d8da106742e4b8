import sys
from pathlib import Path

import pytest

from pipeplug.cli import main

TRAIN = ["photos.py:train", "--root", "."]


def fail(arguments: list[str], capsys: pytest.CaptureFixture, status: int = 2) -> str:
    """The last line on standard error of `pipeplug plan` that fails with a status, and writes nothing else."""
    assert main(["plan", *arguments]) == status
    written = capsys.readouterr()
    assert written.out == ""
    return written.err.splitlines()[-1]


def write(folder: Path, source: str) -> Path:
    path = folder / "made.py"
    path.write_text(source, encoding="utf-8")
    return path


class TestFile:
    def test_no_such_file(self, folder: Path, capsys):
        assert fail(["x.py:train"], capsys) == f"pipeplug: there is no file 'x.py' in {folder}"

    def test_no_colon_and_no_file(self, folder: Path, capsys):
        message = f"pipeplug: there is no file 'train' in {folder}; write FILE:NAME first, then its arguments"
        assert fail(["train"], capsys) == message

    def test_a_folder(self, folder: Path, capsys):
        message = "pipeplug: . is a folder; name a Python file, and a pipeline function in it: FILE:NAME"
        assert fail([".:train"], capsys) == message

    def test_an_absolute_path(self, folder: Path, capsys):
        assert main(["plan", f"{folder / 'photos.py'}:other"]) == 0
        assert "read.items" in capsys.readouterr().out

    def test_a_colon_in_the_name_of_the_file(self, folder: Path, capsys):
        (folder / "a:b.py").write_text("x = 1", encoding="utf-8")
        assert fail(["a:b.py"], capsys) == (
            "pipeplug: a:b.py names no pipeline: write FILE:NAME; the file has no pipeline function"
        )

    def test_what_it_imports_lies_beside_it_and_nothing_is_left(self, folder: Path, capsys):
        paths = list(sys.path)
        assert main(["plan", *TRAIN]) == 0
        assert sys.path == paths
        assert "__pipeline__" not in sys.modules
        assert not list(folder.glob("__pycache__/photos*"))

    def test_a_module_of_the_package_does_not_hide_its_public_names(self, folder: Path, capsys):
        write(folder, "import pipeplug.pipeline\nimport pipeplug.ops\nfrom pipeplug import ops, pipeline\n")
        assert "the file has no pipeline function" in fail(["made.py"], capsys)


class TestErrorsInTheFile:
    def test_an_exception_says_the_line_of_the_file(self, folder: Path, capsys):
        path = write(folder, "import math\n\nmath.sqrt(-1)\n")
        message = fail(["made.py:train"], capsys, status=1)
        assert message.startswith(f"pipeplug: {path}:3 (math.sqrt(-1)): ValueError: ")

    def test_a_missing_module(self, folder: Path, capsys):
        path = write(folder, "\nimport no_such_module\n")
        assert fail(["made.py:train"], capsys, status=1) == (
            f"pipeplug: {path}:2 (import no_such_module): ModuleNotFoundError: No module named 'no_such_module'"
        )

    def test_an_exception_further_down_says_the_line_that_led_there(self, folder: Path, capsys):
        (folder / "sums.py").write_text("raise RuntimeError\n", encoding="utf-8")
        line = (folder / "photos.py").read_text(encoding="utf-8").splitlines().index("from sums import double") + 1
        assert fail(TRAIN, capsys, status=1) == (
            f"pipeplug: {folder / 'photos.py'}:{line} (from sums import double): RuntimeError"
        )

    def test_no_python(self, folder: Path, capsys):
        path = write(folder, "x = 1\ndef f(:\n")
        assert fail(["made.py:f"], capsys, status=1) == (f"pipeplug: {path}:2: SyntaxError: invalid syntax: def f(:")

    def test_the_file_is_compiled_by_its_own_rules(self, folder: Path, capsys):
        write(folder, "def f(x: int):\n    pass\nassert f.__annotations__ == {'x': int}\n")
        assert "is a plain function" in fail(["made.py:f"], capsys)

    def test_no_text(self, folder: Path, capsys):
        (folder / "made.py").write_bytes(b"\0")
        assert fail(["made.py:f"], capsys, status=1).startswith(f"pipeplug: {folder / 'made.py'}: ")

    def test_the_end_of_the_process(self, folder: Path, capsys):
        path = write(folder, "import sys\nsys.exit(3)\n")
        assert fail(["made.py:f"], capsys, status=1) == f"pipeplug: {path}:2 (sys.exit(3)): SystemExit: 3"

    def test_an_exception_of_the_function(self, folder: Path, capsys):
        path = write(folder, "from pipeplug import pipeline\n@pipeline(batch_size=2)\ndef f():\n    return {}[1]\n")
        assert fail(["made.py:f"], capsys, status=1) == f"pipeplug: {path}:4 (return {{}}[1]): KeyError: 1"

    def test_an_error_of_pipeplug_gets_the_line_if_it_does_not_say_it(self, folder: Path, capsys):
        source = "from pipeplug import ops, pipeline\n@pipeline(batch_size=2)\ndef f():\n"
        path = write(folder, f"{source}    return ops.read.arrays([[1]], shard=(2, 1))\n")
        assert fail(["made.py:f"], capsys, status=1) == (
            f"pipeplug: {path}:4 (return ops.read.arrays([[1]], shard=(2, 1))): "
            "read.arrays: shard=(2, 1) names rank 2 of 1; ranks count from 0"
        )
        path = write(folder, f"{source}    return len(ops.read.arrays([[1]])[0])\n")
        assert fail(["made.py:f"], capsys, status=1).startswith(f"pipeplug: {path}:4: read.arrays has no data while")

    def test_an_error_without_a_line(self, folder: Path, capsys):
        source = "from pipeplug import ops, pipeline\n@pipeline(batch_size=2)\ndef f():\n"
        write(folder, f"{source}    return ops.read.files('nowhere')\n")
        assert fail(["made.py:f"], capsys, status=1) == f"pipeplug: there is no folder nowhere (in {folder})"


class TestName:
    def test_none(self, folder: Path, capsys):
        for target in ("photos.py", "photos.py:"):
            assert fail([target], capsys) == (
                f"pipeplug: {target} names no pipeline: write FILE:NAME; the file has train, other"
            )

    def test_unknown(self, folder: Path, capsys):
        message = "pipeplug: photos.py:trian: there is no 'trian'; the file has train, other"
        assert fail(["photos.py:trian"], capsys) == message

    def test_a_plain_function(self, folder: Path, capsys):
        assert fail(["photos.py:double"], capsys) == (
            "pipeplug: photos.py:double is a plain function; put @pipeline(batch_size=...) above it, or name another; "
            "the file has train, other"
        )

    def test_a_pipeline_with_its_arguments(self, folder: Path, capsys):
        assert fail(["photos.py:opened"], capsys) == (
            "pipeplug: photos.py:opened has its arguments already; name the pipeline function that made it; "
            "the file has train, other"
        )

    def test_something_else(self, folder: Path, capsys):
        assert fail(["photos.py:READY"], capsys) == (
            "pipeplug: photos.py:READY is not a pipeline function but int; the file has train, other"
        )
