"""Loading nvImageCodec, NVIDIA's library that decodes pictures on GPUs. It is optional, and loaded when needed."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from tempfile import TemporaryFile
from threading import Lock
from typing import Any

from pipeplug import DeviceError

_VERBOSITY = "PYNVIMGCODEC_VERBOSITY"
"""The variable that the library asks, once, how much to print: 0 is nothing. What it fails at we report ourselves."""

_NOTES = re.compile(rb"Failed to load nv(jpeg|jpeg2k|tiff) library|Note: If using nvImageCodec's Python distribution")
"""What it prints about libraries for formats that are decoded without it, and about nvJPEG, of which we tell."""

_ADVICE = 'pip install "pipeplug-image[cuda13]" (or [cuda12])'
_LOADING = Lock()


def find_version() -> str | None:
    """The version that is installed; None when there is none."""
    for distribution in ("nvidia-nvimgcodec-cu13", "nvidia-nvimgcodec-cu12"):
        with suppress(PackageNotFoundError):
            return version(distribution)
    return None


def load() -> Any:
    """The module `nvidia.nvimgcodec`.

    Raises DeviceError, saying what to install, when it or nvJPEG, which it works with, is missing.
    """
    with _LOADING:
        return _load()


@cache
def _load() -> Any:
    try:
        with _quiet():
            from nvidia import nvimgcodec
    except ImportError as error:
        raise DeviceError(f"image.decode on a GPU needs nvImageCodec ({error}): {_ADVICE}") from error
    if not _has_nvjpeg(nvimgcodec.__cuda_version__ // 1000):
        raise DeviceError(f"image.decode on a GPU needs nvJPEG, which nvImageCodec has not found: {_ADVICE}")
    return nvimgcodec


def _has_nvjpeg(major: int) -> bool:
    """Whether nvJPEG is loaded; without it nvImageCodec would refuse every picture, and not say why."""
    if sys.platform != "linux":
        return True  # there is no way to ask
    try:
        ctypes.CDLL(f"libnvjpeg.so.{major}", mode=os.RTLD_NOLOAD)
    except OSError:
        return False
    return True


@contextmanager
def _quiet() -> Iterator[None]:
    """Lets the library be loaded without a word about what is not needed."""
    asked = os.environ.get(_VERBOSITY)
    if asked is None:
        os.environ[_VERBOSITY] = "0"
    try:
        with _without_notes() if sys.platform == "linux" else nullcontext():
            yield
    finally:
        if asked is None:
            del os.environ[_VERBOSITY]


@contextmanager
def _without_notes() -> Iterator[None]:
    """Keeps lines of the standard error back, and passes them on in the end but for `_NOTES`."""
    try:
        error = os.dup(2)
    except OSError:  # there is none
        yield
        return
    with TemporaryFile() as kept:
        os.dup2(kept.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(error, 2)
            kept.seek(0)
            for line in kept:
                if not _NOTES.match(line):
                    os.write(error, line)
            os.close(error)
