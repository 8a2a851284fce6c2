"""Hidden Markov models: enumeration, hmmlearn, long sequences, topologies, filtering, bad input."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning

import cavity
from cavity.em import (
    HMM,
    DegeneracyError,
    DegeneracyWarning,
    Gaussian,
    MixtureEmission,
    NormalInverseWishart,
    Poisson,
    StudentT,
)
from cavity.em.baum_welch import HMMTheta
from cavity.em.forward_backward import filtered, forward_backward, sequence_groups
from cavity.em.viterbi import most_probable_paths

hmmlearn = pytest.importorskip("hmmlearn.hmm")


def random_chain(k, rng, zeros=False):
    pi, a = rng.dirichlet(np.ones(k)), rng.dirichlet(np.ones(k), size=k)
    if zeros:
        a = np.triu(a) + 1e-3 * np.eye(k)
        a /= a.sum(axis=1, keepdims=True)
    return pi, a


def enumerate_paths(pi, a, log_b):
    """Everything by summing over all K^T paths."""
    n, k = log_b.shape
    paths = np.array(list(itertools.product(range(k), repeat=n)))
    with np.errstate(divide="ignore"):
        logs = np.log(pi)[paths[:, 0]] + log_b[0, paths[:, 0]]
        for t in range(1, n):
            logs = logs + np.log(a)[paths[:, t - 1], paths[:, t]] + log_b[t, paths[:, t]]
    loglik = logsumexp(logs)
    p = np.exp(logs - loglik)
    gamma = np.array([[p[paths[:, t] == j].sum() for j in range(k)] for t in range(n)])
    xi = np.zeros((k, k))
    for t in range(n - 1):
        for i, j in itertools.product(range(k), repeat=2):
            xi[i, j] += p[(paths[:, t] == i) & (paths[:, t + 1] == j)].sum()
    return loglik, gamma, xi, logs.max(), paths[np.argmax(logs)]


def rows_of(log_b):
    return lambda i, j: log_b[i:j].copy()


# -- recursions -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("zeros", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_recursions_are_the_sum_over_all_paths(zeros, seed):
    rng = np.random.default_rng(seed)
    k, n = 3, 6
    pi, a = random_chain(k, rng, zeros)
    log_b = rng.normal(size=(n, k)) * [1, 5, 20, 300][seed]
    loglik, gamma, xi, best, path = enumerate_paths(pi, a, log_b)
    starts = np.array([0, n])
    posterior = forward_backward(pi, a, rows_of(log_b), starts)
    assert_allclose(posterior.loglik, [loglik], rtol=1e-10)
    assert_allclose(posterior.gamma, gamma, rtol=1e-8, atol=1e-13)
    assert_allclose(posterior.transitions, xi, rtol=1e-8, atol=1e-13)
    assert_allclose(posterior.initial, gamma[0], rtol=1e-8, atol=1e-13)
    score, found = most_probable_paths(pi, a, rows_of(log_b), starts)
    assert_allclose(score, [best], rtol=1e-12)
    assert found.tolist() == path.tolist()
    filtered_loglik, last = filtered(pi, a, rows_of(log_b), starts)
    assert_allclose(filtered_loglik, [loglik], rtol=1e-10)
    assert_allclose(last[-1], gamma[-1], rtol=1e-8, atol=1e-13)


def test_q_is_the_expectation_over_all_paths():
    """Q(new, old) of the statistics equals the sum over paths of P(path | old) log P(path, data | new)."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, size=(5, 1)).astype(float)
    model = HMM(2, "categorical")
    problem = model._problem(
        model._family(), x, np.array([0, 5]), 2, frozenset({"s", "t", "e", "emissionprob"})
    )
    old, new = (
        HMMTheta(*random_chain(2, rng), {"emissionprob": rng.dirichlet(np.ones(3), size=2)}) for _ in range(2)
    )
    _, stats = problem.e_step(old)
    symbols = x[:, 0].astype(int)
    log_old, log_new = (np.log(t.params["emissionprob"][:, symbols].T) for t in (old, new))
    paths = np.array(list(itertools.product(range(2), repeat=5)))

    def joint(theta, log_b):
        logs = np.log(theta.startprob)[paths[:, 0]] + log_b[0, paths[:, 0]]
        for t in range(1, 5):
            logs = logs + np.log(theta.transmat)[paths[:, t - 1], paths[:, t]] + log_b[t, paths[:, t]]
        return logs

    weights = np.exp(joint(old, log_old) - logsumexp(joint(old, log_old)))
    assert_allclose(problem.q_value(stats, new), weights @ joint(new, log_new), rtol=1e-10)


def test_states_that_only_matter_later_are_not_lost():
    """Left-right chain whose early data look like the last state: scaled numbers would lose state 0."""
    pi = np.array([1.0, 0.0])
    a = np.array([[0.5, 0.5], [0.0, 1.0]])
    log_b = np.array([[-2000.0, 0.0]] * 5)
    loglik, gamma, xi, *_ = enumerate_paths(pi, a, log_b)
    posterior = forward_backward(pi, a, rows_of(log_b), np.array([0, 5]))
    assert_allclose(posterior.loglik, [loglik], rtol=1e-12)
    assert_allclose(posterior.gamma, gamma, atol=1e-12)
    assert_allclose(posterior.transitions, xi, atol=1e-12)
    # and gradually: no single step underflows, but their product does
    log_b = np.concatenate([np.tile([[0.0, -300.0]], (4, 1)), np.tile([[-300.0, 0.0]], (4, 1))])
    a = np.array([[1.0 - 1e-3, 1e-3], [0.0, 1.0]])
    loglik, gamma, *_ = enumerate_paths(pi, a, log_b)
    posterior = forward_backward(pi, a, rows_of(log_b), np.array([0, 8]))
    assert_allclose(posterior.loglik, [loglik], rtol=1e-12)
    assert_allclose(posterior.gamma, gamma, atol=1e-12)


def test_impossible_observations():
    model = HMM(2, "categorical")
    model.startprob_, model.transmat_ = np.array([1.0, 0.0]), np.eye(2)
    model.emissionprob_ = [[1.0, 0.0], [0.0, 1.0]]
    x = np.array([[0], [0], [1]])
    assert model.score(x) == -np.inf
    with pytest.raises(ValueError, match="sequence 0 has zero probability"):
        model.predict_proba(x)
    with pytest.raises(DegeneracyError, match="starting point"):
        model.set_params(init_params="").fit(x)


