"""What kernels may use while they run: memory, their place in the batch, random numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pipeplug.batch import Batch
from pipeplug.errors import MemoryLimitError
from pipeplug.runtime.column import Column, Empty
from pipeplug.runtime.iteration import Iteration
from pipeplug.runtime.memory import Memory
from pipeplug.runtime.randomness import Draws, key_hash
from pipeplug.runtime.transfers import Staging, to_host
from pipeplug.spec import TensorSpec
from pipeplug.tensor import Array, Tensor


def never() -> bool:
    return False


class SampleContext:
    """The context of per-sample kernels in one thread.

    Attributes:
        index: place in the source of the sample at hand.
        handed: the places in batches that the kernel asked for, by output.
        counts: what the kernel counted.
    """

    __slots__ = ("_columns", "_empty", "_row", "cancelled", "counts", "device", "handed", "index")

    def __init__(self, device: str, empty: Empty, cancelled: Callable[[], bool] = never) -> None:
        self.device = device
        self.cancelled = cancelled
        self.index = 0
        self.counts: dict[str, int] = {}
        self.handed: list[Tensor | None] = []
        self._empty = empty
        self._columns: Sequence[Column | None] = ()
        self._row = 0

    def aim(self, columns: Sequence[Column | None], row: int) -> None:
        """Sets where the outputs of the next kernel call belong."""
        self._columns = columns
        self._row = row
        self.handed = [None] * len(columns)

    def empty(self, spec: TensorSpec) -> Tensor:
        """Uninitialised memory: the sample's place in the batch if an output with that spec leaves, else scratch."""
        shape = spec.shape
        for output, column in enumerate(self._columns):
            if column is None or column.shape != shape or column.dtype != spec.dtype or self.handed[output] is not None:
                continue
            assert column.array is not None
            tensor = self.handed[output] = Tensor(column.array[self._row, ...], spec.layout)
            return tensor
        return Tensor(self._empty(spec.known_shape(), spec.dtype or ""), spec.layout)

    def empty_batch(self, specs: Sequence[TensorSpec]) -> Batch:
        return empty_batch(specs, self._empty)

    def as_sample(self, value: Any, layout: str | None) -> Any:
        """What a kernel gave for a sample; on a device a tensor there."""
        return value

    def fail(self, row: int, cause: Exception) -> None:
        """A per-sample kernel fails by raising."""
        raise cause

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + number


class BatchContext:
    """The context of one call of a batch kernel, on the rows that it got.

    `columns` are those of the whole batch to which the call's outputs belong, where the kernel gets parts of it.

    Attributes:
        failed: causes of failure by place in the kernel's input.
        counts: what the kernel counted.
        handed: the places in whole batches that the kernel asked for.
    """

    def __init__(
        self,
        device: str,
        empty: Empty,
        iteration: Iteration,
        rows: Sequence[int],
        seed: int,
        columns: Sequence[Column | None] = (),
        cancelled: Callable[[], bool] = never,
        memory: Memory | None = None,
    ) -> None:
        self.cancelled = cancelled
        self.device = device
        self.failed: dict[int, BaseException] = {}
        self.counts: dict[str, int] = {}
        self._memory = memory
        self._empty = empty
        self._iteration = iteration
        self._rows = rows
        self._seed = seed
        self.handed: list[Array] = []
        self._places = [column for column in columns if column is not None]

    def empty(self, spec: TensorSpec) -> Tensor:
        return Tensor(self._empty(spec.known_shape(), spec.dtype or ""), spec.layout)

    def empty_batch(self, specs: Sequence[TensorSpec]) -> Batch:
        """Uninitialised memory: the part's place in the whole batch if an output with those specs leaves."""
        if len(specs) == len(self._rows) and len(set(specs)) == 1:
            for place, column in enumerate(self._places):
                array = column.part(self._rows, specs[0])
                if array is not None:
                    del self._places[place]
                    self.handed.append(array)
                    return Batch.equal(array, specs[0].layout)
        return empty_batch(specs, self._empty)

    def fail(self, row: int, cause: Exception) -> None:
        """Takes the sample at `row` of the input out; the kernel returns the others."""
        if isinstance(cause, MemoryLimitError):  # which is no fault of the sample: the call is made again
            raise cause
        self.failed[row] = cause

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + number

    def as_batch(self, values: Any, layout: str | None) -> Any:
        """What a kernel gave, where it is not a batch or an array of the host."""
        return values

    def moved(self, batch: Batch) -> Batch:
        """The batch in memory of the host: a copy of one of a device."""
        if batch.device == "cpu":
            return batch
        assert self._memory is not None, "who plans a copy opens the device"
        device = self._memory.device(batch.device)
        with device.stream() as stream:
            staging = Staging(device, self._memory.staging(), stream)
            try:
                return to_host(batch, staging, stream, self._empty)
            finally:
                staging.close()

    def random(self, key: str) -> Draws:
        positions = self._iteration.rows.positions[list(self._rows)]
        return Draws(self._seed, key_hash(key), self._iteration.epoch, positions)


def empty_batch(specs: Sequence[TensorSpec], empty: Empty) -> Batch:
    """An uninitialised batch: one array when the specs are equal."""
    if len(set(specs)) == 1:
        shape, dtype = specs[0].known_shape(), specs[0].dtype or ""
        return Batch.equal(empty((len(specs), *shape), dtype), specs[0].layout)
    return Batch.ragged([Tensor(empty(spec.known_shape(), spec.dtype or ""), spec.layout) for spec in specs])
