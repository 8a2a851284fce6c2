# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call"
"""Compiled transitions of a Gaussian Markov process: A and Q between two times, and their pullbacks.

The blocks and factors are those of `kernels.state_space`. Q is summed from positive terms if the step is short, so it
has full relative accuracy at any gap; P - A P A' would lose it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

MATERN, ROTATION, WIENER = 0, 1, 2
"""Kinds of factors, as in `kernels.state_space.FactorKind`; any other is a line."""

SMALL_STEP = 1.0
"""Value of rate * gap up to which Q is summed from positive terms; beyond it nothing cancels in P - A P A'."""

FORGOTTEN = 700.0
"""Value of rate * gap from which nothing of a state is left: exp(-x) underflows."""


class System(NamedTuple):
    """A state space as arrays: B blocks of F factors, of at most S states.

    start (B + 1): offsets of the blocks' states; first (B + 1): their factors; variance (B). By factor: kind, size,
    rate, origin; power (F, S, S, S): (F + I)^m / m! of a Matern factor; strength: of its noise; covariance, drift
    (F, S, S).
    """

    start: NDArray
    first: NDArray
    kind: NDArray
    size: NDArray
    rate: NDArray
    origin: NDArray
    power: NDArray
    strength: NDArray
    covariance: NDArray
    drift: NDArray
    variance: NDArray


compiled = njit(cache=True, nogil=True, error_model="numpy")


# --- transitions --------------------------------------------------------------------------------------------


@compiled
def _exponential_moments(x, count, g):
    """g_m = int_0^x s^m exp(-2 s) ds for m < count: a series of positive terms for the last, then downwards."""
    last = count - 1
    decay = np.exp(-2.0 * x)
    term = decay / (last + 1)
    for _ in range(last + 1):
        term *= x
    total, j = term, 0
    while j < 200:
        j += 1
        term *= 2.0 * x / (last + 1 + j)
        total += term
        if abs(term) <= 1e-17 * abs(total):
            break
    g[last] = total
    for m in range(last, 0, -1):
        power = decay
        for _ in range(m):
            power *= x
        g[m - 1] = (power + 2.0 * g[m]) / m


@compiled
def _matern(system, f, gap, A, Q, g):
    """A and Q of a Matern factor of unit variance."""
    n, x = system.size[f], system.rate[f] * gap
    P = system.covariance[f]
    if x > FORGOTTEN:
        for i in range(n):
            for j in range(n):
                A[i, j], Q[i, j] = 0.0, P[i, j]
        return
    decay = np.exp(-x)
    for i in range(n):
        for j in range(n):
            total = 0.0
            for m in range(n - 1, -1, -1):
                total = total * x + system.power[f, m, i, j]
            A[i, j] = decay * total
    if x <= SMALL_STEP:
        _exponential_moments(x, 2 * n - 1, g)
        for i in range(n):
            for j in range(n):
                total = 0.0
                for m in range(n):
                    for k in range(n):
                        total += system.power[f, m, i, n - 1] * system.power[f, k, j, n - 1] * g[m + k]
                Q[i, j] = system.strength[f] * total
        return
    for i in range(n):
        for j in range(n):
            total = P[i, j]
            for m in range(n):
                for k in range(n):
                    total -= A[i, m] * P[m, k] * A[j, k]
            Q[i, j] = total


@compiled
def _wiener_covariance(n, span, P):
    """Covariance of an n-fold integral of white noise after a span of time, from zero."""
    for i in range(n):
        for j in range(n):
            value = 1.0 / (2 * n - 1 - i - j)
            for m in range(2, n - i):
                value /= m
            for m in range(2, n - j):
                value /= m
            P[i, j] = value * span ** (2 * n - 1 - i - j)


