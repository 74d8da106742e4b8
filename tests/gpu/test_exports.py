"""Batches of a GPU in the hands of other libraries: shared memory, in the order of their streams."""

import gc

import numpy as np
import pytest

from pipeplug import Tensor, ops, pipeline
from tests.fakes.scale import Scale

VALUES = np.random.default_rng(0).normal(size=(64, 32, 32)).astype(np.float32)
SLOW = 20_000_000  # cycles, some 10 ms


@pipeline(batch_size=16, threads=4, device="cuda:0")
def slow():
    return {"values": Scale(factor=2.0, spins=SLOW)(ops.read.arrays(VALUES))}


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def cupy():
    return pytest.importorskip("cupy")


def test_torch_on_its_current_stream(torch):
    stream = torch.cuda.Stream()
    with slow() as batches, torch.cuda.stream(stream):
        for batch in batches:
            tensor = batch["values"].torch()
            assert tensor.device == torch.device("cuda:0")
            total = tensor.double().sum()
            assert abs(total.item() - 2 * VALUES[batch.indices].sum(dtype=np.float64)) < 1e-2


def test_cupy_on_its_current_stream(cupy):
    with slow() as batches, cupy.cuda.Stream(non_blocking=True):
        for batch in batches:
            assert np.array_equal(batch["values"].cupy().get(), VALUES[batch.indices] * 2)
            assert np.array_equal(batch["values"][3].cupy().get(), VALUES[batch.indices[3]] * 2)


def test_dlpack(torch, cupy):
    with slow() as batches:
        for batch in batches:
            assert batch["values"].__dlpack_device__() == (2, 0)
            assert np.array_equal(torch.from_dlpack(batch["values"]).cpu().numpy(), VALUES[batch.indices] * 2)
            assert np.array_equal(cupy.from_dlpack(batch["values"][0]).get(), VALUES[batch.indices[0]] * 2)


def test_the_cuda_array_interface(torch, cupy):
    with slow() as batches:
        for batch in batches:
            assert np.array_equal(cupy.asarray(batch["values"]).get(), VALUES[batch.indices] * 2)
            assert np.array_equal(
                torch.as_tensor(batch["values"], device="cuda:0").cpu().numpy(), VALUES[batch.indices] * 2
            )
    assert not hasattr(Tensor(VALUES[0]), "__cuda_array_interface__")


def test_dtypes(torch):
    for dtype in ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64"):
        array = np.arange(6).reshape(2, 3).astype(dtype)
        assert np.array_equal(Tensor(array).to("cuda:0").torch().cpu().numpy(), array)


def test_what_is_kept_outlives_the_pipeline(torch):
    with slow() as batches:
        kept = [(batch.indices, batch["values"].torch()) for batch in batches]
    gc.collect()
    for indices, tensor in kept:
        assert np.array_equal(tensor.cpu().numpy(), VALUES[indices] * 2)


def test_an_export_that_nobody_takes_lets_go(torch):
    with slow() as batches:
        for batch in batches:
            batch["values"].__dlpack__()
            del batch
        assert batches.memory()["cuda:0"].live == 0
