"""How much memory a pipeline holds, when it gives it back, and what the limit does."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, ClassVar, Literal

import numpy as np
import pytest

from pipeplug import (
    Array,
    Batch,
    Context,
    MemoryLimitError,
    MemoryUse,
    Operator,
    Pipeline,
    SampleFailed,
    Tensor,
    TensorSpec,
    ops,
    pipeline,
)
from pipeplug.memory.pool import block_size

SIDE = 64
IMAGE = TensorSpec((SIDE, SIDE), "float64")
IMAGE_BYTES = IMAGE.nbytes


class Fill(Operator):
    """A big image of one number."""

    def infer(self, number: TensorSpec) -> TensorSpec:
        return IMAGE

    def cpu(self, number: Tensor, context: Context) -> Tensor:
        image: Tensor = context.empty(IMAGE)
        image.numpy()[:] = number.numpy()
        return image


class Increase(Operator):
    """A big image out of another."""

    def infer(self, image: TensorSpec) -> TensorSpec:
        return image

    def cpu(self, image: Tensor, context: Context) -> Tensor:
        increased: Tensor = context.empty(IMAGE)
        np.add(image.numpy(), 1, out=increased.numpy())
        return increased


class IncreaseBatch(Increase):
    """The same, a batch a call."""

    def cpu(self, image: Batch, context: Context) -> Batch:  # type: ignore[override]
        increased: Batch = context.empty_batch([IMAGE] * len(image))
        np.add(image.numpy(), 1, out=increased.numpy())
        return increased


def chain(*operators: Operator, length: int = 64, **options: Any) -> Pipeline:
    @pipeline(**{"batch_size": 8, "threads": 2, **options})
    def function() -> Any:
        value = ops.read.arrays(np.arange(length))
        for operator in operators:
            value = operator(value)
        return {"image": value}

    return function()


def use(batches: Pipeline) -> MemoryUse:
    gc.collect()
    return batches.memory()["cpu"]


@pytest.mark.parametrize("count", [2, 8, 16])
@pytest.mark.parametrize(("threads", "prefetch"), [(1, 1), (2, 2), (4, 3)])
def test_a_chain_holds_output_batches_and_two_intermediates_a_thread(count: int, threads: int, prefetch: int):
    operators = [Fill(), *[Increase()] * (count - 1)]
    with chain(*operators, threads=threads, prefetch=prefetch) as batches:
        for batch in batches:
            assert batch["image"].numpy().shape == (8, SIDE, SIDE)
        # One batch more, if a thread begins the next one before `for` lets go of the one that it had.
        bound = (prefetch + 2) * 8 * IMAGE_BYTES + threads * 2 * IMAGE_BYTES
        assert use(batches).peak <= bound


@pytest.mark.parametrize("count", [2, 16])
def test_one_batch_less_when_the_loop_lets_go_before_it_asks(count: int):
    with chain(Fill(), *[Increase()] * (count - 1), threads=4, prefetch=2) as batches:
        iterator = iter(batches)
        while next(iterator, None) is not None:
            pass
        assert use(batches).peak <= (2 + 1) * 8 * IMAGE_BYTES + 4 * 2 * IMAGE_BYTES


def test_batches_are_built_in_place():
    with chain(Fill(), length=8, threads=1) as batches:
        (batch,) = batches
        assert use(batches).peak == batch["image"].nbytes


def test_memory_comes_back_when_batches_go():
    with chain(Fill(), Increase()) as batches:
        kept = list(batches)
        assert use(batches).live == 64 * IMAGE_BYTES
        del kept[2:]
        assert use(batches).live == 16 * IMAGE_BYTES
        view = np.from_dlpack(kept[0]["image"])[3, :2]
        del kept[:]
        assert use(batches).live == 8 * IMAGE_BYTES
        assert (view == 4).all()
        del view
        assert use(batches).live == 0


def test_batches_are_valid_after_the_block():
    with chain(Fill(), IncreaseBatch(), Increase()) as batches:
        kept = list(batches)
    views = [np.from_dlpack(batch["image"]) for batch in kept]
    positions = [batch.positions for batch in kept]
    del kept, batches
    gc.collect()
    for view, numbers in zip(views, positions, strict=True):
        assert (view == numbers[:, None, None] + 2).all()


def test_a_loop_that_ends_early_leaves_nothing():
    with chain(Fill(), IncreaseBatch(), prefetch=4) as batches:
        for _ in batches:
            break
        del _
        assert use(batches).live == 0


class TestLimit:
    @pytest.mark.parametrize("threads", [1, 2, 8])
    @pytest.mark.parametrize(
        "operators", [(Fill(), Increase()), (Fill(), IncreaseBatch(), Increase(), IncreaseBatch())]
    )
    @pytest.mark.parametrize("batches_that_fit", [3.5, 5])
    def test_is_never_exceeded(self, threads: int, operators: tuple[Operator, ...], batches_that_fit: float):
        limit = int(batches_that_fit * 8 * IMAGE_BYTES)
        with chain(*operators, threads=threads, prefetch=6, memory_limit=limit) as batches:
            for _ in range(2):
                positions = []
                for batch in batches:
                    positions += batch.positions.tolist()
                    assert (batch["image"].numpy() == batch.positions[:, None, None] + len(operators) - 1).all()
                assert positions == list(range(64))
            assert use(batches).taken_peak <= limit
            assert use(batches).limit == limit

    def test_blocks_count_not_requests(self):
        """A batch takes a block that is larger than itself."""
        batch = 9 * IMAGE_BYTES
        assert block_size(batch) > batch
        options: dict[str, Any] = {"length": 72, "batch_size": 9, "threads": 1}
        with chain(Fill(), memory_limit=block_size(batch), **options) as batches:
            iterator = iter(batches)
            assert sum(len(next(iterator).positions) for _ in range(8)) == 72
            assert use(batches).taken_peak == block_size(batch)
        with chain(Fill(), memory_limit=block_size(batch) - 1, **options) as batches:
            with pytest.raises(MemoryLimitError):
                list(batches)

    @pytest.mark.parametrize("threads", [1, 3])
    def test_too_small_for_one_batch(self, threads: int):
        with chain(Fill(), Increase(), threads=threads, memory_limit="100KiB") as batches:
            with pytest.raises(MemoryLimitError) as raised:
                list(batches)
            assert use(batches).live == 0
        message = str(raised.value)
        assert message.startswith("Increase: 256.0 KiB (262144 bytes) were asked for while 0 bytes are in use, and")
        assert (
            "memory_limit is 102400 bytes (100.0 KiB); raise memory_limit, or lower batch_size or prefetch. Held: "
            in message
        )
        assert message.endswith("0 B by batches that the loop keeps and by running kernels")

    def test_too_small_for_an_intermediate(self):
        with chain(Fill(), IncreaseBatch(), threads=1, memory_limit="300KiB") as batches:
            with pytest.raises(
                MemoryLimitError, match=r"^IncreaseBatch: 256.0 KiB .*Held: 256.0 KiB by Fill, 0 B by batch"
            ):
                list(batches)

    def test_too_small_for_scratch(self):
        with chain(Fill(), Increase(), threads=1, memory_limit="256KiB") as batches:
            with pytest.raises(
                MemoryLimitError, match=r"^Fill: 32.0 KiB .*Held: 256.0 KiB by Increase, 0 B by batches"
            ):
                list(batches)

    def test_too_small_for_a_loop_that_keeps_everything(self):
        with chain(Fill(), threads=2, memory_limit="1MiB") as batches:
            kept: list[Any] = []
            with pytest.raises(MemoryLimitError, match=r"^Fill: .* 1.0 MiB by batches that the loop keeps"):
                kept.extend(batches)
            assert len(kept) == 4
            assert use(batches).live == 2**20
            del kept
            assert use(batches).live == 0
            assert sum(len(batch.positions) for batch in batches) == 64

    @pytest.mark.parametrize("threads", [1, 4])
    def test_items_are_not_lost_to_it(self, threads: int):
        class Stream:
            def __iter__(self) -> Iterator[Array]:
                return (np.full((SIDE, SIDE), number, np.float64) for number in range(50))

        @pipeline(batch_size=8, threads=threads, prefetch=4, memory_limit=int(2.2 * 8 * IMAGE_BYTES))
        def function() -> Any:
            return {"image": Increase()(ops.read.items(Stream(), specs=(IMAGE,)))}

        with function() as batches:
            numbers = []
            for batch in batches:
                numbers += batch["image"].numpy()[:, 0, 0].tolist()
                del batch
            assert numbers == list(range(1, 51))
            assert use(batches).taken_peak <= int(2.2 * 8 * IMAGE_BYTES)

    @pytest.mark.parametrize("on_error", ["skip", "replace"])
    def test_with_samples_that_fail(self, on_error: Literal["skip", "replace"]):
        def refuse(image: Array) -> Array:
            if image[0, 0] % 5 == 0:
                raise ValueError("bad")
            return image + 1

        limit = 6 * 8 * IMAGE_BYTES

        @pipeline(batch_size=8, threads=2, prefetch=2, memory_limit=limit, on_error=on_error)
        def function() -> Any:
            return {"image": ops.map(refuse, Fill()(ops.read.arrays(np.arange(64))), spec=IMAGE)}

        with function() as batches:
            for batch in batches:
                assert (batch["image"].numpy()[:, 0, 0] == batch.positions + 1).all()
            assert use(batches).taken_peak <= limit

    def test_a_sample_that_met_it_is_run_again_and_no_other(self):
        calls: list[int] = []

        class Counted(Operator):
            parallel = False

            def infer(self, number: TensorSpec) -> TensorSpec:
                return TensorSpec((SIDE, SIDE), None)

            def cpu(self, number: Tensor, context: Context) -> Tensor:
                image: Tensor = context.empty(IMAGE)
                calls.append(int(number.numpy()))
                return image

        with chain(Counted(), length=48, prefetch=4, memory_limit=20 * block_size(IMAGE_BYTES)) as batches:
            for batch in batches:
                assert len(batch["image"]) == 8
        assert calls == list(range(48))


def test_a_kernel_without_memory_is_a_sample_that_fails():
    def greedy(number: Array) -> Array:
        raise MemoryError("no room")

    with pipeline(batch_size=2)(lambda: ops.map(greedy, ops.read.arrays(np.arange(4))))() as batches:
        with pytest.raises(SampleFailed, match=r"map.greedy failed on row 0 .*MemoryError: no room"):
            list(batches)


class InTurn(Operator):
    """Notes each sample and asks for memory, one after the other and in order."""

    parallel: ClassVar[bool] = False

    def infer(self, number: TensorSpec) -> TensorSpec:
        return TensorSpec((1000,), "uint8")

    def cpu(self, number: Tensor, context: Context) -> Tensor:
        scratch = context.empty(TensorSpec((3000,), "uint8"))
        out = context.empty(TensorSpec((1000,), "uint8"))
        np.copyto(out.numpy(), scratch.numpy()[:1000])
        IN_TURN.append(int(number.numpy()))
        return out


IN_TURN: list[int] = []


@pytest.mark.parametrize("limit", range(24_000, 60_000, 2_000))
def test_an_operator_in_turn_sees_no_sample_twice_whatever_the_limit(limit: int):
    IN_TURN.clear()

    @pipeline(batch_size=12, threads=4, prefetch=4, memory_limit=limit)
    def numbers():
        number = ops.read.arrays(np.arange(120))
        return ops.map(lambda big: np.repeat(big, 2), InTurn()(number), spec=TensorSpec((2000,), "uint8"))

    with suppress(MemoryLimitError):
        with numbers() as batches:
            list(batches)
    assert list(range(len(IN_TURN))) == IN_TURN
