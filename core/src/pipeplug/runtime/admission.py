"""Whether one more iteration may begin: by how many are under way, and by the memory that they will take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pipeplug.runtime.iteration import Iteration
from pipeplug.runtime.memory import Memory


class Admission:
    """Admits the iterations of an epoch.

    An iteration is under way until the loop has its batch: a batch that is handed over counts, as the loop keeps the
    one before until then. Each is expected to hold as much as the largest so far; so the first one goes alone.

    Attributes:
        begun: how many iterations were admitted.
        handed_over: how many of them the loop has, or never gets.
    """

    def __init__(self, memory: Memory, prefetch: int) -> None:
        self.begun = 0
        self.handed_over = 0
        self._memory = memory
        self._prefetch = prefetch
        self._needed: dict[str, int] | None = None
        self._copied: dict[str, int] = {}

    def allows(self, iterations: Iterable[Iteration]) -> bool:
        """Whether one more fits beside these, which are under way."""
        under_way = self.begun - self.handed_over
        if under_way == 0 or under_way >= self._prefetch or not self._memory.is_limited:
            return under_way < self._prefetch
        if self._needed is None:
            return False
        held: dict[str, int] = {}
        for iteration in iterations:
            for device, size in iteration.held_on_devices().items():
                held[device] = held.get(device, 0) + size
        return self._memory.fits(
            {
                device: (under_way + 1) * needed + self._copied.get(device, 0) - held.get(device, 0)
                for device, needed in self._needed.items()
            }
        )

    def before_release(self, iteration: Iteration) -> None:
        """Takes note of what an iteration holds that is going to let go of some of it."""
        if self._memory.is_limited:
            iteration.note_peak()

    def learn(self, iteration: Iteration, copied: Mapping[str, int]) -> None:
        """Takes note of what an iteration needed that is complete, and of what was copied to leave samples out."""
        self.before_release(iteration)
        self._needed = _largest(self._needed or {}, iteration.peak)
        self._copied = _largest(self._copied, copied)


def _largest(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    return {device: max(first.get(device, 0), second.get(device, 0)) for device in {**first, **second}}
