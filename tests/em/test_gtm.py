"""Generative topographic mapping: published figures, a dense formula, missing entries, scikit-learn's contract."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.special import logsumexp
from scipy.stats import spearmanr
from sklearn.datasets import load_iris
from sklearn.utils.estimator_checks import parametrize_with_checks

from cavity.em import GTM, run_em
from cavity.em.gtm import Sheet, SheetProblem, bumps, grid, principal_start
from cavity.runtime.errors import InputError

FOUR = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 1.5], [3.0, 3.0]])


@parametrize_with_checks([GTM(n_nodes=5, n_basis=3)])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def test_published_figures():
    nodes = grid(5, 1)
    features = bumps(nodes, grid(3, 1), 1.0)
    problem = SheetProblem(features, FOUR, 0.1)
    theta = Sheet(principal_start(features, nodes, FOUR).weights, 2.0)

    def log_likelihood(t):
        return float(problem.densities(t)[0].sum())

    assert log_likelihood(theta) == pytest.approx(-9.8012662480, abs=1e-8)
    theta = problem.m_step(problem.e_step(theta)[1], theta)
    assert log_likelihood(theta) == pytest.approx(-8.8171071400, abs=1e-8)
    assert theta.precision == pytest.approx(3.3086211597, abs=1e-8)
    for _ in range(199):
        theta = problem.m_step(problem.e_step(theta)[1], theta)
    assert log_likelihood(theta) == pytest.approx(-0.9654417578, abs=1e-8)


def test_the_density_is_that_of_a_mixture_and_its_maximum_is_stationary():
    X = load_iris().data[::3]
    model = GTM(n_nodes=6, n_basis=3, tol=1e-12, max_iter=5000).fit(X)
    squares = cdist(X, model.means_, "sqeuclidean") / model.noise_variance_
    log_p = logsumexp(-0.5 * squares, axis=1) - 2 * np.log(2 * np.pi * model.noise_variance_) - np.log(36)
    assert model.score_samples(X) == pytest.approx(log_p, rel=1e-9)
    assert model.log_likelihood_ == pytest.approx(log_p.sum(), rel=1e-9)
    scaled = (X - X.mean(axis=0)) / np.sqrt(X.var(axis=0).mean())
    problem = SheetProblem(bumps(model.nodes_, grid(3, 2), 1.0), scaled, 0.1)
    vector, h = problem.pack(model._sheet, model._sheet), 1e-5
    for i in range(0, len(vector), 7):
        e = np.zeros(len(vector))
        e[i] = h
        ends = [problem.e_step(problem.unpack(vector + s * e, model._sheet))[0] for s in (1, -1)]
        assert (ends[0] - ends[1]) / (2 * h) == pytest.approx(0.0, abs=1e-2)


def test_units_do_not_matter_and_steps_never_go_down():
    X = load_iris().data[::2]
    one = GTM(n_nodes=8).fit(X)
    other = GTM(n_nodes=8).fit(1000.0 * X + 3.0)
    assert other.transform(1000.0 * X + 3.0) == pytest.approx(one.transform(X), abs=1e-5)
    assert np.all(np.diff(one.history_) >= -1e-8 * abs(one.history_[0]))


def test_missing_entries():
    rng = np.random.default_rng(0)
    X = load_iris().data[::2]
    whole = GTM(n_nodes=8, allow_nan=True).fit(X)
    assert whole.means_ == pytest.approx(GTM(n_nodes=8).fit(X).means_, abs=1e-8)
    holes = X.copy()
    holes[rng.uniform(size=X.shape) < 0.2] = np.nan
    model = GTM(n_nodes=8, allow_nan=True).fit(holes)
    assert np.all(np.diff(model.history_) >= -1e-8 * abs(model.history_[0]))
    places = model.transform(holes)
    missing = np.isnan(holes)
    filled = model.inverse_transform(places)[missing]
    spread = np.sqrt(
        np.mean((np.broadcast_to(np.nanmean(holes, axis=0), X.shape)[missing] - X[missing]) ** 2)
    )
    assert np.sqrt(np.mean((filled - X[missing]) ** 2)) < 0.6 * spread
    with pytest.raises(ValueError, match="allow_nan=True"):
        GTM().fit(holes)


def test_places_and_draws():
    t = np.linspace(-1, 1, 200)
    rng = np.random.default_rng(0)
    X = np.column_stack([t, np.sin(3 * t)]) + 0.02 * rng.standard_normal((200, 2))
    model = GTM(1, n_nodes=40, n_basis=6, random_state=0).fit(X)
    mean, covariance = model.transform(X, return_cov=True)
    resp = model.predict_proba(X)
    assert resp.sum(axis=1) == pytest.approx(np.ones(200))
    by_hand = resp @ model.nodes_**2 - (resp @ model.nodes_) ** 2
    assert covariance[:, 0] == pytest.approx(by_hand)
    assert abs(spearmanr(mean[:, 0], t)[0]) > 0.99
    rows, places = model.sample(500)
    residual = rows - model.inverse_transform(places)
    assert np.mean(residual**2) == pytest.approx(model.noise_variance_, rel=0.15)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"width": 0.0}, "width must be positive"),
        ({"n_components": 9}, "makes a grid"),
        ({"n_nodes": 1}, "n_nodes"),
    ],
)
def test_bad_settings(settings, words):
    with pytest.raises(ValueError, match=words):
        GTM(**settings).fit(FOUR)


def test_bad_places():
    with pytest.raises(InputError, match=r"shape \(n, 2\)"):
        GTM(n_nodes=3).fit(FOUR).inverse_transform([[0.0]])


def test_extrapolation_ends_as_high():
    X = load_iris().data[::3]
    scaled = (X - X.mean(axis=0)) / X.std()
    nodes = grid(6, 2)
    features = bumps(nodes, grid(3, 2), 0.8)
    problem, start = SheetProblem(features, scaled, 0.1), principal_start(features, nodes, scaled)
    plain = run_em(problem, start, tol=1e-10, max_iter=5000)
    fast = run_em(problem, start, tol=1e-10, max_iter=5000, accelerate=True)
    assert fast.objective >= plain.objective - 1e-4
