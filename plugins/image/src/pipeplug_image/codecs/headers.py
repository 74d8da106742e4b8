"""What the headers of many files say, for decoders that do not notice what is wrong with a file."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipeplug_image.codecs.formats.plain_jpeg import read_row
from pipeplug_image.kernels.opencv import Array
from pipeplug_image.native import library
from pipeplug_image.native.headers import COLUMNS, read_rows

KIND, HEIGHT, WIDTH, COMPONENTS, ORIENTATION, END = range(COLUMNS)
"""The columns of the table."""

BASELINE, PROGRESSIVE = 1, 2
"""The kinds of plain JPEG: of 8 bits, grey or YCbCr, from the first marker to the last as libraries write them."""


def read_headers(files: Sequence[bytes]) -> Array:
    """A table (files, columns): what is known of each file, all 0 of one that is no plain JPEG.

    The columns: the kind; height, width and number of components, as stored; the orientation, 1 to 8, by EXIF or
    XMP, 1 when there is none; and the offset of what follows the picture in the file.

    No file is wrongly taken for a plain one because it is cut, or because a marker, a table or a scan is damaged. What
    is damaged within coded pixels, and still is no marker, is not seen.
    """
    if library() is not None:
        return read_rows(files)
    return np.array([read_row(data) for data in files], np.int64).reshape(len(files), COLUMNS)
