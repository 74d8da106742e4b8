"""Resizing, mirroring and normalising on an emulated GPU, beside the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PIL import Image

from pipeplug import Array, Operator, Tensor, ops
from pipeplug_image.center_crop import CenterCrop
from pipeplug_image.crop import Crop
from pipeplug_image.flip import Flip
from pipeplug_image.fused import FlipNormalize, ResizedCropNormalize, ResizeNormalize
from pipeplug_image.kernels.cuda.resample import VARIANTS
from pipeplug_image.normalize import Normalize
from pipeplug_image.random_crop import RandomCrop
from pipeplug_image.random_resized_crop import RandomResizedCrop
from pipeplug_image.resize import Resize
from plugins.image.tests.conftest import make_noise
from plugins.image.tests.cuda.emulator import EmulatedContext, arrays_of, emulated_batch, needs_compiler

SIZES = ((1, 1), (1, 37), (40, 1), (33, 65), (7, 5), (90, 70), (64, 32))
MEAN, STD = (123.7, 116.3, 103.5), (58.4, 57.1, 57.4)


def images(dtype: str = "uint8", channels: int = 3) -> list[Array]:
    return [make_noise((*size, channels), dtype, seed) for seed, size in enumerate(SIZES)]


def on_gpu(operator: Operator, pixels: list[Array], context: Any = None, **columns: Any) -> list[Array]:
    used = context or EmulatedContext()
    declared: Any = operator
    batch = declared.cuda(emulated_batch(pixels), used, **columns)
    assert context is not None or not used.failed
    assert used.launched[:1] == ["resample"]
    return arrays_of(batch)


def on_cpu(operator: Operator, image: Array, **arguments: Any) -> Array:
    class Context:
        @staticmethod
        def empty(spec):
            return Tensor(np.empty(spec.known_shape(), spec.dtype), spec.layout)

    declared: Any = operator
    result: Array = declared.cpu(Tensor(image, "HWC"), Context(), **arguments).numpy()
    return result


def farthest(result: Array, expected: Array) -> float:
    assert result.shape == expected.shape
    assert result.dtype == expected.dtype
    return float(np.abs(result.astype(np.float64) - expected.astype(np.float64)).max())


def columns_first(image: Array, size: tuple[int, int], interpolation: str) -> Array:
    """Pillow's resize in two: it makes bytes between its passes, and from version 13 on chooses which comes first."""
    kind = {"linear": Image.Resampling.BILINEAR, "cubic": Image.Resampling.BICUBIC, "lanczos": Image.Resampling.LANCZOS}
    narrow = Image.fromarray(image).resize((size[1], image.shape[0]), kind[interpolation])
    return np.asarray(narrow.resize((size[1], size[0]), kind[interpolation]))


@needs_compiler
@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("interpolation", ["nearest", "linear", "cubic", "lanczos"])
@pytest.mark.parametrize("size", [(20, 45), (3, 2), (70, 10)])
def test_resize(size, interpolation, antialias):
    operator = Resize(size=size, interpolation=interpolation, antialias=antialias)
    rounded = antialias and interpolation in ("cubic", "lanczos")
    for image, result in zip(images(), on_gpu(operator, images()), strict=True):
        expected = columns_first(image, size, interpolation) if rounded else on_cpu(operator, image)
        assert farthest(result, expected) <= (0 if interpolation == "nearest" else 1)


@needs_compiler
@pytest.mark.parametrize(("dtype", "channels"), [("uint16", 4), ("float32", 1), ("uint8", 1)])
def test_other_pixels(dtype, channels):
    operator = Resize(shorter=9)
    pixels = images(dtype, channels)
    bound = 1e-5 if dtype == "float32" else 1
    for image, result in zip(pixels, on_gpu(operator, pixels), strict=True):
        assert farthest(result, on_cpu(operator, image)) <= bound


@needs_compiler
@pytest.mark.parametrize("interpolation", ["linear", "cubic", "lanczos"])
def test_pillow(interpolation):
    for image, result in zip(
        images(), on_gpu(Resize(size=(24, 30), interpolation=interpolation), images()), strict=True
    ):
        assert farthest(result, columns_first(image, (24, 30), interpolation)) <= 1


@needs_compiler
@pytest.mark.parametrize("direction", ["horizontal", "vertical"])
def test_flip_moves_pixels_and_changes_none(direction):
    flipped = np.array([True, False] * 3 + [True])
    operator = Flip(direction=direction)
    for dtype in ("uint8", "uint16", "float32"):
        pixels = images(dtype)
        results = on_gpu(operator, pixels, flipped=flipped)
        for image, mirrored, result in zip(pixels, flipped, results, strict=True):
            assert np.array_equal(result, on_cpu(operator, image, flipped=bool(mirrored)))


