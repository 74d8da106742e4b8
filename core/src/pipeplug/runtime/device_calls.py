"""Operators on data of a device, computed at once, and copies of data between devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from pipeplug.batch import Batch
from pipeplug.operator import Call
from pipeplug.runtime.context import BatchContext
from pipeplug.runtime.cuda_context import CudaBatchContext
from pipeplug.runtime.invoke import outputs_of, whole_constants
from pipeplug.runtime.memory import Memory
from pipeplug.runtime.prepared import (
    MemoryOf,
    Prepared,
    Random,
    batch_length,
    keywords_of,
    of_a_call,
    one,
)


def run_on_device(
    call: Call,
    prepared: Prepared,
    inputs: Sequence[Any],
    random: Random,
    constants: Mapping[str, object],
    memory: Memory,
    device: str,
) -> list[Any]:
    """The outputs of a call on a GPU; inputs of the host are copied to it."""
    length = batch_length(inputs)
    rows = 1 if length is None else length
    keywords = keywords_of(call, prepared, inputs, random, length)
    batches = [value if isinstance(value, Batch) else one(value) for value in inputs]
    with device_work(memory, device, rows) as work:
        moved = [work.moved(batch) for batch in batches]
        for batch in moved:
            if not batch.is_object:
                batch.samples.use(work.stream)
        if prepared.batched:
            columns = {name: np.asarray(column) for name, column in keywords.items()}
            results = outputs_of(
                prepared.node,
                prepared.function(*moved, context=work, **whole_constants(constants, rows), **columns),
            )
            if work.failed:
                raise next(iter(work.failed.values()))
            gathered = [
                work.as_batch(values, spec.layout) for values, spec in zip(results, prepared.node.specs, strict=True)
            ]
        else:
            gathered = _each(prepared, moved, keywords, constants, work, rows)
        gathered = [memory.packed(batch) if batch.device != "cpu" else batch for batch in gathered]
    return [batch[0] for batch in gathered] if length is None else gathered


def _each(
    prepared: Prepared,
    batches: Sequence[Batch],
    keywords: Mapping[str, Any],
    constants: Mapping[str, object],
    work: CudaBatchContext,
    rows: int,
) -> list[Batch]:
    """The outputs of a per-sample kernel, sample by sample."""
    outputs: list[list[Any]] = [[] for _ in prepared.node.specs]
    for row in range(rows):
        varying = {name: column[row] for name, column in keywords.items()}
        result = prepared.function(*[batch[row] for batch in batches], context=work, **constants, **varying)
        for samples, value in zip(outputs, outputs_of(prepared.node, result), strict=True):
            samples.append(value)
    return [Batch.ragged(samples) for samples in outputs]


@contextmanager
def device_work(memory: Memory, device: str, rows: int) -> Iterator[CudaBatchContext]:
    """The context of one call on a GPU; what it makes is ready for others behind the block."""
    gpu = memory.device(device)
    with gpu.stream() as stream:
        work = CudaBatchContext(gpu, memory.staging(), stream, of_a_call(rows), range(rows), 0)
        try:
            yield work
        finally:
            work.end()


def transferred(value: Any, device: str, memory_of: MemoryOf) -> Any:
    """A tensor or batch on a device: itself where it is there, else a copy."""
    batch = value if isinstance(value, Batch) else one(value)
    if batch.is_object or batch.device == device:
        return value
    with memory_of(device if batch.device == "cpu" else batch.device) as memory:
        rows = len(batch)
        if device == "cpu":
            moved = BatchContext("cpu", np.empty, of_a_call(rows), range(rows), 0, memory=memory).moved(batch)
        else:
            with device_work(memory, device, rows) as work:
                moved = work.moved(batch)
    return moved if isinstance(value, Batch) else moved[0]
