"""The posterior process away from the data: blocks, derivatives, draws, components."""

from __future__ import annotations

import numpy as np
import pytest

from cavity.gp import GP
from cavity.kernels import SE, Linear, Matern, Periodic, RationalQuadratic, White
from cavity.latent import posterior_process as module
from cavity.latent.dense import DensePrior
from cavity.latent.prior_times_sites import Conditioned
from cavity.latent.sites import Sites
from cavity.likelihoods import Gaussian
from cavity.means.basis import Basis
from cavity.means.functions import FunctionMean
from cavity.means.functions import Linear as LinearMean

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (20, 2))
Y = np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.1 * RNG.standard_normal(20)
POINTS = RNG.uniform(-2.5, 2.5, (9, 2))

KERNELS = {
    "se": 1.3 * SE([0.8, 1.4]),
    "sum": 1.3 * SE(0.8) + 0.5 * RationalQuadratic([1.0, 2.0], alpha=0.7) + Linear(0.4, 0.2),
    "product on columns": SE(0.8).on(0) * Periodic(SE(1.0), period=2.3).on(1) + 0.3 * Matern(1.0, nu=2.5),
}
MEANS = {
    "zero": None,
    "linear": LinearMean(0.3, [0.5, -0.2]),
    "function": FunctionMean(lambda Z: np.sin(Z[:, 1])),
    "vague basis": Basis("quadratic"),
    "finite basis": Basis("linear", 0.3, 2.0),
    "basis and mean": Basis("linear", 0.3, 2.0) + LinearMean(0.1, [0.2, 0.3]),
}


def process(kernel="se", mean="zero", targets=1):
    y = Y if targets == 1 else np.column_stack([Y, Y**2])
    return GP(KERNELS[kernel], Gaussian(0.05), mean=MEANS[mean]).condition(X, y).process


def site_process(kernel="se", mean="linear"):
    tau = np.where(np.arange(20) % 4 == 0, -0.1, 2.0)
    prior = DensePrior(KERNELS[kernel], X, MEANS[mean])
    return Conditioned(prior, Sites(np.cos(np.arange(20.0)), tau)).process()


# --- blocks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("targets", [1, 2])
def test_blocks_of_bounded_memory_change_nothing(mean, targets, monkeypatch):
    p = process(mean=mean, targets=targets)
    results = [f(POINTS) for f in (p.mean, p.variance, p.mean_gradient, p.variance_gradient)]
    monkeypatch.setattr(module, "BLOCK_DOUBLES", 45)  # two test points at a time
    assert len(list(p._blocks(POINTS))) == 5
    for f, whole in zip((p.mean, p.variance, p.mean_gradient, p.variance_gradient), results):
        np.testing.assert_allclose(f(POINTS), whole, rtol=1e-12, atol=1e-13)


def test_blocks_bound_the_cross_covariance(monkeypatch):
    p = process()
    monkeypatch.setattr(module, "BLOCK_DOUBLES", 100)
    largest = 0

    original = type(p.kernel)._block

    def spy(self, a, b):
        nonlocal largest
        K = original(self, a, b)
        largest = max(largest, K.size)
        return K

    monkeypatch.setattr(type(p.kernel), "_block", spy)
    p.variance(np.zeros((50, 2)))
    assert largest <= 100


# --- moments ------------------------------------------------------------------------------------------------


def test_variances_are_the_diagonal_of_the_covariance():
    for p in (process("sum", "vague basis"), site_process("sum")):
        np.testing.assert_allclose(p.variance(POINTS), np.diag(p.covariance(POINTS)), rtol=1e-10)


def test_no_variance_is_negative_however_singular_the_problem():
    """Noise at the last rounding of the signal, at and between crowded points."""
    crowded = np.linspace(0, 1, 60)[:, None]
    p = GP(1e6 * SE(5.0), Gaussian(1e-9)).condition(crowded, np.sin(crowded[:, 0])).process
    points = np.vstack([crowded, np.linspace(-0.2, 1.2, 301)[:, None]])
    assert np.all(p.variance(points) >= 0)
    assert np.all(np.diag(p.covariance(points)) >= 0)
    assert np.all(p.component_variance(p.kernel, points) >= 0)


def test_prediction_needs_the_same_columns():
    with pytest.raises(ValueError, match="X has 3 columns, but the model was conditioned on 2"):
        process().mean(np.zeros((4, 3)))


# --- derivatives in the inputs ------------------------------------------------------------------------------


