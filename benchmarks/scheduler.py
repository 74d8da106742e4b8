"""What pipeplug itself costs: a task, an operator on a sample, an eager call.

The operators do nothing, and the difference of a long and a short chain of them leaves out the source and the delivery
of batches, which both have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from typing import Any

from benchmarks.calls import TINY_SIZE, microseconds_a_call, tiny_image
from benchmarks.measure import OURS, Conditions, Measurement, Side, Turn
from benchmarks.peers import dali
from pipeplug import Array, Batch, Context, Operator, Pipeline, Tensor, TensorSpec, ops, pipeline

BATCH = 64
BATCHES = 100
SHORT, LONG = 4, 36
CALLS = 5000


class SameBatch(Operator):
    """Gives the batch that it gets; each is a task of its own."""

    def infer(self, value: TensorSpec) -> TensorSpec:
        return value

    def cpu(self, values: Batch, context: Context) -> Batch:
        return values


class SameSample(Operator):
    """Gives the sample that it gets; neighbours share a task."""

    def infer(self, value: TensorSpec) -> TensorSpec:
        return value

    def cpu(self, value: Tensor, context: Context) -> Tensor:
        return value


def measurements(conditions: Conditions) -> Sequence[Measurement]:
    """The benchmark `scheduler`."""
    threads = conditions.threads
    task = Side(OURS, partial(open_chains, SameBatch(), threads, BATCHES))
    sample = Side(OURS, partial(open_chains, SameSample(), threads, BATCHES * BATCH))
    beyond, whole = Side(OURS, open_beyond_kernel), Side(OURS, open_eager)
    return [
        Measurement("scheduler.task", "µs a task", "smaller", [task]),
        Measurement("scheduler.sample", "µs an operator and sample", "smaller", [sample]),
        Measurement("scheduler.eager", "µs an eager call beyond its kernel", "smaller", [beyond]),
        Measurement("scheduler.eager_call", "µs an eager call", "smaller", [whole, *dali.eager_resize(CALLS)]),
    ]


@contextmanager
def open_chains(operator: Operator, threads: int, applications: int) -> Iterator[Turn]:
    """µs an application: `applications` is how often an epoch applies each operator of a chain."""
    with chain(operator, SHORT, threads) as short, chain(operator, LONG, threads) as long:
        yield lambda: (_seconds(long) - _seconds(short)) / ((LONG - SHORT) * applications) * 1e6


def chain(operator: Operator, length: int, threads: int) -> Pipeline:
    """A pipeline that applies an operator `length` times to tiny rows."""
    import numpy as np

    rows = np.zeros((BATCH * BATCHES, 1), np.float32)

    @pipeline(batch_size=BATCH, threads=threads)
    def repeated() -> dict[str, object]:
        value = ops.read.arrays(rows)
        for _ in range(length):
            value = operator(value)
        return {"value": value}

    return repeated()


def _seconds(batches: Pipeline) -> float:
    started = perf_counter()
    for _ in batches:
        pass
    return perf_counter() - started


@contextmanager
def open_eager() -> Iterator[Turn]:
    """µs a resize of a tiny image."""
    image = tiny_image()
    yield partial(microseconds_a_call, lambda: ops.image.resize(image, size=TINY_SIZE, antialias=False), CALLS)


@contextmanager
def open_beyond_kernel() -> Iterator[Turn]:
    """The same call less its kernel, called as the call calls it."""
    image = tiny_image()
    resize: Any = ops.image.resize.operator
    kernel = resize(size=TINY_SIZE, antialias=False).cpu
    sample, memory = Tensor(image), _Memory()
    with open_eager() as whole:
        yield lambda: whole() - microseconds_a_call(lambda: kernel(sample, memory), CALLS)


class _Memory:
    """As much of a `Context` as the kernel asks for."""

    device = "cpu"

    def empty(self, spec: TensorSpec) -> Tensor:
        import numpy as np

        out: Array = np.empty(spec.known_shape(), spec.dtype)
        return Tensor(out, spec.layout)
