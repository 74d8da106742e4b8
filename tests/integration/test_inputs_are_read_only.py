"""What a kernel gets it cannot change: another kernel, or the loop, may see the same memory."""

from __future__ import annotations

import numpy as np
import pytest

from pipeplug import Batch, Context, Operator, SampleFailed, Tensor, TensorSpec, ops, pipeline


class AddInPlace(Operator):
    """Writes into its input."""

    def infer(self, values: TensorSpec) -> TensorSpec:
        return values

    def cpu(self, values: Tensor, context: Context) -> Tensor:
        array = values.numpy()
        array += 1
        return values


class AddInPlaceToBatch(AddInPlace):
    """Writes into a batch."""

    def cpu(self, values: Batch, context: Context) -> Batch:  # type: ignore[override]
        array = values.numpy()
        array += 1
        return values


class Copy(Operator):
    """Gives back memory of its own."""

    def infer(self, values: TensorSpec) -> TensorSpec:
        return values

    def cpu(self, values: Tensor, context: Context) -> Tensor:
        out: Tensor = context.empty(values.spec)
        out.numpy()[...] = values.numpy()
        return out


@pytest.mark.parametrize("operator", [AddInPlace(), AddInPlaceToBatch()])
@pytest.mark.parametrize("before", [lambda value: value, Copy()])
def test_an_operator_that_writes_into_its_input_fails(operator, before):
    source = np.zeros((4, 3))

    @pipeline(batch_size=4)
    def both():
        values = before(ops.read.arrays(source))
        return {"written": operator(values), "as_read": values}

    with both() as batches, pytest.raises(SampleFailed, match="read-only"):
        list(batches)
    assert not source.any()


def test_a_mapped_function_that_writes_into_its_input_fails():
    def add(row):
        row += 1
        return row

    @pipeline(batch_size=4)
    def added():
        return ops.map(add, ops.read.arrays(np.zeros((4, 3))))

    with added() as batches, pytest.raises(SampleFailed, match="read-only"):
        list(batches)


def test_an_eager_call_does_not_let_its_argument_be_changed():
    array = np.zeros(3)
    with pytest.raises(ValueError, match="read-only"):
        AddInPlace()(array)
    assert not array.any()
    array += 1  # it is still the caller's


def test_what_the_loop_gets_is_its_own_to_change():
    @pipeline(batch_size=4)
    def copied():
        return Copy()(ops.read.arrays(np.zeros((4, 3))))

    with copied() as batches:
        for batch in batches:
            array = batch["0"].numpy()
            array += 1
