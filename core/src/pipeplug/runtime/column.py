"""The entries of one value in an iteration, and the forms in which kernels give and take them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Number
from typing import Any

import numpy as np

from pipeplug.batch import Batch, read_only
from pipeplug.errors import DeclarationError
from pipeplug.memory.pool import block_size
from pipeplug.memory.resource import Stream
from pipeplug.spec import DTYPES, OBJECT, TensorSpec
from pipeplug.tensor import Array, Tensor, dtype_name, locked, on_device

Empty = Callable[[tuple[int, ...], str], Array]
"""Takes memory for a shape and a dtype."""


_NARROWER = {"b": "b", "u": "bui", "i": "bui", "f": "buif", "c": "buifc"}
"""By kind of dtype, the kinds of numbers that may become one without losing what they are."""


class Column:
    """One value of an iteration, an entry a sample.

    When the spec is static the entries lie in one array, which is the batch that a consumer gets.
    """

    __slots__ = ("_places", "array", "device", "dtype", "items", "layout", "shape")

    def __init__(self, array: Array | None, items: list[Any], layout: str | None, places: Mapping[int, int] | None):
        self.device = "cpu"
        self.array = array
        self.items = items
        self.layout = layout
        self.shape = None if array is None else array.shape[1:]
        self.dtype = None if array is None else dtype_name(array.dtype)
        self._places = places

    @classmethod
    def unfilled(cls, spec: TensorSpec, rows: int, empty: Empty, device: str = "cpu") -> Column:
        """A column that per-sample kernels fill row by row."""
        if device != "cpu":
            return DeviceColumn([None] * rows, spec.layout, None, device)
        if spec.is_static and spec.dtype is not None:
            return cls(empty((rows, *spec.known_shape()), spec.dtype), [], spec.layout, None)
        return cls(None, [None] * rows, spec.layout, None)

    @classmethod
    def filled(cls, values: object, layout: str | None, rows: Sequence[int], total: int, *, failed: int = 0) -> Column:
        """A column of what a batch kernel gave for `rows`, after it reported that others `failed`."""
        batch = values if isinstance(values, Batch) else Batch.equal(np.asarray(values), layout)
        if batch.device != "cpu":
            batch = batch if batch.layout else Batch(None, batch.samples, layout)
        if len(batch) != len(rows):
            reported = f", reported {failed} with context.fail, which leaves {len(rows)}," if failed else ""
            raise DeclarationError(f"the kernel got {len(rows) + failed} samples{reported} and gave {len(batch)}")
        places = None if len(rows) == total else {row: place for place, row in enumerate(rows)}
        if batch.device != "cpu":
            return DeviceColumn(batch, batch.layout, places, batch.device)
        array = batch.numpy() if batch.is_equal else None
        return cls(array, [] if batch.is_equal else list(batch), batch.layout or layout, places)

    @property
    def block_bytes(self) -> int:
        """Bytes of the blocks that hold the entries; objects count for nothing."""
        if self.array is not None:
            return block_size(self.array.nbytes)
        return sum(block_size(item.numpy().nbytes) for item in self.items if isinstance(item, Tensor))

    def use(self, stream: Stream) -> None:
        """Lets work queued on `stream` from now on use the entries, which matters for those on a device."""

    def sample(self, row: int) -> Any:
        """The entry as a kernel's input: a Tensor that cannot be written to, or an object."""
        place = row if self._places is None else self._places[row]
        if self.array is None:
            return read_only(self.items[place])
        view = self.array[place, ...]
        view.flags.writeable = False
        return Tensor(view, self.layout)

    def argument(self, row: int) -> Any:
        """The entry as a kernel's keyword argument: a NumPy value that cannot be written to, or an object."""
        place = row if self._places is None else self._places[row]
        entry = as_argument(self.items[place] if self.array is None else self.array[place])
        return locked(entry) if isinstance(entry, np.ndarray) else entry

    def arguments(self, rows: range) -> list[Any]:
        """The arguments of `rows`; None for a row that is not there, because its sample failed."""
        if self.array is None or self._places is not None:
            return [self.argument(row) if self._places is None or row in self._places else None for row in rows]
        return list(locked(self.array[rows.start : rows.stop]))

    def put_whole_number(self, row: int, value: Any) -> bool:
        """Stores a whole number among integers, such as a label: there is nothing to convert or to check.

        Returns False, and does nothing, when it is none.
        """
        if type(value) is not int or self.array is None or self.shape != () or self.dtype != "int64":
            return False
        if value.bit_length() >= 64:
            return False
        self.array[row] = value
        return True

    def put(self, row: int, value: Any) -> None:
        """Stores what a per-sample kernel gave, unless it is in place already."""
        if self.array is None:
            self.items[row] = value
            return
        array = value.numpy() if isinstance(value, Tensor) else np.asarray(value)
        if array.shape != self.shape or (array.dtype != self.array.dtype and array.dtype.name != self.dtype):
            given = f"{array.dtype.name} {array.shape}" if array.dtype.name in DTYPES else f"the object {value!r:.80}"
            raise _unlike(f"{self.dtype} {self.shape}", given)
        self.array[row] = array

    def part(self, rows: Sequence[int], spec: TensorSpec) -> Array | None:
        """The memory of neighbouring rows, if the column's entries lie in one array and are of this spec."""
        if self.array is None or self.shape != spec.shape or self.dtype != spec.dtype or not _adjoin(rows):
            return None
        return self.array[rows[0] : rows[-1] + 1]

    def put_part(self, rows: Sequence[int], part: Column) -> None:
        """Stores what a batch kernel gave for `rows`, unless it is in place already."""
        if self.array is None:
            entries = part.items if part.array is None else Batch.equal(part.array, part.layout)
            for row, entry in zip(rows, entries, strict=True):
                self.items[row] = entry
            return
        assert part.array is not None, "its spec, which was checked, is static"
        if _adjoin(rows):
            place = self.array[rows[0] : rows[-1] + 1]
            if place.__array_interface__ != part.array.__array_interface__:
                place[...] = part.array
        else:
            self.array[rows] = part.array.copy()  # what the kernel gave may lie in places of other rows

    def check(self, spec: TensorSpec) -> None:
        """Raises DeclarationError when what a batch kernel gave is not what `infer` says."""
        if self.array is not None:
            _check(spec, self.array.shape[1:], self.array.dtype)
        for item in self.items:
            check_value(spec, item)

    def batch(self, rows: Sequence[int], empty: Empty) -> Batch:
        """The entries of `rows` as a batch, without a copy when they are neighbours in an array.

        Raises SpecError when they are tensors that do not belong together.
        """
        places = rows if self._places is None else [self._places[row] for row in rows]
        if self.array is None:
            return _gathered([self.items[place] for place in places], self.layout)
        if _adjoin(places):
            whole = len(places) == len(self.array)
            return Batch.equal(self.array if whole else self.array[places[0] : places[-1] + 1], self.layout)
        return Batch.equal(self.array, self.layout).take(places, empty)