@needs_compiler
@pytest.mark.parametrize("layout", ["HWC", "CHW"])
@pytest.mark.parametrize(("dtype", "bound"), [("float32", 1e-5), ("float16", 2e-3), ("int8", 1), ("uint8", 1)])
def test_normalize(dtype, bound, layout):
    operator = Normalize(mean=MEAN, std=STD, dtype=dtype, layout=layout, scale=2.0, shift=0.5)
    for image, result in zip(images(), on_gpu(operator, images()), strict=True):
        assert farthest(result, on_cpu(operator, image)) <= bound


@needs_compiler
def test_mirrored_and_normalized():
    flipped = np.array([True, False, False, True, True, False, True])
    operator = FlipNormalize(flip=Flip(), normalize=Normalize(mean=MEAN, std=STD, layout="CHW"))
    for image, mirrored, result in zip(images(), flipped, on_gpu(operator, images(), flipped=flipped), strict=True):
        assert farthest(result, on_cpu(operator, image, flipped=bool(mirrored))) <= 1e-5


@needs_compiler
@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("direction", ["horizontal", "vertical"])
def test_resized_mirrored_and_normalized(direction, antialias):
    flipped = np.array([True, False, False, True, True, False, True])
    operator = ResizeNormalize(
        resize=Resize(size=(35, 33), antialias=antialias),
        normalize=Normalize(mean=MEAN, std=STD, layout="CHW"),
        direction=direction,
    )
    for image, mirrored, result in zip(images(), flipped, on_gpu(operator, images(), flipped=flipped), strict=True):
        assert farthest(result, on_cpu(operator, image, flipped=bool(mirrored))) <= 1.01 / min(STD)


@needs_compiler
def test_random_parts_resized_mirrored_and_normalized():
    random = np.random.default_rng(5)
    rows = len(SIZES)
    tries = np.stack((random.uniform(0.08, 1, (rows, 10)), np.exp(random.uniform(-0.3, 0.3, (rows, 10)))), axis=2)
    place, flipped = random.uniform(size=(rows, 2)), random.uniform(size=rows) < 0.5
    crop = RandomResizedCrop(size=(32, 40))
    operator = ResizedCropNormalize(crop=crop, normalize=Normalize(mean=MEAN, std=STD, dtype="float32"))
    results = on_gpu(operator, images(), tries=tries, place=place, flipped=flipped)
    alone = on_gpu(crop, images(), tries=tries, place=place)
    for row, image in enumerate(images()):
        drawn = {"tries": tries[row], "place": place[row]}
        expected = on_cpu(operator, image, **drawn, flipped=bool(flipped[row]))
        assert farthest(results[row], expected) <= 1.01 / min(STD)
        assert farthest(alone[row], on_cpu(crop, image, **drawn)) <= 1


@needs_compiler
def test_crops():
    position = np.array([(0.0, 1.0), (0.5, 0.5), (1.0, 0.3)])
    for dtype in ("uint8", "float32"):
        pixels = [make_noise((*size, 3), dtype) for size in ((7, 9), (30, 41), (64, 8))]
        place = np.array([(0.1, 0.9), (0.99, 0.0), (0.5, 0.5)])
        cases: list[tuple[Operator, dict[str, Any]]] = [
            (CenterCrop(size=(6, 7)), {}),
            (RandomCrop(size=(7, 5)), {"place": place}),
            (Crop(size=(5, 8)), {"position": position, "box": [None] * 3}),
        ]
        for operator, columns in cases:
            results = on_gpu(operator, pixels, **columns)
            for row, image in enumerate(pixels):
                expected = on_cpu(operator, image, **{name: column[row] for name, column in columns.items()})
                assert np.array_equal(results[row], expected)


@needs_compiler
def test_a_part_that_is_not_there_fails_alone():
    pixels = [make_noise((4, 9, 3)), make_noise((30, 41, 3)), make_noise((3, 3, 3))]
    context = EmulatedContext()
    (result,) = on_gpu(CenterCrop(size=(6, 7)), pixels, context)
    assert np.array_equal(result, on_cpu(CenterCrop(size=(6, 7)), pixels[1]))
    assert sorted(context.failed) == [0, 2]
    assert "does not fit into an image of height 4 and width 9" in str(context.failed[0])


@needs_compiler
def test_images_of_several_numbers_of_channels():
    pixels = [make_noise((9, 8, channels), "uint8", channels) for channels in (3, 1, 3, 4, 1)]
    for image, result in zip(pixels, on_gpu(Resize(size=(5, 6)), pixels), strict=True):
        assert farthest(result, np.asarray(ops.image.resize(image, size=(5, 6)))) <= 1


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_every_kind_compiles(architecture):
    for kernel in VARIANTS:
        assert kernel.compile(architecture).startswith(b"\x7fELF")
