"""Operators that the rewrite puts in the place of several; nobody calls them by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from pipeplug import Context, Operator, PerSample, Tensor, TensorSpec
from pipeplug_image.center_crop import CenterCrop
from pipeplug_image.crop import Crop
from pipeplug_image.decode import Decode, Part
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

    def decoded(
        self,
        encoded: object,
        context: Context,
        box_of: Callable[[tuple[int, ...]], Part],
        infer: Callable[[TensorSpec], TensorSpec],
        state: Decoder,
    ) -> Tensor:
        """The part, in memory of its own. What `infer` of the crop refuses is refused."""
        part = self.decode.part(encoded, box_of, state)
        out: Tensor = context.empty(infer(TensorSpec(part.shape, part.dtype.name, "HWC")))
        out.numpy()[...] = part
        return out


class DecodeResizedCrop(_DecodePart):
    """Decodes what a random resized crop needs, and resizes it."""

    crop: RandomResizedCrop

    def infer(self, encoded: TensorSpec) -> TensorSpec:
        return self.crop.infer(self.decode.image_spec())

    def cpu(self, encoded: object, context: Context, *, tries: Array, place: Array, state: Decoder) -> Tensor:
        part = self.decode.part(encoded, lambda shape: self.crop.box(shape, tries, place), state)
        return self.crop.resize(part, context)


class DecodeCrop(_DecodePart):
    """Decodes what a crop at a position needs."""

    crop: Crop
    position: PerSample[tuple[float, float]]

    def infer(self, encoded: TensorSpec) -> TensorSpec:
        return self.crop.infer(self.decode.image_spec())

    def cpu(self, encoded: object, context: Context, *, position: Sequence[float], state: Decoder) -> Tensor:
        return self.decoded(encoded, context, lambda shape: self.crop.box(shape, position), self.crop.infer, state)


class DecodeCenterCrop(_DecodePart):
    """Decodes what a central crop needs."""

    crop: CenterCrop

    def infer(self, encoded: TensorSpec) -> TensorSpec:
        return self.crop.infer(self.decode.image_spec())

    def cpu(self, encoded: object, context: Context, *, state: Decoder) -> Tensor:
        return self.decoded(encoded, context, self.crop.box, self.crop.infer, state)


class DecodeRandomCrop(_DecodePart):
    """Decodes what a random crop needs."""

    crop: RandomCrop

    def infer(self, encoded: TensorSpec) -> TensorSpec:
        return self.crop.infer(self.decode.image_spec())

    def cpu(self, encoded: object, context: Context, *, place: Array, state: Decoder) -> Tensor:
        return self.decoded(encoded, context, lambda shape: self.crop.box(shape, place), self.crop.infer, state)


class FlipNormalize(Operator):
    """Mirrors and normalises an image."""

    flip: Flip
    normalize: Normalize

    def infer(self, image: TensorSpec) -> TensorSpec:
        return self.normalize.infer(self.flip.infer(image))

    def cpu(self, image: Tensor, context: Context, *, flipped: bool) -> Tensor:
        return self.normalize.normalized(image, context, flipped=bool(flipped))
