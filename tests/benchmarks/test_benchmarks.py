"""What the benchmarks compute from the figures of their sides; no time is measured here."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks.machine import describe_machine
from benchmarks.measure import Conditions, Figure, Measurement, Side, Turn, measure, take_turns
from benchmarks.peers.opencv import _box
from benchmarks.photos import generated, photographs
from benchmarks.processes import SideError, in_process
from benchmarks.recipe import BATCH, rate_of
from benchmarks.report import Report

DATE = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


@contextmanager
def giving(*figures: float, log: list[str] | None = None, title: str = "") -> Iterator[Turn]:
    """A side that gives these figures, one a turn, and notes its turns in `log`."""
    left = iter(figures)

    def turn() -> float:
        if log is not None:
            log.append(title)
        return next(left)

    yield turn
    if log is not None:
        log.append(f"{title} closed")


@contextmanager
def missing() -> Iterator[Turn]:
    import_module("dali_of_nobody")
    yield float


@contextmanager
def broken() -> Iterator[Turn]:
    yield lambda: os.stat("no such file").st_mtime


@contextmanager
def process_number() -> Iterator[Turn]:
    yield lambda: float(os.getpid())


@contextmanager
def ending() -> Iterator[Turn]:
    yield lambda: os._exit(3)


def opened(side: Side) -> AbstractContextManager[Turn]:
    return side.opening()


def figure(
    better: Literal["larger", "smaller"],
    ours: Sequence[float],
    left_out: Mapping[str, str] | None = None,
    **peers: Sequence[float],
) -> Figure:
    """A figure from turns; `dali__dynamic` is the setting "dynamic" of dali."""
    names = [name.partition("__") for name in peers]
    sides = [Side("pipeplug", missing), *(Side(package, missing, setting) for package, _, setting in names)]
    turns = {side.title: values for side, values in zip(sides, [ours, *peers.values()], strict=True)}
    return Figure(Measurement("work", "units", better, sides), turns, left_out or {})


class TestTurns:
    def test_sides_take_turns_and_the_first_round_is_not_counted(self) -> None:
        log: list[str] = []
        sides = [
            Side("pipeplug", partial(giving, 9, 1, 2, log=log, title="ours")),
            Side("dali", partial(giving, 8, 3, 4, log=log, title="a"), "dynamic"),
            Side("opencv", partial(giving, 7, 5, 6, log=log, title="b")),
        ]
        found = measure(Measurement("work", "units", "larger", sides), 2, opened)
        assert log == ["ours", "a", "b"] * 3 + ["b closed", "a closed", "ours closed"]
        assert found.turns == {"pipeplug": [1, 2], "dali (dynamic)": [3, 4], "opencv": [5, 6]}

    def test_no_side_no_figure(self) -> None:
        assert take_turns({}, 5) == {}

    def test_a_peer_that_is_not_installed_is_left_out(self) -> None:
        sides = [
            Side("pipeplug", partial(giving, 0, 1)),
            Side("dali", missing, "x"),
            Side("opencv", partial(giving, 0, 2)),
        ]
        found = measure(Measurement("work", "units", "larger", sides), 1, opened)
        assert found.left_out == {"dali": "No module named 'dali_of_nobody'"}
        assert found.best == {"pipeplug": 1, "opencv": 2}
        assert found.ratios == {"opencv": 0.5}

    def test_pipeplug_cannot_be_left_out(self) -> None:
        with pytest.raises(ModuleNotFoundError, match="dali_of_nobody"):
            measure(Measurement("work", "units", "larger", [Side("pipeplug", missing)]), 1, opened)


class TestFigures:
    def test_a_figure_is_the_median_of_the_turns(self) -> None:
        found = figure("larger", [1, 100, 3, 2, 50], opencv=[4, 1, 2, 3, 90])
        assert found.best == {"pipeplug": 3, "opencv": 3}

    def test_the_ratio_of_larger_figures(self) -> None:
        assert figure("larger", [30], opencv=[20], dali=[60]).ratios == {"opencv": 1.5, "dali": 0.5}

    def test_the_ratio_of_smaller_figures_is_turned_round(self) -> None:
        assert figure("smaller", [30], opencv=[20], dali=[60]).ratios == {"opencv": 20 / 30, "dali": 2}

    def test_nothing_is_infinitely_smaller(self) -> None:
        assert figure("smaller", [0], opencv=[20]).ratios == {"opencv": float("inf")}

    @pytest.mark.parametrize(("better", "best"), [("larger", 7), ("smaller", 2)])
    def test_a_package_counts_with_its_best_setting(self, better: Literal["larger", "smaller"], best: float) -> None:
        found = figure(better, [5], dali__static=[2, 2, 9], dali__dynamic=[7, 1, 8])
        assert found.best == {"pipeplug": 5, "dali": best}


class TestReport:
    def report(self, *figures: Figure) -> Report:
        return Report("work", "cuda:0", figures, {"cpu": "fast"}, DATE)

    def test_one_object_on_one_line(self) -> None:
        found = figure("larger", [300.123456, 300], {"spdl": "not installed"}, opencv=[200, 200])
        line = self.report(found).line()
        assert "\n" not in line
        assert json.loads(line) == {
            "name": "work",
            "unit": "units",
            "pipeplug": 300.1,
            "peers": {"opencv": 200},
            "ratio": {"opencv": 1.5},
            "left_out": {"spdl": "not installed"},
            "better": "larger",
            "medians": {"pipeplug": 300.1, "opencv": 200},
            "turns": {"pipeplug": [300.1, 300], "opencv": [200, 200]},
            "device": "cuda:0",
            "machine": {"cpu": "fast"},
            "date": "2026-03-04T05:06:07+00:00",
        }

    def test_several_figures_are_parts_and_the_first_is_the_headline(self) -> None:
        fields: dict[str, Any] = self.report(figure("larger", [3]), figure("smaller", [7], dali=[21])).fields()
        assert fields["pipeplug"] == 3
        assert [(part["pipeplug"], part["ratio"]) for part in fields["parts"]] == [(3, {}), (7, {"dali": 3})]

    def test_the_table_says_who_is_left_out(self) -> None:
        table = self.report(figure("larger", [3], {"dali": "not installed"}, opencv=[2])).table()
        assert "pipeplug is 1.50 x opencv" in table
        assert "dali is left out: not installed" in table

    def test_a_run_is_kept_as_a_file(self, tmp_path: Path) -> None:
        report = self.report(figure("larger", [3]))
        path = report.save(tmp_path / "results")
        assert path == tmp_path / "results" / "work-cuda0-20260304T050607Z.json"
        assert json.loads(path.read_text(encoding="utf-8")) == report.fields()

    def test_the_machine_is_described_as_json(self) -> None:
        machine = json.loads(json.dumps(describe_machine()))
        assert machine["cores"] >= 1
        assert machine["packages"]["numpy"] == np.__version__


class TestProcesses:
    def test_a_side_runs_in_a_process_of_its_own(self) -> None:
        with in_process(Side("pipeplug", process_number)) as turn:
            first, second = turn(), turn()
        assert first == second != os.getpid()

    def test_a_missing_package_is_told(self) -> None:
        with pytest.raises(ImportError, match="No module named 'dali_of_nobody'"), in_process(Side("dali", missing)):
            pass

    def test_a_failure_names_the_side_and_has_its_traceback(self) -> None:
        with in_process(Side("dali", broken, "dynamic")) as turn:
            with pytest.raises(SideError, match=r"(?s)dali \(dynamic\) failed.*FileNotFoundError"):
                turn()

    def test_a_process_that_ends_is_told(self) -> None:
        with in_process(Side("dali", ending)) as turn, pytest.raises(SideError, match="dali ended"):
            turn()


class TestCommand:
    @pytest.fixture
    def sides(self, monkeypatch: pytest.MonkeyPatch) -> Callable[[Sequence[Side]], None]:
        def measured(sides: Sequence[Side]) -> None:
            measurement = Measurement("startup.import", "s", "smaller", sides)
            monkeypatch.setattr(command, "_measurements", lambda name, conditions: [measurement])
            monkeypatch.setattr(command, "in_process", opened)

        return measured

    def test_the_last_line_is_the_object(
        self, sides: Callable[[Sequence[Side]], None], capsys: pytest.CaptureFixture[str]
    ) -> None:
        ours = Side("pipeplug", partial(giving, 9, 2, 2, 2, 2, 2))
        sides([ours, Side("torchvision", partial(giving, 9, 6, 6, 6, 6, 6)), Side("dali", missing)])
        assert command.main(["startup", "--json"]) == 0
        printed = capsys.readouterr()
        found = json.loads(printed.out.splitlines()[-1])
        assert found["name"] == "startup"
        assert found["ratio"] == {"torchvision": 3}
        assert "dali is left out: No module named 'dali_of_nobody'" in printed.err

    def test_a_device_that_a_benchmark_has_not(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert command.main(["startup", "--device", "cuda:0"]) == 2
        assert "startup runs on cpu, not on cuda:0" in capsys.readouterr().err

    def test_too_few_turns(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit):
            command.main(["startup", "--turns", "3"])
        assert "a median needs at least 5 turns, got 3" in capsys.readouterr().err

    @pytest.mark.parametrize("name", sorted(command.DEVICES))
    def test_every_benchmark_has_a_side_of_ours_first(self, name: str, tmp_path: Path) -> None:
        for number in range(BATCH):
            (tmp_path / f"{number}.jpg").write_bytes(b"")
        for measurement in command._measurements(name, Conditions(photos=tmp_path)):
            assert measurement.name.startswith(name)
            assert measurement.sides[0].title == "pipeplug"
            assert len({side.title for side in measurement.sides}) == len(measurement.sides)


class TestPhotographs:
    def test_they_have_the_sizes_and_weight_of_photographs(self, tmp_path: Path) -> None:
        folder = generated(12, cache=tmp_path)
        encoded = [path.read_bytes() for path in sorted(folder.iterdir())]
        shapes = [np.asarray(cv2.imdecode(np.frombuffer(each, np.uint8), cv2.IMREAD_COLOR)).shape for each in encoded]
        assert len(shapes) == 12
        assert all(300 <= height < 520 and 400 <= width < 640 for height, width, _ in shapes)
        assert 40_000 < np.mean([len(each) for each in encoded]) < 90_000

    def test_they_are_made_once(self, tmp_path: Path) -> None:
        folder = generated(1, cache=tmp_path)
        (folder / "mark").touch()
        assert generated(1, cache=tmp_path) == folder
        assert (folder / "mark").exists()
        assert list(tmp_path.iterdir()) == [folder]

    def test_without_samples_nothing_is_left_behind(self, tmp_path: Path) -> None:
        (tmp_path / "samples").mkdir()
        with pytest.raises(FileNotFoundError, match="--photos DIR"):
            generated(1, samples=tmp_path / "samples", cache=tmp_path / "cache")
        assert list((tmp_path / "cache").iterdir()) == []

    def test_whole_batches_spread_over_a_folder(self, tmp_path: Path) -> None:
        for number in range(11):
            (tmp_path / f"{number:02}.jpg").touch()
        names = [Path(path).stem for path in photographs(tmp_path, 7, 3)]
        assert names == ["00", "01", "03", "05", "07", "09"]

    def test_a_folder_without_a_batch(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError, match="has 0"):
            photographs(tmp_path, 7, 3)


class TestRecipe:
    def test_a_rate_counts_images(self) -> None:
        assert rate_of(lambda: 2, 2 * BATCH)() > 0

    def test_an_epoch_that_is_not_whole(self) -> None:
        with pytest.raises(ValueError, match="an epoch of 128 images gave 1 batches"):
            rate_of(lambda: 1, 2 * BATCH)()

    def test_boxes_of_the_hand_written_peer_lie_in_the_image(self) -> None:
        for drawn in np.random.default_rng(0).random((500, 23)).tolist():
            y, x, height, width = _box(drawn, 300, 400)
            assert 0 <= y <= y + height <= 300
            assert 0 <= x <= x + width <= 400
            assert 0.07 < height * width / (300 * 400) <= 1
            assert 0.73 < width / height < 1.36
