"""Exponential, logarithm and normal quantile whose bits depend on the argument alone.

NumPy's own `exp` and `log` give other bits on a processor with AVX-512 than on one without, and other bits for a
reversed view than for a contiguous array. These use only operations that IEEE 754 rounds exactly (`+ - * /`, square
root, scaling by powers of two), each its own pass over the array, so that no compiler can fuse two of them.
Argument and result are float64 arrays of any shape.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Coefficients: TypeAlias = tuple[float, ...]

LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
INVERSE_LN2 = 1.44269504088896338700e00
HALF_SQRT2 = 0.7071067811865476

# Highest power first. fdlibm 5.3, e_exp.c and e_log.c.
EXP: Coefficients = (
    4.13813679705723846039e-08, -1.65339022054652515390e-06, 6.61375632143793436117e-05,
    -2.77777777770155933842e-03, 1.66666666666666019037e-01,
)  # fmt: skip
LOG_ODD: Coefficients = (
    1.479819860511658591e-01, 1.818357216161805012e-01, 2.857142874366239149e-01, 6.666666666666735130e-01,
)  # fmt: skip
LOG_EVEN: Coefficients = (1.531383769920937332e-01, 2.222219843214978396e-01, 3.999999999940941908e-01)

# Wichura, "Algorithm AS 241: The percentage points of the normal distribution", Applied Statistics 37 (1988), PPND16:
# numerator and denominator near the middle, in the tails, and far out in the tails.
CENTRE: tuple[Coefficients, Coefficients] = (
    (
        2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4, 4.5921953931549871457e4,
        1.3731693765509461125e4, 1.9715909503065514427e3, 1.3314166789178437745e2, 3.3871328727963666080e0,
    ),
    (
        5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4, 2.1213794301586595867e4,
        5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1, 1.0,
    ),
)  # fmt: skip
TAIL: tuple[Coefficients, Coefficients] = (
    (
        7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258e0,
        3.64784832476320460504e0, 5.76949722146069140550e0, 4.63033784615654529590e0, 1.42343711074968357734e0,
    ),
    (
        1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
        6.89767334985100004550e-1, 1.67638483018380384940e0, 2.05319162663775882187e0, 1.0,
    ),
)  # fmt: skip
FAR_TAIL: tuple[Coefficients, Coefficients] = (
    (
        2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2,
        2.96560571828504891230e-1, 1.78482653991729133580e0, 5.46378491116411436990e0, 6.65790464350110377720e0,
    ),
    (
        2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
        1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0,
    ),
)  # fmt: skip


def exp(x: Floats) -> Floats:
    """e to the power of x, for -700 < x < 700, within one unit in the last place (fdlibm)."""
    k = np.rint(x * INVERSE_LN2)
    high = x - k * LN2_HIGH
    low = k * LN2_LOW
    r = high - low
    t = r * r
    c = r - t * _polynomial(EXP, t)
    return np.ldexp(1.0 - ((low - (r * c) / (2.0 - c)) - high), k.astype(np.int32))


def log(x: Floats) -> Floats:
    """The natural logarithm of finite x > 0, within one unit in the last place (fdlibm)."""
    fraction, k = np.frexp(x)
    small = fraction < HALF_SQRT2
    f = np.where(small, fraction + fraction, fraction) - 1.0
    k = np.subtract(k, small, dtype=np.float64)
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    tail = z * _polynomial(LOG_ODD, w) + w * _polynomial(LOG_EVEN, w)
    half_square = 0.5 * f * f
    return k * LN2_HIGH - ((half_square - (s * (half_square + tail) + k * LN2_LOW)) - f)


def normal_quantile(q: Floats) -> Floats:
    """The number that a standard normal variable is below with probability 0.5 + q, for -0.5 < q < 0.5.

    Relative error about 1e-15 (Wichura's AS 241). `q` and not the probability, as it is exact near both ends.
    """
    # Outside the centre the value is replaced below; the clip only keeps the denominator away from zero there.
    z = q * _ratio(CENTRE, np.maximum(0.180625 - q * q, 0.0))
    tail = np.abs(q) > 0.425
    if tail.any():
        z[tail] = _tail_quantile(q[tail])
    return z


def _tail_quantile(q: Floats) -> Floats:
    r = np.sqrt(-log(0.5 - np.abs(q)))
    return np.copysign(np.where(r <= 5.0, _ratio(TAIL, r - 1.6), _ratio(FAR_TAIL, r - 5.0)), q)


def _ratio(coefficients: tuple[Coefficients, Coefficients], x: Floats) -> Floats:
    return _polynomial(coefficients[0], x) / _polynomial(coefficients[1], x)


def _polynomial(coefficients: Coefficients, x: Floats) -> Floats:
    value = coefficients[0] * x + coefficients[1]
    for coefficient in coefficients[2:]:
        value *= x
        value += coefficient
    return value
