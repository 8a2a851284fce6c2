"""The parts of annealing one by one: paths, moves that keep p_beta, temperatures, certificates."""

from __future__ import annotations

import numpy as np
import pytest

from cavity.gp import GP
from cavity.kernels import SE
from cavity.latent.base import ImproperPosteriorError
from cavity.latent.dense import DensePrior
from cavity.latent.prior_times_sites import Conditioned
from cavity.latent.sites import Sites
from cavity.likelihoods import Gaussian, Logit, MixtureOfGaussians, Observations, Probit
from cavity.means.functions import Constant
from cavity.sampling.annealing.certificate import disagreement, faults, steps_needed, verdict
from cavity.sampling.annealing.moves import Moves, RunState, elliptical_move, hamiltonian_move
from cavity.sampling.annealing.path import Bridge, largest_curvature
from cavity.sampling.annealing.runs import anneal, run_pilot, summary, weight_statistics
from cavity.sampling.annealing.schedule import (
    as_schedule,
    conditional_share,
    next_temperature,
    power_schedule,
    resampled,
)

X3 = np.array([[0.0], [0.5], [2.0]])
Y3 = np.array([1.0, -0.5, 2.0])


def prior3():
    return DensePrior(2.0 * SE(1.0), X3, Constant(0.4))


SITES = Sites(np.array([0.5, -0.2, 1.0]), np.array([0.7, 0.3, -0.1]))
CURVATURE = np.array([0.5, 3.0, 1.0])


@pytest.mark.parametrize("sites", [None, SITES])
@pytest.mark.parametrize("curvature", [None, CURVATURE])
def test_coordinates_mass_and_gradient(sites, curvature):
    prior = prior3()
    bridge = Bridge(prior, Observations(Probit(), np.sign(Y3), np.array([1.0, 2.0, 0.5])), sites, curvature)
    Z = np.random.default_rng(0).standard_normal((5, 3))
    F = bridge.latent(Z)
    np.testing.assert_allclose(bridge.position(F), Z, atol=1e-10)
    q = Conditioned(prior, SITES) if sites is not None else None
    assert bridge.log_mass == pytest.approx(0.0 if q is None else q.log_normalizer, abs=1e-10)
    covariance = prior.covariance if q is None else q.covariance
    A = bridge.latent(np.eye(3)) - bridge.latent(np.zeros((3, 3)))  # rows are columns of the map
    np.testing.assert_allclose(A.T @ A, covariance, atol=1e-9)
    np.testing.assert_allclose(bridge.mean, prior.mean if q is None else q.mean, atol=1e-10)
    h, gradient = 1e-5, bridge.pulled_slope(F)
    for j in range(3):
        step = h * np.eye(3)[j]
        up, down = (bridge.log_ratio(bridge.latent(Z + s * step)) for s in (1, -1))
        np.testing.assert_allclose(gradient[:, j], (up - down) / (2 * h), rtol=1e-6, atol=1e-8)


def test_sites_that_outweigh_the_prior_are_refused():
    with pytest.raises(ImproperPosteriorError):
        Bridge(prior3(), Observations(Probit(), np.sign(Y3)), sites=Sites(np.zeros(3), np.full(3, -5.0)))


def test_the_metric_is_exact_for_gaussian_noise():
    noise, prior = 0.3, prior3()
    for beta in (0.01, 0.4, 1.0):
        end = Conditioned(prior, Sites.of_observations(Y3, np.full(3, noise))).mean
        bridge = Bridge(prior, Observations(Gaussian(noise), Y3), curvature=np.full(3, 1 / noise), end=end)
        center, root = bridge.metric(beta)
        tempered = Conditioned(prior, Sites.of_observations(Y3, np.full(3, noise / beta)))
        np.testing.assert_allclose(bridge.latent(center[None])[0], tempered.mean, atol=1e-9)
        A = bridge.latent(np.diag(1 / root)) - bridge.latent(np.zeros((3, 3)))
        np.testing.assert_allclose(A.T @ A, tempered.covariance, atol=1e-9)


