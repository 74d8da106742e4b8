"""Batches of samples: what kernels take and give, and what a loop receives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pipeplug.errors import SpecError
from pipeplug.interop.cupy import to_cupy
from pipeplug.interop.torch import to_torch
from pipeplug.memory.device import DeviceArray, DeviceSamples, holders_of
from pipeplug.spec import TensorSpec
from pipeplug.tensor import (
    Array,
    Tensor,
    cuda_array_interface,
    device_name,
    dlpack_device,
    dtype_name,
    exported,
    locked,
    on_device,
    on_host,
    transferred,
)

if TYPE_CHECKING:
    import cupy
    import torch
    from numpy.typing import DTypeLike, NDArray


class Batch(Sequence[Any]):
    """The samples of one value: equal in shape, ragged, or plain Python objects.

    `batch[i]` is the i-th sample, a `Tensor` or an object. Equal samples lie in one array, sample after sample.
    """

    __slots__ = ("_array", "_items", "layout")
    varies_by_sample: ClassVar[bool] = True

    def __init__(self, array: Array | DeviceArray | None, items: Sequence[Any], layout: str | None) -> None:
        self._array = array
        self._items = items
        self.layout = layout

    @classmethod
    def equal(cls, array: Array | DeviceArray, layout: str | None = None) -> Batch:
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
        if tensors and tensors[0].device != "cpu":
            return _gathered([on_device(each.data) for each in tensors], layout)
        return cls(None, [each if each.layout == layout else Tensor(each.data, layout) for each in tensors], layout)

    @classmethod
    def objects(cls, items: Sequence[Any]) -> Batch:
        """A batch of plain Python objects."""
        return cls(None, items, None)

    @classmethod
    def on_device(
        cls,
        addresses: NDArray[np.uint64],
        shapes: NDArray[np.int64],
        dtype: str,
        layout: str | None = None,
        *,
        owner: object,
        device: str = "cuda:0",
    ) -> Batch:
        """A batch of samples that lie packed in a GPU's memory, wherever they are.

        Args:
            addresses: uint64 (samples,), of the first byte of each.
            shapes: int64 (samples, dimensions).
            dtype: of all.
            layout: of a sample.
            owner: of the memory: batches, tuples of them, or anything else, which is kept.
            device: such as `"cuda:0"`.
        """
        owners = tuple(each.data for each in owner) if isinstance(owner, tuple) else getattr(owner, "data", owner)
        samples = DeviceSamples(addresses, shapes, np.dtype(dtype), device, holders_of(owners))
        return cls.of_samples(samples, layout)

    @classmethod
    def of_samples(cls, samples: DeviceSamples, layout: str | None) -> Batch:
        array = samples.as_array()
        return cls(None, samples, layout) if array is None else cls(array, (), layout)

    @property
    def is_equal(self) -> bool:
        """Whether all samples lie in one array."""
        return self._array is not None

    @property
    def is_object(self) -> bool:
        """Whether the samples are plain Python objects."""
        if self._array is not None or isinstance(self._items, DeviceSamples):
            return False
        return not (len(self._items) and isinstance(self._items[0], Tensor))

    @property
    def device(self) -> str:
        if self._array is not None:
            return device_name(self._array)
        return self._items.device if isinstance(self._items, DeviceSamples) else "cpu"

    @property
    def data(self) -> Array | DeviceArray | DeviceSamples | Sequence[Any]:
        """What the batch is made of: one array where samples are equal, else samples, wherever they are."""
        return self._items if self._array is None else self._array

    @property
    def dtype(self) -> str:
        return self.spec.dtype or "object"

    @property
    def spec(self) -> TensorSpec:
        """The spec that all samples share; sizes that differ are None."""
        if self._array is not None:
            return TensorSpec(self._array.shape[1:], dtype_name(self._array.dtype), self.layout)
        if isinstance(self._items, DeviceSamples):
            return TensorSpec(_common(self._items.shapes), dtype_name(self._items.dtype), self.layout)
        if self.is_object:
            return TensorSpec.object()
        shapes = np.array([tensor.shape for tensor in self._items], np.int64)
        return TensorSpec(_common(shapes), self._items[0].dtype, self.layout)

    @property
    def samples(self) -> DeviceSamples:
        """The samples of a batch on a GPU: their addresses and shapes. Raises SpecError for one on the host."""
        if isinstance(self._items, DeviceSamples):
            return self._items
        if self._array is None:
            raise SpecError('the samples are on the host; .to("cuda:0") copies them to a GPU')
        return on_device(self._array).rows()

    @property
    def addresses(self) -> NDArray[np.uint64]:
        """uint64 (samples,): where the samples of a batch on a GPU begin; each is packed in C order."""
        return self.samples.addresses

    @property
    def shapes(self) -> NDArray[np.int64]:
        """int64 (samples, dimensions): the shapes of the samples. Raises SpecError for objects."""
        self._check_numeric("has no shapes")
        if self._array is not None:
            return np.tile(np.array(self._array.shape[1:], np.int64), (len(self), 1))
        if isinstance(self._items, DeviceSamples):
            return self._items.shapes
        return np.array([tensor.shape for tensor in self._items], np.int64)

    @property
    def nbytes(self) -> int:
        """Bytes of the samples; 0 for objects."""
        if self._array is not None:
            return self._array.nbytes
        if isinstance(self._items, DeviceSamples):
            return self._items.nbytes
        return sum(item.nbytes for item in self._items if isinstance(item, Tensor))

    def list(self) -> list[Any]:
        """The samples: objects as they are, tensors as arrays that share the batch's memory."""
        if self._array is not None:
            return [self._array[row] for row in range(len(self))]
        if isinstance(self._items, DeviceSamples):
            return [*self._items]
        return [item.data if isinstance(item, Tensor) else item for item in self._items]

    def numpy(self) -> Array:
        """All samples in one array, the first dimension counting them; without a copy when the batch is equal.

        Raises SpecError for ragged batches and objects, which `pad()` and `list()` serve, and for what is on a GPU.
        """
        if self._array is not None:
            return on_host(self._array)
        self._check_equal()
        return np.stack([on_host(tensor.data) for tensor in self])

    def torch(self) -> torch.Tensor:
        """As `numpy()`, as a `torch.Tensor` that shares the memory; from a GPU ready on PyTorch's current stream."""
        return to_torch(self._whole())

    def cupy(self) -> cupy.ndarray:
        """All samples in one `cupy.ndarray` that shares the memory, ready on CuPy's current stream."""
        return to_cupy(on_device(self._whole()))

    def to(self, device: str) -> Batch:
        """The batch on a device: itself where it is there already, else a copy."""
        moved: Batch = transferred(self, device)
        return moved

    def _whole(self) -> Array | DeviceArray:
        if self._array is not None:
            return self._array
        if self.device == "cpu":
            return self.numpy()
        self._check_equal()
        raise SpecError('the samples do not lie side by side; take them one by one, or .to("cpu")')

    def _check_equal(self) -> None:
        self._check_numeric("is not an array")
        if None in (self.spec.shape or ()):
            shapes = sorted(set(map(tuple, self.shapes.tolist())))
            raise SpecError(
                f"samples of shapes {_few(shapes)} do not fit in one array; take batch.pad() or batch.list()"
            )

    def pad(self, fill: float = 0, shape: Sequence[int | None] | None = None) -> Batch:
        """An equal batch in which each sample stands at the start of each dimension and `fill` behind it.

        Args:
            fill: the number that fills what samples lack.
            shape: the sizes to pad to; None, alone or in a place, means the largest of the batch.
        """
        self._check_numeric("cannot be padded")
        if self.device != "cpu":
            raise SpecError('padding takes a batch on the host: batch.to("cpu").pad()')
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

        On a GPU nothing is copied. Rows count as in a list, from the end when negative; IndexError for one that is not
        there.
        """
        if self.device != "cpu":
            return Batch.of_samples(self.samples.take(np.asarray(rows, np.intp)), self.layout)
        if self._array is None:
            return Batch(None, [self._items[row] for row in rows], self.layout)
        places = np.arange(len(self._array))[np.asarray(rows, np.intp)]
        taken = empty((len(places), *self._array.shape[1:]), dtype_name(self._array.dtype))
        np.take(on_host(self._array), places, axis=0, out=taken, mode="clip")  # the other modes write to a copy first
        return Batch.equal(taken, self.layout)

    def __len__(self) -> int:
        return len(self._items) if self._array is None else len(self._array)

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return Batch(self._array[row] if self._array is not None else None, self._items[row], self.layout)
        if isinstance(self._items, DeviceSamples):
            return Tensor(self._items[row], self.layout)
        if self._array is None:
            return self._items[row]
        # An ellipsis makes a view of a number too.
        return Tensor(self._array[row, ...] if isinstance(self._array, np.ndarray) else self._array[row], self.layout)

    def __iter__(self) -> Iterator[Any]:
        return (self[row] for row in range(len(self)))

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        if self.device == "cpu":
            raise AttributeError("__cuda_array_interface__")
        return cuda_array_interface(self._whole())

    def __dlpack__(self, **options: Any) -> Any:
        return exported(self._whole(), options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack_device(self._whole())

    def __repr__(self) -> str:
        return f"Batch({len(self)} x {self.spec}, {self.device})"


def read_only(value: Any) -> Any:
    """A tensor or a batch as kernels get their inputs: over the same memory, which they cannot write to.

    Nobody can keep a kernel from writing to memory of a GPU.
    """
    if isinstance(value, Batch):
        if value.device != "cpu":
            return value
        array = None if value._array is None else locked(on_host(value._array))
        return Batch(array, [read_only(item) for item in value._items], value.layout)
    if isinstance(value, Tensor) and isinstance(value._array, np.ndarray):
        return Tensor(locked(value._array), value.layout)
    return value


def _common(shapes: NDArray[np.int64]) -> tuple[int | None, ...]:
    """The sizes that all shapes share, None where they differ."""
    if not len(shapes):
        return (None,) * int(shapes.shape[1])
    alike: list[bool] = (shapes == shapes[0]).all(axis=0).tolist()
    return tuple(size if same else None for size, same in zip(shapes[0].tolist(), alike, strict=True))


def _gathered(arrays: Sequence[DeviceArray], layout: str | None) -> Batch:
    samples = DeviceSamples(
        np.array([array.address for array in arrays], np.uint64),
        np.array([array.shape for array in arrays], np.int64),
        arrays[0].dtype,
        arrays[0].device,
        holders_of(tuple(arrays)),
    )
    return Batch.of_samples(samples, layout)


def _few(things: Sequence[object]) -> str:
    return ", ".join(str(thing) for thing in things[:4]) + (", …" if len(things) > 4 else "")
