"""Samples: what kernels take and give, one by one."""

from __future__ import annotations

import importlib
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pipeplug.errors import SpecError
from pipeplug.interop.cupy import to_cupy
from pipeplug.interop.dlpack import device_of, to_dlpack
from pipeplug.interop.torch import to_torch
from pipeplug.memory.device import DeviceArray, DeviceSamples
from pipeplug.spec import TensorSpec

if TYPE_CHECKING:
    import cupy
    import torch

Array = NDArray[Any]


class Tensor:
    """One sample in memory: an array and the meaning of its dimensions.

    Attributes:
        layout: a letter a dimension, such as `"HWC"`, or None.
    """

    __slots__ = ("_array", "layout")

    def __init__(self, array: Array | DeviceArray, layout: str | None = None) -> None:
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
        return device_name(self._array)

    @property
    def spec(self) -> TensorSpec:
        """The complete spec of this sample."""
        return TensorSpec(self._array.shape, dtype_name(self._array.dtype), self.layout)

    @property
    def nbytes(self) -> int:
        return self._array.nbytes

    @property
    def data(self) -> Array | DeviceArray:
        """The numbers, wherever they are."""
        return self._array

    def numpy(self) -> Array:
        """The sample as an array that shares its memory. Raises SpecError for one on a GPU: `.to("cpu")` copies it."""
        return on_host(self._array)

    def torch(self) -> torch.Tensor:
        """The sample as a `torch.Tensor` that shares its memory; from a GPU ready on PyTorch's current stream."""
        return to_torch(self._array)

    def cupy(self) -> cupy.ndarray:
        """The sample as a `cupy.ndarray` that shares its memory, ready on CuPy's current stream."""
        return to_cupy(on_device(self._array))

    def to(self, device: str) -> Tensor:
        """The sample on a device: itself where it is there already, else a copy."""
        moved: Tensor = transferred(self, device)
        return moved

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        return np.array(on_host(self._array), dtype=dtype, copy=copy)

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        return cuda_array_interface(self._array)

    def __dlpack__(self, **options: Any) -> Any:
        return exported(self._array, options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack_device(self._array)

    def __repr__(self) -> str:
        return f"Tensor({self.spec}, {self.device})"


def device_name(array: Array | DeviceArray | DeviceSamples) -> str:
    """Where an array lies: `"cpu"`, `"cuda:0"`."""
    return "cpu" if isinstance(array, np.ndarray) else array.device


def on_host(array: Array | DeviceArray) -> Array:
    """The array. Raises SpecError when it is on a GPU."""
    if isinstance(array, DeviceArray):
        raise SpecError(f'the numbers are in memory of {array.device}; .to("cpu") copies them to the host')
    return array


def on_device(array: Array | DeviceArray) -> DeviceArray:
    """The array. Raises SpecError when it is in memory of the host."""
    if not isinstance(array, DeviceArray):
        raise SpecError('the numbers are in memory of the host; .to("cuda:0") copies them to a GPU')
    return array


def transferred(value: object, device: str) -> Any:
    """A tensor or a batch on a device, as eager calls or the tracer do it."""
    # Named, not imported: what decides what a copy does stands above tensors.
    return importlib.import_module("pipeplug.operator").current_caller().transfer(value, device)


def cuda_array_interface(array: Array | DeviceArray) -> dict[str, object]:
    if not isinstance(array, DeviceArray):
        raise AttributeError("__cuda_array_interface__")  # which says that it is no array of a GPU
    return array.__cuda_array_interface__


def exported(array: Array | DeviceArray, options: dict[str, Any]) -> Any:
    return to_dlpack(array, **options) if isinstance(array, DeviceArray) else array.__dlpack__(**options)


def dlpack_device(array: Array | DeviceArray) -> tuple[int, int]:
    return device_of(array) if isinstance(array, DeviceArray) else array.__dlpack_device__()


def locked(array: Array) -> Array:
    """The array, or a view of it, that cannot be written to; neither can its parts."""
    if not array.flags.writeable:
        return array
    view = array.view()
    view.flags.writeable = False
    return view


@cache
def dtype_name(dtype: np.dtype[Any]) -> str:
    """The name of a dtype, such as "float32"."""
    # NumPy puts the name together anew each time, which takes a microsecond.
    return dtype.name
