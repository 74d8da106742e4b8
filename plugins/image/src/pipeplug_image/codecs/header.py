"""What the header of an encoded picture says."""

from __future__ import annotations

from typing import Literal, NamedTuple

from pipeplug import DecodeError
from pipeplug_image.limits import MAX_PIXELS

Format = Literal["JPEG", "PNG", "WebP", "TIFF", "BMP", "GIF"]
Color = Literal["L", "LA", "RGB", "RGBA", "CMYK"]
Mode = Literal["RGB", "gray", "RGBA", "unchanged"]

CHANNELS = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4, "CMYK": 4}
MODE_COLORS: dict[str, Color] = {"RGB": "RGB", "gray": "L", "RGBA": "RGBA"}


class ImageHeader(NamedTuple):
    """What the first bytes of a file say about the picture in it, in the way it is stored.

    Attributes:
        format: found from the content.
        height, width: in pixels, before `orientation` is applied.
        color: the channels as `mode="unchanged"` gives them, in Pillow's words. A palette counts as the colours in it,
            with alpha where it has transparent ones; CMYK and YCCK are both CMYK.
        dtype: uint8 (1 to 8 bits a channel), uint16, int32 or float32.
        orientation: EXIF's, 1 to 8; 1 when there is none.
        progressive: whether a JPEG stores its coefficients in several passes, or a PNG or GIF is interlaced.
        palette: whether pixels are stored as indices of colours.
        animated: whether there are further frames or pages; the first one is decoded.
        body: the offset at which pixels of a JPEG begin.
        block_width: of a JPEG, the pixels in a row of a block that is coded as one, if its first component has the
            most of them, as all but odd files do.
    """

    format: Format
    height: int
    width: int
    color: Color
    dtype: str = "uint8"
    orientation: int = 1
    progressive: bool = False
    palette: bool = False
    animated: bool = False
    body: int = 0
    block_width: int = 0

    @property
    def channels(self) -> int:
        """The number of channels that `mode="unchanged"` gives."""
        return CHANNELS[self.color]

    def color_of(self, mode: Mode) -> Color:
        """The channels that decoding with `mode` gives."""
        return self.color if mode == "unchanged" else MODE_COLORS[mode]

    def output_size(self, *, orient: bool = True, reduce: int = 1) -> tuple[int, int]:
        """Height and width of the decoded picture: `ceil(size / reduce)`, swapped where the orientation turns it."""
        height, width = -(-self.height // reduce), -(-self.width // reduce)
        return (width, height) if orient and self.orientation > 4 else (height, width)

    def output_shape(self, mode: Mode = "RGB", *, orient: bool = True, reduce: int = 1) -> tuple[int, int, int]:
        """The shape (height, width, channels) of the decoded picture."""
        return (*self.output_size(orient=orient, reduce=reduce), CHANNELS[self.color_of(mode)])

    def check_size(self, max_pixels: int = MAX_PIXELS) -> None:
        """Raises DecodeError when the picture has more pixels than that, or none."""
        if self.height * self.width > max_pixels:
            raise DecodeError(
                f"{self.format} of {self.width} x {self.height} = {self.height * self.width:,} pixels is larger than "
                f"the limit of {max_pixels:,}; raise max_pixels if the file can be trusted"
            )
        if self.height < 1 or self.width < 1:
            raise DecodeError(f"{self.format} of {self.width} x {self.height} pixels: its header is broken")
