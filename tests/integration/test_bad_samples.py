"""Samples that fail: every sample is delivered, failed, or neither yet; and which is which depends on nothing else."""

from __future__ import annotations

import gc
import pickle
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Literal

import numpy as np
import pytest

from pipeplug import (
    Array,
    Batch,
    Context,
    Draws,
    Operator,
    Pipeline,
    SampleFailed,
    Shapes,
    SourceError,
    Tensor,
    TensorSpec,
    TooManyFailuresError,
    ops,
    pipeline,
)

OnError = Literal["raise", "skip", "replace"]

LENGTH = 50
BAD = (0, 3, 4, 7, 8, 21, 32, 33, 34, 35, 36, 37, 38, 39, 49)
"""Borders of chunks and batches among them, and all of the batch of 32 to 39."""


class Refuse(Operator):
    """Fails on some numbers."""

    bad: tuple[int, ...] = BAD
    parallel: ClassVar[bool] = True

    def infer(self, number: TensorSpec) -> TensorSpec:
        return number

    def cpu(self, number: Tensor, context: Context) -> Tensor:
        refuse(int(number.numpy()), self.bad)
        return number


class RefuseInTurn(Refuse):
    """The same, one sample after the other."""

    parallel: ClassVar[bool] = False

    def cpu(self, number: Tensor, context: Context) -> Tensor:
        return super().cpu(number, context)


class RefuseRows(Refuse):
    """The same, a batch a call."""

    def cpu(self, numbers: Batch, context: Context) -> Batch:  # type: ignore[override]
        for row, number in enumerate(numbers.numpy().tolist()):
            if number in self.bad:
                context.fail(row, ValueError(f"{number} is bad"))
        return Batch.equal(numbers.numpy()[~np.isin(numbers.numpy(), self.bad)])


class RefuseBatch(Refuse):
    """The same, but for all of a batch with a bad one."""

    def cpu(self, numbers: Batch, context: Context) -> Batch:  # type: ignore[override]
        for number in numbers.numpy().tolist():
            refuse(number, self.bad)
        return numbers


class RefuseToDraw(Operator):
    """Draws from the shape of its input, and fails for a batch with an input that has none."""

    bad: tuple[int, ...] = ()

    def infer(self, numbers: TensorSpec) -> TensorSpec:
        return numbers

    def draw(self, random: Draws, numbers: Shapes) -> dict[str, Array]:
        if not numbers.all():
            raise ValueError("an empty sample")
        return {"chosen": random.integers(0, numbers[:, 0])}

    def cpu(self, numbers: Tensor, context: Context, *, chosen: Array) -> Tensor:
        return Tensor(numbers.numpy()[: chosen + 1])


class Decode(Operator):
    """Makes as many ones as its input says, which `peek` reads."""

    def infer(self, text: TensorSpec) -> TensorSpec:
        return TensorSpec((None,), "int64")

    def peek(self, text: str) -> TensorSpec:
        return TensorSpec((int(text),), "int64")

    def cpu(self, text: str, context: Context) -> Tensor:
        return Tensor(np.ones(int(text.strip("?")), np.int64))


class Reader:
    """The numbers below `LENGTH`, of which some cannot be read."""

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> np.int64:
        refuse(index, BAD)
        return np.int64(index)

    def origin(self, index: int) -> str:
        return f"number {index}"


def refuse(number: int, bad: tuple[int, ...]) -> None:
    if number in bad:
        raise ValueError(f"{number} is bad")


def from_reader(**options: Any) -> Pipeline:
    spec = (TensorSpec((), "int64"),)
    return pipeline(**options)(lambda: {"n": Refuse(bad=())(ops.read.items(Reader(), specs=spec))})()


def refusing(*operators: Operator, **options: Any) -> Pipeline:
    @pipeline(**options)
    def function() -> Any:
        value = ops.read.arrays(np.arange(LENGTH))
        for operator in operators:
            value = operator(value)
        return {"n": value}

    return function()


WAYS: dict[str, Callable[..., Pipeline]] = {
    "source": from_reader,
    "sample": lambda **options: refusing(Refuse(), **options),
    "sample, after and before others": lambda **o: refusing(Refuse(bad=()), Refuse(), Refuse(bad=()), **o),
    "serial": lambda **options: refusing(RefuseInTurn(), **options),
    "rows of a batch": lambda **options: refusing(RefuseRows(), **options),
    "sample, then a batch": lambda **options: refusing(Refuse(), RefuseRows(bad=()), **options),
    "batch, then a sample": lambda **options: refusing(RefuseRows(), Refuse(bad=()), RefuseRows(bad=()), **options),
    "by and by": lambda **options: refusing(Refuse(bad=BAD[:5]), RefuseRows(bad=BAD[5:9]), Refuse(), **options),
}