def test_a_million_steps_do_not_underflow():
    """The log-likelihood of one long sequence is that of its parts, up to the start of each."""
    rng = np.random.default_rng(0)
    n = 1_000_000
    pi, a = np.array([0.5, 0.5]), np.array([[0.99, 0.01], [0.02, 0.98]])
    log_b = rng.normal(size=(n, 2)) * 10 - 1000
    long = forward_backward(pi, a, rows_of(log_b), np.array([0, n]))
    assert np.isfinite(long.loglik[0])
    assert_allclose(long.gamma.sum(axis=1), 1.0, rtol=1e-9)
    assert_allclose(long.transitions.sum(), n - 1, rtol=1e-9)
    # the recursion in log space in extended precision over the first stretch
    m = 2000
    log_alpha = np.log(pi).astype(np.longdouble) + log_b[0]
    for t in range(1, m):
        log_alpha = np.logaddexp.reduce(log_alpha[:, None] + np.log(a), axis=0) + log_b[t]
    short = forward_backward(pi, a, rows_of(log_b[:m]), np.array([0, m]))
    assert_allclose(short.loglik[0], float(np.logaddexp.reduce(log_alpha)), rtol=1e-13)


# -- hmmlearn -------------------------------------------------------------------------------------------
def simulate(n=300, d=2, k=3, seed=0):
    rng = np.random.default_rng(seed)
    states = np.zeros(n, dtype=int)
    for t in range(1, n):
        states[t] = states[t - 1] if rng.random() < 0.9 else rng.integers(k)
    return 3.0 * np.arange(k)[states][:, None] + rng.normal(size=(n, d)), states


