"""`image.crop`."""

from __future__ import annotations

from pipeplug import ArgumentError, Context, Operator, PerSample, Tensor, TensorSpec
from pipeplug_image.pictures import picture, resized


class Crop(Operator):
    """Cut a part of a given size out of an image.

    The part begins at `position * (input size - size)`, rounded half away from zero.

    Inputs: image (height, width, channels), at least as large as the part.
    Outputs: image of `size`, a view of the input.

    Args:
        size: height and width of the part.
        position: where it lies, vertically and horizontally: 0 at the start, 0.5 centred, 1 at the end.
    """

    size: tuple[int, int]
    position: PerSample[tuple[float, float]] = (0.5, 0.5)

    def check(self) -> None:
        if min(self.size) < 1:
            raise ArgumentError(f"size is at least (1, 1), got {self.size}")

    def infer(self, image: TensorSpec) -> TensorSpec:
        return resized(picture(image), *self.size)

    def box(self, shape: tuple[int, ...], position: tuple[float, float]) -> tuple[int, int, int, int]:
        """The part of an image of this shape: y, x, height, width."""
        from pipeplug_image.kernels.geometry import anchored_box

        return anchored_box(shape, self.size, position)

    def cpu(self, image: Tensor, context: Context, *, position: tuple[float, float]) -> Tensor:
        from pipeplug_image.kernels.geometry import crop

        return Tensor(crop(image.numpy(), self.box(image.shape, position)), "HWC")