many = pytest.mark.parametrize("way", WAYS)
threaded = pytest.mark.parametrize("threads", [1, 3])


def good_of(positions: range) -> list[int]:
    return [position for position in positions if position not in BAD]


def batches_of(size: int) -> list[range]:
    return [range(start, min(start + size, LENGTH)) for start in range(0, LENGTH, size)]


@many
@threaded
class TestEveryWay:
    def test_skip(self, way: str, threads: int):
        with WAYS[way](batch_size=8, threads=threads, on_error="skip") as batches:
            received = list(batches)
            statistics = batches.statistics()
        wanted = [good_of(positions) for positions in batches_of(8) if good_of(positions)]
        assert [batch["n"].numpy().tolist() for batch in received] == wanted
        assert [batch.positions.tolist() for batch in received] == wanted
        assert [failure.position for batch in received for failure in batch.failures] == list(BAD)
        assert [failure.position for failure in statistics.failed] == list(BAD)
        assert (statistics.samples, statistics.failures, statistics.passed) == (LENGTH - len(BAD), len(BAD), 1)
        assert sum(each.failures for each in statistics.operators) == len(BAD)

    def test_replace(self, way: str, threads: int):
        with WAYS[way](batch_size=8, threads=threads, on_error="replace") as batches:
            received = list(batches)
        wanted = [positions for positions in batches_of(8) if good_of(positions)]
        for batch, positions in zip(received, wanted, strict=True):
            good = good_of(positions)
            replacing = [next((g for g in good if g >= position), good[0]) for position in positions]
            assert batch["n"].numpy().tolist() == batch.positions.tolist() == replacing
            expected: list[tuple[int, int | None]] = []
            if positions[0] == 40:  # after the batch that was passed over
                expected += [(position, None) for position in range(32, 40)]
            expected += [(p, instead) for p, instead in zip(positions, replacing, strict=True) if p != instead]
            assert [(failure.position, failure.replaced_by) for failure in batch.failures] == expected

    def test_raise(self, way: str, threads: int):
        with WAYS[way](batch_size=8, threads=threads, prefetch=4) as batches:
            with pytest.raises(SampleFailed, match="0 is bad") as raised:
                next(iter(batches))
            assert raised.value.position == 0
            assert isinstance(raised.value.cause, ValueError)
            assert raised.value.__cause__ is raised.value.cause
            assert raised.value.replaced_by is None


@threaded
def test_batches_before_the_failure_come_first(threads: int):
    for _ in range(5):
        with refusing(Refuse(bad=(29, 26)), batch_size=4, threads=threads, prefetch=5) as batches:
            received = []
            with pytest.raises(SampleFailed, match="26 is bad"):
                for batch in batches:
                    received += batch.positions.tolist()
            assert received == list(range(24))
            assert batches.state().delivered == 24
            assert [batch.epoch for batch, _ in zip(batches, [0], strict=False)] == [1]


def test_one_bad_sample_of_a_batch_kernel_that_raises_fails_the_batch():
    with refusing(RefuseBatch(bad=(9,)), batch_size=8, on_error="skip") as batches:
        received = list(batches)
        statistics = batches.statistics()
    assert [batch.positions[0] for batch in received] == [0, 16, 24, 32, 40, 48]
    assert (statistics.passed, statistics.failures, statistics.batches) == (1, 8, 6)
    (operator,) = (each for each in statistics.operators if each.name == "RefuseBatch")
    assert (operator.calls, operator.failures) == (6, 8)


@pytest.mark.parametrize("allowed", [0, 1, 14])
def test_too_many(allowed: int):
    with refusing(Refuse(), batch_size=8, on_error="skip", max_failures=allowed) as batches:
        with pytest.raises(TooManyFailuresError, match=rf"failed, max_failures={allowed}; the last one: Refuse failed"):
            list(batches)


def test_not_too_many_and_counted_by_epoch():
    with refusing(Refuse(), batch_size=8, on_error="skip", max_failures=len(BAD)) as batches:
        for _ in range(2):
            assert sum(len(batch["n"]) for batch in batches) == LENGTH - len(BAD)


@pytest.mark.parametrize("on_error", ["skip", "replace"])
def test_a_bad_sample_that_pads_the_batch_fails_once(on_error: OnError):
    with refusing(Refuse(bad=(49,)), batch_size=8, on_error=on_error, last_batch="pad") as batches:
        *_, last = batches
        assert batches.statistics().failures == 1
    assert [failure.position for failure in last.failures] == [49]
    if on_error == "skip":
        assert (last.positions.tolist(), last.padding) == ([48], 0)
    else:
        assert (last.positions.tolist(), last.padding) == ([48] * 8, 6)


