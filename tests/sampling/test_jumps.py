"""Jumps through Gaussians: estimates without bias, and a joint distribution that stays as it was."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from cavity import GP, Param
from cavity.inference.base import Approximation
from cavity.inference.ep import EP
from cavity.kernels import Matern
from cavity.latent.sites import Sites
from cavity.likelihoods import MixtureOfGaussians, StudentT
from cavity.parameters.priors import Beta, LogNormal
from cavity.sampling import mode_jumping as module
from cavity.sampling.mode_jumping import Jumps, Near
from cavity.sampling.modes import Modes
from cavity.sampling.outlier_gibbs import GibbsChain, _settings, gibbs
from cavity.sampling.scale_mixing import SCALE_MIXINGS
from cavity.sampling.scale_mixture import ScaleMixtureTarget, sample_noise_variances

X = np.array([[0.0], [0.4], [2.0]])


class Poor:
    """Half of EP's sites and an evidence that is wrong by a factor: jumps must not depend on it."""

    def infer(self, prior, likelihood, y):
        found = EP(effort=0.0).infer(prior, likelihood, y)
        sites = Sites(0.5 * found.sites.shift, 0.5 * found.sites.precision)
        wrong = found.log_evidence + 2.0 * np.log(float(likelihood.scale))
        return Approximation(found.process, wrong, found.status, sites)


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
    near = Jumps(Modes(np.zeros((2, 0)), np.zeros((0, 0))), model, points, y).near(np.zeros(0))
    assert near is not None
    grid = np.linspace(-5, 5, 801)
    F = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1).reshape(-1, 2)
    K = covariance(1.0)[:2, :2]
    log_p = stats.t.logpdf((y - F) / 0.3, 3.0).sum(axis=1) - 2 * np.log(0.3)
    log_p += stats.multivariate_normal(np.zeros(2), K).logpdf(F)
    p = np.exp(log_p)
    truth = np.log(p.sum() * (grid[1] - grid[0]) ** 2) - near.log_evidence
    rng = np.random.default_rng(0)
    up = np.array([near.up(rng)[0] for _ in range(700)])
    exact = F[rng.choice(len(F), 700, p=p / p.sum())]
    down = np.array([near.down(f, rng) for f in exact])
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
    monkeypatch.setattr(module, "SHARE", 1.0)
    monkeypatch.setattr(module, "RULE", rule)
    monkeypatch.setattr(module, "STEPS", 3)
    target = ScaleMixtureTarget(student_model(), X, np.zeros(3))
    modes = Modes(np.array([[0.6, -0.8], [-0.9, -1.5]]), np.diag([0.8, 0.5]))
    mixing = SCALE_MIXINGS[StudentT]
    rng = np.random.default_rng(2)
    before, after, moved = [], [], 0
    for _ in range(700):
        theta = np.array([0.0, -1.0]) + np.array([1.0, 0.7]) * rng.standard_normal(2)
        likelihood = target.model.replace(theta).likelihood
        log_v = np.log(1.5 * float(likelihood.scale) ** 2 / rng.standard_gamma(1.5, 3))
        f = np.linalg.cholesky(covariance(np.exp(theta[0]))) @ rng.standard_normal(3)
        target.y = f + np.exp(0.5 * log_v) * rng.standard_normal(3)
        position = np.concatenate([mixing.white(likelihood, log_v), theta])
        jumps = Jumps(modes, target.model, X, target.y)
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
    monkeypatch.setattr(module, "SHARE", 1.0)
    monkeypatch.setattr(module, "RULE", Poor())
    monkeypatch.setattr(module, "STEPS", 3)
    rng = np.random.default_rng(3)
    modes = Modes(np.array([[0.6, -1.3, -0.9], [-0.9, -0.8, -1.6]]), np.diag([0.8, 0.6, 0.4]))
    settings = _settings(mixture_model(), X, np.zeros(3), True, 0, 1, 1, modes)
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
        chain._renew()
        moved += chain._jump()
        for rows, at, flags in ((before, theta, c), (after, chain.theta, chain.target.indicators)):
            gap = (settings.y[0] - settings.y[1]) ** 2
            rows.append([*at, *flags, at[0] * gap, flags[0] * gap, at[2] * gap, at[0] * flags.sum()])
    assert moved > 60
    unchanged(before, after)


def test_a_bad_place_is_refused_and_attempts_are_told(monkeypatch):
    monkeypatch.setattr(module, "SHARE", 1.0)
    y = np.array([0.3, -0.2, 1.0])
    model = student_model()
    far = Modes(np.array([[0.0, -1.0], [0.0, 900.0]]), np.eye(2))
    trace = sample_noise_variances(model, X, y, draws=30, warmup=20, chains=2, rng=0, progress=False)
    assert "jumps" not in trace.info
    jumps = Jumps(far, ScaleMixtureTarget(model, X, y).model, X, y)
    assert jumps.near(np.array([0.0, 900.0])) is None  # a scale that overflows
    assert isinstance(jumps.near(np.array([0.0, -1.0])), Near)
    assert jumps.sometimes(np.array([0.0, -1.0]), lambda: 1 / 0, np.random.default_rng(0)) is None
    assert (jumps.attempts, jumps.accepted) == (1, 0)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_samplers_start_at_all_modes_and_tell_of_jumps(n_jobs):
    rng = np.random.default_rng(0)
    points = np.linspace(0, 4, 12)[:, None]
    y = np.sin(points[:, 0]) + 0.1 * rng.standard_normal(12)
    y[5] += 3.0
    modes = Modes(np.array([[0.3, -0.9, -1.3], [-1.8, -0.5, -0.6]]), 0.3 * np.eye(3))
    options = {"draws": 20, "warmup": 10, "chains": 4, "rng": 0, "progress": False, "modes": modes}
    trace = gibbs(mixture_model(), points, y, n_jobs=n_jobs, **options)
    assert trace.info["modes"] == 2
    assert trace.info["jump_attempts"] > 0
    assert 0 <= trace.info["jumps"] <= trace.info["jump_attempts"]
    if n_jobs == 1:
        two = Modes(modes.places[:, [0, 2]], 0.3 * np.eye(2))
        drawn = sample_noise_variances(student_model(), points, y, **(options | {"modes": two}))
        assert drawn.info["modes"] == 2
        assert drawn.info["jump_attempts"] > 0
