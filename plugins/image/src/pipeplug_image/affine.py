"""`image.affine`."""

from __future__ import annotations

from pipeplug import Context, Operator, PerSample, Tensor, TensorSpec
from pipeplug_image.pictures import check_per_channel, check_size, picture, resized
from pipeplug_image.rotate import Border, WarpInterpolation

Matrix = tuple[tuple[float, float, float], tuple[float, float, float]]


class Affine(Operator):
    """Show an image through an affine map.

    Inputs: image (height, width, channels), uint8, uint16 or float32.
    Outputs: image of the same size, or of `size`.

    Args:
        matrix: 2 rows of 3 that map places of the output to places of the input, (x, y) = matrix @ (x, y, 1), in
            pixels from the image's corner: pixel centres lie at + 0.5.
        size: height and width of the result; None keeps the image's.
        interpolation: the kernel; nothing is smoothed.
        border: what lies outside of the image: `"constant"` fill, or how it goes on.
        fill: the value outside, one or one a channel.
    """

    matrix: PerSample[Matrix]
    size: tuple[int, int] | None = None
    interpolation: WarpInterpolation = "linear"
    border: Border = "constant"
    fill: float | tuple[float, ...] = 0.0

    def check(self) -> None:
        if self.size is not None:
            check_size(self.size)

    def infer(self, image: TensorSpec) -> TensorSpec:
        spec = picture(image)
        check_per_channel("fill", self.fill, spec)
        return spec if self.size is None else resized(spec, *self.size)

    def cpu(self, image: Tensor, context: Context, *, matrix: Matrix) -> Tensor:
        from pipeplug_image.kernels.warp import affine

        out: Tensor = context.empty(self.infer(image.spec))
        affine(
            image.numpy(),
            matrix,
            size=(out.shape[0], out.shape[1]),
            interpolation=self.interpolation,
            border=self.border,
            fill=self.fill,
            out=out.numpy(),
        )
        return out
