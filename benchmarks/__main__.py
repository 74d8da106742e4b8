"""The command `python -m benchmarks`."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.machine import describe_machine
from benchmarks.measure import LEAST_TURNS, Conditions, Measurement, measure
from benchmarks.processes import in_process
from benchmarks.report import Report

DEVICES = {
    "image_train": ("cpu",),
    "image_train_antialias": ("cpu",),
    "memory": ("cpu",),
    "scheduler": ("cpu",),
    "startup": ("cpu",),
}
"""Where each benchmark, which is the module of that name, runs."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one benchmark and reports it; returns the exit status."""
    options = _parser().parse_args(arguments)
    if options.device not in DEVICES[options.name]:
        print(f"{options.name} runs on {', '.join(DEVICES[options.name])}, not on {options.device}", file=sys.stderr)
        return 2
    conditions = Conditions(options.device, options.threads, options.turns, options.photos, options.pictures)
    report = _run(options.name, conditions)
    print(report.table())
    if options.save:
        print(f"kept in {os.path.relpath(report.save())}")
    if options.json:
        print(report.line())
    return 0


def _run(name: str, conditions: Conditions) -> Report:
    machine = describe_machine()
    figures = []
    for measurement in _measurements(name, conditions):
        print(f"{measurement.name}: {conditions.turns} turns of {len(measurement.sides)} sides …", file=sys.stderr)
        figure = measure(measurement, conditions.turns, in_process)
        for peer, reason in figure.left_out.items():
            print(f"{peer} is left out: {reason}", file=sys.stderr)
        figures.append(figure)
    return Report(name, conditions.device, figures, machine, datetime.now(UTC))


def _measurements(name: str, conditions: Conditions) -> Sequence[Measurement]:
    found: Sequence[Measurement] = importlib.import_module(f"benchmarks.{name}").measurements(conditions)
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measures pipeplug and its peers in turn.", allow_abbrev=False
    )
    parser.add_argument("name", choices=sorted(DEVICES), metavar="NAME", help=", ".join(sorted(DEVICES)))
    parser.add_argument("--device", default="cpu", help="cpu or cuda:0")
    parser.add_argument("--json", action="store_true", help="end with the run as one line of JSON")
    parser.add_argument("--save", action="store_true", help="keep the run in benchmarks/results/")
    parser.add_argument("--threads", type=int, default=2, help="threads or worker processes of each side (2)")
    parser.add_argument(
        "--turns", type=_turns, default=LEAST_TURNS, help=f"counted turns of each side, at least {LEAST_TURNS}"
    )
    parser.add_argument(
        "--photos",
        type=Path,
        default=os.environ.get("PIPEPLUG_PHOTOS"),
        help="folder of JPEG photographs; otherwise PIPEPLUG_PHOTOS, otherwise they are generated into out/",
    )
    parser.add_argument("--pictures", type=int, default=1536, help="how many photographs at most (1536)")
    return parser


def _turns(text: str) -> int:
    count = int(text)
    if count < LEAST_TURNS:
        raise argparse.ArgumentTypeError(f"a median needs at least {LEAST_TURNS} turns, got {count}")
    return count


if __name__ == "__main__":
    sys.exit(main())