class DeviceColumn(Column):
    """One value of an iteration on a device: a batch that a kernel made, or a sample for each row that kernels fill."""

    __slots__ = ("entries",)

    def __init__(
        self, entries: Batch | list[Any], layout: str | None, places: Mapping[int, int] | None, device: str
    ) -> None:
        super().__init__(None, [], layout, places)
        self.device = device
        self.entries = entries

    @property
    def block_bytes(self) -> int:
        if isinstance(self.entries, Batch):
            return block_size(self.entries.nbytes)
        return sum(block_size(item.nbytes) for item in self.entries if isinstance(item, Tensor))

    def use(self, stream: Stream) -> None:
        if isinstance(self.entries, Batch):
            self.entries.samples.use(stream)
            return
        for item in self.entries:
            if isinstance(item, Tensor):
                on_device(item.data).use(stream)

    def sample(self, row: int) -> Any:
        return self.entries[row if self._places is None else self._places[row]]

    def argument(self, row: int) -> Any:
        raise DeclarationError("arguments that vary by sample lie in memory of the host")

    def arguments(self, rows: range) -> list[Any]:
        return [self.argument(row) for row in rows]

    def put(self, row: int, value: Any) -> None:
        assert isinstance(self.entries, list), "per-sample kernels fill it"
        self.entries[row] = value

    def check(self, spec: TensorSpec) -> None:
        assert isinstance(self.entries, Batch), "of what per-sample kernels give each is checked"
        found = self.entries.spec
        if not spec.with_layout(None).admits(found):
            raise _unlike(f"{spec.dtype} {spec.shape}", f"{found.dtype} {found.shape}")

    def batch(self, rows: Sequence[int], empty: Empty) -> Batch:
        places = rows if self._places is None else [self._places[row] for row in rows]
        if not isinstance(self.entries, Batch):
            return _gathered([self.entries[place] for place in places], self.layout)
        whole = len(places) == len(self.entries) and _adjoin(places)
        return self.entries if whole else self.entries.take(places)


