# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call"
"""Compiled transitions of a Gaussian Markov process from those of its factors: A and Q of blocks, and their pullbacks.

Of a Kronecker product of two, with P after the step and A P A' = P - Q,

    A = A_1 (x) A_2,    Q = Q_1 (x) P_2 + (P_1 - Q_1) (x) Q_2.
"""

from __future__ import annotations

import numpy as np

from cavity.latent.markov.factors import (
    ARMA,
    AUTOREGRESSION,
    INTEGRATED,
    MATERN,
    POWER,
    ROTATION,
    WIENER,
    factor_prior,
    factor_slope,
    factor_step,
    few_matern_states,
    rotation,
    shapes_of,
)
from cavity.latent.markov.small_matrices import FORGOTTEN, compiled


@compiled
def _kron(n, X, m, Y, out):
    for i in range(n):
        for j in range(n):
            for k in range(m):
                for e in range(m):
                    out[i * m + k, j * m + e] = X[i, j] * Y[k, e]


@compiled
def _add_kron(n, X, m, Y, out):
    for i in range(n):
        for j in range(n):
            for k in range(m):
                for e in range(m):
                    out[i * m + k, j * m + e] += X[i, j] * Y[k, e]


@compiled
def _room(system):
    """Scratch memory: A, Q, P, dA, dQ of factors (5, F, S, S), and of blocks as they grow (10, S, S), and moments.

    P of stationary factors is there already.
    """
    width = _width(system)
    own = np.zeros((5, len(system.kind), width, width))
    for f in range(system.first[-1]):
        if system.kind[f] not in (WIENER, POWER, INTEGRATED):
            factor_prior(system, f, 0.0, own[2, f])
    return own, np.zeros((10, width, width)), np.zeros(2 * width + 1)


@compiled
def _factors(system, gap, t, own, moments):
    """A, Q and P after the step of all factors; those that are equal are computed once."""
    for f in range(system.first[-1]):
        if system.same[f] != f:
            continue
        kind, x = system.kind[f], system.rate[f] * gap
        if kind == MATERN and system.size[f] <= 3 and x < FORGOTTEN:
            few_matern_states(system.size[f], x, own[0, f], own[1, f])
        elif kind == ROTATION:
            rotation(x, own[0, f])
        else:
            factor_step(system, f, gap, own[0, f], own[1, f], moments)
            if kind in (WIENER, POWER, INTEGRATED):
                factor_prior(system, f, t + gap, own[2, f])


@compiled
def _pair(n, m, own, f, g, A, Q):
    """A and Q of a product of two factors."""
    for i in range(n):
        for j in range(n):
            a, noise, left = own[0, f, i, j], own[1, f, i, j], own[2, f, i, j] - own[1, f, i, j]
            for k in range(m):
                for e in range(m):
                    A[i * m + k, j * m + e] = a * own[0, g, k, e]
                    Q[i * m + k, j * m + e] = noise * own[2, g, k, e] + left * own[1, g, k, e]


@compiled
def _block(system, b, own, A, Q, new):
    """A and Q of a block of several factors, of unit variance; `new` (10, S, S) is scratch memory."""
    first = system.first[b]
    if system.first[b + 1] == first + 2:
        _pair(
            system.size[first], system.size[first + 1], own, system.same[first], system.same[first + 1], A, Q
        )
        return
    n = 1
    A[0, 0], Q[0, 0], new[0, 0, 0] = 1.0, 0.0, 1.0
    for e in range(system.first[b], system.first[b + 1]):
        f, m = system.same[e], system.size[e]
        for i in range(n):
            for j in range(n):
                new[1, i, j] = new[0, i, j] - Q[i, j]
        _kron(n, Q, m, own[2, f], new[2])
        _add_kron(n, new[1], m, own[1, f], new[2])
        _kron(n, A, m, own[0, f], new[3])
        _kron(n, new[0], m, own[2, f], new[4])
        n *= m
        for i in range(n):
            for j in range(n):
                Q[i, j], A[i, j], new[0, i, j] = new[2, i, j], new[3, i, j], new[4, i, j]


@compiled
def _block_slope(system, b, wrt, own, dA, dQ, new):
    """Derivatives of A and Q of a block by those of its factor `wrt`, in own[3:, same[wrt]]."""
    n = 1
    A, Q, P, M = new[5], new[6], new[7], new[8]
    A[0, 0], Q[0, 0], P[0, 0], dA[0, 0], dQ[0, 0] = 1.0, 0.0, 1.0, 0.0, 0.0
    for e in range(system.first[b], system.first[b + 1]):
        f, m = system.same[e], system.size[e]
        for i in range(n):
            for j in range(n):
                M[i, j], new[9, i, j] = P[i, j] - Q[i, j], -dQ[i, j]
        _kron(n, dQ, m, own[2, f], new[1])
        _add_kron(n, new[9], m, own[1, f], new[1])
        _kron(n, dA, m, own[0, f], new[2])
        if e == wrt:
            _add_kron(n, M, m, own[4, f], new[1])
            _add_kron(n, A, m, own[3, f], new[2])
        _kron(n, Q, m, own[2, f], new[3])
        _add_kron(n, M, m, own[1, f], new[3])
        _kron(n, A, m, own[0, f], new[4])
        _kron(n, P, m, own[2, f], new[0])
        n *= m
        for i in range(n):
            for j in range(n):
                dQ[i, j], dA[i, j], Q[i, j], A[i, j] = new[1, i, j], new[2, i, j], new[3, i, j], new[4, i, j]
                P[i, j] = new[0, i, j]


