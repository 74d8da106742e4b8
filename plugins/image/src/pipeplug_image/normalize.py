"""`image.normalize`."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from pipeplug import ArgumentError, Context, Operator, Tensor, TensorSpec
from pipeplug_image.pictures import channels, picture

if TYPE_CHECKING:
    from pipeplug_image.kernels.normalization import Normalization


class Normalize(Operator):
    """Compute `scale * (x - mean) / std + shift`.

    To integers, halves round to even and values saturate.

    Inputs: image (height, width, channels), uint8, uint16 or float32.
    Outputs: image of `dtype`; (channels, height, width) when `layout` is `"CHW"`.

    Args:
        mean: in the input's units (0 to 255 for uint8), one or one a channel.
        std: in the input's units, one or one a channel; not 0.
        scale: what the result is multiplied by.
        shift: what is added then.
        dtype: of the result.
        layout: of the result.
    """

    mean: float | tuple[float, ...] = 0.0
    std: float | tuple[float, ...] = 1.0
    scale: float = 1.0
    shift: float = 0.0
    dtype: Literal["float32", "float16", "uint8", "int8", "int16", "uint16"] = "float32"
    layout: Literal["HWC", "CHW"] = "HWC"

    def check(self) -> None:
        deviations = self.std if isinstance(self.std, tuple) else (self.std,)
        if 0 in deviations or self.scale == 0:
            raise ArgumentError(f"std and scale are not 0, got std={self.std}, scale={self.scale}")

    def infer(self, image: TensorSpec) -> TensorSpec:
        height, width, count = picture(image).shape or (None, None, None)
        self.check_channels(count)
        shape = (height, width, count) if self.layout == "HWC" else (count, height, width)
        return TensorSpec(shape, self.dtype, self.layout)

    def check_channels(self, count: int | None) -> None:
        """Raises ArgumentError when `mean` or `std` is for another number of channels."""
        for name, value in (("mean", self.mean), ("std", self.std)):
            if isinstance(value, tuple) and count is not None and len(value) not in (1, count):
                raise ArgumentError(f"{name} has {len(value)} numbers, but the image has {count} channels")

    def cpu(self, image: Tensor, context: Context) -> Tensor:
        return self.normalized(image, context, flipped=False)

    def normalized(self, image: Tensor, context: Context, *, flipped: bool) -> Tensor:
        """The image, mirrored left to right first if `flipped`, normalised in one pass."""
        out: Tensor = context.empty(self.infer(image.spec))
        prepared(self, channels(image.spec) or 0)(image.numpy(), flip=flipped, out=out.numpy())
        return out


@lru_cache(maxsize=64)
def prepared(operator: Normalize, count: int) -> Normalization:
    """The tables of an operator for images of `count` channels."""
    from pipeplug_image.kernels.normalization import Normalization

    return Normalization(
        count,
        operator.mean,
        operator.std,
        scale=operator.scale,
        shift=operator.shift,
        dtype=operator.dtype,
        layout=operator.layout,
    )
