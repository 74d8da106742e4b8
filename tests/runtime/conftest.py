"""Random epochs for the tests of the schedule and of the executor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from random import Random

import pytest

from pipeplug.runtime.schedule import Schedule, StageShape


@dataclass(frozen=True)
class RandomEpoch:
    """What a schedule is made of. `rows` are those of every iteration; the epoch ends after them."""

    stages: tuple[StageShape, ...]
    delivered: frozenset[int]
    prefetch: int
    rows: tuple[int, ...]
    chunk: int
    reading: int | None

    def rows_of(self, iteration: int) -> int:
        return self.rows[iteration] if iteration < len(self.rows) else 0

    def chunks(self, iteration: int, stage: int) -> range:
        if self.stages[stage].batched or stage == self.reading:
            return range(1)
        return range(-(-self.rows_of(iteration) // self.chunk))

    @cached_property
    def users(self) -> dict[int, list[int]]:
        """By value, the stages that use it."""
        return {value: [user for user, each in enumerate(self.stages) if value in each.inputs] for value in self.makers}

    @cached_property
    def makers(self) -> dict[int, int]:
        """By value, the stage that makes it."""
        return {value: number for number, stage in enumerate(self.stages) for value in stage.outputs}

    def schedule(self) -> Schedule:
        return Schedule(
            self.stages,
            self.delivered,
            prefetch=self.prefetch,
            rows=self.rows_of,
            chunk=self.chunk,
            reading=self.reading,
        )


def make_random_epoch(random: Random, *, serial: bool = True) -> RandomEpoch:
    """An epoch of up to 7 stages and 6 iterations; without `serial`, no stage is serial and none reads."""
    count = random.randint(1, 7)
    reading = random.randrange(count) if serial and random.random() < 0.4 else None
    stages: list[StageShape] = []
    values = 0
    for number in range(count):
        inputs = random.sample(range(values), random.randint(0, min(3, values)))
        outputs = tuple(range(values, values + random.randint(1, 3)))
        values += len(outputs)
        if number == reading:
            stages.append(StageShape((), outputs, serial=True))
        else:
            in_turn = serial and random.random() < 0.3
            stages.append(StageShape(tuple(inputs), outputs, random.random() < 0.3, in_turn))
    return RandomEpoch(
        stages=tuple(stages),
        delivered=frozenset(random.sample(range(values), random.randint(1, min(3, values)))),
        prefetch=random.randint(1, 4),
        rows=tuple(random.randint(1, 50) for _ in range(random.randint(0, 6))),
        chunk=random.randint(1, 16),
        reading=reading,
    )


@pytest.fixture(scope="session")
def random_epoch() -> Callable[..., RandomEpoch]:
    return make_random_epoch
