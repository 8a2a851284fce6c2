"""Mixtures: agreement with scikit-learn, recovery, missing data, weights, priors, degeneracy, selection."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import dblquad
from scipy.stats import invwishart, multivariate_normal, multivariate_t
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture as SklearnMixture

import cavity
from cavity.em import (
    Categorical,
    DegeneracyError,
    DegeneracyWarning,
    GaussianMixture,
    Mixture,
    NormalInverseWishart,
    StudentTMixture,
)
from cavity.em.expectation_maximization import run_em
from cavity.em.mixture_problem import MixtureProblem

KINDS = ["full", "tied", "diag", "spherical"]
ALL_KINDS = [*KINDS, "factor"]


def blobs(n=400, d=3, seed=0, spread=4.0):
    rng = np.random.default_rng(seed)
    centers = spread * np.eye(3, d)
    labels = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    mixing = rng.normal(size=(3, d, d)) / np.sqrt(d)
    noise = np.einsum("nij,nj->ni", mixing[labels] + np.eye(d), rng.normal(size=(n, d)))
    return centers[labels] + noise, labels


def precisions(kind, covariances):
    return 1.0 / covariances if kind in ("diag", "spherical") else np.linalg.inv(covariances)


@pytest.mark.parametrize("kind", KINDS)
def test_one_em_step_is_scikit_learns(kind):
    x, _ = blobs()
    rng = np.random.default_rng(1)
    start = {
        "full": np.tile(2 * np.eye(3), (3, 1, 1)),
        "tied": 2 * np.eye(3),
        "diag": np.full((3, 3), 2.0),
        "spherical": np.full(3, 2.0),
    }[kind]
    means, weights = x[rng.choice(len(x), 3, replace=False)], np.array([0.2, 0.3, 0.5])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        peer = SklearnMixture(
            3,
            covariance_type=kind,
            reg_covar=0.0,
            max_iter=1,
            weights_init=weights,
            means_init=means,
            precisions_init=precisions(kind, start),
        ).fit(x)
    ours = GaussianMixture(
        3,
        kind,
        reg_covar=0.0,
        weights_init=weights,
        means_init=means,
        covariances_init=start,
        max_iter=1,
        tol=-1.0,
    ).fit(x)
    assert_allclose(ours.weights_, peer.weights_, rtol=1e-8)
    assert_allclose(ours.means_, peer.means_, rtol=1e-8)
    assert_allclose(ours.covariances_, peer.covariances_, rtol=1e-8, atol=1e-12)
    assert_allclose(ours.score_samples(x), peer.score_samples(x), rtol=1e-8)
    assert_allclose(ours.predict_proba(x), peer.predict_proba(x), rtol=1e-8, atol=1e-12)
    assert np.array_equal(ours.predict(x), peer.predict(x))
    assert_allclose(ours.bic(x), peer.bic(x), rtol=1e-8)
    assert_allclose(ours.aic(x), peer.aic(x), rtol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_converged_fit_is_scikit_learns(kind):
    x, _ = blobs(spread=8.0)
    peer = SklearnMixture(
        3, covariance_type=kind, reg_covar=0.0, tol=1e-12, max_iter=2000, random_state=0
    ).fit(x)
    ours = GaussianMixture(3, kind, reg_covar=0.0, tol=1e-13, max_iter=2000, random_state=0).fit(x)
    order = np.lexsort(peer.means_.T[::-1])
    assert_allclose(ours.score(x), peer.score(x), rtol=1e-8)
    assert_allclose(ours.means_, peer.means_[order], rtol=1e-4, atol=1e-4)


def test_compiled_fit_on_threads_is_the_one_by_matrix_products():
    x, _ = blobs(n=40_000)
    one = GaussianMixture(3, random_state=0, max_iter=5, tol=-1.0).fit(x)
    two = GaussianMixture(3, random_state=0, max_iter=5, tol=-1.0, n_jobs=2).fit(x)
    assert_allclose(two.means_, one.means_, rtol=1e-9)
    assert_allclose(two.history_, one.history_, rtol=1e-12)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cavity.em.gaussian_passes.MANY_FEATURES", 0)
        slow = GaussianMixture(3, random_state=0, max_iter=5, tol=-1.0).fit(x)
    assert_allclose(slow.history_, one.history_, rtol=1e-12)
    assert_allclose(slow.covariances_, one.covariances_, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("kind", ALL_KINDS)
@pytest.mark.parametrize("model", [GaussianMixture, StudentTMixture])
def test_the_objective_never_falls(kind, model):
    x, _ = blobs(n=150, seed=3, spread=1.5)
    fit = model(3, kind, random_state=0, tol=1e-9, max_iter=60, n_init=2, accelerate=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit.fit(x)
    for run in fit.runs_:
        assert np.min(np.diff(run.trace)) >= -1e-9


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_parameters_are_recovered(kind):
    rng = np.random.default_rng(0)
    loadings = np.array([[2.0], [1.0], [-1.0]])
    cov = {
        "full": np.array([[2, 0.5, 0], [0.5, 1, -0.3], [0, -0.3, 1.0]]),
        "tied": np.array([[2, 0.5, 0], [0.5, 1, -0.3], [0, -0.3, 1.0]]),
        "diag": np.diag([2.0, 1.0, 0.5]),
        "spherical": 1.5 * np.eye(3),
        "factor": loadings @ loadings.T + np.diag([0.5, 1.0, 0.3]),
    }[kind]
    n = 6000
    labels = rng.random(n) < 0.3
    x = rng.multivariate_normal(np.zeros(3), cov, size=n) + np.where(labels, 6.0, 0.0)[:, None]
    model = GaussianMixture(2, kind, random_state=0).fit(x)
    matrices = model.family_.covariance(model.params_)
    assert_allclose(model.weights_, [0.7, 0.3], atol=4 * np.sqrt(0.21 / n))
    assert_allclose(model.means_, [[0, 0, 0], [6, 6, 6]], atol=4 * np.sqrt(cov.max() / (0.3 * n)))
    # the standard error of a covariance is at most sqrt(2) cov / sqrt(n_k)
    assert_allclose(
        matrices, np.broadcast_to(cov, (2, 3, 3)), atol=5 * np.sqrt(2) * cov.max() / np.sqrt(0.3 * n)
    )


def test_factor_analysis_with_all_factors_is_a_full_covariance():
    x, _ = blobs(spread=8.0)
    full = GaussianMixture(3, "full", random_state=0, tol=1e-9).fit(x)
    factor = GaussianMixture(3, "factor", n_factors=2, random_state=0, max_iter=300).fit(x)
    # two factors of three features have 3 * 2 + 3 - 1 = 8 >= 6 parameters: any covariance, nearly
    assert factor.log_likelihood_ <= full.log_likelihood_ + 1e-6
    assert_allclose(factor.log_likelihood_, full.log_likelihood_, rtol=2e-3)
    assert factor.n_parameters_ == full.n_parameters_


@pytest.mark.parametrize(("features", "factors"), [(6, 1), (6, 2), (7, 3)])
def test_parameters_of_factor_analysis_are_the_directions_in_which_its_covariance_moves(features, factors):
    """The rank of the derivative of W W' + diag(v) in W and v: loadings turned among themselves change nothing."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal((features, factors))
    moves = [np.diag(e) for e in np.eye(features)]
    for i in range(features):
        for k in range(factors):
            step = np.zeros_like(w)
            step[i, k] = 1.0
            moves.append(step @ w.T + w @ step.T)
    rank = np.linalg.matrix_rank(np.reshape(moves, (len(moves), -1)))
    model = GaussianMixture(2, "factor", n_factors=factors, random_state=0, max_iter=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(rng.standard_normal((60, features)))
    assert model.n_parameters_ == 1 + 2 * (features + rank)


def test_factor_loadings_match_scikit_learns_factor_analysis():
    from sklearn.decomposition import FactorAnalysis

    rng = np.random.default_rng(0)
    w = rng.normal(size=(6, 2))
    x = rng.normal(size=(500, 2)) @ w.T + rng.normal(size=(500, 6)) * np.sqrt([1.0, 1.2, 0.8, 1.5, 1.0, 1.3])
    peer = FactorAnalysis(2, tol=1e-6, max_iter=2000, svd_method="lapack").fit(x)
    ours = GaussianMixture(
        1, "factor", n_factors=2, reg_covar=0.0, tol=1e-10, max_iter=500, accelerate=True
    ).fit(x)
    assert_allclose(ours.log_likelihood_, peer.loglike_[-1], rtol=1e-7)
    assert_allclose(ours.covariances_[0], peer.get_covariance(), rtol=1e-3, atol=1e-3)


def test_ten_components_of_bad_luck_do_not_collapse():
    """hmmlearn #263, #285: degenerate covariances. Points in pairs invite components of two points."""
    rng = np.random.default_rng(0)
    x = np.repeat(rng.normal(size=(15, 2)), 2, axis=0)
    with pytest.warns(DegeneracyWarning, match="rest on the guard"):
        model = GaussianMixture(8, random_state=0, n_init=3).fit(x)
    assert np.all(np.isfinite(model.history_))
    assert np.all(np.linalg.eigvalsh(model.covariances_)[:, 0] > 0)
    assert model.degenerate_
    assert_allclose(model.weights_.sum(), 1.0, rtol=1e-12)


def test_plain_maximum_likelihood_on_a_single_point_is_an_error():
    x = np.concatenate([np.zeros((5, 2)), np.random.default_rng(0).normal(size=(50, 2)) + 5])
    with pytest.raises(DegeneracyError, match="reg_covar"):
        GaussianMixture(2, reg_covar=0.0, random_state=0).fit(x)


def test_plain_maximum_likelihood_with_a_collapsed_variance_is_an_error():
    x = np.concatenate([np.zeros((5, 2)), np.random.default_rng(0).normal(size=(50, 2)) + 5])
    for kind in ("diag", "spherical"):
        with pytest.raises(DegeneracyError, match="collapsed"):
            GaussianMixture(2, kind, reg_covar=0.0, random_state=0, means_init=[[0, 0], [5, 5]]).fit(x)


def test_factor_analysis_can_be_accelerated():
    x, _ = blobs(n=200, spread=8.0)
    controls = {"random_state": 0, "max_iter": 40, "tol": -1.0}
    fast = GaussianMixture(3, "factor", accelerate=True, **controls).fit(x)
    slow = GaussianMixture(3, "factor", **controls).fit(x)
    assert fast.log_likelihood_ > slow.log_likelihood_
    assert np.min(np.diff(fast.history_)) > -1e-9


def test_fewer_distinct_points_than_components():
    x = np.repeat([[0.0, 0.0], [1.0, 1.0], [5.0, 0.0]], 10, axis=0)
    for init in ("k-means++", "random"):
        with pytest.warns(DegeneracyWarning):
            model = GaussianMixture(4, init=init, random_state=0, max_iter=50, tol=1e-4).fit(x)
        assert np.all(np.isfinite(model.means_))


def test_the_guard_bounds_the_likelihood_of_a_component_on_one_point():
    """With the penalty tr(Psi / Sigma) / 2 the objective of a component on one point has a finite maximum."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=(99, 1)), [[30.0]]])
    with pytest.warns(DegeneracyWarning):
        model = GaussianMixture(2, random_state=0, tol=1e-10, max_iter=1000).fit(x)
    k = int(np.argmin(model.weights_))
    psi = 1e-6 * (100 / 2) * x.var()
    assert_allclose(model.covariances_[k].ravel(), psi, rtol=1e-3)
    assert model.degenerate_ == [k]


def test_guard_is_relative_to_the_units_of_the_data():
    x, _ = blobs(spread=3.0)
    scale = np.array([1e-6, 1.0, 1e6])
    one = GaussianMixture(3, random_state=0).fit(x)
    other = GaussianMixture(3, random_state=0).fit(x * scale)
    assert_allclose(other.means_ / scale, one.means_, rtol=1e-6)
    assert_allclose(other.log_likelihood_, one.log_likelihood_ - len(x) * np.log(scale).sum(), rtol=1e-6)


def test_prior_maximizes_the_posterior_density():
    """One component, closed form of the normal-inverse-Wishart MAP."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 2)) + 1.0
    prior = NormalInverseWishart(scale=[[2.0, 0.5], [0.5, 1.0]], dof=5.0, mean=[0.5, -0.5], kappa=3.0)
    model = GaussianMixture(1, reg_covar=0.0, prior=prior).fit(x)
    mean = (3.0 * np.array([0.5, -0.5]) + x.sum(axis=0)) / 23.0
    assert_allclose(model.means_[0], mean, rtol=1e-10)

    def log_posterior(m, s):
        return (
            multivariate_normal(m, s).logpdf(x).sum()
            + invwishart(5.0, [[2.0, 0.5], [0.5, 1.0]]).logpdf(s)
            + multivariate_normal([0.5, -0.5], s / 3.0).logpdf(m)
        )

    best = log_posterior(model.means_[0], model.covariances_[0])
    for _ in range(200):
        m = model.means_[0] + 0.01 * rng.normal(size=2)
        e = 0.01 * rng.normal(size=(2, 2))
        assert log_posterior(m, model.covariances_[0] + e + e.T) < best


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_prior_keeps_em_monotone_and_replaces_the_guard(kind):
    x = np.repeat(np.random.default_rng(0).normal(size=(10, 2)), 3, axis=0)
    prior = NormalInverseWishart(scale=0.1, dof=4.0, kappa=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegeneracyWarning)
        model = GaussianMixture(5, kind, reg_covar=0.0, prior=prior, random_state=0, tol=1e-8).fit(x)
    assert model.converged_
    assert np.min(np.diff(model.history_)) > -1e-9


def test_weight_concentration_pulls_weights_together():
    x, _ = blobs(spread=8.0)
    free = GaussianMixture(3, random_state=0).fit(x)
    pulled = GaussianMixture(3, random_state=0, weight_concentration=1000.0).fit(x)
    counts = free.weights_ * len(x)
    assert_allclose(pulled.weights_, (counts + 999) / (len(x) + 3 * 999), rtol=1e-3)


# -- sample weights -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "model", [GaussianMixture(3, random_state=0), StudentTMixture(2, accelerate=False, random_state=0)]
)
def test_integer_weights_are_repetitions(model):
    x, _ = blobs(n=120)
    counts = np.random.default_rng(0).integers(0, 4, len(x))
    weighted = model.fit(x, sample_weight=counts)
    means, history = weighted.means_.copy(), weighted.history_.copy()
    repeated = model.fit(np.repeat(x, counts, axis=0))
    assert_allclose(repeated.means_, means, rtol=1e-7, atol=1e-9)
    assert_allclose(repeated.history_, history, rtol=1e-9)


