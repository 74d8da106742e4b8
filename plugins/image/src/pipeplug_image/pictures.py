"""What the image operators ask of their inputs and of numbers that vary by sample."""

from __future__ import annotations

from math import inf, isfinite

from pipeplug import ArgumentError, SpecError, TensorSpec

PIXELS = ("uint8", "uint16", "float32")
"""The dtypes of pixels: 0 to 255, 0 to 65535, 0 to 1."""

CHANNELS = (1, 3, 4)
"""The numbers of channels: grey, RGB, RGBA."""


def picture(
    spec: TensorSpec, *, dtypes: tuple[str, ...] = PIXELS, counts: tuple[int, ...] | None = CHANNELS
) -> TensorSpec:
    """The spec of an image (height, width, channels), its layout filled in.

    Raises SpecError when it is something else, saying what to do. `counts` are the numbers of channels that will do;
    None means all.
    """
    if spec.is_object:
        raise SpecError("needs an image, got a Python object; decode it first: ops.image.decode(encoded)")
    if spec.layout not in (None, "HWC"):
        raise SpecError(
            f"needs an image with layout HWC, got {spec.layout}; call it before the layout changes, "
            'or go back with ops.image.transpose(image, layout="HWC")'
        )
    if spec.dtype is not None and spec.dtype not in dtypes:
        raise SpecError(f"needs an image of {' or '.join(dtypes)}, got {spec.dtype}; cast it first: ops.image.cast")
    if spec.shape is None:
        return TensorSpec((None, None, None), spec.dtype, "HWC")
    _check_shape(spec.shape, counts)
    return spec if spec.layout == "HWC" else TensorSpec(spec.shape, spec.dtype, "HWC")


def _check_shape(shape: tuple[int | None, ...], counts: tuple[int, ...] | None) -> None:
    if len(shape) != 3:
        advice = "; a grey one has a channel too: array[:, :, None]" if len(shape) == 2 else ""
        raise SpecError(f"needs an image (height, width, channels), got {len(shape)} dimensions {shape}{advice}")
    if counts is not None and shape[2] is not None and shape[2] not in counts:
        raise SpecError(f"needs an image of {' or '.join(map(str, counts))} channels, got {shape[2]}: {shape}")
    if 0 in shape:
        raise SpecError(f"needs an image with pixels, got {shape}")


def resized(spec: TensorSpec, height: int | None, width: int | None) -> TensorSpec:
    """The spec of an image with another size."""
    return spec.with_shape((height, width, channels(spec)))


def channels(spec: TensorSpec) -> int | None:
    """The number of channels of an image's spec."""
    return spec.shape[2] if spec.shape is not None else None


def check_size(size: tuple[int, int]) -> None:
    """Raises ArgumentError unless height and width are at least 1."""
    if min(size) < 1:
        raise ArgumentError(f"size is at least (1, 1), got {size}")


def check_per_channel(name: str, value: float | tuple[float, ...], spec: TensorSpec) -> None:
    """Raises ArgumentError when `value` is for another number of channels than an image's spec has."""
    count = channels(spec)
    if isinstance(value, tuple) and len(value) != 1 and count not in (None, len(value)):
        raise ArgumentError(f"{name} has {len(value)} numbers, but the image has {count} channels: give 1 or {count}")


def check_number(name: str, value: object, low: float = -inf, high: float = inf) -> float:
    """`value` as a number. Raises ArgumentError unless it is one, finite, and from `low` to `high`."""
    try:
        number = float(value)  # type: ignore[arg-type]  # whether it is one is the question
    except (TypeError, ValueError):
        raise ArgumentError(f"{name} is one number a sample, got {value!r:.80}") from None
    if not (isfinite(number) and low <= number <= high):
        raise ArgumentError(f"{name} is a number{_bounds(low, high)}, got {number:g}")
    return number


def _bounds(low: float, high: float) -> str:
    if high < inf:
        return f" from {low:g} to {high:g}"
    return f" from {low:g} on" if low > -inf else ", and a finite one"
