from functools import partial
from typing import Any

import numpy as np
import pytest

from pipeplug import ArgumentError, Batch, DeclarationError, SampleFailed, TensorSpec, eager, ops, pipeline
from pipeplug.mapping import MapBatches, MapSamples

DATA = np.arange(12.0).reshape(6, 2)


def double(value):
    return value * 2


def run(function, *, batch_size: int = 4, **options: Any):
    @pipeline(batch_size=batch_size, threads=2)
    def mapped():
        return ops.map(function, ops.read.arrays(DATA), **options)

    with mapped() as batches:
        return list(batches)


class TestSamples:
    def test_a_function_gets_an_array_and_gives_one(self):
        seen = []

        def add_one(row):
            seen.append((type(row), row.shape))
            return row + 1

        batches = run(add_one)
        np.testing.assert_array_equal(np.concatenate([batch["0"].numpy() for batch in batches]), DATA + 1)
        assert set(seen) == {(np.ndarray, (2,))}

    @pytest.mark.parametrize("give", [lambda row: row.sum(), lambda row: float(row.sum())])
    def test_numbers_make_an_array(self, give):
        assert [batch["0"].numpy().tolist() for batch in run(give)] == [[1, 5, 9, 13], [17, 21]]

    def test_anything_else_is_an_object(self):
        assert run(lambda row: {"sum": row.sum()})[1]["0"].list() == [{"sum": 17}, {"sum": 21}]

    def test_several_outputs(self):
        first = run(lambda row: (row[0], str(row[1])), outputs=2)[0]
        assert first["0"].numpy().tolist() == [0, 2, 4, 6]
        assert first["1"].list() == ["1.0", "3.0", "5.0", "7.0"]

    def test_a_spec_builds_batches_in_place(self):
        first = run(double, spec=TensorSpec((2,), "float64"))[0]
        assert first["0"].is_equal
        np.testing.assert_array_equal(first["0"].numpy(), DATA[:4] * 2)

    def test_a_result_that_is_not_as_specified(self):
        with pytest.raises(
            SampleFailed, match=r"map\.double failed on row 0 .*infer says float32 \(2,\), but the kern"
        ):
            run(double, spec=TensorSpec((2,), "float32"))

    def test_too_few_results(self):
        with pytest.raises(
            SampleFailed, match=r"map\.double failed .*: infer gives 2 outputs, but the kernel gave arr"
        ):
            run(double, outputs=2)


class TestBatches:
    def test_a_function_gets_rows_in_one_array(self):
        shapes = []

        def center(rows):
            shapes.append(rows.shape)
            return rows - rows.mean(axis=0)

        batches = run(center, batch=True, parallel=False)
        assert shapes == [(4, 2), (2, 2)]
        np.testing.assert_array_equal(batches[1]["0"].numpy(), [[-1, -1], [1, 1]])

    @pytest.mark.parametrize(
        ("give", "expected"),
        [
            (lambda rows: [float(row[0]) for row in rows], [8.0, 10.0]),
            (lambda rows: (row[0] for row in rows), [8.0, 10.0]),
            (lambda rows: [str(row[0]) for row in rows], ["8.0", "10.0"]),
            (lambda rows: Batch.objects([None] * len(rows)), [None, None]),
        ],
    )
    def test_a_function_may_give_a_list(self, give, expected: list[object]):
        batch = run(give, batch=True)[1]["0"]
        assert batch.list() == expected
        assert batch.is_equal is isinstance(expected[0], float)

    def test_arrays_may_differ(self):
        batch = run(lambda rows: [np.zeros(number + 1) for number in range(len(rows))], batch=True)[1]["0"]
        assert [array.shape for array in batch.list()] == [(1,), (2,)]

    def test_several_outputs(self):
        batch = run(lambda rows: (rows, rows[:, 0]), batch=True, outputs=2)[1]
        assert batch["1"].numpy().tolist() == [8, 10]

    @pytest.mark.parametrize("give", [lambda rows: rows.sum(), lambda rows: "text", lambda rows: None, lambda rows: {}])
    def test_a_result_without_rows(self, give):
        with pytest.raises(SampleFailed, match="a function of batches gives an array or a list, a row a sample, not"):
            run(give, batch=True)

    def test_another_number_of_rows(self):
        with pytest.raises(SampleFailed, match="the kernel got 4 samples and gave 3"):
            run(lambda rows: rows[:3], batch=True)

    def test_eager_calls_on_one_sample_are_batches_of_one(self):
        assert ops.map(lambda rows: rows.shape[0] * rows, np.ones(2), batch=True).numpy().tolist() == [1, 1]


class TestEager:
    def test_a_sample(self):
        assert ops.map(double, np.arange(3)).numpy().tolist() == [0, 2, 4]
        assert ops.map(len, b"four") == 4

    def test_a_batch(self):
        with eager():
            assert ops.map(double, Batch.objects(["a", "b"])).list() == ["aa", "bb"]

    def test_closures_are_let_go_of(self):
        import gc
        import weakref

        class Large:
            pass

        large = Large()
        gone = weakref.ref(large)
        ops.map(lambda value, kept=large: value, np.zeros(1))
        del large
        gc.collect()
        assert gone() is None


class TestArguments:
    @pytest.mark.parametrize(
        ("arguments", "options", "message"),
        [
            ((3,), {}, "ops.map takes a function first, got 3"),
            ((double, DATA), {"outputs": 0}, "ops.map: outputs is at least 1, got 0"),
            ((double, DATA), {"spec": (TensorSpec(), TensorSpec())}, "ops.map: outputs=1, but 2 specs"),
            ((double, DATA), {"outputs": 2, "spec": TensorSpec()}, "ops.map: outputs=2, but 1 specs"),
        ],
    )
    def test_those_that_do_not_fit(self, arguments, options: dict[str, Any], message: str):
        with pytest.raises(ArgumentError) as caught:
            ops.map(*arguments, **options)
        assert str(caught.value) == message

    @pytest.mark.parametrize(
        ("function", "title"),
        [(double, "map.double"), (lambda value: value, "map.lambda"), (partial(double), "map.partial")],
    )
    def test_it_is_called_after_the_function(self, function, title: str):
        for kind in (MapSamples, MapBatches):
            assert kind(function=function, specs=(TensorSpec(),), single=True, concurrent=True).title() == title

    def test_parallel(self):
        assert MapSamples(function=double, specs=(), single=True, concurrent=True).is_parallel()
        assert not MapSamples(function=double, specs=(), single=True, concurrent=False).is_parallel()


def test_results_of_batches_are_declared_errors():
    with pytest.raises(DeclarationError, match=r"a row a sample, not np\.float64"):
        ops.map(lambda rows: rows.sum(), np.ones(3), batch=True)
