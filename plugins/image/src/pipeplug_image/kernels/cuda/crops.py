"""Crops of ragged batches on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeplug import PipeplugError
from pipeplug_image.kernels.cuda.resample import resample

if TYPE_CHECKING:
    from pipeplug import Batch, CudaContext

Array: TypeAlias = NDArray[Any]


def cropped(
    images: Batch, boxes: Array, context: CudaContext, box_of: Callable[[int, tuple[int, ...]], object]
) -> Batch:
    """Copies of parts of images.

    Args:
        images: (height, width, channels).
        boxes: y, x, height and width, int64 (images, 4), all 0 where there is no such part, which fails that image.
        context: of the kernel that asks.
        box_of: raises what is wrong with a row, given it and the shape of its image.
    """
    good = boxes[:, 2] > 0
    if not good.all():
        for row in np.flatnonzero(~good).tolist():
            try:
                box_of(row, tuple(images.shapes[row].tolist()))
            except PipeplugError as error:
                context.fail(row, error)
        images, boxes = images.take(np.flatnonzero(good).tolist()), boxes[good]
    return resample(images, boxes[:, 2:], context, boxes=boxes)
