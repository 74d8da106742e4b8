from __future__ import annotations

from typing import Any

import numpy as np

from pipeplug import Array, Statistics, ops, pipeline
from pipeplug.runtime.statistics import Counters, Timings


def run(epochs: int = 1, limit: int | None = None, **options: Any) -> Statistics:
    def refuse(number: Array) -> Array:
        if number % 10 == 0:
            raise ValueError("bad")
        return number

    def double(numbers: Array) -> Array:
        return numbers * 2

    @pipeline(**{"batch_size": 8, "threads": 3, "on_error": "skip", **options})
    def function() -> Any:
        return ops.map(double, ops.map(refuse, ops.read.arrays(np.arange(50))), batch=True)

    with function() as batches:
        for _ in range(epochs):
            for delivered, _batch in enumerate(batches, 1):
                if delivered == limit:
                    break
        return batches.statistics()


def test_counts_of_nodes_and_of_the_pipeline():
    statistics = run(epochs=2)
    source, refuse, double = statistics.operators
    assert [each.name for each in statistics.operators] == ["read.arrays", "map.refuse", "map.double"]
    assert (source.calls, source.failures) == (100, 0)
    assert (refuse.calls, refuse.failures) == (90, 10)
    assert (double.calls, double.failures) == (14, 0)
    assert all(each.seconds > 0 for each in statistics.operators)
    assert (statistics.samples, statistics.batches, statistics.failures, statistics.passed) == (90, 14, 10, 0)
    assert statistics.waiting_seconds > 0


def test_rows_that_replace_are_delivered():
    assert run(on_error="replace").samples == 50


def test_only_what_was_delivered_counts_as_delivered():
    statistics = run(limit=2)
    assert (statistics.samples, statistics.batches, statistics.failures) == (14, 2, 2)
    assert statistics.operators[0].calls >= 16


def test_items_of_an_iterable_count():
    with pipeline(batch_size=4)(lambda: ops.read.items(iter(range(10))))() as batches:
        list(batches)
        (source,) = batches.statistics().operators
    assert (source.calls, source.failures) == (10, 0)
    assert source.seconds > 0


def test_sums_over_tasks():
    counters = Counters(("a", "b", "c"))
    for task in range(3):
        timings = Timings()
        timings.add("a", 10**9)
        timings.add("b", task, calls=2)
        timings.failed("b")
        counters.merge(timings)
    assert [(each.calls, each.seconds, each.failures) for each in counters.statistics().operators] == [
        (3, 3.0, 0), (6, 3e-9, 3), (0, 0.0, 0),
    ]  # fmt: skip
