"""Training inputs known with an error: what the error adds to a row, against quadrature, draws and sampled inputs."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from cavity import GP, GPRegressor
from cavity.assessment import latent_inputs, of_known_inputs
from cavity.estimators.uncertain_inputs import spread_by_errors
from cavity.io import load, save
from cavity.kernels import SE, Blurred, Linear, Matern, White
from cavity.likelihoods import Gaussian, Poisson, StudentT

GRID = np.linspace(0.5, 5.5, 20)[:, None]


def data(seed: int = 0, sd: float = 0.25) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    true = rng.uniform(0, 6, 40)
    return (true + sd * rng.standard_normal(40))[:, None], np.sin(2 * true) + 0.05 * rng.standard_normal(40)


def model(**options: object) -> GPRegressor:
    return GPRegressor(1.0 * SE(0.8), likelihood=Gaussian(0.01), objective=None, mean="zero", **options)


def test_what_an_error_adds_follows_the_slope() -> None:
    X, y = data()
    fitted = GPRegressor(1.0 * SE(1.0), random_state=0, n_restarts=0).fit(X, y, input_sd=0.25)
    added = fitted.rows_.X[:, -1] ** 2
    slope = fitted.predict_gradient(X)[0][:, 0]
    steep, flat = np.argsort(np.abs(slope))[[-1, 0]]
    assert added[steep] > 5 * added[flat]
    assert added[steep] == pytest.approx(slope[steep] ** 2 * 0.25**2, rel=0.5)
    assert fitted.n_features_in_ == 1
    assert repr(fitted.kernel) == repr(1.0 * SE(1.0))  # as it was asked for
    mean, sd = fitted.predict([[1.0]], return_std=True)
    assert abs(mean[0] - np.sin(2.0)) < 4 * sd[0]


@pytest.mark.parametrize("D", [1, 2, 4])
def test_the_spread_of_a_function_under_an_error(D: int) -> None:
    """Against draws of errors."""
    rng = np.random.default_rng(0)
    x, y, sd = rng.uniform(-1, 1, (6, D)), rng.standard_normal(6), np.linspace(0.05, 0.2, D)[::-1]
    posterior = GP(
        (1.0 * SE(1.5)).on(list(range(D))) + (White(1.0) * Linear(1.0, bias=0)).on(2 * D), Gaussian(0.1)
    ).condition(np.hstack([x, np.zeros((6, D + 1))]), y)
    found = spread_by_errors(posterior, x[:2], np.broadcast_to(sd, (2, D)))
    for i in range(2):
        at = np.hstack([x[i] + sd * rng.standard_normal((1000, D)), np.zeros((1000, D + 1))])
        among = posterior.covariance(at)
        expected = np.var(posterior.mean(at)) + np.mean(np.diag(among)) - np.mean(among)
        assert found[i] == pytest.approx(expected, rel=0.12)


def test_a_row_is_the_blurred_function_and_a_variance_of_its_own() -> None:
    """Against the formula, at given hyperparameters."""
    X, y = data(2)
    fitted = model().fit(X, y, input_sd=0.25)
    S, r = 0.25**2, fitted.rows_.X[:, -1]
    squares = (X - X.T) ** 2

    def blurred(d2: np.ndarray, spread: float) -> np.ndarray:
        total = 0.8**2 + spread
        return 0.8 / np.sqrt(total) * np.exp(-0.5 * d2 / total)

    A = blurred(squares, 2 * S) + np.diag(r**2 + 0.01)
    k = blurred((GRID - X.T) ** 2, S)
    mean, sd = fitted.predict(GRID, return_std=True, noise=False)
    assert mean == pytest.approx(k @ np.linalg.solve(A, y), abs=1e-8)
    assert sd**2 == pytest.approx(1.0 - np.sum(k * np.linalg.solve(A, k.T).T, axis=1), abs=1e-8)
    # and the variances are those that the fit implies
    assert r**2 == pytest.approx(
        spread_by_errors(fitted.posterior_, X, np.full((40, 1), 0.25)), rel=0.05, abs=1e-4
    )


def test_expected_kernels() -> None:
    X, y = data(1)
    fitted = model().fit(X, y, input_sd=0.25, input_errors="expected")
    rows = np.column_stack([X, np.full(40, 0.25)])
    own = GP(1.0 * Blurred(0.8, uncertain=True), Gaussian(0.01)).condition(rows, y)
    at = np.column_stack([GRID, np.zeros(20)])
    assert fitted.predict(GRID) == pytest.approx(own.mean(at), abs=1e-10)
    assert fitted.log_evidence_ == pytest.approx(own.log_evidence, abs=1e-8)


@pytest.mark.parametrize("errors", ["slopes", "expected"])
def test_robust_noise(errors: str, tmp_path: object) -> None:
    X, y = data(1)
    y[4] += 8.0
    noise = StudentT(0.1, 4.0)
    fitted = GPRegressor(1.0 * SE(0.7), likelihood=noise, objective=None, mean="zero").fit(
        X, y, input_sd=0.25, input_errors=errors
    )
    assert fitted.posterior_.status.converged
    truth = np.sin(2 * GRID[:, 0])
    normal = model().fit(X, y, input_sd=0.25, input_errors=errors)
    errors_of = [np.sqrt(np.mean((one.predict(GRID) - truth) ** 2)) for one in (fitted, normal)]
    assert errors_of[0] < 0.6 * errors_of[1]
    save(fitted, f"{tmp_path}/model.cavity")
    assert load(f"{tmp_path}/model.cavity").predict(GRID) == pytest.approx(fitted.predict(GRID), abs=1e-10)


@pytest.mark.parametrize("noise", [Gaussian(0.01), StudentT(0.1, 4.0)])
def test_sampled_inputs_agree(noise: object) -> None:
    X, y = data(3, 0.1)
    fitted = GPRegressor(1.0 * SE(0.8), likelihood=noise, objective=None, mean="zero").fit(X, y, input_sd=0.1)
    found = latent_inputs(of_known_inputs(fitted), X, y, 0.1, n_draws=150, warmup=100, chains=2, rng=0)
    gold, (mean, sd) = found.predict_f(GRID), fitted.predict(GRID, return_std=True, noise=False)
    assert found.rhat < 1.2
    assert np.max(np.abs(gold.mean - mean) / gold.sd) < 1.2
    assert np.mean(gold.sd / sd) == pytest.approx(1.0, abs=0.25)
    plain = GP(1.0 * SE(0.8), noise, inference="auto").condition(X, y).predict_f(GRID)
    assert np.mean(plain.sd / gold.sd) < 0.8


def test_sampled_inputs_of_one_row() -> None:
    """Against quadrature over the only unknown input."""
    kernel, noise = 1.0 * SE(1.0), 0.01
    X, y, sd = np.array([[0.0], [1.0]]), np.array([0.2, 1.1]), np.array([[0.0], [0.6]])
    found = latent_inputs(GP(kernel, Gaussian(noise)), X, y, sd, n_draws=400, warmup=150, rng=0)
    z = np.linspace(-5, 5, 801)
    log_p = np.empty(801)
    for i, e in enumerate(z):
        C = kernel(np.array([[0.0], [1.0 + 0.6 * e]])) + noise * np.eye(2)
        log_p[i] = -0.5 * (y @ np.linalg.solve(C, y) + np.linalg.slogdet(C)[1] + e * e)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    mean = float(p @ (1.0 + 0.6 * z))
    error = np.sqrt(p @ (1.0 + 0.6 * z - mean) ** 2)
    drawn = found.inputs[:, 1, 0]
    assert drawn.mean() == pytest.approx(mean, abs=5 * error / np.sqrt(min(found.ess, 400)))
    assert drawn.std() == pytest.approx(error, rel=0.2)
    assert np.all(found.inputs[:, 0, 0] == 0.0)


def test_other_kernels_are_corrected_by_slopes_alone() -> None:
    X, y = data()
    fitted = partial(GPRegressor, likelihood=Gaussian(0.01), objective=None)
    rough = fitted(1.0 * Matern(0.8, nu=2.5) + 0.1 * SE(2.0)).fit(X, y, input_sd=0.25)
    assert rough.predict(GRID, return_std=True, noise=False)[1].min() > 0.05
    with pytest.raises(ValueError, match="sums of squared exponentials"):
        fitted(1.0 * Matern(0.8)).fit(X, y, input_sd=0.25, input_errors="expected")


@pytest.mark.parametrize(
    ("options", "sd", "how", "message"),
    [
        ({}, -1.0, "slopes", "not negative, got -1.0; 0 is an exact input"),
        ({}, np.nan, "slopes", "finite standard deviations, not negative, got nan"),
        ({}, [0.1, 0.2, 0.3], "slopes", "one for each of 1 columns"),
        ({}, 0.1, "sampling", "must be one of"),
        ({"likelihood": "auto"}, 0.1, "slopes", "not 'auto'"),
        ({"mean": "linear"}, 0.1, "slopes", "constant mean"),
    ],
)
def test_bad_input_errors_are_refused(options: dict[str, object], sd: object, how: str, message: str) -> None:
    X, y = data()
    with pytest.raises(ValueError, match=message):
        GPRegressor(**options).fit(X, y, input_sd=sd, input_errors=how)


def test_sampling_refuses_other_noise() -> None:
    with pytest.raises(ValueError, match="Student-t or Laplace"):
        latent_inputs(GP(1.0 * SE(1.0), Poisson()), [[0.0]], [1.0], 0.1)
