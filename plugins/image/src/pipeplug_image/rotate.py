"""`image.rotate`."""

from __future__ import annotations

from typing import Literal

from pipeplug import Context, Operator, PerSample, Tensor, TensorSpec
from pipeplug_image.pictures import check_number, check_per_channel, picture, resized

Border = Literal["constant", "edge", "reflect_101", "reflect_1001", "wrap"]
WarpInterpolation = Literal["nearest", "linear", "cubic"]


class Rotate(Operator):
    """Turn an image about its centre.

    Inputs: image (height, width, channels), uint8, uint16 or float32.
    Outputs: image of the same size, or with `expand` of the size that holds all of it.

    Args:
        angle: degrees, counter-clockwise when positive.
        expand: whether the result grows to hold the whole image.
        interpolation: the kernel; nothing is smoothed.
        border: what lies outside of the image: `"constant"` fill, or how it goes on.
        fill: the value outside, one or one a channel.
    """

    angle: PerSample[float]
    expand: bool = False
    interpolation: WarpInterpolation = "linear"
    border: Border = "constant"
    fill: float | tuple[float, ...] = 0.0

    def check(self) -> None:
        if isinstance(self.angle, float):
            check_number("angle", self.angle)

    def infer(self, image: TensorSpec) -> TensorSpec:
        spec = picture(image)
        check_per_channel("fill", self.fill, spec)
        return resized(spec, None, None) if self.expand else spec

    def cpu(self, image: Tensor, context: Context, *, angle: float) -> Tensor:
        from pipeplug_image.kernels.warp import rotate, rotated_size

        angle = check_number("angle", angle)
        size = rotated_size(image.shape, angle) if self.expand else (image.shape[0], image.shape[1])
        out: Tensor = context.empty(resized(picture(image.spec), *size))
        rotate(
            image.numpy(),
            angle,
            size=size,
            interpolation=self.interpolation,
            border=self.border,
            fill=self.fill,
            out=out.numpy(),
        )
        return out
