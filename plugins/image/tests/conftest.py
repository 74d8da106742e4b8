"""Pictures and runs that the tests of the operators share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from pipeplug import Batch, ops, pipeline

WHITE = {"uint8": 255, "uint16": 65535, "float32": 1.0}


def make_noise(shape: Sequence[int], dtype: str = "uint8", seed: int = 0) -> np.ndarray:
    """Pixels of any value, which nobody may write to."""
    random = np.random.default_rng(seed)
    pixels = (random.random(shape) * (WHITE[dtype] + (dtype != "float32"))).astype(dtype)
    pixels.flags.writeable = False
    return pixels


@pytest.fixture(scope="session")
def noise() -> Callable[..., np.ndarray]:
    return make_noise


@pytest.fixture(scope="session")
def run() -> Callable[..., dict[str, Any]]:
    """Takes items through a pipeline in one batch: `run(function, items, per_sample_column, …)`."""

    def through(function: Callable[..., Any], *columns: Any, seed: int = 0, threads: int = 2, **options: Any) -> Any:
        equal = all(isinstance(column, np.ndarray) for column in columns)
        rows = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))

        @pipeline(batch_size=len(columns[0]), threads=threads, seed=seed, **options)
        def whole() -> Any:
            values = ops.read.arrays(columns) if equal else ops.read.items(rows, outputs=len(columns))
            return {"out": function(*values if isinstance(values, tuple) else (values,))}

        with whole() as batches:
            (batch,) = batches
        return batch

    return through


@pytest.fixture(scope="session")
def rows() -> Callable[[Batch], list[np.ndarray]]:
    """The samples of a batch as arrays."""
    return lambda batch: [np.asarray(sample) for sample in batch]
