"""The memory that a chain of operators needs, by its depth: flips of large images, each of which makes a new one.

`resident` is how far the resident memory of the process rises, in batches of the images, which every side is asked.
`live` is what pipeplug itself counts: the most that values held at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from benchmarks.measure import OURS, Conditions, Measurement, Side, Turn
from benchmarks.peers import dali
from benchmarks.resident import (
    LARGE_BATCH,
    LARGE_BATCH_BYTES,
    LARGE_BATCHES,
    LARGE_SHAPE,
    large_image,
    peak_in_batches,
    resident_bytes,
)
from pipeplug import Pipeline, ops, pipeline

DEPTHS = (16, 8, 2)


def measurements(conditions: Conditions) -> Sequence[Measurement]:
    """The benchmark `memory`."""
    threads = conditions.threads
    resident = [_resident(depth, threads) for depth in DEPTHS]
    return [*resident, *(_live(depth, threads) for depth in DEPTHS)]


def _resident(depth: int, threads: int) -> Measurement:
    sides = [Side(OURS, partial(open_resident, depth, threads)), *dali.flips(depth, threads)]
    return Measurement(f"memory.resident.{depth}", f"batches, {depth} flips", "smaller", sides)


def _live(depth: int, threads: int) -> Measurement:
    sides = [Side(OURS, partial(open_live, depth, threads))]
    return Measurement(f"memory.live.{depth}", f"batches, {depth} flips", "smaller", sides)


@contextmanager
def open_resident(depth: int, threads: int) -> Iterator[Turn]:
    """The rise of resident memory in an epoch."""
    chain = flips(depth, threads)
    ops.image.flip(large_image(), probability=1.0)  # loads the kernel's library, whose memory is not the chain's
    before = resident_bytes()
    with chain as batches:
        yield partial(peak_in_batches, before, lambda: sum(1 for _ in batches))


@contextmanager
def open_live(depth: int, threads: int) -> Iterator[Turn]:
    """The bytes of values at their peak."""
    chain = flips(depth, threads)
    with chain as batches:

        def turn() -> float:
            for _ in batches:
                pass
            return chain.memory()["cpu"].peak / LARGE_BATCH_BYTES

        yield turn


def flips(depth: int, threads: int) -> Pipeline:
    """A pipeline over views of one image, which themselves need no memory."""
    import numpy as np

    rows = np.broadcast_to(large_image(), (LARGE_BATCH * LARGE_BATCHES, *LARGE_SHAPE))

    @pipeline(batch_size=LARGE_BATCH, threads=threads)
    def chain() -> dict[str, object]:
        image = ops.read.arrays(rows, layouts=("HWC",))
        for _ in range(depth):
            image = ops.image.flip(image, probability=1.0)
        return {"image": image}

    return chain()
