"""Brightness, contrast, saturation and hue.

The first three blend the image with another: black, its mean grey, its grey. The definitions are those of Pillow's
`ImageEnhance`, which torchvision's colour jitter follows; values clamp to [0, white] after every step. A fourth channel
is alpha and stays as it is; a grey image has neither saturation nor hue to change.

uint8 and uint16 results are within 1 level of the exact value of a step (2 of Pillow's, which rounds the
grey and cuts off fractions), float32 within 1e-5 where the input is in
[0, 1].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import cv2
import numpy as np

from pipeplug import ArgumentError
from pipeplug_image.kernels.convert import cast
from pipeplug_image.kernels.opencv import Array, channels_of, constant, copied, in_bands, settle, target, white_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

GREY = (0.299, 0.587, 0.114)
"""The weights of red, green and blue in grey: ITU-R BT.601's luma."""


def adjust_brightness(image: Array, factor: float, *, out: Array | None = None) -> Array:
    """`factor * x`: 0 is black, 1 the image."""
    return _on_colors(lambda colors, into: _linear(colors, factor * np.eye(_colors(colors)), 0.0, into), image, out)


def adjust_contrast(image: Array, factor: float, *, out: Array | None = None) -> Array:
    """`factor * x + (1 - factor) * mean`, with the mean of the image's grey unrounded: 0 is that grey, 1 the image."""

    def step(colors: Array, into: Array | None) -> Array:
        mean = float(np.dot(cv2.mean(colors)[:3], GREY)) if _colors(colors) == 3 else cv2.mean(colors)[0]
        return _linear(colors, factor * np.eye(_colors(colors)), (1 - factor) * mean, into)

    return _on_colors(step, image, out)


def adjust_saturation(image: Array, factor: float, *, out: Array | None = None) -> Array:
    """`factor * x + (1 - factor) * grey(x)`: 0 is grey, 1 the image."""
    if channels_of(image) == 1:
        return copied(image, out)
    blend = factor * np.eye(3) + (1 - factor) * np.tile(GREY, (3, 1))
    return _on_colors(lambda colors, into: _linear(colors, blend, 0.0, into), image, out)


def adjust_hue(image: Array, turns: float, *, out: Array | None = None) -> Array:
    """The image with its hue moved around the HSV circle by `turns`, in [-0.5, 0.5]; computed in float32."""
    if channels_of(image) == 1:
        return copied(image, out)
    return _on_colors(lambda colors, into: _turned(colors, turns % 1.0 * 360.0, into), image, out)


def color_jitter(
    image: Array,
    *,
    brightness: float = 1.0,
    contrast: float = 1.0,
    saturation: float = 1.0,
    hue: float = 0.0,
    order: Sequence[int] = (0, 1, 2, 3),
    out: Array | None = None,
) -> Array:
    """Brightness, contrast, saturation and hue (0, 1, 2, 3), adjusted one after another in `order`.

    What would change nothing is left out. torchvision draws the order at random. Raises ArgumentError when `order` is
    no permutation of 0, 1, 2, 3.
    """
    if sorted(order) != [0, 1, 2, 3]:
        raise ArgumentError(f"order must hold 0, 1, 2 and 3 once each, got {list(order)}")
    amounts = (brightness, contrast, saturation, hue)
    steps = [int(which) for which in order if amounts[which] != _NEUTRAL[which]]
    for which in steps[:-1]:
        image = _ADJUST[which](image, amounts[which])
    if not steps:
        return copied(image, out)
    return _ADJUST[steps[-1]](image, amounts[steps[-1]], out=out)


_ADJUST: tuple[Callable[..., Array], ...] = (adjust_brightness, adjust_contrast, adjust_saturation, adjust_hue)
_NEUTRAL = (1.0, 1.0, 1.0, 0.0)


def _colors(image: Array) -> int:
    return image.shape[2] if image.ndim == 3 else 1


def _on_colors(step: Callable[[Array, Array | None], Array], image: Array, out: Array | None) -> Array:
    """`step` on the channels that are no alpha."""
    white_of(image)
    direct = target(out, image.shape, image.dtype)
    if channels_of(image) < 4:
        return settle(step(image, direct), out, image.shape)
    planes = cv2.split(image)
    changed = cv2.split(step(cv2.cvtColor(image, cv2.COLOR_RGBA2RGB), None))
    return settle(cv2.merge((*changed, planes[3]), dst=direct), out, image.shape)


def _linear(image: Array, matrix: NDArray[np.float64], offset: float, out: Array | None) -> Array:
    affine = np.column_stack((matrix, np.full(len(matrix), offset)))
    return _clamped(cv2.transform(image, affine, dst=out))


def _turned(image: Array, degrees: float, out: Array | None) -> Array:
    white, dtype = white_of(image), image.dtype.name

    def step(part: Array, into: Array) -> None:
        colors = cv2.cvtColor(cast(part, "float32", 1 / white), cv2.COLOR_RGB2HSV)  # uint8 HSV has but 256 hues
        cv2.add(colors, constant(degrees), dst=colors)
        cast(cv2.cvtColor(colors, cv2.COLOR_HSV2RGB, dst=colors), dtype, white, out=into)

    return in_bands(step, image, np.empty_like(image) if out is None else out)


def _clamped(image: Array) -> Array:
    """Integers have been saturated already."""
    return np.clip(image, 0.0, 1.0, out=image) if image.dtype == np.float32 else image
