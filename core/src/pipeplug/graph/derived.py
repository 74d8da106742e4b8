"""Operators that the graph adds by itself: random arguments, and the shapes that they depend on.

`draw` is a node of its own, so that a rewrite keeps it and feeds the fused kernel with it. One that depends on shapes
gets them from a header, by inference, or, where neither tells, from the data.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from pipeplug.batch import Batch
from pipeplug.contexts import Context
from pipeplug.errors import DeclarationError
from pipeplug.graph.inference import infer
from pipeplug.operator import Operator, drawn_arguments
from pipeplug.spec import TensorSpec
from pipeplug.tensor import Array, Tensor


class Draw(Operator):
    """Draws the random arguments of an operator, for all samples of an iteration at once."""

    of: Operator
    key: str
    shapes: tuple[tuple[int, ...] | None, ...] = ()

    def infer(self, *shapes: TensorSpec) -> dict[str, TensorSpec]:
        return {name: TensorSpec() for name in drawn_arguments(type(self.of))}

    def cpu(self, *shapes: Batch, context: Context) -> dict[str, Array]:
        random = context.random(self.key)
        # A sample with fewer dimensions than its neighbours is for the kernel to refuse, not a reason to fail them all.
        measured = (batch.pad(1).numpy() for batch in shapes)
        known = (next(measured) if each is None else np.tile(each, (random.rows, 1)) for each in self.shapes)
        return draw_arguments(self.of, random, known)


def draw_arguments(operator: Operator, random: Any, shapes: Iterable[Array]) -> dict[str, Array]:
    """What `draw` of an operator gives, a row a sample; DeclarationError when its kernels take something else."""
    declared: Any = operator
    drawn = {name: np.asarray(rows) for name, rows in declared.draw(random, *shapes).items()}
    if set(drawn) != set(drawn_arguments(type(operator))):
        raise DeclarationError(
            f"{type(operator).__name__}.draw gives {', '.join(drawn) or 'nothing'}, "
            f"but its kernels take {', '.join(drawn_arguments(type(operator))) or 'nothing'}"
        )
    if uneven := [name for name, rows in drawn.items() if rows.ndim == 0 or len(rows) != random.rows]:
        raise DeclarationError(
            f"{type(operator).__name__}.draw gives {uneven[0]} of shape {drawn[uneven[0]].shape}, "
            f"which does not have a row for each of {random.rows} samples"
        )
    return drawn


class Peek(Operator):
    """Reads the shape of an operator's output from the header of its encoded input."""

    of: Operator
    rank: int | None

    def infer(self, *inputs: TensorSpec) -> TensorSpec:
        return TensorSpec((self.rank,), "int64")

    def cpu(self, *inputs: object, context: Context) -> Array:
        operator: Any = self.of
        return np.array(operator.peek(*inputs).shape, np.int64)


class InferShape(Operator):
    """Computes the shape of an operator's first output from the shapes of its inputs."""

    of: Operator
    specs: tuple[TensorSpec, ...]
    rank: int | None

    def infer(self, *shapes: TensorSpec) -> TensorSpec:
        return TensorSpec((self.rank,), "int64")

    def cpu(self, *shapes: Tensor, context: Context) -> Array:
        known = [spec.with_shape(shape.numpy().tolist()) for spec, shape in zip(self.specs, shapes, strict=True)]
        (first, *_), _names = infer(self.of, known)
        return np.array(first.known_shape(), np.int64)


class ShapeOf(Operator):
    """Takes the shape of data that exists; what draws from it waits for the whole batch."""

    rank: int | None

    def infer(self, value: TensorSpec) -> TensorSpec:
        return TensorSpec((self.rank,), "int64")

    def cpu(self, value: Tensor, context: Context) -> Array:
        return np.array(value.shape, np.int64)
