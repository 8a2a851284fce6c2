"""Invariances, on data drawn by hypothesis."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from cavity.em import HMM, GaussianMixture
from cavity.em.forward_backward import filtered, forward_backward
from cavity.em.transforms import simplex_from_free, simplex_to_free, spd_from_free, spd_to_free
from cavity.em.viterbi import most_probable_paths

SETTINGS = settings(max_examples=40, deadline=None)


def chain(seed, k, n, scale):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(k)), rng.dirichlet(np.ones(k), size=k), rng.normal(size=(n, k)) * scale


def rows_of(log_b):
    return lambda i, j: log_b[i:j].copy()


seeds = st.integers(0, 10_000)
scales = st.sampled_from([0.1, 3.0, 100.0, 1000.0])


@SETTINGS
@given(seed=seeds, k=st.integers(1, 6), n=st.integers(1, 40), scale=scales)
def test_relabeling_states_relabels_posteriors(seed, k, n, scale):
    pi, a, log_b = chain(seed, k, n, scale)
    order = np.random.default_rng(seed + 1).permutation(k)
    starts = np.array([0, n])
    one = forward_backward(pi, a, rows_of(log_b), starts)
    two = forward_backward(pi[order], a[np.ix_(order, order)], rows_of(log_b[:, order].copy()), starts)
    assert_allclose(two.loglik, one.loglik, rtol=1e-10, atol=1e-10)
    assert_allclose(two.gamma, one.gamma[:, order], atol=1e-9)
    assert_allclose(two.transitions, one.transitions[np.ix_(order, order)], atol=1e-8)


@SETTINGS
@given(seed=seeds, k=st.integers(1, 5), n=st.integers(2, 40), scale=scales, shift=st.floats(-1e4, 1e4))
def test_probabilities_and_counts_add_up(seed, k, n, scale, shift):
    pi, a, log_b = chain(seed, k, n, scale)
    starts = np.array([0, n // 2, n]) if n > 3 else np.array([0, n])
    base = forward_backward(pi, a, rows_of(log_b), starts)
    assert_allclose(base.gamma.sum(axis=1), 1.0, rtol=1e-9)
    assert_allclose(base.transitions.sum(), n - (len(starts) - 1), rtol=1e-9)
    assert_allclose(base.initial, base.gamma[starts[:-1]].sum(axis=0), rtol=1e-9, atol=1e-12)
    # rows of xi are the visits that are not last
    inner = base.gamma.sum(axis=0) - base.gamma[starts[1:] - 1].sum(axis=0)
    assert_allclose(base.transitions.sum(axis=1), inner, rtol=1e-8, atol=1e-9)
    moved = forward_backward(pi, a, rows_of(log_b + shift), starts)
    assert_allclose(moved.loglik.sum(), base.loglik.sum() + n * shift, rtol=1e-9, atol=1e-6)
    assert_allclose(moved.gamma, base.gamma, atol=1e-6)


@SETTINGS
@given(
    seed=seeds,
    k=st.integers(1, 5),
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=6),
    scale=scales,
)
def test_sequences_do_not_influence_each_other(seed, k, lengths, scale):
    n = sum(lengths)
    pi, a, log_b = chain(seed, k, n, scale)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    together = forward_backward(pi, a, rows_of(log_b), starts, threads=2)
    _, alpha = filtered(pi, a, rows_of(log_b), starts)
    score, path = most_probable_paths(pi, a, rows_of(log_b), starts, threads=2)
    for s, (i, j) in enumerate(pairwise(starts)):
        own = np.array([0, j - i])
        alone = forward_backward(pi, a, rows_of(log_b[i:j]), own)
        assert_allclose(alone.loglik[0], together.loglik[s], rtol=1e-10, atol=1e-10)
        assert_allclose(alone.gamma, together.gamma[i:j], atol=1e-9)
        assert_allclose(filtered(pi, a, rows_of(log_b[i:j]), own)[1], alpha[i:j], atol=1e-9)
        best, one = most_probable_paths(pi, a, rows_of(log_b[i:j]), own)
        assert_allclose(best[0], score[s], rtol=1e-12)
        assert np.array_equal(one, path[i:j])


@SETTINGS
@given(seed=seeds, k=st.integers(1, 5), n=st.integers(1, 30), scale=scales)
def test_the_best_path_is_at_most_the_likelihood(seed, k, n, scale):
    pi, a, log_b = chain(seed, k, n, scale)
    starts = np.array([0, n])
    best, path = most_probable_paths(pi, a, rows_of(log_b), starts)
    loglik, _ = filtered(pi, a, rows_of(log_b), starts)
    assert best[0] <= loglik[0] + 1e-9
    steps = np.log(pi[path[0]]) + log_b[np.arange(n), path].sum() + np.log(a[path[:-1], path[1:]]).sum()
    assert_allclose(best[0], steps, rtol=1e-10, atol=1e-9)


@settings(max_examples=15, deadline=None)
@given(seed=seeds, angle=st.floats(0, 6.28), size=st.floats(0.01, 100))
def test_mixtures_move_with_the_data(seed, angle, size):
    """Rotation, scale and shift of the data move a full-covariance maximum likelihood fit along."""
    rng = np.random.default_rng(seed)
    x = np.concatenate([rng.normal(-4, 1, (40, 2)), rng.normal(4, 1, (40, 2))])
    turn = size * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    shift = rng.normal(size=2) * 10
    start = {"means_init": x[[0, -1]], "covariances_init": np.tile(np.eye(2), (2, 1, 1))}
    moved = {
        "means_init": x[[0, -1]] @ turn.T + shift,
        "covariances_init": np.tile(turn @ turn.T, (2, 1, 1)),
    }
    controls = {"weights_init": [0.5, 0.5], "reg_covar": 0.0, "max_iter": 5, "tol": -1.0}
    one = GaussianMixture(2, **start, **controls).fit(x)
    two = GaussianMixture(2, **moved, **controls).fit(x @ turn.T + shift)
    assert_allclose(two.means_, one.means_ @ turn.T + shift, rtol=1e-6, atol=1e-6 * size)
    assert_allclose(two.history_, one.history_ - 80 * 2 * np.log(size), rtol=1e-8, atol=1e-8)


@settings(max_examples=10, deadline=None)
@given(seed=seeds)
def test_mixtures_do_not_depend_on_the_order_of_rows(seed):
    rng = np.random.default_rng(seed)
    x = np.concatenate([rng.normal(-4, 1, (30, 2)), rng.normal(4, 1, (30, 2))])
    order = rng.permutation(60)
    one, two = (GaussianMixture(2, random_state=0, tol=1e-8).fit(rows) for rows in (x, x[order]))
    assert_allclose(two.means_, one.means_, rtol=1e-6, atol=1e-8)


@settings(max_examples=8, deadline=None)
@given(seed=seeds, cut=st.integers(20, 80))
def test_fitting_does_not_depend_on_the_order_of_sequences(seed, cut):
    rng = np.random.default_rng(seed)
    x = np.concatenate([rng.normal(-3, 1, (50, 1)), rng.normal(3, 1, (50, 1))])
    one = HMM(2, random_state=0, max_iter=5, tol=-1.0).fit([x[:cut], x[cut:]])
    two = HMM(2, random_state=0, max_iter=5, tol=-1.0).fit([x[cut:], x[:cut]])
    assert_allclose(two.means_, one.means_, rtol=1e-7)
    assert_allclose(two.transmat_, one.transmat_, rtol=1e-6, atol=1e-9)


@SETTINGS
@given(seed=seeds, k=st.integers(1, 6), d=st.integers(1, 4))
def test_coordinates_invert(seed, k, d):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(k), size=3)
    if k > 1:
        p[0, 0] = 0.0
        p[0] /= p[0].sum()
    assert_allclose(simplex_from_free(simplex_to_free(p, p), p), p, rtol=1e-9, atol=1e-15)
    w = rng.normal(size=(k, d, d + 2))
    m = w @ np.swapaxes(w, 1, 2)
    assert_allclose(spd_from_free(spd_to_free(m), m.shape), m, rtol=1e-9, atol=1e-12)
