"""When the state of a pipeline may be set."""

from typing import Any

import numpy as np
import pytest

from pipeplug import ArgumentError, StateError, ops, pipeline


@pipeline(batch_size=4)
def numbers():
    return ops.read.arrays(np.arange(8))


def test_a_state_is_not_set_while_an_epoch_runs():
    with numbers() as batches:
        epoch = iter(batches)
        next(epoch)
        state = batches.state()
        with pytest.raises(StateError, match="load_state is for the next loop, but an epoch is running"):
            batches.load_state(state)
        with pytest.raises(StateError, match="set_epoch is for the next loop"):
            batches.set_epoch(1)


def test_an_iterator_that_has_ended_is_no_running_epoch():
    with numbers() as batches:
        epoch = iter(batches)
        assert len(list(epoch)) == 2
        batches.load_state(batches.state())
        batches.set_epoch(3)
        assert [batch.epoch for batch in batches] == [3, 3]


def test_what_is_no_state_or_epoch_is_refused():
    strange: Any = {"epoch": 1}
    with pytest.raises(StateError, match=r"load_state takes what state\(\) gave, a PipelineState, got \{'epoch': 1\}"):
        numbers().load_state(strange)
    with pytest.raises(ArgumentError, match="epochs count from 0, got -1"):
        numbers().set_epoch(-1)
