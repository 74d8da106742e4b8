"""Reading an iterable, an iteration's items at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np

from pipeplug.errors import SourceError
from pipeplug.runtime.frames import forget_frames
from pipeplug.runtime.iteration import Rows
from pipeplug.runtime.order import LastBatch


class ItemReading:
    """The items of one epoch, read by one thread at a time.

    What was read stays here until `accept`, since a task that meets the memory limit comes again.

    Attributes:
        error: what ended the reading early, to be raised when the batches before it are delivered.
    """

    def __init__(
        self, items: Iterator[object], node: str, *, start: int, batch_size: int, last_batch: LastBatch
    ) -> None:
        self.error: SourceError | None = None
        self._items = items
        self._node = node
        self._start = start
        self._position = 0
        self._size = batch_size
        self._last_batch = last_batch
        self._read: list[object] = []

    def read(self, cancelled: Callable[[], bool]) -> list[object]:
        """The items of the next iteration, padded if they are to be; none when the epoch is over."""
        try:
            self._fill(cancelled)
        except Exception as error:
            taken = self._position + len(self._read)
            forget_frames(error)
            self.error = SourceError(f"{self._node} raised {type(error).__name__} after {taken} items: {error}")
            self.error.__cause__ = error
        if self.error is not None or cancelled() or (self._last_batch == "drop" and len(self._read) < self._size):
            return []
        return self._read + self._read[-1:] * self._padding

    def rows(self) -> Rows:
        """The positions of what `read` gave."""
        positions = np.arange(self._position, self._position + len(self._read))
        positions = np.concatenate([positions, np.full(self._padding, positions[-1])])
        return Rows(positions, positions, self._padding)

    def accept(self) -> None:
        """What `read` gave is stored; it gives the next items from now on."""
        self._position += len(self._read)
        self._read = []

    @property
    def _padding(self) -> int:
        return self._size - len(self._read) if self._last_batch == "pad" else 0

    def _fill(self, cancelled: Callable[[], bool]) -> None:
        for _ in islice(self._items, max(0, self._start - self._position)):
            self._position += 1  # before the position at which a resumed epoch starts
        for item in islice(self._items, self._size - len(self._read)):
            self._read.append(item)
            if cancelled():
                return
