"""`image.normalize`."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from pipeplug import ArgumentError, Batch, Context, CudaContext, Operator, Tensor, TensorSpec
from pipeplug_image.pictures import check_per_channel, picture

if TYPE_CHECKING:
    from pipeplug import Array
    from pipeplug_image.kernels.normalization import Normalization


class Normalize(Operator):
    """Compute `scale * (x - mean) / std + shift`.

    To integers, halves round to even and values saturate. A GPU computes in float32: within 1e-5 of the CPU's range, to
    integers within 1.

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
        spec = picture(image)
        check_per_channel("mean", self.mean, spec)
        check_per_channel("std", self.std, spec)
        height, width, count = spec.shape or (None, None, None)
        shape = (height, width, count) if self.layout == "HWC" else (count, height, width)
        return TensorSpec(shape, self.dtype, self.layout)

    def cpu(self, image: Tensor, context: Context) -> Tensor:
        return self.normalized(image, context)

    def cuda(self, images: Batch, context: CudaContext) -> Batch:
        return self.normalized_batch(images, context)

    def normalized_batch(
        self,
        images: Batch,
        context: CudaContext,
        *,
        mirror_rows: Array | bool = False,
        mirror_columns: Array | bool = False,
    ) -> Batch:
        """The images of a batch on a GPU, mirrored first, normalised in one pass."""
        from pipeplug_image.kernels.cuda.resample import resample

        self.infer(images.spec)
        factor, offset = self.line()
        return resample(
            images,
            images.shapes[:, :2],
            context,
            mirror_rows=mirror_rows,
            mirror_columns=mirror_columns,
            dtype=self.dtype,
            layout=self.layout,
            factor=factor,
            offset=offset,
        )

    def line(self) -> tuple[list[float], list[float]]:
        """The factors and offsets of factor * x + offset, by channel, or one of each."""
        import numpy as np

        factor = self.scale / np.atleast_1d(np.array(self.std, np.float64))
        offset = self.shift - factor * np.atleast_1d(np.array(self.mean, np.float64))
        return np.broadcast_to(factor, offset.shape).tolist(), offset.tolist()

    def normalized(
        self, image: Tensor, context: Context, *, horizontal: bool = False, vertical: bool = False
    ) -> Tensor:
        """The image, mirrored left to right or upside down first, normalised in one pass."""
        out: Tensor = context.empty(result_of(self, image.shape, image.dtype, image.layout))
        prepared(self, image.shape[2])(image.numpy(), horizontal=horizontal, vertical=vertical, out=out.numpy())
        return out


@lru_cache(maxsize=1024)
def result_of(operator: Normalize, shape: tuple[int, ...], dtype: str, layout: str | None) -> TensorSpec:
    """The spec of the result for one image; most batches have images of one size."""
    return operator.infer(TensorSpec(shape, dtype, layout))


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
