"""Modes of hyperparameters, jumps between them, and chains that know all of them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from cavity import GP, Param
from cavity.inference.base import Approximation
from cavity.inference.ep import EP
from cavity.io import dumps, loads
from cavity.kernels import SE, Matern
from cavity.latent.sites import Sites
from cavity.learning.multistart import SearchResult
from cavity.learning.optimizer import Run
from cavity.learning.run_choice import choose
from cavity.learning.training_rows import TrainingRows
from cavity.likelihoods import Gaussian, MixtureOfGaussians, StudentT
from cavity.parameters.priors import Beta, LogNormal
from cavity.sampling import mode_jumping as module
from cavity.sampling import samplers
from cavity.sampling.default_priors import unit_steps
from cavity.sampling.diagnostics import mcse_mean, rhat
from cavity.sampling.hmc import hamiltonian
from cavity.sampling.hyperparameter_target import HyperparameterTarget
from cavity.sampling.mcmc import MCMC
from cavity.sampling.mode_jumping import (
    HyperparameterJumps,
    JointJumps,
    LocalGaussian,
    Modes,
    find_modes,
)
from cavity.sampling.outlier_gibbs import GibbsChain, gibbs, gibbs_settings
from cavity.sampling.scale_mixture import SCALE_MIXTURES, ScaleMixtureTarget, sample_noise_variances
from cavity.sampling.targets import FunctionTarget

X = np.array([[0.0], [0.4], [2.0]])


class Poor:
    """Half of EP's sites and an evidence that is wrong by a factor: jumps must not depend on it."""

    def infer(self, prior, observations):
        found = EP(effort=0.0).infer(prior, observations)
        sites = Sites(0.5 * found.sites.shift, 0.5 * found.sites.precision)
        wrong = found.log_evidence + 2.0 * np.log(float(observations.likelihood.scale))
        return Approximation(found.process, wrong, found.status, prior.given(sites))


def kernel(length):
    return Param(1.0, fixed=True) * Matern(length, nu=1.5)


def covariance(length):
    d = np.sqrt(3) * np.abs(X - X.T) / length
    return (1 + d) * np.exp(-d)


def student_model(fixed=False):
    length = Param(1.0, fixed=fixed, prior=None if fixed else LogNormal(0.0, 1.0))
    noise = StudentT(
        Param(0.3, fixed=fixed, prior=None if fixed else LogNormal(-1.0, 0.7)), Param(3.0, fixed=True)
    )
    return GP(kernel(length), noise, "zero")


@pytest.mark.parametrize("rule", [EP(), Poor()])
def test_both_directions_estimate_the_evidence(monkeypatch, rule):
    """Two points, a bimodal posterior; truth from a grid of f."""
    monkeypatch.setattr(module, "RULE", rule)
    monkeypatch.setattr(module, "STEPS", 4)
    points, y = X[:2], np.array([-0.6, 1.9])
    model = student_model(fixed=True).bind(1)
    gaussian = JointJumps(Modes(np.zeros((2, 0)), np.zeros((0, 0))), model, points, y).gaussian_at(
        np.zeros(0)
    )
    assert gaussian is not None
    grid = np.linspace(-5, 5, 801)
    F = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1).reshape(-1, 2)
    K = covariance(1.0)[:2, :2]
    log_p = stats.t.logpdf((y - F) / 0.3, 3.0).sum(axis=1) - 2 * np.log(0.3)
    log_p += stats.multivariate_normal(np.zeros(2), K).logpdf(F)
    p = np.exp(log_p)
    truth = np.log(p.sum() * (grid[1] - grid[0]) ** 2) - gaussian.log_evidence
    rng = np.random.default_rng(0)
    up = np.array([gaussian.anneal_up(rng)[0] for _ in range(700)])
    exact = F[rng.choice(len(F), 700, p=p / p.sum())]
    down = np.array([gaussian.anneal_down(f, rng) for f in exact])
    for estimate, log_ratio in ((np.exp(up), truth), (np.exp(-down), -truth)):
        error = estimate.std() / np.sqrt(len(estimate))
        assert error < 0.15 * np.exp(log_ratio)
        assert abs(estimate.mean() - np.exp(log_ratio)) < 4.5 * error