# -- missing entries ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ALL_KINDS)
def test_missing_entries_are_integrated_out(kind):
    x, _ = blobs(n=60, d=2)
    model = GaussianMixture(2, kind, random_state=0, allow_nan=True).fit(x)
    matrices = model.family_.covariance(model.params_)
    row = np.array([[np.nan, 0.7]])
    marginal = sum(
        w * multivariate_normal(m[1], c[1, 1]).pdf(0.7)
        for w, m, c in zip(model.weights_, model.means_, matrices)
    )
    assert_allclose(np.exp(model.score_samples(row)), marginal, rtol=1e-10)
    assert_allclose(model.score_samples([[np.nan, np.nan]]), 0.0, atol=1e-12)
    assert_allclose(model.predict_proba([[np.nan, np.nan]]), [model.weights_], rtol=1e-12)


def test_missing_entries_of_student_t_by_quadrature():
    x, _ = blobs(n=60, d=2)
    model = StudentTMixture(1, dof=3.0, allow_nan=True).fit(x)
    m, c = model.means_[0], model.covariances_[0]
    density = multivariate_t(m, c, df=3.0)
    value, _ = dblquad(lambda u, v: density.pdf([u, v]) if v < 0.5 else 0.0, -60, 0.5, -300, 300, epsabs=1e-5)
    # marginal of the second feature is a t with the same degrees of freedom
    from scipy.stats import t as student

    assert_allclose(value, student(3.0, m[1], np.sqrt(c[1, 1])).cdf(0.5), atol=2e-3)
    expected = student(3.0, m[1], np.sqrt(c[1, 1])).logpdf(0.7)
    assert_allclose(model.score_samples([[np.nan, 0.7]]), expected, rtol=1e-10)


