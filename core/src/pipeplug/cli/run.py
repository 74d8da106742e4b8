"""`pipeplug run`: runs a pipeline function and says what it took."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from itertools import islice
from operator import length_hint
from time import perf_counter
from typing import cast

from pipeplug.cli import report
from pipeplug.cli.target import Target, declare_target, open_target
from pipeplug.cli.terminal import show
from pipeplug.errors import SampleFailed
from pipeplug.pipeline import Pipeline
from pipeplug.runtime.outputs import Outputs
from pipeplug.runtime.statistics import MemoryUse, Statistics

FAILURES_SHOWN = 5


@dataclass(frozen=True)
class Outcome:
    """What a run took."""

    seconds: float
    statistics: Statistics
    memory: Mapping[str, MemoryUse]


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    declare_target(parser, declare_flags)


def declare_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--limit", type=_positive, metavar="N", help="stop each epoch after N batches")
    parser.add_argument("--epochs", type=_positive, metavar="N", default=1, help="run N epochs (default 1)")
    parser.add_argument("--memory", action="store_true", help="say how much memory was used")
    parser.add_argument("--json", action="store_true", help="write one JSON object")


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"takes a whole number from 1, got {text!r}")
    return int(text)


def execute(options: argparse.Namespace) -> int:
    """Runs the pipeline; its progress goes to standard error, what it took to standard output."""
    with open_target(options, "run", declare_flags) as target:
        outcome = measure(target)
    if target.flags.json:
        sys.stdout.write(json.dumps(_as_json(target, outcome), indent=2) + "\n")
    else:
        _write(target, outcome)
    return 0


def measure(target: Target) -> Outcome:
    """Runs the epochs that the flags ask for."""
    flags = target.flags
    with target.pipeline as batches:
        started = perf_counter()
        for number in range(flags.epochs):
            title = target.title if flags.epochs == 1 else f"{target.title}, epoch {number + 1} of {flags.epochs}"
            _run_epoch(batches, flags.limit, title)
        return Outcome(perf_counter() - started, batches.statistics(), batches.memory())


def _run_epoch(batches: Pipeline, limit: int | None, title: str) -> None:
    total = min(length_hint(batches) or limit or 0, limit or sys.maxsize)
    with closing(cast("Generator[Outputs, None, None]", iter(batches))) as epoch:
        for _ in report.show_progress(islice(epoch, limit), total, title):
            pass


def _write(target: Target, outcome: Outcome) -> None:
    show(report.operator_table(outcome.statistics))
    lines = ["", f"{target.title}: {report.describe_rate(outcome.statistics, outcome.seconds)}"]
    lines += report.describe_failures(outcome.statistics.failed[:FAILURES_SHOWN], outcome.statistics.failures)
    sys.stdout.writelines(f"{line}\n" for line in lines)
    if target.flags.memory:
        sys.stdout.write("\n")
        show(report.memory_table(outcome.memory))


def _as_json(target: Target, outcome: Outcome) -> dict[str, object]:
    statistics = outcome.statistics
    return {
        "pipeline": target.title,
        "seconds": outcome.seconds,
        "samples_per_second": report.samples_per_second(statistics, outcome.seconds),
        "waiting_share": report.waiting_share(statistics, outcome.seconds),
        **asdict(replace(statistics, failed=())),
        "failed": list(_failed(statistics.failed)),
        "memory": {device: asdict(use) for device, use in outcome.memory.items()},
    }


def _failed(failures: Iterable[SampleFailed]) -> Iterator[dict[str, object]]:
    for each in failures:
        cause = f"{type(each.cause).__name__}: {each.cause}"
        yield {"origin": each.origin, "position": each.position, "index": each.index, "node": each.node, "cause": cause}