def _adjoin(rows: Sequence[int]) -> bool:
    """Whether there are rows, and each follows the one before."""
    if isinstance(rows, range):
        return len(rows) > 0
    return len(rows) > 0 and list(rows) == list(range(rows[0], rows[0] + len(rows)))


def _gathered(items: Sequence[Any], layout: str | None) -> Batch:
    if all(isinstance(item, Tensor) for item in items):
        return Batch.ragged(items, layout)
    if all(isinstance(item, (Number, np.bool_)) for item in items):
        array = np.array(items)
        if array.dtype.kind in "biufc":  # not for a fraction, nor for an int that has no dtype
            return Batch.equal(array, layout)
    return Batch.objects(items)


def as_input(value: Any, spec: TensorSpec) -> Any:
    """What a kernel gave as other kernels take it: arrays, and numbers where the spec has a dtype, as Tensors."""
    if isinstance(value, Tensor | bytes):
        return value
    if isinstance(value, np.ndarray):
        return Tensor(value, spec.layout)
    if spec.is_object:
        return value
    if not isinstance(value, (Number, np.bool_)):
        array = array_of(value)
        return value if array is None else Tensor(array, spec.layout)
    if spec.dtype is None:
        return value
    number = np.asarray(value)
    if not isinstance(value, np.generic) and number.dtype.kind in _NARROWER[np.dtype(spec.dtype).kind]:
        number = np.asarray(value, spec.dtype)  # a number of Python has no dtype of its own, but must fit
    return Tensor(number)


def array_of(value: object) -> Array | None:
    """The numbers in an array of another library, such as PyTorch's or a picture of Pillow; None of anything else."""
    if not (hasattr(value, "__array_interface__") or hasattr(value, "__array__")):
        return None
    array = np.asarray(value)
    return array if array.dtype.name in DTYPES else None  # not a text or a date of NumPy


def as_argument(value: Any) -> Any:
    """A value of the graph as a kernel's keyword argument: a NumPy value for a tensor, an object as it is."""
    return value.numpy()[()] if isinstance(value, Tensor) else value


def check_value(spec: TensorSpec, value: Any) -> None:
    """Raises DeclarationError when what a kernel gave for one sample is not what `infer` says."""
    if isinstance(value, Tensor):
        _check(spec, value.shape, value.data.dtype)
    elif spec.shape and not spec.is_object:
        raise _unlike(f"{spec.dtype} {spec.shape}", f"the object {value!r:.80}")


def _check(spec: TensorSpec, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    # Every sample comes here at every node. To ask a dtype for its name, for other byte orders, takes a microsecond.
    wanted, name = spec.shape, spec.dtype
    if name == OBJECT or ((name is None or dtype == name) and (wanted is None or wanted == shape)):
        return
    if (name is not None and dtype.name != name) or (wanted is not None and not _fits(shape, wanted)):
        raise _unlike(f"{name} {wanted}", f"{dtype.name} {shape}")


def _fits(shape: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    return len(wanted) == len(shape) and all(
        size is None or size == given for size, given in zip(wanted, shape, strict=True)
    )


def _unlike(inferred: str, given: str) -> DeclarationError:
    return DeclarationError(f"infer says {inferred}, but the kernel gave {given}")
