"""Running chosen samples in the calling thread, one node after the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipeplug.errors import ArgumentError
from pipeplug.graph.plan import Plan
from pipeplug.operator import calling
from pipeplug.runtime.context import never
from pipeplug.runtime.eager import CALLS_OF_KERNELS
from pipeplug.runtime.invoke import run_batch, run_samples
from pipeplug.runtime.iteration import Iteration, Rows
from pipeplug.runtime.order import Order
from pipeplug.runtime.outputs import Outputs
from pipeplug.runtime.session import Session
from pipeplug.runtime.statistics import Timings
from pipeplug.source import Reader, origin_of


def run_positions(
    plan: Plan, reader: Reader, order: Order, positions: Sequence[int], *, epoch: int, seed: int, lent: bool
) -> Outputs:
    """The samples at `positions` of an epoch; raises the first failure, chained to what caused it.

    `lent` says that the reader, if it has to be entered, has been.
    """
    if outside := [position for position in positions if not 0 <= position < len(order)]:
        raise ArgumentError(f"position {outside[0]} is outside of the epoch's {len(order)} samples")
    where = np.asarray(positions, np.int64)
    indices = np.asarray([order[int(position)] for position in positions], np.int64)
    iteration = Iteration(0, epoch, Rows(where, indices), lambda index: origin_of(reader, index), keep_frames=True)
    with Session(plan, reader, seed=seed, memory_limits={}, lent=lent) as session:
        for stage, program in zip(plan.stages, session.programs, strict=True):
            rows = range(len(where))
            with calling(CALLS_OF_KERNELS):
                if stage.batched:
                    run_batch(program, iteration, rows, session.memory, Timings(), never, seed, stage.device)
                else:
                    run_samples(program, iteration, rows, session.memory, Timings(), never, stage.device)
            if iteration.failures:
                failure = iteration.failures[min(iteration.failures)]
                raise failure from failure.cause
        rows_wanted = list(range(len(where)))
        batches = {
            name: session.memory.packed(iteration.columns[ref].batch(rows_wanted, session.memory.empty))
            for name, ref in plan.graph.outputs
        }
    return Outputs(batches, where, indices, 0, epoch, ())