@pytest.mark.parametrize("kind", ["hmc", "elliptical"])
@pytest.mark.parametrize("sites", [None, SITES])
def test_moves_leave_the_tempered_distribution_invariant(kind, sites):
    # p_beta is Gaussian here and known, while the metric is deliberately wrong: a move must not notice
    noise, beta, R = 0.3, 0.6, 20_000
    prior, rng = prior3(), np.random.default_rng(1)
    bridge = Bridge(
        prior, Observations(Gaussian(noise), Y3), sites, CURVATURE, end=np.array([3.0, -1.0, 0.0])
    )
    data = Sites.of_observations(Y3, np.full(3, noise))
    rest = sites or Sites.zero(3)
    total = Sites(
        beta * data.shift + (1 - beta) * rest.shift, beta * data.precision + (1 - beta) * rest.precision
    )
    truth = Conditioned(prior, total)
    root = np.linalg.cholesky(truth.covariance)
    F = truth.mean + rng.standard_normal((R, 3)) @ root.T
    state, first = RunState.at(bridge, bridge.position(F)), F
    for _ in range(4):
        if kind == "hmc":
            state, accepted = hamiltonian_move(bridge, state, beta, 0.6, 3, rng)
            assert 0.2 < accepted.mean() < 0.999  # otherwise nothing is tested
        else:
            state, _ = elliptical_move(bridge, state, beta, rng)
    np.testing.assert_allclose(state.log_ratio, bridge.log_ratio(state.F), atol=1e-9)
    white = np.linalg.solve(root, (state.F - truth.mean).T)
    assert np.abs(white.mean(axis=1)).max() < 4.5 / np.sqrt(R)
    assert np.abs(white @ white.T / R - np.eye(3)).max() < 4.5 * np.sqrt(2 / R)
    kept = np.corrcoef(first[:, 0], state.F[:, 0])[0, 1]
    assert kept < 0.8  # and it moved


def test_largest_curvature():
    places = np.linspace(-5, 5, 101)[:, None] * np.ones(3)
    y = np.array([1.0, -1.0, 1.0])
    np.testing.assert_allclose(largest_curvature(Observations(Logit(), y), places), 0.25, rtol=1e-12)
    probit = largest_curvature(Observations(Probit(), y, np.array([1.0, 2.0, 1.0])), places)
    assert np.all((probit > [0.9, 1.8, 0.9]) & (probit <= [1, 2, 1]))
    mixture = MixtureOfGaussians(fraction=0.1, scale=0.5, outlier_scale=5.0)
    np.testing.assert_allclose(largest_curvature(Observations(mixture, y), places), 4.0, rtol=0.05)


# --- temperatures ---------------------------------------------------------------------------------------------


def test_conditional_share_by_its_definition():
    r = np.random.default_rng(2).normal(size=50)
    v = np.exp(0.3 * r)
    assert conditional_share(r, 0.3) == pytest.approx(v.sum() ** 2 / (50 * np.sum(v**2)), rel=1e-12)
    beta = next_temperature(50 * r, 0.0, 0.9)
    assert conditional_share(50 * r, beta) == pytest.approx(0.9, abs=1e-6)
    assert next_temperature(1e-3 * r, 0.2, 0.9) == 1.0
    assert next_temperature(np.full(5, -np.inf), 0.2) == 1.0
    assert conditional_share(np.full(5, -np.inf), 0.1) == 1.0
    assert 0 < next_temperature(1e300 * r, 0.0) < 1e-290


def test_a_schedule_keeps_its_shape_at_another_length():
    levels = power_schedule(40, 5.0)
    longer = resampled(levels, 400)
    np.testing.assert_allclose(longer[::10], levels, rtol=1e-12)
    np.testing.assert_allclose(longer[20:], power_schedule(400, 5.0)[20:], rtol=0.02)
    assert longer[0] == 0.0
    assert longer[-1] == 1.0
    assert np.all(np.diff(longer) > 0)
    np.testing.assert_allclose(resampled(np.array([0.0, 1.0]), 4), [0, 0.25, 0.5, 0.75, 1])


