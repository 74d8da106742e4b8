"""Which samples the iterations of an epoch have."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from pipeplug.runtime.iteration import Rows
from pipeplug.runtime.order import Order, Partition


class Sampling(Protocol):
    """Which samples an iteration has."""

    def rows(self, iteration: int) -> Rows | None:
        """The samples of an iteration; None when they are known only once they are read, no rows after the last."""

    def delivered(self, iteration: int) -> int:
        """Positions that all ranks have delivered once this iteration is."""


class IndexedSampling:
    """The samples of an indexed source, in the epoch's order."""

    def __init__(self, order: Order, partition: Partition) -> None:
        self._order = order
        self._partition = partition

    def rows(self, iteration: int) -> Rows:
        if iteration >= len(self._partition):
            return Rows(np.empty(0, np.int64), np.empty(0, np.int64))
        positions = np.asarray(self._partition.positions(iteration), np.int64)
        padding = self._partition.padding(iteration)
        positions = np.concatenate([positions, np.full(padding, self._partition.length - 1)])
        order = self._order
        indices = positions if isinstance(order, range) else order[positions]
        return Rows(positions, indices, padding)

    def delivered(self, iteration: int) -> int:
        return self._partition.delivered(iteration)


class SerialSampling:
    """The samples of an iterable, as they come."""

    def __init__(self, start: int, batch_size: int) -> None:
        self._start = start
        self._batch_size = batch_size

    def rows(self, iteration: int) -> None:
        return None

    def delivered(self, iteration: int) -> int:
        return self._start + (iteration + 1) * self._batch_size
