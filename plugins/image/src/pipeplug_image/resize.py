"""`image.resize`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pipeplug import ArgumentError, Batch, Context, CudaContext, Operator, Tensor, TensorSpec
from pipeplug_image.pictures import picture, resized

if TYPE_CHECKING:
    from pipeplug import Array

Interpolation = Literal["nearest", "linear", "cubic", "lanczos"]


class Resize(Operator):
    """Resize an image.

    Output pixel o samples the input at `(o + 0.5) * scale - 0.5`, borders clamp. With `antialias` the kernel stretches
    by max(1, scale), as Pillow's does (within 1 level); without it `linear` is OpenCV's `INTER_LINEAR`. Nearest is
    Pillow's, cubic has a = -0.5, Lanczos 3 lobes. On a GPU within 1 level of the CPU; beyond that
    only where cubic and Lanczos overshoot in bytes, as Pillow rounds between its passes in an order that it chooses.

    Inputs: image (height, width, channels), uint8, uint16 or float32.
    Outputs: image of the new size, dtype unchanged.

    Args:
        size: height and width. Give one of `size`, `shorter` and `longer`.
        shorter: what the shorter side becomes; the other follows, rounded down as torchvision rounds.
        longer: what the longer side becomes; the other follows.
        interpolation: the kernel.
        antialias: whether a smaller image is made of all pixels of the larger one.
    """

    size: tuple[int, int] | None = None
    shorter: int | None = None
    longer: int | None = None
    interpolation: Interpolation = "linear"
    antialias: bool = True

    def check(self) -> None:
        given = [value for value in (self.size, self.shorter, self.longer) if value is not None]
        if len(given) != 1:
            raise ArgumentError("give one of size=(height, width), shorter= and longer=")
        if min(self.size or (self.shorter or self.longer or 0,)) < 1:
            raise ArgumentError(f"a size is at least 1, got {given[0]}")

    def infer(self, image: TensorSpec) -> TensorSpec:
        spec = picture(image)
        return resized(spec, *self.target(*(spec.shape or (None, None))[:2]))

    def target(self, height: int | None, width: int | None) -> tuple[int | None, int | None]:
        """The height and width that an image of this size gets; None where they depend on what is not known."""
        if self.size is not None:
            return self.size
        if height is None or width is None:
            return None, None
        wanted = self.shorter or self.longer or 0
        side = min(height, width) if self.shorter else max(height, width)
        # Integers, so that the result does not depend on rounding errors; at least one pixel stays.
        return max(1, height * wanted // side), max(1, width * wanted // side)

    def targets(self, shapes: Array) -> Array:
        """The heights and widths that images of these shapes get, int64 (images, 2)."""
        import numpy as np

        sizes = shapes[:, :2]
        if self.size is not None:
            return np.broadcast_to(np.array(self.size, np.int64), sizes.shape)
        side = (sizes.min if self.shorter else sizes.max)(axis=1, keepdims=True)
        targets: Array = np.maximum(1, sizes * (self.shorter or self.longer or 0) // side)
        return targets

    def cuda(self, images: Batch, context: CudaContext) -> Batch:
        from pipeplug_image.kernels.cuda.resample import resample

        self.infer(images.spec)
        sizes = self.targets(images.shapes)
        return resample(images, sizes, context, interpolation=self.interpolation, antialias=self.antialias)

    def cpu(self, image: Tensor, context: Context) -> Tensor:
        from pipeplug_image.kernels.resample import resize

        out: Tensor = context.empty(self.infer(image.spec))
        size = (out.shape[0], out.shape[1])
        resize(image.numpy(), size, interpolation=self.interpolation, antialias=self.antialias, out=out.numpy())
        return out
