"""`image.decode`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cached_property
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pipeplug import (
    ArgumentError,
    Batch,
    Context,
    CudaContext,
    DecodeError,
    Operator,
    SpecError,
    Tensor,
    TensorSpec,
)
from pipeplug_image.limits import MAX_PIXELS

if TYPE_CHECKING:
    from pipeplug import Array
    from pipeplug_image.codecs.cuda import DeviceDecoder
    from pipeplug_image.codecs.decode import Decoder
    from pipeplug_image.codecs.header import ImageHeader
    from pipeplug_image.codecs.options import DecodeOptions

Mode = Literal["RGB", "gray", "RGBA", "unchanged"]
Part = tuple[int, int, int, int]
_CHANNELS = {"RGB": 3, "gray": 1, "RGBA": 4, "unchanged": None}


class Decode(Operator):
    """Decode an encoded image: JPEG, PNG, WebP, TIFF, BMP or GIF (its first frame).

    The content decides the format, never a file's name. CMYK and YCCK become the RGB that Pillow gives. Alpha is
    dropped, not blended, when it is not asked for. The size is checked from the header before memory is taken.

    On a GPU its JPEG engine decodes baseline JPEGs, within 1 level of the CPU, and CUDA kernels progressive ones,
    within 3, where they are wanted RGB or grey, not reduced, and as they are stored. The CPU decodes all else, and
    judges what is damaged; the statistics count both. Damage within coded pixels that leaves all markers right is not
    seen on a GPU.

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
        if encoded.dtype not in (None, "object", "uint8") or len(encoded.shape or ()) > 1:
            raise SpecError(f"needs encoded bytes, got {encoded}; what is decoded already goes to the next operator")
        image = self.image_spec()
        return image if self.truncated == "raise" else {"image": image, "truncated": TensorSpec((), "bool")}

    def image_spec(self) -> TensorSpec:
        """What is known of the image before its header is read."""
        return TensorSpec((None, None, _CHANNELS[self.mode]), "uint8" if self.dtype == "uint8" else None, "HWC")

    def devices(self) -> tuple[str, ...]:
        return super().devices() if self.truncated == "raise" else ("cpu",)

    def open(self) -> AbstractContextManager[DeviceDecoder]:
        from pipeplug_image.codecs.cuda import DeviceDecoder

        return DeviceDecoder()

    def peek(self, encoded: object) -> TensorSpec:
        try:
            _, header = self.opened(encoded)
        except DecodeError as error:
            raise about(encoded, error) from None
        return TensorSpec(self.options.shape(header), None, "HWC")

    @cached_property
    def options(self) -> DecodeOptions:
        """How the codecs are to decode."""
        from pipeplug_image.codecs.options import DecodeOptions

        return DecodeOptions(
            mode=self.mode, dtype=self.dtype, orient=self.orient, reduce=self.reduce, max_pixels=self.max_pixels
        )

    def opened(self, encoded: object) -> tuple[bytes, ImageHeader]:
        """The encoded data, and its header, whose size is within the limit."""
        from pipeplug_image.codecs.probe import probe

        data = content(encoded)
        header = probe(data)
        header.check_size(self.max_pixels)
        return data, header

    def cpu(self, encoded: object, context: Context, *, state: Decoder) -> Any:
        try:
            return self.decoded(encoded, context, state)
        except DecodeError as error:
            raise about(encoded, error) from None

    def decoded(self, encoded: object, context: Context, state: Decoder) -> Any:
        """The whole image; with `truncated="partial"` what there is of it."""
        data, header = self.opened(encoded)
        options = self.options
        if self.truncated == "partial":
            recovered = state.recover(data, options, header=header)
            return {"image": recovered.pixels, "truncated": recovered.damage is not None}
        out = context.empty(TensorSpec(options.shape(header), options.dtype_of(header), "HWC"))
        state.decode(data, options, header=header, out=out.numpy())
        return out

    def cuda(self, encoded: Batch, context: CudaContext, *, state: DeviceDecoder) -> Batch:
        from pipeplug_image.prepare import decoded, prepared

        if encoded.device != "cpu":  # bytes as numbers, which were brought here, though it is the CPU that reads them
            context.stream.sync()
            encoded = encoded.to("cpu")
        return decoded(self, prepared(self, encoded, context, state), context, state)

    def whole(self, encoded: object, state: Decoder) -> Array:
        """The whole image, in memory of its own; `state` is what `open` gave."""
        try:
            data, header = self.opened(encoded)
            return state.decode(data, self.options, header=header)
        except DecodeError as error:
            raise about(encoded, error) from None

    def part(self, encoded: object, box_of: Callable[[tuple[int, ...]], Part], state: Decoder) -> Array:
        """A part of the decoded image, which the calling thread's next call overwrites.

        Args:
            encoded: as for the operator.
            box_of: gives y, x, height and width of the part for the shape of the decoded image.
            state: what `open` gave.
        """
        try:
            return state.decode_part(content(encoded), box_of, self.options)
        except DecodeError as error:
            raise about(encoded, error) from None


def content(encoded: object) -> bytes:
    """Encoded data as bytes: as it is, from a buffer or a tensor of them, or from a file at a path."""
    if isinstance(encoded, bytes):
        return encoded
    if isinstance(encoded, Tensor):
        return encoded.numpy().tobytes()
    if isinstance(encoded, str | PathLike):
        return Path(encoded).read_bytes()
    if isinstance(encoded, bytearray | memoryview):
        return bytes(encoded)
    raise SpecError(f"needs encoded bytes or a path, got {type(encoded).__name__}")


def about(encoded: object, error: DecodeError) -> DecodeError:
    """The error, with the file's path in front when that is what was to be decoded."""
    return DecodeError(f"{fspath(encoded)}: {error}") if isinstance(encoded, str | PathLike) else error
