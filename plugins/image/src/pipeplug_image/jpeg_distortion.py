"""`image.jpeg_distortion`."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from pipeplug import ArgumentError, Context, Operator, PerSample, Tensor, TensorSpec
from pipeplug_image.pictures import check_number, picture

if TYPE_CHECKING:
    from pipeplug_image.codecs.decode import Decoder


class JpegDistortion(Operator):
    """Put the artefacts of JPEG compression into an image: it is encoded and decoded again.

    Colours are subsampled 4:2:0, as most software does.

    Inputs: image (height, width, 1 or 3), uint8.
    Outputs: image of the same spec.

    Args:
        quality: 1 (worst) to 100, by the scale of the Independent JPEG Group.
    """

    quality: PerSample[int]

    def check(self) -> None:
        if isinstance(self.quality, int):
            checked_quality(self.quality)

    def infer(self, image: TensorSpec) -> TensorSpec:
        return picture(image, dtypes=("uint8",), counts=(1, 3))

    def open(self) -> AbstractContextManager[Decoder]:
        from pipeplug_image.codecs.decode import Decoder

        return Decoder()

    def cpu(self, image: Tensor, context: Context, *, quality: int, state: Decoder) -> Tensor:
        from pipeplug_image.codecs.encode import encode_jpeg
        from pipeplug_image.codecs.options import DecodeOptions

        out: Tensor = context.empty(self.infer(image.spec))
        options = DecodeOptions(mode="gray" if image.shape[2] == 1 else "RGB")
        state.decode(encode_jpeg(image.numpy(), checked_quality(quality)), options, out=out.numpy())
        return out


def checked_quality(quality: float) -> int:
    """A whole number from 1 to 100. Raises ArgumentError when that is not what it is."""
    number = check_number("quality", quality, 1, 100)
    if not number.is_integer():
        raise ArgumentError(f"quality is a whole number, got {number:g}; draw one with ops.random.integer")
    return int(number)
