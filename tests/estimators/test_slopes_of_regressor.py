"""Slopes in `GPRegressor`: observed, signs, predicted with their variance; refusals."""

from __future__ import annotations

import numpy as np
import pytest

from cavity import GPRegressor
from cavity.io import dumps, loads
from cavity.kernels import SE, Matern

RNG = np.random.default_rng(0)
X = np.linspace(0, 6, 9)[:, None]
Y = np.sin(X[:, 0])
T = np.linspace(0.2, 5.8, 30)[:, None]


def fitted(**given: object) -> GPRegressor:
    return GPRegressor(1.0 * SE(1.0), random_state=0, n_restarts=0).fit(X[::2], Y[::2], **given)


def test_slopes_make_predictions_better() -> None:
    plain, sloped = fitted(), fitted(slopes=(X[::2], np.cos(X[::2, 0])))
    error = [np.abs(m.predict(T) - np.sin(T[:, 0])).max() for m in (plain, sloped)]
    assert error[1] < 0.2 * error[0]
    again = loads(dumps(sloped))
    assert again.predict(T).tobytes() == sloped.predict(T).tobytes()
    np.testing.assert_allclose(again.predict_slope(T).mean, sloped.predict_slope(T).mean, rtol=1e-9)


def test_gradients_with_gaps_are_directions() -> None:
    rng = np.random.default_rng(2)
    A = rng.uniform(-2, 2, (15, 2))
    y = np.sin(A[:, 0]) * A[:, 1]
    gradient = np.column_stack([np.cos(A[:, 0]) * A[:, 1], np.sin(A[:, 0])])
    gradient[3:, 1] = np.nan
    model = GPRegressor(1.0 * SE([1.0, 1.0]), objective=None)
    found = model.fit(A, y, slopes=(A, gradient)).predict(A + 0.1)
    rows = np.vstack([A, A[:3]])
    along = np.vstack([np.tile([1.0, 0.0], (15, 1)), np.tile([0.0, 1.0], (3, 1))])
    values = np.concatenate([gradient[:, 0], gradient[:3, 1]])
    np.testing.assert_allclose(model.fit(A, y, slopes=(rows, values, along)).predict(A + 0.1), found)


def test_predicted_slopes_are_derivatives_of_draws() -> None:
    """The slope's mean is that of the mean; its variance that of differences of the function."""
    model = GPRegressor(1.0 * SE(1.2), objective=None, likelihood="student-t").fit(X, Y)
    slope = model.predict_slope(T)
    np.testing.assert_allclose(slope.mean, model.predict_gradient(T)[0], rtol=1e-9, atol=1e-12)
    h = 1e-3
    pairs = np.vstack([T - h, T + h])
    cov = model.posterior_.covariance(pairs)
    n = len(T)
    difference = (np.diag(cov)[:n] + np.diag(cov)[n:] - 2 * np.diag(cov[:n, n:])) / (2 * h) ** 2
    np.testing.assert_allclose(slope.variance[:, 0], difference, rtol=1e-4)
    assert model.predict_slope(T, [2.0]).variance == pytest.approx(4 * slope.variance[:, 0])


def test_signs_make_monotone_functions() -> None:
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 5, (12, 1))
    y = x[:, 0] ** 2 / 10 + 0.3 * rng.standard_normal(12)
    grid = np.linspace(0, 5, 40)[:, None]
    options = {"kernel": 1.0 * SE(0.8), "objective": None, "likelihood": "gaussian"}
    plain = GPRegressor(**options).fit(x, y).predict(grid)
    rising = GPRegressor(**options).fit(x, y, slope_signs=(np.linspace(0, 5, 15)[:, None], 0, 1))
    assert np.diff(plain).min() < -0.02
    assert np.diff(rising.predict(grid)).min() > -1e-3
    assert rising.posterior_.status.converged


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"slopes": (X, np.ones((9, 2)))}, r"gradients of shape \(9, 1\)"),
        ({"slopes": X}, "must be \\(X, gradients\\)"),
        ({"slopes": (X, np.full(9, np.nan))}, "one at least"),
        ({"slopes": (np.ones((3, 2)), np.ones(3), 0)}, "inputs of 1 columns"),
        ({"slopes": (X, np.ones(9), [1.0, 0.0])}, "1 finite numbers"),
        ({"slopes": (X, np.ones(9), [np.nan])}, "1 finite numbers"),
        ({"slopes": (X, np.ones(9), [0.0])}, "direction must not be zero"),
        ({"slopes": (np.full((9, 1), np.nan), np.ones(9))}, "X of slopes has a value that is not finite"),
        ({"slopes": (X, np.full(9, np.inf))}, "must be finite numbers, or NaN where none was seen"),
        ({"slope_signs": (X, 0, 2)}, "1 \\(rising\\) or -1"),
        ({"slope_signs": (X, 0, np.nan)}, "1 \\(rising\\) or -1 \\(falling\\), got nan"),
        ({"slope_signs": (X, [1.0, 0.0], 1)}, "1 finite numbers"),
    ],
)
def test_bad_slopes_are_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fitted(**given)


def test_rough_kernels_refuse() -> None:
    with pytest.raises(ValueError, match="no slope for nu <= 1"):
        GPRegressor(Matern(1.0, nu=0.5), objective=None).fit(X, Y, slopes=(X, np.cos(X[:, 0])))
    with pytest.raises(ValueError, match="no slope for nu <= 1"):
        GPRegressor(Matern(1.0, nu=0.5), objective=None).fit(X, Y).predict_slope(T)
