"""`image.color_jitter`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeplug import ArgumentError, Context, Operator, Tensor, TensorSpec
from pipeplug_image.pictures import picture

if TYPE_CHECKING:
    from pipeplug import Array, Draws

Strength = float | tuple[float, float]


class ColorJitter(Operator):
    """Change brightness, contrast, saturation and hue at random, one after the other in a random order.

    The laws are torchvision's `ColorJitter`: each adjustment is that of `image.brightness`, `image.contrast`,
    `image.saturation` and `image.hue`, by a factor uniform in its bounds.

    Inputs: image (height, width, channels), uint8, uint16, or float32 from 0 to 1; alpha stays. A grey image
        has neither saturation nor hue to change.
    Outputs: image of the same spec.

    Args:
        brightness: bounds of the factor, or x for (max(0, 1 - x), 1 + x).
        contrast: as brightness.
        saturation: as brightness.
        hue: bounds of the shift in turns of the colour circle, from -0.5 to 0.5, or x for (-x, x).
    """

    brightness: Strength = 0.0
    contrast: Strength = 0.0
    saturation: Strength = 0.0
    hue: Strength = 0.0

    def check(self) -> None:
        for name in ("brightness", "contrast", "saturation"):
            low, high = factors(getattr(self, name))
            if not 0 <= low <= high:
                raise ArgumentError(f"{name} is a number from 0 on, or two rising ones, got {getattr(self, name)}")
        low, high = self.hues()
        if not -0.5 <= low <= high <= 0.5:
            raise ArgumentError(f"hue is a number from 0 to 0.5, or two rising ones from -0.5, got {self.hue}")

    def infer(self, image: TensorSpec) -> TensorSpec:
        return picture(image)

    def hues(self) -> tuple[float, float]:
        """The bounds of the shift."""
        return self.hue if isinstance(self.hue, tuple) else (-self.hue, self.hue)

    def draw(self, random: Draws) -> dict[str, Array]:
        import numpy as np

        bounds = [factors(self.brightness), factors(self.contrast), factors(self.saturation), self.hues()]
        low, high = np.array(bounds).T
        return {"amounts": random.uniform(low, high, size=4), "order": random.permutation(4)}

    def cpu(self, image: Tensor, context: Context, *, amounts: Array, order: Array) -> Tensor:
        from pipeplug_image.kernels.color import color_jitter

        brightness, contrast, saturation, hue = amounts.tolist()
        out: Tensor = context.empty(self.infer(image.spec))
        color_jitter(
            image.numpy(),
            brightness=brightness,
            contrast=contrast,
            saturation=saturation,
            hue=hue,
            order=order.tolist(),
            out=out.numpy(),
        )
        return out


def factors(strength: Strength) -> tuple[float, float]:
    """The bounds of a factor."""
    return strength if isinstance(strength, tuple) else (max(0.0, 1.0 - strength), 1.0 + strength)
