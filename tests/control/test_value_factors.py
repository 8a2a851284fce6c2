"""Bumps in one column: expectations against quadrature, derivatives against differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from cavity.control.value_iteration import Angle, Line

M, V, C = np.array([0.2, -0.9, 1.4]), np.array([0.04, 0.3, 1e-3]), np.array([-1.0, 0.1, 0.9, 2.5])
FACTORS = {
    "line": (Line(), lambda x, c, w: np.exp(-0.5 * ((x - c) / w) ** 2), -np.inf, np.inf),
    "interval": (Line(-1.0, 1.2), lambda x, c, w: np.exp(-0.5 * ((x - c) / w) ** 2), -1.0, 1.2),
    "one end": (Line(high=0.5), lambda x, c, w: np.exp(-0.5 * ((x - c) / w) ** 2), -np.inf, 0.5),
    "angle": (Angle(), lambda x, c, w: np.exp((np.cos(x - c) - 1.0) / w**2), -np.inf, np.inf),
}


def integral(function, m, v, low, high):
    """E function(x) for x ~ N(m, v) between two ends, by adaptive quadrature."""
    sd = np.sqrt(v)
    a, b = max(low, m - 12 * sd), min(high, m + 12 * sd)
    if a >= b:
        return 0.0
    return quad(lambda x: function(x) * norm.pdf(x, m, sd), a, b, epsabs=1e-13, epsrel=1e-11, limit=400)[0]


@pytest.mark.parametrize("name", FACTORS)
@pytest.mark.parametrize("width", [0.3, 1.1])
def test_expected_bumps_are_integrals(name, width):
    factor, bump, low, high = FACTORS[name]
    truth = [[integral(lambda x, c=c: bump(x, c, width), m, v, low, high) for c in C] for m, v in zip(M, V)]
    np.testing.assert_allclose(factor.expected(M, V, C, width), truth, rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("name", FACTORS)
def test_expected_products_are_integrals(name):
    factor, bump, low, high = FACTORS[name]
    others = np.array([0.6, -0.4])
    truth = [
        [
            [integral(lambda x, c=c, e=e: bump(x, c, 0.5) * bump(x, e, 0.3), m, v, low, high) for e in others]
            for c in C
        ]
        for m, v in zip(M, V)
    ]
    np.testing.assert_allclose(factor.paired(M, V, C, 0.5, others, 0.3), truth, rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("name", FACTORS)
def test_derivatives_are_differences(name):
    factor = FACTORS[name][0]
    value, d_m, d_v = factor.derivatives(M, V, C, 0.4)
    np.testing.assert_allclose(value, factor.expected(M, V, C, 0.4), rtol=1e-13)
    h = 1e-6
    by_m = (factor.expected(M + h, V, C, 0.4) - factor.expected(M - h, V, C, 0.4)) / (2 * h)
    by_v = (factor.expected(M, V + h, C, 0.4) - factor.expected(M, V - h, C, 0.4)) / (2 * h)
    np.testing.assert_allclose(d_m, by_m, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(d_v, by_v, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("name", FACTORS)
def test_correlations_are_bumps_at_points(name):
    factor, bump, _, _ = FACTORS[name]
    b, slope = factor.correlation(M, C, 0.4)
    np.testing.assert_allclose(b, bump(M[:, None], C, 0.4), rtol=1e-12)
    up, down = (factor.correlation(M, C, 0.4 * np.exp(h))[0] for h in (1e-6, -1e-6))
    np.testing.assert_allclose(slope, (up - down) / 2e-6, rtol=1e-7, atol=1e-9)


def test_without_variance_a_state_is_inside_or_outside():
    inside = Line(-1.0, 1.0).expected(np.array([-1.0, 0.5, 1.0, 1.0001, -3.0]), np.zeros(5), np.zeros(1), 2.0)
    np.testing.assert_allclose(inside[:, 0], [np.exp(-0.125), np.exp(-0.03125), np.exp(-0.125), 0.0, 0.0])
    _, d_m, d_v = Line(-1.0, 1.0).derivatives(np.array([0.999, 1.5]), np.zeros(2), np.zeros(1), 2.0)
    assert np.isfinite(d_m).all()
    assert np.isfinite(d_v).all()
    assert d_m[1, 0] == 0.0


def test_angles_are_periodic_and_narrow_bumps_keep_their_digits():
    angle = Angle()
    near, far = (angle.expected(M + turn, V, C, 0.05) for turn in (0.0, 4.0 * np.pi))
    np.testing.assert_allclose(near, far, atol=1e-12)
    at_center = angle.expected(np.array([0.3]), np.zeros(1), np.array([0.3]), 0.05)
    np.testing.assert_allclose(at_center, 1.0, rtol=1e-12)


@pytest.mark.parametrize("name", FACTORS)
def test_bumps_of_infinite_width_are_one_everywhere(name):
    """What is left is the probability of being within the ends."""
    factor, _, low, high = FACTORS[name]
    sd = np.sqrt(V)[:, None]
    inside = norm.cdf((high - M[:, None]) / sd) - norm.cdf((low - M[:, None]) / sd)
    expected = np.broadcast_to(inside, (len(M), len(C)))
    np.testing.assert_allclose(factor.expected(M, V, C, np.inf), expected, rtol=1e-12, atol=1e-15)
    value, d_m, d_v = factor.derivatives(M, V, C, np.inf)
    np.testing.assert_allclose(value, expected, rtol=1e-12, atol=1e-15)
    h = 1e-6
    by_m = (factor.expected(M + h, V, C, np.inf) - factor.expected(M - h, V, C, np.inf)) / (2 * h)
    by_v = (factor.expected(M, V + h, C, np.inf) - factor.expected(M, V - h, C, np.inf)) / (2 * h)
    np.testing.assert_allclose(d_m, by_m, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(d_v, by_v, rtol=1e-5, atol=1e-8)
    paired = factor.paired(M, V, C, 0.4, np.array([7.0]), np.inf)[:, :, 0]
    np.testing.assert_allclose(paired, factor.expected(M, V, C, 0.4), rtol=1e-10, atol=1e-14)


def test_ends_must_be_ordered():
    with pytest.raises(ValueError, match="low must be below high"):
        Line(1.0, 1.0)
