"""Random numbers that depend on seed, node, epoch and position alone.

A sample has a stream of its own: NumPy's Philox4x64-10 with the key (seed, hash of the node's key) and the counter
(block, position, epoch, 0), read as doubles, (x >> 11) * 2**-53. Threads, batch size and neighbours cannot change it.
The laws use nothing but these doubles and exactly rounded arithmetic, so that their bits do not depend on how many rows
are computed at once, on the processor, or on the release of NumPy.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from hashlib import blake2b
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeplug.errors import ArgumentError
from pipeplug.runtime.elementary import Floats, exp, log, normal_quantile

Integers: TypeAlias = NDArray[np.int64]
Shapes: TypeAlias = Integers
"""What `draw` gets for an input whose shapes it asks for: int64 (N, ndim), a sample's shape a row."""

Bound: TypeAlias = float | NDArray[np.floating[Any]] | NDArray[np.integer[Any]]
Size: TypeAlias = int | tuple[int, ...]

DOUBLES_PER_BLOCK = 4
# A stream costs its set-up, not its length: a random resized crop, 22 numbers, is to need one set-up.
READ_AHEAD = 24
HALF_STEP = 2.0**-54


def key_hash(text: str) -> int:
    """The 64 bits that stand for a node's key: BLAKE2b of its UTF-8, 8 bytes, little-endian."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


# No node's key has a space in it.
ORDER_KEY = key_hash("order of an epoch")


def check_seed(seed: object) -> None:
    """Raise `ArgumentError` unless the seed is a whole number that fits into 64 bits without a sign."""
    if not isinstance(seed, int | np.integer) or not 0 <= seed < 2**64:
        raise ArgumentError(f"seed={seed!r}: give a whole number from 0 to 2**64 - 1")


class _Streams(threading.local):
    """One generator a thread. Each use sets all of its state, so nothing of one use is left for the next."""

    def __init__(self) -> None:
        self.bits = np.random.Philox(0)
        self.random = np.random.Generator(self.bits).random

    def fill(self, out: Floats, key: tuple[int, int], epoch: int, positions: Sequence[int], first: int) -> None:
        """Fill row i of `out` with the doubles of positions[i] that begin at block `first`."""
        counter = [first, 0, epoch, 0]
        # `Any`, as NumPy types the state with arrays; it takes lists as well, in 0.3 us instead of 0.7.
        state: Any = {
            "bit_generator": "Philox", "state": {"counter": counter, "key": key},
            "buffer": (0, 0, 0, 0), "buffer_pos": DOUBLES_PER_BLOCK, "has_uint32": 0, "uinteger": 0,
        }  # fmt: skip
        for row, position in zip(out, positions, strict=True):
            counter[1] = position
            self.bits.state = state
            self.random(out=row)


_streams = _Streams()


def permutation(length: int, *, seed: int, epoch: int) -> Integers:
    """A random order of the numbers below `length`, int64 (length,), that seed and epoch determine.

    Sorts words of Philox's own stream, which NumPy promises never to change (NEP 19), unlike `Generator.permutation`.
    The low bits of a word are replaced by its place: no two are equal, and the sorted words carry the order.
    """
    check_seed(seed)
    key = np.array([seed, ORDER_KEY], np.uint64)
    words = np.random.Philox(key=key, counter=np.array([0, 0, epoch, 0], np.uint64)).random_raw(length)
    place = np.uint64((1 << length.bit_length()) - 1)
    words &= ~place
    words |= np.arange(length, dtype=np.uint64)
    words.sort()
    words &= place
    return words.view(np.int64)


class Draws:
    """The random numbers of one node for N samples; what `Operator.draw` gets.

    Each method returns an array with a row a sample, shape (N, *size), and takes the same count of doubles from every
    row's stream; the next call goes on where it stopped. Bounds are numbers, or arrays that broadcast to (N, *size): a
    bound a sample has shape (N,), or (N, 1) for size=k. A bound that does not fit raises `ArgumentError`.

    Args:
        seed: of the pipeline, from 0 to 2**64 - 1.
        key_hash: `key_hash` of the node's key; nodes with one key draw the same numbers.
        epoch: number of the epoch, from 0.
        positions: places of the samples in the epoch's order, (N,).
    """

    def __init__(self, seed: int, key_hash: int, epoch: int, positions: Integers | Sequence[int]) -> None:
        check_seed(seed)
        self._key = (int(seed), key_hash)
        self._epoch = epoch
        self._positions: Sequence[int] = positions.tolist() if isinstance(positions, np.ndarray) else positions
        self._blocks = 0
        self._unused: Floats = np.empty((self.rows, 0))

    @property
    def rows(self) -> int:
        """The number of samples, N."""
        return len(self._positions)

    def uniform(self, low: Bound = 0.0, high: Bound = 1.0, size: Size = ()) -> Floats:
        """Float64 of the uniform law on [low, high); one double each. Rounding may give `high` itself, as in NumPy."""
        shape = self._shape(size)
        lows, highs = _fitted("low", low, shape), _fitted("high", high, shape)
        _require(lows <= highs, "uniform(low, high): give low <= high", lows, highs)
        return lows + (highs - lows) * self._take(shape)

    def log_uniform(self, low: Bound, high: Bound, size: Size = ()) -> Floats:
        """Float64 in [low, high] whose logarithm has the uniform law; 0 < low <= high; one double each."""
        shape = self._shape(size)
        lows, highs = _fitted("low", low, shape), _fitted("high", high, shape)
        _require((lows > 0) & (lows <= highs), "log_uniform(low, high): give 0 < low <= high", lows, highs)
        return np.minimum(lows * exp(self._take(shape) * log(highs / lows)), highs)

    def integers(self, low: Bound, high: Bound, size: Size = ()) -> Integers:
        """Int64 in [low, high), each equally likely; low < high are whole numbers; one double each."""
        shape = self._shape(size)
        lows, highs = _whole("low", low, shape), _whole("high", high, shape)
        _require(lows < highs, "integers(low, high): give low < high", lows, highs)
        span = highs - lows
        # A wide span times a double just below 1 rounds up to the span itself.
        chosen: Integers = np.minimum((self._take(shape) * span).astype(np.int64), span - 1)
        return lows + chosen

    def boolean(self, probability: Bound, size: Size = ()) -> NDArray[np.bool_]:
        """True with the given probability, from 0 to 1; one double each."""
        shape = self._shape(size)
        chance = _fitted("probability", probability, shape)
        _require((chance >= 0) & (chance <= 1), "boolean(probability): give a number from 0 to 1", chance)
        return self._take(shape) < chance

    def normal(self, mean: Bound = 0.0, std: Bound = 1.0, size: Size = ()) -> Floats:
        """Float64 of the normal law, std >= 0, by the inverse of its distribution function; one double each.

        None is further than 8.3 `std` from `mean`.
        """
        shape = self._shape(size)
        means, stds = _fitted("mean", mean, shape), _fitted("std", std, shape)
        _require(stds >= 0, "normal(mean, std): give std >= 0", means, stds)
        # The middle of the double's step: symmetric about 0.5, and never 0, where the quantile is infinite.
        return means + stds * normal_quantile(self._take(shape) - 0.5 + HALF_STEP)

    def choice(self, options: int | Sequence[float] | Floats, size: Size = ()) -> Integers:
        """Int64 indices: of `options` equally likely ones, or in proportion to a list of weights; one double each."""
        if isinstance(options, int | np.integer):
            _require(np.bool_(options > 0), "choice(count): give a count above 0", np.asarray(options))
            return self.integers(0, int(options), size)
        edges = np.cumsum(_weights(options))
        found = np.searchsorted(edges, self._take(self._shape(size)) * edges[-1], side="right")
        # Rounding may reach the last edge; a weight of zero at the end must not be chosen for that.
        chosen: Integers = np.minimum(found, np.searchsorted(edges, edges[-1])).astype(np.int64)
        return chosen

    def permutation(self, k: int) -> Integers:
        """A random order of the numbers below k in each row, int64 (N, k); k doubles."""
        return np.argsort(self._take(self._shape(k)), axis=1, kind="stable").astype(np.int64)

    def _shape(self, size: Size) -> tuple[int, ...]:
        return (self.rows, *size) if isinstance(size, tuple) else (self.rows, size)

    def _take(self, shape: tuple[int, ...]) -> Floats:
        count = prod(shape[1:])
        if count > self._unused.shape[1]:
            self._read(count - self._unused.shape[1])
        taken, self._unused = self._unused[:, :count], self._unused[:, count:]
        return taken.reshape(shape)

    def _read(self, missing: int) -> None:
        blocks = -(-max(missing, READ_AHEAD) // DOUBLES_PER_BLOCK)
        fresh = np.empty((self.rows, blocks * DOUBLES_PER_BLOCK))
        _streams.fill(fresh, self._key, self._epoch, self._positions, self._blocks)
        self._blocks += blocks
        self._unused = np.concatenate((self._unused, fresh), axis=1)


def _fitted(name: str, value: Bound, shape: tuple[int, ...]) -> Floats:
    array = np.asarray(value, np.float64)
    _check_shape(name, array.shape, shape)
    return array


def _whole(name: str, value: Bound, shape: tuple[int, ...]) -> Integers:
    array = np.asarray(value)
    if array.dtype.kind not in "iu":
        raise ArgumentError(f"{name}={value!r} is not of whole numbers: round it, or draw with uniform()")
    _check_shape(name, array.shape, shape)
    return array.astype(np.int64)


def _check_shape(name: str, given: tuple[int, ...], shape: tuple[int, ...]) -> None:
    ends = shape[len(shape) - len(given) :]
    if len(given) > len(shape) or any(a not in (1, b) for a, b in zip(given, ends, strict=True)):
        one_a_sample = (shape[0], *(1 for _ in shape[1:]))
        raise ArgumentError(
            f"{name} of shape {given} does not broadcast to {shape}, a row a sample:"
            f" give a number, or an array of shape {one_a_sample}"
        )


def _weights(options: Sequence[float] | Floats) -> Floats:
    weights = np.asarray(options, np.float64)
    if weights.ndim != 1 or not (weights >= 0).all() or not 0 < weights.sum() < np.inf:
        raise ArgumentError(f"choice({options}): give a count, or a list of finite weights >= 0 with one above 0")
    return weights


def _require(holds: NDArray[np.bool_] | np.bool_, rule: str, *bounds: Floats | Integers) -> None:
    if not holds.all():
        first = np.unravel_index(np.argmin(holds), holds.shape)
        got = ", ".join(str(np.broadcast_to(bound, holds.shape)[first]) for bound in bounds)
        raise ArgumentError(f"{rule}; got {got}" + (f" in row {first[0]}" if first else ""))
