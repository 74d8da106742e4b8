from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeplug import Batch, DeclarationError, SpecError, Tensor, TensorSpec, ops, pipeline
from pipeplug.graph.graph import Node, Ref
from pipeplug.runtime.column import Column, as_argument, as_input, check_value
from pipeplug.runtime.iteration import Iteration, Rows

(NODE,) = pipeline(batch_size=1)(lambda: ops.read.arrays(np.arange(2), name="numbers"))().plan.graph.nodes


def iteration(rows: int = 4, padding: int = 0) -> Iteration:
    positions = np.minimum(np.arange(rows), rows - padding - 1) + 10
    return Iteration(0, 0, Rows(positions, positions * 10, padding), lambda index: f"item {index}")


class TestFailures:
    @pytest.mark.parametrize("order", [(1, 3), (3, 1)])
    def test_the_first_stage_counts_whichever_comes_first(self, order: tuple[int, int]):
        under_way = iteration()
        for stage in order:
            under_way.fail(2, NODE, ValueError(f"in stage {stage}"), stage)
        assert str(under_way.failures[2].cause) == "in stage 1"
        assert under_way.good_rows() == [0, 1, 3]

    def test_a_stage_goes_by_those_before_it(self):
        under_way = iteration()
        under_way.fail(2, NODE, ValueError(), 3)
        assert under_way.has_lost(2, frozenset({0, 3}))
        assert not under_way.has_lost(2, frozenset({0, 1, 4}))
        assert not under_way.has_lost(1, frozenset({0, 3}))

    def test_padding_fails_with_what_it_repeats(self):
        under_way = iteration(6, padding=3)
        for row in (5, 3, 2, 4, 0):
            under_way.fail(row, NODE, ValueError(f"row {row}"), 0)
        assert [(each.position, str(each.cause)) for each in under_way.distinct_failures()] == [
            (10, "row 0"), (12, "row 2"),
        ]  # fmt: skip

    def test_names_the_sample(self):
        under_way = iteration()
        under_way.fail(1, NODE, ValueError("bad"), 0)
        failure = under_way.failures[1]
        assert str(failure) == "numbers failed on item 110 (position 11, index 110): ValueError: bad"

    def test_restart(self):
        under_way = iteration()
        under_way.unfilled(Ref("a"), TensorSpec((2,), "int64"), np.empty)
        under_way.fail(1, NODE, ValueError(), 0)
        under_way.reached[0, 0] = 3
        under_way.restart()
        assert (under_way.columns, under_way.failures, under_way.reached) == ({}, {}, {})
        assert not under_way.has_lost(1, frozenset({0}))
        assert len(under_way.rows) == 4