@pytest.mark.parametrize("kind", ALL_KINDS)
@pytest.mark.parametrize("model", [GaussianMixture, StudentTMixture])
def test_em_with_missing_entries_is_monotone_and_better_than_dropping(kind, model):
    x, labels = blobs(n=300, spread=6.0)
    holes = x.copy()
    rng = np.random.default_rng(0)
    holes[rng.random(x.shape) < 0.2] = np.nan
    fit = model(3, kind, random_state=0, allow_nan=True, accelerate=False, max_iter=40, tol=-1.0).fit(holes)
    assert np.min(np.diff(fit.history_)) > -1e-8
    fitted = fit.predict(holes)
    agreement = max(
        np.mean(np.array(p)[fitted] == labels)
        for p in ([0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0])
    )
    assert agreement > 0.8


# -- Student-t ----------------------------------------------------------------------------------------------
def test_student_t_density_is_scipys():
    x, _ = blobs(n=50)
    model = StudentTMixture(1, dof=4.0).fit(x)
    expected = multivariate_t(model.means_[0], model.covariances_[0], df=4.0).logpdf(x)
    assert_allclose(model.score_samples(x), expected, rtol=1e-10)


def test_student_t_resists_outliers():
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [rng.normal(-4, 1, (200, 2)), rng.normal(4, 1, (200, 2)), rng.uniform(-60, 60, (30, 2))]
    )
    robust = StudentTMixture(2, random_state=0).fit(x)
    assert_allclose(robust.means_, [[-4, -4], [4, 4]], atol=0.4)
    assert np.min(robust.dofs_) < 2  # the outliers live in the tail of one component
    assert robust.score(x) > GaussianMixture(2, random_state=0).fit(x).score(x)


