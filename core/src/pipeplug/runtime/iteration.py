"""The data of one iteration: its samples' positions, its values so far, its failures."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeplug.errors import SampleFailed
from pipeplug.graph.graph import Node, Ref
from pipeplug.runtime.column import Column, Empty
from pipeplug.runtime.frames import drop_frames
from pipeplug.spec import TensorSpec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Rows:
    """The samples of an iteration.

    Attributes:
        positions: places in the epoch's order.
        indices: places in the source.
        padding: how many rows at the end repeat the last one.
    """

    positions: NDArray[np.int64]
    indices: NDArray[np.int64]
    padding: int = 0

    def __len__(self) -> int:
        return len(self.positions)


class Iteration:
    """One iteration under way. Chunks of one stage write disjoint rows; columns are made under the lock.

    Which samples a stage leaves out, and which of two failures of one sample counts, does not depend on what other
    threads do meanwhile: a stage goes by the failures of the stages before it, and the first stage's failure counts.

    Attributes:
        columns: the values so far.
        failures: by row, of the samples that have failed.
        reached: by stage and first row of a chunk, the row at which it stands.
        peak: the most bytes that the values have held, by device, as far as noted.
    """

    def __init__(
        self, number: int, epoch: int, rows: Rows, origin: Callable[[int], str], *, keep_frames: bool = False
    ) -> None:
        self.number = number
        self.epoch = epoch
        self.rows = rows
        self.columns: dict[Ref, Column] = {}
        self.failures: dict[int, SampleFailed] = {}
        self.reached: dict[tuple[int, int], int] = {}
        self.peak: dict[str, int] = {}
        self._failed_in: dict[int, set[int]] = {}
        self._origin = origin
        self._keep_frames = keep_frames
        self._lock = threading.Lock()

    def good_rows(self) -> list[int]:
        """The rows whose samples have not failed so far."""
        return [row for row in range(len(self.rows)) if row not in self.failures]

    def has_lost(self, row: int, lineage: frozenset[int]) -> bool:
        """Whether a sample failed in one of these stages."""
        return row in self.failures and not lineage.isdisjoint(self._failed_in[row].copy())

    def unfilled(self, ref: Ref, spec: TensorSpec, empty: Empty, device: str = "cpu") -> Column:
        """The column that the chunks of a stage fill together."""
        with self._lock:
            if ref not in self.columns:
                self.columns[ref] = Column.unfilled(spec, len(self.rows), empty, device)
            return self.columns[ref]

    def fail(self, row: int, node: Node, cause: BaseException, stage: int) -> None:
        """Takes a sample out of the iteration."""
        if not self._keep_frames:
            drop_frames(cause)
        index = int(self.rows.indices[row])
        failure = SampleFailed(
            position=int(self.rows.positions[row]),
            index=index,
            origin=self._origin(index),
            operator=node.operator_name,
            node=node.name,
            cause=cause,
        )
        with self._lock:
            stages = self._failed_in.setdefault(row, set())
            if all(stage < other for other in stages):
                self.failures[row] = failure
            stages.add(stage)

    def distinct_failures(self) -> tuple[SampleFailed, ...]:
        """The failures in the order of rows, each sample's once, even if it pads the batch."""
        by_position = {self.failures[row].position: self.failures[row] for row in sorted(self.failures, reverse=True)}
        return tuple(reversed(by_position.values()))

    def held(self) -> dict[tuple[str, str], int]:
        """Bytes that the values hold, by device and node."""
        held: dict[tuple[str, str], int] = {}
        for ref, column in self.columns.copy().items():
            holder = column.device, ref.node
            held[holder] = held.get(holder, 0) + column.block_bytes
        return held

    def held_on_devices(self) -> dict[str, int]:
        """Bytes that the values hold, by device."""
        return by_device(self.held())

    def note_peak(self) -> None:
        """Keeps the most that the values have held; to be called before some of them go."""
        for device, size in self.held_on_devices().items():
            self.peak[device] = max(self.peak.get(device, 0), size)

    def release(self, refs: Sequence[Ref]) -> None:
        """Drops values that nobody needs any more."""
        for ref in refs:
            self.columns.pop(ref, None)

    def restart(self) -> None:
        """Drops everything but the samples' positions."""
        self.columns.clear()
        self.failures.clear()
        self.reached.clear()
        self._failed_in.clear()


def by_device(held: Mapping[tuple[str, str], int]) -> dict[str, int]:
    """The sums over nodes."""
    sums: dict[str, int] = {}
    for (device, _), size in held.items():
        sums[device] = sums.get(device, 0) + size
    return sums
