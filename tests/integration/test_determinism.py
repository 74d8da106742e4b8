"""A batch is a function of pipeline, seed, epoch and position: of nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from pipeplug import Array, Batch, Context, Draws, Operator, Pipeline, Shapes, Tensor, TensorSpec, ops, pipeline

LENGTH = 53


class Noise(Operator):
    """Adds random numbers, a row a sample, as many as the input has."""

    size: int = 3

    def infer(self, values: TensorSpec) -> TensorSpec:
        return TensorSpec((self.size,), "float64")

    def draw(self, random: Draws) -> dict[str, Array]:
        return {"noise": random.normal(size=self.size), "gain": random.uniform(1, 2)}

    def cpu(self, values: Tensor, context: Context, *, noise: Array, gain: Array) -> Tensor:
        return Tensor(values.numpy()[: self.size] * gain + noise)


class NoiseOfBatch(Operator):
    """The same, a batch a call."""

    def infer(self, values: TensorSpec) -> TensorSpec:
        return TensorSpec((3,), "float64")

    def draw(self, random: Draws) -> dict[str, Array]:
        return {"noise": random.normal(size=3)}

    def cpu(self, values: Batch, context: Context, *, noise: Array) -> Batch:
        return Batch.equal(values.numpy() + noise)


class Cut(Operator):
    """Cuts a random length off, which depends on the shape and which nobody knows beforehand."""

    def infer(self, values: TensorSpec) -> TensorSpec:
        return TensorSpec((None,), "float64")

    def draw(self, random: Draws, values: Shapes) -> dict[str, Array]:
        return {"length": random.integers(1, values[:, 0] + 1)}

    def cpu(self, values: Tensor, context: Context, *, length: Array) -> Tensor:
        return Tensor(values.numpy()[:length])


class Nothing(Operator):
    """Gives its input back, with a random number that nobody sees."""

    def infer(self, values: TensorSpec) -> TensorSpec:
        return values

    def draw(self, random: Draws) -> dict[str, Array]:
        return {"unused": random.uniform()}

    def cpu(self, values: Tensor, context: Context, *, unused: Array) -> Tensor:
        return values


DATA = np.arange(LENGTH * 4, dtype=np.float64).reshape(LENGTH, 4)


def augmented(shard: tuple[int, int] = (0, 1), *, inserted: bool = False, **options: Any) -> Pipeline:
    """Per-sample and batch kernels, ragged values, and draws with and without shapes."""

    @pipeline(**{"batch_size": 8, "threads": 2, "seed": 5, **options})
    def function() -> Any:
        values = ops.read.arrays(DATA, shuffle=True, shard=shard)
        noisy = Noise()(values)
        if inserted:
            noisy = Nothing()(noisy)
        return {"batch": NoiseOfBatch()(noisy), "cut": Cut()(Cut()(noisy)), "values": values}

    return function()


def by_position(batches: Iterable[Any]) -> dict[int, tuple[bytes, ...]]:
    """The bytes of each sample by its position, without padding; none comes twice."""
    found: dict[int, tuple[bytes, ...]] = {}
    for batch in batches:
        rows = len(batch.positions) - batch.padding
        columns = [value.list() for value in batch.values()]
        for row, position in enumerate(batch.positions[:rows].tolist()):
            assert position not in found
            found[position] = tuple(np.asarray(column[row]).tobytes() for column in columns)
    return found


def epochs(made: Pipeline, count: int = 1) -> list[dict[int, tuple[bytes, ...]]]:
    with made as batches:
        return [by_position(batches) for _ in range(count)]


@pytest.fixture(scope="module")
def expected() -> list[dict[int, tuple[bytes, ...]]]:
    """Two epochs, sample by sample, in one thread."""
    found = epochs(augmented(threads=1, batch_size=1, prefetch=1), 2)
    assert [sorted(epoch) for epoch in found] == [list(range(LENGTH))] * 2
    return found


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize(("batch_size", "prefetch"), [(8, 2), (5, 1), (64, 3), (53, 4)])
def test_threads_batch_size_and_prefetch_change_nothing(
    threads: int, batch_size: int, prefetch: int, expected: list[Any]
):
    assert epochs(augmented(threads=threads, batch_size=batch_size, prefetch=prefetch), 2) == expected


@pytest.mark.parametrize("last_batch", ["keep", "pad"])
@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_ranks_share_the_epoch(ranks: int, last_batch: str, expected: list[Any]):
    parts = [epochs(augmented((rank, ranks), last_batch=last_batch))[0] for rank in range(ranks)]
    union: dict[int, tuple[bytes, ...]] = {}
    for part in parts:
        assert not set(part) & set(union)
        union |= part
    assert union == expected[0]


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_a_run_goes_on_with_other_ranks_threads_and_batch_size(ranks: int, expected: list[Any]):
    delivered: dict[int, tuple[bytes, ...]] = {}
    states = set()
    for rank in range(2):
        with augmented((rank, 2), batch_size=4) as batches:
            received = []
            for batch in batches:
                received.append(batch)
                if len(received) == 3:
                    break
            states.add(batches.state())
        delivered |= by_position(received)
    (state,) = states
    assert state.delivered == 24
    for rank in range(ranks):
        with augmented((rank, ranks), batch_size=7, threads=8) as batches:
            batches.load_state(state)
            delivered |= by_position(batches)
            assert rank or by_position(batches).items() <= expected[1].items()
    assert delivered == expected[0]


def test_epochs_and_seeds_differ(expected: list[Any]):
    first, second = expected
    assert all(first[position] != second[position] for position in first)
    other = epochs(augmented(seed=6))[0]
    assert all(first[position] != other[position] for position in first)


def test_another_operator_changes_nothing_elsewhere(expected: list[Any]):
    assert epochs(augmented(inserted=True), 2) == expected


@pytest.mark.parametrize("epoch", [0, 1])
def test_chosen_samples_are_those_of_training(epoch: int, expected: list[Any]):
    positions = [17, 0, LENGTH - 1, 3]
    chosen = augmented().samples(positions, epoch=epoch)
    assert chosen.epoch == epoch
    assert chosen.positions.tolist() == positions
    assert by_position([chosen]) == {position: expected[epoch][position] for position in positions}


def test_a_key_shares_draws():
    @pipeline(batch_size=8, threads=2)
    def twins() -> Any:
        values = ops.read.arrays(DATA)
        return Noise()(values, key="together"), Noise()(values, key="together"), Noise()(values)

    with twins() as batches:
        for batch in batches:
            assert (batch["0"].numpy() == batch["1"].numpy()).all()
            assert (batch["0"].numpy() != batch["2"].numpy()).all()


def test_iterables_are_drawn_the_same_numbers_wherever_they_resume():
    def noisy(**options: Any) -> Pipeline:
        @pipeline(**{"batch_size": 8, "threads": 2, "seed": 5, **options})
        def function() -> Any:
            return {"noise": Noise()(ops.read.items({tuple(row): row for row in DATA}.values()))}

        return function()

    whole = epochs(noisy(threads=1), 2)
    assert epochs(noisy(batch_size=3, threads=8), 2) == whole
    with noisy() as batches:
        received = [batch for _, batch in zip(range(2), batches, strict=False)]
        state = batches.state()
    with noisy(batch_size=5, threads=1) as batches:
        batches.load_state(state)
        assert by_position([*received, *batches]) == whole[0]
        assert by_position(batches) == whole[1]


PLAN_BY_CLASS = """
import numpy as np
from pipeplug import ops, pipeline
from pipeplug_image.flip import Flip
from pipeplug_image.normalize import Normalize

images = np.zeros((1, 1, 1, 3), np.uint8)

@pipeline(batch_size=1)
def by_class():
    return Normalize()(Flip()(ops.read.arrays(images, layouts=("HWC",))))

before = [node.name for node in by_class().plan.graph.nodes]
ops.image.flip, ops.image.normalize
assert before == [node.name for node in by_class().plan.graph.nodes]
print(*before)
"""


def test_classes_that_are_imported_have_the_names_that_they_are_offered_by():
    # In a process of its own: here somebody may have found them by name already.
    done = subprocess.run([sys.executable, "-c", PLAN_BY_CLASS], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["read.arrays", "image.flip.draw", "image.flip+normalize"]
