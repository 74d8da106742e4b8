"""What a person sees of a run: a progress bar while it goes on, and afterwards what each operator took."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from operator import length_hint
from time import perf_counter
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipeplug.errors import SampleFailed
from pipeplug.memory.units import format_bytes
from pipeplug.runtime.outputs import Outputs
from pipeplug.runtime.statistics import MemoryUse, Statistics

if TYPE_CHECKING:
    from rich.progress import Progress

REFRESH_SECONDS = 0.1


def show_progress(
    batches: Iterable[Outputs], total: int | None = None, title: str = ""
) -> Generator[Outputs, None, None]:
    """Passes batches on, and shows on standard error how many have come and how many samples a second.

    It shows nothing unless standard error is a terminal. It uses no thread and holds no batch that the loop let go.

    Args:
        batches: a pipeline inside its `with` block, or any iterable of its batches.
        total: how many there will be, `len(batches)` where that is known.
        title: stands before the bar.
    """
    console = Console(stderr=True)
    total = total or length_hint(batches) or None
    iterator = iter(batches)
    try:
        if console.is_terminal:
            yield from _with_bar(iterator, total, title, console)
        else:
            yield from iterator
    finally:
        if isinstance(iterator, Generator):
            iterator.close()


def _with_bar(batches: Iterator[Outputs], total: int | None, title: str, console: Console) -> Iterator[Outputs]:
    started = shown = perf_counter()
    samples = 0
    with _progress(console) as progress:
        task = progress.add_task(title, total=total, rate="")
        for outputs in batches:
            samples += len(outputs.positions) - outputs.padding
            now = perf_counter()
            progress.update(task, advance=1, rate=f"{samples / max(now - started, 1e-9):,.0f} samples/s")
            if now - shown >= REFRESH_SECONDS:
                progress.refresh()
                shown = now
            held = [outputs]
            del outputs  # what the loop lets go while this frame sleeps, is free
            yield held.pop()
        progress.refresh()


def _progress(console: Console) -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("batches"),
        TextColumn("{task.fields[rate]}", markup=False, style="green"),
        TimeRemainingColumn(elapsed_when_finished=True),
        console=console,
        auto_refresh=False,
    )


def operator_table(statistics: Statistics) -> Table:
    """Calls, time and failures of every operator; times are added over threads."""
    table = _table("operator", "calls", "total", "a call", "share", "failures")
    whole = sum(each.seconds for each in statistics.operators) or 1.0
    for each in statistics.operators:
        table.add_row(
            Text(each.name),
            f"{each.calls:,}",
            _duration(each.seconds),
            f"{each.seconds / each.calls * 1e6:,.1f} µs" if each.calls else "-",
            f"{each.seconds / whole:.1%}",
            Text(f"{each.failures:,}", style="bold red") if each.failures else "-",
        )
    return table


def memory_table(memory: Mapping[str, MemoryUse]) -> Table:
    """Memory of every device."""
    table = _table("memory", "held", "held at most", "taken", "taken at most", "limit")
    for device, use in memory.items():
        sizes = (use.live, use.peak, use.taken, use.taken_peak)
        limit = "none" if use.limit is None else format_bytes(use.limit)
        table.add_row(device, *map(format_bytes, sizes), limit)
    return table


def _table(first: str, *headings: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column(first, no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def describe_rate(statistics: Statistics, seconds: float) -> str:
    """Samples, batches and failures in one line, with the rate and the share of the time that the loop waited."""
    rate, waiting = samples_per_second(statistics, seconds), waiting_share(statistics, seconds)
    parts = [f"{_count(statistics.samples, 'sample')} in {_count(statistics.batches, 'batch', 'batches')}"]
    parts.append(f"{_duration(seconds)}, {rate:,.0f} samples/s")
    parts.append(f"the loop waited {waiting:.0%} of the time")
    if statistics.passed:
        parts.append(f"{_count(statistics.passed, 'batch', 'batches')} without a good sample left out")
    return "; ".join(parts)


def describe_failures(failures: Sequence[SampleFailed], total: int) -> Iterator[str]:
    """Lines that say which samples failed and why: `failures` are the first of `total`."""
    if not total:
        return
    yield f"{_count(total, 'sample')} failed"
    for failure in failures:
        cause = " ".join(f"{type(failure.cause).__name__}: {failure.cause}".split())
        yield f"  {failure.origin}: {failure.node}: {cause[:200]}"
    if total > len(failures):
        yield f"  ... and {total - len(failures):,} more"


def samples_per_second(statistics: Statistics, seconds: float) -> float:
    return statistics.samples / seconds if seconds else 0.0


def waiting_share(statistics: Statistics, seconds: float) -> float:
    """The part of the time that the loop waited for batches, from 0 to 1."""
    return min(1.0, statistics.waiting_seconds / seconds) if seconds else 0.0


def _duration(seconds: float) -> str:
    return f"{seconds:,.2f} s" if seconds >= 1 else f"{seconds * 1e3:.1f} ms"


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
