"""Probability and expectation of improvement: published and high-precision values, and gradients by differences."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr

from cavity.design.acquisition import (
    expected_improvement,
    log_augmented_improvement,
    log_expected_improvement,
    log_h,
    log_probability_of_improvement,
    probability_of_improvement,
)
from tests.design import golden

LOG_H = {
    3.0: 1.098739665327708, 0.0: -0.9189385332046727, -1.0: -2.485121025712641, -2.0: -4.768783523917114,
    -5.0: -16.74430116266099, -10.0: -55.55312203612236, -38.0: -730.1961834021137, -100.0: -5010.12957880025,
    -1e4: -50000019.3396193,
}  # fmt: skip


@pytest.mark.parametrize(("z", "value"), LOG_H.items())
def test_log_h_has_the_published_values(z, value):
    assert log_h(np.array(z)) == pytest.approx(value, rel=1e-13, abs=1e-12)


@pytest.mark.parametrize("z", [2.5, -0.999, -1.001, -7.3, -35.0, -250.0, -999.0, -1001.0, -3e5, -2e6])
def test_log_h_has_the_digits_of_fifty(z):
    with mpmath.workdps(50):
        x = mpmath.mpf(z)
        if z > -40:
            expected = float(mpmath.log(mpmath.npdf(x) + x * mpmath.ncdf(x)))
        else:  # phi(z) z^-2 (1 - 3/z^2 + 15/z^4 - 105/z^6 + ...)
            series = 1 - 3 / x**2 + 15 / x**4 - 105 / x**6 + 945 / x**8
            expected = float(
                -(x**2) / 2 - mpmath.log(2 * mpmath.pi) / 2 - 2 * mpmath.log(-x) + mpmath.log(series)
            )
    assert log_h(np.array(z)) == pytest.approx(expected, rel=3e-12)


def test_log_expected_improvement_is_finite_and_monotone_everywhere():
    z = np.concatenate([-np.logspace(8, -8, 4001), np.linspace(0.0, 38.0, 2001)])
    score = log_expected_improvement(-z, np.ones_like(z), 0.0)
    for part in score:
        assert np.isfinite(part).all()
    assert (np.diff(score.value) > 0).all()
    assert (score.d_mean < 0).all()


def test_the_worked_example():
    for variance, best in ((0.25, -0.7),):
        mean = np.array([-0.5])
        assert probability_of_improvement(mean, np.array([variance]), best).value[0] == pytest.approx(
            0.3445782584, abs=1e-9
        )
        assert probability_of_improvement(mean, np.array([variance]), best, 0.1).value[0] == pytest.approx(
            0.2742531178, abs=1e-9
        )
        assert expected_improvement(mean, np.array([variance]), best).value[0] == pytest.approx(
            0.1152194185, abs=1e-9
        )


def test_the_state_of_the_notes():
    moments = golden.state()
    mean, variance = moments(golden.GRID)
    new = ~golden.SEEN
    np.testing.assert_allclose(mean[:, 0], golden.MEAN, atol=1e-8)
    np.testing.assert_allclose(np.sqrt(variance)[new], golden.SD[new], atol=1e-8)
    ei = expected_improvement(mean[new, 0], variance[new], golden.BEST).value
    np.testing.assert_allclose(
        ei,
        [
            0.0287162769,
            0.0014582907,
            0.0140817854,
            0.0966964962,
            0.0145375922,
            0.0000601312,
            0.0000091970,
            0.0075582562,
        ],
        atol=1e-8,
    )
    pi = probability_of_improvement(mean[new, 0], variance[new], golden.BEST, 0.1).value
    np.testing.assert_allclose(
        pi,
        [
            0.0636283843,
            0.0052183216,
            0.0519606580,
            0.3086043730,
            0.0542771164,
            0.0002246198,
            0.0000346436,
            0.0188795273,
        ],
        atol=1e-8,
    )


@pytest.mark.parametrize("z", [3.0, 0.4, -0.99, -1.01, -5.0, -40.0, -1e3])
@pytest.mark.parametrize("function", [log_expected_improvement, log_probability_of_improvement])
def test_gradients_of_logarithms_against_differences(function, z):
    variance, best = 0.3, -0.2
    mean = best - z * np.sqrt(variance)

    def value(m, v):
        return function(np.array([m]), np.array([v]), best).value[0]

    h = 1e-6 * max(1.0, abs(mean))
    score = function(np.array([mean]), np.array([variance]), best)
    by_mean = (value(mean + h, variance) - value(mean - h, variance)) / (2 * h)
    by_variance = (value(mean, variance + 1e-6) - value(mean, variance - 1e-6)) / 2e-6
    assert score.d_mean[0] == pytest.approx(by_mean, rel=2e-6)
    assert score.d_variance[0] == pytest.approx(by_variance, rel=2e-5)


def test_a_noisy_measurement_tells_less():
    """log EI times 1 - sqrt(noise / (variance + noise)), with its slopes; without noise nothing changes."""
    m, v, h = np.array([0.2, -0.4]), np.array([0.5, 1e-6]), 1e-9

    def value(m, v):
        return log_augmented_improvement(m, v, 0.0, 0.01).value

    plain, score = log_expected_improvement(m, v, 0.0), log_augmented_improvement(m, v, 0.0, 0.01)
    np.testing.assert_allclose(score.value - plain.value, np.log1p(-np.sqrt(0.01 / (v + 0.01))), rtol=1e-6)
    np.testing.assert_allclose(score.d_mean, plain.d_mean)
    np.testing.assert_allclose(score.d_variance, (value(m, v + h) - value(m, v - h)) / (2 * h), rtol=1e-4)
    exact = log_augmented_improvement(m, v, 0.0, 0.0)
    np.testing.assert_allclose(exact.value, plain.value, rtol=1e-14)
    np.testing.assert_allclose(exact.d_variance, plain.d_variance, rtol=1e-14)


@pytest.mark.parametrize("function", [expected_improvement, probability_of_improvement])
def test_gradients_of_plain_forms_against_differences(function):
    m, v, h = np.array([0.3]), np.array([0.5]), 1e-6
    score = function(m, v, 0.1)
    assert score.d_mean[0] == pytest.approx(
        (function(m + h, v, 0.1).value - function(m - h, v, 0.1).value)[0] / (2 * h), rel=1e-7
    )
    assert score.d_variance[0] == pytest.approx(
        (function(m, v + h, 0.1).value - function(m, v - h, 0.1).value)[0] / (2 * h), rel=1e-7
    )


def test_probability_of_improvement_is_a_normal_tail():
    assert probability_of_improvement(np.array([1.0]), np.array([4.0]), 0.0).value[0] == pytest.approx(
        ndtr(-0.5), rel=1e-14
    )
