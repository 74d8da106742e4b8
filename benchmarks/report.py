"""What a run found: as one line of JSON, as a table to read, as a file to keep."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from benchmarks.measure import OURS, Figure

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Report:
    """The figures of one run of a benchmark; the first is its headline.

    Attributes:
        date: when the run ended, in UTC.
    """

    name: str
    device: str
    figures: Sequence[Figure]
    machine: Mapping[str, object]
    date: datetime

    def fields(self) -> dict[str, object]:
        """The headline's fields, and under `"parts"` all figures when there are several."""
        headline = figure_fields(self.figures[0]) | {"name": self.name, "device": self.device}
        parts = {"parts": [figure_fields(figure) for figure in self.figures]} if len(self.figures) > 1 else {}
        return headline | parts | {"machine": self.machine, "date": self.date.isoformat(timespec="seconds")}

    def line(self) -> str:
        """The run as one line of JSON."""
        return json.dumps(self.fields(), ensure_ascii=False)

    def table(self) -> str:
        """The run as lines to read."""
        return "\n".join(line for figure in self.figures for line in _lines(figure))

    def save(self, folder: Path = RESULTS) -> Path:
        """Keeps the run as `NAME-DEVICE-DATE.json`; a run of the same second would be overwritten."""
        folder.mkdir(parents=True, exist_ok=True)
        day = self.date.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
        path = folder / f"{self.name}-{self.device.replace(':', '')}-{day}.json"
        path.write_text(json.dumps(self.fields(), ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
        return path


def figure_fields(figure: Figure) -> dict[str, object]:
    """A figure as JSON has it."""
    best = {package: _rounded(value) for package, value in figure.best.items()}
    return {
        "name": figure.measurement.name,
        "unit": figure.measurement.unit,
        "pipeplug": best[OURS],
        "peers": {package: value for package, value in best.items() if package != OURS},
        "ratio": {peer: _rounded(ratio) for peer, ratio in figure.ratios.items()},
        "left_out": dict(figure.left_out),
        "better": figure.measurement.better,
        "medians": {title: _rounded(median(values)) for title, values in figure.turns.items()},
        "turns": {title: [_rounded(value) for value in values] for title, values in figure.turns.items()},
    }


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def _lines(figure: Figure) -> list[str]:
    lines = [f"{figure.measurement.name}: {figure.measurement.unit}, {figure.measurement.better} is better"]
    ratios = figure.ratios
    for side in figure.measurement.sides:
        values = figure.turns.get(side.title)
        if values is not None:
            spread = f"{_rounded(min(values)):g} to {_rounded(max(values)):g}"
            lines.append(f"  {side.title:<48} {_rounded(median(values)):>10g}   ({spread})")
    lines += [f"  pipeplug is {ratio:.2f} x {peer}" for peer, ratio in ratios.items()]
    return lines + [f"  {peer} is left out: {reason}" for peer, reason in figure.left_out.items()]