@compiled
def _width(system):
    width = 1
    for b in range(len(system.variance)):
        width = max(width, system.start[b + 1] - system.start[b])
    return width


@compiled
def initial_covariance(system, t):
    """Covariance of the state at time t, shape (d, d)."""
    d, width = system.start[-1], _width(system)
    P = np.zeros((d, d))
    one = np.zeros((width, width))
    own, new = np.zeros_like(one), np.zeros_like(one)
    for b in range(len(system.variance)):
        n = 1
        one[0, 0] = system.variance[b]
        for f in range(system.first[b], system.first[b + 1]):
            m = system.size[f]
            factor_prior(system, f, t, own)
            _kron(n, one, m, own, new)
            n *= m
            one[:n, :n] = new[:n, :n]
        start = system.start[b]
        P[start : start + n, start : start + n] = one[:n, :n]
    return P


@compiled
def transitions(system, gaps, times):
    """A and Q (m, B, S, S) of steps that begin at these times, m of them, and are so long."""
    width, blocks = _width(system), len(system.variance)
    A = np.zeros((len(gaps), blocks, width, width))
    Q = np.zeros_like(A)
    own, new, moments = _room(system)
    for k in range(len(gaps)):
        _factors(system, gaps[k], times[k], own, moments)
        for b in range(blocks):
            first, n = system.first[b], system.start[b + 1] - system.start[b]
            if system.first[b + 1] == first + 1:
                f = system.same[first]
                for i in range(n):
                    for j in range(n):
                        A[k, b, i, j], Q[k, b, i, j] = own[0, f, i, j], own[1, f, i, j]
            else:
                _block(system, b, own, A[k, b], Q[k, b], new)
            for i in range(n):
                for j in range(n):
                    Q[k, b, i, j] *= system.variance[b]
    return A, Q


@compiled
def pull_transitions(system, gaps, times, Q, GA, GQ, d_variance, d_rate):
    """Add sum_k <GA_k, dA_k> + <GQ_k, dQ_k> to the derivatives in variances (B,), and rates and shapes (1 + W, F)."""
    own, new, moments = _room(system)
    dA, dQ = np.zeros_like(new[0]), np.zeros_like(new[0])
    for k in range(len(gaps)):
        _factors(system, gaps[k], times[k], own, moments)
        for b in range(len(system.variance)):
            n = system.start[b + 1] - system.start[b]
            for i in range(n):
                for j in range(n):
                    d_variance[b] += GQ[k, b, i, j] * Q[k, b, i, j] / system.variance[b]
        for wrt in range(len(d_rate)):
            for b in range(len(system.variance)):
                first, last = system.first[b], system.first[b + 1]
                n = system.start[b + 1] - system.start[b]
                for e in range(first, last):
                    f, kind = system.same[e], system.kind[e]
                    if wrt > shapes_of(system, e) or (
                        wrt == 0 and kind in (WIENER, POWER, AUTOREGRESSION, ARMA)
                    ):
                        continue
                    if e == f:  # equal factors come later and find the slopes of the first
                        factor_slope(system, f, gaps[k], wrt, own[0, f], own[3, f], own[4, f])
                    if last > first + 1:
                        _block_slope(system, b, e, own, dA, dQ, new)
                        value = _contracted(n, GA[k, b], GQ[k, b], dA, dQ, system.variance[b])
                    else:
                        value = _contracted(n, GA[k, b], GQ[k, b], own[3, f], own[4, f], system.variance[b])
                    d_rate[wrt, e] += value


@compiled
def _contracted(n, GA, GQ, dA, dQ, variance):
    total = 0.0
    for i in range(n):
        for j in range(n):
            total += GA[i, j] * dA[i, j] + variance * GQ[i, j] * dQ[i, j]
    return total


@compiled
def pull_initial(system, t, G, d_variance, d_rate):
    """Add <G, dP> for the covariance of the state at time t, G (d, d); only that of an integrated process depends on
    its rate, d_rate (1 + W, F)."""
    P = initial_covariance(system, t)
    for b in range(len(system.variance)):
        f, i = system.first[b], system.start[b]
        if system.first[b + 1] == f + 1 and system.kind[f] == INTEGRATED:  # dP = gap (F P + P F' + D)
            drift, span = system.drift[f], t - system.origin[f]
            own = P[i : i + 2, i : i + 2]
            for j in range(2):
                for k in range(2):
                    change = system.variance[b] * system.strength[f] if j == k == 1 else 0.0
                    for e in range(2):
                        change += drift[j, e] * own[e, k] + own[j, e] * drift[k, e]
                    d_rate[0, f] += span * G[i + j, i + k] * change
    for b in range(len(system.variance)):
        for i in range(system.start[b], system.start[b + 1]):
            for j in range(system.start[b], system.start[b + 1]):
                d_variance[b] += G[i, j] * P[i, j] / system.variance[b]
