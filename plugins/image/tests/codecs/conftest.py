"""Pictures that the tests encode."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from pipeplug_image.codecs.decode import Decoder


class Samples:
    """Small pictures with no two equal corners, and files of them."""

    height, width = 37, 53

    def __init__(self) -> None:
        y, x = np.mgrid[: self.height, : self.width]
        self.rgb = np.dstack((x * 4, y * 6, (x + y) * 2)).astype(np.uint8)
        self.rgba = np.dstack((self.rgb, (x * 3 + y) % 256)).astype(np.uint8)
        self.deep = np.dstack((x * 1200, y * 1700, (x * 31 + y * 97) * 13)).astype(np.uint16)
        rgb, rgba = Image.fromarray(self.rgb), Image.fromarray(self.rgba)
        self.images = {
            "L": rgb.convert("L"),
            "LA": rgba.convert("LA"),
            "RGB": rgb,
            "RGBA": rgba,
            "P": rgb.quantize(64),
            "1": rgb.convert("1"),
            "CMYK": Image.merge("CMYK", (*rgb.split(), Image.fromarray(self.rgb[:, :, 0] // 3))),
        }

    def noise(self, height: int, width: int, seed: int = 0) -> np.ndarray:
        return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)

    def file(self, format: str, mode: str = "RGB", orientation: int = 1, image: Image.Image | None = None, **options):
        if orientation != 1:
            options["exif"] = self.exif(orientation)
        file = io.BytesIO()
        (self.images[mode] if image is None else image).save(file, format, **options)
        return file.getvalue()

    def exif(self, orientation: int) -> Image.Exif:
        exif = Image.Exif()
        exif[0x0112] = orientation
        return exif


@pytest.fixture(scope="session")
def samples():
    return Samples()


@pytest.fixture(params=["turbo", "pillow"])
def decoder(request):
    """A decoder that uses TurboJPEG, and one that does without."""
    with Decoder(turbo=request.param == "turbo") as opened:
        yield opened
