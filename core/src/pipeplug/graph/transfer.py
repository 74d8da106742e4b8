"""The visible copy of a value to another device."""

from __future__ import annotations

from typing import Any

from pipeplug.batch import Batch
from pipeplug.contexts import Context
from pipeplug.operator import Operator
from pipeplug.spec import TensorSpec


class Copy(Operator):
    """Brings a value to the device of its node; on the device where it already is it becomes nothing.

    Python objects stay on the host.
    """

    def infer(self, value: TensorSpec) -> TensorSpec:
        return value

    def cpu(self, value: Batch, context: Context) -> Batch:
        return moved(value, context)

    def cuda(self, value: Batch, context: Context) -> Batch:
        return moved(value, context)


def moved(value: Batch, context: Any) -> Batch:
    """The batch on the device of the context, which knows how."""
    batch: Batch = context.moved(value)
    return batch
