"""Operators that the rewrite puts in the place of several; nobody calls them by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, ClassVar

from pipeplug import Batch, Context, CudaContext, Operator, PerSample, Tensor, TensorSpec
from pipeplug_image.center_crop import CenterCrop
from pipeplug_image.crop import Crop
from pipeplug_image.decode import Decode, Part
from pipeplug_image.flip import Direction, Flip
from pipeplug_image.normalize import Normalize, prepared
from pipeplug_image.random_crop import RandomCrop
from pipeplug_image.random_resized_crop import RandomResizedCrop
from pipeplug_image.resize import Interpolation, Resize

if TYPE_CHECKING:
    from pipeplug import Array
    from pipeplug_image.codecs.decode import Decoder
    from pipeplug_image.kernels.resize_normalize import ResizeNormalization


class Fused(Operator):
    """An operator that does the work of several.

    Attributes:
        reason: why, for those who ask what became of their function.
    """

    reason: ClassVar[str]


class _DecodePart(Fused):
    """What decoding a part of an image shares, whichever crop says where it lies."""

    reason = "decodes only the part of the picture that the crop needs"
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
        spec = TensorSpec(part.shape, part.dtype.name, "HWC")
        infer(spec)
        out: Tensor = context.empty(spec)
        out.numpy()[...] = part
        return out


class DecodeResizedCrop(_DecodePart):
    """Decodes what a random resized crop needs, and resizes it."""

    crop: RandomResizedCrop

    def infer(self, encoded: TensorSpec) -> TensorSpec:
        return self.crop.infer(self.decode.image_spec())

    def cpu(self, encoded: object, context: Context, *, tries: Array, place: Array, state: Decoder) -> Tensor:
        return self.crop.resize(self.part(encoded, tries, place, state), context)

    @property
    def channels(self) -> int:
        """Of what is decoded; 0 while that is not known before it is."""
        shape = self.decode.image_spec().shape or (0,)
        return (shape[-1] or 0) if self.decode.dtype == "uint8" else 0

    def part(self, encoded: object, tries: Array, place: Array, state: Decoder) -> Array:
        """The pixels to resize, which the calling thread's next call overwrites."""
        return self.decode.part(encoded, lambda shape: self.crop.box(shape, tries.tolist(), place.tolist()), state)


class DecodeCrop(_DecodePart):
    """Decodes what a crop needs."""

    crop: Crop
    position: PerSample[tuple[float, float]]
    box: PerSample[tuple[int, int, int, int] | None]

    def infer(self, encoded: TensorSpec) -> TensorSpec:
        return self.crop.infer(self.decode.image_spec())

    def cpu(
        self,
        encoded: object,
        context: Context,
        *,
        position: Sequence[float],
        box: Sequence[int] | None,
        state: Decoder,
    ) -> Tensor:
        return self.decoded(
            encoded, context, lambda shape: self.crop.part(shape, position, box), self.crop.infer, state
        )


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


class FlipNormalize(Fused):
    """Mirrors and normalises an image."""

    reason = "mirrors and normalises in one kernel"
    flip: Flip
    normalize: Normalize

    def infer(self, image: TensorSpec) -> TensorSpec:
        return self.normalize.infer(self.flip.infer(image))

    def cpu(self, image: Tensor, context: Context, *, flipped: bool) -> Tensor:
        return self.normalize.normalized(image, context, **{self.flip.direction: bool(flipped)})

    def cuda(self, images: Batch, context: CudaContext, *, flipped: Array) -> Batch:
        rows, columns = self.flip.mirrors(flipped)
        return self.normalize.normalized_batch(images, context, mirror_rows=rows, mirror_columns=columns)


class _ResizeNormalize(Fused):
    """What resizing and normalising share, whatever is resized; `flipped` is False where nothing is mirrored."""

    reason = "resizes, mirrors and normalises in one pass over the pixels"
    normalize: Normalize
    direction: Direction = "horizontal"
    flipped: PerSample[bool] = False

    def normalized(
        self, part: Array, size: tuple[int, int], resize: Resize | RandomResizedCrop, context: Context, flipped: bool
    ) -> Tensor:
        kernel, spec = self._prepared(part, size, resize)
        out: Tensor = context.empty(spec)
        mirror_rows, mirror_columns = (False, flipped) if self.direction == "horizontal" else (flipped, False)
        kernel(part, size, out.numpy(), mirror_rows, mirror_columns)
        return out

    def _prepared(
        self, part: Array, size: tuple[int, int], resize: Resize | RandomResizedCrop
    ) -> tuple[ResizeNormalization, TensorSpec]:
        kind = size, part.shape[2], part.dtype
        if kind not in self._by_kind:
            kernel = resizing(self.normalize, resize.interpolation, resize.antialias, part.shape[2])
            spec = self.normalize.infer(TensorSpec((*size, part.shape[2]), part.dtype.name, "HWC"))
            self._by_kind[kind] = kernel, spec
        return self._by_kind[kind]

    def on_gpu(
        self,
        images: Batch,
        sizes: Array,
        resize: Resize | RandomResizedCrop,
        context: CudaContext,
        flipped: Array,
        boxes: Array | None = None,
    ) -> Batch:
        """The images of a batch on a GPU, or parts of them, resized, mirrored and normalised."""
        from pipeplug_image.kernels.cuda.resample import resample

        self.normalize.infer(resize.infer(images.spec))
        factor, offset = self.normalize.line()
        rows, columns = (False, flipped) if self.direction == "horizontal" else (flipped, False)
        return resample(
            images,
            sizes,
            context,
            interpolation=resize.interpolation,
            antialias=resize.antialias,
            boxes=boxes,
            mirror_rows=rows,
            mirror_columns=columns,
            dtype=self.normalize.dtype,
            layout=self.normalize.layout,
            factor=factor,
            offset=offset,
        )

    @cached_property
    def _by_kind(self) -> dict[object, tuple[ResizeNormalization, TensorSpec]]:
        return {}  # by size, channels and dtype: of most pipelines all images are of one kind