class TestValues:
    def test_one_column_for_all_chunks(self):
        under_way = iteration()
        spec = TensorSpec((2, 3), "int16", "HW")
        column = under_way.unfilled(Ref("a"), spec, np.empty)
        assert under_way.unfilled(Ref("a"), spec, np.empty) is column
        assert column.array is not None
        assert column.array.shape == (4, 2, 3)
        under_way.unfilled(Ref("a", 1), TensorSpec(), np.empty).put(0, Tensor(np.zeros(5)))
        under_way.unfilled(Ref("b"), TensorSpec.object(), np.empty).put(0, "text")
        assert under_way.held() == {("cpu", "a"): 64 + 64, ("cpu", "b"): 0}
        under_way.release([Ref("a"), Ref("c")])
        assert under_way.held() == {("cpu", "a"): 64, ("cpu", "b"): 0}

    def test_rows_without_a_copy_when_they_are_all(self):
        column = Column.unfilled(TensorSpec((2,), "int64"), 3, np.empty)
        for row in range(3):
            column.put(row, np.array([row, -row]))
        assert column.batch([0, 1, 2], np.empty).numpy() is column.array
        assert column.batch([2, 0, 2], np.empty).numpy().tolist() == [[2, -2], [0, 0], [2, -2]]
        assert column.sample(1).numpy().tolist() == [1, -1]
        assert column.argument(1).tolist() == [1, -1]

    def test_numbers_of_a_column_are_arrays_for_kernels_and_numbers_as_arguments(self):
        column = Column.unfilled(TensorSpec((), "int64"), 2, np.empty)
        column.put(0, Tensor(np.asarray(7)))
        assert isinstance(column.sample(0).numpy(), np.ndarray)
        assert isinstance(column.argument(0), np.int64)
        assert isinstance(as_argument(Tensor(np.asarray(7))), np.int64)
        assert as_argument("text") == "text"

    @pytest.mark.parametrize(
        "values", [np.arange(6).reshape(2, 3), Batch.equal(np.arange(6).reshape(2, 3)), [[0, 1, 2], [3, 4, 5]]]
    )
    def test_rows_that_a_batch_kernel_left(self, values: Any):
        column = Column.filled(values, None, [1, 3], 4)
        column.check(TensorSpec((3,), "int64"))
        assert column.batch([1, 3], np.empty).numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
        assert column.batch([3], np.empty).numpy().tolist() == [[3, 4, 5]]
        assert column.sample(3).numpy().tolist() == column.argument(3).tolist() == [3, 4, 5]
        with pytest.raises(DeclarationError, match="the kernel got 3 samples and gave 2"):
            Column.filled(values, None, [0, 1, 3], 4)
        message = "the kernel got 4 samples, reported 1 with context.fail, which leaves 3, and gave 2"
        with pytest.raises(DeclarationError, match=message):
            Column.filled(values, None, [0, 1, 3], 4, failed=1)

    def test_tensors_of_two_kinds_are_no_batch(self):
        column = Column.unfilled(TensorSpec(), 3, np.empty)
        for row, shape in enumerate([(2, 2), (3, 3), (4,)]):
            column.put(row, Tensor(np.zeros(shape)))
        assert column.batch([0, 1], np.empty).spec.shape == (None, None)
        with pytest.raises(SpecError, match="one dtype and number of dimensions"):
            column.batch([0, 2], np.empty)

    @pytest.mark.parametrize(
        ("value", "spec", "dtype"),
        [
            (3, TensorSpec((), "uint8"), "uint8"),
            (True, TensorSpec((), "bool"), "bool"),
            (3, TensorSpec((), "float16"), "float16"),
            (3.5, TensorSpec((), "int64"), "float64"),
            (np.float32(3), TensorSpec((), "float64"), "float32"),
            (np.bool_(True), TensorSpec((), "bool"), "bool"),
        ],
    )
    def test_numbers_with_a_dtype_become_tensors(self, value: Any, spec: TensorSpec, dtype: str):
        made = as_input(value, spec)
        assert (made.dtype, made.shape, made.numpy()) == (dtype, (), value)

    @pytest.mark.parametrize("spec", [TensorSpec(), TensorSpec.object()])
    def test_numbers_without_one_stay_what_they_are(self, spec: TensorSpec):
        assert type(as_input(3, spec)) is int

    def test_arrays_take_the_layout_of_infer(self):
        assert as_input(np.zeros((2, 3)), TensorSpec((None, 3), "float64", "HW")).layout == "HW"

    @pytest.mark.parametrize(
        "spec", [TensorSpec(), TensorSpec((2, None)), TensorSpec(None, "int8"), TensorSpec((2, 3), "int8")]
    )
    def test_what_fits(self, spec: TensorSpec):
        check_value(spec, Tensor(np.zeros((2, 3), np.int8)))
        with pytest.raises(DeclarationError, match="infer says int16"):
            check_value(TensorSpec(spec.shape, "int16"), Tensor(np.zeros((2, 3), np.int8)))


def test_the_node_of_these_tests():
    assert isinstance(NODE, Node)
    assert NODE.name == "numbers"
