"""Predictions far beyond the data, where squares of distances are no floating-point numbers any more."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from cavity import GPClassifier, GPRegressor
from cavity.kernels import SE, Linear, parse

RNG = np.random.default_rng(0)
KERNELS = [
    *("SE(1.0)", "Matern(1.0, nu=0.5)", "Matern(1.0, nu=2.5)", "RationalQuadratic(1.0, 1.0)"),
    *("GammaExponential(1.0, 1.0)", "PiecewisePolynomial(1.0)"),
]


def far(columns: int):
    rows = np.zeros((5, columns))
    rows[:, :2] = [[1e300, -1e300], [1e160, 0.0], [2e160, 0.0], [-1.7e308, 1.7e308], [1.7e308, 1.7e308]]
    return rows


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("columns", [2, 5])
@pytest.mark.parametrize("kernel", KERNELS)
def test_rows_far_apart_are_independent(kernel, columns):
    k, X = parse(kernel), RNG.standard_normal((6, columns))
    rows = far(columns)
    assert np.max(np.abs(k(rows, X))) < 1e-70
    K = k(rows, rows)
    np.testing.assert_array_equal(np.diag(K), 1.0)
    # two rows that are both far out are far from each other too
    assert np.max(np.abs(K - np.diag(np.diag(K)))) < 1e-70


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("columns", [2, 5])
@pytest.mark.parametrize("likelihood", ["gaussian", "student-t"])
def test_predictions_there_are_those_of_the_prior(columns, likelihood):
    X = RNG.standard_normal((20, columns))
    model = GPRegressor(2.0 * SE(0.5), mean="zero", likelihood=likelihood, objective=None).fit(
        X, np.sin(X[:, 0])
    )
    rows = far(columns)
    np.testing.assert_array_equal(model.predict(rows), 0.0)
    np.testing.assert_allclose(model.predict_latent(rows).variance, 2.0)
    gradients = model.predict_gradient(rows)
    assert all((np.abs(g) < 1e-70).all() for g in gradients)
    low, high = model.predict_dist(rows).interval(0.9)
    np.testing.assert_allclose(low, -high)
    assert np.isfinite(high).all()


@pytest.mark.filterwarnings("error")
def test_classes_there_have_the_probability_of_the_prior():
    X = RNG.standard_normal((20, 2))
    model = GPClassifier(2.0 * SE(0.5), objective=None).fit(X, X[:, 0] > 0)
    np.testing.assert_allclose(model.predict_proba(far(2)), 0.5)


@pytest.mark.filterwarnings("error")
def test_length_scales_that_make_inputs_overflow():
    k = SE(1e-10)
    assert k([[1e300]], [[1e300]])[0, 0] == 1.0
    assert k([[1e305]], [[0.0]])[0, 0] == 0.0


def test_kernels_that_grow_say_that_they_overflow():
    model = GPRegressor(1.0 * Linear(), objective=None).fit([[1.0], [2.0]], [1.0, 2.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(
            ValueError, match=r"Linear needs squares of inputs, and those of 1e\+300 are beyond"
        ):
            model.predict([[1e300]])
