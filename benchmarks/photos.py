"""The pictures of the image benchmarks: JPEG photographs of the size of ImageNet's.

They are 400 to 639 by 300 to 519 pixels, of quality 92 and some 65 kB. Whoever has a folder of photographs names it;
otherwise they are cut out of the sample pictures and kept in out/. Noise of sigma 5 stands for the grain of a camera:
without it enlarged cuts would decode faster than photographs do.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Pixels = NDArray[Any]

ROOT = Path(__file__).parent.parent
SAMPLES = ROOT / "examples" / "media"
CACHE = ROOT / "out" / "benchmarks"

WIDTHS, HEIGHTS = (400, 640), (300, 520)
SHARES = (0.15, 0.7)  # of the width of the picture that a photograph is cut from
NOISE = 5.0
QUALITY = 92
FLAT = 12.0  # a cut whose pixels deviate less shows nothing, a wall or a night sky


def photographs(folder: Path | None, count: int, batch: int) -> tuple[str, ...]:
    """Paths of at most `count` photographs, whole batches of them, spread over the folder.

    Raises FileNotFoundError when the folder has not one batch of them.
    """
    found = sorted(str(path) for path in (folder or generated(count)).rglob("*.jpg"))
    whole = min(count, len(found)) // batch * batch
    if not whole:
        raise FileNotFoundError(f"{folder} has {len(found)} *.jpg; a batch is {batch}, and {count} are wanted at most")
    return tuple(found[place * len(found) // whole] for place in range(whole))


def generated(count: int, *, samples: Path = SAMPLES, cache: Path = CACHE) -> Path:
    """The folder of `count` photographs cut from the pictures in `samples`, made if it is not there yet."""
    folder = cache / f"photos-{count}"
    if folder.exists():
        return folder
    print(f"cutting {count} photographs into {os.path.relpath(folder)} …", file=sys.stderr)
    cache.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(dir=cache))
    try:
        for number, encoded in enumerate(_cut(_pictures(samples), count)):
            (unfinished / f"{number:05d}.jpg").write_bytes(encoded)
        unfinished.rename(folder)  # whoever finds the folder finds all of it
    except BaseException:
        shutil.rmtree(unfinished)
        raise
    return folder


def _pictures(folder: Path) -> Sequence[Pixels]:
    import cv2

    paths = sorted(path for path in folder.iterdir() if path.suffix in {".jpg", ".png"})
    read = [cv2.imread(str(path), cv2.IMREAD_COLOR) for path in paths]
    pictures = [picture for picture in read if picture is not None]
    if not pictures:
        raise FileNotFoundError(f"no *.jpg or *.png in {folder} to cut photographs from; give --photos DIR")
    return pictures


def _cut(pictures: Sequence[Pixels], count: int) -> Iterator[bytes]:
    import cv2
    import numpy as np

    random = np.random.default_rng(0)
    cuts = (_one_cut(random, picture) for picture in cycle(pictures))
    for cut in islice((cut for cut in cuts if cut.std() >= FLAT), count):
        noisy = cut + random.standard_normal(cut.shape, dtype=np.float32) * NOISE
        pixels = noisy.clip(0, 255).round().astype(np.uint8)
        yield cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])[1].tobytes()


def _one_cut(random: np.random.Generator, picture: Pixels) -> Pixels:
    """A random part of a picture, enlarged or reduced to a random size."""
    import cv2

    width, height = int(random.integers(*WIDTHS)), int(random.integers(*HEIGHTS))
    share = random.uniform(*SHARES) * picture.shape[1]
    scale = min(share / width, picture.shape[0] / height)
    across, down = int(width * scale), int(height * scale)
    x = int(random.integers(picture.shape[1] - across + 1))
    y = int(random.integers(picture.shape[0] - down + 1))
    part = picture[y : y + down, x : x + across]
    return cv2.resize(part, (width, height), interpolation=cv2.INTER_AREA if scale > 1 else cv2.INTER_CUBIC)
