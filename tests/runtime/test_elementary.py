"""Accuracy against libm and SciPy, and bits that no layout of the array changes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtri

from pipeplug.runtime.elementary import exp, log, normal_quantile

STEP = 2.0**-53


def units_in_last_place(got, expected):
    return np.max(np.abs(got - expected) / np.spacing(np.abs(expected)))


def test_exp_is_within_one_unit_of_libm():
    x = np.random.default_rng(1).uniform(-690, 690, 20_000)
    assert units_in_last_place(exp(x), np.array([math.exp(v) for v in x])) <= 1


def test_log_is_within_one_unit_of_libm():
    x = np.concatenate((np.exp(np.random.default_rng(2).uniform(-690, 690, 20_000)), [5e-324, 2.2e-308, 1.7e308]))
    assert units_in_last_place(log(x), np.array([math.log(v) for v in x])) <= 1


def test_exact_arguments():
    assert exp(np.zeros(3)).tolist() == [1.0] * 3
    assert log(np.ones(3)).tolist() == [0.0] * 3


def test_normal_quantile_agrees_with_scipy():
    p = np.concatenate((np.random.default_rng(3).random(20_000), np.exp(np.linspace(-36, -1, 2_000))))
    p = p[p < 0.5]
    np.testing.assert_allclose(normal_quantile(p - 0.5), ndtri(p - 0.5 + 0.5), rtol=1e-13)


def test_normal_quantile_far_out():
    q = -0.5 + STEP * np.array([0.5, 1, 3, 1000])
    np.testing.assert_allclose(normal_quantile(q), ndtri(STEP * np.array([0.5, 1, 3, 1000])), rtol=1e-13)


def test_normal_quantile_is_odd():
    q = np.random.default_rng(4).random(1_000) / 2
    assert (normal_quantile(-q) == -normal_quantile(q)).all()


@pytest.mark.parametrize("function", [exp, log, normal_quantile])
def test_the_bits_do_not_depend_on_length_or_strides(function):
    x = np.random.default_rng(5).uniform(0.001, 0.499, 331)
    expected = function(x)
    one_by_one = np.array([function(x[i : i + 1])[0] for i in range(x.size)])
    column = np.repeat(x, 3).reshape(-1, 3)[:, 1]
    assert (one_by_one == expected).all()
    assert (function(column) == expected).all()
    assert (function(x[::-1])[::-1] == expected).all()
    for length in range(1, 40):
        assert (function(x[7 : 7 + length]) == expected[7 : 7 + length]).all()


@pytest.mark.parametrize(
    ("function", "x", "bits"),
    [
        (exp, [0.1, -3.7, 20.0], ["0x1.1aec7b35a00d4p+0", "0x1.9511fc6871044p-6", "0x1.ceb088b68e804p+28"]),
        (log, [0.1, 3.7, 1e9], ["-0x1.26bb1bbb55515p+1", "0x1.4eeee650ae550p+0", "0x1.4b927f32bffb8p+4"]),
        (
            normal_quantile,
            [-0.49, 0.1, 0.4999999999999],
            ["-0x1.29c5c4630ff0cp+1", "0x1.036d6c4a04b5bp-2", "0x1.d65335d05bbf2p+2"],
        ),
    ],
)
def test_the_bits_are_the_same_on_every_processor(function, x, bits):
    assert [v.hex() for v in function(np.array(x)).tolist()] == bits
