"""Samples and batches of samples: what kernels take and give, and what a loop receives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pipeplug.errors import SpecError
from pipeplug.interop.torch import to_torch
from pipeplug.spec import TensorSpec

if TYPE_CHECKING:
    import torch

Array = NDArray[Any]


class Tensor:
    """One sample in memory: an array and the meaning of its dimensions.

    Attributes:
        layout: a letter a dimension, such as `"HWC"`, or None.
    """

    __slots__ = ("_array", "layout")

    def __init__(self, array: Array, layout: str | None = None) -> None:
        self._array = array
        self.layout = layout

    @property
    def shape(self) -> tuple[int, ...]:
        return self._array.shape

    @property
    def dtype(self) -> str:
        return dtype_name(self._array.dtype)

    @property
    def device(self) -> str:
        return "cpu"

    @property
    def spec(self) -> TensorSpec:
        """The complete spec of this sample."""
        return TensorSpec(self._array.shape, dtype_name(self._array.dtype), self.layout)

    def numpy(self) -> Array:
        """The sample as an array that shares its memory."""
        return self._array

    def torch(self) -> torch.Tensor:
        """The sample as a `torch.Tensor` that shares its memory."""
        return to_torch(self._array)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        return np.array(self._array, dtype=dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()

    def __repr__(self) -> str:
        return f"Tensor({self.spec}, {self.device})"


def read_only(value: Any) -> Any:
    """A tensor or a batch as kernels get their inputs: over the same memory, which they cannot write to."""
    if isinstance(value, Batch):
        array = None if value._array is None else locked(value._array)
        return Batch(array, [read_only(item) for item in value._items], value.layout)
    return Tensor(locked(value._array), value.layout) if isinstance(value, Tensor) else value


def locked(array: Array) -> Array:
    """The array, or a view of it, that cannot be written to; neither can its parts."""
    if not array.flags.writeable:
        return array
    view = array.view()
    view.flags.writeable = False
    return view


class Batch(Sequence[Any]):
    """The samples of one value: equal in shape, ragged, or plain Python objects.

    `batch[i]` is the i-th sample, a `Tensor` or an object. Equal samples lie in one array, sample after sample.
    """

    __slots__ = ("_array", "_items", "layout")
    varies_by_sample: ClassVar[bool] = True

    def __init__(self, array: Array | None, items: Sequence[Any], layout: str | None) -> None:
        self._array = array
        self._items = items
        self.layout = layout

    @classmethod
    def equal(cls, array: Array, layout: str | None = None) -> Batch:
        """A batch over an array whose first dimension counts samples; `layout` describes one sample."""
        return cls(array, (), layout)

    @classmethod
    def ragged(cls, samples: Sequence[Tensor | Array], layout: str | None = None) -> Batch:
        """A batch of samples, each in its own array; shapes may differ, the number of dimensions and dtype may not."""
        tensors = [each if isinstance(each, Tensor) else Tensor(each, layout) for each in samples]
        kinds = {(len(tensor.shape), tensor.dtype) for tensor in tensors}
        if len(kinds) > 1:
            got = " and ".join(f"{dtype} of {rank} dimensions" for rank, dtype in sorted(kinds))
            raise SpecError(f"the samples of a batch have one dtype and number of dimensions, got {got}")
        layout = layout or (tensors[0].layout if tensors else None)
        return cls(None, [each if each.layout == layout else Tensor(each.numpy(), layout) for each in tensors], layout)

    @classmethod
    def objects(cls, items: Sequence[Any]) -> Batch:
        """A batch of plain Python objects."""
        return cls(None, items, None)

    @property
    def is_equal(self) -> bool:
        """Whether all samples lie in one array."""
        return self._array is not None

    @property
    def is_object(self) -> bool:
        """Whether the samples are plain Python objects."""
        return self._array is None and not (len(self._items) and isinstance(self._items[0], Tensor))

    @property
    def device(self) -> str:
        return "cpu"

    @property
    def dtype(self) -> str:
        return self.spec.dtype or "object"

    @property
    def spec(self) -> TensorSpec:
        """The spec that all samples share; sizes that differ are None."""
        if self._array is not None:
            return TensorSpec(self._array.shape[1:], dtype_name(self._array.dtype), self.layout)
        if self.is_object:
            return TensorSpec.object()
        shapes = {tensor.shape for tensor in self._items}
        sizes = (set(column) for column in zip(*shapes, strict=True))
        return TensorSpec(
            tuple(size.pop() if len(size) == 1 else None for size in sizes), self._items[0].dtype, self.layout
        )

    @property
    def nbytes(self) -> int:
        """Bytes of the samples; 0 for objects."""
        if self._array is not None:
            return self._array.nbytes
        return sum(item.numpy().nbytes for item in self._items if isinstance(item, Tensor))

    def list(self) -> list[Any]:
        """The samples: objects as they are, tensors as arrays that share the batch's memory."""
        if self._array is not None:
            return list(self._array)
        return [item.numpy() if isinstance(item, Tensor) else item for item in self._items]

    def numpy(self) -> Array:
        """All samples in one array, the first dimension counting them; without a copy when the batch is equal.

        Raises SpecError for ragged batches and objects, which `pad()` and `list()` serve.
        """
        if self._array is not None:
            return self._array
        self._check_numeric("is not an array")
        if None in (self.spec.shape or ()):
            shapes = sorted({tensor.shape for tensor in self._items})
            raise SpecError(
                f"samples of shapes {_few(shapes)} do not fit in one array; take batch.pad() or batch.list()"
            )
        return np.stack([tensor.numpy() for tensor in self._items])

    def torch(self) -> torch.Tensor:
        """As `numpy()`, as a `torch.Tensor` that shares the memory."""
        return to_torch(self.numpy())

    def pad(self, fill: float = 0, shape: Sequence[int | None] | None = None) -> Batch:
        """An equal batch in which each sample stands at the start of each dimension and `fill` behind it.

        Args:
            fill: the number that fills what samples lack.
            shape: the sizes to pad to; None, alone or in a place, means the largest of the batch.
        """
        self._check_numeric("cannot be padded")
        largest = self._largest()
        wanted = largest if shape is None else tuple(shape)
        if len(wanted) != len(largest):
            raise SpecError(f"cannot pad to {wanted}: the samples have {len(largest)} dimensions")
        target = tuple(size if given is None else given for given, size in zip(wanted, largest, strict=True))
        if any(given < size for given, size in zip(target, largest, strict=True)):
            raise SpecError(f"cannot pad to {target}: the largest sample takes {largest}")
        if self._array is not None and target == largest:
            return self
        padded = np.full((len(self), *target), fill, self.dtype)
        for row, array in enumerate(self.list()):
            padded[row, ...][tuple(slice(size) for size in array.shape)] = array
        return Batch.equal(padded, self.layout)

    def _largest(self) -> tuple[int, ...]:
        if self._array is not None:
            return self._array.shape[1:]
        return tuple(max(sizes) for sizes in zip(*(tensor.shape for tensor in self._items), strict=True))

    def _check_numeric(self, what: str) -> None:
        if self.is_object:
            raise SpecError(f"a batch of Python objects {what}; take batch.list()")

    def take(self, rows: Sequence[int], empty: Callable[[tuple[int, ...], str], Array] = np.empty) -> Batch:
        """A batch of the rows named, in their order; the memory of an equal batch is asked of `empty(shape, dtype)`.

        Rows count as in a list, from the end when negative; IndexError for one that is not there.
        """
        if self._array is None:
            return Batch(None, [self._items[row] for row in rows], self.layout)
        places = np.arange(len(self._array))[np.asarray(rows, np.intp)]
        taken = empty((len(places), *self._array.shape[1:]), dtype_name(self._array.dtype))
        np.take(self._array, places, axis=0, out=taken, mode="clip")  # the other modes write to a copy first
        return Batch.equal(taken, self.layout)

    def __len__(self) -> int:
        return len(self._items) if self._array is None else len(self._array)

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return Batch(self._array[row] if self._array is not None else None, self._items[row], self.layout)
        return self._items[row] if self._array is None else Tensor(self._array[row, ...], self.layout)

    def __iter__(self) -> Iterator[Any]:
        return (self[row] for row in range(len(self)))

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.numpy().__dlpack_device__()

    def __repr__(self) -> str:
        return f"Batch({len(self)} x {self.spec}, {self.device})"


@cache
def dtype_name(dtype: np.dtype[Any]) -> str:
    """The name of a dtype, such as "float32"."""
    # NumPy puts the name together anew each time, which takes a microsecond.
    return dtype.name


def _few(things: Sequence[object]) -> str:
    return ", ".join(str(thing) for thing in things[:4]) + (", …" if len(things) > 4 else "")
