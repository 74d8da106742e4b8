"""Batch kernels that take a batch in parts: each row once, in its place, whatever the parts are."""

from __future__ import annotations

import threading
from typing import Any, ClassVar

import numpy as np
import pytest

from pipeplug import (
    Array,
    Batch,
    Context,
    Draws,
    MemoryLimitError,
    Operator,
    PerSample,
    Pipeline,
    SampleFailed,
    TensorSpec,
    ops,
    pipeline,
)
from pipeplug.graph.render import stage_manner

LENGTH, BATCH_SIZE = 100, 40
DATA = np.arange(LENGTH * 3, dtype=np.float32).reshape(LENGTH, 3)

seen: list[list[float]] = []
"""The first numbers of the rows of each call."""


class Double(Operator):
    """Doubles rows, in the memory asked for or in its own."""

    splittable: ClassVar[bool] = True

    own_memory: bool = False

    def infer(self, rows: TensorSpec) -> TensorSpec:
        return rows

    def cpu(self, rows: Batch, context: Context) -> Batch:
        seen.append(rows.numpy()[:, 0].tolist())
        if self.own_memory:
            return Batch.equal(rows.numpy() * 2)
        out: Batch = context.empty_batch([rows[0].spec] * len(rows))
        np.multiply(rows.numpy(), 2, out=out.numpy())
        return out


class DoubleAtOnce(Double):
    """The same, on whole batches."""

    splittable: ClassVar[bool] = False

    def cpu(self, rows: Batch, context: Context) -> Batch:
        return super().cpu(rows, context)


def run(function: Any, **options: Any) -> list[Any]:
    with pipe(function, **options) as batches:
        return list(batches)


def pipe(function: Any, **options: Any) -> Pipeline:
    options = {"batch_size": BATCH_SIZE, "threads": 2, **options}
    return pipeline(**options)(lambda: {"out": function(ops.read.arrays(DATA))})()


