"""DLPack exports of a device's arrays (https://dmlc.github.io/dlpack/latest/python_spec.html)."""

from __future__ import annotations

import ctypes
from typing import Any

from pipeplug.memory.cuda import ordinal_of
from pipeplug.memory.device import DeviceArray

CUDA = 2
"""DLPack's number for memory of NVIDIA GPUs."""

_KINDS = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_NAME = b"dltensor"


class _Tensor(ctypes.Structure):
    """`DLTensor`."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    """`DLManagedTensor`, and behind it what it refers to. The consumer holds a reference to this very object."""

    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))
    array: DeviceArray
    sizes: ctypes.Array[ctypes.c_int64]


_Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_python = ctypes.pythonapi
_python.PyCapsule_New.restype = ctypes.py_object
_python.PyCapsule_New.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_python.PyCapsule_IsValid.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
_python.PyCapsule_GetPointer.restype = ctypes.c_void_p
_python.PyCapsule_GetPointer.argtypes = (ctypes.c_void_p, ctypes.c_char_p)


def _delete(managed: int) -> None:
    context = ctypes.cast(managed, ctypes.POINTER(_Managed)).contents.context
    _python.Py_DecRef(ctypes.cast(context, ctypes.py_object))


def _destroy(capsule: int) -> None:
    if _python.PyCapsule_IsValid(capsule, _NAME):  # nobody has taken the tensor out, so nobody else deletes it
        _delete(_python.PyCapsule_GetPointer(capsule, _NAME))


_DELETE, _DESTROY = _Callback(_delete), _Callback(_destroy)


def to_dlpack(
    array: DeviceArray,
    *,
    stream: int | None = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
    owner: object = None,
) -> Any:
    """A capsule with a tensor over the array's memory, ready on the consumer's `stream`.

    Args:
        array: what is exported.
        stream: None and 1 are the legacy default stream, 2 the default stream of the thread, -1 is whichever stream.
        owner: what keeps the stream alive; see `Holder.hand_over`.
        max_version: not needed, every consumer takes the unversioned form.
        dl_device: the device to export to, which has to be the array's.
        copy: True is refused.

    Raises BufferError for what cannot be done.
    """
    if dl_device not in (None, device_of(array)):
        raise BufferError(f"the array is on {array.device}; bring it elsewhere with .to(…) first")
    if copy:
        raise BufferError("the export shares memory; copy it on the consumer's side")
    array.hand_over(None if stream == -1 else stream or 1, owner)
    managed = _Managed()
    managed.array = array
    managed.sizes = (ctypes.c_int64 * len(array.shape))(*array.shape)
    tensor = managed.tensor
    tensor.data = array.address
    tensor.device_type, tensor.device_id = device_of(array)
    tensor.ndim = len(array.shape)
    tensor.code, tensor.bits, tensor.lanes = _KINDS[array.dtype.kind], array.dtype.itemsize * 8, 1
    if array.dtype.kind == "b":
        tensor.bits = 8
    tensor.shape = ctypes.addressof(managed.sizes)
    managed.deleter = ctypes.cast(_DELETE, ctypes.c_void_p).value
    managed.context = id(managed)
    capsule = _python.PyCapsule_New(ctypes.addressof(managed), _NAME, ctypes.cast(_DESTROY, ctypes.c_void_p))
    _python.Py_IncRef(ctypes.py_object(managed))
    return capsule


def device_of(array: DeviceArray) -> tuple[int, int]:
    """DLPack's pair of device type and number."""
    return CUDA, ordinal_of(array.device)
