"""`image.decode`."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal

from pipeplug import ArgumentError, Context, Operator, SpecError, TensorSpec
from pipeplug_image.limits import MAX_PIXELS

if TYPE_CHECKING:
    from pipeplug import Array
    from pipeplug_image.codecs.decode import Decoder

Mode = Literal["RGB", "gray", "RGBA", "unchanged"]
Part = tuple[int, int, int, int]
_CHANNELS = {"RGB": 3, "gray": 1, "RGBA": 4, "unchanged": None}


class Decode(Operator):
    """Decode an encoded image: JPEG, PNG, WebP, TIFF, BMP or GIF (its first frame).

    The content decides the format, never a file's name. CMYK and YCCK become the RGB that Pillow gives. Alpha is
    dropped, not blended, when it is not asked for. The size is checked from the header before memory is taken.

    Inputs: encoded, `bytes`, another buffer of bytes, or a path.
    Outputs: image (height, width, channels). With `truncated="partial"` a dict of `image` and `truncated`, a bool.

    Args:
        mode: the channels: `"RGB"` 3, `"gray"` 1, `"RGBA"` 4 (opaque where there is no alpha), `"unchanged"` as stored
            (CMYK in Pillow's polarity).
        dtype: `"uint8"`, where 16 bits v become v / 257, or `"unchanged"`: uint16 for 16 bits a channel.
        orient: whether EXIF orientation is applied, as Pillow's `exif_transpose` does.
        reduce: makes the image smaller by this factor, sizes rounded up; a JPEG decodes faster so.
        truncated: whether a file that ends early is an error, or what there is of it is returned with a flag.
        max_pixels: the largest width * height that is decoded.

    Raises:
        DecodeError: empty, cut, broken, larger than `max_pixels`, or of an unknown format.
    """

    mode: Mode = "RGB"
    dtype: Literal["uint8", "unchanged"] = "uint8"
    orient: bool = True
    reduce: Literal[1, 2, 4, 8] = 1
    truncated: Literal["raise", "partial"] = "raise"
    max_pixels: int = MAX_PIXELS

    def check(self) -> None:
        if self.max_pixels < 1:
            raise ArgumentError(f"max_pixels is at least 1, got {self.max_pixels}")

    def infer(self, encoded: TensorSpec) -> TensorSpec | dict[str, TensorSpec]:
        if encoded.dtype not in (None, "object", "uint8"):
            raise SpecError(f"needs encoded bytes, got {encoded}")
        image = TensorSpec((None, None, _CHANNELS[self.mode]), "uint8" if self.dtype == "uint8" else None, "HWC")
        return image if self.truncated == "raise" else {"image": image, "truncated": TensorSpec((), "bool")}

    def open(self) -> AbstractContextManager[Decoder]:
        from pipeplug_image.codecs.decode import Decoder

        return Decoder()

    def peek(self, encoded: object) -> TensorSpec:
        return TensorSpec(self.shape(encoded), None, "HWC")

    def shape(self, encoded: object) -> tuple[int, int, int]:
        """The shape of the decoded image, from its header."""
        raise NotImplementedError
