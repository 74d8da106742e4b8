"""Operators that the rewrite puts in the place of several; nobody calls them by name."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from pipeplug import Context, Operator, Tensor, TensorSpec
from pipeplug_image.center_crop import CenterCrop
from pipeplug_image.crop import Crop
from pipeplug_image.decode import Decode
from pipeplug_image.flip import Flip
from pipeplug_image.normalize import Normalize
from pipeplug_image.random_crop import RandomCrop
from pipeplug_image.random_resized_crop import RandomResizedCrop

if TYPE_CHECKING:
    from pipeplug import Array
    from pipeplug_image.codecs.decode import Decoder


class _DecodePart(Operator):
    """What decoding a part of an image shares, whichever crop says where it lies."""

    decode: Decode

    def open(self) -> AbstractContextManager[Decoder]:
        return self.decode.open()


class DecodeResizedCrop(_DecodePart):
    """Decodes what a random resized crop needs, and resizes it."""

    crop: RandomResizedCrop

    def infer(self, encoded: TensorSpec) -> TensorSpec:
        return self.crop.infer(self.decode.infer(encoded))

    def cpu(self, encoded: bytes, context: Context, *, box: Array, state: Decoder) -> Tensor:
        y, x, height, width = box.tolist()
        return self.crop.resize(self.decode.part(encoded, (y, x, height, width), state), context)


class DecodeCrop(_DecodePart):
    """Decodes what a crop at a position needs."""

    crop: Crop

    def infer(self, encoded: TensorSpec) -> TensorSpec:
        return self.crop.infer(self.decode.infer(encoded))

    def cpu(self, encoded: bytes, context: Context, *, position: tuple[float, float], state: Decoder) -> Tensor:
        box = self.crop.box(self.decode.shape(encoded), position)
        return Tensor(self.decode.part(encoded, box, state), "HWC")


class DecodeCenterCrop(_DecodePart):
    """Decodes what a central crop needs."""

    crop: CenterCrop

    def infer(self, encoded: TensorSpec) -> TensorSpec:
        return self.crop.infer(self.decode.infer(encoded))

    def cpu(self, encoded: bytes, context: Context, *, state: Decoder) -> Tensor:
        box = self.crop.box(self.decode.shape(encoded))
        return Tensor(self.decode.part(encoded, box, state), "HWC")


class DecodeRandomCrop(_DecodePart):
    """Decodes what a random crop needs."""

    crop: RandomCrop

    def infer(self, encoded: TensorSpec) -> TensorSpec:
        return self.crop.infer(self.decode.infer(encoded))

    def cpu(self, encoded: bytes, context: Context, *, place: Array, state: Decoder) -> Tensor:
        box = self.crop.box(self.decode.shape(encoded), place)
        return Tensor(self.decode.part(encoded, box, state), "HWC")


class FlipNormalize(Operator):
    """Mirrors and normalises an image in one pass over its pixels."""

    flip: Flip
    normalize: Normalize

    def infer(self, image: TensorSpec) -> TensorSpec:
        return self.normalize.infer(self.flip.infer(image))

    def cpu(self, image: Tensor, context: Context, *, flipped: bool) -> Tensor:
        return self.normalize.normalized(image, context, flipped=bool(flipped))