LENGTHS = [100, 150, 50]


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
@pytest.mark.parametrize("implementation", ["log", "scaling"])
def test_gaussian_emissions_are_hmmlearns(kind, implementation):
    x, _ = simulate()
    rng = np.random.default_rng(1)
    pi, a = random_chain(3, rng)
    means = rng.normal(size=(3, 2)) + 3 * np.arange(3)[:, None]
    covars = {
        "full": np.tile([[1.5, 0.3], [0.3, 1.0]], (3, 1, 1)),
        "tied": np.array([[1.5, 0.3], [0.3, 1.0]]),
        "diag": np.array([[1.5, 1.0]] * 3),
        "spherical": np.array([1.0, 1.5, 2.0]),
    }[kind]
    peer = hmmlearn.GaussianHMM(
        3,
        kind,
        implementation=implementation,
        n_iter=1,
        init_params="",
        min_covar=0.0,
        covars_prior=0.0,
        covars_weight=1.0 if kind in ("diag", "spherical") else 2.0,  # no prior: D for matrices
    )
    ours = HMM(3, covariance_type=kind, reg_covar=0.0, init_params="", max_iter=1, tol=-1.0)
    for model in (peer, ours):
        model.startprob_, model.transmat_, model.means_, model.covars_ = pi, a, means, covars
    loglik, gamma = peer.score_samples(x, LENGTHS)
    assert_allclose(ours.score(x, lengths=LENGTHS), loglik, rtol=1e-8)
    assert_allclose(ours.score_samples(x, LENGTHS)[1], gamma, rtol=1e-8, atol=1e-10)
    best, path = peer.decode(x, LENGTHS)
    ours_best, ours_path = ours.decode(x, LENGTHS)
    assert_allclose(ours_best, best, rtol=1e-8)
    assert np.array_equal(ours_path, path)
    best, path = peer.decode(x, LENGTHS, algorithm="map")
    ours_best, ours_path = ours.decode(x, LENGTHS, algorithm="map")
    assert_allclose(ours_best, best, rtol=1e-8)
    assert np.array_equal(ours_path, path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer.fit(x, LENGTHS)
        ours.fit(x, lengths=LENGTHS)
    assert_allclose(ours.startprob_, peer.startprob_, rtol=1e-8)
    assert_allclose(ours.transmat_, peer.transmat_, rtol=1e-8)
    assert_allclose(ours.means_, peer.means_, rtol=1e-8)
    # hmmlearn's public covars_ has a wrong shape for "spherical" after a fit; its stored values are compared
    stored = np.diagonal(ours.covars_, axis1=1, axis2=2) if kind == "spherical" else ours.covars_
    assert_allclose(stored, peer._covars_ if kind == "spherical" else peer.covars_, rtol=1e-8, atol=1e-10)


def test_categorical_and_poisson_emissions_are_hmmlearns():
    rng = np.random.default_rng(0)
    pi, a = random_chain(2, rng)
    symbols = rng.integers(0, 4, size=(300, 1))
    table = rng.dirichlet(np.ones(4), size=2)
    peer = hmmlearn.CategoricalHMM(2, n_iter=1, init_params="")
    ours = HMM(2, "categorical", init_params="", max_iter=1, tol=-1.0)
    for model in (peer, ours):
        model.startprob_, model.transmat_, model.emissionprob_ = pi, a, table
    assert_allclose(ours.score(symbols, lengths=LENGTHS), peer.score(symbols, LENGTHS), rtol=1e-8)
    peer.fit(symbols, LENGTHS)
    ours.fit(symbols, lengths=LENGTHS)
    assert_allclose(ours.emissionprob_, peer.emissionprob_, rtol=1e-8)
    assert_allclose(ours.transmat_, peer.transmat_, rtol=1e-8)

    counts = rng.poisson(3.0, size=(300, 2))
    rates = rng.uniform(1, 6, size=(2, 2))
    peer = hmmlearn.PoissonHMM(2, n_iter=1, init_params="", lambdas_prior=0.0, lambdas_weight=0.0)
    ours = HMM(2, Poisson(pseudo_count=0.0), init_params="", max_iter=1, tol=-1.0)
    for model in (peer, ours):
        model.startprob_, model.transmat_, model.lambdas_ = pi, a, rates
    assert_allclose(ours.score_samples(counts, LENGTHS)[1], peer.predict_proba(counts, LENGTHS), rtol=1e-8)
    peer.fit(counts, LENGTHS)
    ours.fit(counts, lengths=LENGTHS)
    assert_allclose(ours.lambdas_, peer.lambdas_, rtol=1e-8)


def test_mixture_emissions_are_hmmlearns():
    x, _ = simulate(k=2)
    rng = np.random.default_rng(1)
    pi, a = random_chain(2, rng)
    weights, means = rng.dirichlet(np.ones(2), size=2), rng.normal(size=(2, 2, 2)) + 2.0
    covars = np.full((2, 2, 2), 1.5)
    peer = hmmlearn.GMMHMM(2, 2, covariance_type="diag", init_params="")
    ours = HMM(2, "gmm", covariance_type="diag")
    for model in (peer, ours):
        model.startprob_, model.transmat_ = pi, a
        model.weights_, model.means_, model.covars_ = weights, means, covars
    assert_allclose(ours.score(x, lengths=LENGTHS), peer.score(x, LENGTHS), rtol=1e-8)
    assert_allclose(ours.predict_proba(x, LENGTHS), peer.predict_proba(x, LENGTHS), rtol=1e-8, atol=1e-10)
    assert np.array_equal(ours.predict(x, LENGTHS), peer.predict(x, LENGTHS))
    assert ours.means_.shape == (2, 2, 2)
    assert ours.covars_.shape == (2, 2, 2, 2)


# -- fitting --------------------------------------------------------------------------------------------
EMISSIONS = ["gaussian", "student-t", "gmm", "poisson", "categorical", "bernoulli", "exponential"]


def data_for(emissions, n=400, seed=0):
    rng = np.random.default_rng(seed)
    _, states = simulate(n, k=2, seed=seed)
    if emissions in ("gaussian", "student-t", "gmm"):
        return rng.normal(4.0 * states[:, None], 1.0, (n, 2)), states
    if emissions == "poisson":
        return rng.poisson(2 + 10 * states[:, None], (n, 2)).astype(float), states
    if emissions == "categorical":
        tables = np.array([[0.7, 0.2, 0.05, 0.05], [0.05, 0.05, 0.2, 0.7]])
        return np.array([[rng.choice(4, p=tables[s])] for s in states], dtype=float), states
    if emissions == "bernoulli":
        return (rng.random((n, 6)) < 0.15 + 0.7 * states[:, None]).astype(float), states
    return rng.exponential(np.where(states, 10.0, 0.5)[:, None], (n, 2)), states


@pytest.mark.parametrize("emissions", EMISSIONS)
@pytest.mark.parametrize("accelerate", [False, True])
def test_every_emission_family_fits_and_recovers_states(emissions, accelerate):
    x, states = data_for(emissions)
    model = HMM(2, emissions, random_state=0, n_init=2, accelerate=accelerate, tol=1e-5, max_iter=1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegeneracyWarning)
        model.fit(x, lengths=[150, 250])
    assert model.converged_
    assert np.mean(model.predict(x, [150, 250]) == states) > 0.93
    for run in model.runs_:
        assert np.min(np.diff(run.trace)) > -1e-8
    draws, _ = model.sample(50, random_state=0)
    assert np.isfinite(model.score(draws))
    forecast = model.predict_next(x, [150, 250])
    assert forecast.mean.shape == (2, x.shape[1])
    assert np.all(np.isfinite(forecast.log_prob(x[:2])))
    assert model.bic(x) > model.aic(x)


def test_parameters_are_recovered():
    true = HMM(2)
    true.startprob_, true.transmat_ = np.array([0.5, 0.5]), np.array([[0.95, 0.05], [0.1, 0.9]])
    true.means_, true.covars_ = [[0.0, 0.0], [2.0, 1.0]], [np.eye(2), [[1.0, 0.5], [0.5, 2.0]]]
    x, _ = true.sample(20_000, random_state=1)
    model = HMM(2, random_state=0, n_jobs=2).fit(x)
    errors = model.standard_errors(x[:4000])
    shrink = np.sqrt(4000 / 20_000)
    assert np.all(np.abs(model.means_ - true.means_) < 5 * shrink * errors.errors["means"])
    assert np.all(np.abs(model.transmat_ - true.transmat_) < 5 * shrink * errors.errors["transmat"])
    assert np.all(np.abs(model.covars_ - true.covars_) < 5 * shrink * errors.errors["covariances"])
    assert model.score(x) > true.score(x)


def test_several_kinds_of_features_at_once():
    rng = np.random.default_rng(0)
    _, states = simulate(400, k=2)
    x = np.column_stack(
        [rng.normal(2 * states, 1), rng.poisson(2 + 3 * states), rng.random(400) < 0.2 + 0.6 * states]
    )
    model = HMM(2, [("gaussian", [0]), ("poisson", [1]), ("bernoulli", [2])], random_state=0).fit(x)
    assert np.mean(model.predict(x) == states) > 0.93
    holes = x.copy()
    holes[::3, 0] = np.nan
    holes[::5] = np.nan
    model = HMM(2, model.emissions, random_state=0, allow_nan=True, accelerate=True).fit(holes)
    assert np.mean(model.predict(holes) == states) > 0.85


@pytest.mark.parametrize("topology", ["left-right", "linear"])
def test_left_right_chains_keep_their_zeros(topology):
    rng = np.random.default_rng(0)
    sequences = [np.concatenate([rng.normal(m, 1, (20, 1)) for m in (0, 5, 0)]) for _ in range(10)]
    model = HMM(3, topology=topology, random_state=0).fit(sequences)
    assert np.all(model.transmat_[np.tril_indices(3, -1)] == 0)
    if topology == "linear":
        assert model.transmat_[0, 2] == 0
    assert_allclose(model.startprob_, [1, 0, 0])
    assert_allclose(model.transmat_.sum(axis=1), 1.0)
    # the order of states is the order in time, not that of the means
    assert_allclose(model.means_.ravel(), [0, 5, 0], atol=0.4)
    path = model.predict(sequences)
    assert np.all(np.diff(path.reshape(10, 60), axis=1) >= 0)


def test_other_topologies_and_random_segments():
    x, _ = simulate()
    cyclic = HMM(3, topology="cyclic", random_state=0).fit(x)
    assert np.count_nonzero(cyclic.transmat_) <= 6
    mask = np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1]])
    sparse = HMM(3, topology=mask, random_state=0, accelerate=True).fit(x)
    assert np.all(sparse.transmat_[mask == 0] == 0)
    assert HMM(3, topology="linear", init="random", n_init=2, random_state=0).fit(x).converged_


def test_zeros_set_by_hand_stay_zero():
    x, _ = simulate()
    model = HMM(3, init_params="se", random_state=0)
    model.transmat_ = np.array([[0.9, 0.1, 0.0], [0.0, 0.9, 0.1], [0.1, 0.0, 0.9]])
    model.fit(x)
    assert model.transmat_[0, 2] == model.transmat_[1, 0] == model.transmat_[2, 1] == 0.0
    assert_allclose(model.transmat_.sum(axis=1), 1.0)


