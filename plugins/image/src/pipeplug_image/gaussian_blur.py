"""`image.gaussian_blur`."""

from __future__ import annotations

from pipeplug import ArgumentError, Context, Operator, PerSample, Tensor, TensorSpec
from pipeplug_image.pictures import check_number, picture


class GaussianBlur(Operator):
    """Convolve an image with a Gaussian; the image is mirrored at its edges (reflect_101).

    Inputs: image (height, width, channels), uint8, uint16 or float32.
    Outputs: image of the same spec.

    Args:
        sigma: the standard deviation in pixels, 0 for none.
        kernel_size: taps, an odd number; None means `2 * ceil(3 * sigma) + 1`.
    """

    sigma: PerSample[float]
    kernel_size: int | None = None

    def check(self) -> None:
        if self.kernel_size is not None and (self.kernel_size < 1 or self.kernel_size % 2 == 0):
            raise ArgumentError(f"kernel_size is odd and positive, got {self.kernel_size}")
        if isinstance(self.sigma, float):
            check_number("sigma", self.sigma, 0)

    def infer(self, image: TensorSpec) -> TensorSpec:
        return picture(image)

    def cpu(self, image: Tensor, context: Context, *, sigma: float) -> Tensor:
        from pipeplug_image.kernels.blur import gaussian_blur

        sigma = check_number("sigma", sigma, 0)
        out: Tensor = context.empty(self.infer(image.spec))
        gaussian_blur(image.numpy(), sigma, kernel_size=self.kernel_size, out=out.numpy())
        return out