def test_degrees_of_freedom_are_recovered():
    rng = np.random.default_rng(0)
    x = rng.standard_t(4.0, size=(20_000, 1))
    model = StudentTMixture(1, tol=1e-9, max_iter=2000).fit(x)
    errors = model.standard_errors(x)
    assert errors.positive_definite
    assert abs(model.dofs_[0] - 4.0) < 4 * errors.errors["dofs"][0]
    assert 0.05 < errors.errors["dofs"][0] < 0.3


@pytest.mark.parametrize("dof", ["shared", "estimate"])
def test_maximum_likelihood_of_one_student_t_is_scipys(dof):
    from scipy.stats import t as student

    x = np.random.default_rng(0).standard_t(5.0, size=(500, 1))
    model = StudentTMixture(1, dof=dof, reg_covar=0.0, tol=1e-12, max_iter=5000).fit(x)
    df, loc, scale = student.fit(x)
    assert_allclose(model.log_likelihood_, student(df, loc, scale).logpdf(x).sum(), rtol=1e-6)
    assert_allclose(model.dofs_[0], df, rtol=1e-2)


def test_degrees_of_freedom_of_light_tails_reach_the_bound():
    x = np.random.default_rng(0).uniform(size=(500, 1))
    model = StudentTMixture(1, dof_bounds=(1.0, 60.0), max_iter=5000).fit(x)
    assert_allclose(model.dofs_[0], 60.0, rtol=1e-12)