def test_a_dead_state_keeps_a_proper_row_and_is_reported():
    """hmmlearn #169: transition rows of zeros and means of NaN after a state dies."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 1))
    model = HMM(2, init_params="")
    model.startprob_, model.transmat_ = np.array([1.0, 0.0]), np.array([[1.0, 0.0], [0.5, 0.5]])
    model.means_, model.covars_ = [[0.0], [50.0]], [[[1.0]], [[1.0]]]
    with pytest.warns(DegeneracyWarning, match=r"states \[1\]"):
        model.fit(x)
    assert_allclose(model.transmat_.sum(axis=1), 1.0)
    assert_allclose(model.transmat_[1], [0.5, 0.5])
    assert np.all(np.isfinite(model.means_))
    assert model.degenerate_ == [1]


def test_too_many_states_do_not_collapse():
    """hmmlearn #263, #285: covariances that are not positive definite."""
    rng = np.random.default_rng(0)
    x = np.repeat(rng.normal(size=(20, 2)), 3, axis=0)
    with pytest.warns(DegeneracyWarning):
        model = HMM(8, random_state=0, max_iter=100, tol=1e-4).fit(x)
    assert np.all(np.linalg.eigvalsh(model.covars_)[:, 0] > 0)
    assert_allclose(model.transmat_.sum(axis=1), 1.0, rtol=1e-9)
    assert np.isfinite(model.log_likelihood_)


def test_parameters_left_out_of_params_are_kept():
    x, _ = simulate()
    model = HMM(3, random_state=0, params="stc", init_params="stc")
    model.means_ = [[0.0, 0.0], [3.0, 3.0], [6.0, 6.0]]
    model.fit(x)
    assert_allclose(model.means_, [[0, 0], [3, 3], [6, 6]], atol=0)
    frozen = HMM(3, random_state=0, params="me", init_params="ste").fit(x)
    assert_allclose(frozen.startprob_, 1 / 3)
    only = HMM(3, random_state=0, params="st").fit(x)
    assert only.converged_


def test_priors_move_probabilities_and_covariances():
    x, _ = simulate()
    free = HMM(3, random_state=0).fit(x)
    pulled = HMM(3, random_state=0, transmat_prior=1e6, startprob_prior=1e6).fit(x)
    assert_allclose(pulled.transmat_, 1 / 3, atol=1e-3)
    assert_allclose(pulled.startprob_, 1 / 3, atol=1e-3)
    stiff = HMM(3, random_state=0, prior=NormalInverseWishart(scale=100.0, dof=5.0)).fit(x)
    assert np.all(np.trace(stiff.covars_, axis1=1, axis2=2) > np.trace(free.covars_, axis1=1, axis2=2))


def test_number_of_states_by_bic():
    x, _ = simulate(600)
    model = HMM(range(1, 5), random_state=0, n_init=2).fit(x)
    assert model.n_states_ == 3
    assert [c.n for c in model.selection_] == [1, 2, 3, 4]
    assert_allclose(model.bic(x), min(c.bic for c in model.selection_), rtol=1e-9)


def test_sizes_that_collapse_are_left_out_of_the_selection():
    x = np.concatenate([np.zeros((20, 1)), np.random.default_rng(0).normal(5.0, 1.0, (40, 1))])
    model = HMM(range(1, 4), reg_covar=0.0, random_state=0).fit(x)  # the zeros would be a state without width
    assert [c.n for c in model.selection_] == [1]
    assert model.n_states_ == 1
    assert [text.split(":")[0] for text in model.failed_sizes_] == ["n_states=2", "n_states=3"]
    with pytest.raises(DegeneracyError, match="n_states=2: "):
        HMM([2, 3], reg_covar=0.0, random_state=0).fit(x)


def test_states_are_ordered_by_mean():
    x, _ = simulate(600)
    fits = [HMM(3, random_state=seed, n_init=2, tol=1e-10).fit(x) for seed in range(3)]
    for fit in fits:
        assert np.all(np.diff(fit.means_[:, 0]) > 0)
        assert_allclose(fit.transmat_, fits[0].transmat_, atol=1e-4)


def test_threads_and_matrix_products_change_nothing(monkeypatch):
    x, _ = simulate(600)
    lengths = [100, 250, 250]
    one = HMM(3, random_state=0, max_iter=4, tol=-1.0).fit(x, lengths=lengths)
    two = HMM(3, random_state=0, max_iter=4, tol=-1.0, n_jobs=2).fit(x, lengths=lengths)
    assert_allclose(two.history_, one.history_, rtol=1e-12)
    assert_allclose(two.transmat_, one.transmat_, rtol=1e-9)
    monkeypatch.setattr("cavity.em.gaussian_passes.SMALL_PASS", 0)
    loops = HMM(3, random_state=0, max_iter=4, tol=-1.0).fit(x, lengths=lengths)
    assert_allclose(loops.history_, one.history_, rtol=1e-11)
    assert_allclose(loops.transmat_, one.transmat_, rtol=1e-8)
    assert np.array_equal(loops.predict(x, lengths), one.predict(x, lengths))


def test_long_sequences_are_evaluated_in_pieces(monkeypatch):
    x, _ = simulate(600)
    whole = HMM(3, random_state=0, max_iter=3, tol=-1.0).fit(x)
    monkeypatch.setattr("cavity.em.baum_welch.ROWS_PER_CALL", 100)
    pieces = HMM(3, random_state=0, max_iter=3, tol=-1.0).fit(x)
    assert_allclose(pieces.history_, whole.history_, rtol=1e-12)
    assert_allclose(pieces.covars_, whole.covars_, rtol=1e-9)


def test_sequences_are_shared_out_by_length():
    starts = np.array([0, 10, 20, 1000, 1010])
    groups = sequence_groups(starts, 3)
    assert groups[0][0] == 0
    assert groups[-1][1] == 4
    assert [g[0] for g in groups[1:]] == [g[1] for g in groups[:-1]]
    assert sequence_groups(np.array([0, 5]), 4) == [(0, 1)]


def test_silent_non_convergence_does_not_occur():
    x, _ = simulate()
    with pytest.warns(ConvergenceWarning, match="Baum-Welch stopped at max_iter=1"):
        model = HMM(3, max_iter=1, random_state=0).fit(x)
    assert not model.converged_