@pytest.fixture(autouse=True)
def _forget_calls():
    seen.clear()


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("own_memory", [True, False])
def test_every_row_is_taken_once_and_comes_out_in_its_place(own_memory: bool, threads: int):
    batches = run(Double(own_memory=own_memory), threads=threads)
    assert np.array_equal(np.concatenate([batch["out"].numpy() for batch in batches]), DATA * 2)
    assert sorted(number for call in seen for number in call) == DATA[:, 0].tolist()
    assert max(len(call) for call in seen) == max(1, -(-BATCH_SIZE // (4 * threads)))


def test_a_kernel_that_is_not_splittable_gets_whole_batches():
    run(DoubleAtOnce())
    assert sorted(len(call) for call in seen) == [20, 40, 40]


def test_parts_run_at_the_same_time():
    together = threading.Barrier(2, timeout=20)

    class Meet(Operator):
        splittable: ClassVar[bool] = True

        def infer(self, rows: TensorSpec) -> TensorSpec:
            return rows

        def cpu(self, rows: Batch, context: Context) -> Batch:
            if 0 in rows.numpy() or 15 in rows.numpy():  # of the first two parts of five rows
                together.wait()
            return rows

    run(Meet())


def test_the_parts_are_places_of_one_batch():
    memories = []

    class Note(Double):
        splittable: ClassVar[bool] = True

        def cpu(self, rows: Batch, context: Context) -> Batch:
            out = super().cpu(rows, context)
            memories.append(out.numpy().__array_interface__["data"][0])
            return out

    (batch,) = run(Note(), batch_size=LENGTH, threads=1)
    whole = batch["out"].numpy()
    assert sorted(memories) == [whole[row:].__array_interface__["data"][0] for row in range(0, LENGTH, 16)]


def test_plan_says_so():
    stages = pipe(Double()).plan.stages
    assert [stage_manner(stage) for stage in stages] == [
        "sample by sample, samples in parallel",
        "parts of the batch, in parallel",
    ]


class Shift(Operator):
    """Adds what it drew and what it was given; rows come out backwards in pairs of outputs, an array and a list."""

    splittable: ClassVar[bool] = True

    by: PerSample[float] = 0.0

    def infer(self, rows: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
        return rows, TensorSpec.object()

    def draw(self, random: Draws) -> dict[str, Array]:
        return {"offset": random.integers(0, 1000)}

    def cpu(self, rows: Batch, context: Context, *, by: Array, offset: Array) -> tuple[Batch, Batch]:
        shifted = rows.numpy() + (by + offset)[:, None].astype(np.float32)
        return Batch.equal(shifted), Batch.objects([f"row {row:g}" for row in rows.numpy()[:, 0]])


@pytest.mark.parametrize("threads", [1, 3])
def test_arguments_that_vary_come_with_their_rows(threads: int):
    @pipeline(batch_size=BATCH_SIZE, threads=threads, seed=3)
    def shifted() -> dict[str, object]:
        rows = ops.read.arrays(DATA)
        numbers, names = Shift(by=ops.map(lambda row: float(row[0]), rows, spec=TensorSpec((), "float64")))(rows)
        return {"numbers": numbers, "names": names}

    with shifted() as batches:
        results = list(batches)
    numbers = np.concatenate([batch["numbers"].numpy() for batch in results])
    alone = shifted().samples(range(LENGTH))
    assert np.array_equal(numbers, alone["numbers"].numpy())
    assert [name for batch in results for name in batch["names"]] == [f"row {row:g}" for row in DATA[:, 0]]


class Cut(Operator):
    """Gives rows of different lengths, and fails on some: one by one, or the call."""

    splittable: ClassVar[bool] = True

    bad: tuple[int, ...] = ()
    crash: bool = False

    def infer(self, rows: TensorSpec) -> TensorSpec:
        return TensorSpec((None,), "float32")

    def cpu(self, rows: Batch, context: Context) -> Batch:
        good = []
        for place, row in enumerate(rows.numpy()):
            number = int(row[0]) // 3
            if number in self.bad:
                if self.crash:
                    raise ValueError(f"{number} is bad")
                context.fail(place, ValueError(f"{number} is bad"))
            else:
                good.append(row[: number % 3 + 1].copy())
        return Batch.ragged(good)


def test_rows_of_different_sizes():
    out = [array.tolist() for batch in run(Cut()) for array in batch["out"].list()]
    assert out == [row[: number % 3 + 1].tolist() for number, row in enumerate(DATA)]


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_rows_that_fail_leave_the_others(threads: int):
    bad = (0, 1, 17, 39, 40, 79, 99)
    batches = run(Cut(bad=bad), threads=threads, on_error="skip")
    assert [failure.position for batch in batches for failure in batch.failures] == list(bad)
    left = [number for number in range(LENGTH) if number not in bad]
    assert [position for batch in batches for position in batch.positions.tolist()] == left
    out = [array.tolist() for batch in batches for array in batch["out"].list()]
    assert out == [DATA[number, : number % 3 + 1].tolist() for number in left]


def test_a_call_that_fails_takes_its_part_along_and_no_more():
    batches = run(Cut(bad=(12,), crash=True), batch_size=LENGTH, threads=1, on_error="skip")
    (batch,) = batches
    assert [failure.position for failure in batch.failures] == list(range(16))
    assert batch.positions.tolist() == list(range(16, LENGTH))


class KeepsOdd(Double):
    """Fails on every other row, whose place in the batch stays empty."""

    splittable: ClassVar[bool] = True

    def cpu(self, rows: Batch, context: Context) -> Batch:
        out = super().cpu(rows, context)
        odd = [place for place in range(len(rows)) if int(rows.numpy()[place, 0]) % 2]
        for place in range(len(rows)):
            if place not in odd:
                context.fail(place, ValueError("even"))
        return out.take(odd)


@pytest.mark.parametrize("after", [lambda rows: rows, Double(), Double(own_memory=True), DoubleAtOnce()])
def test_rows_apart_go_on_as_they_are(after: Any):
    batches = run(lambda rows: after(KeepsOdd()(rows)), on_error="skip")
    odd = DATA[DATA[:, 0] % 2 == 1]
    factor = 4 if isinstance(after, Double) else 2
    assert np.array_equal(np.concatenate([batch["out"].numpy() for batch in batches]), odd * factor)


def test_a_result_of_another_length_or_dtype_is_refused():
    class Short(Double):
        splittable: ClassVar[bool] = True

        def cpu(self, rows: Batch, context: Context) -> Batch:
            return Batch.equal(rows.numpy()[:-1])

    class Wide(Double):
        splittable: ClassVar[bool] = True

        def cpu(self, rows: Batch, context: Context) -> Batch:
            return Batch.equal(rows.numpy().astype(np.float64))

    with pytest.raises(Exception, match="the kernel got 5 samples and gave 4"):
        run(Short())
    with pytest.raises(Exception, match=r"infer says float32 \(3,\), but the kernel gave float64 \(3,\)"):
        run(Wide())


def test_an_eager_call_is_one_part():
    batch = Batch.equal(DATA[:7])
    assert np.array_equal(Double()(batch).numpy(), DATA[:7] * 2)
    assert len(seen) == 1


def test_statistics_count_rows():
    with pipe(Double()) as batches:
        list(batches)
        assert [each.calls for each in batches.statistics().operators] == [LENGTH, LENGTH]


def test_in_order_when_it_is_not_parallel():
    class InOrder(Double):
        splittable: ClassVar[bool] = True
        parallel: ClassVar[bool] = False

        def cpu(self, rows: Batch, context: Context) -> Batch:
            return super().cpu(rows, context)

    run(InOrder(), threads=4)
    assert [number for call in seen for number in call] == DATA[:, 0].tolist()


class Both(Operator):
    """Gives two outputs in memory of the batch, in the order asked for or the other way round."""

    splittable: ClassVar[bool] = True

    swapped: bool = False

    def infer(self, rows: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
        return rows, rows

    def cpu(self, rows: Batch, context: Context) -> tuple[Batch, Batch]:
        one, two = (context.empty_batch([rows[0].spec] * len(rows)) for _ in range(2))
        np.multiply(rows.numpy(), 2, out=one.numpy())
        np.multiply(rows.numpy(), 3, out=two.numpy())
        return (two, one) if self.swapped else (one, two)


@pytest.mark.parametrize("swapped", [False, True])
def test_outputs_in_one_another_s_places_are_put_right(swapped: bool):
    @pipeline(batch_size=BATCH_SIZE, threads=2)
    def both() -> dict[str, object]:
        one, two = Both(swapped=swapped)(ops.read.arrays(DATA))
        return {"one": one, "two": two}

    with both() as batches:
        results = list(batches)
    one, two = (np.concatenate([batch[name].numpy() for batch in results]) for name in ("one", "two"))
    assert np.array_equal(one, DATA * (3 if swapped else 2))
    assert np.array_equal(two, DATA * (2 if swapped else 3))


def test_columns_of_arguments_cannot_be_written_to():
    class Write(Shift):
        def cpu(self, rows: Batch, context: Context, *, by: Array, offset: Array) -> tuple[Batch, Batch]:
            offset[...] = 0
            return super().cpu(rows, context, by=by, offset=offset)

    with pytest.raises(SampleFailed, match="read-only"):
        run(lambda rows: Write()(rows)[0])


def test_a_kernel_that_takes_long_can_tell_that_the_loop_was_left():
    told = threading.Event()

    class Wait(Operator):
        splittable: ClassVar[bool] = True

        def infer(self, rows: TensorSpec) -> TensorSpec:
            return rows

        def cpu(self, rows: Batch, context: Context) -> Batch:
            while rows.numpy()[0, 0] >= BATCH_SIZE * 3 and not context.cancelled():
                told.wait(0.001)
            return rows

    with pipe(Wait()) as batches:
        for _ in batches:
            break


def test_the_memory_limit_is_no_fault_of_a_sample():
    class Full(Operator):
        splittable: ClassVar[bool] = True

        def infer(self, rows: TensorSpec) -> TensorSpec:
            return rows

        def cpu(self, rows: Batch, context: Context) -> Batch:
            try:
                context.empty(TensorSpec((1 << 20,), "uint8"))
            except MemoryLimitError as error:
                context.fail(0, error)
            return rows

    with pytest.raises(MemoryLimitError, match="Full"):
        run(Full(), memory_limit="100KiB", on_error="skip")
