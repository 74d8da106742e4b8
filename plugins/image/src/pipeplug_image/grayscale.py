"""`image.grayscale`."""

from __future__ import annotations

from typing import Literal

from pipeplug import Context, Operator, Tensor, TensorSpec
from pipeplug_image.pictures import picture


class Grayscale(Operator):
    """Turn colours into grey by 0.299 R + 0.587 G + 0.114 B (ITU-R BT.601, Pillow's "L").

    Within 1 level of the exact value in uint8, 2 in uint16, 1e-5 in float32.

    Inputs: image (height, width, channels), uint8, uint16 or float32; alpha is dropped.
    Outputs: image of one channel, or of three equal ones.

    Args:
        channels: of the result.
    """

    channels: Literal[1, 3] = 1

    def infer(self, image: TensorSpec) -> TensorSpec:
        height, width, _ = picture(image).shape or (None, None, None)
        return TensorSpec((height, width, self.channels), image.dtype, "HWC")

    def cpu(self, image: Tensor, context: Context) -> Tensor:
        from pipeplug_image.kernels.convert import grayscale

        out: Tensor = context.empty(self.infer(image.spec))
        grayscale(image.numpy(), self.channels, out=out.numpy())
        return out