def test_a_sample_that_fails_twice_is_blamed_on_the_first_stage_whatever_threads_do():
    class Slow(Refuse):
        def cpu(self, number: Tensor, context: Context) -> Tensor:
            np.sort(np.random.Philox(int(number.numpy())).random_raw(2000))
            return super().cpu(number, context)

    @pipeline(batch_size=8, threads=4, on_error="skip")
    def branches() -> Any:
        value = RefuseRows(bad=())(ops.read.arrays(np.arange(LENGTH)))
        seen = ops.map(lambda numbers: np.full_like(numbers, len(numbers)), Slow(bad=(1,))(value), batch=True)
        return {"n": Slow(bad=(2, 5))(value), "quick": Refuse(bad=(2, 6))(value), "seen": seen}

    for _ in range(5):
        with branches() as batches:
            first = next(iter(batches))
        assert [(failure.position, failure.node) for failure in first.failures] == [
            (1, "Slow"), (2, "Slow_2"), (5, "Slow_2"), (6, "Refuse"),
        ]  # fmt: skip
        assert first["seen"].numpy().tolist() == [7] * 4


class TestDraws:
    def test_drawing_fails_the_batch(self):
        @pipeline(batch_size=4, threads=2, on_error="skip")
        def function() -> Any:
            return {"n": RefuseToDraw()(ops.map(np.arange, ops.read.items([1, 2, 3, 4, 5, 0, 7, 8, 9])))}

        with function() as batches:
            assert [batch.positions.tolist() for batch in batches] == [[0, 1, 2, 3], [8]]
            names = [each.name for each in batches.statistics().operators if each.failures]
        assert names == ["RefuseToDraw.draw"]
        with function.using(on_error="raise")() as batches:
            with pytest.raises(SampleFailed, match=r"RefuseToDraw.draw failed on item 4 \(position 4.*an empty sample"):
                list(batches)

    def test_peeking_fails_the_sample(self):
        @pipeline(batch_size=4, threads=2, on_error="skip")
        def function() -> Any:
            return {"n": RefuseToDraw()(Decode()(ops.read.items(["1", "7?", "2", "3", "4", "x"])))}

        with function() as batches:
            received = list(batches)
        assert [batch.positions.tolist() for batch in received] == [[0, 2, 3], [4]]
        assert [failure.node for batch in received for failure in batch.failures] == ["Decode.shape", "Decode"]


