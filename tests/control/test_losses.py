"""Losses: expectations against Monte Carlo and Gauss-Hermite, derivatives against central differences."""

from __future__ import annotations

import numpy as np
import pytest

from cavity.control import CartPole, MountainCar, Pendulum
from cavity.control.losses import QuadraticLoss, SaturatingLoss, TaylorLoss, tip_distance

STEP = 1e-6


def losses():
    pole, pendulum = CartPole(), Pendulum()
    plain = QuadraticLoss.around([0.6, 0.0], [1.0, 0.1])
    return {
        "quadratic": (plain, 2),
        "saturating": (SaturatingLoss(plain, 0.3), 2),
        "tip": (tip_distance(pole), 4),
        "tip with speed": (tip_distance(pole, speed=0.1), 4),
        "saturating tip": (SaturatingLoss(tip_distance(pole), 0.5), 4),
        "taylor": (TaylorLoss(tip_distance(pole)), 4),
        "taylor without angles": (TaylorLoss(plain), 2),
        "pendulum": (SaturatingLoss(tip_distance(pendulum, speed=0.2), 0.5), 2),
    }


def distribution(D, seed, size=0.3):
    rng = np.random.default_rng(seed)
    root = size * rng.standard_normal((D, D))
    return rng.standard_normal(D), root @ root.T


@pytest.mark.parametrize("name", losses())
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_derivatives(name, seed):
    loss, D = losses()[name]
    m, S = distribution(D, seed)
    if seed == 2:
        m = np.array([0.1, -0.2, 3.0, 0.4])[:D]
    _, d_m, d_S = loss.expected(m, S)
    value, slope = loss.gradient(m)
    assert value == pytest.approx(float(loss(m)), rel=1e-12)
    for i in range(D):
        e = STEP * np.eye(D)[i]
        assert slope[i] == pytest.approx((loss(m + e) - loss(m - e)) / (2 * STEP), abs=1e-7)
        difference = (loss.expected(m + e, S)[0] - loss.expected(m - e, S)[0]) / (2 * STEP)
        assert d_m[i] == pytest.approx(difference, abs=1e-7)
        for j in range(D):
            E = np.zeros((D, D))
            E[i, j] += 0.5 * STEP
            E[j, i] += 0.5 * STEP
            difference = (loss.expected(m, S + E)[0] - loss.expected(m, S - E)[0]) / (2 * STEP)
            assert d_S[i, j] == pytest.approx(difference, abs=1e-7)


@pytest.mark.parametrize("name", ["quadratic", "saturating", "tip", "tip with speed"])
def test_exact_expectations_against_monte_carlo(name):
    loss, D = losses()[name]
    m, S = distribution(D, 5)
    values = loss(np.random.default_rng(0).multivariate_normal(m, S, 1_000_000))
    error = values.std() / 1000.0
    assert abs(loss.expected(m, S)[0] - values.mean()) < 4 * error


def test_saturating_tip_is_close_for_small_variances():
    """With angles the features are taken for Gaussian: right to second order in the covariance."""
    loss, m = SaturatingLoss(tip_distance(CartPole()), 0.25), np.array([0.1, 0.0, 2.9, 0.5])
    S = distribution(4, 3, 0.02)[1]
    values = loss(np.random.default_rng(0).multivariate_normal(m, S, 400_000))
    assert loss.expected(m, S)[0] == pytest.approx(values.mean(), rel=5e-3)


def test_tip_distance_is_that_of_the_systems():
    for system in (CartPole(length=0.4), Pendulum()):
        states = system.draw_states(50, 0)
        np.testing.assert_allclose(
            tip_distance(system)(states), system.tip_distance(states) ** 2, rtol=1e-12, atol=1e-14
        )


def test_taylor_is_the_formula_of_the_thesis():
    """(7.57) with the printed gradient and Hessian, where it is positive definite and where it is shifted."""
    loss, length = TaylorLoss(tip_distance(CartPole())), 0.3
    S = distribution(4, 1)[1]
    for x, theta in ((0.1, 3.0), (0.4, 0.3)):
        cross = 4 * length * np.cos(theta)
        H = np.array([[2.0, cross], [cross, -4 * x * length * np.sin(theta) - 8 * length**2 * np.cos(theta)]])
        least = np.linalg.eigvalsh(H)[0]
        H = H + max(-least, 0.0) * np.eye(2)
        square = (x + 2 * length * np.sin(theta)) ** 2 + 4 * (length + length * np.cos(theta)) ** 2
        expected = square + 0.5 * np.trace(H @ S[np.ix_([0, 2], [0, 2])])
        m = np.array([x, 0.7, theta, -0.3])
        assert loss.expected(m, S)[0] == pytest.approx(expected, rel=1e-12)


def test_batches_are_rows():
    for loss, D in losses().values():
        made = [distribution(D, k) for k in range(3)]
        m, S = np.array([a for a, _ in made]), np.array([b for _, b in made])
        together = loss.expected(m, S)
        for k in range(3):
            for got, want in zip(together, loss.expected(m[k], S[k])):
                np.testing.assert_allclose(got[k], want, rtol=1e-12, atol=1e-14)


def test_refusals():
    with pytest.raises(ValueError, match="positive semi-definite"):
        QuadraticLoss.around([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]])
    with pytest.raises(ValueError, match="weights must be 2 numbers"):
        QuadraticLoss.around([0.0, 0.0], [1.0])
    with pytest.raises(ValueError, match="A and c must have shapes"):
        QuadraticLoss(np.eye(2), [0.0])
    with pytest.raises(ValueError, match="A and c must be finite"):
        QuadraticLoss(np.eye(2), [0.0, np.nan])
    with pytest.raises(ValueError, match="width must be positive"):
        SaturatingLoss(QuadraticLoss.around([0.0], [1.0]), 0.0)
    for target, weights in (([np.nan, 0.0], [1.0, 1.0]), ([0.0, np.inf], [1.0, 1.0])):
        with pytest.raises(ValueError, match="target must be finite"):
            QuadraticLoss.around(target, weights)
    with pytest.raises(ValueError, match="weights must be 2 numbers"):
        QuadraticLoss.around([0.0, 0.0], [1.0, np.nan])
    for loss in (QuadraticLoss.around([0.0, 0.0], [1.0, 1.0]), tip_distance(Pendulum())):
        for ask in (
            lambda D, loss=loss: loss(np.zeros(D)),
            lambda D, loss=loss: loss.expected(np.zeros(D), np.eye(D)),
        ):
            with pytest.raises(ValueError, match=r"the loss is of states of shape \(..., 2\), got \(3,\)"):
                ask(3)
    with pytest.raises(ValueError, match="CartPole and Pendulum"):
        tip_distance(MountainCar())
