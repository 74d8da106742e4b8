"""What the sides of `scheduler` share: a tiny image, and the time of a call."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

TINY_SIZE = (8, 8)


def tiny_image() -> NDArray[Any]:
    """An RGB image of 16 by 16 pixels."""
    import numpy as np

    return np.random.default_rng(0).integers(0, 256, (16, 16, 3), np.uint8)


def microseconds_a_call(call: Callable[[], object], calls: int) -> float:
    """The mean time of a call."""
    started = perf_counter()
    for _ in range(calls):
        call()
    return (perf_counter() - started) / calls * 1e6
