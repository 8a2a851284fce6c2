"""Correlated noise as a term of the kernel: left out of predictions of f, part of y, under every rule."""

from __future__ import annotations

import numpy as np
import pytest

from cavity import GP, GPRegressor, Inducing
from cavity.io import dumps, loads
from cavity.kernels import SE, Matern, NoiseTerm, parse
from cavity.likelihoods import Gaussian, Laplace, Probit, StudentT

RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0, 6, 14))[:, None]
T = np.array([[0.4], [2.6], [5.0]])
FUNCTION, NOISE = 1.0 * SE(2.0), 0.3 * Matern(0.4, nu=0.5)
Y = np.sin(X[:, 0]) + 0.4 * RNG.standard_normal(14)


def test_exact_predictions_are_those_of_the_normal_equations() -> None:
    posterior = GP(FUNCTION, Gaussian(0.05), noise_kernel=NOISE).condition(X, Y)
    A = FUNCTION(X) + NOISE(X) + 0.05 * np.eye(14)
    cross, both = FUNCTION(T, X), FUNCTION(T, X) + NOISE(T, X)
    np.testing.assert_allclose(posterior.mean(T), cross @ np.linalg.solve(A, Y), rtol=1e-9)
    expected = FUNCTION(T) - cross @ np.linalg.solve(A, cross.T)
    np.testing.assert_allclose(posterior.covariance(T), expected, rtol=1e-8)
    found = posterior.predict_y(T)
    np.testing.assert_allclose(found.mean, both @ np.linalg.solve(A, Y), rtol=1e-9)
    total = FUNCTION.diag(T) + NOISE.diag(T) - np.einsum("ij,ji->i", both, np.linalg.solve(A, both.T)) + 0.05
    np.testing.assert_allclose(found.variance, total, rtol=1e-9)
    sign, log_det = np.linalg.slogdet(A)
    assert sign == 1
    value = -0.5 * (Y @ np.linalg.solve(A, Y) + log_det + 14 * np.log(2 * np.pi))
    assert posterior.log_evidence == pytest.approx(value, abs=1e-10)


@pytest.mark.parametrize("rule", ["laplace", "ep", "variational"])
@pytest.mark.parametrize("noise", [StudentT(0.2, 4.0), Probit()], ids=["student-t", "probit"])
def test_other_rules_follow_the_law_of_total_variance(rule, noise) -> None:
    """Given g = f + e at the training inputs, f elsewhere is normal, whatever approximates g."""
    y = np.sign(Y) if isinstance(noise, Probit) else Y
    posterior = GP(FUNCTION, noise, noise_kernel=NOISE, inference=rule).condition(X, y)
    assert posterior.status.converged
    K, cross = FUNCTION(X) + NOISE(X), FUNCTION(T, X)
    gain = np.linalg.solve(K, cross.T).T
    g = posterior.observed
    np.testing.assert_allclose(posterior.mean(T), gain @ g.mean(X), atol=1e-8)
    expected = FUNCTION(T) - gain @ cross.T + gain @ g.covariance(X) @ gain.T
    np.testing.assert_allclose(posterior.covariance(T), expected, atol=1e-7)
    np.testing.assert_allclose(posterior.predict_y(T).mean, noise.predictive(g.mean(T), g.variance(T)).mean)
    assert (g.variance(X) != posterior.variance(X)).all()


@pytest.mark.parametrize("noise", [Gaussian(0.05), Laplace(0.2)], ids=["gaussian", "laplace"])
def test_leave_one_out_is_of_observations(noise) -> None:
    """A row left out is predicted with the noise that its neighbors know of."""
    model = GP(FUNCTION, noise, noise_kernel=NOISE)
    found = model.leave_one_out(X, Y)
    for i in (3, 9):
        others = np.arange(14) != i
        alone = model.condition(X[others], Y[others]).predict_y(X[i : i + 1])
        exact = isinstance(noise, Gaussian)
        near = (
            1e-9 if exact else 0.1 * alone.sd[0]
        )  # cavities of EP are those of a fit without the row, nearly
        np.testing.assert_allclose(found.mean[i], alone.mean[0], atol=near)
        np.testing.assert_allclose(found.variance[i], alone.variance[0], rtol=1e-8 if exact else 0.05)