# -- selection, ordering, reports ----------------------------------------------------------------------------
@pytest.mark.parametrize("criterion", ["bic", "icl"])
def test_number_of_components_is_found(criterion):
    x, _ = blobs(n=600, spread=8.0)
    model = GaussianMixture(criterion, random_state=0, n_init=2, tol=1e-4).fit(x)
    assert model.n_components_ == 3
    assert [c.n for c in model.selection_] == list(range(1, 11))
    best = min(model.selection_, key=lambda c: getattr(c, criterion))
    assert best.n == 3
    assert_allclose(getattr(model, criterion)(x), getattr(best, criterion), rtol=1e-9)


def test_selection_over_a_range():
    x, _ = blobs(n=600, spread=8.0)
    model = GaussianMixture(range(2, 5), criterion="aic", random_state=0).fit(x)
    assert [c.n for c in model.selection_] == [2, 3, 4]
    assert model.n_components_ == min(model.selection_, key=lambda c: c.aic).n


def test_sizes_that_collapse_are_left_out_of_the_selection():
    x = np.random.default_rng(0).normal(size=(40, 2))
    model = GaussianMixture("bic", reg_covar=0.0, random_state=0).fit(x)
    tried = [c.n for c in model.selection_]
    failed = [int(text.split(":")[0].removeprefix("n_components=")) for text in model.failed_sizes_]
    assert failed
    assert sorted(tried + failed) == list(range(1, 11))
    assert_allclose(model.selection_[0].bic, SklearnMixture(1, reg_covar=0.0).fit(x).bic(x), rtol=1e-6)
    assert model.n_components_ == 1


def test_a_selection_in_which_all_sizes_collapse_is_an_error():
    x = np.concatenate([np.zeros((5, 2)), np.random.default_rng(0).normal(size=(50, 2)) + 5])
    with pytest.raises(DegeneracyError, match=r"n_components=2: .*reg_covar"):
        GaussianMixture([2, 3], reg_covar=0.0, random_state=0).fit(x)


def test_degenerate_candidates_lose_to_others():
    """Copies of a few points: BIC falls without bound but for the guard."""
    x = np.repeat(np.random.default_rng(0).normal(size=(4, 1)), 10, axis=0)
    model = GaussianMixture(range(1, 6), random_state=0, max_iter=2000).fit(x)
    sound = [c for c in model.selection_ if not c.degenerate]
    assert min(model.selection_, key=lambda c: c.bic).degenerate
    assert model.n_components_ == min(sound, key=lambda c: c.bic).n
    assert model.degenerate_ == []


def test_order_does_not_depend_on_the_seed():
    x, _ = blobs(spread=8.0)
    fits = [GaussianMixture(3, random_state=seed, tol=1e-10, n_init=3).fit(x) for seed in range(3)]
    for fit in fits[1:]:
        assert_allclose(fit.means_, fits[0].means_, atol=1e-3)
    assert np.all(np.diff(fits[0].means_[:, 0]) > 0)
    by_weight = GaussianMixture(3, random_state=0, ordering="weights").fit(x)
    assert np.all(np.diff(by_weight.weights_) <= 0)


def test_restarts_are_reported():
    x, _ = blobs(spread=1.0)
    model = GaussianMixture(3, n_init=4, random_state=0, n_jobs=2, tol=1e-4).fit(x)
    assert [r.start for r in model.runs_] == ["k-means++", "random", "k-means++", "random"]
    assert_allclose(model.lower_bound_ * len(x), max(r.objective for r in model.runs_), rtol=1e-12)
    assert model.failed_starts_ == []
    assert len(GaussianMixture(2, n_init=2, init="random", random_state=0).fit(x).runs_) == 2


def test_silent_non_convergence_does_not_occur():
    x, _ = blobs(spread=1.0)
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        model = GaussianMixture(3, max_iter=2, random_state=0).fit(x)
    assert not model.converged_
    assert "max_iter=2" in model.status_


def test_samples_have_the_models_moments():
    x, _ = blobs(spread=4.0)
    model = GaussianMixture(3, random_state=0).fit(x)
    draws, labels = model.sample(40_000, random_state=1)
    assert_allclose(np.bincount(labels) / 40_000, model.weights_, atol=0.012)
    for k in range(3):
        assert_allclose(draws[labels == k].mean(axis=0), model.means_[k], atol=0.12)
        assert_allclose(np.cov(draws[labels == k].T), model.covariances_[k], atol=0.3)
    again, _ = model.sample(40_000, random_state=1)
    assert np.array_equal(draws, again)
    assert model.sample(3, random_state=np.random.default_rng(0))[0].shape == (3, 3)
    assert model.sample(3, random_state=np.random.RandomState(0))[0].shape == (3, 3)


