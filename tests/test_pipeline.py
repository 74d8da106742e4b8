"""Pipelines as a user meets them: blocks, loops, epochs, lengths, names, state."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pipeplug import (
    ArgumentError,
    Context,
    GraphError,
    Operator,
    Pipeline,
    PipelineState,
    StateError,
    Tensor,
    TensorSpec,
    ops,
    pipeline,
)


class Add(Operator):
    """Adds a number."""

    by: int = 1

    def infer(self, number: TensorSpec) -> TensorSpec:
        return number

    def cpu(self, number: Tensor, context: Context) -> Tensor:
        return Tensor(number.numpy() + self.by)


def counting(length: int = 42, batch_size: int = 16, *, shuffle: bool = False, by: int = 0, **options: Any) -> Pipeline:
    """A pipeline over the numbers below `length`."""

    @pipeline(batch_size=batch_size, **{"threads": 2, **options})
    def numbers() -> Any:
        return {"n": Add(by=by)(ops.read.arrays(np.arange(length), shuffle=shuffle))}

    return numbers()


def rows(batches: Any) -> list[list[int]]:
    return [batch["n"].numpy().tolist() for batch in batches]


class TestBlock:
    def test_only_in_its_block(self):
        numbers = counting()
        for use in (numbers.__iter__, numbers.statistics, numbers.memory):
            with pytest.raises(StateError, match=r"open the pipeline first: `with pipeline as batches:`"):
                use()

    def test_not_within_itself(self):
        with counting() as batches:
            with pytest.raises(StateError, match="open already; one `with` block at a time"), batches:
                pass
            assert len(rows(batches)) == 3

    def test_again_afterwards(self):
        numbers = counting()
        for _ in range(2):
            with numbers as batches:
                assert sum(map(len, rows(batches))) == 42
                assert batches.statistics().samples == 42

    def test_leaving_with_a_live_iterator_ends_it_and_its_threads(self):
        before = threading.active_count()
        with counting() as batches:
            iterator = iter(batches)
            next(iterator)
            assert threading.active_count() == before + 2
        assert threading.active_count() == before
        assert list(iterator) == []

    def test_an_iterator_that_was_never_started(self):
        with counting() as batches:
            iterator = iter(batches)
        assert list(iterator) == []

    def test_an_exception_passes(self):
        with pytest.raises(KeyError, match="mine"), counting() as batches:
            for _ in batches:
                raise KeyError("mine")
        assert threading.active_count() == 1


class TestEpochs:
    def test_a_loop_is_one_epoch(self):
        with counting() as batches:
            for epoch in range(3):
                assert [(batch.epoch, len(batch["n"])) for batch in batches] == [(epoch, 16), (epoch, 16), (epoch, 10)]

    def test_a_break_ends_it(self):
        with counting() as batches:
            for batch in batches:
                assert batch.epoch == 0
                break
            assert {batch.epoch for batch in batches} == {1}

    def test_one_iterator_at_a_time(self):
        with counting() as batches:
            iterator = iter(batches)
            next(iterator)
            with pytest.raises(StateError, match="leave its loop, or close its iterator, first"):
                iter(batches)
            iterator.close()  # type: ignore[attr-defined]  # a generator
            assert len(list(batches)) == 3

    def test_an_exhausted_iterator_is_in_nobodys_way(self):
        with counting() as batches:
            iterator = iter(batches)
            assert len(list(iterator)) == 3
            assert len(list(batches)) == 3
            assert list(iterator) == []

    def test_a_failed_loop_is_in_nobodys_way(self):
        with counting() as batches:
            kept = []
            try:
                for _ in batches:
                    raise KeyError
            except KeyError as error:
                kept.append(error)  # and with it the frame of the loop
            assert {batch.epoch for batch in batches} == {1}

    def test_set_epoch(self):
        with counting(shuffle=True) as batches:
            _first, second = rows(batches), rows(batches)
            batches.set_epoch(1)
            assert rows(batches) == second
            assert batches.state() == PipelineState(2, 0, batches.state().fingerprint)

    def test_epochs_are_shuffled_differently_and_whole(self):
        with counting(shuffle=True) as batches:
            epochs = [[number for row in rows(batches) for number in row] for _ in range(3)]
        assert len({tuple(epoch) for epoch in epochs}) == 3
        assert all(sorted(epoch) == list(range(42)) for epoch in epochs)

    def test_a_sampler_gives_the_order(self):
        def backwards(epoch: int) -> list[int]:
            return [3, 2, epoch]

        @pipeline(batch_size=2, threads=2)
        def sampled() -> Any:
            return {"n": ops.read.arrays(np.arange(10), sampler=backwards)}

        with sampled() as batches:
            assert len(batches) == 2
            assert rows(batches) == [[3, 2], [0]]
            assert rows(batches) == [[3, 2], [1]]
            assert [batch.positions.tolist() for batch in batches] == [[0, 1], [2]]


class TestLength:
    @pytest.mark.parametrize(
        ("last_batch", "sizes"), [("keep", [16, 16, 10]), ("drop", [16, 16]), ("pad", [16, 16, 16])]
    )
    def test_exact(self, last_batch: str, sizes: list[int]):
        numbers = counting(last_batch=last_batch)
        with numbers as batches:
            assert len(batches) == len(sizes)
            received = list(batches)
        assert [len(batch["n"]) for batch in received] == sizes
        assert received[-1].padding == (6 if last_batch == "pad" else 0)

    @pytest.mark.parametrize("length", [0, 1, 15, 16, 17, 32])
    @pytest.mark.parametrize("last_batch", ["keep", "drop", "pad"])
    @pytest.mark.parametrize("ranks", [1, 3])
    def test_exact_for_ranks(self, length: int, last_batch: str, ranks: int):
        seen: list[int] = []
        for rank in range(ranks):

            @pipeline(batch_size=4, threads=2, last_batch=last_batch)  # type: ignore[arg-type]
            def numbers(rank: int = rank) -> Any:
                return {"n": ops.read.arrays(np.arange(length), shard=(rank, ranks))}

            with numbers() as batches:
                received = list(batches)
                assert len(received) == len(batches)
            for batch in received:
                assert len(batch["n"]) == 4 or last_batch == "keep"
                seen += batch.positions[: len(batch.positions) - batch.padding].tolist()
        dropped = length % (4 * ranks) if last_batch == "drop" else 0
        assert sorted(seen) == list(range(length - dropped))

    def test_padding_repeats_the_last_sample(self):
        with counting(length=5, batch_size=4, last_batch="pad") as batches:
            *_, last = batches
        assert last["n"].numpy().tolist() == [4, 4, 4, 4]
        assert last.positions.tolist() == [4, 4, 4, 4]

    def test_unknown_for_iterables(self):
        @pipeline(batch_size=2)
        def numbers() -> Any:
            return {"n": ops.read.items({1, 2, 3})}

        with pytest.raises(TypeError, match="not known before it ends"):
            len(numbers())


class TestOutputs:
    def test_by_name_in_order(self):
        @pipeline(batch_size=4)
        def two() -> Any:
            numbers = ops.read.arrays(np.arange(4))
            return {"more": Add(by=1)(numbers), "n": numbers, "again": numbers}

        with two() as batches:
            (batch,) = batches
        assert list(batch) == ["more", "n", "again"]
        assert batch["more"].numpy().tolist() == [1, 2, 3, 4]
        assert batch["n"].numpy().tolist() == batch["again"].numpy().tolist() == [0, 1, 2, 3]
        assert batch.positions.dtype == np.int64
        assert batch.positions.tolist() == [0, 1, 2, 3]
        assert (batch.padding, batch.epoch, batch.failures) == (0, 0, ())

    @pytest.mark.parametrize(
        ("results", "names"),
        [(lambda n: n, ["0"]), (lambda n: (n, Add()(n)), ["0", "1"]), (lambda n: [n, n, n], ["0", "1", "2"])],
    )
    def test_without_names(self, results: Callable[[Any], Any], names: list[str]):
        @pipeline(batch_size=4)
        def unnamed() -> Any:
            return results(ops.read.arrays(np.arange(4)))

        with unnamed() as batches:
            (batch,) = batches
        assert list(batch) == names
        assert batch["0"].numpy().tolist() == [0, 1, 2, 3]

    def test_batches_outlive_the_block(self):
        with counting(batch_size=4) as batches:
            received = list(batches)
        gc.collect()
        assert np.concatenate([batch["n"].numpy() for batch in received]).tolist() == list(range(42))


class TestState:
    @pytest.mark.parametrize("stop", [0, 1, 2, 3])
    def test_a_fresh_pipeline_goes_on(self, stop: int):
        with counting(shuffle=True) as batches:
            whole = [rows(batches), rows(batches)]
        with counting(shuffle=True) as batches:
            rows(batches)
            received: list[list[int]] = []
            for batch in batches:
                if len(received) == stop:
                    break
                received.append(batch["n"].numpy().tolist())
                state = batches.state()
            if stop == 0:
                state = replace(batches.state(), delivered=0)
        assert state.epoch == 1
        with counting(shuffle=True, threads=1) as batches:
            batches.load_state(state)
            assert batches.state() == state
            assert len(batches) == 3 - stop
            assert received + rows(batches) == whole[1]
            assert {batch.epoch for batch in batches} == {2}

    def test_at_the_beginning_and_at_the_end(self):
        with counting() as batches:
            assert (batches.state().epoch, batches.state().delivered) == (0, 0)
            rows(batches)
            assert (batches.state().epoch, batches.state().delivered) == (1, 0)

    def test_counts_what_the_loop_has_received(self):
        with counting(prefetch=4) as batches:
            assert [batches.state().delivered for _ in batches] == [16, 32, 42]

    def test_of_another_pipeline_is_refused(self):
        state = counting().state()
        counting(threads=1, batch_size=3, prefetch=5, last_batch="pad").load_state(state)
        for other in (counting(by=1), counting(seed=1), counting(length=41), counting(shuffle=True)):
            with pytest.raises(StateError, match="another pipeline: operators, their arguments, the seed or"):
                other.load_state(state)

    def test_iterables_resume(self):
        class Endless:
            def __iter__(self) -> Iterator[int]:
                return iter(range(10))

        @pipeline(batch_size=4, threads=2)
        def numbers() -> Any:
            return {"n": ops.read.items(Endless())}

        with numbers() as batches:
            for batch in batches:
                assert batch["n"].numpy().tolist() == [0, 1, 2, 3]
                state = batches.state()
                break
        with numbers.using(batch_size=3)() as batches:
            batches.load_state(state)
            received = list(batches)
            assert rows(received) == [[4, 5, 6], [7, 8, 9]]
            assert received[0].positions.tolist() == [4, 5, 6]
            assert rows(batches) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]


class TestSources:
    def test_there_must_be_one(self):
        with pytest.raises(GraphError, match="returns nothing"):
            pipeline(batch_size=1)(lambda: None)()
        with pytest.raises(GraphError, match="reads from nothing; begin with a source"):
            pipeline(batch_size=1)(lambda: {"n": ops.random.uniform()})()

    def test_an_iterable_has_no_order(self):
        with pytest.raises(ArgumentError, match="read as it comes: no shuffle, sampler or shard"):
            pipeline(batch_size=1)(lambda: ops.read.items({1}, shuffle=True))()

    def test_an_iterator_serves_one_epoch(self):
        numbers = pipeline(batch_size=2)(lambda: {"n": ops.read.items(iter(range(3)))})
        with numbers() as batches:
            assert rows(batches) == [[0, 1], [2]]
            with pytest.raises(StateError, match="can be iterated once and has been; give the source an object whose"):
                rows(batches)

    def test_empty(self):
        with counting(length=0) as batches:
            assert (len(batches), list(batches), list(batches)) == (0, [], [])

    def test_samples_leave_an_open_reader_open(self):
        class Reader(contextlib.AbstractContextManager[None]):
            def __init__(self) -> None:
                self.entered = 0

            def __enter__(self) -> None:
                self.entered += 1

            def __exit__(self, *_: object) -> None:
                self.entered -= 1

            def __len__(self) -> int:
                return 6

            def __getitem__(self, index: int) -> int:
                assert self.entered == 1, "the reader is to be entered once"
                return index

        reader = Reader()
        numbers = pipeline(batch_size=2, threads=1)(lambda: {"n": ops.read.items(reader)})()
        assert numbers.samples([4])["n"].numpy().tolist() == [4]
        assert reader.entered == 0
        with numbers as batches:
            iterator = iter(batches)
            next(iterator)
            assert numbers.samples([5])["n"].numpy().tolist() == [5]
            assert rows(iterator) == [[2, 3], [4, 5]]
        assert reader.entered == 0


class TestOptions:
    def test_a_missing_batch_size(self):
        with pytest.raises(ArgumentError, match=r"write @pipeline\(batch_size=…\)"):
            pipeline(lambda: None)  # type: ignore[arg-type]

    def test_using(self):
        @pipeline(batch_size=4, seed=3)
        def numbers(length: int) -> Any:
            """Counts."""
            return {"n": ops.read.arrays(np.arange(length))}

        changed = numbers.using(batch_size=5, threads=1)
        assert (numbers.__name__, numbers.__doc__) == (changed.__name__, changed.__doc__) == ("numbers", "Counts.")
        assert (numbers.options.batch_size, changed.options.batch_size, changed.options.seed) == (4, 5, 3)
        with changed(7) as batches:
            assert [len(batch["n"]) for batch in batches] == [5, 2]


@pytest.mark.parametrize("use", [iter, len, lambda function: function.__enter__()])
def test_a_function_that_was_not_called_says_so(use: Any):
    @pipeline(batch_size=1)
    def train():
        return ops.read.arrays(np.arange(3))

    assert train
    with pytest.raises(StateError, match=r"train is a pipeline function, .* `with train\(…\) as batches:`"):
        use(train)
