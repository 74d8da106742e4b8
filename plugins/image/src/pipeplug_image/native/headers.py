"""The compiled reader of JPEGs' headers."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from pipeplug_image.native import library
from pipeplug_image.native.resample import Array

COLUMNS = 6
"""The numbers in the structure `headline` of headers.h."""


def read_rows(files: Sequence[bytes]) -> Array:
    """A table (files, columns) of what `codecs.headers` describes, in one call without the GIL.

    Raises RuntimeError when the kernels were not compiled: ask `library()` first.
    """
    compiled = library()
    if compiled is None:
        raise RuntimeError("the kernels of pipeplug-image were not compiled when it was installed")
    count = len(files)
    table = np.empty((count, COLUMNS), np.int64)
    sizes = np.fromiter(map(len, files), np.int64, count)
    data = (ctypes.c_char_p * count)(*files)
    size, pointer = ctypes.c_int64, ctypes.c_void_p
    compiled.pipeplug_read_headers.restype = None
    compiled.pipeplug_read_headers(data, pointer(sizes.ctypes.data), size(count), pointer(table.ctypes.data))
    return table