@pytest.mark.parametrize("bad", [[0.0, 0.5], [0.1, 1.0], [0.0, 0.6, 0.5, 1.0], [1.0]])
def test_bad_schedules(bad):
    with pytest.raises(ValueError, match="schedule must increase"):
        as_schedule(bad)
    with pytest.raises(ValueError, match="steps"):
        power_schedule(0)
    with pytest.raises(ValueError, match="power"):
        power_schedule(3, -1.0)


# --- weights, pilots, certificates ----------------------------------------------------------------------------


def test_weight_statistics():
    log_mean, error, effective, sd = weight_statistics(np.log([1.0, 2.0, 3.0, 2.0]))
    assert log_mean == pytest.approx(np.log(2.0))
    assert error == pytest.approx(np.std([1, 2, 3, 2], ddof=1) / (2 * 2))
    assert effective == pytest.approx(64 / 18)
    assert sd == pytest.approx(np.std(np.log([1, 2, 3, 2]), ddof=1))
    assert weight_statistics(np.full(4, -np.inf)) == (-np.inf, np.inf, 0.0, np.inf)
    assert weight_statistics(np.array([0.0, -np.inf]))[3] == np.inf
    # however wrong the runs are, the standard error of the weights stays below one
    assert weight_statistics(np.array([0.0] + [-500.0] * 15))[1] <= 1.0


def test_the_pilot_predicts_the_spread_of_the_weights():
    rng = np.random.default_rng(3)
    X = rng.uniform(-3, 3, (40, 2))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    prior = GP(4.0 * SE(1.0), Probit()).bind(2).prior(X)
    bridge = Bridge(prior, Observations(Probit(), y))
    pilot = run_pilot(bridge, Moves("hmc", 8), 32, rng)
    found = anneal(bridge, resampled(pilot.levels, 150), pilot.moves, 64, rng)
    assert 0.3 < found.difficulty / pilot.difficulty < 3.0
    assert found.acceptance > 0.6
    assert np.all(np.diff(pilot.levels) > 0)


def made(log_weights, start="ep", acceptance=0.8):
    log_weights = np.asarray(log_weights, dtype=float)
    levels = power_schedule(100)
    return summary(0.0, log_weights, np.full(99, acceptance), levels, start, "start", 2.0, np.zeros((1, 1)))


def test_what_a_certificate_needs():
    rng = np.random.default_rng(4)
    good = made(0.3 * rng.standard_normal(16))
    other = made(0.4 * rng.standard_normal(16), "prior")
    assert faults(good, 0.2) == []
    assert verdict(good, other, True, 0.2) == ""
    assert "no second set" in verdict(good, None, False)
    assert "several modes" in verdict(good, good, True)
    assert "disagree" in verdict(good, made(other.log_weights + 3.0), False)
    assert "confirms nothing" in verdict(good, made(9.0 * rng.standard_normal(16)), False)
    assert "acceptance" in verdict(made(good.log_weights, acceptance=0.3), other, False)
    assert "asked for" in verdict(good, other, False, 0.01)
    assert "too few" in verdict(made([0.0, 0.1, 0.2]), other, False)
    assert "sd of the log weights" in verdict(made(2.0 * rng.standard_normal(64)), other, False)
    assert "effective" in verdict(made(np.r_[3.5, np.zeros(63)]), other, False)
    assert disagreement(good, made(np.full(16, -np.inf))) == np.inf


def test_steps_needed_follow_the_variance():
    run = made(0.5 * np.tile([-1.0, 1.0], 8))
    assert steps_needed(run, 0.05) == pytest.approx(100 * run.sd_log_weights**2 / (0.05**2 * 16), abs=1)
    assert steps_needed(made(np.full(16, -np.inf)), 0.1) == 400
