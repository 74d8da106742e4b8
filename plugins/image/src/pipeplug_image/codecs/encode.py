"""Arrays to JPEG."""

from __future__ import annotations

from typing import Literal

import cv2
import numpy as np

from pipeplug import ArgumentError, SpecError
from pipeplug_image.kernels.opencv import Array

Subsampling = Literal["4:4:4", "4:2:2", "4:2:0", "4:4:0", "4:1:1"]
_SUBSAMPLINGS = {
    "4:4:4": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444,
    "4:2:2": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_422,
    "4:2:0": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_420,
    "4:4:0": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_440,
    "4:1:1": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_411,
}


def encode_jpeg(image: Array, quality: int = 95, *, subsampling: Subsampling = "4:2:0") -> bytes:
    """A picture as a JPEG, by libjpeg-turbo as OpenCV brings it.

    Args:
        image: uint8, (height, width, 1) grey or (height, width, 3) RGB, sides of 1 to 65,500.
        quality: 1 to 100, by the scale of the Independent JPEG Group.
        subsampling: how many pixels share one colour.

    Raises:
        SpecError: the image is something else.
        ArgumentError: quality or subsampling do not exist.
    """
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] not in (1, 3):
        raise SpecError(f"JPEG holds uint8 of (height, width, 1 or 3), got {image.dtype} {image.shape}")
    if not all(1 <= side <= 65_500 for side in image.shape[:2]):
        raise SpecError(f"JPEG holds pictures with sides of 1 to 65500 pixels, got {image.shape}")
    if not 1 <= quality <= 100 or subsampling not in _SUBSAMPLINGS:
        raise ArgumentError(f"quality is 1 to 100 and subsampling one of {', '.join(_SUBSAMPLINGS)}, "
                            f"got {quality} and {subsampling!r}")  # fmt: skip
    pixels = image if image.shape[2] == 1 else cv2.cvtColor(image, cv2.COLOR_RGB2BGR)
    options = [cv2.IMWRITE_JPEG_QUALITY, quality]
    if image.shape[2] == 3:
        options += [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, _SUBSAMPLINGS[subsampling]]
    done, data = cv2.imencode(".jpg", pixels, options)
    if not done:
        raise SpecError(f"OpenCV cannot encode an image of {image.shape} as JPEG")
    return data.tobytes()
