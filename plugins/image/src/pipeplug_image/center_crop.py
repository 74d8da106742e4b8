"""`image.center_crop`."""

from __future__ import annotations

from pipeplug import Batch, Context, CudaContext, Operator, Tensor, TensorSpec
from pipeplug_image.pictures import check_size, picture, resized


class CenterCrop(Operator):
    """Cut the central part of a given size out of an image.

    Inputs: image (height, width, any number of channels), uint8, uint16 or float32, at least as large as the part.
    Outputs: image of `size`, a view of the input. The part begins at half the difference of the sizes, rounded half
    away from zero.

    Args:
        size: height and width of the part.
    """

    size: tuple[int, int]

    def check(self) -> None:
        check_size(self.size)

    def infer(self, image: TensorSpec) -> TensorSpec:
        return resized(picture(image, counts=None), *self.size)

    def box(self, shape: tuple[int, ...]) -> tuple[int, int, int, int]:
        """The part of an image of this shape: y, x, height, width."""
        from pipeplug_image.kernels.geometry import anchored_box

        return anchored_box(shape, self.size)

    def cuda(self, images: Batch, context: CudaContext) -> Batch:
        from pipeplug_image.kernels.cuda.crops import cropped
        from pipeplug_image.kernels.geometry import anchored_boxes

        self.infer(images.spec)
        boxes = anchored_boxes(images.shapes[:, :2], self.size)
        return cropped(images, boxes, context, lambda row, shape: self.box(shape))

    def cpu(self, image: Tensor, context: Context) -> Tensor:
        from pipeplug_image.kernels.geometry import crop

        self.infer(image.spec)  # what is not known before there is an image is checked now
        return Tensor(crop(image.numpy(), self.box(image.shape)), "HWC")
