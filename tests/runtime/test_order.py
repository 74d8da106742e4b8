"""Every position once over all ranks; counts written out; resuming on other ranks."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeplug.errors import ArgumentError
from pipeplug.runtime.order import Partition, epoch_order


@st.composite
def partitions(draw, last_batch=None):
    length = draw(st.integers(0, 300))
    return Partition(
        length,
        draw(st.integers(1, 40)),
        ranks=draw(st.integers(1, 9)),
        start=draw(st.integers(0, length)),
        last_batch=last_batch or draw(st.sampled_from(["keep", "drop", "pad"])),
    )


def all_ranks(partition):
    return [dataclasses.replace(partition, rank=rank) for rank in range(partition.ranks)]


def positions(partition, iterations=None):
    """The positions of all ranks, of the first `iterations` only if that is given."""
    return [
        position
        for rank in all_ranks(partition)
        for iteration in range(len(rank))
        if iterations is None or iteration < iterations
        for position in rank.positions(iteration)
    ]


@given(partitions("keep"))
def test_keep_gives_every_position_once(partition):
    assert sorted(positions(partition)) == list(range(partition.start, partition.length))


@given(partitions("pad"))
def test_pad_gives_every_position_once_and_equal_batches(partition):
    assert sorted(positions(partition)) == list(range(partition.start, partition.length))
    assert len({len(rank) for rank in all_ranks(partition)}) == 1
    for rank in all_ranks(partition):
        for iteration in range(len(rank)):
            assert len(rank.positions(iteration)) + rank.padding(iteration) == partition.batch_size


@given(partitions("drop"))
def test_drop_leaves_out_less_than_an_iteration(partition):
    got = sorted(positions(partition))
    assert got == list(range(partition.start, partition.start + len(got)))
    assert partition.length - partition.start - len(got) < partition.batch_size * partition.ranks
    for rank in all_ranks(partition):
        assert all(len(rank.positions(i)) == partition.batch_size for i in range(len(rank)))


@given(partitions())
def test_a_rank_takes_its_place_in_each_full_iteration(partition):
    B, S = partition.batch_size, partition.ranks
    for k, rank in enumerate(all_ranks(partition)):
        for i in range((partition.length - partition.start) // (S * B)):
            first = partition.start + (i * S + k) * B
            assert rank.positions(i) == range(first, first + B)
            assert rank.padding(i) == 0


@given(partitions("keep"))
def test_no_batch_is_empty_and_ranks_differ_by_one_row_or_batch(partition):
    ranks = all_ranks(partition)
    sizes = [[len(rank.positions(i)) for i in range(len(rank))] for rank in ranks]
    assert all(0 < size <= partition.batch_size for rank in sizes for size in rank)
    totals = [sum(rank) for rank in sizes]
    assert max(totals) - min(totals) <= 1
    assert max(map(len, sizes)) - min(map(len, sizes)) <= 1


@given(partitions(), st.integers(-1, 12))
def test_delivered_counts_what_all_ranks_had(partition, iteration):
    had = positions(partition, iteration + 1)
    if partition.last_batch == "drop":
        iteration = min(iteration, len(partition) - 1)
    assert partition.delivered(iteration) == partition.start + len(had)


@given(partitions(), st.integers(-1, 12), st.integers(1, 9), st.integers(1, 40))
def test_resuming_on_other_ranks_covers_the_rest(partition, iteration, ranks, batch_size):
    iteration = min(iteration, len(partition) - 1)
    resumed = Partition(
        partition.length, batch_size, ranks=ranks, start=partition.delivered(iteration), last_batch="keep"
    )
    whole = positions(partition, iteration + 1) + positions(resumed)
    assert sorted(whole) == list(range(partition.start, partition.length))


def batches(partition):
    return [(len(partition.positions(i)), partition.padding(i)) for i in range(len(partition))]


@pytest.mark.parametrize(
    ("length", "last_batch", "expected"),
    [
        (42, "keep", [(16, 0), (16, 0), (10, 0)]),
        (42, "drop", [(16, 0), (16, 0)]),
        (42, "pad", [(16, 0), (16, 0), (10, 6)]),
        (32, "pad", [(16, 0), (16, 0)]),
        (1, "keep", [(1, 0)]),
        (1, "drop", []),
        (1, "pad", [(1, 15)]),
        (0, "keep", []),
        (0, "drop", []),
        (0, "pad", []),
    ],
)
def test_last_batch_rules(length, last_batch, expected):
    assert batches(Partition(length, 16, last_batch=last_batch)) == expected


@pytest.mark.parametrize(
    ("last_batch", "expected"),
    [
        ("keep", [[(4, 0)], [(4, 0), (1, 0)], [(4, 0), (1, 0)]]),
        ("drop", [[(4, 0)], [(4, 0)], [(4, 0)]]),
        ("pad", [[(4, 0), (0, 4)], [(4, 0), (1, 3)], [(4, 0), (1, 3)]]),
    ],
)
def test_fewer_positions_than_ranks_remain(last_batch, expected):
    ranks = all_ranks(Partition(14, 4, ranks=3, last_batch=last_batch))
    assert [batches(rank) for rank in ranks] == expected


def test_there_is_nothing_left_at_the_end():
    assert len(Partition(42, 16, start=42, last_batch="pad")) == 0


@pytest.mark.parametrize("iteration", [-1, 3])
def test_iterations_that_do_not_exist(iteration):
    partition = Partition(42, 16)
    with pytest.raises(IndexError, match=f"iteration {iteration} of 3 on rank 0 of 1"):
        partition.positions(iteration)
    with pytest.raises(IndexError, match=f"iteration {iteration} of 3"):
        partition.padding(iteration)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 0}, "batch_size=0: give at least 1"),
        ({"rank": 2, "ranks": 2}, "rank=2 of ranks=2: ranks count from 0 to ranks - 1"),
        ({"ranks": 0}, "rank=0 of ranks=0"),
        ({"start": 43}, "start=43: the epoch has 42 positions"),
        ({"start": -1}, "start=-1"),
        ({"last_batch": "skip"}, 'last_batch=\'skip\': give "keep", "drop" or "pad"'),
    ],
)
def test_partitions_that_cannot_be(arguments, message):
    with pytest.raises(ArgumentError, match=message):
        Partition(**{"length": 42, "batch_size": 16, **arguments})


def test_an_order_without_shuffling_is_a_range():
    assert epoch_order(10**12, seed=1, epoch=3, shuffle=False) == range(10**12)


def test_a_shuffled_order_is_a_permutation_that_seed_and_epoch_decide():
    orders = [epoch_order(100, seed=s, epoch=e, shuffle=True) for s, e in [(1, 0), (1, 1), (2, 0), (1, 0)]]
    assert all(sorted(map(int, order)) == list(range(100)) for order in orders)
    assert [list(orders[0]) == list(order) for order in orders] == [True, False, False, True]


def test_orders_cannot_be_written_to():
    order = epoch_order(3, seed=1, epoch=0, shuffle=True)
    assert isinstance(order, np.ndarray)
    with pytest.raises(ValueError, match="read-only"):
        order[0] = 1


@pytest.mark.parametrize("indices", [[2, 0, 2], (2, 0, 2), np.array([2, 0, 2], np.uint8)])
def test_a_sampler_sets_the_order_and_may_repeat(indices):
    epochs = []

    def sampler(epoch):
        epochs.append(epoch)
        return indices

    order = epoch_order(3, seed=1, epoch=5, shuffle=False, sampler=sampler)
    assert epochs == [5]
    assert list(order) == [2, 0, 2]
    assert isinstance(order, np.ndarray)
    assert order.dtype == np.int64


def test_a_sampler_may_return_nothing():
    assert len(epoch_order(3, seed=1, epoch=0, shuffle=False, sampler=lambda epoch: [])) == 0


def test_what_a_sampler_returned_is_copied():
    indices = np.array([0, 1, 2])
    order = epoch_order(3, seed=1, epoch=0, shuffle=False, sampler=lambda epoch: indices)
    indices[0] = 99
    assert list(order) == [0, 1, 2]


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        ([0, 3], r"sampler\(4\) returned index 3 at position 1: the source has 3 samples, .* from 0 to 2"),
        ([0, 1, -1], "returned index -1 at position 2"),
        ([0.5], r"sampler\(4\) returned float64 of shape \(1,\): return a flat list of whole numbers"),
        ([[0, 1]], r"of shape \(1, 2\)"),
        ([True, False, True], "returned bool"),
        (["a"], "return a flat list of whole numbers"),
    ],
)
def test_samplers_that_return_something_else(indices, message):
    with pytest.raises(ArgumentError, match=message):
        epoch_order(3, seed=1, epoch=4, shuffle=False, sampler=lambda epoch: indices)


def test_shuffling_a_sampler_is_refused():
    with pytest.raises(ArgumentError, match="shuffle=True and sampler= both set the order"):
        epoch_order(3, seed=1, epoch=0, shuffle=True, sampler=lambda epoch: [0])
