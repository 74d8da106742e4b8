"""`image.crop`."""

from __future__ import annotations

from collections.abc import Sequence

from pipeplug import ArgumentError, Context, Operator, PerSample, Tensor, TensorSpec
from pipeplug_image.pictures import check_number, check_size, picture, resized


class Crop(Operator):
    """Cut a part of a given size out of an image.

    The part begins at `position * (input size - size)`, rounded half away from zero.

    Inputs: image (height, width, any number of channels), uint8, uint16 or float32, at least as large as the part.
    Outputs: image of `size`, a view of the input.

    Args:
        size: height and width of the part.
        position: where it lies, vertically and horizontally: 0 at the start, 0.5 centred, 1 at the end.
    """

    size: tuple[int, int]
    position: PerSample[tuple[float, float]] = (0.5, 0.5)

    def check(self) -> None:
        check_size(self.size)
        if isinstance(self.position, tuple):
            checked_position(self.position)

    def infer(self, image: TensorSpec) -> TensorSpec:
        return resized(picture(image, counts=None), *self.size)

    def box(self, shape: tuple[int, ...], position: Sequence[float]) -> tuple[int, int, int, int]:
        """The part of an image of this shape: y, x, height, width."""
        from pipeplug_image.kernels.geometry import anchored_box

        return anchored_box(shape, self.size, checked_position(position))

    def cpu(self, image: Tensor, context: Context, *, position: tuple[float, float]) -> Tensor:
        from pipeplug_image.kernels.geometry import crop

        self.infer(image.spec)  # what is not known before there is an image is checked now
        return Tensor(crop(image.numpy(), self.box(image.shape, position)), "HWC")


def checked_position(position: Sequence[float]) -> tuple[float, float]:
    """Two numbers from 0 to 1. Raises ArgumentError when that is not what they are."""
    if getattr(position, "shape", (2,)) != (2,):
        raise ArgumentError(f"position is two numbers a sample, vertical and horizontal, got {position!r:.80}")
    y, x = (check_number("position", each, 0, 1) for each in position)
    return y, x
