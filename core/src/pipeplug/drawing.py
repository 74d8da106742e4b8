"""`random.*`: random numbers as values of the graph, for arguments that vary by sample."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Literal

from pipeplug.contexts import Context
from pipeplug.errors import ArgumentError
from pipeplug.operator import Operator
from pipeplug.spec import TensorSpec

if TYPE_CHECKING:
    from pipeplug.runtime.randomness import Draws
    from pipeplug.tensor import Array


class _Drawn(Operator):
    """What all of them share: one number a sample."""

    def infer(self) -> TensorSpec:
        return TensorSpec((), "float64")

    def cpu(self, context: Context, *, number: Array) -> Array:
        return number


class Uniform(_Drawn):
    """A random number a sample, uniform in [low, high).

    Outputs: float64 scalar.

    Args:
        low: the least number.
        high: the number that is not reached; at least `low`.
    """

    low: float = 0.0
    high: float = 1.0

    def check(self) -> None:
        if not self.low <= self.high:
            raise ArgumentError(f"low={self.low} is above high={self.high}")

    def draw(self, random: Draws) -> dict[str, Array]:
        return {"number": random.uniform(self.low, self.high)}


class Normal(_Drawn):
    """A random number a sample, normally distributed.

    Outputs: float64 scalar.

    Args:
        mean: of the law.
        std: its standard deviation, not negative.
    """

    mean: float = 0.0
    std: float = 1.0

    def check(self) -> None:
        if not self.std >= 0:
            raise ArgumentError(f"std is not negative, got {self.std}")

    def draw(self, random: Draws) -> dict[str, Array]:
        return {"number": random.normal(self.mean, self.std)}


class Boolean(_Drawn):
    """True with the given probability, for each sample.

    Outputs: bool scalar.

    Args:
        probability: of True, from 0 to 1.
    """

    probability: float = 0.5

    def check(self) -> None:
        if not 0 <= self.probability <= 1:
            raise ArgumentError(f"a probability is from 0 to 1, got {self.probability}")

    def infer(self) -> TensorSpec:
        return TensorSpec((), "bool")

    def draw(self, random: Draws) -> dict[str, Array]:
        return {"number": random.boolean(self.probability)}


class Integer(_Drawn):
    """A random whole number a sample, uniform in [low, high).

    Outputs: int64 scalar.

    Args:
        low: the least number.
        high: the number that is not reached; above `low`.
    """

    low: int = 0
    high: int

    def check(self) -> None:
        if not self.low < self.high:
            raise ArgumentError(f"low={self.low} is not below high={self.high}")

    def infer(self) -> TensorSpec:
        return TensorSpec((), "int64")

    def draw(self, random: Draws) -> dict[str, Array]:
        return {"number": random.integers(self.low, self.high)}


class Choice(_Drawn):
    """One of some numbers a sample, all as likely as another or by weights.

    Outputs: float64 scalar.

    Args:
        options: the numbers.
        weights: how likely each is, in proportion; None means equally.
        dtype: of the result.
    """

    options: tuple[float, ...]
    weights: tuple[float, ...] | None = None
    dtype: Literal["float64", "int64"] = "float64"

    def check(self) -> None:
        if not self.options or (self.weights is not None and len(self.weights) != len(self.options)):
            raise ArgumentError(f"{len(self.options)} options and {self.weights} weights; give one weight an option")
        if self.weights is not None and not (min(self.weights) >= 0 and 0 < sum(self.weights) < inf):
            raise ArgumentError(f"weights are finite, not negative, and one of them is above 0, got {self.weights}")

    def infer(self) -> TensorSpec:
        return TensorSpec((), self.dtype)

    def draw(self, random: Draws) -> dict[str, Array]:
        import numpy as np

        picked = random.choice(len(self.options) if self.weights is None else self.weights)
        return {"number": np.asarray(self.options, self.dtype)[picked]}
