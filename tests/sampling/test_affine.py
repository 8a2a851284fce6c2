"""White coordinates against Gaussians, whose mode and curvature are known, and finite differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cavity import GP
from cavity.kernels import SE
from cavity.likelihoods import MixtureOfGaussians
from cavity.sampling.affine import (
    PRIOR_DRAWS,
    WHITE_HMC,
    WIDEST,
    AffineTarget,
    pilot_rounds,
    sample_whitened,
    whitened_at_mode,
    whitened_by,
)
from cavity.sampling.default_priors import unit_steps, with_proper_priors
from cavity.sampling.hmc import hamiltonian
from cavity.sampling.hyperparameter_target import HyperparameterTarget
from cavity.sampling.outlier_conditionals import GivenFunction
from cavity.sampling.targets import FunctionTarget

MEAN = np.array([3.0, -1.0, 0.5])
COVARIANCE = np.array([[1.0, 0.98, 0.0], [0.98, 1.0, 0.0], [0.0, 0.0, 0.04]])
EVERYWHERE = np.tile([-np.inf, np.inf], (3, 1))


def gaussian(mean=MEAN, covariance=COVARIANCE):
    P = np.linalg.inv(covariance)

    def density(U):
        return -0.5 * np.einsum("ij,jk,ik->i", U - mean, P, U - mean), -(U - mean) @ P

    return FunctionTarget(density, dim=len(mean))


@pytest.mark.parametrize("unit", [1.0, 1e-3])
def test_mode_and_curvature_of_a_gaussian(unit):
    """In whatever units the coordinates are."""
    target = gaussian(unit * MEAN, unit**2 * COVARIANCE)
    found = whitened_at_mode(target, np.zeros(3), np.full(3, unit), EVERYWHERE)
    np.testing.assert_allclose(found.origin, unit * MEAN, atol=1e-4 * unit)
    np.testing.assert_allclose(found.factor @ found.factor.T, unit**2 * COVARIANCE, atol=1e-6 * unit**2)


def test_flat_directions_are_not_taken_for_wider_than_that():
    found = whitened_at_mode(
        gaussian(np.zeros(2), np.diag([1e8, 0.25])), np.ones(2), np.ones(2), np.tile([-9.0, 9.0], (2, 1))
    )
    np.testing.assert_allclose(np.sort(np.linalg.norm(found.factor, axis=0)), [0.5, WIDEST], rtol=1e-6)


def test_mode_inside_the_bounds():
    found = whitened_at_mode(
        gaussian(), np.array([0.0, -1.5, 0.0]), np.ones(3), np.array([[-1.0, 1.0], [-4.0, 4.0], [-2.0, 2.0]])
    )
    # given x_0 = 1 at its bound, x_1 has its conditional mean
    np.testing.assert_allclose(found.origin, [1.0, -1.0 + 0.98 * (1.0 - 3.0), 0.5], atol=2e-3)


def test_some_coordinates_only():
    """The mode of the last two given the first, which stays as it is."""
    found = whitened_at_mode(
        gaussian(), np.array([2.0, 0.0, 0.0]), np.ones(2), EVERYWHERE[1:], slice(1, None)
    )
    np.testing.assert_allclose(found.origin, [-1.0 + 0.98 * (2.0 - 3.0), 0.5], atol=1e-4)
    np.testing.assert_allclose(found.factor @ found.factor.T, np.diag([1 - 0.98**2, 0.04]), atol=1e-6)
    Z = np.random.default_rng(0).standard_normal((4, 5, 3))
    np.testing.assert_allclose(found.to_white(found.from_white(Z)), Z, atol=1e-12)
    assert np.all(found.from_white(Z)[..., 0] == Z[..., 0])


def test_gradient_and_starts():
    rng = np.random.default_rng(1)
    target = gaussian()
    white = AffineTarget(target, MEAN + 0.3, rng.standard_normal((3, 3)))
    u, h = rng.standard_normal(3), 1e-5
    numeric = [
        (white.log_density((u + h * e)[None])[0] - white.log_density((u - h * e)[None])[0]) / (2 * h)
        for e in np.eye(3)
    ]
    np.testing.assert_allclose(white.value_and_gradient(u[None])[1][0], numeric, rtol=1e-6)
    white_ = whitened_at_mode(target, np.zeros(3), np.ones(3), EVERYWHERE)
    start = white_.from_white(white_.start(np.zeros((4000, 3)), rng, EVERYWHERE))
    np.testing.assert_allclose(np.cov(start.T), COVARIANCE, atol=0.08)
    limits = np.array([[2.9, 3.1], [-9.0, 9.0], [-9.0, 9.0]])
    inside = white_.from_white(white_.start(np.zeros((50, 3)), rng, limits))
    assert np.all((inside[:, 0] > 2.9 - 1e-9) & (inside[:, 0] < 3.1 + 1e-9))


def test_starts_come_nearer_where_there_is_no_density():
    """A density that ends half a standard deviation from its mode."""

    def density(U):
        value = np.where(np.abs(U[:, 0]) < 0.5, -0.5 * U[:, 0] ** 2, -np.inf)
        return value, np.where(np.isfinite(value)[:, None], -U, 0.0)

    white = AffineTarget(FunctionTarget(density, dim=1), np.zeros(1), np.eye(1))
    start = white.start(np.zeros((20, 1)), np.random.default_rng(0), np.array([[-np.inf, np.inf]]))
    assert np.isfinite(white.log_density(start)).all()
    drawn = np.random.default_rng(0).standard_normal((20, 1))
    assert np.abs(drawn).max() > 0.5  # where draws of the normal distribution at the mode would not be
    # all come nearer by the same factor, and no further than needed
    np.testing.assert_allclose(start, start[0] / drawn[0] * drawn)
    assert np.abs(start).max() > 0.25


def test_draws_come_back_in_the_coordinates_of_the_target():
    white = whitened_at_mode(gaussian(), np.zeros(3), np.ones(3), EVERYWHERE)
    start = white.start(np.zeros((4, 3)), np.random.default_rng(2), EVERYWHERE)
    moved = hamiltonian(white, start, n_draws=1000, warmup=200, rng=3, progress=False)
    trace = white.trace_from_white(moved)
    np.testing.assert_allclose(trace.pooled.mean(axis=0), MEAN, atol=0.1)
    np.testing.assert_allclose(np.cov(trace.pooled.T), COVARIANCE, atol=0.1)
    np.testing.assert_allclose(
        trace.step_size / np.sqrt(np.diag(COVARIANCE)), moved.step_size.mean(), rtol=0.2
    )  # one step in units of each coordinate's own spread


def test_nothing_to_whiten():
    found = whitened_at_mode(gaussian(), np.zeros(3), np.zeros(0), np.zeros((0, 2)), slice(3, None))
    Z = np.ones((2, 3))
    assert np.all(found.from_white(Z) == Z)
    assert np.all(found.to_white(Z) == Z)


def test_units_of_levels_are_those_of_the_data():
    X = np.linspace(0, 1, 8)[:, None]
    y = 1e6 + 1e5 * np.sin(5 * X[:, 0])
    model = with_proper_priors(GP(1.0 * SE(1.0), mean="constant"), X, y)
    unit = dict(zip(model.names, unit_steps(model, X, y)))
    assert unit["se.lengthscale"] == 1.0
    assert 1e4 < unit["mean.value"] < 1e6
    target = HyperparameterTarget(model, X, y)
    white = whitened_at_mode(
        target, np.asarray(model.theta), np.array(list(unit.values())), np.array(model.theta_bounds)
    )
    assert np.isfinite(white.factor).all()
    gradient = white.value_and_gradient(np.zeros((1, 4)))[1]
    assert np.max(np.abs(gradient)) < 1e-2  # the origin is the mode


def test_gradient_given_the_function():
    rng = np.random.default_rng(0)
    X, y = np.linspace(0, 3, 15)[:, None], rng.standard_normal(15)
    model = with_proper_priors(GP(1.0 * SE(1.0), MixtureOfGaussians(0.2, 0.3, 5.0)), X, y)
    moves = np.array([name.startswith("mixture") for name in model.names])
    target = GivenFunction(model, y, moves)
    target.f = 0.5 * rng.standard_normal(15)
    u, h = model.theta[moves] + 0.1, 1e-5
    numeric = [
        (target.log_density((u + h * e)[None])[0] - target.log_density((u - h * e)[None])[0]) / (2 * h)
        for e in np.eye(3)
    ]
    np.testing.assert_allclose(target.value_and_gradient(u[None])[1][0], numeric, rtol=1e-6, atol=1e-6)
    assert target.log_density(np.full((1, 3), 1e4))[0] == -np.inf


# --- what warm-up adds ----------------------------------------------------------------------------------------


def test_draws_are_white_in_the_new_coordinates():
    rng = np.random.default_rng(3)
    X = rng.multivariate_normal(MEAN, COVARIANCE, 4000).reshape(4, 1000, 3)
    before = np.diag([3.0, 0.1, 1.0])
    origin, factor = whitened_by(np.zeros(3), before, X)
    np.testing.assert_allclose(origin, X.reshape(-1, 3).mean(axis=0))
    spread = np.cov(X.reshape(-1, 3).T, ddof=0)
    pooled = (4000 * spread + PRIOR_DRAWS * before @ before.T) / (4000 + PRIOR_DRAWS)
    np.testing.assert_allclose(factor @ factor.T, pooled, rtol=1e-10)
    _, near = whitened_by(MEAN, np.linalg.cholesky(2.0 * COVARIANCE), X)
    Z = np.linalg.solve(near, (X.reshape(-1, 3) - origin).T)
    np.testing.assert_allclose(Z @ Z.T / 4000, np.eye(3), atol=0.02)


def test_few_draws_do_not_overrule_the_curvature():
    """One draw has no spread: what was assumed before is kept, a little smaller."""
    factor = np.array([[2.0, 0.0], [1.0, 0.5]])
    center, found = whitened_by(np.zeros(2), factor, np.array([[1.0, 2.0]]))
    np.testing.assert_allclose(center, [1.0, 2.0])
    np.testing.assert_allclose(found @ found.T, factor @ factor.T * PRIOR_DRAWS / (PRIOR_DRAWS + 1))


@pytest.mark.parametrize("warmup", [0, 30, 200])
def test_sampling_of_a_gaussian_from_wrong_coordinates(warmup):
    """Moments of the target, whatever the first coordinates were; short warm-up keeps them."""
    rng = np.random.default_rng(0)
    wrong = AffineTarget(gaussian(), MEAN + 1.0, np.diag([0.5, 0.5, 0.5]))
    options = replace(WHITE_HMC, length=1.5, step=0.15) if warmup == 0 else WHITE_HMC
    trace = sample_whitened(
        wrong, np.zeros((4, 3)), options, n_draws=2000, warmup=warmup, rng=rng, progress=False
    )
    assert trace.warmup == warmup
    assert trace.draws == 2000
    assert (pilot_rounds(warmup) > 0) == (warmup == 200)
    np.testing.assert_allclose(trace.pooled.mean(axis=0), MEAN, atol=0.15)
    np.testing.assert_allclose(np.cov(trace.pooled.T), COVARIANCE, atol=0.15)


def test_an_interrupt_while_coordinates_are_learned_keeps_draws():
    target = gaussian()
    white = AffineTarget(target, MEAN, np.linalg.cholesky(COVARIANCE))

    def stop(done, total):
        if done == 70:  # 60 of warm-up, then draws
            raise KeyboardInterrupt

    trace = sample_whitened(
        white, np.zeros((2, 3)), n_draws=500, warmup=200, rng=np.random.default_rng(0), progress=stop
    )
    assert trace.interrupted
    assert 5 <= trace.draws <= 10
    np.testing.assert_allclose(trace.pooled.mean(axis=0), MEAN, atol=2.0)  # in the target's own coordinates
