"""`random.*`: values of the graph with a number a sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pipeplug import ArgumentError, ops, pipeline
from pipeplug.runtime.randomness import Draws, key_hash

SEED, LENGTH = 11, 4000


def drawn(number: Callable[[], Any]) -> np.ndarray:
    @pipeline(batch_size=500, threads=2, seed=SEED)
    def numbers():
        return {"row": ops.read.arrays(np.zeros(LENGTH)), "number": number()}

    with numbers() as batches:
        return np.concatenate([batch["number"].numpy() for batch in batches])


def stream(key: str) -> Draws:
    return Draws(SEED, key_hash(key), 0, range(LENGTH))


def test_numbers_are_those_of_the_node_s_own_stream():
    assert np.array_equal(drawn(lambda: ops.random.uniform(low=2, high=5)), stream("random.uniform").uniform(2, 5))
    assert np.array_equal(drawn(lambda: ops.random.normal(mean=1, std=3)), stream("random.normal").normal(1, 3))
    assert np.array_equal(drawn(lambda: ops.random.integer(low=-3, high=9)), stream("random.integer").integers(-3, 9))
    assert np.array_equal(drawn(lambda: ops.random.boolean(probability=0.2)), stream("random.boolean").boolean(0.2))


def test_uniform_numbers_of_one_width_are_that_number():
    assert (drawn(lambda: ops.random.uniform(low=3, high=3)) == 3).all()


def test_a_choice_takes_options_by_weight():
    chosen = drawn(lambda: ops.random.choice(options=(10, 20, 30), weights=(1, 0, 3), dtype="int64"))
    assert chosen.dtype == np.int64
    assert set(chosen.tolist()) == {10, 30}
    assert abs((chosen == 30).mean() - 0.75) < 0.03
    assert set(drawn(lambda: ops.random.choice(options=(0.5, 1.5))).tolist()) == {0.5, 1.5}


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("uniform", {"low": 2, "high": 1}, "random.uniform: low=2.0 is above high=1.0"),
        ("normal", {"std": -1}, "random.normal: std is not negative, got -1.0"),
        ("normal", {"std": float("nan")}, "random.normal: std is not negative, got nan"),
        ("boolean", {"probability": 1.5}, "random.boolean: a probability is from 0 to 1, got 1.5"),
        ("integer", {"low": 4, "high": 4}, "random.integer: low=4 is not below high=4"),
        ("choice", {"options": ()}, r"random.choice: 0 options and None weights; give one weight an option"),
        ("choice", {"options": (1, 2), "weights": (1,)}, "2 options and .* weights; give one weight an option"),
        (
            "choice",
            {"options": (1, 2), "weights": (0, 0)},
            "weights are finite, not negative, and one of them is above",
        ),
        ("choice", {"options": (1, 2), "weights": (-1, 2)}, "weights are finite, not negative"),
        ("choice", {"options": (1, 2), "weights": (1, float("inf"))}, "weights are finite, not negative"),
    ],
)
def test_laws_that_are_none_are_refused_where_they_are_written(name: str, arguments: dict[str, Any], message: str):
    with pytest.raises(ArgumentError, match=message):
        getattr(ops.random, name)(**arguments)
