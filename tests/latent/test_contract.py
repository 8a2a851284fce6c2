"""One contract for every representation: derivative identities, pullbacks, whitening, the process, properness."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from cavity.kernels import SE, Matern
from cavity.latent.base import Capability, CapabilityError, ImproperPosteriorError, Inputs
from cavity.latent.committee import Committee
from cavity.latent.dense import Dense
from cavity.latent.inducing import Inducing
from cavity.latent.latent_neighbors import LatentNeighbors
from cavity.latent.prior_times_sites import Conditioned
from cavity.latent.sites import Sites
from cavity.means import Linear
from tests.latent.explicit import Explicit
from tests.latent.naive import Naive

RNG = np.random.default_rng(0)
N = 10
X = RNG.standard_normal((N, 2))
Z = np.random.default_rng(7).standard_normal((5, 2))
FAMILY = {
    "fitc": {"share": 1.0},
    "vfe": {"share": 0.0, "weight": 1.0},
    "tight": {"share": 0.0, "weight": 1.0, "curve": 1.0},
    "dtc": {"share": 0.0},
    "sor": {"share": 0.0, "predicts_prior": False},
    0.3: {"share": 0.3, "weight": 0.7, "curve": 0.3},
}
REPRESENTATIONS = {"dense": Dense(), "naive": Naive(), "committee": Committee(4)}
REPRESENTATIONS |= {"latent neighbors": LatentNeighbors(N - 1, scales=[1.0, 1.0], nugget=0.0)}
REPRESENTATIONS |= {f"inducing {kind}": Inducing(kind=kind, inputs=Z, learn=True) for kind in FAMILY}
REPRESENTATIONS |= {f"all rows induce, {kind}": Inducing(kind=kind, inputs=X) for kind in ("fitc", "vfe")}
KERNEL = 1.3 * SE([0.8, 1.5]) + 0.3 * Matern(1.0, nu=1.5)
MEAN = Linear(0.4, [0.3, -0.7])
SHIFT = RNG.standard_normal(N)
PRECISIONS = {
    "positive": np.exp(RNG.standard_normal(N)),
    "strong and weak": 10.0 ** RNG.uniform(-6, 4, N),
    "mixed": np.where(np.arange(N) % 4 == 0, -0.25, 1.5),
    "mixed with zeros": np.array([0, -0.2, 3, 0, 1, -0.1, 2, 0, 5, 1.0]),
    "negative": np.full(N, -0.05),
    "none": np.zeros(N),
}

every = pytest.mark.parametrize("representation", REPRESENTATIONS.values(), ids=REPRESENTATIONS)
full_rank = pytest.mark.parametrize(
    "representation",
    [r for r in REPRESENTATIONS.values() if not isinstance(r, Inducing) or r.kind == "fitc"],
    ids=lambda r: repr(r)[:8],
)
any_sign = pytest.mark.parametrize("name", PRECISIONS)
comparable = pytest.mark.parametrize("name", [name for name in PRECISIONS if name != "strong and weak"])
"""Differences in precisions that span ten orders of magnitude say nothing."""

both_ways = pytest.mark.parametrize("transient", [False, True])


def truth(representation, kernel=None) -> Explicit:
    kernel = kernel or KERNEL
    if isinstance(representation, Committee):
        return Explicit(kernel, parts=representation.partition)
    if isinstance(representation, Inducing):
        return Explicit(kernel, representation.inputs, **FAMILY[representation.kind])
    return Explicit(kernel)


def prior_of(representation, kernel=None, mean=None):
    return representation.prior(kernel or KERNEL, mean or MEAN, Inputs(X))


def given(representation, tau, shift=SHIFT, kernel=None, mean=None, transient=False) -> Conditioned:
    return prior_of(representation, kernel, mean).given(Sites(shift, tau), transient=transient)


def numerical(f, x, h=1e-6) -> np.ndarray:
    out = np.empty(len(x))
    for i in range(len(x)):
        e = np.zeros(len(x))
        e[i] = h * max(1.0, abs(x[i]))
        out[i] = (f(x + e) - f(x - e)) / (2 * e[i])
    return out


# --- moments ------------------------------------------------------------------------------------------------


@every
@any_sign
@both_ways
def test_moments_and_normalizer_against_explicit_matrices(representation, name, transient):
    tau, m, known = PRECISIONS[name], MEAN(X), truth(representation)
    sigma, spread, R = known.sigma(X, tau), known.spread(X, tau), known.R(X, tau)
    b = SHIFT - tau * m
    mean = m + sigma @ b
    var = np.diag(sigma) + spread
    q = given(representation, tau, transient=transient)
    scale = np.sqrt(var)
    np.testing.assert_allclose(q.mean / scale, mean / scale, atol=1e-8)
    np.testing.assert_allclose(q.var, var, rtol=1e-8)
    np.testing.assert_allclose(q.covariance, sigma + np.diag(spread), atol=1e-9)
    np.testing.assert_allclose(q.conditioning.unexplained, tau - tau**2 * var, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(q.conditioning.diagonal_of_R, np.diag(R), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(q.conditioning.matrix(), R, rtol=1e-6, atol=1e-6 * np.abs(R).max())
    U = RNG.standard_normal((N, 2))
    np.testing.assert_allclose(q.conditioning.project(U)[1], sigma @ U, atol=1e-8)
    np.testing.assert_allclose(q.conditioning.apply(U), R @ U, atol=1e-6 * np.abs(R).max())
    log_z = 0.5 * (b @ sigma @ b - known.log_det(X, tau)) + SHIFT @ m - 0.5 * tau @ m**2
    assert q.log_normalizer == pytest.approx(log_z, rel=1e-9, abs=1e-8)


@full_rank
@any_sign
def test_divergence_from_the_prior_is_that_of_two_normal_densities(representation, name):
    q = given(representation, PRECISIONS[name])
    K, d = truth(representation).K(X), q.mean - MEAN(X)
    inside = np.trace(np.linalg.solve(K, q.covariance)) + d @ np.linalg.solve(K, d) - N
    ratio = np.linalg.slogdet(K)[1] - np.linalg.slogdet(q.covariance)[1]
    assert q.kl == pytest.approx(0.5 * (inside + ratio), rel=1e-7, abs=1e-8)


@every
@any_sign
def test_the_normalizer_is_the_expected_log_of_the_sites_minus_the_divergence(representation, name):
    """Exactly so for a Gaussian, whose sites are all of its likelihood, and by definition for a bound."""
    tau = PRECISIONS[name]
    q = given(representation, tau)
    expected = SHIFT @ q.mean - 0.5 * tau @ (q.mean**2 + q.var)
    assert q.log_normalizer == pytest.approx(expected - q.kl, rel=1e-9, abs=1e-8)


@every
def test_observations_give_their_joint_normal_density(representation):
    y, v, known = RNG.standard_normal(N), np.exp(RNG.standard_normal(N)), truth(representation)
    prior = prior_of(representation)
    observed, joint = prior.observe(v), multivariate_normal(MEAN(X), known.K(X) + np.diag(v))
    r = y - MEAN(X)
    value = -0.5 * (r @ observed.apply(r) + observed.noisy_log_det + N * np.log(2 * np.pi))
    assert value == pytest.approx(joint.logpdf(y) - 0.5 * known.excess(X, 1.0 / v), rel=1e-9)
    sites = prior.condition(1.0 / v)
    np.testing.assert_allclose(observed.var, sites.var, rtol=1e-8)
    np.testing.assert_allclose(observed.unexplained, sites.unexplained, rtol=1e-8)
    assert observed.log_det == pytest.approx(sites.log_det, rel=1e-9)
    for mine, other in zip(observed.project(r / v), sites.project(r / v)):
        np.testing.assert_allclose(mine, other, atol=1e-8)


@every
@any_sign
def test_a_cavity_is_the_prediction_without_the_site(representation, name):
    tau, known = PRECISIONS[name], truth(representation)
    q = given(representation, tau)
    mean, var = q.cavities()
    shift, precision = q.natural_cavities()
    for i in range(N):
        without = np.where(np.arange(N) == i, 0.0, tau)
        try:
            other = given(representation, without, np.where(np.arange(N) == i, 0.0, SHIFT))
        except ImproperPosteriorError:
            continue
        alone = known.sigma(X, without)[i, i] + known.apart(X)[i]
        assert var[i] == pytest.approx(alone, rel=1e-6)
        assert mean[i] == pytest.approx(other.mean[i], abs=1e-6)
        if q.conditioning.spread is None:
            assert shift[i] / precision[i] == pytest.approx(other.mean[i], abs=1e-6)


@every
def test_a_part_of_a_site_can_be_taken_away(representation):
    tau = PRECISIONS["strong and weak"]
    q = given(representation, tau)
    for share in (0.3, 1.0):
        _, precision = q.natural_cavities(share)
        np.testing.assert_allclose(precision, 1.0 / q.var - share * tau, rtol=1e-4)


# --- derivatives --------------------------------------------------------------------------------------------


@every
@comparable
def test_the_log_normalizer_generates_the_moments(representation, name):
    """d log Z / d(nu, tau) = (mean, -(var + mean^2) / 2)."""
    tau = PRECISIONS[name]
    q = given(representation, tau)
    by_shift = numerical(lambda x: given(representation, tau, x).log_normalizer, SHIFT)
    np.testing.assert_allclose(by_shift, q.mean, rtol=1e-6, atol=1e-6)
    by_precision = numerical(lambda x: given(representation, x).log_normalizer, tau)
    np.testing.assert_allclose(by_precision, -0.5 * (q.var + q.mean**2), rtol=1e-6, atol=1e-6)


@every
@comparable
@both_ways
def test_pull_sites_is_the_transposed_jacobian_of_mean_and_variance(representation, name, transient):
    tau, rng = PRECISIONS[name], np.random.default_rng(1)
    u, v = rng.standard_normal((2, N))
    first, second = given(representation, tau, transient=transient).conditioning.pull_sites(u, v)
    d_mean = numerical(lambda x: float(u @ given(representation, tau, x).mean), SHIFT)
    d_var = numerical(lambda x: float(v @ given(representation, x).var), tau)
    np.testing.assert_allclose(first, d_mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(second, -d_var, rtol=1e-5, atol=1e-6)


@every
def test_pull_sites_keeps_the_digits_of_weak_sites(representation):
    tau = PRECISIONS["strong and weak"]
    q = given(representation, tau)
    known = truth(representation)
    sigma, d = known.sigma(X, tau), known.left_over(X)
    of_spread = known.weight * known.curve * (d / (1.0 + known.curve * tau * d)) ** 2
    u, v = np.random.default_rng(2).standard_normal((2, N))
    first, second = q.conditioning.pull_sites(u, v)
    np.testing.assert_allclose(first, sigma @ u, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(second, sigma**2 @ v + of_spread * v, rtol=1e-7, atol=1e-10)


def scalar(q: Conditioned, a: float, u: np.ndarray, v: np.ndarray) -> float:
    return float(a * q.log_normalizer + u @ q.mean + v @ q.var)


@every
@comparable
@pytest.mark.parametrize("parts", ["normalizer", "mean", "var", "all"])
def test_every_pullback_against_finite_differences(representation, name, parts):
    tau = PRECISIONS[name]
    rng = np.random.default_rng(3)
    a = 0.7 if parts in ("normalizer", "all") else 0.0
    u = rng.standard_normal(N) * (parts in ("mean", "all"))
    v = rng.standard_normal(N) * (parts in ("var", "all"))

    def value(**changed) -> float:
        return scalar(given(**{"representation": representation, "tau": tau, **changed}), a, u, v)

    q = given(representation, tau)
    pulled = q.pull(a, u if parts in ("mean", "all") else None, v if parts in ("var", "all") else None)
    tol = {"rtol": 2e-6, "atol": 4e-7}
    by_kernel = numerical(lambda x: value(kernel=KERNEL.replace(x)), KERNEL.theta)
    np.testing.assert_allclose(KERNEL.to_theta(pulled.prior.kernel), by_kernel, **tol)
    if representation.theta.size:
        by_inputs = numerical(lambda x: value(representation=representation.replace(x)), representation.theta)
        np.testing.assert_allclose(pulled.prior.representation, by_inputs, **tol)
    by_mean = numerical(lambda x: value(mean=MEAN.with_flat(x)), MEAN.flat)
    np.testing.assert_allclose(q.prior.pull_mean(pulled.mean_values), by_mean, **tol)
    np.testing.assert_allclose(pulled.shift, numerical(lambda x: value(shift=x), SHIFT), **tol)
    # a site of precision zero moves to either sign: another branch of the algebra, the same function
    np.testing.assert_allclose(pulled.precision, numerical(lambda x: value(tau=x), tau), **tol)


@every
@comparable
def test_the_diagonal_of_R_pulls_back(representation, name):
    tau, g = PRECISIONS[name], np.random.default_rng(4).standard_normal(N)
    c = prior_of(representation).condition(tau)
    found = c.pull_prior(np.zeros((N, 1)), None, 0.0, d_unexplained=g).kernel

    def value(theta) -> float:
        return float(g @ prior_of(representation, KERNEL.replace(theta)).condition(tau).unexplained)

    np.testing.assert_allclose(KERNEL.to_theta(found), numerical(value, KERNEL.theta), rtol=2e-6, atol=4e-7)
    np.testing.assert_allclose(c.apply_squared(g), (c.matrix() ** 2) @ g, rtol=1e-9, atol=1e-10)


# --- coordinates, the process elsewhere, other rows ---------------------------------------------------------


@every
def test_white_coordinates(representation):
    prior, rng = prior_of(representation), np.random.default_rng(5)
    W = prior.unwhiten(np.eye(prior.white_dim)) - prior.mean[:, None]
    np.testing.assert_allclose(W @ W.T, prior.times(np.eye(N)), atol=1e-10)
    known = truth(representation)
    np.testing.assert_allclose(prior.times(np.eye(N)), known.K(X), atol=1e-9)
    np.testing.assert_allclose(prior.diagonal, np.diag(known.K(X)) + known.spread(X, np.zeros(N)), rtol=1e-9)
    G, U = rng.standard_normal((N, 3)), rng.standard_normal((prior.white_dim, 3))
    np.testing.assert_allclose(prior.unwhiten_adjoint(G), W.T @ G, atol=1e-10)
    assert Capability.WHITENING in representation.capabilities
    F = prior.unwhiten(U)
    np.testing.assert_allclose(prior.unwhiten(prior.whiten(F)), F, atol=1e-6)
    if prior.white_dim <= N:  # else there are shorter ones with the same values
        np.testing.assert_allclose(prior.whiten(F), U, atol=1e-5 if prior.white_dim < N else 1e-8)


@every
@any_sign
def test_process_at_the_training_rows_and_elsewhere(representation, name):
    tau, known = PRECISIONS[name], truth(representation)
    q = given(representation, tau)
    if isinstance(representation, Committee):
        return  # other rows are predicted by all members: tests/latent/test_committee.py
    process, new = q.process(), np.random.default_rng(8).standard_normal((4, X.shape[1]))
    if known.Z is None:
        np.testing.assert_allclose(process.mean(X), q.mean, atol=1e-8)
        np.testing.assert_allclose(process.variance(X), q.var, rtol=1e-6, atol=1e-10)
        np.testing.assert_allclose(process.covariance(X), q.covariance, atol=1e-8)
    for rows in (X, new):
        moved, cov = known.prediction(X, rows, tau, q.weights)
        np.testing.assert_allclose(process.mean(rows), MEAN(rows) + moved, atol=1e-8)
        np.testing.assert_allclose(process.variance(rows), np.diag(cov), rtol=1e-6, atol=1e-10)
        np.testing.assert_allclose(process.covariance(rows), cov, atol=1e-8)
    if not hasattr(process, "mean_gradient"):
        return  # slopes of predictions are not part of the protocol
    for gradient, value in (
        (process.mean_gradient, process.mean),
        (process.variance_gradient, process.variance),
    ):
        for k in range(X.shape[1]):
            step = 1e-5 * (np.arange(X.shape[1]) == k)
            slope = (value(new + step) - value(new - step)) / 2e-5
            np.testing.assert_allclose(gradient(new)[:, k], slope, rtol=1e-5, atol=1e-6)


@every
def test_some_rows_and_other_hyperparameters(representation):
    prior, keep = prior_of(representation), np.array([7, 1, 4])
    part = prior.rows(keep)
    np.testing.assert_allclose(part.mean, MEAN(X[keep]))
    np.testing.assert_allclose(part.times(np.eye(3)), truth(representation).K(X[keep]), atol=1e-9)
    other = KERNEL.replace(KERNEL.theta + 0.3)
    moved = prior.at(other, None)
    np.testing.assert_allclose(moved.times(np.eye(N)), truth(representation, other).K(X), atol=1e-9)
    np.testing.assert_array_equal(moved.mean, np.zeros(N))
    np.testing.assert_allclose(
        prior.times(np.eye(N)), truth(representation).K(X), atol=1e-9
    )  # the first is untouched


@every
def test_more_rows_extend_a_conditioning(representation):
    v, kept = np.full(N, 0.3), prior_of(representation).rows(np.arange(6))
    known = kept.observe(v[:6])
    extended = prior_of(representation).observe_more(known, v)
    whole = prior_of(representation).observe(v)
    assert extended.noisy_log_det == pytest.approx(whole.noisy_log_det, rel=1e-10)
    np.testing.assert_allclose(extended.apply(SHIFT), whole.apply(SHIFT), rtol=1e-8)


@every
@pytest.mark.parametrize("name", ["positive", "mixed"])
def test_draws_have_the_moments_of_the_posterior(representation, name):
    q, size = given(representation, PRECISIONS[name]), 20_000
    draws = q.sample(size, np.random.default_rng(6))
    assert draws.shape == (size, N)
    error = (draws.mean(axis=0) - q.mean) / np.sqrt(q.var / size)
    assert np.abs(error).max() < 4.5
    C = np.cov(draws.T) - q.covariance
    allowed = 5.0 * np.sqrt((np.outer(q.var, q.var) + q.covariance**2) / size)
    assert np.all(np.abs(C) < allowed)


@every
def test_improper_posteriors_are_refused_and_proper_ones_are_not(representation):
    prior, direction = prior_of(representation), np.linspace(-1.0, 0.2, N)
    W, known = prior.unwhiten(np.eye(prior.white_dim)) - prior.mean[:, None], truth(representation)
    limit = -1.0 / np.linalg.eigvalsh(W.T @ (direction[:, None] * W))[0]
    limit = min(limit, -1.0 / min(known.curve * np.min(direction * known.left_over(X)), -1e-9))
    assert prior.condition(0.999 * limit * direction).smallest_curvature < 0.1
    with pytest.raises(ImproperPosteriorError):
        prior.condition(1.001 * limit * direction)
    with pytest.raises(ImproperPosteriorError):
        prior.condition(np.where(np.arange(N) == 3, np.nan, 1.0))


@every
def test_flat_directions_and_how_they_move(representation):
    """Eigenvalues of I - q A+[N, N] q by explicit matrices, and differences of the smallest in sites and kernel."""
    prior, known = prior_of(representation), truth(representation)
    direction = np.where(np.arange(N) % 2 == 0, -1.0, 0.7)

    def shares(tau, kernel=None):
        negative = np.flatnonzero(tau < 0)
        A = truth(representation, kernel).sigma(X, np.maximum(tau, 0.0))[np.ix_(negative, negative)]
        q = np.sqrt(-tau[negative])
        return np.linalg.eigvalsh(np.eye(len(q)) - q[:, None] * A * q)

    low, high = 0.0, 1e3
    for _ in range(60):
        middle = 0.5 * (low + high)
        high, low = (middle, low) if shares(middle * direction)[0] < 0.02 else (high, middle)
    tau = low * direction
    if known.curve and np.any(1.0 + known.curve * tau * known.left_over(X) <= 0):
        return  # improper before anything is flat
    conditioning = prior.condition(tau)
    if representation.name == "naive":
        return
    c = shares(tau)
    assert conditioning.smallest_curvature == pytest.approx(c[0], abs=1e-7)
    limit = 0.5 * (c[0] + c[1])  # the flattest direction alone
    found = conditioning.flat_directions(limit)
    np.testing.assert_allclose(found.share, c[:1], atol=1e-7)
    np.testing.assert_allclose(
        found.by_site[:, 0], numerical(lambda x: shares(x)[0], tau), rtol=1e-5, atol=1e-6
    )
    pulled = KERNEL.to_theta(conditioning.pull_prior(-found.vectors, found.vectors, 0.0).kernel)
    by_kernel = numerical(lambda theta: shares(tau, KERNEL.replace(theta))[0], KERNEL.theta)
    np.testing.assert_allclose(pulled, by_kernel, rtol=1e-5, atol=1e-6)
    assert len(prior.condition(np.abs(tau)).flat_directions(0.5).share) == 0


def test_what_a_representation_cannot_do_is_refused_by_name():
    prior = Naive().prior(KERNEL, None, Inputs(RNG.standard_normal((1001, 2))))
    with pytest.raises(
        CapabilityError, match=r"'naive' does not give a covariance matrix.*1000 rows"
    ) as info:
        _ = prior.condition(np.ones(1001)).covariance
    assert (info.value.capability, info.value.limit) == (Capability.COVARIANCE, 1000)
    with pytest.raises(CapabilityError, match="several latent functions that the likelihood couples"):
        Naive().several(KERNEL, None, Inputs(X), 2).condition_softmax(np.ones((N, 2)))