def test_students_samples_have_heavy_tails():
    x, _ = blobs(n=100, d=1)
    model = StudentTMixture(1, dof=6.0, random_state=0).fit(x)
    draws, _ = model.sample(100_000, random_state=0)
    z = (draws[:, 0] - model.means_[0, 0]) / np.sqrt(model.covariances_[0, 0, 0])
    assert_allclose(z.var(), 6.0 / 4.0, atol=0.05)
    assert_allclose(model.family_.covariance(model.params_)[0], model.covariances_[0] * 1.5, rtol=1e-10)


def test_fit_predict():
    x, _ = blobs(spread=8.0)
    fitted = GaussianMixture(3, random_state=0).fit_predict(x)
    assert len(np.unique(fitted)) == 3


# -- standard errors -----------------------------------------------------------------------------------------
def test_standard_errors_of_one_gaussian_are_the_textbook_ones():
    rng = np.random.default_rng(0)
    x = rng.multivariate_normal([1, 2], [[2, 0.6], [0.6, 1]], size=400)
    model = GaussianMixture(1, reg_covar=0.0).fit(x)
    errors = model.standard_errors(x).errors
    c, n = model.covariances_[0], len(x)
    assert_allclose(errors["means"][0], np.sqrt(np.diag(c) / n), rtol=1e-5)
    expected = np.sqrt((np.outer(np.diag(c), np.diag(c)) + c**2) / n)
    assert_allclose(errors["covariances"][0], expected, rtol=1e-5)
    assert_allclose(errors["weights"], 0.0, atol=1e-12)


def test_information_is_minus_the_hessian_of_the_log_likelihood():
    """Fisher's identity against direct second differences of the objective."""
    x, _ = blobs(n=80, d=1, spread=3.0)
    model = GaussianMixture(2, random_state=0, tol=1e-12, max_iter=3000).fit(x)
    problem = MixtureProblem(model.family_, x, np.ones(len(x)))
    at = problem.pack(model.theta_, model.theta_)
    hessian = np.empty((len(at), len(at)))
    h = 1e-4
    for i in range(len(at)):
        for j in range(len(at)):
            total = 0.0
            for si, sj in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
                v = at.copy()
                v[i] += si * h
                v[j] += sj * h
                total += si * sj * problem.e_step(problem.unpack(v, model.theta_))[0]
            hessian[i, j] = total / (4 * h * h)
    covariance = model.standard_errors(x).covariance
    assert_allclose(covariance, np.linalg.inv(-hessian), rtol=1e-3, atol=1e-5 * np.abs(covariance).max())


def test_coinciding_components_have_no_standard_errors():
    x = np.random.default_rng(0).normal(size=(100, 1))
    model = GaussianMixture(
        2,
        weights_init=[0.5, 0.5],
        means_init=np.tile(x.mean(axis=0), (2, 1)),
        covariances_init=np.tile(np.cov(x.T, bias=True).reshape(1, 1, 1), (2, 1, 1)),
    ).fit(x)
    with pytest.warns(DegeneracyWarning, match="not positive definite"):
        result = model.standard_errors(x)
    assert not result.positive_definite
    assert np.all(np.isnan(result.errors["means"]))


@pytest.mark.parametrize(("origin", "unit"), [(0.0, 1.0), (101340.0, 1.0), (101340.0, 1e-8), (-5.0, 1e8)])
def test_standard_errors_move_with_units_and_origin(origin, unit):
    rng = np.random.default_rng(1)
    z = np.r_[rng.normal(-40, 30, 75), rng.normal(40, 20, 75)][:, None] / 30
    model = GaussianMixture(2, "diag", tol=1e-10, max_iter=3000, random_state=0)
    expected = model.fit(z).standard_errors(z).errors
    x = (z + origin / 30) * unit
    found = model.fit(x).standard_errors(x).errors
    assert_allclose(found["means"], expected["means"] * unit, rtol=1e-5)
    assert_allclose(found["covariances"], expected["covariances"] * unit**2, rtol=1e-5)
    assert_allclose(found["weights"], expected["weights"], rtol=1e-5)


@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
def test_standard_errors_of_nearly_collinear_features_are_the_textbook_ones(unit):
    rng = np.random.default_rng(0)
    first = rng.normal(size=400)
    x = unit * (np.column_stack([first, first + 0.01 * rng.normal(size=400)]) + 1000.0)
    model = GaussianMixture(1, reg_covar=0.0).fit(x)
    errors = model.standard_errors(x).errors
    c, n = model.covariances_[0], len(x)
    assert_allclose(errors["means"][0], np.sqrt(np.diag(c) / n), rtol=1e-4)
    expected = np.sqrt((np.outer(np.diag(c), np.diag(c)) + c**2) / n)
    assert_allclose(errors["covariances"][0], expected, rtol=1e-4)


