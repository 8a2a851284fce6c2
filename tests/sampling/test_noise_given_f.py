"""Noise parameters and variances given a draw of f: conditionals by quadrature, and what the move leaves as it was."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from cavity import GP, Param
from cavity.kernels import Matern
from cavity.likelihoods import Laplace, MixtureOfGaussians, StudentT
from cavity.parameters.priors import LogNormal
from cavity.sampling.diagnostics import ess_bulk, mcse_mean, mcse_sd
from cavity.sampling.hmc import HMCOptions, hamiltonian
from cavity.sampling.noise_given_f import draw_residuals, noise_entries
from cavity.sampling.scale_mixture import SCALE_MIXTURES, ScaleMixtureTarget
from cavity.sampling.targets import FunctionTarget

DRAWS = 40_000


def log_prior_of_log_variance(likelihood, t):
    """Density of log v under the mixing distribution, by scipy."""
    v, s = np.exp(t), float(likelihood.scale)
    if isinstance(likelihood, Laplace):
        return stats.expon.logpdf(v, scale=2 * s**2) + t
    nu = float(likelihood.df)
    return stats.invgamma.logpdf(v, 0.5 * nu, scale=0.5 * nu * s**2) + t


@pytest.mark.parametrize("residual", [0.0, 1e-9, 0.05, 0.4, -3.0, 500.0])
@pytest.mark.parametrize("likelihood", [StudentT(0.3, 2.5), StudentT(0.02, 0.8), Laplace(0.3), Laplace(40.0)])
def test_variances_given_residuals(likelihood, residual):
    t = np.linspace(-60, 40, 200_001)
    log_p = log_prior_of_log_variance(likelihood, t) + stats.norm.logpdf(residual, scale=np.exp(0.5 * t))
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    mean = p @ t
    sd = np.sqrt(p @ (t - mean) ** 2)
    found = SCALE_MIXTURES[type(likelihood)].draw_given_residuals(
        likelihood, np.full(DRAWS, residual), np.random.default_rng(3)
    )
    assert abs(found.mean() - mean) < 4.5 * sd / np.sqrt(DRAWS)
    assert stats.kstest(found, lambda x: np.interp(x, t, np.cumsum(p))).pvalue > 1e-4


def test_residuals_are_draws_given_the_data():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(0, 3, (4, 1)), rng.normal(size=4)
    variances = np.array([0.01, 0.3, 2.0, 1e-6])
    model = GP(0.8 * Matern(1.0, nu=1.5), StudentT(0.2, 3.0), "constant").bind(1)
    prior = model.prior(X)
    K, m = prior.covariance, prior.mean
    mean = y - m - K @ np.linalg.solve(K + np.diag(variances), y - m)
    covariance = K - K @ np.linalg.solve(K + np.diag(variances), K)
    found = np.array([draw_residuals(model, X, y, variances, rng) for _ in range(6000)])
    sd = np.sqrt(np.diag(covariance))
    assert np.all(np.abs(found.mean(axis=0) - mean) < 4.5 * sd / np.sqrt(6000))
    scaled = np.cov(found.T) / np.outer(sd, sd)
    np.testing.assert_allclose(scaled, covariance / np.outer(sd, sd), atol=5 * np.sqrt(2 / 6000))


@pytest.mark.parametrize("family", ["student-t", "laplace"])
def test_the_move_leaves_the_joint_distribution_as_it_was(family):
    """Parameters and variances from the prior, data from the model: after the move they have the same distribution."""
    scale = Param(0.3, prior=LogNormal(-1.2, 0.6))
    noise = (
        StudentT(scale, Param(3.0, prior=LogNormal(1.0, 0.5))) if family == "student-t" else Laplace(scale)
    )
    X = np.array([[0.0], [0.3], [2.0]])
    fixed = Param(1.0, fixed=True) * Matern(Param(1.0, fixed=True), nu=1.5)
    target = ScaleMixtureTarget(GP(fixed, noise), X, np.zeros(3))
    K = target.model.prior(X).covariance
    rng, root = np.random.default_rng(1), np.linalg.cholesky(K)
    before, after = [], []
    for _ in range(1500):
        theta = np.array([-1.2 + 0.6 * rng.standard_normal(), 1.0 + 0.5 * rng.standard_normal()])[: target.p]
        likelihood = target.model.replace(theta).likelihood
        if family == "student-t":
            nu, s = float(likelihood.df), float(likelihood.scale)
            log_v = np.log(0.5 * nu * s**2 / rng.standard_gamma(0.5 * nu, 3))
        else:
            log_v = np.log(2 * float(likelihood.scale) ** 2 * rng.standard_exponential(3))
        noise_now = np.exp(0.5 * log_v) * rng.standard_normal(3)
        target.y = root @ rng.standard_normal(3) + noise_now
        position = np.concatenate([SCALE_MIXTURES[type(likelihood)].to_white(likelihood, log_v), theta])
        moved = target.refresh(position[None], rng)[0]
        assert not np.allclose(moved, position)
        for rows, z in ((before, position), (after, moved)):
            rows.append([*z, z[0] * z[3], z[0] * z[1], z[0] * target.y[0] ** 2, z[3] * target.y[0] ** 2])
    for old, new in zip(np.array(before).T, np.array(after).T):
        assert stats.ks_2samp(old, new).pvalue > 1e-4
        difference = np.clip(new, -50, 50) - np.clip(old, -50, 50)
        assert abs(difference.mean()) < 4.5 * difference.std() / np.sqrt(len(difference))


def test_which_entries_belong_to_the_noise():
    shared = Param(0.5, tie="shared")
    model = GP(1.0 * Matern(1.0, nu=1.5), StudentT(0.2, 3.0), "constant").bind(1)
    assert [n for n, own in zip(model.names, noise_entries(model)) if own] == [
        "studentt.scale",
        "studentt.df",
    ]
    half = GP(1.0 * Matern(1.0, nu=1.5), StudentT(0.2, Param(3.0, fixed=True))).bind(1)
    assert noise_entries(half).sum() == 1
    tied = GP(1.0 * Matern(shared, nu=1.5), MixtureOfGaussians(0.1, shared, 5.0)).bind(1)
    assert sum(noise_entries(tied)) == 2  # fraction and inflation; the scale moves with the kernel


# --- moves between trajectories -----------------------------------------------------------------------------


def two_hills(U):
    """Equal mixture of N(-8, 1) and N(8, 1)."""
    a, b = -0.5 * (U[:, 0] + 8) ** 2, -0.5 * (U[:, 0] - 8) ** 2
    top = np.maximum(a, b)
    value = top + np.log(np.exp(a - top) + np.exp(b - top))
    share = np.exp(b - value)
    return value, -(U - 8 * (2 * share[:, None] - 1))


def test_moves_between_trajectories_join_what_they_cannot():
    target, start = FunctionTarget(two_hills, dim=1), np.full((4, 1), 8.0)
    common = {"n_draws": 800, "warmup": 200, "rng": 0, "progress": False}
    alone = hamiltonian(target, start, **common)
    assert alone.pooled.min() > 0

    def mirrored(U, rng):
        return U * rng.choice([-1.0, 1.0], (len(U), 1))

    joined = hamiltonian(target, start, between=mirrored, **common)
    assert abs(np.mean(joined.pooled > 0) - 0.5) < 4.5 * 0.5 / np.sqrt(3200)
    assert abs(np.abs(joined.pooled).mean() - 8.0) < 0.15
    assert joined.evaluations > alone.evaluations


def test_moves_to_where_there_is_no_density_are_not_made():
    """The positive half line, with a gamma density: every move to the other side is refused."""

    def gamma(U):
        inside, x = U[:, 0] > 0, np.abs(U)
        return np.where(inside, 4 * np.log(x[:, 0]) - x[:, 0], -np.inf), np.where(
            inside[:, None], 4 / x - 1, 0.0
        )

    trace = hamiltonian(
        FunctionTarget(gamma, dim=1),
        np.full((4, 1), 5.0),
        HMCOptions(length=4.0),
        n_draws=500,
        warmup=200,
        rng=0,
        between=lambda U, rng: -U,
        progress=False,
    )
    x = trace.positions
    assert trace.pooled.min() > 0
    assert ess_bulk(x).min() > 400
    assert np.all(np.abs(x.mean((0, 1)) - 5.0) < 4 * mcse_mean(x))
    assert np.all(np.abs(x.std((0, 1)) - np.sqrt(5.0)) < 4 * mcse_sd(x))
