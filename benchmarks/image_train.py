"""JPEG files to batches for training: random resized crop, flip, normalise to float32 CHW.

Resizing is linear without antialiasing on every side, as OpenCV does it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from benchmarks.measure import OURS, Conditions, Measurement, Side, Turn
from benchmarks.peers import dali, opencv, torchvision
from benchmarks.photos import photographs
from benchmarks.recipe import BATCH, FLIP, MEAN, SIZE, STD, rate_of, read_all


def measurements(conditions: Conditions) -> Sequence[Measurement]:
    """The benchmark `image_train`."""
    return [image_training("image_train", conditions, antialias=False)]


def image_training(name: str, conditions: Conditions, *, antialias: bool) -> Measurement:
    """Images/s of whole epochs over the same files, already in the page cache."""
    paths = photographs(conditions.photos, conditions.pictures, BATCH)
    read_all(paths)
    ours = Side(OURS, partial(open_pipeplug, paths, conditions.threads, antialias))
    peers = [peer.image_train(paths, conditions.threads, antialias) for peer in (dali, opencv, torchvision)]
    return Measurement(name, "images/s", "larger", (ours, *(side for sides in peers for side in sides)))


@contextmanager
def open_pipeplug(paths: Sequence[str], threads: int, antialias: bool) -> Iterator[Turn]:
    """An epoch a turn, through the public interface."""
    from pipeplug import ops, pipeline

    @pipeline(batch_size=BATCH, threads=threads)
    def train() -> dict[str, object]:
        encoded, label = ops.read.files(list(paths), shuffle=False)
        image = ops.image.decode(encoded)
        image = ops.image.random_resized_crop(image, size=(SIZE, SIZE), antialias=antialias)
        image = ops.image.flip(image, probability=FLIP)
        image = ops.image.normalize(image, mean=MEAN, std=STD, dtype="float32", layout="CHW")
        return {"image": image, "label": label}

    with train() as batches:
        yield rate_of(lambda: sum(1 for _ in batches), len(paths))
