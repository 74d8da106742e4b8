"""`read.arrays`: samples that are in memory already."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeplug.errors import ArgumentError
from pipeplug.source import Source
from pipeplug.spec import TensorSpec


class Arrays(Source):
    """Reads the rows of arrays: sample i is `arrays[k][i]` for each k.

    Outputs:
        one an array: a row of it, of the array's dtype and the shape of its other dimensions; one array gives one
        value, several a tuple.

    Args:
        arrays: an array, or several of one length; memory maps are read row by row.
        layouts: a layout of a row for each array, such as `("HWC", "")`; empty where it has none.
        shuffle: whether each epoch has an order of its own.
        shard: this rank and the number of ranks, which share one order; each takes its part.
        sampler: a function that is called with an epoch's number and gives its indices in order, instead of `shuffle`.
    """

    arrays: Any
    layouts: tuple[str, ...] = ()

    # Data is compared by identity: equality of arrays is no truth, and nothing here depends on it.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def check(self) -> None:
        super().check()
        arrays = self._all()
        if not arrays:
            raise ArgumentError("read.arrays needs at least one array")
        if any(array.ndim == 0 for array in arrays):
            raise ArgumentError("read.arrays takes arrays whose first dimension counts samples, got a scalar")
        if len({len(array) for array in arrays}) > 1:
            raise ArgumentError(f"the arrays have different lengths: {', '.join(str(len(array)) for array in arrays)}")
        if self.layouts and len(self.layouts) != len(arrays):
            raise ArgumentError(f"{len(self.layouts)} layouts for {len(arrays)} arrays")

    def _all(self) -> tuple[np.ndarray[Any, Any], ...]:
        given = self.arrays if isinstance(self.arrays, (tuple, list)) else (self.arrays,)
        return tuple(np.asarray(array) for array in given)

    def infer(self) -> TensorSpec | tuple[TensorSpec, ...]:
        arrays = self._all()
        layouts = self.layouts or ("",) * len(arrays)
        specs = tuple(
            TensorSpec(array.shape[1:], array.dtype.name, layout or None)
            for array, layout in zip(arrays, layouts, strict=True)
        )
        return specs if isinstance(self.arrays, (tuple, list)) else specs[0]

    def reader(self) -> ArraysReader:
        return ArraysReader(self._all(), isinstance(self.arrays, (tuple, list)))


@dataclass(frozen=True, eq=False)
class ArraysReader:
    """Rows of arrays."""

    arrays: tuple[np.ndarray[Any, Any], ...]
    several: bool

    def __len__(self) -> int:
        return len(self.arrays[0])

    def __getitem__(self, index: int) -> Any:
        rows = tuple(array[index] for array in self.arrays)
        return rows if self.several else rows[0]

    def origin(self, index: int) -> str:
        return f"row {index}"
