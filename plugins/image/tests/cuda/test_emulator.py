"""The emulator itself: it runs what a GPU would run, and sees what a GPU would not say."""

from __future__ import annotations

import numpy as np
import pytest

from pipeplug import CudaSource
from plugins.image.tests.cuda.emulator import EmulatedContext, arrays_of, emulated_batch, needs_compiler

pytestmark = needs_compiler

SOURCE = """
extern "C" __global__ void reversed(const int *__restrict__ from, int *__restrict__ to, long long count)
{
    __shared__ int kept[64];
    int place = (int)threadIdx.x + 8 * (int)threadIdx.y;
    if (place < count)
        kept[place] = from[blockIdx.x * count + place];
    __syncthreads();
    for (int turn = 0; turn < 3; turn++)
        __syncthreads();
    if (place < count)
        to[blockIdx.x * count + place] = kept[count - 1 - place];
}

extern "C" __global__ void unsynchronised(int *to)
{
    __shared__ int kept[64];
    kept[threadIdx.x] = 1;
    to[threadIdx.x] = kept[63 - threadIdx.x];
    __syncthreads();
}

extern "C" __global__ void divergent(long long count)
{
    if (threadIdx.x < count)
        __syncthreads();
}

extern "C" __global__ void stray(char *to, long long offset) { to[offset] = 1; }

extern "C" __global__ void wide(char *from) { *(int *)(from + threadIdx.x) += 1; }
"""

HALVES = """
#include "pixels.cuh"
extern "C" __global__ void halves(const pixel *from, result *to)
{
    to[threadIdx.x] = store(load(from[threadIdx.x]));
}
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("kernels") / "own.cu"
    path.write_text(SOURCE)
    return CudaSource(path)


@pytest.fixture(scope="module")
def halves(tmp_path_factory):
    from pipeplug_image import kernels

    path = tmp_path_factory.mktemp("halves") / "halves.cu"
    (header,) = kernels.__path__
    path.write_text(HALVES.replace("pixels.cuh", f"{header}/cuda/pixels.cuh"))
    return CudaSource(path)


def test_threads_meet_at_barriers(source):
    context = EmulatedContext()
    batch = emulated_batch([np.arange(10 * row, 10 * row + 10, dtype=np.int32)[:, None] for row in range(3)], None)
    out = context.empty_samples(batch.shapes, "int32")
    context.launch(source.kernel("reversed"), (3,), (8, 4), int(batch.addresses[0]), int(out.addresses[0]), 10)
    assert [array.ravel().tolist() for array in arrays_of(out)] == [
        list(range(10 * row + 9, 10 * row - 1, -1)) for row in range(3)
    ]


def test_a_missing_barrier_shows(source):
    context = EmulatedContext()
    out = context.empty_samples(np.array([[64]]), "int32")
    context.launch(source.kernel("unsynchronised"), (1,), (64,), int(out.addresses[0]))
    assert set(arrays_of(out)[0].tolist()) == {1, -0x32323233}


@pytest.mark.parametrize(
    ("kernel", "block", "message"),
    [
        ("divergent", 8, "ended while others waited"),
        ("stray", 8, "8 bytes past the end of 8"),
        ("wide", 2, r"\d accesses were not aligned"),
    ],
)
def test_what_breaks_a_gpu_is_seen(source, kernel, block, message):
    context = EmulatedContext()
    address = context.scratch(8)
    arguments = {"divergent": (4,), "stray": (address, 15), "wide": (address,)}
    with pytest.raises(AssertionError, match=message):
        context.launch(source.kernel(kernel), (1,), (block,), *arguments[kernel])


def test_writing_to_an_input_is_seen(source):
    context = EmulatedContext()
    batch = emulated_batch([np.zeros(4, np.uint8)], None)
    with pytest.raises(AssertionError, match="an input was written to"):
        context.launch(source.kernel("stray"), (1,), (1,), int(batch.addresses[0]), 2)


def test_launches_that_no_gpu_takes_are_seen(source):
    context = EmulatedContext()
    with pytest.raises(AssertionError, match="are beyond"):
        context.launch(source.kernel("divergent"), (1, 70000), (8,), 8)
    with pytest.raises(AssertionError, match="a block has 1 to 1024 threads"):
        context.launch(source.kernel("divergent"), (1,), (64, 32), 8)
    with pytest.raises(AssertionError, match="takes 1 arguments"):
        context.launch(source.kernel("divergent"), (1,), (8,), 8, 8)


def test_halves_are_numpys(halves):
    context = EmulatedContext()
    edges = [0.0, -0.0, 1.0, 65504, 65519.9, 65520, np.inf, -np.inf, 5.9e-8, 2.9e-8, 3e-8, 6.1e-5, 6.103e-5, 1 + 2**-11]
    numbers = np.concatenate((np.array(edges, np.float32), np.random.default_rng(0).normal(0, 9, 400))).astype("f4")
    batch = emulated_batch([numbers], None)
    out = context.empty_samples(batch.shapes, "float16")
    places = int(batch.addresses[0]), int(out.addresses[0])
    context.launch(halves.kernel("halves", PIXEL="float32", RESULT="float16"), (1,), (len(numbers),), *places)
    with np.errstate(over="ignore"):
        assert np.array_equal(arrays_of(out)[0], numbers.astype(np.float16))
    back = context.empty_samples(batch.shapes, "float32")
    places = int(out.addresses[0]), int(back.addresses[0])
    context.launch(halves.kernel("halves", PIXEL="float16", RESULT="float32"), (1,), (len(numbers),), *places)
    assert np.array_equal(arrays_of(back)[0], arrays_of(out)[0].astype(np.float32))
