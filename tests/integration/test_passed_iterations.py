"""Iterations without a good sample are passed over, and their failures are still told."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from pipeplug import TensorSpec, TooManyFailuresError, ops, pipeline


def refuse_below(limit):
    def check(number):
        if number < limit:
            raise ValueError(f"{number} is below {limit}")
        return number

    return check


def run(limit, on_error):
    @pipeline(batch_size=4, threads=2, on_error=on_error)
    def numbers():
        return ops.map(refuse_below(limit), ops.read.arrays(np.arange(12)))

    with numbers() as batches:
        return list(batches), batches.statistics()


@pytest.mark.parametrize("on_error", ["skip", "replace"])
def test_the_next_batch_tells_the_failures_of_those_before(on_error):
    [batch], statistics = run(9, on_error)
    assert [failure.position for failure in batch.failures] == list(range(9))
    assert batch.failures[0].replaced_by is None
    assert batch.failures[8].replaced_by == (9 if on_error == "replace" else None)
    assert (statistics.passed, statistics.failures, statistics.failed) == (2, 9, batch.failures)


def test_the_statistics_tell_those_that_no_batch_follows():
    def refuse_from_four(number):
        if number >= 4:
            raise ValueError(number)
        return number

    @pipeline(batch_size=4, on_error="skip")
    def numbers():
        return ops.map(refuse_from_four, ops.read.arrays(np.arange(12)))

    with numbers() as batches:
        [batch] = batches
        assert batch.failures == ()
        assert [failure.origin for failure in batches.statistics().failed] == [f"row {row}" for row in range(4, 12)]


def test_an_epoch_without_a_good_sample_is_an_error():
    with pytest.raises(TooManyFailuresError, match=r"all 12 failed; the first one: map.check failed on row 0"):
        run(100, "skip")


def test_an_operator_that_ends_the_program_ends_its_sample():
    @pipeline(batch_size=4, on_error="skip")
    def numbers():
        return ops.map(lambda number: sys.exit(3) if number == 2 else number, ops.read.arrays(np.arange(4)))

    with numbers() as batches:
        [batch] = batches
    assert batch["0"].list() == [0, 1, 3]
    assert isinstance(batch.failures[0].cause, SystemExit)


def test_an_item_of_an_iterable_that_does_not_fit_is_a_sample_that_failed():
    @pipeline(batch_size=4, on_error="skip")
    def numbers():
        return ops.read.items(iter([1, 2, 300, 4]), specs=(TensorSpec((), "uint8"),))

    with numbers() as batches:
        [batch] = batches
    assert batch["0"].list() == [1, 2, 4]
