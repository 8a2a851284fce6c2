"""Targets with few different values: robust noise does not collapse onto them, and a fit says so."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from cavity import GP, GPRegressor
from cavity.inference.base import ConvergenceWarning
from cavity.kernels import SE
from cavity.learning.data_scale import resolution
from cavity.learning.starts import Starts
from cavity.likelihoods import StudentT
from cavity.parameters.param import Param

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 2))
F = X[:, 0] + 0.5 * X[:, 1]
RATINGS = np.clip(np.round(3 + 0.8 * F + 0.4 * RNG.standard_normal(60)), 1, 5)


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        ([1, 2, 2, 5], 1.0),
        ([0.5, 0.5, 0.75, 2.0], 0.25),
        ([1.0, 2.0, 4.0], 0.0),
        ([3.0, 3.0], 0.0),
        ([0.1 + 0.2, 0.3, 1.3, 1.3], 1.0),
    ],
)
def test_resolution_is_the_smallest_gap_if_values_repeat(y, expected):
    assert resolution(np.asarray(y, dtype=float)) == pytest.approx(expected)


@pytest.mark.parametrize("noise", ["student-t", "mixture"])
def test_noise_does_not_collapse_onto_ratings(noise):
    labels = np.where(F > 0.4, 2.0, np.where(F > -0.4, 1.0, 0.0))  # a function could interpolate most of them
    with pytest.warns(ConvergenceWarning, match="take 3 values, at least 1 apart.*use OrdinalProbit"):
        model = GPRegressor(likelihood=noise, n_restarts=0, random_state=0).fit(X, labels)
    assert model.likelihood_.scale >= 1.0 / np.sqrt(12.0) * (1 - 1e-9)
    low, high = model.predict_dist(X).interval(0.9)
    assert np.all(high - low < 6.0 * labels.std())


def test_the_floor_holds_for_values_that_a_model_came_with_but_not_against_bounds_of_a_user():
    def lowest(likelihood):
        model = GP(1.0 * SE(1.0), likelihood).bind(2)
        return np.exp(Starts.of(model, X, RATINGS).box[model.names.index("studentt.scale"), 0])

    assert lowest(StudentT(1e-3, 4.0)) == pytest.approx(1.0 / np.sqrt(12.0))
    assert lowest(StudentT(Param(0.1, bounds=(1e-2, 1.0)), 4.0)) == pytest.approx(1e-2)


def test_targets_that_do_not_repeat_have_no_floor():
    y = F + 0.1 * RNG.standard_normal(60)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = GPRegressor(likelihood="student-t", n_restarts=0, random_state=0).fit(X, y)
    assert fitted.likelihood_.scale < 0.2
