"""Latent variables: published figures, principal components as the linear case, digits, scikit-learn's contract."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from cavity.estimators import GPLVM
from cavity.estimators.latent_places import grouped
from cavity.estimators.latent_variables import log_likelihood
from cavity.kernels import SE, Linear, Matern
from cavity.parameters.param import fixed
from cavity.runtime.errors import InputError

FOUR = np.array([[1, 2, 0], [2, 1, 0.5], [3, 3.5, 1], [0, 0.5, -0.5]])
PLACES = np.array([[-0.5, 0.1], [0.2, -0.3], [1, 0.4], [-0.9, -0.2]])
pytestmark = pytest.mark.filterwarnings("ignore:the optimizer stopped")


def curve(n, rng, noise=0.02):
    t = np.linspace(-2, 2, n)
    clean = np.column_stack([t, t**2, np.sin(2 * t), np.cos(t)])
    return t, clean + noise * rng.standard_normal(clean.shape)


@parametrize_with_checks([GPLVM(1, n_restarts=0, max_iter=30)])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def test_published_figures():
    centered = FOUR - FOUR.mean(axis=0)
    kernel = (1.0 * SE(1.0)).bind(2)
    value, _, d_places, _ = log_likelihood(kernel, 0.1, PLACES, grouped(centered))
    assert value == pytest.approx(-17.7722715510, abs=1e-9)
    assert d_places.ravel() == pytest.approx(
        [
            *(4.3518368058, 6.2806016411, -2.5933042365, -3.8611097877),
            *(-0.2093952997, 1.6706444187, -1.5491372696, -4.0901362722),
        ],
        abs=1e-8,
    )


def test_gradients_with_missing_entries():
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((7, 4))
    Y[0, 1] = Y[3, 1] = Y[3, 2] = np.nan
    Z, kernel, groups = rng.standard_normal((7, 2)), (1.3 * Matern(0.8, 2.5)).bind(2), grouped(Y)
    assert len(groups) == 3
    value, d_theta, d_Z, d_noise = log_likelihood(kernel, 0.2, Z, groups)
    A = kernel(Z) + 0.2 * np.eye(7)
    seen = ~np.isnan(Y)
    by_column = [
        multivariate_normal(np.zeros(o.sum()), A[np.ix_(o, o)]).logpdf(y[o]) for y, o in zip(Y.T, seen.T)
    ]
    assert value == pytest.approx(sum(by_column), rel=1e-10)
    h = 1e-6

    def at(theta=kernel.theta, noise=0.2, places=Z):
        return log_likelihood(kernel.replace(theta), noise, places, groups)[0]

    for i in (0, 5, 13):
        e = np.zeros(14)
        e[i] = h
        shift = e.reshape(7, 2)
        assert d_Z.ravel()[i] == pytest.approx(
            (at(places=Z + shift) - at(places=Z - shift)) / (2 * h), rel=1e-6
        )
    for i, e in enumerate(h * np.eye(len(kernel.theta))):
        ends = at(theta=kernel.theta + e) - at(theta=kernel.theta - e)
        assert d_theta[i] == pytest.approx(ends / (2 * h), rel=1e-6)
    assert d_noise == pytest.approx((at(noise=0.2 + h) - at(noise=0.2 - h)) / (2 * h), rel=1e-6)


def test_a_linear_kernel_is_probabilistic_principal_components():
    model = GPLVM(1, Linear(fixed(1.0), 0.0), prior=False, max_iter=5000, random_state=0).fit(FOUR)
    assert model.log_likelihood_ == pytest.approx(-9.9868959067, abs=1e-8)
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 8)) + 0.3 * rng.standard_normal((30, 8))
    model = GPLVM(2, Linear(fixed(1.0), 0.0), prior=False, max_iter=5000, random_state=0).fit(Y)
    centered = Y - Y.mean(axis=0)
    values, vectors = np.linalg.eigh(centered @ centered.T / 8)
    values, vectors = values[::-1], vectors[:, ::-1]
    noise = values[2:].sum() / 28
    optimum = -4 * (np.log(values[:2]).sum() + 28 * np.log(noise) + 30 * np.log(2 * np.pi) + 30)
    assert model.log_likelihood_ == pytest.approx(optimum, abs=1e-6)
    assert model.noise_variance_ == pytest.approx(noise, rel=1e-4)
    best = (vectors[:, :2] * (values[:2] - noise)) @ vectors[:, :2].T  # Z Z', whatever the rotation
    assert model.embedding_ @ model.embedding_.T == pytest.approx(best, abs=1e-3 * values[0])


def test_new_rows_find_their_place_with_its_uncertainty():
    rng = np.random.default_rng(0)
    t, Y = curve(60, rng)
    model = GPLVM(1, random_state=0).fit(Y[::2])
    places, covariance = model.transform(Y[1::2], return_cov=True)
    assert abs(np.corrcoef(places[:, 0], t[1::2])[0, 1]) > 0.99
    assert np.sqrt(np.mean((model.inverse_transform(places) - Y[1::2]) ** 2)) < 0.05
    value, gradient = model._log_density(places, Y[1::2] - model._offset)
    assert np.abs(gradient * np.sqrt(covariance[:, 0])).max() < 1e-3  # at a mode, in units of its width
    grid = np.linspace(-4, 4, 2001)[:, None]
    for i in (0, 9, 20):  # the mode is the highest, its curvature that of the density
        rows = np.repeat(Y[1::2][i : i + 1] - model._offset, 2001, axis=0)
        assert value[i] >= model._log_density(grid, rows)[0].max() - 1e-6
        sd = np.sqrt(covariance[i, 0, 0])
        near = places[i] + np.linspace(-6, 6, 401)[:, None] * sd
        p = np.exp(model._log_density(near, rows[:401])[0] - value[i])
        mean = (p @ near[:, 0]) / p.sum()
        assert np.sqrt(p @ (near[:, 0] - mean) ** 2 / p.sum()) == pytest.approx(sd, rel=0.1)


def test_rows_learned_from_stay():
    _, Y = curve(30, np.random.default_rng(0))
    model = GPLVM(1, n_restarts=0, random_state=0)
    assert model.fit_transform(Y) == pytest.approx(model.transform(Y))


def test_missing_entries_are_predicted():
    rng = np.random.default_rng(1)
    t = np.linspace(-2, 2, 60)
    clean = np.column_stack([t, 0.3 * t**3, 2 * np.sin(0.7 * t), np.exp(0.5 * t)])  # each tells t
    Y = (clean + 0.02 * rng.standard_normal(clean.shape))[rng.permutation(60)]
    holes = Y.copy()
    holes[rng.uniform(size=Y.shape) < 0.15] = np.nan
    model = GPLVM(1, random_state=0).fit(holes[:50])
    missing = np.isnan(holes[:50])
    filled = model.inverse_transform(model.embedding_)[missing]
    assert np.sqrt(np.mean((filled - Y[:50][missing]) ** 2)) < 0.3 * Y.std()
    new = model.predict_dist(model.transform(holes[50:]))
    held = np.isnan(holes[50:])
    assert np.all(np.abs(new.mean - Y[50:])[held] < 6 * np.sqrt(new.variance)[held] + 0.2)


def test_digits_are_told_apart_better_than_by_principal_components():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    train, test = order[:100], order[100:200]
    model = GPLVM(2, n_restarts=1, max_iter=100, random_state=0).fit(X[train])
    plane = PCA(2).fit(X[train])
    ours = KNeighborsClassifier(1).fit(model.embedding_, y[train]).score(model.transform(X[test]), y[test])
    theirs = KNeighborsClassifier(1).fit(plane.transform(X[train]), y[train])
    assert ours > theirs.score(plane.transform(X[test]), y[test]) + 0.15


@pytest.mark.parametrize(
    ("settings", "rows", "words"),
    [
        ({"n_components": 0}, FOUR, "n_components"),
        ({"kernel": "se"}, FOUR, "must be a kernel"),
        ({}, np.where(np.arange(4)[:, None] == 1, np.nan, FOUR), "row 1"),
        ({}, np.where(np.arange(3) == 1, np.nan, FOUR), "column 1"),
    ],
)
def test_bad_input(settings, rows, words):
    with pytest.raises(ValueError, match=words):
        GPLVM(**settings).fit(rows)


def test_bad_places():
    model = GPLVM(1, n_restarts=0, max_iter=5).fit(FOUR)
    with pytest.raises(InputError, match=r"shape \(m, 1\)"):
        model.inverse_transform([[0.0, 1.0]])
    constant = GPLVM(1, n_restarts=0, max_iter=20).fit(np.ones((5, 2)))
    assert np.isfinite(constant.transform([[1.0, 1.0], [2.0, 1.0]])).all()
