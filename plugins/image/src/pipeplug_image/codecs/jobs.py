"""What a GPU's decoders take of a batch of files, found by threads of the CPU while the GPU has other work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeplug_image.codecs.exif import Box
from pipeplug_image.codecs.headers import COMPONENTS, END, HEIGHT, KIND, ORIENTATION, PROGRESSIVE, WIDTH, read_headers
from pipeplug_image.codecs.nvimgcodec import load
from pipeplug_image.codecs.options import DecodeOptions
from pipeplug_image.kernels.opencv import Array

Boxes: TypeAlias = Callable[[NDArray[np.intp], NDArray[np.int64]], NDArray[np.int64]]
"""Gives parts (rows, 4) as y, x, height, width for rows of a batch and the height and width of their pictures; all 0
where there is none."""


class Job(NamedTuple):
    """A JPEG, or a part of one, that a GPU is to decode.

    Attributes:
        stream: nvImageCodec's `CodeStream` of it, which keeps the data.
        height, width: of the result.
        progressive: whether it is a progressive JPEG.
        encoded: what was to be decoded: data, or a path.
        box: y, x, height and width of the part; None for the whole.
    """

    stream: Any
    height: int
    width: int
    progressive: bool
    encoded: object
    box: Box | None


class Decoded(NamedTuple):
    """A picture, or a part of one, that the CPU has decoded."""

    pixels: Array


def find_jobs(
    encoded: Sequence[object], files: Sequence[bytes], options: DecodeOptions, boxes: Boxes | None = None
) -> list[Job | None]:
    """The jobs for a GPU, a row a file; None for what the CPU is to decode, or to refuse.

    A GPU gets plain JPEGs that are wanted as they are stored: upright, RGB or grey, of 8 bits, not reduced, within the
    limit on pixels.

    Args:
        encoded: what was to be decoded.
        files: its content.
        options: how.
        boxes: which parts; None for whole pictures.
    """
    jobs: list[Job | None] = [None] * len(files)
    if options.mode not in ("RGB", "gray") or options.dtype != "uint8" or options.reduce != 1:
        return jobs
    table = read_headers(files)
    wanted = (table[:, KIND] > 0) & (table[:, HEIGHT] * table[:, WIDTH] <= options.max_pixels)
    if options.orient:
        wanted &= table[:, ORIENTATION] == 1
    rows = np.flatnonzero(wanted)
    parts: list[Any] = [None] * len(rows)
    if boxes is not None:
        found = boxes(rows, table[rows, HEIGHT : WIDTH + 1])
        inside = found[:, 2] > 0
        rows, parts = rows[inside], found[inside].tolist()
    library = load()
    for row, header, part in zip(rows.tolist(), table[rows].tolist(), parts, strict=True):
        stream = _open(library, files[row], header, part)
        if stream is not None:
            height, width = header[HEIGHT : WIDTH + 1] if part is None else part[2:]
            box: Any = None if part is None else tuple(part)
            jobs[row] = Job(stream, height, width, header[KIND] == PROGRESSIVE, encoded[row], box)
    return jobs


def _open(library: Any, data: bytes, header: list[int], part: list[int] | None) -> Any:
    """The stream of a file, or of a part of it; None when the library does not see what we see."""
    # Some cameras put more files behind the picture.
    content = data if header[END] == len(data) else np.frombuffer(data, np.uint8, header[END])
    try:
        stream = library.CodeStream(content)
        if part is not None:
            y, x, height, width = part
            stream = stream.get_sub_code_stream(0, library.Region(y, x, y + height, x + width))
        # Reads the header, so that the one thread that decodes finds it read.
        seen = [stream.height, stream.width, stream.num_channels]
    except RuntimeError:
        return None
    return stream if seen == [header[HEIGHT], header[WIDTH], header[COMPONENTS]] else None
