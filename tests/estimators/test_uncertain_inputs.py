"""Training inputs known with an error: slopes times errors are noise."""

from __future__ import annotations

import numpy as np
import pytest

from cavity import GP, GPRegressor
from cavity.kernels import SE, Blurred
from cavity.likelihoods import StudentT


def data(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    true = rng.uniform(0, 6, 40)
    return (true + 0.25 * rng.standard_normal(40))[:, None], np.sin(2 * true) + 0.05 * rng.standard_normal(40)


def test_noise_follows_the_slope() -> None:
    X, y = data()
    model = GPRegressor(1.0 * SE(1.0), random_state=0, n_restarts=0).fit(X, y, input_sd=0.25)
    noise = model.likelihood_.noise_variances(40)[0]
    slope = model.posterior_.mean_gradient(X)[:, 0]
    steep, flat = np.argsort(np.abs(slope))[[-1, 0]]
    assert noise[steep] > 5 * noise[flat]
    assert model.likelihood == "gaussian"  # as it was asked for
    mean, sd = model.predict([[1.0]], return_std=True, noise_variance=0.0)
    assert abs(mean[0] - np.sin(2.0)) < 4 * sd[0]


def test_expected_kernels_take_any_noise() -> None:
    X, y = data(1)
    y[3] += 8.0
    rows = np.column_stack([X, np.full(40, 0.25)])
    posterior = GP(1.0 * Blurred(0.7, uncertain=True), StudentT(0.1, 4.0), inference="ep").condition(rows, y)
    assert posterior.status.converged
    at = np.column_stack([np.linspace(0.5, 5.5, 20), np.zeros(20)])
    assert np.sqrt(np.mean((posterior.mean(at) - np.sin(2 * at[:, 0])) ** 2)) < 0.35


@pytest.mark.parametrize(
    ("options", "sd", "message"),
    [
        ({}, -1.0, "not negative"),
        ({}, np.nan, "must hold standard deviations"),
        ({}, [0.1, 0.2, 0.3], "one for each of 1 columns"),
        ({"likelihood": "student-t"}, 0.1, "Blurred"),
    ],
)
def test_bad_input_errors_are_refused(options: dict[str, object], sd: object, message: str) -> None:
    X, y = data()
    with pytest.raises(ValueError, match=message):
        GPRegressor(**options).fit(X, y, input_sd=sd)
