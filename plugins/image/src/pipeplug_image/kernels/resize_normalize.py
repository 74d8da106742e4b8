"""Resizing, mirroring and normalising in one pass over the pixels."""

from __future__ import annotations

import numpy as np

from pipeplug_image.kernels.normalization import Normalization
from pipeplug_image.kernels.opencv import Array
from pipeplug_image.kernels.resample import Interpolation, resize
from pipeplug_image.native import library
from pipeplug_image.native.resample import Resampler, takes


class ResizeNormalization:
    """An image resized as `resample.resize` does, then mirrored and normalised as a `Normalization` says.

    Linear resizing of uint8 to float32 is done by the compiled kernel where there is one, which does not round what it
    resized to whole levels: within 1 level / std of the steps one after the other. Anything else equals those.
    Threads may share it.

    Attributes:
        compiled: the kernel for uint8 images; None where there is none.
    """

    def __init__(self, normalization: Normalization, interpolation: Interpolation, *, antialias: bool) -> None:
        self._normalization = normalization
        self._interpolation: Interpolation = interpolation
        self._antialias = antialias
        self.compiled: Resampler | None = None
        if library() is not None and interpolation == "linear" and normalization.dtype == "float32":
            self.compiled = Resampler(
                antialias=antialias,
                form="planes" if normalization.layout == "CHW" else "floats",
                factor=normalization.factor.tolist(),
                offset=normalization.offset.tolist(),
            )

    def __call__(
        self, image: Array, size: tuple[int, int], out: Array, mirror_rows: bool = False, mirror_columns: bool = False
    ) -> None:
        """Writes the image (height, width, channels) at `size` (height, width), mirrored and normalised, to `out`."""
        if self.compiled is not None and takes(image) and out.flags.c_contiguous:
            rows, columns = (0.0, image.shape[0] / size[0]), (0.0, image.shape[1] / size[1])
            self.compiled(image, out, size, rows, columns, mirror_rows, mirror_columns)
            return
        small = np.empty((*size, image.shape[2]), image.dtype)
        resize(image, size, interpolation=self._interpolation, antialias=self._antialias, out=small)
        self._normalization(small, horizontal=mirror_columns, vertical=mirror_rows, out=out)
