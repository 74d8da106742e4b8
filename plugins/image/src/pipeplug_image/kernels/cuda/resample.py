"""Resizing, mirroring and normalising ragged batches on a GPU, in one pass over the pixels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeplug import Batch, CudaKernel, CudaSource

if TYPE_CHECKING:
    from pipeplug import CudaContext

Array: TypeAlias = NDArray[Any]
Interpolation: TypeAlias = Literal["nearest", "linear", "cubic", "lanczos"]

SOURCE = CudaSource(Path(__file__).with_name("resample.cu"))
FILTERS = {"nearest": 0, "linear": 1, "cubic": 2, "lanczos": 3}
SIDE, WARPS = 32, 8

ROW = np.dtype(
    [
        ("source", "u8"),
        ("target", "u8"),
        ("start", "f8", 2),
        ("step", "f8", 2),
        ("stretch", "f8", 2),
        ("stride", "i8"),
        ("size", "i4", 2),
        ("out_size", "i4", 2),
        ("mirror", "i4", 2),
        ("factor", "f4", 4),
        ("offset", "f4", 4),
    ],
    align=True,
)
"""The structure `sample` of resample.cu."""


def kernel(
    pixel: str, result: str, channels: int, interpolation: Interpolation, layout: str, antialias: bool = True
) -> CudaKernel:
    """The kernel for pixels and results of these dtypes."""
    overshoots = interpolation in ("cubic", "lanczos")
    return SOURCE.kernel(
        "resample",
        PIXEL=pixel,
        RESULT=result,
        CHANNELS=channels,
        FILTER=FILTERS[interpolation],
        PLANAR=int(layout == "CHW"),
        ROUNDED=int(overshoots and antialias and pixel == "uint8"),
    )


VARIANTS = (
    *(kernel("uint8", "float32", 3, each, "CHW") for each in ("nearest", "linear", "cubic", "lanczos")),
    kernel("uint8", "float16", 3, "linear", "CHW"),
    kernel("uint8", "uint8", 1, "linear", "HWC"),
    kernel("uint16", "uint16", 4, "cubic", "HWC"),
    kernel("float32", "int16", 3, "linear", "HWC"),
)
"""One of each kind, for tests that compile them."""


def resample(
    images: Batch,
    sizes: Array,
    context: CudaContext,
    *,
    interpolation: Interpolation = "nearest",
    antialias: bool = True,
    boxes: Array | None = None,
    mirror_rows: Array | bool = False,
    mirror_columns: Array | bool = False,
    factor: Sequence[float] = (1.0,),
    offset: Sequence[float] = (0.0,),
    dtype: str | None = None,
    layout: str = "HWC",
) -> Batch:
    """The images, or parts of them, at other sizes, mirrored, then `factor * x + offset`.

    Args:
        images: (height, width, channels).
        sizes: height and width of the results, int64 (images, 2) or (2,).
        context: of the kernel that asks.
        interpolation: as `image.resize` defines it; nearest at the parts' own size moves pixels and nothing else.
        antialias: whether the filter stretches where an image becomes smaller.
        boxes: y, x, height and width of the parts, int64 (images, 4), each within its image; None takes all.
        mirror_rows: whether rows are turned upside down, bool (images,) or one for all.
        mirror_columns: whether columns are turned left to right.
        factor: by channel, or one.
        offset: by channel, or one.
        dtype: of the results; that of the images otherwise. To integers, halves round to even and values saturate.
        layout: of the results.
    """
    counts = images.shapes[:, 2]
    if not len(counts) or (counts == counts[0]).all():
        return _alike(images, np.broadcast_to(sizes, (len(images), 2)), context, interpolation, antialias, boxes,
                      (mirror_rows, mirror_columns), (factor, offset), dtype or images.dtype, layout)  # fmt: skip
    order: list[Array] = []
    parts = []
    for count in np.unique(counts).tolist():
        rows = np.flatnonzero(counts == count)
        order.append(rows)
        mirrors = (_rows(mirror_rows, rows), _rows(mirror_columns, rows))
        own = np.broadcast_to(sizes, (len(images), 2))[rows]
        parts.append(
            _alike(images.take(rows.tolist()), own, context, interpolation, antialias,
                   None if boxes is None else boxes[rows], mirrors, (factor, offset), dtype or images.dtype, layout)
        )  # fmt: skip
    back = np.argsort(np.concatenate(order))
    addresses = np.concatenate([part.addresses for part in parts])[back]
    shapes = np.concatenate([part.shapes for part in parts])[back]
    return Batch.on_device(addresses, shapes, parts[0].dtype, layout, owner=tuple(parts), device=context.device)


def _rows(value: Array | bool, rows: Array) -> Array | bool:
    return value[rows] if isinstance(value, np.ndarray) else value


def _alike(
    images: Batch,
    sizes: Array,
    context: CudaContext,
    interpolation: Interpolation,
    antialias: bool,
    boxes: Array | None,
    mirrors: tuple[Array | bool, Array | bool],
    line: tuple[Sequence[float], Sequence[float]],
    dtype: str,
    layout: str,
) -> Batch:
    """The same for images of one number of channels."""
    shapes = images.shapes
    channels = int(shapes[0, 2]) if len(shapes) else 3
    planes = np.full((len(shapes), 1), channels)
    out: Batch = context.empty_samples(
        np.concatenate((planes, sizes) if layout == "CHW" else (sizes, planes), axis=1), dtype, layout
    )
    if not len(shapes):
        return out
    rows = np.zeros(len(shapes), ROW)
    rows["source"], rows["target"] = images.addresses, out.addresses
    rows["stride"] = shapes[:, 1] * channels
    rows["size"] = shapes[:, :2] if boxes is None else boxes[:, 2:]
    if boxes is not None:
        first = boxes[:, 0] * rows["stride"] + boxes[:, 1] * channels
        rows["source"] += (first * np.dtype(images.dtype).itemsize).astype(np.uint64)
    rows["out_size"] = sizes
    rows["step"] = rows["size"] / sizes
    rows["stretch"] = np.maximum(rows["step"], 1) if antialias else 1
    rows["mirror"][:, 0], rows["mirror"][:, 1] = mirrors
    rows["factor"], rows["offset"] = (_four(values) for values in line)
    tiles = -(-sizes // SIDE)
    grid = int(tiles.prod(axis=1).max()), len(rows)
    context.launch(
        kernel(images.dtype, dtype, channels, interpolation, layout, antialias),
        grid,
        (SIDE, WARPS),
        context.upload(rows),
    )
    return out


def _four(values: Sequence[float]) -> list[float]:
    given = [float(each) for each in values]
    return (given + given[-1:] * 4)[:4]