def unchanged(before, after):
    """Whether rows (S, q) of statistics have the distribution that they had."""
    for old, new in zip(np.array(before).T, np.array(after).T):
        assert stats.ks_2samp(old, new, method="asymp").pvalue > 1e-4
        difference = np.clip(new, -50, 50) - np.clip(old, -50, 50)
        assert abs(difference.mean()) < 4.5 * difference.std() / np.sqrt(len(difference))


@pytest.mark.parametrize("rule", [EP(effort=0.0), Poor()])
def test_jumps_leave_the_joint_distribution_as_it_was(monkeypatch, rule):
    """Hyperparameters, variances and data from the model; after a jump they are distributed as before."""
    monkeypatch.setattr(module, "JUMP_PROBABILITY", 1.0)
    monkeypatch.setattr(module, "RULE", rule)
    monkeypatch.setattr(module, "STEPS", 3)
    target = ScaleMixtureTarget(student_model(), X, np.zeros(3))
    modes = Modes(np.array([[0.6, -0.8], [-0.9, -1.5]]), np.diag([0.8, 0.5]))
    mixing = SCALE_MIXTURES[StudentT]
    rng = np.random.default_rng(2)
    before, after, moved = [], [], 0
    for _ in range(700):
        theta = np.array([0.0, -1.0]) + np.array([1.0, 0.7]) * rng.standard_normal(2)
        likelihood = target.model.replace(theta).likelihood
        log_v = np.log(1.5 * float(likelihood.scale) ** 2 / rng.standard_gamma(1.5, 3))
        f = np.linalg.cholesky(covariance(np.exp(theta[0]))) @ rng.standard_normal(3)
        target.y = f + np.exp(0.5 * log_v) * rng.standard_normal(3)
        position = np.concatenate([mixing.to_white(likelihood, log_v), theta])
        jumps = JointJumps(modes, target.model, X, target.y)
        there = target.jump(position[None], jumps, rng)[0]
        moved += jumps.accepted
        for rows, z in ((before, position), (after, there)):
            gap = (target.y[0] - target.y[1]) ** 2
            rows.append([*z, z[3] * z[4], z[0] * z[4], z[3] * gap, z[4] * gap, z[0] * gap])
    assert moved > 60
    unchanged(before, after)


def mixture_model():
    noise = MixtureOfGaussians(
        Param(0.2, prior=Beta(2.0, 5.0)), Param(0.3, prior=LogNormal(-1.2, 0.5)), Param(6.0, fixed=True)
    )
    return GP(kernel(Param(1.0, prior=LogNormal(0.0, 1.0))), noise, "zero")


def test_jumps_with_indicators_leave_the_joint_distribution_as_it_was(monkeypatch):
    monkeypatch.setattr(module, "JUMP_PROBABILITY", 1.0)
    monkeypatch.setattr(module, "RULE", Poor())
    monkeypatch.setattr(module, "STEPS", 3)
    rng = np.random.default_rng(3)
    modes = Modes(np.array([[0.6, -1.3, -0.9], [-0.9, -0.8, -1.6]]), np.diag([0.8, 0.6, 0.4]))
    settings = gibbs_settings(mixture_model(), X, np.zeros(3), True, 0, 1, 1, modes)
    assert settings.model.names == (
        "matern.lengthscale",
        "mixtureofgaussians.fraction",
        "mixtureofgaussians.scale",
    )
    before, after, moved = [], [], 0
    for _ in range(400):
        fraction = rng.beta(2.0, 5.0)
        theta = np.array(
            [rng.standard_normal(), np.log(fraction / (1 - fraction)), -1.2 + 0.5 * rng.standard_normal()]
        )
        c = rng.random(3) < fraction
        f = np.linalg.cholesky(covariance(np.exp(theta[0]))) @ rng.standard_normal(3)
        settings.y = f + np.where(c, 6.0, 1.0) * np.exp(theta[2]) * rng.standard_normal(3)
        chain = GibbsChain(settings, theta, rng)
        chain.target.model, chain.target.indicators = settings.model.replace(theta), c
        chain._refactorize()
        moved += chain._jump()
        for rows, at, flags in ((before, theta, c), (after, chain.theta, chain.target.indicators)):
            gap = (settings.y[0] - settings.y[1]) ** 2
            rows.append([*at, *flags, at[0] * gap, flags[0] * gap, at[2] * gap, at[0] * flags.sum()])
    assert moved > 60
    unchanged(before, after)


