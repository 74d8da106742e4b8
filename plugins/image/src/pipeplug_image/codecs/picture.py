"""What the decoders return."""

from __future__ import annotations

from typing import NamedTuple

from pipeplug_image.kernels.opencv import Array


class Picture(NamedTuple):
    """Decoded pixels (height, width, channels), and what the decoder complained about, or None."""

    pixels: Array
    complaint: str | None