def numerical(f, Z):
    """Central differences of fourth order, one column at a time."""
    columns = []
    for d in range(Z.shape[1]):
        e = np.zeros(Z.shape[1])
        e[d] = 1e-3
        columns.append((8 * (f(Z + e) - f(Z - e)) - (f(Z + 2 * e) - f(Z - 2 * e))) / 12e-3)
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("mean", MEANS)
def test_gradients_of_mean_and_variance(kernel, mean):
    p = process(kernel, mean)
    np.testing.assert_allclose(p.mean_gradient(POINTS), numerical(p.mean, POINTS), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(
        p.variance_gradient(POINTS), numerical(p.variance, POINTS), rtol=1e-6, atol=1e-7
    )


def test_gradients_with_sites_of_either_sign():
    p = site_process("sum")
    np.testing.assert_allclose(p.mean_gradient(POINTS), numerical(p.mean, POINTS), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(
        p.variance_gradient(POINTS), numerical(p.variance, POINTS), rtol=1e-6, atol=1e-7
    )


# --- draws --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mean", ["zero", "vague basis"])
def test_joint_draws_have_mean_and_covariance(mean):
    p = process("sum", mean)
    size = 20_000
    draws = p.sample(POINTS, size, rng=1)
    assert draws.shape == (size, 9)
    cov = p.covariance(POINTS)
    z = (draws.mean(axis=0) - p.mean(POINTS)) / np.sqrt(np.diag(cov) / size)
    assert np.max(np.abs(z)) < 4.5
    centered = draws - p.mean(POINTS)
    # standard error of a sample covariance: sqrt((c_ii c_jj + c_ij^2) / size)
    error = np.sqrt((np.outer(np.diag(cov), np.diag(cov)) + cov**2) / size)
    assert np.max(np.abs(centered.T @ centered / size - cov) / error) < 5.0


def test_draws_of_several_targets_are_independent_given_the_kernel():
    p = process(targets=2)
    draws = p.sample(POINTS, 20_000, rng=1)
    assert draws.shape == (20_000, 9, 2)
    sd = np.sqrt(p.variance(POINTS))
    z = (draws - p.mean(POINTS)) / sd[:, None]
    assert abs(np.mean(z[:, 0, 0] * z[:, 0, 1])) < 4.5 / np.sqrt(20_000)
    np.testing.assert_allclose(z.std(axis=0), 1.0, atol=4.5 / np.sqrt(40_000))


def test_draws_where_nothing_is_uncertain():
    """At the data of a process without noise the covariance is nothing but rounding."""
    x = np.linspace(0, 3, 8)[:, None]
    y = np.sin(x[:, 0])
    p = GP(SE(1.0), Gaussian(1e-18)).condition(x, y).process
    draws = p.sample(x, 5, rng=0)
    np.testing.assert_allclose(draws, np.tile(y, (5, 1)), atol=1e-5)


def test_draws_repeat_with_the_seed():
    p = process()
    np.testing.assert_array_equal(p.sample(POINTS, 2, rng=7), p.sample(POINTS, 2, rng=7))
    assert not np.array_equal(p.sample(POINTS, 2, rng=7), p.sample(POINTS, 2, rng=8))


# --- components ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mean", ["zero", "vague basis", "finite basis"])
def test_components_of_a_sum(mean):
    """Against dense algebra: f_j given the data, where y = sum_j f_j + h'beta + noise."""
    p = process("sum", mean)
    terms = p.kernel.terms
    total = sum(p.component_mean(t, POINTS) for t in terms)
    rest = p._prior_mean(POINTS)
    np.testing.assert_allclose(total + rest, p.mean(POINTS), atol=1e-10)
    A = p.kernel(X) + 0.05 * np.eye(20)
    R = np.linalg.inv(A)
    if mean != "zero":
        basis = MEANS[mean].bind(2)
        H = basis.features(X)
        R = R - R @ H @ np.linalg.solve(basis.prior_root.T @ basis.prior_root + H.T @ R @ H, H.T @ R)
    for term in terms:
        cross = term(X, POINTS)
        np.testing.assert_allclose(
            p.component_variance(term, POINTS),
            term.diag(POINTS) - np.sum(cross * (R @ cross), axis=0),
            atol=1e-9,
        )


def test_component_of_white_noise_is_not_predictable():
    kernel = 1.3 * SE(0.8) + White(0.2)
    p = GP(kernel, Gaussian(0.05)).condition(X, Y).process
    np.testing.assert_allclose(p.component_mean(kernel.terms[1], X), 0.0)
    np.testing.assert_allclose(p.component_variance(kernel.terms[1], X), 0.2)