def test_a_bad_place_is_refused_and_attempts_are_told(monkeypatch):
    monkeypatch.setattr(module, "JUMP_PROBABILITY", 1.0)
    y = np.array([0.3, -0.2, 1.0])
    model = student_model()
    far = Modes(np.array([[0.0, -1.0], [0.0, 900.0]]), np.eye(2))
    drawn = sample_noise_variances(model, X, y, n_draws=30, warmup=20, chains=2, rng=0, progress=False)
    assert drawn.trace.jumps is None
    jumps = JointJumps(far, ScaleMixtureTarget(model, X, y).model, X, y)
    assert jumps.gaussian_at(np.array([0.0, 900.0])) is None  # a scale that overflows
    assert isinstance(jumps.gaussian_at(np.array([0.0, -1.0])), LocalGaussian)
    assert jumps.attempt(np.array([0.0, -1.0]), lambda: 1 / 0, np.random.default_rng(0)) is None
    assert (jumps.attempts, jumps.accepted) == (1, 0)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_samplers_start_at_all_modes_and_tell_of_jumps(n_jobs):
    rng = np.random.default_rng(0)
    points = np.linspace(0, 4, 12)[:, None]
    y = np.sin(points[:, 0]) + 0.1 * rng.standard_normal(12)
    y[5] += 3.0
    modes = Modes(np.array([[0.3, -0.9, -1.3], [-1.8, -0.5, -0.6]]), 0.3 * np.eye(3))
    options = {"n_draws": 20, "warmup": 10, "chains": 4, "rng": 0, "progress": False, "modes": modes}
    jumps = gibbs(mixture_model(), points, y, n_jobs=n_jobs, **options).trace.jumps
    assert jumps.modes == 2
    assert jumps.attempts > 0
    assert 0 <= jumps.accepted <= jumps.attempts
    if n_jobs == 1:
        two = Modes(modes.locations[:, [0, 2]], 0.3 * np.eye(2))
        drawn = sample_noise_variances(student_model(), points, y, **(options | {"modes": two}))
        assert drawn.trace.jumps.modes == 2
        assert drawn.trace.jumps.attempts > 0


# --- modes of the hyperparameters ----------------------------------------------------------------------------


def test_a_jump_is_its_own_inverse():
    rng = np.random.default_rng(0)
    factor = np.array([[1.0, 0.0], [0.6, 0.5]])
    modes = Modes(np.array([[0.0, 0.0], [4.0, 1.0]]), factor)
    jumps = 0
    for theta in 3.0 * rng.standard_normal((200, 2)):
        there = modes.propose(theta, rng)
        if there is not None:
            jumps += 1
            np.testing.assert_allclose(modes.propose(there, rng), theta, atol=1e-12)
            assert modes.nearest(there) != modes.nearest(theta)
    assert jumps > 20


def test_each_of_several_places_is_as_likely_from_each():
    modes = Modes(np.array([[0.0], [10.0], [20.0]]), np.eye(1))
    rng = np.random.default_rng(0)
    for at in (0.3, 10.3, 20.3):
        found = np.array([modes.propose(np.array([at]), rng)[0] for _ in range(400)])
        others = sorted({0.3, 10.3, 20.3} - {at})
        assert sorted({float(np.round(value, 6)) for value in found}) == others
        assert abs(np.mean(np.isclose(found, others[0])) - 0.5) < 4.5 * 0.5 / 20