class TestIterables:
    @staticmethod
    def numbers(items: Callable[[], Iterator[Any]], **options: Any) -> Pipeline:
        class Stream:
            def __iter__(self) -> Iterator[Any]:
                return items()

        return pipeline(**{"batch_size": 4, "threads": 3, "prefetch": 3, **options})(
            lambda: {"n": Refuse(bad=(2, 5))(ops.read.items(Stream(), specs=(TensorSpec((), "int64"),)))}
        )()

    @pytest.mark.parametrize("on_error", ["skip", "replace"])
    def test_one_that_raises_ends_the_epoch_after_the_batches_before(self, on_error: OnError):
        def items() -> Iterator[int]:
            yield from range(10)
            raise OSError("gone")

        for _ in range(5):
            with self.numbers(items, on_error=on_error) as batches:
                received = []
                with pytest.raises(SourceError, match=r"read.items raised OSError after 10 items: gone") as raised:
                    for batch in batches:
                        received += batch.positions.tolist()
                assert isinstance(raised.value.__cause__, OSError)
                assert received == ([0, 1, 3, 4, 6, 7] if on_error == "skip" else [0, 1, 3, 3, 4, 6, 6, 7])
                assert batches.state().delivered == 8

    def test_one_that_raises_at_once(self):
        def items() -> Iterator[int]:
            yield from (1 // number for number in range(2))

        with (
            self.numbers(items) as batches,
            pytest.raises(SourceError, match="ZeroDivisionError after 0 items: integer"),
        ):
            list(batches)

    def test_items_that_do_not_fit_fail_alone(self):
        with self.numbers(lambda: iter([0, "one", 2, 3, 4.5, 6, [7], 8]), on_error="skip") as batches:
            received = list(batches)
            operators = {each.name: each for each in batches.statistics().operators}
        assert [batch["n"].numpy().tolist() for batch in received] == [[0, 3], [6, 8]]
        assert [str(failure.cause) for batch in received for failure in batch.failures] == [
            "infer says int64 (), but the kernel gave the object 'one'",
            "2 is bad",
            "infer says int64 (), but the kernel gave float64 ()",
            "infer says int64 (), but the kernel gave int64 (1,)",
        ]
        assert (operators["read.items"].calls, operators["read.items"].failures) == (5, 3)


class TestFailures:
    @staticmethod
    def failure(**options: Any) -> SampleFailed:
        with from_reader(batch_size=8, on_error="skip", **options) as batches:
            return next(iter(batches)).failures[1]

    def test_names_everything(self):
        failure = self.failure()
        assert str(failure) == "read.items failed on number 3 (position 3, index 3): ValueError: 3 is bad"
        assert (failure.position, failure.index, failure.origin) == (3, 3, "number 3")
        assert (failure.operator, failure.node) == ("read.items", "read.items")

    def test_names_node_and_operator(self):
        with refusing(Refuse(bad=()), Refuse(), batch_size=8, on_error="skip") as batches:
            failure = next(iter(batches)).failures[0]
        assert (failure.operator, failure.node) == ("Refuse", "Refuse_2")
        assert str(failure).startswith("Refuse_2 failed on row 0 (position 0, index 0): ValueError")

    def test_position_and_index_differ_when_shuffled(self):
        @pipeline(batch_size=LENGTH, on_error="skip", seed=1)
        def shuffled() -> Any:
            return {"n": Refuse(bad=(7,))(ops.read.arrays(np.arange(LENGTH), shuffle=True))}

        with shuffled() as batches:
            (batch,) = batches
        (failure,) = batch.failures
        assert failure.index == 7
        assert failure.position == (set(range(LENGTH)) - set(batch.positions.tolist())).pop() != 7

    def test_can_be_sent_to_another_process(self):
        failure = self.failure()
        failure.replaced_by = 5
        back = pickle.loads(pickle.dumps(failure))
        assert str(back) == str(failure)
        assert (back.position, back.index, back.origin, back.replaced_by) == (3, 3, "number 3", 5)
        assert (back.operator, back.node, str(back.cause)) == ("read.items", "read.items", "3 is bad")

    def test_says_where_it_was_raised(self):
        with from_reader(batch_size=8) as batches, pytest.raises(SampleFailed) as raised:
            list(batches)
        text = "".join(traceback.format_exception(raised.value))
        assert "in __getitem__\n    refuse(index, BAD)\n" in text
        assert 'raise ValueError(f"{number} is bad")' in text
        assert "ValueError: 0 is bad" in text

    @pytest.mark.parametrize("on_error", ["skip", "raise"])
    def test_keeps_no_memory(self, on_error: OnError):
        def fail(array: Array) -> Array:
            try:
                raise KeyError("context")
            except KeyError as error:
                if array[0, 0] == 3:
                    raise ValueError("bad") from error
            return array * 2

        spec = TensorSpec((100, 100), "float64")

        @pipeline(batch_size=4, threads=2, on_error=on_error, prefetch=3)
        def function() -> Any:
            image = ops.map(lambda n: np.full((100, 100), n, np.float64), ops.read.items(list(range(24))), spec=spec)
            image = ops.map(lambda arrays: arrays, ops.map(fail, image, spec=spec), batch=True, spec=spec)
            return {"image": image}

        with function() as batches:
            kept: list[BaseException] = []
            if on_error == "raise":
                with pytest.raises(SampleFailed) as raised:
                    list(batches)
                kept.append(raised.value)
            else:
                kept += [failure for batch in batches for failure in batch.failures]
            assert len(kept) == 1
            gc.collect()
            assert batches.memory()["cpu"].live == 0


@threaded
@pytest.mark.parametrize("batch_size", [1, 2, 7, 16, 50, 64])
@pytest.mark.parametrize("on_error", ["skip", "replace"])
def test_sums_are_exact(threads: int, batch_size: int, on_error: OnError):
    operators = (Refuse(bad=BAD[::3]), RefuseRows(bad=BAD[1::3]), RefuseInTurn(bad=BAD[2::3]))
    with refusing(*operators, batch_size=batch_size, threads=threads, on_error=on_error, prefetch=3) as batches:
        seen: Counter[int] = Counter()
        failed: Counter[int] = Counter()
        for batch in batches:
            seen.update(batch.positions.tolist())
            failed.update(failure.position for failure in batch.failures)
        statistics = batches.statistics()
    passed = [not good_of(positions) for positions in batches_of(batch_size)]
    assert statistics.passed == sum(passed)
    assert sorted(seen) == good_of(range(LENGTH))
    assert sorted(failed) == list(BAD[:-1] if passed[-1] else BAD)  # no batch comes after the last
    assert [failure.position for failure in statistics.failed] == list(BAD)
    assert set(failed.values()) == {1}
    assert statistics.failures == sum(each.failures for each in statistics.operators) == len(BAD)
    assert statistics.samples == seen.total()
    if on_error == "skip":
        assert set(seen.values()) == {1}