def test_a_model_without_free_parameters_has_no_standard_errors_but_zero():
    model = Mixture(1, "categorical").fit(np.zeros((4, 1)))
    assert_allclose(model.standard_errors(np.zeros((4, 1))).errors["emissionprob"], [[0.0]])


def test_coverage_of_standard_errors():
    """Means of two overlapping components: errors over simulated sets have the predicted size."""
    rng = np.random.default_rng(0)
    z = []
    for _ in range(12):
        labels = rng.random(500) < 0.4
        x = rng.normal(np.where(labels, 3.0, 0.0), 1.0)[:, None]
        model = GaussianMixture(2, random_state=0, accelerate=True, tol=1e-9).fit(x)
        errors = model.standard_errors(x).errors["means"].ravel()
        z.extend((model.means_.ravel() - [0.0, 3.0]) / errors)
    # 24 standardized errors: their root mean square is 1 within 4 / sqrt(2 * 24) if they are independent
    assert 0.45 < np.sqrt(np.mean(np.square(z))) < 1.6


def test_q_bounds_the_gain_of_the_likelihood():
    """l(new) - l(old) >= Q(new, old) - Q(old, old), for any new parameters."""
    x, _ = blobs(n=100, spread=2.0)
    rng = np.random.default_rng(0)
    for model in (
        GaussianMixture(2, random_state=0),
        StudentTMixture(2, random_state=0, max_iter=5, tol=-1.0),
    ):
        fit = model.fit(x)
        problem = MixtureProblem(fit.family_, x, np.ones(len(x)))
        old = fit.theta_
        at = problem.pack(old, old)
        objective, stats = problem.e_step(old)
        for scale in (0.01, 0.1, 0.5):
            new = problem.unpack(at + scale * rng.normal(size=len(at)), old)
            gain = problem.e_step(new)[0] - objective
            assert gain >= problem.q_value(stats, new) - problem.q_value(stats, old) - 1e-9


def test_fixed_point_is_stationary():
    x, _ = blobs(n=100, spread=4.0)
    model = GaussianMixture(2, random_state=0, tol=1e-14, max_iter=5000, accelerate=True).fit(x)
    problem = MixtureProblem(model.family_, x, np.ones(len(x)))
    at = problem.pack(model.theta_, model.theta_)
    for i in range(len(at)):
        h = 1e-5
        up, down = at.copy(), at.copy()
        up[i] += h
        down[i] -= h
        values = [problem.e_step(problem.unpack(v, model.theta_))[0] for v in (up, down)]
        assert abs(values[0] - values[1]) / (2 * h) < 1e-3


def test_start_given_as_theta():
    x, _ = blobs(n=100)
    model = GaussianMixture(2, random_state=0).fit(x)
    problem = MixtureProblem(model.family_, x, np.ones(len(x)))
    run = run_em(problem, model.theta_, max_iter=1, tol=-1)
    assert_allclose(run.trace[0], model.lower_bound_ * len(x), rtol=1e-10)


# -- bad input ----------------------------------------------------------------------------------------------
X = blobs(n=30)[0]
BAD = [
    (GaussianMixture(31), "n_components=31 exceeds"),
    (GaussianMixture(0), "n_components=0"),
    (GaussianMixture("aicc"), "aicc"),
    (GaussianMixture(2.5), "2.5"),
    (GaussianMixture([]), "at least 1"),
    (GaussianMixture([1, 2], criterion="x"), "criterion"),
    (GaussianMixture(2, "round"), "covariance_type='round'"),
    (GaussianMixture(2, "factor", n_factors=7), "n_factors=7"),
    (GaussianMixture(2, reg_covar=-1.0), "reg_covar"),
    (GaussianMixture(2, n_init=0), "n_init=0"),
    (GaussianMixture(2, init="kmeans"), "init='kmeans'"),
    (GaussianMixture(2, ordering="size"), "ordering='size'"),
    (GaussianMixture(2, weight_concentration=0.5), "weight_concentration"),
    (GaussianMixture(2, means_init=np.zeros((2, 2))), "means_init has shape"),
    (GaussianMixture(2, weights_init=[0.2, 0.2]), "sum to one"),
    (GaussianMixture(2, "factor", covariances_init=np.ones((2, 3))), "does not apply"),
    (
        GaussianMixture(2, "diag", covariances_init=-np.ones((2, 3))),
        "covariances_init must be positive, and contains",
    ),
    (GaussianMixture(2, "tied", covariances_init=np.full((3, 3), np.nan)), "covariances_init must be finite"),
    (
        GaussianMixture(2, covariances_init=np.stack([np.eye(3), np.eye(3) - 3.0 * np.eye(3)[:, :1]])),
        r"covariances_init\[1\] must be a symmetric matrix, and has -3 at row 0, column 1, but 0 at row 1, column 0",
    ),
    (
        GaussianMixture(2, covariances_init=np.stack([np.eye(3) - 1.0, np.eye(3)])),
        r"covariances_init\[0\] must be a positive definite matrix, and its smallest eigenvalue is -2;",
    ),
    (
        GaussianMixture(2, "tied", covariances_init=np.ones((3, 3)) - 2.0 * np.eye(3)),
        "covariances_init must be a positive definite matrix",
    ),
    (GaussianMixture(2, prior=NormalInverseWishart(1.0, 1.0)), "dof=1.0 must exceed"),
    (GaussianMixture(2, prior=NormalInverseWishart(np.ones(2), 5.0)), "scale has shape"),
    (GaussianMixture(2, prior=NormalInverseWishart(-1.0, 5.0)), "positive definite"),
    (GaussianMixture(2, prior=NormalInverseWishart(1.0, 5.0, kappa=-1.0)), "kappa"),
    (GaussianMixture(2, prior=NormalInverseWishart(1.0, 5.0, mean=[0.0])), "prior.mean"),
    (StudentTMixture(2, dof="free"), "dof='free'"),
    (StudentTMixture(2, dof=-1.0), "dof=-1.0"),
    (StudentTMixture(2, dof_bounds=(3.0, 1.0)), "dof_bounds"),
    (Mixture(2, "gauss"), "'gauss'"),
    (Mixture(2, 7), "neither a family"),
    (Mixture(2, "poisson"), "Negative values"),
]