@lru_cache(maxsize=64)
def resizing(normalize: Normalize, interpolation: Interpolation, antialias: bool, channels: int) -> ResizeNormalization:
    """The kernel for images of `channels` channels."""
    from pipeplug_image.kernels.resize_normalize import ResizeNormalization

    return ResizeNormalization(prepared(normalize, channels), interpolation, antialias=antialias)


class ResizeNormalize(_ResizeNormalize):
    """Resizes, mirrors and normalises an image."""

    resize: Resize

    def infer(self, image: TensorSpec) -> TensorSpec:
        return self.normalize.infer(self.resize.infer(image))

    def cpu(self, image: Tensor, context: Context, *, flipped: bool) -> Tensor:
        height, width, _ = self.resize.infer(image.spec).known_shape()
        return self.normalized(image.numpy(), (height, width), self.resize, context, flipped)

    def cuda(self, images: Batch, context: CudaContext, *, flipped: Array) -> Batch:
        return self.on_gpu(images, self.resize.targets(images.shapes), self.resize, context, flipped)


class ResizedCropNormalize(_ResizeNormalize):
    """Resizes a random part of an image, mirrors and normalises it."""

    crop: RandomResizedCrop

    def infer(self, image: TensorSpec) -> TensorSpec:
        return self.normalize.infer(self.crop.infer(image))

    def cpu(self, image: Tensor, context: Context, *, tries: Array, place: Array, flipped: bool) -> Tensor:
        return self.normalized(self.crop.part(image, tries, place), self.crop.size, self.crop, context, flipped)

    def cuda(self, images: Batch, context: CudaContext, *, tries: Array, place: Array, flipped: Array) -> Batch:
        boxes = self.crop.boxes(images, tries, place)
        return self.on_gpu(images, self.crop.targets, self.crop, context, flipped, boxes)


class DecodeResizedCropNormalize(_ResizeNormalize):
    """Decodes what random resized crops need, resizes, mirrors and normalises it: a part of a batch in one call."""

    splittable = True
    reason = f"{_DecodePart.reason}; {_ResizeNormalize.reason}"
    decode: DecodeResizedCrop

    def infer(self, encoded: TensorSpec) -> TensorSpec:
        return self.normalize.infer(self.decode.infer(encoded))

    def open(self) -> AbstractContextManager[Decoder]:
        return self.decode.open()

    def cpu(
        self, encoded: Batch, context: Context, *, tries: Array, place: Array, flipped: Array, state: Decoder
    ) -> Batch:
        spec, crop = self.infer(encoded.spec), self.decode.crop
        kernel = resizing(self.normalize, crop.interpolation, crop.antialias, self.decode.channels)
        out: Batch = context.empty_batch([spec] * len(encoded))
        files = [each.numpy().tobytes() if isinstance(each, Tensor) else each for each in encoded]
        results, areas, places = out.numpy(), tries.tolist(), place.tolist()
        mirrors = [(False, each) if self.direction == "horizontal" else (each, False) for each in flipped.tolist()]
        left: Sequence[int] = range(len(files))
        if kernel.compiled is not None:
            with suppress(MemoryError):  # a picture too large must not take the others along
                left = state.resample_parts(
                    files,
                    lambda row, shape: crop.box(shape, areas[row], places[row]),
                    self.decode.decode.options,
                    kernel.compiled,
                    results,
                    crop.size,
                    mirrors,
                    context.cancelled,
                )
        failed = set()
        for row in left:
            if context.cancelled():
                break
            try:
                part = self.decode.part(files[row], tries[row], place[row], state)
                kernel(part, crop.size, results[row], *mirrors[row])
            except Exception as error:
                context.fail(row, error)
                failed.add(row)
        return out.take([row for row in range(len(files)) if row not in failed]) if failed else out
