"""Operators on data, computed at once: an array is one sample, a Batch a batch.

Inside `with eager(seed=…)` state, such as decoders, stays open between calls and random numbers follow from the seed
and the number of the call. Outside of it state opens and closes in each call and random numbers are fresh.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from pipeplug.errors import GraphError
from pipeplug.graph.graph import Node
from pipeplug.graph.placement import device_named
from pipeplug.operator import Call, Operator, calling
from pipeplug.runtime.compute import compute
from pipeplug.runtime.device_calls import transferred
from pipeplug.runtime.memory import Memory
from pipeplug.runtime.prepared import (
    device_of_call,
)
from pipeplug.runtime.randomness import Draws, check_seed, key_hash
from pipeplug.runtime.session import open_operator
from pipeplug.signature import STATE


@contextmanager
def eager(*, seed: int = 0) -> Iterator[None]:
    """Keeps the state of eager calls open and their random numbers reproducible inside the block.

    Each call draws new numbers; calls with the same `key=` draw the same ones.
    """
    check_seed(seed)
    with ExitStack() as states:
        session = EagerSession(seed, states)
        with calling(session):
            yield


class SingleCalls:
    """Eager calls outside of any block."""

    def call(self, call: Call) -> Any:
        if not hasattr(call.operator, "open"):
            return compute(call, _fresh_numbers, {}, self.memory)
        with _open(call.operator) as state:
            return compute(call, _fresh_numbers, {STATE: state}, self.memory)

    def transfer(self, value: Any, device: str) -> Any:
        return transferred(value, device_named(device, "to()"), self.memory)

    @contextmanager
    def memory(self, device: str) -> Iterator[Memory]:
        """Memory of a device for one call; what it gives outlives the block."""
        memory = Memory({}, (device,))
        try:
            yield memory
        finally:
            memory.close()


class EagerSession(SingleCalls):
    """Eager calls inside a block."""

    def __init__(self, seed: int, states: ExitStack) -> None:
        self._seed = seed
        self._states = states
        self._open: dict[object, tuple[Operator, Mapping[str, object]]] = {}
        self._drawn = 0
        self._memories: dict[str, Memory] = {}

    def call(self, call: Call) -> Any:
        with self.memory(device_of_call(call)):  # before the state, which has memory of it
            state = self._state(call.operator) if hasattr(call.operator, "open") else {}
        return compute(call, self._numbers, state, self.memory)

    @contextmanager
    def memory(self, device: str) -> Iterator[Memory]:
        """Memory of a device, kept for the calls that follow."""
        if device not in self._memories:
            memory = self._memories[device] = Memory({}, (device,))
            self._states.callback(memory.close)
        yield self._memories[device]

    def _state(self, operator: Operator) -> Mapping[str, object]:
        key = operator if _is_hashable(operator) else id(operator)
        if key not in self._open:
            self._open[key] = operator, {STATE: self._states.enter_context(_open(operator))}
        return self._open[key][1]

    def _numbers(self, call: Call, rows: int) -> Draws:
        if call.key is not None:
            return Draws(self._seed, key_hash(call.key), 0, range(rows))
        first, self._drawn = self._drawn, self._drawn + rows
        return Draws(self._seed, key_hash(call.name or call.operator.title()), 0, range(first, first + rows))


SINGLE_CALLS = SingleCalls()


class _CallsOfKernels(SingleCalls):
    """Eager calls in a function that a pipeline runs, whose random numbers would be others each time."""

    def call(self, call: Call) -> Any:
        if hasattr(call.operator, "draw"):
            raise GraphError(
                f"{call.operator.title()} draws random numbers, which inside of a function of ops.map, or of a kernel, "
                "would be others in every run; apply it in the pipeline, or inside of pipeplug.eager(seed=…)"
            )
        return super().call(call)


CALLS_OF_KERNELS = _CallsOfKernels()


def _fresh_numbers(call: Call, rows: int) -> Draws:
    return Draws(secrets.randbits(64), 0, 0, range(rows))


def _open(operator: Operator) -> Any:
    return open_operator(Node(operator.title(), operator, operator.title()))


def _is_hashable(operator: Operator) -> bool:
    try:
        hash(operator)
    except TypeError:
        return False
    return True
