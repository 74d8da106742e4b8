"""`image.random_crop`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeplug import Batch, Context, CudaContext, Operator, Tensor, TensorSpec
from pipeplug_image.pictures import check_size, picture, resized

if TYPE_CHECKING:
    from pipeplug import Array, Draws


class RandomCrop(Operator):
    """Cut a part of a given size out of an image, every place as likely as another.

    Inputs: image (height, width, any number of channels), uint8, uint16 or float32, at least as large as the part.
    Outputs: image of `size`, a view of the input.

    Args:
        size: height and width of the part.
    """

    size: tuple[int, int]

    def check(self) -> None:
        check_size(self.size)

    def infer(self, image: TensorSpec) -> TensorSpec:
        return resized(picture(image, counts=None), *self.size)

    def draw(self, random: Draws) -> dict[str, Array]:
        return {"place": random.uniform(size=2)}

    def box(self, shape: tuple[int, ...], place: Array) -> tuple[int, int, int, int]:
        """The part of an image of this shape for two numbers in [0, 1): y, x, height, width."""
        from pipeplug_image.kernels.geometry import anchored_box

        height, width = self.size
        anchored_box(shape, self.size)  # raises when the part does not fit
        down, right = place.tolist()
        return int(down * (shape[0] - height + 1)), int(right * (shape[1] - width + 1)), height, width

    def cuda(self, images: Batch, context: CudaContext, *, place: Array) -> Batch:
        from pipeplug_image.kernels.cuda.crops import cropped
        from pipeplug_image.kernels.geometry import random_boxes

        self.infer(images.spec)
        boxes = random_boxes(images.shapes[:, :2], self.size, place)
        return cropped(images, boxes, context, lambda row, shape: self.box(shape, place[row]))

    def cpu(self, image: Tensor, context: Context, *, place: Array) -> Tensor:
        from pipeplug_image.kernels.geometry import crop

        self.infer(image.spec)  # what is not known before there is an image is checked now
        return Tensor(crop(image.numpy(), self.box(image.shape, place)), "HWC")
