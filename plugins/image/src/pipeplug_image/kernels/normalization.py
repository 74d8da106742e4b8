"""Normalisation of pixels into the dtype and layout that a model reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import cv2
import numpy as np

from pipeplug import ArgumentError
from pipeplug_image.kernels.convert import can_look_up, cast, look_up, rounded
from pipeplug_image.kernels.geometry import flip as mirror
from pipeplug_image.kernels.geometry import transpose
from pipeplug_image.kernels.opencv import Array, Fill, channels_of, per_channel, settle, target

if TYPE_CHECKING:
    from numpy.typing import NDArray

Layout: TypeAlias = Literal["HWC", "CHW"]


class Normalization:
    """`scale * (x - mean) / std + shift`, prepared for images of one number of channels.

    `mean` and `std` are in the input's units, one for all channels or one a channel. To integers, halves round to even
    and values saturate. uint8 images are looked up in tables of the exact values, rounded once, except for float32 CHW,
    which OpenCV computes in float32 in one pass: |error| <= 2^-22 * (|x| + |mean|) * |scale / std|, and as much of
    |shift|. Other images are computed in float32. Values are shared by threads; nothing changes after construction.

    Attributes:
        factor: by channel, what pixels are multiplied by.
        offset: by channel, what is added then.

    Raises ArgumentError when a `std` or the scale is 0, or the number of values is not that of the channels.
    """

    def __init__(
        self,
        channels: int,
        mean: Fill,
        std: Fill,
        *,
        scale: float = 1.0,
        shift: float = 0.0,
        dtype: str = "float32",
        layout: Layout = "CHW",
    ) -> None:
        self.channels, self.dtype, self.layout = channels, dtype, layout
        spread = np.array(per_channel(std, channels, "std"))
        if scale == 0 or not spread.all():
            raise ArgumentError(f"std and scale must not be 0, got std {spread.tolist()} and scale {scale}")
        self.factor = scale / spread
        self.offset = shift - self.factor * per_channel(mean, channels, "mean")
        self._one_pass = _one_pass(self.factor, self.offset) if (dtype, layout) == ("float32", "CHW") else None
        values = (np.arange(256.0)[:, None] - per_channel(mean, channels, "mean")) * self.factor + shift
        self._table = rounded(values, dtype)[None]

    def __call__(
        self, image: Array, *, horizontal: bool = False, vertical: bool = False, out: Array | None = None
    ) -> Array:
        """The image, mirrored left to right or upside down first, normalised.

        Raises ArgumentError for another number of channels than prepared for.
        """
        if channels_of(image) != self.channels:
            raise ArgumentError(f"prepared for {self.channels} channels, got an image of shape {image.shape}")
        pixels = image.reshape(*image.shape[:2], self.channels)
        shape = pixels.shape if self.layout == "HWC" else (self.channels, *pixels.shape[:2])
        direct = target(out, shape, self.dtype)
        return settle(self._run(mirror(pixels, horizontal=horizontal, vertical=vertical), direct, shape), out, shape)

    def _run(self, image: Array, out: Array | None, shape: tuple[int, ...]) -> Array:
        if self._one_pass is not None and image.dtype.kind == "u":  # OpenCV 4 overwrites a float image here
            blob = cv2.dnn.blobFromImageWithParams(image, None if out is None else out[None], self._one_pass)
            return blob.reshape(shape) if out is None or not _shares(blob, out) else out
        if can_look_up(image, self.dtype):
            return self._looked_up(image, out)
        return self._computed(image)

    def _looked_up(self, image: Array, out: Array | None) -> Array:
        if self.layout == "HWC":
            return look_up(image, self._table, out)
        # Planes first would be faster alone, but twice the calls that wait for the interpreter among threads.
        return transpose(look_up(image, self._table), "HWC", "CHW", out=out)

    def _computed(self, image: Array) -> Array:
        matrix = np.column_stack((np.diag(self.factor), self.offset))
        values = cv2.transform(cast(image, "float32"), matrix).reshape(image.shape)
        result = cast(values, self.dtype)
        return result if self.layout == "HWC" else transpose(result, "HWC", "CHW")


def normalize(
    image: Array,
    mean: Fill,
    std: Fill,
    *,
    scale: float = 1.0,
    shift: float = 0.0,
    dtype: str = "float32",
    layout: Layout = "CHW",
    horizontal: bool = False,
    out: Array | None = None,
) -> Array:
    """One image normalised; see `Normalization`, which is what to keep when there are many."""
    prepared = Normalization(channels_of(image), mean, std, scale=scale, shift=shift, dtype=dtype, layout=layout)
    return prepared(image, horizontal=horizontal, out=out)


def _one_pass(factor: NDArray[np.float64], offset: NDArray[np.float64]) -> cv2.dnn.Image2BlobParams:
    parameters = cv2.dnn.Image2BlobParams()
    parameters.scalefactor = tuple(np.pad(factor, (0, 4 - len(factor))).tolist())
    parameters.mean = tuple(np.pad(-offset / factor, (0, 4 - len(factor))).tolist())
    parameters.ddepth = cv2.CV_32F
    return parameters


def _shares(blob: Array, out: Array) -> bool:
    return np.may_share_memory(blob, out)