@compiled
def _factor_prior(system, f, t, P):
    """Covariance of a factor's state at time t."""
    n, kind = system.size[f], system.kind[f]
    if kind == MATERN:
        for i in range(n):
            for j in range(n):
                P[i, j] = system.covariance[f, i, j]
    elif kind == ROTATION:
        P[0, 0], P[0, 1], P[1, 0], P[1, 1] = 1.0, 0.0, 0.0, 1.0
    elif kind == WIENER:
        _wiener_covariance(n, t - system.origin[f], P)
    else:
        P[0, 0], P[0, 1], P[1, 0], P[1, 1] = t * t, t, t, 1.0


@compiled
def _factor(system, f, gap, A, Q, g):
    """A and Q of a factor."""
    n, kind = system.size[f], system.kind[f]
    if kind == MATERN:
        _matern(system, f, gap, A, Q, g)
        return
    for i in range(n):
        for j in range(n):
            A[i, j], Q[i, j] = 0.0, 0.0
    if kind == ROTATION:
        c, s = np.cos(system.rate[f] * gap), np.sin(system.rate[f] * gap)
        A[0, 0], A[0, 1], A[1, 0], A[1, 1] = c, s, -s, c
    elif kind == WIENER:
        for i in range(n):
            value = 1.0
            for j in range(i, n):
                A[i, j] = value
                value *= gap / (j - i + 1)
        _wiener_covariance(n, gap, Q)
    else:
        A[0, 0], A[0, 1], A[1, 1] = 1.0, gap, 1.0


@compiled
def _factor_slope(system, f, gap, A, dA, dQ):
    """Derivatives of A and Q in the rate of a factor that has one."""
    n = system.size[f]
    if system.kind[f] == ROTATION:
        dA[0, 0], dA[0, 1], dA[1, 0], dA[1, 1] = gap * A[1, 0], gap * A[0, 0], -gap * A[0, 0], gap * A[1, 0]
        dQ[:2, :2] = 0.0
        return
    for i in range(n):
        for j in range(n):
            total = 0.0
            for k in range(n):
                total += system.drift[f, i, k] * A[k, j]
            dA[i, j] = gap * total
            dQ[i, j] = gap * system.strength[f] * A[i, n - 1] * A[j, n - 1]


@compiled
def _sandwich(n, A, P, out):
    """A P A'."""
    for i in range(n):
        for j in range(n):
            total = 0.0
            for m in range(n):
                for k in range(n):
                    total += A[i, m] * P[m, k] * A[j, k]
            out[i, j] = total


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


# rows of the scratch memory of a block
_A, _Q, _P, _M, _DA, _DQ, _DM, _NEW = 0, 1, 2, 3, 4, 5, 6, 7