def test_inducing_inputs_at_every_row_are_exact() -> None:
    exact = GP(FUNCTION, Gaussian(0.05), noise_kernel=NOISE).condition(X, Y)
    sparse = GP(
        FUNCTION, Gaussian(0.05), noise_kernel=NOISE, representation=Inducing(14, inputs=X)
    ).condition(X, Y)
    np.testing.assert_allclose(sparse.mean(T), exact.mean(T), atol=1e-5)
    np.testing.assert_allclose(sparse.variance(T), exact.variance(T), atol=1e-5)


def test_slopes_and_integrals_are_of_the_function() -> None:
    from cavity.integrals import BoxMeasure

    posterior = GP(FUNCTION, Gaussian(0.05), noise_kernel=0.3 * SE(0.3)).condition(X, Y)
    step = 1e-5
    slope = (posterior.mean(T + step) - posterior.mean(T - step)) / (2 * step)
    np.testing.assert_allclose(posterior.mean_gradient(T)[:, 0], slope, atol=1e-7)
    np.testing.assert_allclose(posterior.predict_slope(T).mean[:, 0], slope, atol=1e-7)
    nodes, w = np.polynomial.legendre.leggauss(40)
    at = (3 + 3 * nodes)[:, None]
    found = posterior.integrate(BoxMeasure([0.0], [6.0]))
    assert found.mean[0] == pytest.approx(w @ posterior.mean(at) / 2, abs=1e-9)
    assert found.variance[0] == pytest.approx(w @ posterior.covariance(at) @ w / 4, rel=1e-6)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_regressor_learns_a_slow_function_under_fast_noise(seed) -> None:
    """White noise alone takes a drift for the function; with a kernel of its own, f is closer to the truth."""
    rng = np.random.default_rng(seed)
    x = np.linspace(0, 20, 120)[:, None]
    drift = GP(0.09 * Matern(0.3, nu=0.5)).sample_prior(x, rng=rng)[0]
    truth = np.sin(x[:, 0])
    y = truth + drift + 0.05 * rng.standard_normal(120)
    model = GPRegressor(
        1.0 * SE(2.0), noise_kernel="0.1 * Matern(0.3, nu=0.5)", n_restarts=1, random_state=0
    ).fit(x, y)
    latent = model.predict_latent(x)
    np.testing.assert_allclose(model.predict(x, noise=False), latent.mean)
    np.testing.assert_allclose(model.predict(x), model.predict_dist(x).mean)
    plain = GPRegressor(1.0 * SE(2.0), n_restarts=0, random_state=0).fit(x, y).predict_latent(x)
    error, other = (np.sqrt(np.mean((one.mean - truth) ** 2)) for one in (latent, plain))
    assert error < other
    assert np.sqrt(np.mean((model.predict(x) - y) ** 2)) < error
    inside, within = (np.mean(np.abs(one.mean - truth) < 1.96 * one.sd) for one in (latent, plain))
    assert inside > within + 0.15  # of 95 %
    _, cov = model.predict(x[:4], return_cov=True)
    rounding = len(x) * np.finfo(float).eps * model.model_.kernel(x[:4]).max()  # both subtract from the prior
    np.testing.assert_allclose(np.diag(cov), model.predict_dist(x[:4]).variance, rtol=1e-8, atol=rounding)
    drawn = model.sample_y(x[:1], 4000, random_state=0)
    assert drawn.var() == pytest.approx(model.predict_dist(x[:1]).variance[0], rel=0.15)
    again = loads(dumps(model))
    assert again.predict_latent(x).mean.tobytes() == latent.mean.tobytes()
    assert again.noise_kernel == model.noise_kernel


def test_text_and_refusals() -> None:
    kernel = FUNCTION + NoiseTerm(NOISE)
    assert parse(repr(kernel)) == kernel
    assert GP(FUNCTION, noise_kernel=NOISE).kernel == kernel
    for wrong in (NoiseTerm(NOISE), 2.0 * NoiseTerm(NOISE) + FUNCTION, FUNCTION * NoiseTerm(NOISE)):
        with pytest.raises(ValueError, match="must be a term of a sum"):
            GP(wrong)
    with pytest.raises(ValueError, match="must be a kernel, such as"):
        GP(FUNCTION, noise_kernel=3.0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="draws do not tell"):
        GP(FUNCTION, noise_kernel=NOISE, inference="mcmc").condition(X, Y)
    with pytest.raises(ValueError, match="observed slopes"):
        GPRegressor(FUNCTION, noise_kernel=NOISE).fit(X, Y, slopes=(X, Y))
    with pytest.raises(ValueError, match="to be chosen"):
        GPRegressor(noise_kernel=NOISE, likelihood="auto").fit(X, Y)
