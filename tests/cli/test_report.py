import gc
import io
import re
import weakref
from collections.abc import Generator
from contextlib import redirect_stderr

import numpy as np
import pytest
from rich.console import Console
from rich.table import Table

from pipeplug.cli.report import (
    describe_failures,
    describe_rate,
    memory_table,
    operator_table,
    samples_per_second,
    show_progress,
    waiting_share,
)
from pipeplug.errors import SampleFailed
from pipeplug.runtime.outputs import Outputs
from pipeplug.runtime.statistics import MemoryUse, OperatorStatistics, Statistics


class Terminal(io.StringIO):
    """Stands for a terminal as standard error, which pytest replaces at the beginning of each test."""

    def isatty(self) -> bool:
        return True

    def text(self) -> str:
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.getvalue())


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    return Terminal()


def outputs(count: int, rows: int = 4, padding: int = 0) -> list[Outputs]:
    return [Outputs({}, np.arange(rows), np.arange(rows), padding, 0, ()) for _ in range(count)]


def text_of(table: Table) -> str:
    console = Console(file=io.StringIO(), width=200)
    with console.capture() as captured:
        console.print(table)
    return captured.get()


class TestProgress:
    def test_quiet_where_nobody_watches(self, capsys: pytest.CaptureFixture):
        batches = outputs(3)
        assert list(show_progress(batches)) == batches
        assert capsys.readouterr() == ("", "")

    def test_a_bar_with_a_rate(self, terminal: Terminal):
        batches = outputs(3)
        with redirect_stderr(terminal):
            assert list(show_progress(batches, title="[red]photos")) == batches
        assert "[red]photos" in terminal.text()
        assert "3/3 batches" in terminal.text()
        assert re.search(r"[0-9,]+ samples/s", terminal.text())

    @pytest.mark.parametrize(("total", "shown"), [(9, "2/9 batches"), (None, "2/? batches")])
    def test_the_total(self, terminal: Terminal, total: int | None, shown: str):
        batches = outputs(2)
        with redirect_stderr(terminal):
            assert list(show_progress((each for each in batches), total)) == batches
        assert shown in terminal.text()

    def test_padding_is_no_sample(self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch):
        clock = iter([0.0, 2.0])
        monkeypatch.setattr("pipeplug.cli.report.perf_counter", lambda: next(clock))
        with redirect_stderr(terminal):
            assert len(list(show_progress(outputs(1, rows=8, padding=2)))) == 1
        assert " 3 samples/s" in terminal.text()

    @pytest.mark.parametrize("stream", [io.StringIO, Terminal])
    def test_a_loop_that_ends_early_closes_the_batches(self, stream: type[io.StringIO], terminal: Terminal):
        closed = []

        def endless() -> Generator[Outputs, None, None]:
            try:
                while True:
                    yield outputs(1)[0]
            finally:
                closed.append(True)

        with redirect_stderr(stream()):
            shown = show_progress(endless())
            next(shown)
            shown.close()
        assert closed == [True]

    @pytest.mark.parametrize("stream", [io.StringIO, Terminal])
    def test_it_holds_no_batch(self, stream: type[io.StringIO], terminal: Terminal):
        made: list[weakref.ref[Outputs]] = []

        def fresh() -> Generator[Outputs, None, None]:
            for _ in range(2):
                held = outputs(1)
                made.append(weakref.ref(held[0]))
                yield held.pop()

        with redirect_stderr(stream()):
            shown = show_progress(fresh())
            next(shown)
            gc.collect()
            assert made[0]() is None
            shown.close()


STATISTICS = Statistics(
    operators=(
        OperatorStatistics("read.files", 1000, 0.5, 0),
        OperatorStatistics("[bold]decode", 990, 1.5, 10),
        OperatorStatistics("flip", 0, 0.0, 0),
    ),
    samples=990,
    batches=1,
    failures=10,
    failed=(),
    passed=0,
    waiting_seconds=0.25,
)


def test_the_table_of_operators():
    rows = [line.split() for line in text_of(operator_table(STATISTICS)).splitlines()]
    assert rows[1:] == [
        ["read.files", "1,000", "500.0", "ms", "500.0", "µs", "25.0%", "-"],
        ["[bold]decode", "990", "1.50", "s", "1,515.2", "µs", "75.0%", "10"],
        ["flip", "0", "0.0", "ms", "-", "0.0%", "-"],
    ]


def test_the_table_of_nothing():
    nothing = Statistics((OperatorStatistics("flip", 0, 0.0, 0),), 0, 0, 0, (), 0, 0.0)
    assert text_of(operator_table(nothing)).splitlines()[1].split() == ["flip", "0", "0.0", "ms", "-", "0.0%", "-"]
    assert describe_rate(nothing, 0.0) == "0 samples in 0 batches; 0.0 ms, 0 samples/s; the loop waited 0% of the time"


def test_the_table_of_memory():
    memory = {"cpu": MemoryUse(0, 2048, 4096, 1 << 21, None), "cuda:0": MemoryUse(1, 2, 3, 4, 1 << 30)}
    rows = [re.split(r" {2,}", line.strip()) for line in text_of(memory_table(memory)).splitlines()]
    assert rows == [
        ["memory", "held", "held at most", "taken", "taken at most", "limit"],
        ["cpu", "0 B", "2.0 KiB", "4.0 KiB", "2.0 MiB", "none"],
        ["cuda:0", "1 B", "2 B", "3 B", "4 B", "1.0 GiB"],
    ]


def test_the_rate():
    assert samples_per_second(STATISTICS, 0.5) == 1980
    assert waiting_share(STATISTICS, 0.5) == 0.5
    assert describe_rate(STATISTICS, 0.5) == (
        "990 samples in 1 batch; 500.0 ms, 1,980 samples/s; the loop waited 50% of the time"
    )


def test_failures_are_told_with_their_origin():
    failure = SampleFailed(
        position=1,
        index=2,
        origin="a/b.jpg",
        operator="image.decode",
        node="image.decode_2",
        cause=ValueError("cut\noff"),
    )
    assert list(describe_failures([], 0)) == []
    assert list(describe_failures([failure], 1)) == [
        "1 sample failed",
        "  a/b.jpg: image.decode_2: ValueError: cut off",
    ]
    assert list(describe_failures([failure], 1001))[::2] == ["1,001 samples failed", "  ... and 1,000 more"]
