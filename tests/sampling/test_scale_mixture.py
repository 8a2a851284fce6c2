"""Noise variances of Student-t and Laplace noise: gradients, quadrature, and sampling of f itself."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import expon, gamma, norm

from cavity import GP, Param
from cavity.inference.base import UnsupportedPairError
from cavity.kernels import SE, Matern
from cavity.likelihoods import Gaussian, Laplace, StudentT
from cavity.parameters.priors import LogNormal
from cavity.sampling.diagnostics import mcse_mean, mcse_sd
from cavity.sampling.evidence_given_noise import evidence_given_noise
from cavity.sampling.mcmc import MCMC
from cavity.sampling.scale_mixture import (
    ScaleMixtureTarget,
    laplace_mixing,
    laplace_white,
    sample_noise_variances,
    student_t_mixing,
    student_t_white,
)


def data(n=6):
    X = np.linspace(0, 3, n)[:, None]
    y = np.sin(X[:, 0])
    y[n // 2] += 1.5
    return X, y


@pytest.mark.parametrize("likelihood", [StudentT(0.2, 3.0), Laplace(0.3)])
def test_gradient(likelihood):
    X, y = data()
    target = ScaleMixtureTarget(GP(1.0 * Matern(1.0, nu=1.5), likelihood, "constant"), X, y)
    U = target.start(target.whitened(), 2, np.random.default_rng(0))
    _, gradient = target.value_and_gradient(U)
    h = 1e-5
    for u, g in zip(U, gradient):
        numeric = [
            (target.log_density((u + h * e)[None])[0] - target.log_density((u - h * e)[None])[0]) / (2 * h)
            for e in np.eye(target.dim)
        ]
        np.testing.assert_allclose(g, numeric, rtol=2e-6, atol=2e-6)
    assert target.log_density(np.full((1, target.dim), 800.0))[0] == -np.inf


@pytest.mark.parametrize("df", [1e7, 1e10])
def test_white_coordinates_are_normal_for_many_degrees_of_freedom(df):
    """The log of a gamma variable with a large shape; no difference of large numbers may be left."""
    e = np.linspace(-3, 3, 7)
    found = student_t_mixing(StudentT(0.4, df), e)
    assert abs(found.log_prior - norm.logpdf(e).sum()) < 50 / np.sqrt(df)
    np.testing.assert_allclose(found.d_white, -e, atol=50 / np.sqrt(df))
    np.testing.assert_allclose(found.log_variance, 2 * np.log(0.4), atol=10 / np.sqrt(df))
    assert abs(found.d_flat[1]) < 1e-6


def test_what_rounding_would_make_of_the_density_is_refused():
    """Degrees of freedom beyond measure, and variances that leave a singular matrix."""
    X, y = data(25)
    model = GP(1.0 * SE(3.0), StudentT(0.01, 0.4), "constant")
    target = ScaleMixtureTarget(model, X, y)
    position = np.concatenate([np.zeros(25), target.model.theta])
    assert np.isfinite(target.log_density(position[None])[0])
    many = position.copy()
    many[-1] = np.log(1e140)
    small = position.copy()
    small[:25] = 6.0  # variances of 1e-16 of the signal
    assert np.all(np.isneginf(target.log_density(np.stack([many, small]))))
    with pytest.raises(np.linalg.LinAlgError, match="too small"):
        evidence_given_noise(target.model, X, y, np.full(25, 1e-14))


@pytest.mark.parametrize("df", [0.7, 4.0, 60.0])
def test_white_coordinates_of_student_t(df):
    """Density by scipy's gamma and the change of variables; the inverse map; unit scale."""
    likelihood = StudentT(0.4, df)
    e = np.linspace(-2, 2, 7)
    found = student_t_mixing(likelihood, e)
    np.testing.assert_allclose(student_t_white(likelihood, found.log_variance), e, atol=1e-12)
    g = 0.5 * df * 0.4**2 / np.exp(found.log_variance)
    expected = gamma.logpdf(g, 0.5 * df) + np.log(g) + np.log(-found.by_white)
    assert abs(found.log_prior - expected.sum()) < 1e-9 * max(1.0, abs(expected.sum()))
    grid = np.linspace(-60, 30, 200001)
    log_p = gamma.logpdf(
        0.5 * df * 0.4**2 / np.exp(student_t_mixing(likelihood, grid).log_variance), 0.5 * df
    )
    v = student_t_mixing(likelihood, grid)
    p = np.exp(log_p + np.log(0.5 * df * 0.4**2) - v.log_variance + np.log(-v.by_white))
    step = grid[1] - grid[0]
    assert abs(p.sum() * step - 1) < 1e-3
    assert abs((p * grid).sum() * step) < 2e-2
    assert abs((p * grid**2).sum() * step - 1) < 5e-2


def test_white_coordinates_of_laplace():
    likelihood = Laplace(0.3)
    e = np.linspace(-3, 1, 5)
    found = laplace_mixing(likelihood, e)
    np.testing.assert_allclose(laplace_white(likelihood, found.log_variance), e, atol=1e-12)
    v = np.exp(found.log_variance)
    expected = expon.logpdf(v, scale=2 * 0.3**2) + np.log(v)
    assert abs(found.log_prior - expected.sum()) < 1e-10


