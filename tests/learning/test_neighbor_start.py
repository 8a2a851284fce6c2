"""Functions with many bumps: what few rows cannot tell from noise, neighbors do."""

from __future__ import annotations

import numpy as np
import pytest

from cavity import GP, GPClassifier, fixed
from cavity.estimators.fit_warnings import warnings_of
from cavity.kernels import SE, Linear, ard
from cavity.learning import learn
from cavity.learning.large_data import Size, with_many_bumps
from cavity.learning.neighbor_start import as_values, bumps, neighbor_start
from cavity.learning.starts import Starts
from cavity.learning.training_rows import TrainingRows
from cavity.likelihoods import Gaussian, Poisson, Probit, StudentT
from cavity.runtime.deadlines import Deadline


def checks(n, per_side, seed=0, wrong=0.05):
    """Labels of a checkerboard with `per_side` squares on each side, some of them wrong, and the right ones."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    right = np.where(np.sum(np.floor(per_side * X), axis=1) % 2, 1, -1)
    return X, np.where(rng.random(n) < wrong, -right, right), right


def start(model, X, y):
    model = model.bind(X.shape[1])
    rows = TrainingRows(X, np.asarray(y, dtype=float), None, np.arange(len(X)))
    found = neighbor_start(model, rows, Starts.of(model, X, rows.y), Deadline(None))
    return None if found is None else model.replace(found.theta)


@pytest.mark.parametrize("likelihood", [Probit(), StudentT(0.3, 4.0)])
def test_length_scales_are_those_of_the_bumps(likelihood):
    X, y, _ = checks(1500, 10)
    found = start(GP(1.0 * SE(ard), likelihood), X, y)
    assert np.all((found.kernel.get("se.lengthscale") > 0.01) & (found.kernel.get("se.lengthscale") < 0.1))


def test_no_start_if_few_rows_would_do():
    model = GP(1.0 * SE(ard), Probit())
    X, y, _ = checks(1500, 2)
    assert start(model, X, y) is None  # four squares
    rng = np.random.default_rng(1)
    for _ in range(5):
        assert start(model, X, rng.choice([-1, 1], len(X))) is None  # nothing but noise
    assert start(GP(1.0 * SE(ard), Gaussian()), X, y) is None  # evaluations are cheap: all starts see much
    assert start(GP(1.0 * Linear(), Probit()), X, y) is None  # no length scales
    wide = np.hstack([X, rng.uniform(size=(len(X), 5))])
    assert start(model, wide, y) is None  # in seven columns no row is near


def test_fixed_and_shared_length_scales():
    X, y, _ = checks(1500, 10)
    assert 0.01 < start(GP(1.0 * SE(1.0), Probit()), X, y).kernel.get("se.lengthscale") < 0.1
    assert start(GP(1.0 * SE(fixed(0.5)), Probit()), X, y) is None


def test_counts_are_regressed_by_their_logarithms():
    y = np.array([0.0, 2.0, 3.0])
    np.testing.assert_allclose(as_values(Poisson(), y), np.log(y + 0.5) - np.log(y + 0.5).mean())


def test_bumps_are_the_range_in_length_scales():
    X = np.random.default_rng(0).uniform(size=(500, 2))
    side = np.ptp(X, axis=0) / (2.5 * np.array([0.1, 0.05]))
    assert bumps(SE([0.1, 0.05]), X) == pytest.approx(np.prod(side))
    assert bumps(SE([0.1, 100.0]), X) == pytest.approx(side[0])


def test_latent_neighbors_are_tried_in_the_plane_if_bumps_are_many():
    X = np.random.default_rng(0).uniform(size=(5000, 3))
    fine, smooth = GP(1.0 * SE(0.03), Probit()), GP(1.0 * SE(0.3), Probit())
    assert [r.name for r in with_many_bumps(fine, X[:, :2], Size())] == ["latent_neighbors"]
    assert not with_many_bumps(smooth, X[:, :2], Size())
    assert not with_many_bumps(fine, X, Size())  # three columns
    assert not with_many_bumps(fine, X[:, :2], Size("inducing"))
    assert not with_many_bumps(GP(1.0 * SE(0.03), Gaussian()), X[:, :2], Size())


def test_a_classifier_sees_a_map_of_a_hundred_bumps():
    X, y, _ = checks(1800, 10)
    model = GPClassifier(random_state=0, n_restarts=1).fit(X[:1200], y[:1200])
    # scikit-learn's vote of ten neighbors is right on 0.752 of these rows, its nearest neighbor on 0.802
    assert np.mean(model.predict(X[1200:]) == y[1200:]) > 0.79


def test_a_fit_that_found_nothing_says_so():
    X, y, _ = checks(400, 10)
    missed = learn(GP(1e-9 * SE(5.0), Probit()).bind(2), X, y, n_restarts=0, data_driven=False, rng=0)
    (message,) = warnings_of(missed.search, missed.posterior, X)
    assert "nothing but noise: all of 400 rows are predicted alike" in str(message)
    seen = learn(GP(4.0 * SE(0.04), Probit()).bind(2), X, y, n_restarts=0, data_driven=False, rng=0)
    assert not warnings_of(seen.search, seen.posterior, X)
