"""How pictures are to be decoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pipeplug_image.codecs.header import ImageHeader, Mode
from pipeplug_image.limits import MAX_PIXELS


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeOptions:
    """How pictures are decoded.

    Attributes:
        mode: the channels: "RGB", "gray", "RGBA", or "unchanged" as `ImageHeader.color` names them (CMYK in Pillow's
            polarity: 0 is no ink).
        dtype: "uint8", where 16 bits v become v / 257 rounded, or "unchanged": uint16, int32 or float32 where stored.
        orient: whether EXIF orientation is applied.
        reduce: makes the picture smaller by this factor, sizes rounded up. JPEG scales its blocks, which is what makes
            it faster; other formats, and a JPEG smaller than the factor, average blocks of pixels.
        max_pixels: the largest width * height that is decoded.
    """

    mode: Mode = "RGB"
    dtype: Literal["uint8", "unchanged"] = "uint8"
    orient: bool = True
    reduce: Literal[1, 2, 4, 8] = 1
    max_pixels: int = MAX_PIXELS

    def shape(self, header: ImageHeader) -> tuple[int, int, int]:
        """The shape (height, width, channels) of the decoded picture."""
        return header.output_shape(self.mode, orient=self.orient, reduce=self.reduce)

    def are_plain(self, header: ImageHeader) -> bool:
        """Whether TurboJPEG gives the pixels of a picture as they are wanted."""
        return (
            header.format == "JPEG"
            and header.color != "CMYK"
            and self.reduce == 1
            and self.dtype == "uint8"
            and (header.orientation == 1 or not self.orient)
        )

    def dtype_of(self, header: ImageHeader) -> str:
        """The dtype of the decoded picture."""
        return "uint8" if self.dtype == "uint8" else header.dtype
