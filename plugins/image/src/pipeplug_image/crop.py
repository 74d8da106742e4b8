"""`image.crop`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pipeplug import ArgumentError, Batch, Context, CudaContext, Operator, PerSample, Tensor, TensorSpec
from pipeplug_image.pictures import check_number, check_size, picture, resized

if TYPE_CHECKING:
    from pipeplug import Array

Box = tuple[int, int, int, int]


class Crop(Operator):
    """Cut a part out of an image: of a given size at a relative position, or a box of pixels.

    A part of a given size begins at `position * (input size - size)`, rounded half away from zero.

    Inputs: image (height, width, any number of channels), uint8, uint16 or float32, at least as large as the part.
    Outputs: image of the part's size, a view of the input.

    Args:
        size: height and width of the part. Give it or `box`.
        position: where it lies, vertically and horizontally: 0 at the start, 0.5 centred, 1 at the end.
        box: y, x, height and width of the part in pixels, within the image.
    """

    size: tuple[int, int] | None = None
    position: PerSample[tuple[float, float]] = (0.5, 0.5)
    box: PerSample[tuple[int, int, int, int] | None] = None

    def check(self) -> None:
        if (self.size is None) == (self.box is None):
            raise ArgumentError("give one of size=(height, width) and box=(y, x, height, width)")
        if self.size is not None:
            check_size(self.size)
        if isinstance(self.box, tuple):
            checked_box(self.box)
        if isinstance(self.position, tuple):
            checked_position(self.position)

    def infer(self, image: TensorSpec) -> TensorSpec:
        size = self.box[2:] if isinstance(self.box, tuple) else self.size or (None, None)
        return resized(picture(image, counts=None), *size)

    def part(self, shape: tuple[int, ...], position: Sequence[float], box: Sequence[int] | None) -> Box:
        """The part of an image of this shape: y, x, height, width."""
        from pipeplug_image.kernels.geometry import anchored_box, inside

        if box is not None:
            return inside(shape, checked_box(box))
        assert self.size is not None
        return anchored_box(shape, self.size, checked_position(position))

    def cuda(self, images: Batch, context: CudaContext, *, position: Sequence[Any], box: Sequence[Any]) -> Batch:
        from pipeplug_image.kernels.cuda.crops import cropped

        self.infer(images.spec)
        boxes = self.boxes(images.shapes[:, :2], position, box)
        return cropped(images, boxes, context, lambda row, shape: self.part(shape, position[row], box[row]))

    def boxes(self, sizes: Array, position: Sequence[Any], box: Sequence[Any]) -> Array:
        """The parts of images of these sizes, int64 (images, 4), all 0 for one that there is not."""
        import numpy as np

        from pipeplug_image.kernels.geometry import given_boxes, numbers_of, placed_boxes

        rows = np.arange(len(sizes))
        if self.size is None:
            return given_boxes(sizes, numbers_of(box, rows, 4))
        return placed_boxes(sizes, self.size, numbers_of(position, rows, 2))

    def cpu(
        self, image: Tensor, context: Context, *, position: tuple[float, float], box: Sequence[int] | None
    ) -> Tensor:
        from pipeplug_image.kernels.geometry import crop

        self.infer(image.spec)  # what is not known before there is an image is checked now
        return Tensor(crop(image.numpy(), self.part(image.shape, position, box)), "HWC")


def checked_box(box: Sequence[int]) -> Box:
    """Four whole numbers, the size at least 1. Raises ArgumentError when that is not what they are."""
    numbers = [float(each) for each in box] if getattr(box, "shape", (4,)) == (4,) else []
    if len(numbers) != 4 or not all(each.is_integer() and each >= 0 for each in numbers) or min(numbers[2:]) < 1:
        raise ArgumentError(f"box is y, x, height and width in whole pixels a sample, got {box!r:.80}")
    y, x, height, width = map(int, numbers)
    return y, x, height, width


def checked_position(position: Sequence[float]) -> tuple[float, float]:
    """Two numbers from 0 to 1. Raises ArgumentError when that is not what they are."""
    if getattr(position, "shape", (2,)) != (2,):
        raise ArgumentError(f"position is two numbers a sample, vertical and horizontal, got {position!r:.80}")
    y, x = (check_number("position", each, 0, 1) for each in position)
    return y, x
