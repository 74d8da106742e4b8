"""The order of an epoch, and which positions of it one rank takes in which iteration. Arithmetic alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from pipeplug.errors import ArgumentError
from pipeplug.runtime.randomness import Integers, permutation

LastBatch: TypeAlias = Literal["keep", "drop", "pad"]
Sampler: TypeAlias = Callable[[int], Sequence[int] | Integers]
Order: TypeAlias = range | Integers
"""Order[position] is the index in the source. An array is int64 and read-only."""


def epoch_order(length: int, *, seed: int, epoch: int, shuffle: bool, sampler: Sampler | None = None) -> Order:
    """The indices of a source of `length` in the order of this epoch.

    In sequence, or a permutation that seed and epoch determine, or what `sampler(epoch)` returns, which may repeat and
    leave out indices.

    Raises:
        ArgumentError: both `shuffle` and `sampler` are given, or the sampler returned something else than indices.
    """
    if sampler is not None:
        if shuffle:
            raise ArgumentError("shuffle=True and sampler= both set the order: give one of them")
        return _sampled(sampler(epoch), length, epoch)
    if not shuffle:
        return range(length)
    return _read_only(permutation(length, seed=seed, epoch=epoch))


def _sampled(indices: Sequence[int] | Integers, length: int, epoch: int) -> Order:
    array = np.array(indices)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ArgumentError(
            f"sampler({epoch}) returned {array.dtype} of shape {array.shape}: return a flat list of whole numbers"
        )
    outside = (array < 0) | (array >= length)
    if outside.any():
        position = int(np.argmax(outside))
        raise ArgumentError(
            f"sampler({epoch}) returned index {array[position]} at position {position}:"
            f" the source has {length} samples, return indices from 0 to {length - 1}"
        )
    return _read_only(array.astype(np.int64))


def _read_only(order: Integers) -> Integers:
    order.setflags(write=False)
    return order


@dataclass(frozen=True)
class Partition:
    """The iterations of one rank over one epoch; `len()` is their number.

    From `start` on, rank k of S takes the positions [(iS + k)B, (iS + k + 1)B) in iteration i, while all ranks have B.
    Fewer than S * B positions remain, R. Of these rank k takes [floor(kR/S), floor((k + 1)R/S)) in a last iteration:

    * `keep`: as many rows as there are; a rank without any (R < S) has an iteration less.
    * `drop`: that iteration is left out on all ranks.
    * `pad`: every rank has it, filled to B rows by repeating the last position of the epoch's order.

    A run goes on with other ranks or another batch size from `start=delivered(i)`.

    Attributes:
        length: positions in the epoch's order.
        batch_size: B.
        rank: k, from 0 to ranks - 1.
        ranks: S.
        start: positions that were delivered before.
        last_batch: what to do with the remainder.
    """

    length: int
    batch_size: int
    rank: int = 0
    ranks: int = 1
    start: int = 0
    last_batch: LastBatch = "keep"

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ArgumentError(f"batch_size={self.batch_size}: give at least 1")
        if not 0 <= self.rank < self.ranks:
            raise ArgumentError(f"rank={self.rank} of ranks={self.ranks}: ranks count from 0 to ranks - 1")
        if not 0 <= self.start <= self.length:
            raise ArgumentError(f"start={self.start}: the epoch has {self.length} positions; resume within them")
        if self.last_batch not in ("keep", "drop", "pad"):
            raise ArgumentError(f'last_batch={self.last_batch!r}: give "keep", "drop" or "pad"')

    def __len__(self) -> int:
        return self._full + self._has_last

    def positions(self, iteration: int) -> range:
        """The positions of one iteration, without padding; IndexError outside of 0 to len() - 1."""
        self._check(iteration)
        if iteration == self._full:
            return self._share
        first = self.start + (iteration * self.ranks + self.rank) * self.batch_size
        return range(first, first + self.batch_size)

    def padding(self, iteration: int) -> int:
        """How often the epoch's last position is repeated to fill the batch: 0 but in the last iteration of `pad`."""
        self._check(iteration)
        return self.batch_size - len(self._share) if iteration == self._full and self.last_batch == "pad" else 0

    def delivered(self, iteration: int) -> int:
        """Positions from the epoch's beginning that are delivered once every rank has delivered this iteration."""
        return min(self.length, self.start + (iteration + 1) * self.ranks * self.batch_size)

    @property
    def _full(self) -> int:
        return (self.length - self.start) // (self.ranks * self.batch_size)

    @property
    def _remainder(self) -> int:
        return (self.length - self.start) % (self.ranks * self.batch_size)

    @property
    def _share(self) -> range:
        first = self.length - self._remainder
        return range(
            first + self.rank * self._remainder // self.ranks,
            first + (self.rank + 1) * self._remainder // self.ranks,
        )

    @property
    def _has_last(self) -> bool:
        if self.last_batch == "keep":
            return len(self._share) > 0
        return self.last_batch == "pad" and self._remainder > 0

    def _check(self, iteration: int) -> None:
        if not 0 <= iteration < len(self):
            raise IndexError(f"iteration {iteration} of {len(self)} on rank {self.rank} of {self.ranks}")
