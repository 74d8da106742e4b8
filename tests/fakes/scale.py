"""An operator with a kernel for each device, and what its CUDA kernel does in Python, for a GPU that is none."""

import ctypes
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pipeplug import Array, Batch, Context, CudaContext, CudaSource, Operator, PerSample, Tensor, TensorSpec

SCALE = CudaSource(Path(__file__).with_name("scale.cu")).kernel("scale")
ROW = np.dtype([("source", "u8"), ("target", "u8"), ("count", "i8"), ("factor", "f4")], align=True)


class Scale(Operator):
    """Multiplies numbers, on a GPU as slowly as asked for."""

    factor: PerSample[float]
    spins: int = 0

    def infer(self, values: TensorSpec) -> TensorSpec:
        return values.with_dtype("float32")

    def cpu(self, values: Tensor, context: Context, *, factor: float) -> Tensor:
        return Tensor(values.numpy() * np.float32(factor), values.layout)

    def cuda(self, values: Batch, context: CudaContext, *, factor: Array) -> Batch:
        out: Batch = context.empty_samples(values.shapes, "float32", values.layout)
        rows = np.zeros(len(values), ROW)
        rows["source"], rows["target"] = values.addresses, out.addresses
        rows["count"], rows["factor"] = values.shapes.prod(axis=1), factor
        context.launch(SCALE, (4, len(rows)), (256,), context.upload(rows), self.spins)
        context.count("launches")
        return out


def scale(grid: tuple[int, ...], arguments: Sequence[int]) -> None:
    """The kernel of scale.cu."""
    rows = np.frombuffer(ctypes.string_at(arguments[0], grid[1] * ROW.itemsize), ROW)
    for row in rows:
        source, target = (_numbers(int(row[name]), int(row["count"])) for name in ("source", "target"))
        target[:] = row["factor"] * source


def _numbers(address: int, count: int) -> Array:
    return np.ctypeslib.as_array((ctypes.c_float * count).from_address(address))
