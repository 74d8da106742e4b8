"""The plugin's own compiled kernels, and whether they are there.

They are plain C without Python's interface, called with ctypes, which gives up the GIL. Where no compiler was at hand
when the plugin was installed they are missing, and OpenCV and Pillow do their work in more steps.
"""

from __future__ import annotations

import ctypes
from functools import cache
from importlib.util import find_spec


@cache
def find_library() -> str | None:
    """Where the compiled kernels are; None when they were not compiled."""
    spec = find_spec("pipeplug_image.native.kernels")  # finds it without importing it: it is no Python module
    return None if spec is None else spec.origin


@cache
def library() -> ctypes.CDLL | None:
    """The compiled kernels, loaded; None when they were not compiled, or cannot be loaded."""
    path = find_library()
    try:
        return None if path is None else ctypes.CDLL(path)
    except OSError:  # compiled for another processor
        return None
