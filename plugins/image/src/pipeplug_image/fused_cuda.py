"""Operators that the rewrite puts in the place of a decode on a GPU, and of the crop of it; nobody calls them by name.

What each file is, which part of it is wanted, and all that a GPU does not decode, is work for threads of the CPU. They
do it for batches to come, so that the GPU's decoder gets a batch in one call, with nothing left to find out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, TypeAlias

from pipeplug import Batch, Context, CudaContext, PerSample, TensorSpec
from pipeplug_image.center_crop import CenterCrop
from pipeplug_image.crop import Crop
from pipeplug_image.decode import Decode, Part
from pipeplug_image.fused import Fused
from pipeplug_image.random_crop import RandomCrop
from pipeplug_image.random_resized_crop import RandomResizedCrop

if TYPE_CHECKING:
    from pipeplug import Array
    from pipeplug_image.codecs.cuda import DeviceDecoder
    from pipeplug_image.codecs.jobs import Boxes

AnyCrop: TypeAlias = Crop | CenterCrop | RandomCrop | RandomResizedCrop


class _Prepare(Fused):
    """What preparing whole images and parts of them shares."""

    splittable = True
    decode: Decode

    def infer(self, encoded: TensorSpec) -> TensorSpec:
        return TensorSpec.object()

    def open(self) -> AbstractContextManager[DeviceDecoder]:
        return self.decode.open()

    def parts(
        self,
        encoded: Batch,
        context: Context,
        state: DeviceDecoder,
        crop: AnyCrop,
        boxes: Boxes,
        box_of: Callable[[int, tuple[int, ...]], Part],
    ) -> Batch:
        """Prepares parts, which `boxes` gives for many images and `box_of` for a row and the shape of its image."""
        from pipeplug_image.prepare import prepared

        def part_of(row: int) -> Array:
            part = self.decode.part(encoded[row], lambda shape: box_of(row, shape), state)
            crop.infer(TensorSpec(part.shape, part.dtype.name, "HWC"))  # what is not known before is checked now
            return part

        return _good(prepared(self.decode, encoded, context, state, boxes, part_of))


class PrepareDecode(_Prepare):
    """Prepares encoded images for a GPU's decoder."""

    reason = "the CPU finds what the GPU's decoder takes, and decodes the rest"

    def cpu(self, encoded: Batch, context: Context, *, state: DeviceDecoder) -> Batch:
        from pipeplug_image.prepare import prepared

        return _good(prepared(self.decode, encoded, context, state))


class PrepareCrop(_Prepare):
    """Prepares decoding what a crop needs."""

    reason = f"{PrepareDecode.reason}; only the part of the picture that the crop needs"
    crop: Crop
    position: PerSample[tuple[float, float]]
    box: PerSample[tuple[int, int, int, int] | None]

    def cpu(
        self,
        encoded: Batch,
        context: Context,
        *,
        position: Sequence[Sequence[float]],
        box: Sequence[Sequence[int] | None],
        state: DeviceDecoder,
    ) -> Batch:
        from pipeplug_image.kernels.geometry import given_boxes, numbers_of, placed_boxes

        def boxes(rows: Array, sizes: Array) -> Array:
            if self.crop.size is None:
                return given_boxes(sizes, numbers_of(box, rows, 4))
            return placed_boxes(sizes, self.crop.size, numbers_of(position, rows, 2))

        return self.parts(
            encoded, context, state, self.crop, boxes, lambda row, shape: self.crop.part(shape, position[row], box[row])
        )


class PrepareCenterCrop(_Prepare):
    """Prepares decoding what a central crop needs."""

    reason = PrepareCrop.reason
    crop: CenterCrop

    def cpu(self, encoded: Batch, context: Context, *, state: DeviceDecoder) -> Batch:
        from pipeplug_image.kernels.geometry import anchored_boxes

        def boxes(rows: Array, sizes: Array) -> Array:
            return anchored_boxes(sizes, self.crop.size)

        return self.parts(encoded, context, state, self.crop, boxes, lambda row, shape: self.crop.box(shape))


class PrepareRandomCrop(_Prepare):
    """Prepares decoding what a random crop needs."""

    reason = PrepareCrop.reason
    crop: RandomCrop

    def cpu(self, encoded: Batch, context: Context, *, place: Array, state: DeviceDecoder) -> Batch:
        from pipeplug_image.kernels.geometry import random_boxes

        def boxes(rows: Array, sizes: Array) -> Array:
            return random_boxes(sizes, self.crop.size, place[rows])

        return self.parts(
            encoded, context, state, self.crop, boxes, lambda row, shape: self.crop.box(shape, place[row])
        )


class PrepareResizedCrop(_Prepare):
    """Prepares decoding what a random resized crop needs."""

    reason = PrepareCrop.reason
    crop: RandomResizedCrop

    def cpu(self, encoded: Batch, context: Context, *, tries: Array, place: Array, state: DeviceDecoder) -> Batch:
        from pipeplug_image.kernels.crops import random_resized_crop_boxes

        def boxes(rows: Array, sizes: Array) -> Array:
            return random_resized_crop_boxes(sizes, tries[rows], place[rows], self.crop.ratio)

        def box_of(row: int, shape: tuple[int, ...]) -> Part:
            return self.crop.box(shape, tries[row].tolist(), place[row].tolist())

        return self.parts(encoded, context, state, self.crop, boxes, box_of)


class DecodePrepared(Fused):
    """Decodes what was prepared: a batch in one call.

    Attributes:
        spec: of an image, or of the part of it.
    """

    parallel = False
    reason = "the GPU's decoder takes a batch in one call"
    decode: Decode
    spec: TensorSpec

    def infer(self, prepared: TensorSpec) -> TensorSpec:
        return self.spec

    def open(self) -> AbstractContextManager[DeviceDecoder]:
        from pipeplug_image.codecs.nvimgcodec import load

        load()  # what is missing is said before a batch is read
        return self.decode.open()

    def cuda(self, prepared: Batch, context: CudaContext, *, state: DeviceDecoder) -> Batch:
        from pipeplug_image.prepare import decoded

        return decoded(self.decode, list(prepared), context, state)


def _good(prepared: Sequence[object]) -> Batch:
    return Batch.objects([each for each in prepared if each is not None])
