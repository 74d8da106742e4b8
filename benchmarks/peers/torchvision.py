"""torchvision's transforms (v2) in the worker processes of a DataLoader."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from benchmarks.measure import Side, Turn
from benchmarks.recipe import AREAS, BATCH, FLIP, MEAN, RATIOS, SIZE, STD, rate_of


def image_train(paths: Sequence[str], threads: int, antialias: bool) -> list[Side]:
    """The sides of `image_train`: decoding by torchvision, and by Pillow, which always antialiases."""
    tensors = Side("torchvision", partial(_open, paths, threads, antialias, False), "tensors")
    pillow = Side("torchvision", partial(_open, paths, threads, antialias, True), "Pillow images")
    return [tensors, pillow]


@contextmanager
def _open(paths: Sequence[str], threads: int, antialias: bool, pillow: bool) -> Iterator[Turn]:
    from torch.utils.data import DataLoader

    photos = _Photos(paths, _transform(antialias, pillow), _pillow if pillow else _tensor)
    loader = DataLoader(photos, BATCH, num_workers=threads, persistent_workers=True)  # type: ignore[arg-type, unused-ignore]
    yield rate_of(lambda: sum(1 for _ in loader), len(paths))


class _Photos:
    """A dataset as torch takes them: a length, and items by index."""

    def __init__(self, paths: Sequence[str], transform: Callable[[Any], Any], read: Callable[[str], Any]) -> None:
        self._paths = paths
        self._transform = transform
        self._read = read

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self._transform(self._read(self._paths[index])), 0


def _transform(antialias: bool, pillow: bool) -> Callable[[Any], Any]:
    import torch
    from torchvision.transforms import v2

    steps = [
        v2.RandomResizedCrop((SIZE, SIZE), scale=AREAS, ratio=RATIOS, antialias=antialias or pillow),
        v2.RandomHorizontalFlip(FLIP),
        *([v2.PILToTensor()] if pillow else []),
        v2.ToDtype(torch.float32),
        v2.Normalize(MEAN, STD, inplace=True),
    ]
    transform: Callable[[Any], Any] = v2.Compose(steps)
    return transform


def _tensor(path: str) -> Any:
    from torchvision.io import ImageReadMode, decode_jpeg, read_file

    return decode_jpeg(read_file(path), ImageReadMode.RGB)


def _pillow(path: str) -> Any:
    from PIL import Image

    with Image.open(path) as image:
        return image.convert("RGB")
