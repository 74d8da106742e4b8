"""`image.cast`."""

from __future__ import annotations

from typing import Literal

from pipeplug import Context, Operator, SpecError, Tensor, TensorSpec


class Cast(Operator):
    """Convert numbers to another dtype.

    To integers, halves round to even and what does not fit saturates.

    Inputs: real numbers of any shape.
    Outputs: the same shape and layout, of `dtype`.

    Args:
        dtype: of the result.
        scale: what numbers are multiplied by first: `1 / 257` brings uint16 to uint8, `1 / 255` uint8 to 0 to 1.
    """

    dtype: Literal["uint8", "int8", "uint16", "int16", "int32", "float16", "float32", "float64"]
    scale: float = 1.0

    def infer(self, values: TensorSpec) -> TensorSpec:
        if values.is_object:
            raise SpecError("needs numbers, got a Python object; decode it first")
        if values.dtype is not None and values.dtype.startswith("complex"):
            raise SpecError(f"needs real numbers, got {values.dtype}; take their parts with ops.map")
        return values.with_dtype(self.dtype)

    def cpu(self, values: Tensor, context: Context) -> Tensor:
        from pipeplug_image.kernels.convert import cast

        out: Tensor = context.empty(self.infer(values.spec))
        cast(values.numpy(), self.dtype, self.scale, out=out.numpy())
        return out
