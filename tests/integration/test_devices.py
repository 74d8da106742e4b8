"""Pipelines on a GPU: there and back, ragged batches, failures, memory, statistics.

Here they run on a GPU that is none; tests/gpu runs the same on a card.
"""

import numpy as np
import pytest

from pipeplug import (
    Array,
    Batch,
    Context,
    CudaContext,
    GraphError,
    MemoryLimitError,
    Operator,
    SampleFailed,
    SpecError,
    Tensor,
    TensorSpec,
    eager,
    ops,
    pipeline,
)
from tests.fakes import gpu
from tests.fakes.scale import Scale, scale


@pytest.fixture(autouse=True)
def device(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu.install(monkeypatch, kernels={"scale": scale})


VALUES = np.random.default_rng(0).normal(size=(50, 6, 5)).astype(np.float32)


@pipeline(batch_size=8, threads=4, device="cuda:0", seed=1)
def scaled(factor: float = 2.0, spins: int = 0):
    values = ops.read.arrays(VALUES)
    number = ops.map(lambda array: float(array[0, 0]), values, spec=TensorSpec((), "float64"))
    return {"values": Scale(factor=factor, spins=spins)(values), "number": number}


def test_numbers_are_delivered_on_the_device():
    with scaled() as batches:
        rows = []
        for batch in batches:
            assert (batch["values"].device, batch["number"].device) == ("cuda:0", "cuda:0")
            assert batch["values"].is_equal
            rows.append(batch["values"].to("cpu").numpy())
            assert batch["number"].to("cpu").numpy().tolist() == [float(each) for each in rows[-1][:, 0, 0] / 2]
        assert np.array_equal(np.concatenate(rows), VALUES * 2)
        statistics = batches.statistics()
    counts = {each.name: dict(each.counts) for each in statistics.operators}
    assert counts["Scale"] == {"launches": 7}


def test_there_and_back_and_there_again():
    @pipeline(batch_size=8, threads=4, device="cuda:0")
    def mixed():
        values = Scale(factor=2.0)(ops.read.arrays(VALUES))
        host = ops.map(lambda array: array + 1, values.to("cpu"), spec=TensorSpec((6, 5), "float32"))
        return {"values": Scale(factor=3.0)(host), "host": host}

    with mixed() as batches:
        for batch in batches:
            host = batch["host"].to("cpu").numpy()
            assert np.array_equal(host, VALUES[batch.indices] * 2 + 1)
            assert np.array_equal(batch["values"].to("cpu").numpy(), host * 3)


def test_ragged_batches_and_arguments_that_vary():
    rng = np.random.default_rng(1)
    samples = [rng.normal(size=(int(rng.integers(1, 40)), 3)).astype(np.float32) for _ in range(33)]

    @pipeline(batch_size=5, threads=3, device="cuda:0", seed=3)
    def ragged():
        values = ops.read.items(samples)
        factor = ops.random.uniform(low=1.0, high=2.0)
        return {"values": Scale(factor=factor)(values), "factor": factor}

    with ragged() as batches:
        for batch in batches:
            factors = batch["factor"].to("cpu").numpy().astype(np.float32)
            found = batch["values"].to("cpu").list()
            for index, factor, values in zip(batch.indices, factors, found, strict=True):
                assert np.allclose(values, samples[index] * factor, rtol=1e-6)


def test_samples_of_a_kernel_that_takes_them_one_by_one():
    class Halved(Operator):
        def infer(self, values: TensorSpec) -> TensorSpec:
            return values

        def cuda(self, values: Tensor, context: CudaContext) -> Tensor:
            if values.shape[0] % 7 == 0:
                raise ValueError("seven")
            batch = Scale(factor=0.5).cuda(Batch.ragged([values]), context, factor=np.array([0.5]))
            return batch[0]

    samples = [np.full((rows, 2), rows, np.float32) for rows in range(1, 31)]

    @pipeline(batch_size=10, threads=3, device="cuda:0", on_error="skip")
    def halved():
        return Halved()(ops.read.items(samples))

    with halved() as batches:
        seen = 0
        for batch in batches:
            for index, values in zip(batch.indices, batch["0"].to("cpu").list(), strict=True):
                assert np.array_equal(values, samples[index] / 2)
                seen += 1
        assert seen == 26
        assert [failure.index for failure in batches.statistics().failed] == [6, 13, 20, 27]


class Picky(Operator):
    """Refuses samples that begin with a negative number."""

    def infer(self, values: TensorSpec) -> TensorSpec:
        return values

    def cuda(self, values: Batch, context: CudaContext) -> Batch:
        first = [sample.to("cpu").numpy()[0, 0] for sample in values]
        for row, number in enumerate(first):
            if number < 0:
                context.fail(row, ValueError(f"{number} is negative"))
        return values.take([row for row, number in enumerate(first) if number >= 0])


@pytest.mark.parametrize("on_error", ["skip", "replace"])
def test_rows_that_fail_cost_themselves_alone(on_error):
    @pipeline(batch_size=8, threads=2, device="cuda:0", on_error=on_error)
    def picky():
        return Scale(factor=2.0)(Picky()(ops.read.arrays(VALUES)))

    good = {index for index in range(50) if VALUES[index, 0, 0] >= 0}
    with picky() as batches:
        for batch in batches:
            assert batch["0"].is_equal, "side by side, though rows are missing"
            values = batch["0"].to("cpu").numpy()
            expected = batch.indices.tolist()
            assert np.array_equal(values, VALUES[expected] * 2)
            assert set(expected) <= good
        assert {failure.index for failure in batches.statistics().failed} == set(range(50)) - good


def test_debugging_and_training_agree():
    with scaled(3.0) as batches:
        first = next(iter(batches))["values"].to("cpu").numpy()
    again = scaled(3.0).samples(range(8))["values"]
    assert again.device == "cuda:0"
    assert np.array_equal(again.to("cpu").numpy(), first)


class TestEagerly:
    def test_an_array_is_copied_and_the_result_stays(self):
        result = Scale(factor=2.0)(VALUES[0], device="cuda:0")
        assert isinstance(result, Tensor)
        assert result.device == "cuda:0"
        assert np.array_equal(result.to("cpu").numpy(), VALUES[0] * 2)
        assert np.array_equal(Scale(factor=2.0)(result).to("cpu").numpy(), VALUES[0] * 4), "it runs where its input is"

    def test_a_batch_in_a_session(self):
        with eager(seed=1):
            batch = Batch.ragged([VALUES[0], VALUES[1][:2]])
            moved = batch.to("cuda:0")
            assert moved.to("cuda:0") is moved
            result = Scale(factor=2.0)(moved)
            assert [each.tolist() for each in result.to("cpu").list()] == [(each * 2).tolist() for each in batch.list()]

    def test_what_has_no_kernel_there(self):
        class OnlyCpu(Operator):
            def infer(self, values: TensorSpec) -> TensorSpec:
                return values

            def cpu(self, values: Tensor, context: Context) -> Tensor:
                return values

        with pytest.raises(GraphError, match="OnlyCpu has no kernel for cuda, only for: cpu"):
            OnlyCpu()(VALUES[0], device="cuda:0")
        with pytest.raises(SpecError, match=r"an input is on cuda:0: take input\.to\('cpu'\)"):
            OnlyCpu()(Tensor(VALUES[0]).to("cuda:0"), device="cpu")


class TestMemory:
    def test_by_device(self):
        with scaled() as batches:
            for batch in batches:
                kept = batch
            memory = batches.memory()
            assert list(memory) == ["cpu", "pinned", "cuda:0"]
            assert memory["cuda:0"].live > 0
            del kept, batch
            assert batches.memory()["cuda:0"].live == 0
            assert batches.memory()["pinned"].live == 0

    def test_the_limit_is_never_exceeded(self):
        limits = {"cuda:0": 6 * 1024}
        with scaled.using(memory_limit=limits, prefetch=4)() as batches:
            rows = sum(len(batch["values"]) for batch in batches)
            use = batches.memory()["cuda:0"]
        assert rows == 50
        assert use.limit == limits["cuda:0"]
        assert use.taken_peak <= limits["cuda:0"]

    def test_a_limit_that_holds_nothing_says_who_asked(self):
        with scaled.using(memory_limit={"cuda:0": 100})() as batches, pytest.raises(MemoryLimitError) as caught:
            next(iter(batches))
        assert "cuda:0: " in str(caught.value)
        assert "Held: " in str(caught.value)
        with scaled() as batches:
            assert sum(len(batch["values"]) for batch in batches) == 50

    def test_a_card_without_room(self):
        class Huge(Operator):
            def infer(self, values: TensorSpec) -> TensorSpec:
                return TensorSpec((1 << 45,), "uint8")

            def cuda(self, values: Batch, context: CudaContext) -> Batch:
                out: Batch = context.empty_samples(np.full((len(values), 1), 1 << 45), "uint8")
                return out

        @pipeline(batch_size=1, threads=2, device="cuda:0")
        def huge():
            return Huge()(ops.read.arrays(VALUES))

        with huge() as batches, pytest.raises(MemoryLimitError, match=r"Huge: cuda:0: 32\.0 TiB .* has no room"):
            next(iter(batches))
        with scaled() as batches:
            assert sum(len(batch["values"]) for batch in batches) == 50


def test_a_failure_names_the_sample():
    class Fails(Operator):
        def infer(self, values: TensorSpec) -> TensorSpec:
            return values

        def cuda(self, values: Batch, context: CudaContext) -> Array:
            raise ValueError("no")

    @pipeline(batch_size=4, threads=2, device="cuda:0")
    def fails():
        return Fails()(ops.read.arrays(VALUES))

    with fails() as batches, pytest.raises(SampleFailed, match=r"Fails failed on .* ValueError: no"):
        next(iter(batches))
