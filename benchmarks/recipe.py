"""What the sides of the image benchmarks agree on: the recipe of an image classifier's training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter

from benchmarks.measure import Turn

BATCH = 64
SIZE = 224
AREAS = (0.08, 1.0)
RATIOS = (3 / 4, 4 / 3)
FLIP = 0.5
MEAN = (123.675, 116.28, 103.53)
STD = (58.395, 57.12, 57.375)
"""Of ImageNet's RGB, on the scale of 0 to 255."""


def rate_of(epoch: Callable[[], int], count: int) -> Turn:
    """A turn that runs an epoch and gives its images/s. `epoch` returns how many batches came, which is checked."""
    return partial(_rate, epoch, count)


def _rate(epoch: Callable[[], int], count: int) -> float:
    started = perf_counter()
    batches = epoch()
    seconds = perf_counter() - started
    if batches * BATCH != count:
        raise ValueError(f"an epoch of {count} images gave {batches} batches of {BATCH}")
    return count / seconds


def read_all(paths: Sequence[str]) -> None:
    """Brings the files into the page cache, so that no side pays for the disk."""
    for path in paths:
        with open(path, "rb") as file:
            file.read()
