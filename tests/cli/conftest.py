"""Files with pipelines for the tests of commands."""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

PIPELINES = '''
from pathlib import Path
from typing import Literal

import numpy as np

from pipeplug import TensorSpec, ops, pipeline
from sums import double

READY = 1

def fragile(row):
    if row[0] in (3, 4):
        raise ValueError("row is\\nbad")
    return double(row)

@pipeline(batch_size=4, threads=2, seed=5)
def train(
    root: Path,
    shuffle: bool = False,
    kind: Literal["plain", "fragile"] = "plain",
    scale: float = 1,
    sizes: tuple[int, int] = (1, 1),
    names: list[str] | None = None,
    limit: int | None = None,
    count=3,
    call: dict = {},
    *,
    last: str = "x",
    **more: int,
):
    """Rows to train on, 100 % of them."""
    seen = (scale, sizes, names, limit, count, call, last, more)
    (root / "seen.txt").write_text(repr(seen))
    row = ops.read.arrays(np.load(root / "rows.npy"), shuffle=shuffle)
    return {"row": ops.map(fragile if kind == "fragile" else double, row)}

@pipeline(batch_size=2)
def other():
    return ops.read.items([1, 2, 3])

opened = other()
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder: `photos.py` with pipelines, what it imports, and ten rows of two numbers."""
    (tmp_path / "photos.py").write_text(PIPELINES, encoding="utf-8")
    (tmp_path / "sums.py").write_text("def double(row):\n    return row * 2\n", encoding="utf-8")
    np.save(tmp_path / "rows.npy", np.arange(20, dtype=np.float32).reshape(10, 2))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("sums", None)