WEIGHTS = np.array([0.2, 0.8])
CENTERS = np.array([[-6.0, 0.0], [6.0, 3.0]])
SCALES = np.array([1.0, 0.6])


def unequal_hills(U):
    """0.2 N(c_0, I) + 0.8 N(c_1, 0.36 I)."""
    off = (U[:, None] - CENTERS) / SCALES[:, None]
    logs = np.log(WEIGHTS) - 2 * np.log(SCALES) - 0.5 * np.sum(off**2, axis=2)
    value = np.logaddexp(*logs.T)
    share = np.exp(logs - value[:, None])
    return value, -np.einsum("ck,ckd->cd", share, off / SCALES[:, None])


def test_jumps_give_hills_their_shares():
    target = FunctionTarget(unequal_hills, dim=2)
    places = Modes(CENTERS + 0.3, 0.8 * np.eye(2))  # only roughly known
    start = CENTERS[[0, 1, 0, 1]]
    common = {"n_draws": 800, "warmup": 200, "rng": 0, "progress": False}
    divided = hamiltonian(target, start, **common)
    assert np.all(rhat(divided.positions) > 1.5)
    jumps = HyperparameterJumps(places, target)
    joined = hamiltonian(target, start, between=jumps, **common)
    assert 100 < jumps.accepted < jumps.attempts < 4 * 1000
    assert np.all(rhat(joined.positions) < 1.05)
    for value, truth in ((joined.positions[:, :, 0] > 0, 0.8), (joined.positions[:, :, 1], 2.4)):
        drawn = value.astype(float)
        assert abs(drawn.mean() - truth) < 4.5 * float(mcse_mean(drawn))


def two_ways_to_read_it():
    """Seven points that are a smooth function with noise, or a wiggly one without (GPML, figure 5.5)."""
    X = np.array([-5.0, -3.6, -2.2, -0.3, 1.2, 3.0, 4.6])[:, None]
    y = np.array([-1.3, 0.6, -1.0, 0.3, 1.6, 0.2, 1.5])
    length = Param(1.0, prior=LogNormal(0.5, 1.2))
    noise = Param(0.1, prior=LogNormal(-2.5, 1.8))
    return X, y, GP(Param(1.0, fixed=True) * SE(length), Gaussian(noise), "zero")


def on_a_grid(X, y, model):
    """log l, log noise variance and their posterior probabilities, from matrices of our own."""
    a, b = np.meshgrid(np.linspace(-5, 6, 111), np.linspace(-16, 4, 121), indexing="ij")
    noise = (np.exp(b) + 1e-10)[:, :, None, None] * np.eye(len(y))
    L = np.linalg.cholesky(np.exp(-0.5 * (X - X.T) ** 2 / np.exp(2 * a)[:, :, None, None]) + noise)
    z = np.linalg.solve(L, np.broadcast_to(y[:, None], (*a.shape, len(y), 1)))[..., 0]
    logs = -0.5 * np.sum(z**2, axis=2) - np.sum(np.log(np.diagonal(L, axis1=2, axis2=3)), axis=2)
    logs += -0.5 * ((a - 0.5) / 1.2) ** 2 - 0.5 * ((b + 2.5) / 1.8) ** 2
    p = np.exp(logs - logs.max())
    return a, b, p / p.sum(), logs