@pytest.mark.parametrize(("model", "message"), BAD)
def test_bad_settings_are_named(model, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        model.fit(X)


def test_bad_data_are_named():
    with pytest.raises(ValueError, match=r"NaN, first at row 2, feature 1.*allow_nan"):
        GaussianMixture(2).fit(
            np.where(np.arange(12).reshape(6, 2) == 5, np.nan, 1.0 * np.arange(12).reshape(6, 2))
        )
    constant = np.column_stack([X[:, 0], np.full(30, 7.0)])
    with pytest.raises(ValueError, match=r"feature 1 of X is constant \(value 7\)"):
        GaussianMixture(2).fit(constant)
    with pytest.raises(ValueError, match="non-zero"):
        GaussianMixture(2).fit(X, sample_weight=np.zeros(30))
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        GaussianMixture(2).fit(X, sample_weight=-np.ones(30))
    with pytest.raises(ValueError, match="n_samples"):
        GaussianMixture(2, random_state=0).fit(X).sample(0)
    for name in ("means_", "covariances_", "dofs_"):
        with pytest.raises(AttributeError, match=name):
            getattr(StudentTMixture(), name)


def test_a_prior_makes_constant_features_possible():
    constant = np.column_stack([X[:, 0], np.full(30, 7.0)])
    prior = NormalInverseWishart(scale=1.0, dof=4.0)
    model = GaussianMixture(1, prior=prior).fit(constant)
    assert_allclose(model.means_[0, 1], 7.0)
    assert_allclose(model.covariances_[0, 1, 1], 1.0 / (30 + 4 + 3), rtol=1e-9)


# -- rows far away -------------------------------------------------------------------------------------------
def test_rows_of_zero_probability_have_a_density_but_no_component():
    model = Mixture(2, Categorical(n_symbols=3), random_state=0).fit(np.tile([[0], [1]], (20, 1)))
    assert_allclose(model.score_samples([[2]]), -np.inf)
    for method in (model.predict, model.predict_proba):
        with pytest.raises(ValueError, match="row 1 of X has zero probability"):
            method([[0], [2], [1]])


@pytest.mark.parametrize("kind", ALL_KINDS)
@pytest.mark.parametrize("missing", [False, True])
def test_tails_of_student_t_are_powers_where_squares_overflow(kind, missing):
    x, _ = blobs(n=100, d=3)
    model = StudentTMixture(1, kind, dof=3.0, random_state=0, allow_nan=True).fit(x)
    direction = np.array([[1.0, -0.5, np.nan if missing else 2.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        near, far, farther = (model.score_samples(direction * 10.0**e)[0] for e in (100, 160, 300))
    power = (3.0 + (2 if missing else 3)) * np.log(10.0)  # density ~ |x|^-(dof + d)
    assert_allclose(far, near - 60 * power, rtol=1e-12)
    assert_allclose(farther, near - 200 * power, rtol=1e-12)


def test_bounds_given_as_an_array_are_saved(tmp_path):
    x, _ = blobs(n=60, d=2)
    model = StudentTMixture(2, dof_bounds=np.array([1, 100]), random_state=0).fit(x)
    model.save(tmp_path / "model")
    assert_allclose(cavity.load(tmp_path / "model").score_samples(x), model.score_samples(x), rtol=1e-12)


def test_scale_matrices_of_student_t_factors_are_loadings_and_noise():
    x, _ = blobs(n=100, d=3)
    model = StudentTMixture(1, "factor", dof=3.0, random_state=0).fit(x)
    w, noise = model.params_["loadings"][0], model.params_["noise_variances"][0]
    assert_allclose(model.covariances_[0], w @ w.T + np.diag(noise), rtol=1e-12)