def quadrature_mean(K, y, likelihood):
    """Posterior mean of f (n = 2) on a grid."""
    grid = np.linspace(-6, 6, 1201)
    F = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1).reshape(-1, 2)
    log_p = likelihood.log_prob(y, F).sum(axis=1) - 0.5 * np.einsum("ij,ij->i", F, np.linalg.solve(K, F.T).T)
    p = np.exp(log_p - log_p.max())
    return p @ F / p.sum()


@pytest.mark.parametrize("likelihood", [StudentT(0.3, 3.0), Laplace(0.4)])
def test_function_against_quadrature(likelihood):
    X, y = np.array([[0.0], [1.0]]), np.array([0.5, 3.0])
    d = np.sqrt(3) * np.abs(X - X.T)
    exact = quadrature_mean((1 + d) * np.exp(-d), y, likelihood)
    drawn = sample_noise_variances(
        GP(1.0 * Matern(1.0, nu=1.5), likelihood),
        X,
        y,
        n_draws=400,
        warmup=150,
        chains=2,
        rng=0,
        hyperparameters=False,
        progress=False,
    )
    K = (1 + d) * np.exp(-d)
    v = drawn.noise
    f = np.array([K @ np.linalg.solve(K + np.diag(one), y) for one in v.reshape(-1, 2)]).reshape(v.shape)
    error = mcse_mean(f)
    assert np.all(error < 0.05)
    assert np.all(np.abs(f.mean(axis=(0, 1)) - exact) < 4.5 * error)


def test_against_elliptical_slice_sampling_of_the_function():
    X, y = data(6)
    model = GP(1.0 * Matern(1.0, nu=1.5), StudentT(0.2, 3.0))
    common = {"chains": 2, "hyperparameters": False, "progress": False, "warn": False}
    mixed = MCMC(300, 120, rng=1, max_draws=600, **common)
    sliced = MCMC(3000, 200, rng=2, method="elliptical", max_draws=6000, **common)
    a, b = (GP(model.kernel, model.likelihood, inference=rule).condition(X, y) for rule in (mixed, sliced))
    assert (a.draws.method, b.draws.method) == ("scale-mixture", "elliptical")
    means, variances = a.process.moments_of_draws(X)
    f = b.draws.latent
    for ours, theirs in ((means, f), (means**2 + variances, f**2)):  # first and second moments
        ours = ours.reshape(2, 300, 6)
        error = np.hypot(mcse_mean(ours), mcse_mean(theirs))
        assert np.all(error < 0.25)
        assert np.all(np.abs(ours.mean(axis=(0, 1)) - theirs.mean(axis=(0, 1))) < 4 * error)


@pytest.mark.parametrize("family", [StudentT, Laplace])
def test_hyperparameters_against_quadrature(family):
    """Signal variance and noise scale given two observations far apart: p(y | theta) on a grid of each f."""
    X, y = np.array([[0.0], [20.0]]), np.array([0.3, 2.5])
    df = (3.0,) if family is StudentT else ()
    noise = Param(0.4, prior=LogNormal(np.log(0.4), 0.7)), *(Param(value, fixed=True) for value in df)
    model = GP(Param(1.0, prior=LogNormal(0.0, 0.7)) * SE(Param(1.0, fixed=True)), family(*noise))
    found = sample_noise_variances(model, X, y, n_draws=600, warmup=100, chains=2, rng=0, progress=False)

    a, b = np.linspace(-3.5, 3.5, 57), np.log(0.4) + np.linspace(-3.5, 3.5, 57)
    f = np.linspace(-30, 30, 24_001)
    prior = norm.pdf(f, 0.0, np.exp(0.5 * a)[:, None])
    p = np.multiply.outer(norm.pdf(a, 0.0, 0.7), norm.pdf(b, np.log(0.4), 0.7))
    for j in range(57):
        for target in y:
            p[:, j] *= prior @ np.exp(family(np.exp(b[j]), *df).log_prob(np.full(len(f), target), f))
    p /= p.sum()
    for k, (grid, mass) in enumerate([(a, p.sum(axis=1)), (b, p.sum(axis=0))]):
        x = found.trace.positions[:, :, k]
        mean = mass @ grid
        assert abs(x.mean() - mean) < 4 * mcse_mean(x)
        assert abs(x.std() - np.sqrt(mass @ (grid - mean) ** 2)) < 4 * mcse_sd(x)


def test_scale_and_degrees_of_freedom_are_sampled():
    X, y = data()
    likelihood = StudentT(Param(0.2, prior=LogNormal(-1.5, 0.5)), Param(4.0, prior=LogNormal(1.3, 0.5)))
    posterior = GP(
        Param(1.0, fixed=True) * Matern(Param(1.0, fixed=True), nu=1.5),
        likelihood,
        inference=MCMC(40, 40, 2, rng=0, warn=False, progress=False),
    ).condition(X, y)
    assert posterior.trace.names == ("studentt.scale", "studentt.df")
    assert np.all(posterior.natural > 0)
    assert posterior.outlier_probability.argmax() == 3


def test_other_noise_is_refused():
    with pytest.raises(UnsupportedPairError, match="StudentT or Laplace"):
        ScaleMixtureTarget(GP(Matern(1.0, nu=1.5), Gaussian()), *data())
