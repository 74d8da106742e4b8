"""`ops.map`: any Python function as an operator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from numbers import Number
from typing import Any

import numpy as np

from pipeplug.batch import Batch
from pipeplug.contexts import Context, CudaContext
from pipeplug.errors import ArgumentError, DeclarationError
from pipeplug.interop.cupy import on_stream
from pipeplug.operator import Call, Operator, current_caller
from pipeplug.spec import TensorSpec
from pipeplug.tensor import Tensor


class _Map(Operator):
    """What both ways of mapping share."""

    function: Callable[..., Any]
    specs: tuple[TensorSpec, ...] = field(repr=False)
    single: bool = field(repr=False)
    concurrent: bool = field(repr=False)

    def infer(self, *values: TensorSpec) -> TensorSpec | tuple[TensorSpec, ...]:
        return self.specs[0] if self.single else self.specs

    def is_parallel(self) -> bool:
        return self.concurrent

    def title(self) -> str:
        return "map." + getattr(self.function, "__name__", type(self.function).__name__).strip("<>")


class MapSamples(_Map):
    """Applies a function to every sample: arrays for tensors, objects as they are."""

    def cpu(self, *values: Tensor | object, context: Context) -> Any:
        return self.function(*[value.numpy() if isinstance(value, Tensor) else value for value in values])

    def cuda(self, *values: Tensor | object, context: CudaContext) -> Any:
        with on_stream(int(context.stream.handle), context.device):
            return self.function(*[value.cupy() if isinstance(value, Tensor) else value for value in values])


class MapBatches(_Map):
    """Applies a function to every batch: an array where samples are equal, else a list of arrays or objects."""

    def cpu(self, *values: Batch, context: Context) -> Any:
        results = self.function(*[self._as_argument(value) for value in values])
        return self._as_batch(results) if self.single else tuple(self._as_batch(each) for each in results)

    def cuda(self, *values: Batch, context: CudaContext) -> Any:
        with on_stream(int(context.stream.handle), context.device):
            return self.function(*[self._on_device(value) for value in values])

    @staticmethod
    def _on_device(batch: Batch) -> Any:
        if batch.is_object:
            return batch.list()
        return batch.cupy() if batch.is_equal else [sample.cupy() for sample in batch]

    @staticmethod
    def _as_argument(batch: Batch) -> Any:
        differ = batch.is_object or None in (batch.spec.shape or ())
        return batch.list() if differ else batch.numpy()

    @staticmethod
    def _as_batch(result: Any) -> Batch:
        if isinstance(result, Batch):
            return result
        array = result.__array__() if hasattr(result, "__array__") else None
        if array is not None and array.ndim:
            return Batch.equal(array)
        if array is not None or not isinstance(result, Iterable) or isinstance(result, (str, bytes, Mapping)):
            raise DeclarationError(
                f"a function of batches gives an array or a list, a row a sample, not {result!r:.80}"
            )
        items = list(result)
        if items and all(isinstance(item, Number) for item in items):
            return Batch.equal(np.array(items))
        if items and all(hasattr(item, "__array__") for item in items):
            return Batch.ragged([Tensor(item.__array__()) for item in items])
        return Batch.objects(items)


def map_values(
    function: Callable[..., Any],
    *values: object,
    outputs: int = 1,
    batch: bool = False,
    parallel: bool = True,
    spec: TensorSpec | tuple[TensorSpec, ...] | None = None,
    device: str = "cpu",
    name: str | None = None,
) -> Any:
    """Applies a Python function to values, a sample or a batch a call.

    The function gets NumPy arrays, or objects as they are, and returns arrays, numbers or objects. On a GPU it gets
    CuPy arrays and returns arrays of CuPy, PyTorch or any other library that has the CUDA array interface, made on the
    stream that is current in CuPy, and in PyTorch, while it runs.

    Args:
        function: takes one argument a value and returns `outputs` results, as a tuple when there are several.
        values: what it is applied to.
        outputs: how many results it returns.
        batch: whether a call takes a whole batch: an array (rows first), or a list where samples differ.
        parallel: whether calls may run in several threads at once; False means one by one, in order.
        spec: of the outputs, where it is known; then each batch is built in place.
        device: where the function runs: `"cpu"` or such as `"cuda:0"`.
        name: of the node; the function's name otherwise.
    """
    if not callable(function):
        raise ArgumentError(f"ops.map takes a function first, got {function!r}")
    if outputs < 1:
        raise ArgumentError(f"ops.map: outputs is at least 1, got {outputs}")
    given = (spec,) if isinstance(spec, TensorSpec) else spec
    specs = given or (TensorSpec(),) * outputs
    if len(specs) != outputs:
        raise ArgumentError(f"ops.map: outputs={outputs}, but {len(specs)} specs")
    kind = MapBatches if batch else MapSamples
    operator = kind(function=function, specs=specs, single=outputs == 1, concurrent=parallel)
    return current_caller().call(Call(operator, values, {}, name, device))
