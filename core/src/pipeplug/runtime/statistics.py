"""What a pipeline has done: time and failures by operator, samples delivered, time spent waiting."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeplug.errors import SampleFailed

FAILURES_KEPT = 1000
"""How many failures the statistics of a pipeline keep; beyond that they count."""


@dataclass(frozen=True, slots=True)
class OperatorStatistics:
    """What one node has done.

    Attributes:
        name: the node.
        calls: kernel calls that succeeded: one a sample, or one a batch.
        seconds: time in them, added over threads.
        failures: samples that failed in them.
        counts: what the kernels counted, such as samples by the decoder that took them.
    """

    name: str
    calls: int
    seconds: float
    failures: int
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Statistics:
    """What a pipeline has done since it was opened.

    Attributes:
        operators: by node, in the order in which they run.
        samples: rows delivered.
        batches: batches delivered.
        failures: samples that failed in delivered and in passed iterations.
        failed: the first `FAILURES_KEPT` of them, in order.
        passed: iterations without one good sample, which were not delivered.
        waiting_seconds: time that the loop spent waiting for batches.
    """

    operators: tuple[OperatorStatistics, ...]
    samples: int
    batches: int
    failures: int
    failed: tuple[SampleFailed, ...]
    passed: int
    waiting_seconds: float


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Bytes of one device that a pipeline holds.

    Attributes:
        live: held by values, those among them that the loop holds on to.
        peak: the most that values held at once.
        taken: taken from the system: live, and free blocks that wait for reuse.
        taken_peak: the most that was taken at once.
        limit: the `memory_limit`, which `taken` never exceeds; None without one.
    """

    live: int
    peak: int
    taken: int
    taken_peak: int
    limit: int | None


class Timings:
    """Counts by node: of one task, which its thread alone writes, or of all."""

    __slots__ = ("_by_node", "_counts")

    def __init__(self) -> None:
        self._by_node: dict[str, tuple[int, int, int]] = {}
        self._counts: dict[str, dict[str, int]] = {}

    def add(self, node: str, nanoseconds: int, calls: int = 1, failures: int = 0) -> None:
        """Adds kernel calls that succeeded, their time, and samples that failed."""
        before = self._by_node.get(node)
        if before is None:
            self._by_node[node] = calls, nanoseconds, failures
        else:
            self._by_node[node] = before[0] + calls, before[1] + nanoseconds, before[2] + failures

    def failed(self, node: str) -> None:
        self.add(node, 0, calls=0, failures=1)

    def count(self, node: str, counts: Mapping[str, int]) -> None:
        """Adds what a kernel counted."""
        sums = self._counts.setdefault(node, {})
        for what, number in counts.items():
            sums[what] = sums.get(what, 0) + number

    def merge(self, other: Timings) -> None:
        for node, (calls, nanoseconds, failures) in other._by_node.items():
            self.add(node, nanoseconds, calls, failures)
        for node, counts in other._counts.items():
            self.count(node, counts)

    def of(self, node: str) -> OperatorStatistics:
        calls, nanoseconds, failures = self._by_node.get(node, (0, 0, 0))
        return OperatorStatistics(node, calls, nanoseconds / 1e9, failures, dict(self._counts.get(node, {})))


class Counters:
    """The sums over all tasks of an open pipeline."""

    def __init__(self, nodes: tuple[str, ...]) -> None:
        self._lock = threading.Lock()
        self._nodes = nodes
        self._total = Timings()
        self.samples = 0
        self.batches = 0
        self.failures = 0
        self.failed: list[SampleFailed] = []
        self.passed = 0
        self.waiting_seconds = 0.0

    def merge(self, timings: Timings) -> None:
        with self._lock:
            self._total.merge(timings)

    def fail(self, failures: tuple[SampleFailed, ...]) -> None:
        """Counts samples that failed."""
        self.failures += len(failures)
        self.failed += failures[: FAILURES_KEPT - len(self.failed)]

    def statistics(self) -> Statistics:
        with self._lock:
            operators = tuple(self._total.of(node) for node in self._nodes)
        return Statistics(
            operators,
            self.samples,
            self.batches,
            self.failures,
            tuple(self.failed),
            self.passed,
            self.waiting_seconds,
        )
