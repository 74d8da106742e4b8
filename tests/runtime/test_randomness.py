"""The streams against NumPy's generator and a Philox written out here; the laws against their definitions."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pipeplug.errors import ArgumentError
from pipeplug.runtime.randomness import Draws, check_seed, key_hash, permutation

WORD = 2**64 - 1
keys = st.integers(0, WORD)
places = st.integers(0, 2**63 - 1)
KEY = key_hash("image.flip")
# The numbers are fixed, so a law that fails here is wrong, or one of ten thousand was unlucky.
CHANCE = 1e-4

LAWS = {
    "uniform": lambda random: random.uniform(-1.5, 2.25, size=(3, 2)),
    "log_uniform": lambda random: random.log_uniform(3 / 4, 4 / 3, size=10),
    "integers": lambda random: random.integers(-5, 1_000_003, size=7),
    "boolean": lambda random: random.boolean(0.3),
    "normal": lambda random: random.normal(0.5, 2.0, size=9),
    "choice": lambda random: random.choice([0.2, 0.0, 0.5, 0.3], size=5),
    "choice of a count": lambda random: random.choice(6, size=5),
    "permutation": lambda random: random.permutation(8),
}


def philox_words(seed, key, epoch, position, count):
    """Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011), Philox4x64-10."""
    words = []
    for block in range(1, -(-count // 4) + 1):
        a, b, c, d, k0, k1 = block, position, epoch, 0, seed, key
        for _ in range(10):
            left, right = a * 0xD2E7470EE14C6C93, c * 0xCA5A826395121157
            a, b, c, d = (right >> 64) ^ b ^ k0, right & WORD, (left >> 64) ^ d ^ k1, left & WORD
            k0, k1 = (k0 + 0x9E3779B97F4A7C15) & WORD, (k1 + 0xBB67AE8584CAA73B) & WORD
        words += [a, b, c, d]
    return words[:count]


@given(seed=keys, key=keys, epoch=keys, positions=st.lists(places, min_size=1, max_size=5), count=st.integers(1, 70))
def test_rows_are_the_streams_of_numpy_and_of_the_paper(seed, key, epoch, positions, count):
    rows = Draws(seed, key, epoch, np.array(positions, np.int64)).uniform(size=count)
    for row, position in zip(rows, positions, strict=True):
        counter = np.array([0, position, epoch, 0], np.uint64)
        generator = np.random.Generator(np.random.Philox(key=np.array([seed, key], np.uint64), counter=counter))
        assert row.tolist() == generator.random(count).tolist()
        assert row.tolist() == [(word >> 11) * 2.0**-53 for word in philox_words(seed, key, epoch, position, count)]


@given(counts=st.lists(st.integers(0, 40), max_size=8), rows=st.integers(0, 4))
def test_a_stream_goes_on_over_calls(counts, rows):
    random = Draws(1, KEY, 2, range(rows))
    parts = [random.uniform(size=count) for count in counts]
    whole = Draws(1, KEY, 2, range(rows)).uniform(size=sum(counts))
    np.testing.assert_array_equal(np.concatenate([np.empty((rows, 0)), *parts], axis=1), whole)


def test_each_law_takes_the_same_count_of_doubles_whatever_it_draws():
    random, doubles = Draws(1, KEY, 0, range(50)), Draws(1, KEY, 0, range(50)).uniform(size=3 * 7 + 5 + 1)
    random.normal(size=3)
    random.integers(0, 9, size=3)
    random.log_uniform(1, 2, size=3)
    random.boolean(0.5, size=3)
    random.choice(4, size=3)
    random.choice([1, 2], size=3)
    random.uniform(size=3)
    random.permutation(5)
    assert (random.uniform() == doubles[:, -1]).all()


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
@given(positions=st.lists(st.integers(0, 10**12), min_size=1, max_size=70), data=st.data())
def test_a_row_has_the_same_bits_alone_and_among_others(law, positions, data):
    together = law(Draws(7, KEY, 3, positions))
    row = data.draw(st.integers(0, len(positions) - 1))
    assert together.shape[0] == len(positions)
    assert law(Draws(7, KEY, 3, [positions[row]]))[0].tobytes() == together[row].tobytes()


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_the_order_of_the_rows_changes_nothing(law):
    positions = np.arange(257)
    mixed = np.random.default_rng(0).permutation(positions)
    np.testing.assert_array_equal(law(Draws(7, KEY, 3, mixed)), law(Draws(7, KEY, 3, positions))[mixed])


def test_bounds_a_row_give_the_same_bits_alone_and_among_others():
    high = np.arange(2, 102)
    together = Draws(1, KEY, 0, range(100))
    integers, ratios = together.integers(0, high), together.log_uniform(0.5, high / 2, size=())
    for row in range(100):
        alone = Draws(1, KEY, 0, [row])
        assert alone.integers(0, high[row]) == integers[row]
        assert alone.log_uniform(0.5, high[row] / 2) == ratios[row]


def test_threads_have_streams_of_their_own():
    expected = Draws(5, KEY, 0, range(400)).uniform(size=30)
    found: dict[int, np.ndarray] = {}
    start = threading.Barrier(4)

    def draw(part):
        start.wait()
        found[part] = Draws(5, KEY, 0, range(part * 100, part * 100 + 100)).uniform(size=30)

    threads = [threading.Thread(target=draw, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(np.concatenate([found[part] for part in range(4)]), expected)


def test_seed_key_epoch_and_position_each_change_the_numbers():
    streams = [(1, 2, 3, 4), (0, 2, 3, 4), (1, 0, 3, 4), (1, 2, 0, 4), (1, 2, 3, 0)]
    rows = [Draws(seed, key, epoch, [position]).uniform(size=4) for seed, key, epoch, position in streams]
    assert len(np.unique(np.concatenate(rows))) == 20


def test_key_hash_is_blake2b():
    assert key_hash("image.flip") != key_hash("image.flip_1")
    assert 0 <= key_hash("") <= WORD
    assert key_hash("abc") == int.from_bytes(bytes.fromhex("d8bb14d833d59559"), "little")


def test_rows_and_shapes():
    random = Draws(1, KEY, 0, np.arange(6))
    assert random.rows == 6
    assert random.uniform().shape == (6,)
    assert random.uniform(size=3).shape == (6, 3)
    assert random.uniform(np.zeros((6, 1)), size=(3,)).shape == (6, 3)
    assert random.normal(size=(2, 3)).shape == (6, 2, 3)
    assert random.boolean(np.full(6, 0.5)).dtype == bool
    assert random.integers(0, 5).dtype == random.choice([1, 1]).dtype == random.permutation(3).dtype == np.int64


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_no_rows_give_an_array_without_rows(law):
    assert law(Draws(1, KEY, 0, [])).shape == (0, *law(Draws(1, KEY, 0, [0])).shape[1:])


def p_value(sample, law):
    return stats.kstest(sample.ravel(), law).pvalue


def test_laws_of_real_numbers():
    random = Draws(11, KEY, 0, range(500))
    assert p_value(random.uniform(-2, 3, size=20), stats.uniform(-2, 5).cdf) > CHANCE
    assert p_value(random.log_uniform(0.75, 4 / 3, size=20), stats.loguniform(0.75, 4 / 3).cdf) > CHANCE
    assert p_value(random.normal(1, 3, size=20), stats.norm(1, 3).cdf) > CHANCE


def test_laws_of_counts():
    random = Draws(12, KEY, 0, range(500))
    assert stats.chisquare(np.bincount(random.integers(0, 7, size=20).ravel(), minlength=7)).pvalue > CHANCE
    assert stats.chisquare(np.bincount(random.choice(5, size=20).ravel(), minlength=5)).pvalue > CHANCE
    chosen = np.bincount(random.choice([1.0, 0.0, 3.0, 4.0], size=20).ravel(), minlength=4)
    assert chosen[1] == 0
    assert stats.chisquare(chosen[[0, 2, 3]], 10_000 * np.array([1, 3, 4]) / 8).pvalue > CHANCE
    assert stats.binomtest(int(random.boolean(0.3, size=20).sum()), 10_000, 0.3).pvalue > CHANCE


def test_permutations_of_a_row():
    rows = Draws(13, KEY, 0, range(6_000)).permutation(3)
    assert (np.sort(rows, axis=1) == np.arange(3)).all()
    _, counts = np.unique(rows, axis=0, return_counts=True)
    assert stats.chisquare(counts).pvalue > CHANCE


@given(low=st.integers(-(2**62), 2**62 - 1), span=st.integers(1, 2**62), position=places)
def test_integers_stay_inside(low, span, position):
    found = Draws(1, KEY, 0, [position]).integers(low, low + span, size=20)
    assert ((found >= low) & (found < low + span)).all()


@given(weights=st.lists(st.sampled_from([0.0, 1e-300, 0.1, 1.0, 1e300]), min_size=1, max_size=6).filter(any))
def test_a_weight_of_zero_is_never_chosen(weights):
    assert np.asarray(weights)[Draws(1, KEY, 0, range(30)).choice(weights, size=10)].all()


def test_probabilities_of_nought_and_one_are_certain():
    random = Draws(1, KEY, 0, range(1_000))
    assert not random.boolean(0).any()
    assert random.boolean(1).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r: r.uniform(2, 1), r"uniform\(low, high\): give low <= high; got 2.0, 1.0"),
        (lambda r: r.uniform(0, np.array([1, -1.0])), "got 0.0, -1.0 in row 1"),
        (lambda r: r.log_uniform(0, 1), "give 0 < low <= high; got 0.0, 1.0"),
        (lambda r: r.integers(3, 3), r"integers\(low, high\): give low < high; got 3, 3"),
        (lambda r: r.integers(0, 2.5), "high=2.5 is not of whole numbers: round it"),
        (lambda r: r.boolean(1.5), "give a number from 0 to 1; got 1.5"),
        (lambda r: r.boolean(float("nan")), "got nan"),
        (lambda r: r.normal(0, -1), "give std >= 0; got 0.0, -1.0"),
        (lambda r: r.choice(0), r"choice\(count\): give a count above 0; got 0"),
        (lambda r: r.choice([0.0, 0.0]), r"choice\(\[0.0, 0.0\]\): give a count, or a list"),
        (lambda r: r.choice([]), "give a count, or a list"),
        (
            lambda r: r.uniform(np.zeros(2), size=3),
            r"low of shape \(2,\) .* give a number, or an array of shape \(2, 1\)",
        ),
        (lambda r: r.uniform(np.zeros((2, 1))), r"does not broadcast to \(2,\)"),
    ],
)
def test_arguments_that_do_not_fit(call, message):
    with pytest.raises(ArgumentError, match=message):
        call(Draws(1, KEY, 0, [0, 1]))


@pytest.mark.parametrize("seed", [-1, 2**64, 1.0, None, "7"])
def test_seeds_that_do_not_fit(seed):
    with pytest.raises(ArgumentError, match=r"seed=.*: give a whole number from 0 to 2\*\*64 - 1"):
        check_seed(seed)


@given(length=st.integers(0, 3_000), seed=keys, epoch=keys)
def test_a_permutation_has_every_number_once(length, seed, epoch):
    order = permutation(length, seed=seed, epoch=epoch)
    assert order.dtype == np.int64
    assert sorted(order.tolist()) == list(range(length))


def test_a_permutation_depends_on_seed_and_epoch():
    orders = {tuple(permutation(50, seed=seed, epoch=epoch).tolist()) for seed in range(3) for epoch in range(3)}
    assert len(orders) == 9


@given(length=st.integers(1, 60), seed=keys, epoch=keys)
def test_a_permutation_sorts_the_words_of_the_paper(length, seed, epoch):
    words = philox_words(seed, key_hash("order of an epoch"), epoch, 0, length)
    bits = length.bit_length()
    expected = sorted(range(length), key=lambda place: (words[place] >> bits, place))
    assert permutation(length, seed=seed, epoch=epoch).tolist() == expected


def test_permutations_are_equally_likely():
    orders = [tuple(permutation(3, seed=0, epoch=epoch).tolist()) for epoch in range(3_000)]
    _, counts = np.unique(orders, axis=0, return_counts=True)
    assert stats.chisquare(counts).pvalue > CHANCE