# -- missing observations, filtering, prediction --------------------------------------------------------
def known_model(**settings):
    model = HMM(2, **settings)
    model.startprob_, model.transmat_ = np.array([0.7, 0.3]), np.array([[0.9, 0.1], [0.2, 0.8]])
    model.means_, model.covars_ = [[0.0, 1.0], [2.0, -1.0]], [np.eye(2), [[1.0, 0.5], [0.5, 2.0]]]
    return model


def test_a_missing_row_is_a_step_of_the_chain_without_data():
    model = known_model(allow_nan=True)
    x = np.array([[0.1, 0.9], [np.nan, np.nan], [2.2, -1.0]])
    loglik = model.score(x)
    log_b = model.family_.log_prob(model.params_, x)
    assert_allclose(log_b[1], 0.0)
    expected, gamma, *_ = enumerate_paths(model.startprob_, model.transmat_, log_b)
    assert_allclose(loglik, expected, rtol=1e-12)
    assert_allclose(model.predict_proba(x), gamma, rtol=1e-10)


def test_em_with_missing_observations():
    x, states = simulate(600)
    holes = x.copy()
    rng = np.random.default_rng(0)
    holes[rng.random(x.shape) < 0.2] = np.nan
    holes[::10] = np.nan
    model = HMM(3, random_state=0, allow_nan=True).fit(holes)
    assert np.min(np.diff(model.history_)) > -1e-8
    assert np.mean(model.predict(holes) == states) > 0.9
    assert_allclose(model.means_, [[0, 0], [3, 3], [6, 6]], atol=0.5)


def test_filter_one_observation_at_a_time():
    model = known_model()
    x, _ = model.sample(200, random_state=0)
    online = model.online()
    rows = np.array([online.update(row) for row in x])
    assert_allclose(rows, model.filter_proba(x), rtol=1e-9)
    assert_allclose(online.log_likelihood, model.score(x), rtol=1e-11)
    batch = model.predict_next(x)
    assert_allclose(online.predict().state_probs, batch.state_probs, rtol=1e-9)
    assert_allclose(online.predict().mean, batch.mean, rtol=1e-9)
    online.reset()
    assert online.log_likelihood == 0.0
    assert_allclose(online.update(x[0]), rows[0])
    with pytest.raises(ValueError, match="features"):
        online.update([1.0])
    with pytest.raises(ValueError, match="allow_nan"):
        online.update([np.nan, 1.0])


def test_online_filter_refuses_the_impossible():
    model = HMM(2, "categorical")
    model.startprob_, model.transmat_ = np.array([1.0, 0.0]), np.eye(2)
    model.emissionprob_ = [[1.0, 0.0], [0.0, 1.0]]
    with pytest.raises(ValueError, match="zero probability"):
        model.online().update([1])


def test_prediction_of_the_next_observation():
    """The predictive log densities of a sequence add up to its log-likelihood."""
    model = known_model()
    x, _ = model.sample(30, random_state=0)
    total = model.score(x[:1])
    for t in range(1, 30):
        total += model.predict_next(x[:t]).log_prob(x[t])[0]
    assert_allclose(total, model.score(x), rtol=1e-11)
    forecast = model.predict_next(x)
    rng = np.random.default_rng(0)
    states = rng.choice(2, size=40_000, p=forecast.state_probs[0])
    draws = model.family_.sample(model.params_, states, rng)
    assert_allclose(draws.mean(axis=0), forecast.mean[0], atol=0.04)
    assert_allclose(np.cov(draws.T), forecast.covariance[0], atol=0.08)
    with pytest.raises(ValueError, match="one observation per sequence"):
        forecast.log_prob(np.zeros((2, 2)))


def test_smoothing():
    model = known_model()
    x, _ = model.sample(50, random_state=0)
    assert_allclose(model.smooth(x), model.predict_proba(x) @ np.asarray(model.means_), rtol=1e-12)


def test_samples_follow_the_chain():
    model = known_model()
    x, states = model.sample(50_000, random_state=0)
    # stationary distribution (2/3, 1/3)
    assert abs(np.mean(states == 0) - 2 / 3) < 0.03
    moves = np.mean(states[1:][states[:-1] == 0])
    assert abs(moves - 0.1) < 4 * np.sqrt(0.09 / np.sum(states == 0))
    assert_allclose(x[states == 1].mean(axis=0), [2, -1], atol=0.06)


def test_standard_errors_of_a_chain_without_doubt_are_binomial():
    """States that are seen clearly: transition probabilities are frequencies, with binomial errors."""
    rng = np.random.default_rng(0)
    states = [0]
    for _ in range(1999):
        states.append(states[-1] if rng.random() < 0.8 else 1 - states[-1])
    x = rng.normal(50.0 * np.array(states), 1.0)[:, None]
    model = HMM(2, random_state=0, tol=1e-12).fit(x, lengths=[500] * 4)
    errors = model.standard_errors(x, [500] * 4).errors
    visits = np.array([np.sum(np.array(states) == k) for k in range(2)])
    p = model.transmat_
    assert_allclose(errors["transmat"][0, 1], np.sqrt(p[0, 1] * p[0, 0] / visits[0]), rtol=0.02)
    assert_allclose(errors["means"][0, 0], np.sqrt(model.covars_[0, 0, 0] / visits[0]), rtol=0.02)


# -- input ----------------------------------------------------------------------------------------------
def test_a_list_of_sequences_is_lengths():
    x, _ = simulate()
    parts = [x[:100], x[100:250], x[250:]]
    one = HMM(3, random_state=0).fit(x, lengths=LENGTHS)
    two = HMM(3, random_state=0).fit(parts)
    assert_allclose(two.means_, one.means_, rtol=0)
    assert_allclose(two.score(parts), one.score(x, lengths=LENGTHS))


