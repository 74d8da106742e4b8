"""What the image operators ask of their inputs."""

from __future__ import annotations

from pipeplug import SpecError, TensorSpec

PIXELS = ("uint8", "uint16", "float32")
"""The dtypes of pixels: 0 to 255, 0 to 65535, 0 to 1."""


def picture(spec: TensorSpec, *, dtypes: tuple[str, ...] = PIXELS) -> TensorSpec:
    """The spec of an image (height, width, channels), its layout filled in.

    Raises SpecError when it is something else, saying what to do.
    """
    if spec.is_object:
        raise SpecError("needs an image, got a Python object; decode it first: ops.image.decode(encoded)")
    if spec.layout not in (None, "HWC"):
        raise SpecError(f"needs an image with layout HWC, got {spec.layout}; transpose or normalize comes after this")
    if spec.dtype is not None and spec.dtype not in dtypes:
        raise SpecError(f"needs an image of {', '.join(dtypes)}, got {spec.dtype}; cast it first: ops.image.cast")
    if spec.shape is None:
        return TensorSpec((None, None, None), spec.dtype, "HWC")
    if len(spec.shape) != 3:
        raise SpecError(f"needs an image of (height, width, channels), got {len(spec.shape)} dimensions {spec.shape}")
    return TensorSpec(spec.shape, spec.dtype, "HWC")


def resized(spec: TensorSpec, height: int | None, width: int | None) -> TensorSpec:
    """The spec of an image with another size."""
    return spec.with_shape((height, width, channels(spec)))


def channels(spec: TensorSpec) -> int | None:
    """The number of channels of an image's spec."""
    return spec.shape[2] if spec.shape is not None else None
