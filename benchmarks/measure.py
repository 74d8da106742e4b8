"""Figures of several sides, taken in turn.

A *side* does the work with one package and one setting of it. All sides of a measurement are open at once and take one
turn each, round after round, so that whatever else the machine does meets all of them alike. The first round is not
counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal, NamedTuple

OURS = "pipeplug"
LEAST_TURNS = 5

Turn = Callable[[], float]
"""Does the work once and returns its figure."""

Opening = Callable[[], AbstractContextManager[Turn]]
"""Prepares a side; its turns happen inside the block. Raises ImportError when the package is not installed."""


@dataclass(frozen=True)
class Conditions:
    """What the person who measures chose.

    Attributes:
        device: where the work is done.
        threads: how many threads, or worker processes, do it on each side.
        turns: counted turns of each side.
        photos: the folder of pictures; None generates them.
        pictures: how many of them at most.
    """

    device: str = "cpu"
    threads: int = 2
    turns: int = LEAST_TURNS
    photos: Path | None = None
    pictures: int = 1536


@dataclass(frozen=True)
class Side:
    """One way of doing the work.

    Attributes:
        package: whose it is, such as `"dali"`.
        opening: may run in another process, so it pickles: a function of a module, or a `partial` of one.
        setting: tells apart the sides of one package, of which the best gives the package's figure.
    """

    package: str
    opening: Opening
    setting: str = ""

    @property
    def title(self) -> str:
        return f"{self.package} ({self.setting})" if self.setting else self.package


@dataclass(frozen=True)
class Measurement:
    """What is measured, on which sides.

    Attributes:
        unit: of the figure that a turn returns.
        better: which of two figures is the better one.
    """

    name: str
    unit: str
    better: Literal["larger", "smaller"]
    sides: Sequence[Side]


class Figure(NamedTuple):
    """What a measurement found.

    Attributes:
        turns: the figures of all counted turns, by the title of the side.
        left_out: peers without a figure, and why.
    """

    measurement: Measurement
    turns: Mapping[str, Sequence[float]]
    left_out: Mapping[str, str]

    @property
    def best(self) -> Mapping[str, float]:
        """The best median of every package."""
        best: dict[str, float] = {}
        choose = max if self.measurement.better == "larger" else min
        for side in self.measurement.sides:
            if side.title in self.turns:
                figure = median(self.turns[side.title])
                best[side.package] = choose(best.get(side.package, figure), figure)
        return best

    @property
    def ratios(self) -> Mapping[str, float]:
        """How many times better than each peer pipeplug is: above 1 is better, whatever the unit."""
        return {peer: self._ratio(figure) for peer, figure in self.best.items() if peer != OURS}

    def _ratio(self, peer: float) -> float:
        above, below = (self.best[OURS], peer) if self.measurement.better == "larger" else (peer, self.best[OURS])
        return above / below if below else float("inf")


def take_turns(turns: Mapping[str, Turn], count: int) -> Mapping[str, Sequence[float]]:
    """Each side's figures of `count` rounds, in the order of the rounds, after one that is not counted."""
    figures: dict[str, list[float]] = {title: [] for title in turns}
    for number in range(count + 1):
        for title, turn in turns.items():
            figure = turn()
            if number > 0:
                figures[title].append(figure)
    return figures


def measure(measurement: Measurement, turns: int, open_side: Callable[[Side], AbstractContextManager[Turn]]) -> Figure:
    """Opens all sides, takes turns, and closes them. A peer that is not installed is left out."""
    with ExitStack() as stack:
        opened: dict[str, Turn] = {}
        left_out: dict[str, str] = {}
        for side in measurement.sides:
            try:
                opened[side.title] = stack.enter_context(open_side(side))
            except ImportError as error:
                if side.package == OURS:
                    raise
                left_out[side.package] = str(error)
        taken = take_turns(opened, turns)
    return Figure(measurement, taken, left_out)
