"""Log-domain special functions against mpmath, far into the tails."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from scipy.special import expit

from cavity.numerics.special import (
    Moments,
    half_line,
    inverse_mills,
    log1p_minus,
    log_half_line,
    log_normal_interval,
    log_sigmoid,
    mix_moments,
    normal_interval,
)


def exact_moments(density, spots):
    """Mass, mean and central moments of a density in mpmath."""
    z = mp.quad(density, spots)
    mean = mp.quad(lambda t: t * density(t), spots) / z
    central = [mp.quad(lambda t, k=k: (t - mean) ** k * density(t), spots) / z for k in (2, 3, 4)]
    return z, [mean, *central]


@pytest.mark.parametrize(
    "z", [-300.0, -38.0, -8.0, -3.0, -0.5, 0.0, 0.3, 2.9, 2.9999, 3.0001, 8.0, 100.0, 1e5]
)
def test_half_line_moments(z):
    mp.mp.dps = 40
    width = 1 / (1 + mp.mpf(max(z, 0)))
    peak = mp.mpf(max(-z, 0))
    spots = sorted({max(peak + k * width, mp.mpf(0)) for k in (-40, -12, -4, -1, 0, 1, 4, 12, 40, 110)})
    _, truth = exact_moments(lambda t: mp.exp(-z * t - t * t / 2 - peak * peak / 2), spots)
    got = half_line(np.array([z]))
    scale = mp.sqrt(truth[1])
    for k, (value, want) in enumerate(zip(got, truth), start=1):
        size = abs(want) if k != 3 else max(abs(want), scale**3 * mp.mpf("1e-3"))
        assert abs(value[0] - want) < 3e-12 * size


def test_half_line_limits():
    far = half_line(np.array([-1e200, 1e9, 1e150]))
    np.testing.assert_allclose(far.mean, [1e200, 1e-9, 1e-150], rtol=1e-15)
    np.testing.assert_allclose(far.var, [1.0, 1e-18, 1e-300], rtol=1e-14)
    np.testing.assert_allclose(far.c3[:2], [0.0, 2e-27], rtol=1e-14, atol=1e-200)
    np.testing.assert_allclose(far.c4[:2], [3.0, 9e-36], rtol=1e-14)


@pytest.mark.parametrize("delta", [-1e4, -30.0, -1.0, 0.0, 2.0, 50.0, 1e4])
@pytest.mark.parametrize("rate", [0.0, 1e-9, 0.5, 20.0, 1e9])
def test_log_half_line(delta, rate):
    mp.mp.dps = 60
    z = mp.mpf(delta) + mp.mpf(rate)
    exact = mp.mpf(rate) * mp.mpf(delta) + mp.mpf(rate) ** 2 / 2 + log_upper_tail(z)
    got = log_half_line(np.array([delta]), np.array([rate]))[0]
    assert abs(got - exact) <= 1e-14 * (1 + abs(exact))


def log_upper_tail(z):
    """log(1 - Phi(z)), by the asymptotic fraction where erfc underflows even in mpmath."""
    if z < 1e3:
        return mp.log(mp.erfc(z / mp.sqrt(2)) / 2)
    series = sum((-1) ** k * mp.fac2(2 * k - 1) / z ** (2 * k) for k in range(8))
    return -z * z / 2 - mp.log(z * mp.sqrt(2 * mp.pi)) + mp.log(series)


def test_inverse_mills_and_sigmoid():
    mp.mp.dps = 50
    z = np.array([-1e8, -50.0, -3.0, 0.0, 4.0, 30.0])
    truth = [
        float(mp.exp(-(mp.mpf(x) ** 2) / 2 - mp.log(2 * mp.pi) / 2 - log_upper_tail(-mp.mpf(x)))) for x in z
    ]
    # conditioned like exp(-z^2/2): relative error z^2 eps
    np.testing.assert_allclose(inverse_mills(z), truth, rtol=5e-13)
    assert inverse_mills(np.array([1e3]))[0] == 0.0
    np.testing.assert_allclose(
        log_sigmoid(np.array([-800.0, 0.3, 40.0])), [-800.0, np.log(expit(0.3)), -np.exp(-40.0)]
    )


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (-1, 2),
        (0, 1e-6),
        (3, 3.1),
        (30, 31),
        (-31, -30),
        (-100, 50),
        (-3, 20),
        (5, 40),
        (-9, 9),
        (1e3, 1e3 + 1e-5),
    ],
)
def test_normal_interval(a, b):
    mp.mp.dps = 50
    A, B = mp.mpf(a), mp.mpf(b)
    c = min(max(A, mp.mpf(0)), B)
    width = 1 / (1 + abs(c))
    spots = sorted({A, B, *(x for k in (-40, -12, -3, 0, 3, 12, 40, 110) if A < (x := c + k * width) < B)})
    z, truth = exact_moments(lambda x: mp.exp(-(x * x - c * c) / 2), spots)
    log_mass, m = normal_interval(np.array([float(a)]), np.array([float(b)]))
    exact = mp.log(z) - c * c / 2 - mp.log(2 * mp.pi) / 2
    # b - a itself is only known to rounding of the ends
    length = 2e-16 * max(abs(a), abs(b)) / (b - a)
    assert abs(log_mass[0] - exact) < 1e-14 * (1 + abs(exact)) + 4 * length
    truth[0] -= A
    for k, (value, want) in enumerate(zip(m, truth), start=1):
        size = max(abs(want), truth[3] ** (mp.mpf(k) / 4)) if k == 3 else abs(want)
        assert abs(value[0] - want) < (1e-12 + 8 * length) * size
    np.testing.assert_allclose(log_normal_interval(np.array([float(a)]), np.array([float(b)])), log_mass)


def test_log_normal_interval_with_infinite_ends():
    got = log_normal_interval(np.array([-np.inf, 2.0, -1.0]), np.array([-30.0, np.inf, 1.0]))
    truth = [float(log_upper_tail(mp.mpf(30))), float(log_upper_tail(mp.mpf(2))), np.log(0.682689492137)]
    np.testing.assert_allclose(got, truth, rtol=1e-11)


def test_mixture_moments_against_raw_moments():
    w = np.array([[0.2], [0.8]])
    parts = Moments(*(np.array(x)[:, None] for x in ([1.0, -2.0], [0.5, 3.0], [0.1, -0.4], [1.0, 30.0])))
    m = mix_moments(w, parts)
    raw = [0.0] * 5
    for weight, mu, v, c3, c4 in zip(w[:, 0], *(p[:, 0] for p in parts)):
        moments = [1, mu, v + mu**2, c3 + 3 * mu * v + mu**3, c4 + 4 * mu * c3 + 6 * mu**2 * v + mu**4]
        raw = [r + weight * x for r, x in zip(raw, moments)]
    mean = raw[1]
    central = [
        raw[2] - mean**2,
        raw[3] - 3 * mean * raw[2] + 2 * mean**3,
        raw[4] - 4 * mean * raw[3] + 6 * mean**2 * raw[2] - 3 * mean**4,
    ]
    np.testing.assert_allclose([m.mean[0], m.var[0], m.c3[0], m.c4[0]], [mean, *central], rtol=1e-13)


@pytest.mark.parametrize(
    "u", [-0.999, -0.3, -0.0999, -1e-3, -1e-9, 0.0, 1e-12, 1e-4, 0.0999, 0.1001, 3.0, 1e9]
)
def test_log_of_one_plus_u_beyond_u(u):
    with mp.workdps(40):
        truth = float(mp.log1p(mp.mpf(u)) - mp.mpf(u))
    assert log1p_minus(np.array([u]))[0] == pytest.approx(truth, rel=2e-14, abs=0.0)
