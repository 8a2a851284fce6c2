"""Several outputs: gaps, different noise, correlations, files, bad input."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from cavity import CoregionalizedRegressor
from cavity.io import dumps, loads
from cavity.kernels import SE, Matern

RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0, 6, 24))[:, None]
F = np.column_stack([np.sin(X[:, 0]), 100 * np.sin(X[:, 0]) + 500])
Y = F + RNG.standard_normal(F.shape) * [0.05, 5.0]
T = np.linspace(0.5, 5.5, 7)[:, None]
GAPS = Y.copy()
GAPS[4:18, 1] = np.nan


def test_complete_and_long_forms_agree() -> None:
    """The same model at given values, by two small matrices and by a large one."""
    options = {"kernel": SE(1.3), "objective": None, "mean": "zero"}
    complete = CoregionalizedRegressor(**options).fit(X, Y)
    long = CoregionalizedRegressor(**options, inference="ep").fit(X, Y)  # exact for normal noise
    assert type(long.posterior_) is not type(complete.posterior_)
    # the long form keeps unit noise where nothing is learned: compare the tables alone
    np.testing.assert_allclose(long.table_, complete.table_)
    assert complete.predict(T).shape == long.predict(T).shape == (7, 2)


def test_a_seen_output_helps_where_the_other_has_a_gap() -> None:
    model = CoregionalizedRegressor(random_state=0, n_restarts=0).fit(X, GAPS)
    inside = (X[:, 0] > X[4, 0]) & (X[:, 0] < X[17, 0])
    mean, sd = model.predict(X, return_std=True)
    error = np.sqrt(np.mean((mean[inside, 1] - F[inside, 1]) ** 2))
    assert error < 12.0  # of a spread of 70
    assert model.correlations_[0, 1] > 0.9
    assert (sd > 0).all()
    _, cov = model.predict(T, return_cov=True, noise=False)
    assert cov.shape == (7, 2, 2)
    np.testing.assert_allclose(cov, np.swapaxes(cov, 1, 2))
    again = loads(dumps(model))
    assert again.predict(T).tobytes() == model.predict(T).tobytes()
    assert "1.00" in model.summary()


def test_correlated_noise_is_found_and_comes_back() -> None:
    rng = np.random.default_rng(2)
    shared = rng.standard_normal(60)
    x = np.linspace(0, 6, 60)[:, None]
    Z = (
        np.column_stack([np.sin(x[:, 0]), np.cos(x[:, 0])])
        + 0.2 * shared[:, None]
        + 0.05 * rng.standard_normal((60, 2))
    )
    model = CoregionalizedRegressor(noise="correlated", random_state=0, n_restarts=0).fit(x, Z)
    C = model.noise_covariance_
    assert C[0, 1] / np.sqrt(C[0, 0] * C[1, 1]) > 0.7
    again = loads(dumps(model))
    np.testing.assert_allclose(again.predict(T, return_cov=True)[1], model.predict(T, return_cov=True)[1])


def test_each_output_has_its_own_noise_and_name() -> None:
    frame = pd.DataFrame({"level": Y[:, 0], "count": np.random.default_rng(1).poisson(np.exp(F[:, 0]))})
    frame.loc[3:6, "count"] = np.nan
    model = CoregionalizedRegressor(
        Matern(1.5, nu=2.5), likelihood={"level": "gaussian", "count": "poisson"}, objective=None
    ).fit(X, frame)
    assert model.posterior_.status.converged
    found = model.predict_dist(T)
    assert list(found) == ["level", "count"]
    assert (found["count"].quantile(0.9) == np.round(found["count"].quantile(0.9))).all()


def test_several_kernels_are_a_linear_model_of_coregionalization() -> None:
    model = CoregionalizedRegressor([SE(2.0), Matern(0.3)], objective=None).fit(X, GAPS)
    assert len(model.posterior_.model.kernel.terms) == 2


@pytest.mark.parametrize(
    ("options", "Y", "message"),
    [
        ({}, np.column_stack([Y[:, 0], np.full(24, np.nan)]), "output '1' has no observation at all"),
        ({}, Y[:, 0], "two or more outputs"),
        ({"noise": "correlated"}, GAPS, "outputs without gaps"),
        ({"likelihood": ["gaussian"]}, Y, "one for each of 2 outputs"),
        ({"likelihood": {"a": "gaussian"}}, Y, "says nothing of output '0'"),
        ({"noise": "some"}, Y, "must be one of"),
        ({}, np.where(Y > 600, np.inf, Y), "infinite value"),
    ],
)
def test_bad_outputs_are_refused(options: dict[str, object], Y: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CoregionalizedRegressor(objective=None, **options).fit(X, Y)


def test_nan_means_not_seen_in_outputs_alone() -> None:
    """Rows of NaN are rows that were not seen; NaN among inputs is refused, at the fit and at predictions."""
    model = CoregionalizedRegressor(SE(1.0), objective=None)
    with pytest.raises(ValueError, match="X contains NaN"):
        model.fit(np.where(X[3] == X, np.nan, X), Y)
    with pytest.raises(ValueError, match="must hold numbers, NaN where an output was not seen"):
        model.fit(X, np.full((24, 2), "a"))
    with pytest.raises(ValueError, match=r"as many rows as X \(24\), got 4"):
        model.fit(X, Y[:4])
    unseen = Y.copy()
    unseen[:3] = np.nan
    model.fit(X, unseen)
    long = CoregionalizedRegressor(SE(1.0), objective=None, inference="ep").fit(X[3:], Y[3:])
    np.testing.assert_allclose(model.table_, long.table_)
    with pytest.raises(ValueError, match="X contains NaN"):
        model.predict([[np.nan]])
