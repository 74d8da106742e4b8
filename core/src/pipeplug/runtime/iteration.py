"""The data of one iteration: its samples' positions, its values so far, its failures."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Number
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeplug.errors import DeclarationError, SampleFailed
from pipeplug.graph.graph import Node, Ref
from pipeplug.spec import TensorSpec
from pipeplug.tensor import Array, Batch, Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

Empty = Callable[[tuple[int, ...], str], Array]
"""Takes memory for a shape and a dtype."""


class Column:
    """One value of an iteration, an entry a sample.

    When the spec is static the entries lie in one array, which is the batch that a consumer gets.
    """

    __slots__ = ("_places", "array", "dtype", "items", "layout", "shape")

    def __init__(self, array: Array | None, items: Sequence[Any], layout: str | None, places: Mapping[int, int] | None):
        self.array = array
        self.items = items
        self.layout = layout
        self.shape = None if array is None else array.shape[1:]
        self.dtype = None if array is None else array.dtype.name
        self._places = places

    @classmethod
    def unfilled(cls, spec: TensorSpec, rows: int, empty: Empty) -> Column:
        """A column that per-sample kernels fill row by row."""
        if spec.is_static and spec.dtype is not None:
            return cls(empty((rows, *spec.known_shape()), spec.dtype), (), spec.layout, None)
        return cls(None, [None] * rows, spec.layout, None)

    @classmethod
    def filled(cls, values: object, layout: str | None, rows: Sequence[int], total: int) -> Column:
        """A column of what a batch kernel gave for `rows`."""
        batch = values if isinstance(values, Batch) else Batch.equal(np.asarray(values), layout)
        if len(batch) != len(rows):
            raise DeclarationError(f"the kernel got {len(rows)} samples and gave {len(batch)}")
        places = None if len(rows) == total else {row: place for place, row in enumerate(rows)}
        array = batch.numpy() if batch.is_equal else None
        return cls(array, () if batch.is_equal else list(batch), batch.layout or layout, places)

    def sample(self, row: int) -> Any:
        """The entry as a kernel's input: a Tensor or an object."""
        place = row if self._places is None else self._places[row]
        return self.items[place] if self.array is None else Tensor(self.array[place], self.layout)

    def argument(self, row: int) -> Any:
        """The entry as a kernel's keyword argument: a NumPy value or an object."""
        place = row if self._places is None else self._places[row]
        if self.array is not None:
            return self.array[place]
        entry = self.items[place]
        return entry.numpy() if isinstance(entry, Tensor) else entry

    def put(self, row: int, value: Any) -> None:
        """Stores what a per-sample kernel gave, unless it is in place already."""
        if self.array is None:
            self.items[row] = value  # type: ignore[index]  # unfilled columns hold a list
        elif isinstance(value, Number) and self.shape == ():
            self.array[row] = value
        else:
            array = value.numpy() if isinstance(value, Tensor) else np.asarray(value)
            if array.shape != self.shape or array.dtype.name != self.dtype:
                raise DeclarationError(
                    f"infer says {self.dtype} {self.shape}, but the kernel gave {array.dtype.name} {array.shape}"
                )
            self.array[row] = array

    def batch(self, rows: Sequence[int], empty: Empty) -> Batch:
        """The entries of `rows` as a batch, without a copy when that is all of them."""
        whole = self._whole()
        places = rows if self._places is None else [self._places[row] for row in rows]
        if list(places) == list(range(len(whole))):
            return whole
        return whole.take(places, empty)

    def _whole(self) -> Batch:
        if self.array is not None:
            return Batch.equal(self.array, self.layout)
        if all(isinstance(item, Tensor) for item in self.items if item is not None):
            return Batch(None, self.items, self.layout)
        if all(isinstance(item, (Number, np.generic)) for item in self.items if item is not None):
            return Batch.equal(np.array([0 if item is None else item for item in self.items]), self.layout)
        return Batch.objects(self.items)


@dataclass(frozen=True, slots=True)
class Rows:
    """The samples of an iteration.

    Attributes:
        positions: places in the epoch's order.
        indices: places in the source.
        padding: how many rows at the end repeat the last one.
    """

    positions: NDArray[np.int64]
    indices: NDArray[np.int64]
    padding: int = 0

    def __len__(self) -> int:
        return len(self.positions)


class Iteration:
    """One iteration under way. Chunks of one stage write disjoint rows; columns are made under the lock."""

    def __init__(
        self, number: int, epoch: int, rows: Rows, origin: Callable[[int], str], *, keep_frames: bool = False
    ) -> None:
        self.number = number
        self.epoch = epoch
        self.rows = rows
        self.columns: dict[Ref, Column] = {}
        self.failures: dict[int, SampleFailed] = {}
        self._origin = origin
        self._keep_frames = keep_frames
        self._lock = threading.Lock()

    def good_rows(self) -> list[int]:
        """The rows whose samples have not failed so far."""
        return [row for row in range(len(self.rows)) if row not in self.failures]

    def unfilled(self, ref: Ref, spec: TensorSpec, empty: Empty) -> Column:
        """The column that the chunks of a stage fill together."""
        with self._lock:
            if ref not in self.columns:
                self.columns[ref] = Column.unfilled(spec, len(self.rows), empty)
            return self.columns[ref]

    def fail(self, row: int, node: Node, cause: BaseException) -> None:
        """Takes a sample out of the iteration."""
        if not self._keep_frames:
            forget_frames(cause)
        index = int(self.rows.indices[row])
        self.failures[row] = SampleFailed(
            position=int(self.rows.positions[row]),
            index=index,
            origin=self._origin(index),
            operator=node.operator_name,
            node=node.name,
            cause=cause,
        )

    def release(self, refs: Sequence[Ref]) -> None:
        """Drops values that nobody needs any more."""
        for ref in refs:
            self.columns.pop(ref, None)

    def restart(self) -> None:
        """Drops everything but the samples' positions."""
        self.columns.clear()
        self.failures.clear()


def forget_frames(error: BaseException) -> None:
    """Lets go of what the frames of an exception and its causes hold, which may be whole batches."""
    seen: BaseException | None = error
    while seen is not None:
        traceback.clear_frames(seen.__traceback__)
        seen = seen.__cause__ or seen.__context__
