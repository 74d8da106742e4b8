"""`image.erase`."""

from __future__ import annotations

from pipeplug import Context, Operator, PerSample, Tensor, TensorSpec
from pipeplug_image.pictures import picture

Boxes = tuple[tuple[int, int, int, int], ...]


class Erase(Operator):
    """Fill rectangles of an image with one colour.

    Inputs: image (height, width, channels).
    Outputs: image of the same spec.

    Args:
        boxes: y, x, height and width of each rectangle, in pixels; what lies outside of the image counts for nothing.
        fill: the colour, one number or one a channel.
    """

    boxes: PerSample[Boxes]
    fill: float | tuple[float, ...] = 0.0

    def infer(self, image: TensorSpec) -> TensorSpec:
        return picture(image)

    def cpu(self, image: Tensor, context: Context, *, boxes: Boxes) -> Tensor:
        import numpy as np

        from pipeplug_image.kernels.geometry import erase

        out: Tensor = context.empty(self.infer(image.spec))
        erase(image.numpy(), np.asarray(boxes), self.fill, out=out.numpy())
        return out
