"""`image.pad`."""

from __future__ import annotations

from pipeplug import ArgumentError, Context, Operator, Tensor, TensorSpec
from pipeplug_image.pictures import check_per_channel, picture, resized
from pipeplug_image.rotate import Border


class Pad(Operator):
    """Put a margin around an image.

    Inputs: image (height, width, channels), uint8, uint16 or float32.
    Outputs: image, larger by the margins, dtype unchanged.

    Args:
        margins: pixels at the top, bottom, left and right.
        border: `"constant"` fill, or how the image goes on: `"edge"` repeats the edge, `"reflect_101"` and
            `"reflect_1001"` mirror without and with it, `"wrap"` begins again.
        fill: the value of a constant border, one or one a channel.
    """

    margins: tuple[int, int, int, int]
    border: Border = "constant"
    fill: float | tuple[float, ...] = 0.0

    def check(self) -> None:
        if min(self.margins) < 0:
            raise ArgumentError(f"margins are not negative, got {self.margins}; crop instead")

    def infer(self, image: TensorSpec) -> TensorSpec:
        spec = picture(image)
        check_per_channel("fill", self.fill, spec)
        height, width = (spec.shape or (None, None))[:2]
        top, bottom, left, right = self.margins
        return resized(
            spec,
            None if height is None else height + top + bottom,
            None if width is None else width + left + right,
        )

    def cpu(self, image: Tensor, context: Context) -> Tensor:
        from pipeplug_image.kernels.geometry import pad

        out: Tensor = context.empty(self.infer(image.spec))
        pad(image.numpy(), self.margins, border=self.border, fill=self.fill, out=out.numpy())
        return out
