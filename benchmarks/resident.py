"""What the sides of `memory` share: large images, and the memory that a process has in use while it works."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

LARGE_BATCH = 8
LARGE_BATCHES = 6  # a turn; more than any side has under way
LARGE_SHAPE = (1024, 1536, 3)
LARGE_BATCH_BYTES = LARGE_BATCH * LARGE_SHAPE[0] * LARGE_SHAPE[1] * LARGE_SHAPE[2]


def large_image() -> NDArray[Any]:
    """An RGB image of 4.5 MiB."""
    import numpy as np

    return np.random.default_rng(0).integers(0, 256, LARGE_SHAPE, np.uint8)


def peak_in_batches(before: int, work: Callable[[], object]) -> float:
    """How far the process's resident memory rises above `before` bytes during `work`, in batches of large images."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak starts again from what is resident now
    work()
    return (_status("VmHWM") - before) / LARGE_BATCH_BYTES


def resident_bytes() -> int:
    """The process's resident memory now. Raises OSError where there is no /proc, which is everywhere but on Linux."""
    return _status("VmRSS")


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    line = next(line for line in lines if line.startswith(field))
    return int(line.split()[1]) * 1024
