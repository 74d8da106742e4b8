"""OpenCV in a thread pool, as one writes it by hand when speed counts.

Threads take several pictures a task, random numbers are drawn a batch at a time, intermediate images are written where
they were last time, and a look-up table normalises straight into the batch. Batches are made in a ring of buffers while
earlier ones are consumed.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.measure import Side, Turn
from benchmarks.recipe import AREAS, BATCH, FLIP, MEAN, RATIOS, SIZE, STD, rate_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Pixels = NDArray[Any]

CHUNK = 16
AHEAD = 2  # batches under way while one is consumed
TRIES = 10


def image_train(paths: Sequence[str], threads: int, antialias: bool) -> list[Side]:
    """The side of `image_train`."""
    return [Side("opencv", partial(_open, paths, threads, antialias))]


@contextmanager
def _open(paths: Sequence[str], threads: int, antialias: bool) -> Iterator[Turn]:
    import cv2

    cv2.setNumThreads(0)
    with ThreadPoolExecutor(threads) as pool:
        loader = _Loader(paths, pool, cv2.INTER_AREA if antialias else cv2.INTER_LINEAR)
        yield rate_of(loader.epoch, len(paths))


class _Loader:
    def __init__(self, paths: Sequence[str], pool: ThreadPoolExecutor, reducing: int) -> None:
        import numpy as np

        self._paths = paths
        self._pool = pool
        self._reducing = reducing
        self._random = np.random.default_rng(0)
        self._ring = [np.empty((BATCH, 3, SIZE, SIZE), np.float32) for _ in range(AHEAD + 1)]
        levels = np.arange(256, dtype=np.float64)
        self._tables = [((levels - mean) / std).astype(np.float32) for mean, std in zip(MEAN, STD, strict=True)]
        self._kept = threading.local()

    def epoch(self) -> int:
        """Makes all batches, and returns how many."""
        under_way: deque[list[Future[None]]] = deque()
        delivered = 0
        for number in range(len(self._paths) // BATCH):
            under_way.append(self._submit(number))
            if len(under_way) == AHEAD:
                delivered += _finished(under_way.popleft())
        return delivered + sum(_finished(tasks) for tasks in under_way)

    def _submit(self, number: int) -> list[Future[None]]:
        draws = self._random.random((BATCH, 2 * TRIES + 3))
        paths = self._paths[number * BATCH : (number + 1) * BATCH]
        out = self._ring[number % len(self._ring)]
        spans = [slice(start, start + CHUNK) for start in range(0, BATCH, CHUNK)]
        return [self._pool.submit(self._run, paths[span], draws[span].tolist(), out[span]) for span in spans]

    def _run(self, paths: Sequence[str], draws: Sequence[Sequence[float]], out: Pixels) -> None:
        for path, drawn, place in zip(paths, draws, out, strict=True):
            self._one(path, drawn, place)

    def _one(self, path: str, drawn: Sequence[float], out: Pixels) -> None:
        import cv2
        import numpy as np

        encoded = np.frombuffer(_read(path), np.uint8)
        image: Any = cv2.imdecode(encoded, cv2.IMREAD_COLOR)
        y, x, height, width = _box(drawn, *image.shape[:2])
        shrinks = height > SIZE or width > SIZE
        interpolation = self._reducing if shrinks else cv2.INTER_LINEAR
        resized, mirrored, planes = self._buffers()
        part = image[y : y + height, x : x + width]
        part = cv2.resize(part, (SIZE, SIZE), dst=resized, interpolation=interpolation)
        if drawn[-1] < FLIP:
            part = cv2.flip(part, 1, dst=mirrored)
        cv2.split(part, planes)
        for table, plane, place in zip(self._tables, reversed(planes), out, strict=True):
            cv2.LUT(plane, table, dst=place)

    def _buffers(self) -> tuple[Pixels, Pixels, list[Pixels]]:
        import numpy as np

        if not hasattr(self._kept, "buffers"):
            image, mirrored = np.empty((2, SIZE, SIZE, 3), np.uint8)
            self._kept.buffers = image, mirrored, list(np.empty((3, SIZE, SIZE), np.uint8))
        buffers: tuple[Pixels, Pixels, list[Pixels]] = self._kept.buffers
        return buffers


def _finished(tasks: Sequence[Future[None]]) -> int:
    for task in tasks:
        task.result()
    return 1


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)


def _box(drawn: Sequence[float], height: int, width: int) -> tuple[int, int, int, int]:
    """y, x, height and width of a random part: torchvision's law."""
    for area, ratio in zip(drawn[:TRIES], drawn[TRIES : 2 * TRIES], strict=True):
        pixels = height * width * (AREAS[0] + (AREAS[1] - AREAS[0]) * area)
        shape = RATIOS[0] * (RATIOS[1] / RATIOS[0]) ** ratio
        across, down = round((pixels * shape) ** 0.5), round((pixels / shape) ** 0.5)
        if 0 < across <= width and 0 < down <= height:
            y, x = drawn[-3] * (height - down + 1), drawn[-2] * (width - across + 1)
            return int(y), int(x), down, across
    return 0, 0, height, width
