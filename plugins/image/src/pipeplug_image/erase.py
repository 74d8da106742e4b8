"""`image.erase`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeplug import ArgumentError, Context, Operator, PerSample, Tensor, TensorSpec
from pipeplug_image.pictures import check_per_channel, picture

if TYPE_CHECKING:
    from pipeplug import Array

Boxes = tuple[tuple[int, int, int, int], ...]


class Erase(Operator):
    """Fill rectangles of an image with one colour.

    Inputs: image (height, width, channels), uint8, uint16 or float32.
    Outputs: image of the same spec.

    Args:
        boxes: y, x, height and width of each rectangle, in pixels; what lies outside of the image counts for nothing.
        fill: the colour, one number or one a channel; what the dtype does not hold saturates.
    """

    boxes: PerSample[Boxes]
    fill: float | tuple[float, ...] = 0.0

    def infer(self, image: TensorSpec) -> TensorSpec:
        spec = picture(image)
        check_per_channel("fill", self.fill, spec)
        return spec

    def cpu(self, image: Tensor, context: Context, *, boxes: Boxes) -> Tensor:
        from pipeplug_image.kernels.geometry import erase

        out: Tensor = context.empty(self.infer(image.spec))
        erase(image.numpy(), checked_boxes(boxes), self.fill, out=out.numpy())
        return out


def checked_boxes(boxes: object) -> Array:
    """Rows of four whole numbers. Raises ArgumentError when that is not what they are."""
    import numpy as np

    rows = np.asarray(boxes)
    if rows.size and (rows.dtype.kind not in "iu" or rows.ndim not in (1, 2) or rows.shape[-1] != 4):
        raise ArgumentError(f"boxes are rows of y, x, height and width in whole pixels, got {boxes!r:.80}")
    return rows.astype(np.int64).reshape(-1, 4)
