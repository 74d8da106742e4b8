"""`image.random_resized_crop`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipeplug import ArgumentError, Batch, Context, CudaContext, Operator, Tensor, TensorSpec
from pipeplug_image.pictures import check_size, picture, resized
from pipeplug_image.resize import Interpolation

if TYPE_CHECKING:
    from pipeplug import Array, Draws


class RandomResizedCrop(Operator):
    """Cut a random part out of an image and resize it.

    The law is torchvision's: the part's area is uniform in `scale` times the image's, its width / height log-uniform
    in `ratio`; the first of ten tries that fits is taken, else the largest central part with a ratio in bounds.
    Resizing is that of `image.resize`, the part standing for the whole image.

    Inputs: image (height, width, channels), uint8, uint16 or float32.
    Outputs: image of `size`, dtype unchanged.

    Args:
        size: height and width of the result.
        scale: bounds of the part's area as a share of the image's.
        ratio: bounds of the part's width / height.
        interpolation: the kernel of the resize.
        antialias: whether a smaller image is made of all pixels of the part.
    """

    size: tuple[int, int]
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    interpolation: Interpolation = "linear"
    antialias: bool = True

    def check(self) -> None:
        check_size(self.size)
        if not 0 < self.scale[0] <= self.scale[1] <= 1:
            raise ArgumentError(f"scale is two rising numbers in (0, 1], got {self.scale}")
        if not 0 < self.ratio[0] <= self.ratio[1]:
            raise ArgumentError(f"ratio is two rising positive numbers, got {self.ratio}")

    def infer(self, image: TensorSpec) -> TensorSpec:
        return resized(picture(image), *self.size)

    def draw(self, random: Draws) -> dict[str, Array]:
        """What the box is made of: the box itself depends on a shape, for which the batch would have to wait."""
        import numpy as np

        from pipeplug_image.kernels.crops import TRIES

        areas = random.uniform(*self.scale, size=TRIES)
        ratios = random.log_uniform(*self.ratio, size=TRIES)
        return {"tries": np.stack((areas, ratios), axis=2), "place": random.uniform(size=2)}

    def box(
        self, shape: tuple[int, ...], tries: Sequence[tuple[float, float]], place: tuple[float, float]
    ) -> tuple[int, int, int, int]:
        """The part of an image of this shape for what was drawn: y, x, height, width."""
        from pipeplug_image.kernels.crops import random_resized_crop_box

        return random_resized_crop_box(shape, tries, place, self.ratio)

    def cpu(self, image: Tensor, context: Context, *, tries: Array, place: Array) -> Tensor:
        return self.resize(self.part(image, tries, place), context)

    def cuda(self, images: Batch, context: CudaContext, *, tries: Array, place: Array) -> Batch:
        from pipeplug_image.kernels.cuda.resample import resample

        self.infer(images.spec)
        boxes = self.boxes(images, tries, place)
        return resample(
            images, self.targets, context, interpolation=self.interpolation, antialias=self.antialias, boxes=boxes
        )

    @property
    def targets(self) -> Array:
        """Height and width of all results."""
        import numpy as np

        return np.array(self.size, np.int64)

    def boxes(self, images: Batch, tries: Array, place: Array) -> Array:
        """The parts of images for what was drawn, int64 (images, 4)."""
        from pipeplug_image.kernels.crops import random_resized_crop_boxes

        return random_resized_crop_boxes(images.shapes[:, :2], tries, place, self.ratio)

    def part(self, image: Tensor, tries: Array, place: Array) -> Array:
        """The part of an image, as it is there."""
        self.infer(image.spec)  # what is not known before there is an image is checked now
        y, x, height, width = self.box(image.shape, tries.tolist(), place.tolist())
        return image.numpy()[y : y + height, x : x + width]

    def resize(self, part: Array, context: Context) -> Tensor:
        """The part in the size asked for."""
        from pipeplug_image.kernels.resample import resize

        out: Tensor = context.empty(TensorSpec((*self.size, part.shape[2]), Tensor(part).dtype, "HWC"))
        resize(part, self.size, interpolation=self.interpolation, antialias=self.antialias, out=out.numpy())
        return out
