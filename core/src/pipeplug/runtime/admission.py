"""Whether one more iteration may begin: by how many are under way, and by the memory that they will take."""

from __future__ import annotations

from collections.abc import Iterable

from pipeplug.runtime.iteration import Iteration
from pipeplug.runtime.session import HostMemory


class Admission:
    """Admits the iterations of an epoch.

    An iteration is under way until the loop has its batch: a batch that is handed over counts, as the loop keeps the
    one before until then. Each is expected to hold as much as the largest so far; so the first one goes alone.

    Attributes:
        begun: how many iterations were admitted.
        handed_over: how many of them the loop has, or never gets.
    """

    def __init__(self, memory: HostMemory, prefetch: int) -> None:
        self.begun = 0
        self.handed_over = 0
        self._memory = memory
        self._prefetch = prefetch
        self._needed: int | None = None
        self._copied = 0

    def allows(self, iterations: Iterable[Iteration]) -> bool:
        """Whether one more fits beside these, which are under way."""
        under_way = self.begun - self.handed_over
        if under_way == 0 or under_way >= self._prefetch or self._memory.limit is None:
            return under_way < self._prefetch
        if self._needed is None:
            return False
        held = sum(sum(iteration.held().values()) for iteration in iterations)
        return self._memory.fits((under_way + 1) * self._needed + self._copied - held)

    def before_release(self, iteration: Iteration) -> None:
        """Takes note of what an iteration holds that is going to let go of some of it."""
        if self._memory.limit is not None:
            iteration.note_peak()

    def learn(self, iteration: Iteration, copied: int) -> None:
        """Takes note of what an iteration needed that is complete, and of what was copied to leave samples out."""
        self.before_release(iteration)
        self._needed = max(self._needed or 0, iteration.peak)
        self._copied = max(self._copied, copied)
