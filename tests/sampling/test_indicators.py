"""Indicator moves against fresh linear algebra and enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from cavity.sampling import _indicators_compiled
from cavity.sampling import indicators as module
from cavity.sampling.indicators import Indicators


def plain_sweep(R, b, c, probability, order, log_u, start, most, logit, gap, relaxed, column):
    """The sweep in NumPy, as a reference for the compiled one."""
    flips = 0
    for at in range(start, len(order)):
        if flips >= most:
            return at, flips, True
        i = order[at]
        delta = -gap if c[i] else gap
        q = 1.0 + delta * R[i, i]
        if not q > 0.0:
            return at, flips, False
        change = -0.5 * np.log(q) + 0.5 * delta * b[i] ** 2 / q
        odds = logit - change if c[i] else logit + change
        probability[i] = 1.0 / (1.0 + np.exp(-odds)) if odds > -700.0 else 0.0
        move = -odds if c[i] else odds
        if not relaxed:
            move = -np.logaddexp(0.0, -move)
        if log_u[at] < move:
            column[:] = R[i]
            b -= (delta / q * b[i]) * column
            R -= delta / q * np.outer(column, column)
            c[i] = not c[i]
            flips += 1
    return len(order), flips, True


def problem(n, seed=0):
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 5, n))
    K = np.exp(-0.5 * (x[:, None] - x) ** 2)
    y = np.sin(x) + 0.1 * rng.standard_normal(n)
    y[rng.choice(n, max(1, n // 5), replace=False)] += 2.0
    return K, y


def enumerated(K, y, regular, outlier, fraction):
    """Probabilities of all 2^n configurations, by densities of scipy."""
    configurations = np.array(list(itertools.product([False, True], repeat=len(y))))
    log_p = np.array(
        [
            multivariate_normal.logpdf(y, np.zeros(len(y)), K + np.diag(np.where(c, outlier, regular)))
            + c.sum() * np.log(fraction)
            + (~c).sum() * np.log1p(-fraction)
            for c in configurations
        ]
    )
    p = np.exp(log_p - log_p.max())
    return configurations, p / p.sum()


def test_rank_one_updates_stay_accurate():
    K, y = problem(60)
    state = Indicators(K, y, np.zeros(60, bool), 1e-3, 4.0, refresh=10**9)
    rng = np.random.default_rng(1)
    flipped = sum(state.update(rng, 0.3) for _ in range(60))
    assert flipped > 300  # otherwise nothing is shown
    fresh = Indicators(K, y, state.c, 1e-3, 4.0)
    assert np.max(np.abs(state.R - fresh.R)) < 1e-8 * np.max(np.abs(fresh.R))
    assert np.max(np.abs(state.b - fresh.b)) < 1e-8 * np.max(np.abs(fresh.b))


REFRESH = 20


def rounding_bound(K, path, regular, outlier):
    """Spectral norm that rounding errors of R can have after the flips along `path`, the last of which is now.

    To first order a rank-one update takes an error E of R = A^-1 to (R'A) E (A R'), with R' the inverse after it. The
    products telescope: what was rounded at a step k, eps |R_k| <= eps / regular, is now multiplied by |R A_k|^2. An
    inverse computed afresh, before the path or now, has the error n eps cond(A) |R|.
    """
    n, eps = len(K), np.finfo(float).eps
    A = K + np.diag(np.where(path[-1], outlier, regular))
    R = np.linalg.inv(A)
    fresh = n * np.linalg.cond(A) * np.linalg.norm(R, 2)
    carried = [R @ (K + np.diag(np.where(c, outlier, regular))) for c in path]
    return eps * (fresh + sum(np.linalg.norm(P, 2) ** 2 for P in carried) / regular)


@pytest.mark.parametrize(("refresh", "bounded"), [(REFRESH, True), (10**9, False)])
def test_refresh_bounds_the_drift(refresh, bounded, monkeypatch):
    """With refreshes the error stays within that of the flips since the last one; without, it grows beyond."""
    K, y = problem(40, seed=3)
    regular, outlier, path = 1e-4, 0.5, []
    sweep = _indicators_compiled.sweep

    def recorded(R, b, c, probability, order, log_u, start, most, *settings):
        """The compiled sweep, one flip at a time, which keeps the configurations it comes through."""
        out = sweep(R, b, c, probability, order, log_u, start, min(most, 1), *settings)
        path.extend([c.copy()] * out[1])
        return out

    monkeypatch.setattr(_indicators_compiled, "sweep", recorded)
    state = Indicators(K, y, np.zeros(40, bool), regular, outlier, refresh=refresh)
    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(100):
        state.update(rng, 0.4, sweeps=4)
        fresh = Indicators(K, y, state.c, regular, outlier)
        bound = rounding_bound(K, path[-max(1, min(REFRESH, state.since_refresh)) :], regular, outlier)
        ratios.append(np.linalg.norm(state.R - fresh.R, 2) / bound)
    assert len(path) > 1000
    assert (max(ratios) < 1) == bounded
    if bounded:
        assert state.since_refresh <= REFRESH
    state.refresh()
    np.testing.assert_array_equal(state.R, fresh.R)  # nothing of the past is left


def test_the_compiled_sweep_is_the_plain_one(monkeypatch):
    K, y = problem(30, seed=2)
    states = [Indicators(K, y, np.zeros(30, bool), 0.01, 2.0) for _ in range(2)]
    for _ in range(20):
        for state, sweep in zip(states, (_indicators_compiled.sweep, plain_sweep)):
            with monkeypatch.context() as patch:
                patch.setattr(_indicators_compiled, "sweep", sweep)
                state.update(np.random.default_rng(5), 0.2, sweeps=2)
        np.testing.assert_array_equal(states[0].c, states[1].c)
        np.testing.assert_allclose(states[0].probability, states[1].probability, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("plain", [0.0, 0.1, 1.0])
def test_marginals_against_enumeration(plain, monkeypatch):
    """Plain, mixed and over-relaxed sweeps have the same stationary distribution."""
    monkeypatch.setattr(module, "PLAIN_SHARE", plain)
    n, regular, outlier, fraction = 8, 0.02, 3.0, 0.25
    K, y = problem(n, seed=4)
    configurations, p = enumerated(K, y, regular, outlier, fraction)
    exact = p @ configurations
    state = Indicators(K, y, np.zeros(n, bool), regular, outlier)
    rng = np.random.default_rng(0)
    draws, conditional = [], []
    for _ in range(6000):
        state.update(rng, fraction)
        draws.append(state.c.copy())
        conditional.append(state.probability.copy())
    draws = np.array(draws, float)
    batches = draws.reshape(30, 200, n).mean(axis=1)
    error = batches.std(axis=0, ddof=1) / np.sqrt(30)
    assert np.all(np.abs(draws.mean(axis=0) - exact) < 4.5 * error + 2e-3)
    assert np.all(np.abs(np.mean(conditional, axis=0) - exact) < 4.5 * error + 2e-3)


def test_even_odds_do_not_lock_the_chain():
    """Two points without information at odds one: over-relaxation alone would flip both for ever."""
    state = Indicators(np.eye(2) * 1e-12, np.ones(2), np.zeros(2, bool), 1.0, 1.0 + 1e-9)
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(400):
        state.update(rng, 0.5)
        seen.add(tuple(state.c.tolist()))
    assert len(seen) == 4


def test_wrong_order_of_variances_is_refused():
    with pytest.raises(ValueError, match="regular < outlier"):
        Indicators(np.eye(2), np.ones(2), [False, True], 1.0, 0.5)
