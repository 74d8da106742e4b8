"""NVIDIA DALI on the CPU, in several settings, of which the best counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from benchmarks.calls import TINY_SIZE, microseconds_a_call, tiny_image
from benchmarks.measure import Side, Turn
from benchmarks.recipe import AREAS, BATCH, FLIP, MEAN, RATIOS, SIZE, STD, rate_of
from benchmarks.resident import LARGE_BATCH, LARGE_BATCHES, large_image, peak_in_batches, resident_bytes

SETTINGS: Mapping[str, tuple[bool, Mapping[str, Any]]] = {
    "crop while decoding": (True, {}),
    "crop while decoding, dynamic": (True, {"exec_dynamic": True}),
    "crop while decoding, dynamic, 4 ahead": (True, {"exec_dynamic": True, "prefetch_queue_depth": 4}),
    "decode, then crop, dynamic": (False, {"exec_dynamic": True}),
}
"""Whether cropping is part of decoding, and options of the pipeline."""

DEFAULT = "crop while decoding, dynamic"


def image_train(paths: Sequence[str], threads: int, antialias: bool) -> list[Side]:
    """The sides of `image_train`. One of them antialiases in any case, which is what DALI does unless it is told."""
    sides = [
        Side("dali", partial(_open_train, paths, threads, antialias, fused, options), setting)
        for setting, (fused, options) in SETTINGS.items()
    ]
    if not antialias:
        fused, options = SETTINGS[DEFAULT]
        sides.append(Side("dali", partial(_open_train, paths, threads, True, fused, options), f"{DEFAULT}, antialias"))
    return sides


@contextmanager
def _open_train(
    paths: Sequence[str], threads: int, antialias: bool, fused: bool, options: Mapping[str, Any]
) -> Iterator[Turn]:
    from nvidia.dali import pipeline_def

    ahead: int = options.get("prefetch_queue_depth", 2)

    @pipeline_def(batch_size=BATCH, num_threads=threads, device_id=None, **options)
    def train() -> Any:
        return _train(paths, antialias, fused)

    pipe = train()
    pipe.build()
    epoch = rate_of(lambda: _run(pipe, len(paths) // BATCH), len(paths))

    def turn() -> float:
        # Batches that were made between two turns are no work of this one.
        _run(pipe, ahead)
        return epoch()

    yield turn


def _train(paths: Sequence[str], antialias: bool, fused: bool) -> Any:
    from nvidia.dali import fn, types

    encoded, label = fn.readers.file(files=list(paths), random_shuffle=False)
    parts = {"random_area": AREAS, "random_aspect_ratio": RATIOS}
    if fused:
        image = fn.decoders.image_random_crop(encoded, device="cpu", **parts)
        image = fn.resize(image, size=(SIZE, SIZE), antialias=antialias)
    else:
        image = fn.decoders.image(encoded, device="cpu")
        image = fn.random_resized_crop(image, size=(SIZE, SIZE), antialias=antialias, **parts)
    image = fn.crop_mirror_normalize(
        image,
        dtype=types.FLOAT,
        output_layout="CHW",
        mean=list(MEAN),
        std=list(STD),
        mirror=fn.random.coin_flip(probability=FLIP),
    )
    return image, label


def _run(pipe: Any, batches: int) -> int:
    for _ in range(batches):
        pipe.run()
    return batches


def flips(depth: int, threads: int) -> list[Side]:
    """The sides of `memory`: values kept until the iteration ends, and until their last use."""
    return [
        Side("dali", partial(_open_flips, depth, threads, options), setting)
        for setting, options in (("planned", {"exec_dynamic": False}), ("dynamic", {"exec_dynamic": True}))
    ]


@contextmanager
def _open_flips(depth: int, threads: int, options: Mapping[str, Any]) -> Iterator[Turn]:
    from nvidia.dali import fn, pipeline_def

    image = large_image()

    @pipeline_def(batch_size=LARGE_BATCH, num_threads=threads, device_id=None, **options)
    def chain() -> Any:
        value = fn.external_source(source=lambda: [image] * LARGE_BATCH, batch=True, no_copy=True, layout="HWC")
        for _ in range(depth):
            value = fn.flip(value, horizontal=1)
        return value

    pipe = chain()
    before = resident_bytes()
    pipe.build()
    yield partial(peak_in_batches, before, lambda: _run(pipe, LARGE_BATCHES))


def eager_resize(calls: int) -> list[Side]:
    """The side of `scheduler`: dynamic mode, one resize of a tiny image."""
    return [Side("dali", partial(_open_eager, calls))]


@contextmanager
def _open_eager(calls: int) -> Iterator[Turn]:
    from nvidia.dali.experimental import dynamic

    image = dynamic.as_tensor(tiny_image(), layout="HWC")
    yield partial(microseconds_a_call, lambda: dynamic.resize(image, size=TINY_SIZE).evaluate(), calls)