def test_modes_uphill_from_ends_and_chains_that_know_them():
    X, y, model = two_ways_to_read_it()
    a, b, p, logs = on_a_grid(X, y, model)
    inner = logs[1:-1, 1:-1]
    around = [
        logs[1 + i : logs.shape[0] - 1 + i, 1 + j : logs.shape[1] - 1 + j]
        for i in (-1, 0, 1)
        for j in (-1, 0, 1)
    ]
    peaks = np.argwhere(inner >= np.max(around, axis=0)) + 1
    truth = sorted((a[tuple(k)], b[tuple(k)]) for k in peaks)
    assert len(truth) == 2  # or the example would not be one

    target = HyperparameterTarget(model, X, y)
    ends = [np.array([0.0, -4.0]), np.array([1.5, -1.0]), np.array([1.4, -1.2])]
    found = find_modes(target, ends, unit_steps(target.model, X, y))
    assert found is not None
    assert len(found) == 2
    np.testing.assert_allclose(sorted(map(tuple, found.locations)), truth, atol=0.12)
    assert find_modes(target, ends[1:], unit_steps(target.model, X, y)) is None

    rule = MCMC(n_draws=120, warmup=50, chains=8, rng=0, warn=False, progress=False)
    posterior = rule.sample_posterior(model, X, y, ends=ends)
    assert posterior.trace.jumps.modes == 2
    assert posterior.trace.jumps.accepted > 10
    again = loads(dumps(posterior))
    assert again.trace.jumps == posterior.trace.jumps
    for drawn, exact in (
        (posterior.trace.positions[:, :, 0], np.sum(p * a)),
        (posterior.trace.positions[:, :, 1], np.sum(p * b)),
        ((posterior.trace.positions[:, :, 0] > 0.8).astype(float), np.sum(p[a > 0.8])),
    ):
        assert abs(drawn.mean() - exact) < 4.5 * float(mcse_mean(drawn))
    assert posterior.status.residual < 1.1


def test_ends_at_a_bound_and_ends_without_a_density():
    X, y, model = two_ways_to_read_it()
    edge = 0.3 + 1e-9
    bounded = Param(1.0, prior=LogNormal(0.5, 1.2), bounds=(edge, 50.0))
    target = HyperparameterTarget(GP(Param(1.0, fixed=True) * SE(bounded), model.likelihood, "zero"), X, y)
    unit = np.array([0.7, 1.3])
    ends = [np.array([np.log(edge), -5.7]), np.array([1.5, -1.0])]
    found = find_modes(target, ends, unit)
    assert found is not None
    assert np.isfinite(target.log_density(found.locations)).all()
    rule = MCMC(n_draws=5, warmup=5, chains=4, rng=0, warn=False, progress=False)
    drawn = rule.sample_posterior(target.model, X, y, ends=ends).trace
    assert np.isfinite(drawn.log_density).all()
    nowhere = FunctionTarget(lambda U: (np.full(len(U), -np.inf), np.zeros(U.shape)), dim=2)
    nowhere.model = target.model
    assert find_modes(nowhere, ends, unit) is None


def test_estimators_tell_their_samplers_where_runs_ended(monkeypatch):
    X, y, model = two_ways_to_read_it()
    rule = MCMC(n_draws=20, warmup=20, chains=2, rng=0, warn=False, progress=False)
    model = GP(model.kernel, model.likelihood, "zero", rule).bind(1)
    ends = [np.array([0.0, -4.0]), np.array([1.5, -1.0]), np.array([1.5, -1.001])]
    runs = [Run("random", end, end, value, True, 9, 0, "") for end, value in zip(ends, (-9.0, -8.0, -8.1))]
    seen = []

    def watched(target, ends, unit):
        seen.append(ends)
        return find_modes(target, ends, unit)

    monkeypatch.setattr(samplers, "find_modes", watched)
    rows = TrainingRows.of(X, y, None, merge=False)
    choose(model, SearchResult(model.replace(ends[1]), -8.0, tuple(runs)), rows)
    np.testing.assert_array_equal(seen, [[ends[1], ends[0]]])  # the best first, none of them twice
    alone = MCMC(n_draws=20, warmup=20, hyperparameters=False, warn=False, progress=False)
    alone.sample_posterior(model, X, y, ends=ends)
    assert len(seen) == 1  # nothing to look for where hyperparameters keep their values
