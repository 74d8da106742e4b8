"""What kernels may give and take: results in place, views, swaps, numbers; rows of batches; arguments and state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import pytest

from pipeplug import (
    Array,
    Batch,
    Context,
    Operator,
    Outputs,
    PerSample,
    Pipeline,
    SampleFailed,
    SpecError,
    Tensor,
    TensorSpec,
    ops,
    pipeline,
)
from pipeplug.errors import TooManyFailuresError

SPEC = TensorSpec((3,), "float64")
RAGGED = TensorSpec((None,), "float64")
ROWS = np.arange(30, dtype=np.float64).reshape(10, 3)


class Kernel(Operator):
    """Any function of the input and the context, with any spec."""

    function: Callable[..., Any]
    specs: tuple[TensorSpec, ...] = (SPEC,)

    def infer(self, value: TensorSpec) -> TensorSpec | tuple[TensorSpec, ...]:
        return self.specs if len(self.specs) > 1 else self.specs[0]

    def cpu(self, value: Tensor | object, context: Context) -> Any:
        return self.function(value, context)


class BatchKernel(Kernel):
    """The same, of batches."""

    def cpu(self, value: Batch, context: Context) -> Any:  # type: ignore[override]
        return self.function(value, context)


def run(operator: Operator, data: Any = ROWS, *, then: Operator | None = None, **options: Any) -> Outputs:
    """What comes out of one batch: of the operator, and of another that gets its first output in the same stage."""

    @pipeline(**{"batch_size": len(data), "threads": 2, **options})
    def function() -> Any:
        source = ops.read.arrays(data) if isinstance(data, np.ndarray) else ops.read.items(data)
        results = operator(source)
        listed = list(results) if isinstance(results, tuple) else [results]
        return [*listed, then(listed[0])] if then else listed

    with function() as batches:
        (batch,) = batches
    return batch


def in_place(value: Tensor, context: Context) -> Tensor:
    out: Tensor = context.empty(SPEC)
    out.numpy()[:] = value.numpy() * 2
    return out


def after_scratch(value: Tensor, context: Context) -> Tensor:
    scratch: Tensor = context.empty(SPEC)  # the place in the batch, as it happens
    scratch.numpy()[:] = value.numpy() + 1
    out: Tensor = context.empty(SPEC)
    out.numpy()[:] = (scratch.numpy() - 1) * 2
    scratch.numpy()[:] = -1
    return out


def reversed_in_place(value: Tensor, context: Context) -> Tensor:
    out: Tensor = context.empty(SPEC)
    out.numpy()[:] = value.numpy()[::-1] * 2
    return Tensor(out.numpy()[::-1])


class TestSamples:
    @pytest.mark.parametrize(
        "kernel",
        [
            in_place,
            after_scratch,
            reversed_in_place,
            lambda value, context: in_place(value, context).numpy(),
            lambda value, context: Tensor(value.numpy() * 2),
            lambda value, context: value.numpy() * 2,
            lambda value, context: (value.numpy() * 2).tolist(),
            lambda value, context: np.repeat(value.numpy() * 2, 2)[::2],
        ],
    )
    def test_however_it_is_given(self, kernel: Callable[[Any, Context], Any]):
        if kernel(Tensor(ROWS[0]), SpareContext()).__class__ is list:
            with pytest.raises(SampleFailed, match=r"infer says float64 \(None,\), but the kernel gave the object \[0"):
                run(Kernel(function=kernel, specs=(TensorSpec((None,), "float64"),)))
        batch = run(Kernel(function=kernel), then=Kernel(function=lambda value, context: np.asarray(value) + 1))
        assert (batch["0"].numpy() == ROWS * 2).all()
        assert (batch["1"].numpy() == ROWS * 2 + 1).all()

    @pytest.mark.parametrize("spec", [SPEC, RAGGED])
    def test_of_another_byte_order(self, spec: TensorSpec):
        operator = Kernel(function=lambda value, context: value.numpy().astype(">f8"), specs=(spec,))
        batch = run(operator, ROWS.astype(">f8"), then=Kernel(function=lambda value, context: value))
        assert (batch["0"].numpy() == ROWS).all()
        assert (batch["1"].numpy() == ROWS).all()

    def test_its_input(self):
        data = ROWS.copy()
        batch = run(Kernel(function=lambda value, context: value), data)
        assert (batch["0"].numpy() == data).all()
        assert not np.shares_memory(batch["0"].numpy(), data)

    def test_a_view_of_its_input(self):
        batch = run(Kernel(function=lambda value, context: value.numpy()[::-1]))
        assert (batch["0"].numpy() == ROWS[:, ::-1]).all()

    @pytest.mark.parametrize("as_arrays", [False, True])
    @pytest.mark.parametrize("step", [1, -1])
    def test_swapped(self, as_arrays: bool, step: int):
        def swap(value: Tensor, context: Context) -> Any:
            first, second = context.empty(SPEC), context.empty(SPEC)
            first.numpy()[:], second.numpy()[:] = value.numpy(), value.numpy() * 10
            if as_arrays or step < 0:
                return second.numpy()[::step], first.numpy()[::step]
            return second, first

        batch = run(Kernel(function=swap, specs=(SPEC, SPEC)), then=Kernel(function=lambda value, context: value))
        assert (batch["0"].numpy() == ROWS[:, ::step] * 10).all()
        assert (batch["1"].numpy() == ROWS[:, ::step]).all()
        assert (batch["2"].numpy() == batch["0"].numpy()).all()

    def test_one_place_for_two(self):
        def same(value: Tensor, context: Context) -> Any:
            out = in_place(value, context)
            return out, out

        batch = run(Kernel(function=same, specs=(SPEC, SPEC)))
        assert (batch["0"].numpy() == ROWS * 2).all()
        assert (batch["1"].numpy() == ROWS * 2).all()

    @pytest.mark.parametrize(
        ("dtype", "number"), [("int64", 7), ("float32", 7), ("uint8", 7), ("float64", 7.5), ("bool", True)]
    )
    def test_numbers(self, dtype: str, number: float):
        operator = Kernel(function=lambda value, context: number, specs=(TensorSpec((), dtype),))
        batch = run(operator, then=Kernel(function=lambda value, context: np.full(3, value.numpy(), "float64")))
        assert batch["0"].dtype == dtype
        assert batch["0"].numpy().tolist() == [number] * 10
        assert (batch["1"].numpy() == number).all()

    def test_a_place_for_a_number(self):
        def half(value: Tensor, context: Context) -> Tensor:
            out: Tensor = context.empty(TensorSpec((), "float32"))
            out.numpy()[...] = value.numpy() / 2
            return out

        assert run(Kernel(function=half, specs=(TensorSpec((), "float32"),)), np.arange(4))["0"].numpy().tolist() == [
            0, 0.5, 1, 1.5,
        ]  # fmt: skip

    @pytest.mark.parametrize("leaving", [True, False])
    @pytest.mark.parametrize(
        ("spec", "result", "message"),
        [
            (SPEC, np.zeros(4), r"infer says float64 \(3,\), but the kernel gave float64 \(4,\)"),
            (SPEC, np.zeros(3, "float32"), r"infer says float64 \(3,\), but the kernel gave float32 \(3,\)"),
            (SPEC, Tensor(np.zeros((3, 1))), r"infer says float64 \(3,\), but the kernel gave float64 \(3, 1\)"),
            (SPEC, None, r"infer says float64 \(3,\), but the kernel gave the object None"),
            (TensorSpec((), "int64"), 0.5, r"infer says int64 \(\), but the kernel gave float64 \(\)"),
            (TensorSpec((), "float32"), np.float64(1), r"infer says float32 \(\), but the kernel gave float64 \(\)"),
            (TensorSpec((), "uint64"), 0.5, r"infer says uint64 \(\), but the kernel gave float64 \(\)"),
            (TensorSpec((), "bool"), 2, r"infer says bool \(\), but the kernel gave int64 \(\)"),
            (TensorSpec((), "int64"), 2**70, r"infer says int64 \(\), but the kernel gave .*object"),
            (TensorSpec((), "uint8"), 300, "OverflowError: Python integer 300 out of bounds for uint8"),
            (TensorSpec((None, 3), "uint8"), np.zeros((2, 4), "uint8"), r"\(None, 3\), but the kernel gave uint8 \(2"),
            (TensorSpec((None,), None), np.zeros((2, 4)), r"says None \(None,\), but the kernel gave float64 \(2"),
            (TensorSpec(None, "int8"), np.zeros(2), r"infer says int8 None, but the kernel gave float64 \(2,\)"),
            (TensorSpec((None,), "int8"), b"", r"infer says int8 \(None,\), but the kernel gave the object b''"),
        ],
    )  # fmt: skip
    def test_what_infer_does_not_say_is_named(self, leaving: bool, spec: TensorSpec, result: Any, message: str):
        operator = Kernel(function=lambda value, context: result, specs=(spec,))
        last = Kernel(function=lambda value, context: 1, specs=(TensorSpec((), "int64"),))
        made = pipeline(batch_size=2)(
            lambda: operator(ops.read.arrays(ROWS)) if leaving else last(operator(ops.read.arrays(ROWS)))
        )
        with made() as batches, pytest.raises(SampleFailed, match=rf"^Kernel failed on row 0 .*{message}"):
            list(batches)

    @pytest.mark.parametrize(
        ("result", "message"),
        [
            (np.zeros(3), "infer gives 2 outputs, but the kernel gave array"),
            ((1, 2, 3), r"infer gives 2 outputs, but the kernel gave \(1, 2, 3\)"),
            ([1, 2], r"infer gives 2 outputs, but the kernel gave \[1, 2\]"),
        ],
    )
    def test_the_number_of_outputs(self, result: Any, message: str):
        with pytest.raises(SampleFailed, match=message):
            run(Kernel(function=lambda value, context: result, specs=(SPEC, SPEC)))

    def test_whatever_it_wants_when_nothing_is_known(self):
        results = [b"bytes", None, 3, {"a": 1}, "text"]
        operator = Kernel(function=lambda value, context: results[int(value.numpy())], specs=(TensorSpec(),))
        batch = run(operator, np.arange(5))
        assert batch["0"].is_object
        assert batch["0"].list() == results

    @pytest.mark.parametrize("bad", [0, 2])
    def test_numbers_of_unknown_dtype_keep_it_beside_failures(self, bad: int):
        def truth(value: Tensor, context: Context) -> bool:
            if int(value.numpy()) == bad:
                raise ValueError
            return int(value.numpy()) > 1

        batch = run(Kernel(function=truth, specs=(TensorSpec(),)), np.arange(4), on_error="skip")
        assert batch["0"].dtype == "bool"
        assert batch["0"].numpy().tolist() == [number > 1 for number in range(4) if number != bad]

    def test_integers_without_a_dtype(self):
        batch = run(Kernel(function=lambda value, context: 2**70, specs=(TensorSpec(),)))
        assert batch["0"].list() == [2**70] * 10

    def test_tensors_that_do_not_belong_together(self):
        def mixed(value: Tensor, context: Context) -> Array:
            return np.zeros(2, ["uint8", "uint16"][int(value.numpy()) % 2])

        with pytest.raises(
            SpecError, match=r"output '0', which Kernel makes: .* got uint16 of 1 dim.* and uint8 of 1 dim"
        ):
            run(Kernel(function=mixed, specs=(TensorSpec((2,), None),)), np.arange(4))

    def test_ragged(self):
        operator = Kernel(
            function=lambda value, context: np.arange(value.numpy()), specs=(TensorSpec((None,), "int64"),)
        )
        batch = run(operator, np.arange(4))
        assert [array.tolist() for array in batch["0"].list()] == [[], [0], [0, 1], [0, 1, 2]]
        assert batch["0"].spec == TensorSpec((None,), "int64")


class SpareContext:
    """A context outside of any pipeline."""

    device = "cpu"

    def empty(self, spec: TensorSpec) -> Tensor:
        return Tensor(np.empty(spec.known_shape(), spec.dtype))

    def empty_batch(self, specs: Sequence[TensorSpec]) -> Batch:
        return Batch.ragged([self.empty(spec) for spec in specs])

    def fail(self, row: int, cause: Exception) -> None:
        raise cause

    def cancelled(self) -> bool:
        return False

    def count(self, what: str, number: int = 1) -> None:
        """Nobody asks."""

    def random(self, key: str) -> None:
        """No numbers are drawn here."""


class TestBatches:
    @pytest.mark.parametrize(
        "kernel",
        [
            lambda batch, context: batch.numpy() * 2,
            lambda batch, context: Batch.equal(batch.numpy() * 2),
            lambda batch, context: Batch.ragged([Tensor(array * 2) for array in batch.list()]),
        ],
    )
    def test_however_it_is_given(self, kernel: Callable[[Batch, Context], Any]):
        batch = run(BatchKernel(function=kernel), then=Kernel(function=lambda value, context: value.numpy() + 1))
        assert (batch["0"].numpy() == ROWS * 2).all()
        assert (batch["1"].numpy() == ROWS * 2 + 1).all()

    def test_in_memory_of_the_context(self):
        def doubled(batch: Batch, context: Context) -> Batch:
            out: Batch = context.empty_batch([SPEC] * len(batch))
            np.multiply(batch.numpy(), 2, out=out.numpy())
            return out

        assert (run(BatchKernel(function=doubled))["0"].numpy() == ROWS * 2).all()

    def test_ragged(self):
        def cut(batch: Batch, context: Context) -> Batch:
            out: Batch = context.empty_batch([TensorSpec((row % 3,), "float64") for row in range(len(batch))])
            for row, tensor in enumerate(out):
                tensor.numpy()[:] = batch[row].numpy()[: row % 3]
            return out

        operator = BatchKernel(function=cut, specs=(RAGGED,))
        batch = run(operator, then=BatchKernel(function=lambda batch, context: batch, specs=(RAGGED,)))
        for name in batch:
            assert [array.tolist() for array in batch[name].list()] == [
                ROWS[row, : row % 3].tolist() for row in range(10)
            ]

    def test_objects(self):
        operator = BatchKernel(
            function=lambda batch, context: Batch.objects([str(item) for item in batch.list()]),
            specs=(TensorSpec.object(),),
        )
        batch = run(operator, [1, "b", None])
        assert batch["0"].list() == ["1", "b", "None"]

    @pytest.mark.parametrize("kind", ["equal", "ragged", "object"])
    def test_rows_that_are_left(self, kind: str):
        seen: list[int] = []

        def sample(value: Tensor, context: Context) -> Any:
            if value.numpy()[0] in (0, 12):
                raise ValueError("bad")
            if kind == "object":
                return value.numpy().tolist()
            return value.numpy()[: 3 if kind == "equal" else int(value.numpy()[0]) // 3 % 3]

        def whole(batch: Batch, context: Context) -> Batch:
            seen.append(len(batch))
            context.fail(2, ValueError("worse"))  # of those that are left
            return batch[:2] if len(batch) == 2 else Batch(
                batch.numpy()[[0, 1, *range(3, len(batch))]] if batch.is_equal else None,
                [] if batch.is_equal else [batch[row] for row in (0, 1, *range(3, len(batch)))],
                None,
            )  # fmt: skip

        spec = {"equal": SPEC, "ragged": RAGGED, "object": TensorSpec.object()}[kind]

        @pipeline(batch_size=10, threads=2, on_error="skip")
        def function() -> Any:
            value = Kernel(function=sample, specs=(spec,))(ops.read.arrays(ROWS))
            left = BatchKernel(function=whole, specs=(spec,))(value)
            return {"value": value, "left": left, "again": BatchKernel(function=lambda b, _: b, specs=(spec,))(left)}

        with function() as batches:
            (batch,) = batches
        assert seen == [8]
        assert [failure.position for failure in batch.failures] == [0, 3, 4]
        assert batch.positions.tolist() == [1, 2, 5, 6, 7, 8, 9]
        for name in batch:
            for position, item in zip(batch.positions, batch[name].list(), strict=True):
                size = position % 3 if kind == "ragged" else 3
                assert np.asarray(item).tolist() == ROWS[position, :size].tolist()

    def test_all_of_its_rows_may_fail(self):
        def refuse(batch: Batch, context: Context) -> Any:
            for row in range(len(batch)):
                context.fail(row, ValueError(f"no {row}"))
            return context.empty_batch([])

        with pipeline(batch_size=4, on_error="skip")(
            lambda: {"n": BatchKernel(function=refuse)(BatchKernel(function=refuse)(ops.read.arrays(ROWS)))}
        )() as batches:
            with pytest.raises(TooManyFailuresError, match="all 10 failed"):
                list(batches)
            assert (batches.statistics().passed, batches.statistics().failures) == (3, 10)

    @pytest.mark.parametrize(
        ("spec", "kernel", "message"),
        [
            (SPEC, lambda batch, _: batch.numpy()[1:], "the kernel got 10 samples and gave 9"),
            (SPEC, lambda batch, _: batch.numpy()[:, 1:], r"says float64 \(3,\), but the kernel gave float64 \(2,\)"),
            (SPEC, lambda batch, _: batch.numpy() > 1, r"infer says float64 \(3,\), but the kernel gave bool \(3,\)"),
            (SPEC, lambda batch, _: Batch.objects([*batch.list()[:-1], "x"]), r"gave the object 'x'|the object array"),
            (RAGGED, lambda batch, _: batch.numpy()[..., None], r"float64 \(None,\), but the kernel gave float64 \(3"),
        ],
    )  # fmt: skip
    def test_what_infer_does_not_say_is_named(self, spec: TensorSpec, kernel: Any, message: str):
        with pytest.raises(SampleFailed, match=rf"BatchKernel failed on row 0 .*DeclarationError: .*{message}"):
            run(BatchKernel(function=kernel, specs=(spec,)))


class Scale(Operator):
    """Multiplies by a row that varies by sample."""

    by: PerSample[Any]
    parallel: ClassVar[bool] = True

    def infer(self, value: TensorSpec) -> TensorSpec:
        return value

    def cpu(self, value: Tensor, context: Context, *, by: Any) -> Tensor:
        assert isinstance(by, (np.ndarray, np.generic, int)), by
        return Tensor(value.numpy() * by)


class ScaleBatch(Scale):
    """The same, a batch a call."""

    def cpu(self, value: Batch, context: Context, *, by: Any) -> Batch:  # type: ignore[override]
        assert len(by) == len(value)
        return Batch.equal(value.numpy() * np.asarray(by).reshape(len(by), -1))


class TestArguments:
    @pytest.mark.parametrize("scale", [Scale, ScaleBatch])
    @pytest.mark.parametrize("spec", [None, SPEC, TensorSpec((), "float64")])
    @pytest.mark.parametrize("apart", [True, False])
    def test_from_the_stage_and_from_others(self, scale: type[Scale], spec: TensorSpec | None, apart: bool):
        """The same kind of value, whether or not it was made in the same stage."""

        def factor(row: Array) -> Any:
            return row + 1 if spec is SPEC else row[0]

        @pipeline(batch_size=10)
        def function() -> Any:
            value = ops.read.arrays(ROWS)
            by = ops.map(factor, value, spec=spec)
            return scale(by=by)(ops.map(lambda rows: rows, value, batch=True, spec=SPEC) if apart else value)

        with function() as batches:
            (batch,) = batches
        assert (batch["0"].numpy() == ROWS * (ROWS + 1 if spec is SPEC else ROWS[:, :1])).all()

    @pytest.mark.parametrize("scale", [Scale, ScaleBatch])
    def test_constants(self, scale: type[Scale]):
        assert (run(scale(by=3))["0"].numpy() == ROWS * 3).all()


class TestState:
    def test_is_opened_and_closed_once_a_block(self):
        events: list[str] = []

        class Stateful(Operator):
            def infer(self, value: TensorSpec) -> TensorSpec:
                return value

            @contextmanager
            def open(self) -> Iterator[list[str]]:
                events.append("open")
                yield events
                events.append("close")

            def cpu(self, value: Tensor, context: Context, *, state: list[str]) -> Tensor:
                state.append("call")
                return value

        made: Pipeline = pipeline(batch_size=10)(lambda: Stateful()(ops.read.arrays(ROWS[:3])))()
        assert events == []
        with made as batches:
            assert events == ["open"]
            for _ in range(2):
                list(batches)
        assert events == ["open", *["call"] * 6, "close"]

    def test_serial_operators_see_samples_in_order(self):
        class Running(Operator):
            """Sums up what it has seen."""

            parallel: ClassVar[bool] = False

            def infer(self, value: TensorSpec) -> TensorSpec:
                return TensorSpec((), "int64")

            @contextmanager
            def open(self) -> Iterator[list[int]]:
                yield [0]

            def cpu(self, value: Tensor, context: Context, *, state: list[int]) -> int:
                state[0] += int(value.numpy())
                return state[0]

        @pipeline(batch_size=8, threads=8, prefetch=4)
        def function() -> Any:
            value = ops.read.arrays(np.arange(1000))
            total = Running()(ops.map(lambda number: number, value, spec=TensorSpec((), "int64")))
            return {"total": ops.map(lambda number: number, total)}

        with function() as batches:
            for epoch in range(2):
                totals = np.concatenate([batch["total"].numpy() for batch in batches])
                assert (totals == np.cumsum(np.arange(1000)) + epoch * 499500).all()

    @pytest.mark.parametrize("spec", [None, TensorSpec((2,), "int64")])
    def test_functions_of_batches_get_an_array_where_samples_are_equal(self, spec: TensorSpec | None):
        kinds: list[type] = []

        def note(rows: Any) -> Any:
            kinds.append(type(rows))
            return rows

        @pipeline(batch_size=4)
        def function() -> Any:
            rows = ops.map(lambda number: np.full(2, number), ops.read.arrays(np.arange(8)), spec=spec)
            cut = ops.map(lambda row: row[: row[0] // 2], rows)
            return [ops.map(note, value, batch=True) for value in (rows, cut)]

        with function() as batches:
            assert [batch["0"].numpy().tolist() for batch in batches] == [
                [[0, 0], [1, 1], [2, 2], [3, 3]],
                [[4, 4], [5, 5], [6, 6], [7, 7]],
            ]
        assert sorted(kind.__name__ for kind in kinds) == ["list", "ndarray", "ndarray", "ndarray"]

    def test_serial_functions_of_batches(self):
        seen: list[int] = []

        def note(numbers: Array) -> Array:
            seen.extend(numbers.tolist())
            return numbers

        @pipeline(batch_size=7, threads=8, prefetch=4)
        def function() -> Any:
            return {"n": ops.map(note, ops.read.arrays(np.arange(100)), batch=True, parallel=False)}

        with function() as batches:
            delivered = np.concatenate([batch["n"].numpy() for batch in batches])
        assert seen == delivered.tolist() == list(range(100))
