"""`read.items`: any Python object that can be indexed or iterated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pipeplug.errors import ArgumentError
from pipeplug.source import IndexedReader, Reader, Source
from pipeplug.spec import TensorSpec


class Items(Source):
    """Reads the items of a Python object, such as a list or a PyTorch Dataset.

    An object with `len()` and `[index]` is read by several threads at once, in any order; anything else that can be
    iterated is read as it comes, by one thread at a time.

    Outputs:
        one by default: the item; with `outputs=n` the item is a tuple of n entries. Arrays are tensors, everything
        else an object, unless `specs` says more.

    Args:
        items: the object.
        outputs: how many entries an item has.
        specs: of the entries, where they are known.
        shuffle: whether each epoch has an order of its own.
        shard: this rank and the number of ranks, which share one order; each takes its part.
        sampler: a function that is called with an epoch's number and gives its indices in order, instead of `shuffle`.
    """

    items: Any
    outputs: int = 1
    specs: tuple[TensorSpec, ...] = ()

    # Data is compared by identity: equality of arrays is no truth, and nothing here depends on it.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def check(self) -> None:
        super().check()
        if not isinstance(self.items, (IndexedReader, Iterable)):
            raise ArgumentError(f"read.items takes something indexed or iterable, got {type(self.items).__name__}")
        if isinstance(self.items, Mapping):
            raise ArgumentError("read.items counts items from 0, which a dict does not; give list(items.values())")
        if self.outputs < 1:
            raise ArgumentError(f"outputs is at least 1, got {self.outputs}")
        if self.specs and len(self.specs) != self.outputs:
            raise ArgumentError(f"{len(self.specs)} specs for outputs={self.outputs}")

    def infer(self) -> TensorSpec | tuple[TensorSpec, ...]:
        specs = self.specs or (TensorSpec(),) * self.outputs
        return specs[0] if self.outputs == 1 else specs

    def is_parallel(self) -> bool:
        return isinstance(self.items, IndexedReader)

    def reader(self) -> Reader:
        reader: Reader = self.items
        return reader
