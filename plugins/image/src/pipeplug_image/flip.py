"""`image.flip`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pipeplug import ArgumentError, Batch, Context, CudaContext, Operator, Tensor, TensorSpec
from pipeplug_image.pictures import picture

if TYPE_CHECKING:
    from pipeplug import Array, Draws

Direction = Literal["horizontal", "vertical"]


class Flip(Operator):
    """Mirror an image, at random or always.

    Inputs: image (height, width, any number of channels), uint8, uint16 or float32.
    Outputs: image of the same spec; a view of the input where it is not mirrored.

    Args:
        probability: of mirroring an image; 1 mirrors all.
        direction: `"horizontal"` swaps left and right, `"vertical"` top and bottom.
    """

    probability: float = 0.5
    direction: Direction = "horizontal"

    def check(self) -> None:
        if not 0 <= self.probability <= 1:
            raise ArgumentError(f"a probability is from 0 to 1, got {self.probability}")

    def infer(self, image: TensorSpec) -> TensorSpec:
        return picture(image, counts=None)

    def draw(self, random: Draws) -> dict[str, Array]:
        return {"flipped": random.boolean(self.probability)}

    def cuda(self, images: Batch, context: CudaContext, *, flipped: Array) -> Batch:
        from pipeplug_image.kernels.cuda.resample import resample

        self.infer(images.spec)
        rows, columns = self.mirrors(flipped)
        return resample(images, images.shapes[:, :2], context, mirror_rows=rows, mirror_columns=columns)

    def mirrors(self, flipped: Array) -> tuple[Array | bool, Array | bool]:
        """Whether rows and columns are mirrored, by image."""
        return (False, flipped) if self.direction == "horizontal" else (flipped, False)

    def cpu(self, image: Tensor, context: Context, *, flipped: bool) -> Tensor:
        from pipeplug_image.kernels.geometry import flip

        spec = self.infer(image.spec)
        if not flipped:
            return Tensor(image.numpy(), spec.layout)
        out: Tensor = context.empty(spec)
        horizontal = self.direction == "horizontal"
        flip(image.numpy(), horizontal=horizontal, vertical=not horizontal, out=out.numpy())
        return out