X = simulate(60)[0]
BAD = [
    ({}, {"lengths": [30, 20]}, "lengths add up to 50, but X has 60"),
    ({}, {"lengths": [60, 0]}, r"lengths\[1\]=0: empty"),
    ({}, {"lengths": [30.5, 29.5]}, "whole numbers"),
    ({}, {"lengths": []}, "non-empty"),
    ({}, {"y": [30, 30]}, "lengths=..."),
    ({"n_states": 61}, {}, "n_states=61 exceeds"),
    ({"n_states": "aicc"}, {}, "aicc"),
    ({"emissions": "poisson"}, {}, "Negative values"),
    ({"emissions": "nothing"}, {}, "'nothing'"),
    ({"params": "xyz"}, {}, "'x' is not a parameter"),
    ({"init_params": "st"}, {}, "means_ was not set"),
    ({"init_params": "te"}, {}, "startprob_ was not set"),
    ({"init_params": "se"}, {}, "transmat_ was not set"),
    ({"topology": "ring"}, {}, "topology='ring'"),
    ({"topology": np.eye(3)}, {}, "topology has shape"),
    ({"topology": [[1, 1], [0, 0]]}, {}, "no transition out of state 1"),
    ({"transmat_prior": 0.5}, {}, "transmat_prior"),
    ({"startprob_prior": [1.0, 2.0, 3.0]}, {}, "startprob_prior has shape"),
    ({"algorithm": "best"}, {}, "algorithm='best'"),
    ({"ordering": "weights"}, {}, "ordering"),
    ({"n_init": 0}, {}, "n_init"),
]


@pytest.mark.parametrize(("settings", "arguments", "message"), BAD)
def test_bad_settings_are_named(settings, arguments, message):
    with pytest.raises(ValueError, match=message):
        HMM(**{"n_states": 2, **settings}).fit(X, **arguments)


def test_bad_data_are_named():
    with pytest.raises(ValueError, match="sequence 1 is empty"):
        HMM(2).fit([X[:10], X[:0], X[10:]])
    with pytest.raises(ValueError, match="lengths must be None"):
        HMM(2).fit([X[:10], X[10:]], lengths=[10, 50])
    holes = X.copy()
    holes[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"NaN, first at row 3.*allow_nan"):
        HMM(2).fit(holes)
    with pytest.raises(ValueError, match="constant"):
        HMM(2).fit(np.column_stack([X[:, 0], np.ones(60)]))
    model = HMM(2, random_state=0).fit(X)
    with pytest.raises(ValueError, match="n_samples"):
        model.sample(0)
    with pytest.raises(ValueError, match="algorithm='best'"):
        model.decode(X, algorithm="best")
    with pytest.raises(AttributeError, match="emissionprob_"):
        _ = model.emissionprob_


def test_probabilities_set_by_hand_are_checked():
    model = HMM(2, init_params="e", random_state=0)
    model.startprob_, model.transmat_ = np.array([0.5, 0.5]), np.array([[0.5, 0.4], [0.5, 0.5]])
    with pytest.raises(ValueError, match="transmat_ must be non-negative"):
        model.fit(X)
    model.transmat_ = np.eye(3)
    with pytest.raises(ValueError, match="transmat_ has shape"):
        model.fit(X)
    model = HMM(2, init_params="st", random_state=0)
    model.means_, model.covars_ = np.zeros((3, 2)), np.tile(np.eye(2), (3, 1, 1))
    with pytest.raises(ValueError, match="means_ has shape"):
        model.fit(X)


def test_student_t_emissions_set_by_hand():
    model = HMM(2, StudentT(dof=4.0))
    model.startprob_, model.transmat_ = np.array([0.5, 0.5]), np.full((2, 2), 0.5)
    model.means_, model.covars_, model.dofs_ = [[0.0], [3.0]], [[[1.0]], [[1.0]]], [4.0, 4.0]
    assert model.dofs_.tolist() == [4.0, 4.0]
    assert np.isfinite(model.score(np.array([[0.0], [1.0], [100.0]])))


def test_diagonal_covariances_may_be_set_as_matrices():
    model = HMM(2, covariance_type="diag")
    model.startprob_, model.transmat_ = np.array([0.5, 0.5]), np.full((2, 2), 0.5)
    model.means_, model.covars_ = [[0.0, 1.0], [3.0, 1.0]], np.tile(np.diag([1.0, 2.0]), (2, 1, 1))
    assert_allclose(model.covars_, np.tile(np.diag([1.0, 2.0]), (2, 1, 1)))
    assert model.n_parameters_ == 1 + 2 + 4 + 4
    assert isinstance(model.family_, Gaussian)


