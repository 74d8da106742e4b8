"""The visible copy of a value to another device."""

from __future__ import annotations

from pipeplug.operator import Context, Operator
from pipeplug.spec import TensorSpec
from pipeplug.tensor import Tensor


class Copy(Operator):
    """Brings a value to the device of its node; on the device where it already is it becomes nothing."""

    def infer(self, value: TensorSpec) -> TensorSpec:
        return value

    def cpu(self, value: Tensor, context: Context) -> Tensor:
        return value
