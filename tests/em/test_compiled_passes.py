"""Compiled passes and recursions against matrix products, enumeration, NumPy and SciPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from cavity.em import compiled_gaussian, compiled_recursions, gaussian_passes, parallel


def run_by_python(module, monkeypatch):
    """The functions of a module as they are written, without the compiler."""
    for name, function in vars(module).items():
        if hasattr(function, "py_func"):
            monkeypatch.setattr(module, name, function.py_func)
    return module


@pytest.fixture(params=["compiled", "source", "matrix products"])
def passes(request, monkeypatch):
    """Compiled passes, the same functions run by the Python interpreter, and their counterparts by matrix products."""
    if request.param == "matrix products":
        return gaussian_passes
    return run_by_python(compiled_gaussian, monkeypatch) if request.param == "source" else compiled_gaussian


@pytest.fixture(params=["compiled", "source"])
def recursions(request, monkeypatch):
    """Compiled recursions, and the same functions run by the Python interpreter."""
    return (
        run_by_python(compiled_recursions, monkeypatch) if request.param == "source" else compiled_recursions
    )


def problem(full, n=300, d=3, k=4, seed=0):
    rng = np.random.default_rng(seed)
    x, means = rng.normal(size=(n, d)), rng.normal(size=(k, d))
    if full:
        w = rng.normal(size=(k, d, 2 * d))
        covs = w @ np.swapaxes(w, 1, 2) / d
        lower = np.linalg.cholesky(covs)
        i, j = np.tril_indices(d)
        factors = lower[:, i, j].copy()
        factors[:, i == j] = 1.0 / factors[:, i == j]
    else:
        sd = rng.uniform(0.5, 2.0, (k, d))
        covs = sd[:, :, None] ** 2 * np.eye(d)
        factors = 1.0 / sd
    logdet = np.linalg.slogdet(covs)[1]
    return x, means, covs, factors, -0.5 * (d * np.log(2 * np.pi) + logdet)


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("d", [1, 3, 20])
def test_log_density_is_scipys(passes, full, d):
    x, means, covs, factors, log_norm = problem(full, d=d)
    out = np.full((len(x), len(means)), np.nan)
    passes.gaussian_log_density(x, means, factors, log_norm, full, 0, 130, out)
    passes.gaussian_log_density(x, means, factors, log_norm, full, 130, len(x), out)
    for k in range(len(means)):
        assert_allclose(out[:, k], multivariate_normal(means[k], covs[k]).logpdf(x), rtol=1e-9)


@pytest.mark.parametrize("full", [True, False])
def test_moments_and_mixture_pass(passes, full):
    x, means, _, factors, log_norm = problem(full)
    weight = np.random.default_rng(1).uniform(0, 2, len(x))
    d = x.shape[1]
    i, j = np.tril_indices(d)
    size = len(i) if full else d
    logs = np.empty((len(x), len(means)))
    passes.gaussian_log_density(x, means, factors, log_norm, full, 0, len(x), logs)
    resp = weight[:, None] * np.exp(logs - logsumexp(logs, axis=1, keepdims=True))

    counts, first, second = np.zeros(4), np.zeros((4, d)), np.zeros((4, size))
    with np.errstate(over="ignore"):
        loglik = passes.gaussian_mixture_pass(
            x, weight, means, factors, log_norm, full, 0, len(x), counts, first, second
        )
    assert_allclose(loglik, weight @ logsumexp(logs, axis=1), rtol=1e-12)
    dev = x[:, None, :] - means
    expected = np.einsum("nk,nki,nkj->kij", resp, dev, dev)
    expected = expected[:, i, j] if full else np.diagonal(expected, axis1=1, axis2=2)
    for got in ((counts, first, second),):
        assert_allclose(got[0], resp.sum(axis=0), rtol=1e-10)
        assert_allclose(got[1], np.einsum("nk,nki->ki", resp, dev), rtol=1e-9, atol=1e-9)
        assert_allclose(got[2], expected, rtol=1e-9, atol=1e-9)
    counts2, first2, second2 = np.zeros(4), np.zeros((4, d)), np.zeros((4, size))
    passes.gaussian_moments(x, resp, means, full, 0, len(x), counts2, first2, second2)
    assert_allclose(counts2, counts, rtol=1e-10)
    assert_allclose(first2, first, rtol=1e-8, atol=1e-9)
    assert_allclose(second2, second, rtol=1e-9, atol=1e-9)


def test_scaled_recursions_agree_with_log_space(recursions):
    rng = np.random.default_rng(0)
    k, n = 3, 50
    a = rng.dirichlet(np.ones(k), size=k)
    pi = rng.dirichlet(np.ones(k))
    log_b = rng.normal(size=(n, k)) * 3
    gamma, initial, xi = np.empty((n, k)), np.zeros(k), np.zeros((k, k))
    loglik = recursions.forward_log(np.log(pi), np.log(a), log_b, 0, n, gamma)
    recursions.backward_log(np.log(a), log_b, 0, n, gamma, initial, xi)
    b, shift = log_b.copy(), np.empty(n)
    with np.errstate(over="ignore"):
        recursions.scale_emissions(b, 0, n, shift)
    alpha, out = np.empty((n, k)), np.empty(1)
    starts = np.array([0, n])
    for dense in (True, False):
        recursions.forward(pi, a, b, shift, starts, 0, 1, dense, alpha, out)
    initial2, xi2 = np.zeros(k), np.zeros((k, k))
    recursions.backward(a, a.T.copy(), b, starts, 0, 1, out, alpha, initial2, xi2)
    assert_allclose(out[0], loglik, rtol=1e-12)
    assert_allclose(alpha, gamma, rtol=1e-9)
    assert_allclose(xi2, xi, rtol=1e-9)
    assert_allclose(initial2, initial, rtol=1e-9)


def test_best_path(recursions):
    rng = np.random.default_rng(0)
    a = rng.dirichlet(np.ones(2), size=2)
    log_b = rng.normal(size=(4, 2))
    path, best = np.empty(4, dtype=np.intp), np.empty(1)
    start = np.array([0, 4])
    recursions.viterbi(
        np.log([0.5, 0.5]), np.log(a), log_b, start, 0, 1, np.empty((4, 2), np.uint8), path, best
    )
    scores = {}
    for p in itertools.product(range(2), repeat=4):
        steps = [np.log(0.5)] + [np.log(a[i, j]) for i, j in itertools.pairwise(p)]
        scores[p] = sum(steps) + sum(log_b[t, j] for t, j in enumerate(p))
    assert tuple(path) == max(scores, key=scores.get)
    assert_allclose(best[0], max(scores.values()), rtol=1e-12)


def test_hopeless_sequences_are_left_to_log_space(recursions):
    b, shift, starts = np.array([[1.0, 0.0], [0.0, 1.0]]), np.zeros(2), np.array([0, 2])
    alpha, out = np.empty((2, 2)), np.empty(1)
    recursions.forward(np.array([1.0, 0.0]), np.eye(2), b, shift, starts, 0, 1, False, alpha, out)
    assert np.isnan(out[0])
    gamma = np.full((2, 2), 7.0)
    recursions.backward(np.eye(2), np.eye(2), b, starts, 0, 1, out, gamma, np.zeros(2), np.zeros((2, 2)))
    assert np.all(gamma == 7.0)
    log_alpha = np.empty((2, 2))
    with np.errstate(divide="ignore"):
        log_eye, log_b = np.log(np.eye(2)), np.log(b)
    assert recursions.forward_log(log_eye[0], log_eye, log_b, 0, 2, log_alpha) == -np.inf


def test_emissions_are_divided_by_the_largest(recursions):
    log_b = np.array([[0.0, -1.0], [-np.inf, -np.inf]])
    shift = np.empty(2)
    with np.errstate(over="ignore"):
        recursions.scale_emissions(log_b, 0, 2, shift)
    assert_allclose(log_b, [[1.0, np.exp(-1.0)], [0.0, 0.0]])
    assert shift.tolist() == [0.0, -np.inf]


def test_chains_follow_their_probabilities(recursions):
    rng = np.random.default_rng(0)
    u = rng.random(20_000)
    a = np.array([[0.9, 0.1], [0.3, 0.7]])
    states = np.empty(len(u), dtype=np.intp)
    recursions.sample_chain(u, np.cumsum([0.5, 0.5]), np.cumsum(a, axis=1), states)
    before = np.concatenate([[0.5], np.cumsum(a, axis=1)[states[:-1], 0]])
    assert np.array_equal(states, u >= before)  # two states: one number divides the unit interval
    # stationary distribution (3/4, 1/4); an autocorrelation of 0.6 inflates the variance by 1.6 / 0.4
    error = np.sqrt(0.75 * 0.25 / len(u) * 4)
    assert abs(np.mean(states == 0) - 0.75) < 4 * error


def test_choice_of_passes():
    assert gaussian_passes.gaussian_passes(10, 2, 2) is gaussian_passes
    assert gaussian_passes.gaussian_passes(100_000, 10, 10) is compiled_gaussian
    assert gaussian_passes.gaussian_passes(100_000, 10, 50) is gaussian_passes


def test_threads():
    assert parallel.resolve_threads(None) == 1
    assert parallel.resolve_threads(3) == 3
    assert parallel.resolve_threads(-1) >= 1
    with pytest.raises(ValueError, match="n_jobs"):
        parallel.resolve_threads(0)
    ranges = parallel.row_ranges(100_000, 3)
    assert [r[0] for r in ranges[1:]] == [r[1] for r in ranges[:-1]]
    assert (ranges[0][0], ranges[-1][1]) == (0, 100_000)
    assert parallel.row_ranges(10, 8) == [(0, 10)]