# -- counting parameters ---------------------------------------------------------------------------------
def test_probabilities_that_vanish_are_still_parameters():
    rng = np.random.default_rng(84)
    k, n = int(rng.integers(2, 4)), int(rng.integers(40, 120))
    states = np.repeat(rng.integers(0, k, n // 6 + 1), 6)[:n]
    x = (rng.normal(8 * states, 1) + rng.exponential(1.5, n))[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegeneracyWarning)
        model = HMM(range(1, 6), n_init=2, random_state=0).fit(x)
    # K - 1 starts, K (K - 1) transitions, K means and K variances.
    assert [c.n_parameters for c in model.selection_] == [k * k - 1 + 2 * k for k in range(1, 6)]
    assert model.n_parameters_ == model.n_states_**2 - 1 + 2 * model.n_states_
    chosen = next(c for c in model.selection_ if c.n == model.n_states_)
    assert_allclose(model.bic(x), chosen.bic)


def test_structural_zeros_are_not_parameters():
    x = np.random.default_rng(0).normal(np.repeat([0.0, 4.0, 8.0], 30))[:, None]
    assert HMM(3, topology="left-right", random_state=0).fit(x).n_parameters_ == (2 + 1) + 6
    symbols = np.random.default_rng(0).integers(0, 3, size=(60, 1))
    model = HMM(2, "categorical", init_params="st", random_state=0)
    model.emissionprob_ = [[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]]
    assert model.fit(symbols).n_parameters_ == 1 + 2 + (1 + 2)


# -- edges of the parameter space ------------------------------------------------------------------------
def test_a_poisson_rate_of_zero_may_be_set():
    model = HMM(2, "poisson")
    model.startprob_ = np.array([0.5, 0.5])
    model.transmat_ = np.array([[0.9, 0.1], [0.1, 0.9]])
    model.lambdas_ = [[0.0], [3.0]]
    # The last state is 1: sum over the first two, with Poisson probabilities 1 or exp(-3) of a zero.
    zero, three = np.exp(-3.0), 27.0 * np.exp(-3.0) / 6.0
    paths = 0.9 * 0.1 + 0.1 * zero * 0.9 + zero * 0.1 * 0.1 + zero * 0.9 * zero * 0.9
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_allclose(model.score([[0], [0], [3]]), np.log(0.5 * paths * three), rtol=1e-12)
        assert model.predict([[0], [0], [3]])[-1] == 1


def test_models_on_the_edge_are_saved(tmp_path):
    model = HMM(2, "bernoulli")
    model.startprob_ = np.array([0.5, 0.5])
    model.transmat_ = np.array([[0.9, 0.1], [0.1, 0.9]])
    model.params_ = {"probabilities": np.array([[0.0], [1.0]])}
    model.save(tmp_path / "model")
    bits = [[0], [0], [1]]
    assert_allclose(cavity.load(tmp_path / "model").score(bits), np.log(0.5 * 0.9 * 0.1), rtol=1e-12)


def test_sequences_of_zero_probability_have_no_states():
    model = HMM(2, "categorical")
    model.startprob_ = np.array([0.5, 0.5])
    model.transmat_ = np.array([[0.9, 0.1], [0.1, 0.9]])
    model.emissionprob_ = [[0.5, 0.5, 0.0]] * 2
    x = [[0], [1], [0], [2], [1]]
    assert model.score(x, lengths=[2, 3]) == -np.inf
    for method in (
        model.predict,
        model.decode,
        model.predict_proba,
        model.filter_proba,
        model.predict_next,
        model.smooth,
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(ValueError, match="sequence 1 has zero probability under the model"):
                method(x, lengths=[2, 3])


@pytest.mark.parametrize("kind", [list, tuple, np.array, range, "series"])
def test_lengths_in_place_of_y_are_refused_whatever_holds_them(kind):
    x = np.random.default_rng(0).normal(size=(3, 1))
    lengths = [1, 2]
    if kind == "series":
        lengths = pytest.importorskip("pandas").Series(lengths)
    else:
        lengths = range(1, 3) if kind is range else kind(lengths)
    for method in (HMM(1).fit, HMM(1).fit(x).score):
        with pytest.raises(ValueError, match="pass sequence lengths by name"):
            method(x, lengths)


# -- models set by hand ----------------------------------------------------------------------------------
GIVEN_BACK = {
    **{kind: {"covariance_type": kind} for kind in ("full", "tied", "diag", "spherical")},
    **{
        f"gmm-{kind}": {"emissions": "gmm", "covariance_type": kind}
        for kind in ("full", "tied", "diag", "spherical")
    },
    "diag-object": {"emissions": Gaussian("diag")},
    "gmm-object": {"emissions": MixtureEmission(2, Gaussian("tied"))},
    "student-t": {"emissions": StudentT("spherical", dof=4.0)},
}


@pytest.mark.parametrize("settings", GIVEN_BACK.values(), ids=GIVEN_BACK)
def test_parameters_can_be_given_back(settings):
    rng = np.random.default_rng(0)
    x = rng.normal(np.repeat([[0.0, 0.0], [6.0, 3.0]], 60, axis=0))
    fitted = HMM(2, random_state=0, max_iter=5, tol=-1.0, **settings).fit(x)
    model = HMM(2, **settings)
    for name in ("startprob_", "transmat_", "weights_", "means_", "covars_", "dofs_"):
        if hasattr(fitted, name):
            setattr(model, name, getattr(fitted, name).tolist())
    assert_allclose(model.score(x), fitted.score(x), rtol=1e-12)
    assert_allclose(model.covars_, fitted.covars_, rtol=1e-12)


def test_covariances_of_another_structure_are_refused():
    tilted = [[[1.0, 0.5], [0.5, 1.0]]] * 2
    for kind, value, message in (
        ("factor", tilted, "'loadings'"),
        ("diag", tilted, "off the diagonal"),
        ("spherical", [np.diag([1.0, 2.0])] * 2, "several variances"),
        ("tied", [np.eye(2), 2.0 * np.eye(2)], "differ between states"),
    ):
        with pytest.raises(ValueError, match=message):
            HMM(2, covariance_type=kind).covars_ = value
    with pytest.raises(ValueError, match="Poisson emissions have no covariances"):
        HMM(2, "poisson").covars_ = tilted


def set_by_hand(emissions, **parameters):
    model = HMM(2, emissions)
    for name, value in {
        "startprob_": [0.5, 0.5],
        "transmat_": [[0.9, 0.1], [0.1, 0.9]],
        **parameters,
    }.items():
        setattr(model, name, value)
    return model


MEANS, COVARS = [[0.0, 1.0], [3.0, 1.0]], [[[1.0, 0.0], [0.0, 1.0]]] * 2
WRONG_BY_HAND = [
    ("categorical", {"emissionprob_": [[1, 1], [2, 1]]}, "emissionprob_ must be non-negative, and every row"),
    ("categorical", {"emissionprob_": [0.5, 0.5]}, "emissionprob_ has shape"),
    (
        "categorical",
        {"startprob_": [0.5, 0.6], "emissionprob_": [[0.5, 0.5]] * 2},
        "startprob_ must be non-neg",
    ),
    ("poisson", {"lambdas_": [[-1.0], [2.0]]}, "lambdas_ must be at least 0, and contains -1"),
    ("poisson", {"lambdas_": [[np.nan], [2.0]]}, "lambdas_ must be finite, and contains nan"),
    (
        "bernoulli",
        {"params_": {"probabilities": [[0.5], [1.5]]}},
        "must be between 0 and 1, and contains 1.5",
    ),
    ("exponential", {"params_": {"scales": [[0.0], [1.5]]}}, "must be positive, and contains 0"),
    ("gaussian", {"means_": MEANS}, "covars_ was not set"),
    ("gaussian", {"covars_": COVARS}, "means_ was not set"),
    ("gaussian", {"means_": [0.0, 1.0], "covars_": COVARS}, "means_ has shape"),
    (
        "gaussian",
        {"means_": [[0.0, 1.0]] * 3, "covars_": COVARS},
        r"means_ has shape \(3, 2\), expected \(2, 2\)",
    ),
    ("gaussian", {"means_": MEANS, "covars_": [1.0, 2.0]}, r"covars_ has shape \(2,\), expected \(2, 2, 2\)"),
    (
        "gaussian",
        {"means_": MEANS, "covars_": [[[1, 2], [2, 1]]] * 2},
        r"covars_\[0\] must be a positive definite",
    ),
    ("gaussian", {"means_": MEANS, "covars_": [[[1, 0.5], [0, 1]]] * 2}, r"covars_\[0\] must be a symmetric"),
    (Gaussian("diag"), {"means_": MEANS, "covars_": [[1.0, 1.0], [1.0, 0.0]]}, "covars_ must be positive"),
    ("gmm", {"means_": MEANS, "covars_": [COVARS], "weights_": [[1.0], [1.0]]}, "weights_ has shape"),
    ("student-t", {"means_": MEANS, "covars_": COVARS, "dofs_": [4.0, 0.0]}, "dofs_ must be positive"),
]


@pytest.mark.parametrize(("emissions", "parameters", "message"), WRONG_BY_HAND)
def test_wrong_parameters_set_by_hand_are_named(emissions, parameters, message):
    model = set_by_hand(emissions, **parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=message):
            model.score(np.zeros((3, 2 if "means_" in parameters else 1)))


def test_wrong_parameters_set_before_a_fit_are_named():
    model = HMM(2, "poisson", init_params="st", random_state=0)
    model.lambdas_ = [[-1.0], [2.0]]
    with pytest.raises(ValueError, match="lambdas_ must be at least 0"):
        model.fit(np.random.default_rng(0).poisson(3.0, (20, 1)))


def test_a_model_set_by_hand_may_be_set_again_with_another_width():
    model = set_by_hand("poisson", lambdas_=[[1.0], [3.0]])
    assert np.isfinite(model.score([[0], [1]]))
    model.lambdas_ = [[1.0, 2.0], [3.0, 4.0]]
    p = np.exp(-np.array([3.0, 7.0]))  # two zeros in the only row
    assert_allclose(model.score([[0, 0]]), np.log(0.5 * p.sum()), rtol=1e-12)


def test_several_kinds_of_features_may_be_set_by_hand():
    model = set_by_hand(
        [("poisson", [1]), ("categorical", [0])],
        params_={"rates@0": [[1.0], [2.0]], "emissionprob@1": [[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]]},
    )
    p = [0.5 * np.exp(-1.0) * 0.5, 0.5 * 2.0 * np.exp(-2.0) * 0.8]  # symbol 2 and count 1
    assert_allclose(model.score([[2, 1]]), np.log(sum(p)), rtol=1e-12)


# -- heavy tails -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["diag", "full"])
def test_forecasts_of_heavy_tails_have_infinite_variances_and_no_covariances(kind):
    x = np.random.default_rng(0).normal(size=(60, 2)) @ [[1.0, 0.5], [0.0, 1.0]]
    model = HMM(2, StudentT(kind, dof=1.5), random_state=0, max_iter=5, tol=-1.0).fit(x)
    covariance = model.predict_next(x).covariance[0]
    assert_allclose(np.diag(covariance), np.inf)
    assert np.all(np.isnan(covariance[[0, 1], [1, 0]]))


def test_states_out_of_reach_do_not_enter_a_forecast():
    model = HMM(2, StudentT())
    model.startprob_, model.transmat_ = [1.0, 0.0], np.eye(2)
    model.means_, model.covars_, model.dofs_ = np.zeros((2, 2)), [np.eye(2)] * 2, [6.0, 1.5]
    found = model.predict_next([[0.0, 0.0]])
    assert_allclose(found.covariance[0], 6.0 / 4.0 * np.eye(2))  # dof / (dof - 2)
    both = HMM(1, MixtureEmission(2, StudentT()))
    both.startprob_, both.transmat_, both.weights_ = [1.0], [[1.0]], [[1.0, 0.0]]
    both.means_, both.covars_, both.dofs_ = np.zeros((1, 2, 2)), [[np.eye(2)] * 2], [6.0, 1.5]
    assert_allclose(both.predict_next([[0.0, 0.0]]).covariance[0], 6.0 / 4.0 * np.eye(2))


@pytest.mark.filterwarnings("ignore:the observed information is not positive definite")
def test_standard_errors_of_data_that_do_not_show_every_symbol():
    """The table has three symbols, of which these data show two; it was once cut down to those."""
    model = HMM(1, "categorical")
    model.startprob_, model.transmat_ = np.ones(1), np.ones((1, 1))
    model.emissionprob_ = np.array([[0.5, 0.3, 0.2]])
    seen = np.repeat([0, 1], [50, 30])[:, None]
    assert model.score(seen) == pytest.approx(50 * np.log(0.5) + 30 * np.log(0.3))
    assert model.standard_errors(seen).errors["emissionprob"].shape == (1, 3)


# --- values set by hand -------------------------------------------------------------------------------------


def two_levels():
    rng = np.random.default_rng(0)
    return rng.normal(np.repeat([0.0, 4.0, 0.0, 4.0], 30), 1.0)[:, None]


def test_values_set_by_hand_are_not_overwritten_without_a_word():
    model = HMM(2, random_state=0)
    model.startprob_, model.means_ = np.array([0.5, 0.5]), np.array([[1.0], [3.0]])
    with pytest.warns(UserWarning, match=r"means_, startprob_ start from the data.*init_params='tc'"):
        model.fit(two_levels())
    again = HMM(2, random_state=0, init_params="tc")
    again.startprob_, again.means_ = np.array([0.5, 0.5]), np.array([[1.0], [3.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again.fit(two_levels())  # the remedy that the warning names


def test_a_second_fit_overwrites_estimates_silently_but_not_what_was_set_since(tmp_path):
    model = HMM(2, random_state=0).fit(two_levels())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.score(two_levels())
        model.fit(two_levels())
    model.transmat_ = np.full((2, 2), 0.5)
    with pytest.warns(UserWarning, match=r"transmat_ start from the data.*init_params='smc'"):
        model.fit(two_levels())
    model.covars_ = np.ones((2, 1, 1))
    with pytest.warns(UserWarning, match=r"overwritten: covars_ start"):
        model.fit(two_levels())
    model.save(tmp_path / "hmm.cavity")
    again = cavity.load(tmp_path / "hmm.cavity")
    again.means_ = np.array([[1.0], [3.0]])
    with pytest.warns(UserWarning, match=r"overwritten: means_ start"):
        again.fit(two_levels())


def test_a_covariance_set_by_hand_is_named_by_its_state():
    model = HMM(2, random_state=0, init_params="stm")
    model.covars_ = np.array([np.eye(2), [[1.0, 2.0], [2.0, 1.0]]])
    x = np.random.default_rng(0).standard_normal((40, 2))
    with pytest.raises(ValueError, match=r"covars_\[1\] must be a positive definite .* eigenvalue is -1;"):
        model.fit(x)
    model = HMM(2, "gmm", n_mix=2, random_state=0, init_params="stmw")
    model.covars_ = np.array([[np.eye(2), np.eye(2)], [np.eye(2), [[1.0, 0.0], [0.5, 1.0]]]])
    with pytest.raises(
        ValueError, match=r"covars_\[1, 1\] must be a symmetric matrix, and has 0 at row 0, col"
    ):
        model.fit(x)
