"""Special functions of one number, as compiled loops use them, against mpmath over the whole range."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

from cavity.numerics import scalar

RNG = np.random.default_rng(0)


def erfcx(x):
    x = mp.mpf(x)
    return mp.exp(x * x) * mp.erfc(x)


def log_phi(x):
    """log Phi(x), from the smaller tail."""
    if x > 0:
        return mp.log1p(-mp.erfc(x / mp.sqrt(2)) / 2)
    return mp.log(mp.erfc(-x / mp.sqrt(2)) / 2)


def relative(value, truth):
    return float(abs((mp.mpf(float(value)) - truth) / truth))


def test_exp_to_two_units_in_the_last_place():
    x = np.concatenate([RNG.uniform(-707, 709, 400), RNG.uniform(-1, 1, 200), [0.0, -1e-300, 1e-17]])
    with mp.workdps(40):
        assert max(relative(scalar.exp(v), mp.exp(mp.mpf(v))) for v in x) < 5e-16
    assert scalar.exp(-1e4) == 0.0
    assert math.isnan(scalar.exp(math.nan))


def test_erfcx_to_rounding_everywhere():
    x = np.concatenate([RNG.uniform(-26, 30, 400), np.geomspace(1e-12, 1e3, 60), [24.9999, 25.0, 0.0]])
    with mp.workdps(50):
        assert max(relative(scalar.erfcx(v), erfcx(v)) for v in x) < 1e-15
    assert scalar.erfcx(-30.0) == math.inf
    assert scalar.erfcx(1e200) == pytest.approx(1 / (1e200 * math.sqrt(math.pi)), rel=1e-15)


def test_log_ndtr_everywhere():
    x = np.concatenate([RNG.uniform(-40, 8, 400), [-1e3, -1.0001, -0.9999, 0.0, 25.0, 37.0]])
    with mp.workdps(50):
        truth = [log_phi(mp.mpf(v)) for v in x]
        # far right it is conditioned like exp(-x^2/2)
        errors = [relative(scalar.log_ndtr(v), t) / (1 + max(v, 0.0) ** 2) for v, t in zip(x, truth)]
    assert max(errors) < 1e-15


def test_half_line_moments_everywhere():
    z = np.concatenate([RNG.uniform(-38, 3, 100), RNG.uniform(3, 30, 200), np.geomspace(30, 1e4, 30)])
    with mp.workdps(90):
        for v in z:
            x = mp.mpf(v)
            lam = mp.sqrt(2 / mp.pi) / erfcx(x / mp.sqrt(2))
            mean = lam - x
            truth = (
                mean,
                1 - lam * mean,
                lam * ((lam + mean) * mean - 1),
                3 + lam * (x * (x * x + 3) - lam * (4 * x * x + 2 - lam * (6 * x - 3 * lam))),
            )
            sizes = (truth[0], truth[1], max(truth[2], truth[1] ** 1.5 / 1000), truth[3])
            for got, want, size in zip(scalar.half_line(v), truth, sizes):
                assert abs(got - want) < (3e-14 if v > 3 else 3e-12) * size


@pytest.mark.parametrize("delta", [-1e4, -30.0, -1.0, 0.0, 2.0, 50.0, 1e4])
@pytest.mark.parametrize("rate", [0.0, 1e-9, 0.5, 20.0, 1e9])
def test_log_half_line(delta, rate):
    with mp.workdps(60):
        z = mp.mpf(delta) + mp.mpf(rate)
        if z < 1e3:
            tail = mp.log(mp.erfc(z / mp.sqrt(2)) / 2)
        else:  # erfc underflows even in mpmath
            series = sum((-1) ** k * mp.fac2(2 * k - 1) / z ** (2 * k) for k in range(8))
            tail = -z * z / 2 - mp.log(z * mp.sqrt(2 * mp.pi)) + mp.log(series)
        exact = mp.mpf(rate) * mp.mpf(delta) + mp.mpf(rate) ** 2 / 2 + tail
        assert abs(scalar.log_half_line(delta, rate) - exact) <= 1e-14 * (1 + abs(exact))