@compiled
def _block(system, b, gap, t, wrt, A, Q, dA, dQ, room, g):
    """A and Q of a block, and their derivatives in the rate of the factor `wrt`, unless that is negative.

    Of a Kronecker product of two: Q = Q_1 (x) P_2 + M_1 (x) Q_2, with P_2 after the step and M_1 = A_1 P_1 A_1'.
    The rate of a stationary factor leaves P as it is, so dM = -dQ.
    """
    first, last = system.first[b], system.first[b + 1]
    variance = system.variance[b]
    if first == last:
        A[0, 0], Q[0, 0] = 1.0, 0.0
        return
    if last == first + 1:
        n = system.size[first]
        _factor(system, first, gap, A, Q, g)
        if wrt == first:
            _factor_slope(system, first, gap, A, dA, dQ)
    else:
        n = 1
        for which in (_A, _P, _M):
            room[which, 0, 0] = 1.0
        for which in (_Q, _DA, _DQ, _DM):
            room[which, 0, 0] = 0.0
        own = room[2 * _NEW :]
        for f in range(first, last):
            m = system.size[f]
            _factor(system, f, gap, own[_A], own[_Q], g)
            _factor_prior(system, f, t, own[_NEW])
            _sandwich(m, own[_A], own[_NEW], own[_M])
            _factor_prior(system, f, t + gap, own[_P])
            if wrt >= 0:
                if wrt == f:
                    _factor_slope(system, f, gap, own[_A], own[_DA], own[_DQ])
                else:
                    own[_DA, :m, :m] = 0.0
                    own[_DQ, :m, :m] = 0.0
                _kron(n, room[_DQ], m, own[_P], room[_NEW + _DQ])
                _add_kron(n, room[_DM], m, own[_Q], room[_NEW + _DQ])
                _add_kron(n, room[_M], m, own[_DQ], room[_NEW + _DQ])
                _kron(n, room[_DA], m, own[_A], room[_NEW + _DA])
                _add_kron(n, room[_A], m, own[_DA], room[_NEW + _DA])
                _kron(n, room[_DM], m, own[_M], room[_NEW + _DM])
                for i in range(m):
                    for j in range(m):
                        own[_DQ, i, j] = -own[_DQ, i, j]
                _add_kron(n, room[_M], m, own[_DQ], room[_NEW + _DM])
            _kron(n, room[_Q], m, own[_P], room[_NEW + _Q])
            _add_kron(n, room[_M], m, own[_Q], room[_NEW + _Q])
            _kron(n, room[_A], m, own[_A], room[_NEW + _A])
            _kron(n, room[_P], m, own[_P], room[_NEW + _P])
            _kron(n, room[_M], m, own[_M], room[_NEW + _M])
            n *= m
            for which in range(_NEW if wrt >= 0 else _DA):
                room[which, :n, :n] = room[_NEW + which, :n, :n]
        A[:n, :n] = room[_A, :n, :n]
        Q[:n, :n] = room[_Q, :n, :n]
        if wrt >= 0:
            dA[:n, :n] = room[_DA, :n, :n]
            dQ[:n, :n] = room[_DQ, :n, :n]
    for i in range(n):
        for j in range(n):
            Q[i, j] *= variance
            if wrt >= 0:
                dQ[i, j] *= variance


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
            _factor_prior(system, f, t, own)
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
    room = np.zeros((3 * _NEW + 1, width, width))
    g = np.zeros(2 * width + 1)
    for k in range(len(gaps)):
        for b in range(blocks):
            _block(system, b, gaps[k], times[k], -1, A[k, b], Q[k, b], room[0], room[0], room, g)
    return A, Q


@compiled
def pull_transitions(system, gaps, times, GA, GQ, d_variance, d_rate):
    """Add sum_k <GA_k, dA_k> + <GQ_k, dQ_k> to the derivatives in the variances (B,) and the rates (F,)."""
    width = _width(system)
    room = np.zeros((3 * _NEW + 1, width, width))
    g = np.zeros(2 * width + 1)
    A, Q, dA, dQ = (
        np.zeros((width, width)),
        np.zeros((width, width)),
        np.zeros((width, width)),
        np.zeros((width, width)),
    )
    for k in range(len(gaps)):
        for b in range(len(system.variance)):
            n, known = system.start[b + 1] - system.start[b], False
            for f in range(system.first[b], system.first[b + 1]):
                if system.kind[f] == MATERN or system.kind[f] == ROTATION:
                    _block(system, b, gaps[k], times[k], f, A, Q, dA, dQ, room, g)
                    known = True
                    for i in range(n):
                        for j in range(n):
                            d_rate[f] += GA[k, b, i, j] * dA[i, j] + GQ[k, b, i, j] * dQ[i, j]
            if not known:
                _block(system, b, gaps[k], times[k], -1, A, Q, dA, dQ, room, g)
            for i in range(n):
                for j in range(n):
                    d_variance[b] += GQ[k, b, i, j] * Q[i, j] / system.variance[b]


@compiled
def pull_initial(system, t, G, d_variance):
    """Add <G, dP> for the covariance of the state at time t, G (d, d); it depends on no rate."""
    P = initial_covariance(system, t)
    for b in range(len(system.variance)):
        for i in range(system.start[b], system.start[b + 1]):
            for j in range(system.start[b], system.start[b + 1]):
                d_variance[b] += G[i, j] * P[i, j] / system.variance[b]
