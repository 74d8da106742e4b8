"""`image.brightness`, `image.contrast`, `image.saturation`, `image.hue`: one adjustment of colour each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeplug import Context, Operator, PerSample, Tensor, TensorSpec
from pipeplug_image.pictures import check_number, picture

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipeplug import Array


class _Adjustment(Operator):
    """What the adjustments share."""

    def infer(self, image: TensorSpec) -> TensorSpec:
        return picture(image)

    def adjusted(self, image: Tensor, context: Context, adjust: Callable[..., Array], amount: float) -> Tensor:
        out: Tensor = context.empty(self.infer(image.spec))
        adjust(image.numpy(), amount, out=out.numpy())
        return out


class _Blend(_Adjustment):
    """What the adjustments by a factor share."""

    factor: PerSample[float]

    def check(self) -> None:
        if isinstance(self.factor, float):
            check_number("factor", self.factor, 0)

    def blended(self, image: Tensor, context: Context, adjust: Callable[..., Array], factor: float) -> Tensor:
        return self.adjusted(image, context, adjust, check_number("factor", factor, 0))


class Brightness(_Blend):
    """Multiply all colours by a factor and clamp them.

    Inputs: image (height, width, channels), uint8, uint16, or float32 from 0 to 1; alpha stays.
    Outputs: image of the same spec.

    Args:
        factor: 0 gives black, 1 the image, 2 twice the brightness.
    """

    def cpu(self, image: Tensor, context: Context, *, factor: float) -> Tensor:
        from pipeplug_image.kernels.color import adjust_brightness

        return self.blended(image, context, adjust_brightness, factor)


class Contrast(_Blend):
    """Blend an image with the mean of its grey version.

    Inputs: image (height, width, channels), uint8, uint16, or float32 from 0 to 1; alpha stays.
    Outputs: image of the same spec.

    Args:
        factor: 0 gives even grey, 1 the image, 2 twice the distance from grey.
    """

    def cpu(self, image: Tensor, context: Context, *, factor: float) -> Tensor:
        from pipeplug_image.kernels.color import adjust_contrast

        return self.blended(image, context, adjust_contrast, factor)


class Saturation(_Blend):
    """Blend an image with its grey version.

    Inputs: image (height, width, channels), uint8, uint16, or float32 from 0 to 1; alpha stays.
    Outputs: image of the same spec.

    Args:
        factor: 0 gives grey, 1 the image, 2 twice the colour.
    """

    def cpu(self, image: Tensor, context: Context, *, factor: float) -> Tensor:
        from pipeplug_image.kernels.color import adjust_saturation

        return self.blended(image, context, adjust_saturation, factor)


class Hue(_Adjustment):
    """Turn the colours of an image around the colour circle of HSV.

    Inputs: image (height, width, channels), uint8, uint16, or float32 from 0 to 1; alpha stays, grey images too.
    Outputs: image of the same spec.

    Args:
        turns: 0 and 1 give the image, 0.5 the complementary colours.
    """

    turns: PerSample[float]

    def check(self) -> None:
        if isinstance(self.turns, float):
            check_number("turns", self.turns)

    def cpu(self, image: Tensor, context: Context, *, turns: float) -> Tensor:
        from pipeplug_image.kernels.color import adjust_hue

        return self.adjusted(image, context, adjust_hue, check_number("turns", turns))
