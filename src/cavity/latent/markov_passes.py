# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call"
"""Compiled passes of a Gaussian Markov process over sorted times: filter, smoother and their pullbacks, O(n).

State x_k (d), x_{k+1} = A_k x_k + N(0, Q_k), f_k = h'x_k; h picks the first entry of each block (`kernels.state_space`).
With P the predicted covariance of x_k, w = P h, s = h'w, and a site of precision tau or an observation of variance v:

    site         g = 1 + tau s,   c = tau / g,   q = 1 / g
    observation  g = s + v,       c = 1 / g,     q = v / g

Forward, P_f = (I - c w h') P (I - c w h')' + c q w w' (Joseph's form). Backward, from N = 0, with Nb = A'N A:

    R_kk = c + c^2 w'Nb w,   var = q s - q^2 w'Nb w,   N <- Nb - c (h (Nb w)' + (Nb w) h') + h h' R_kk

With innovations a_k = q b_k - c mu_k for b in ((I - R K) b, Sigma b), or a_k = c (y_k - mu_k) for R y, means run forward,
m_f = m + w a, and backward, from r = 0, with rb = A'r: alpha = a - c w'rb, moved = mu + s a + q w'rb, r <- rb + h alpha.
No inverse of P or Q is taken: repeated times, states without noise and exact observations are ordinary.

Pullbacks, of sum_k <G_A, dA_k> + <G_Q, dQ_k> + <G_P, dP_1>:

    tr(R dK)    G_A = 2 N A P_f,           G_Q = N,               G_P = N_1          (Koopman and Shephard 1992)
    l' dK r     G_A = rl s_r' + rr s_l',   G_Q = sym(rl rr'),     G_P = sym(rl_1 rr_1')

where rl_k = h l_k + A'rl_{k+1}, and s_k = A s_{k-1} + Q rr_k = cov(x_k, r'f). Passes work on complex numbers too: a
derivative in the precisions is the imaginary part of a pass with tau + i eps w, exact to rounding.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np
from numba import njit

MATERN, ROTATION, WIENER = 0, 1, 2
"""Kinds of factors, as in `kernels.state_space.FactorKind`; any other is a line."""

SMALL_STEP = 1.0
"""Value of rate * gap up to which Q is summed from positive terms; beyond it nothing cancels in P - A P A'."""

FORGOTTEN = 700.0
"""Value of rate * gap from which nothing of a state is left: exp(-x) underflows."""

CHUNK = 256
"""Steps between stored covariances: others are computed again when they are needed."""

System = namedtuple(
    "System",
    "start first kind order size rate origin power strength covariance drift variance moving",
)
"""A state space as arrays.

start (B + 1): offsets of the blocks' states; first (B + 1): their factors. By factor: kind, order, size, rate, origin;
power (F, M, S, S): (F + I)^m / m! of a Matern factor; strength: of its noise; covariance, drift (F, S, S).
variance (B); moving (B): whether the noise of a block depends on the time itself.
"""

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
    if np.real(x) > FORGOTTEN:
        for i in range(n):
            for j in range(n):
                A[i, j], Q[i, j] = 0.0, P[i, j]
        return
    decay = np.exp(-x)
    for i in range(n):
        for j in range(n):
            total = decay * 0.0
            for m in range(n - 1, -1, -1):
                total = total * x + system.power[f, m, i, j]
            A[i, j] = decay * total
    if np.real(x) <= SMALL_STEP:
        _exponential_moments(x, 2 * n - 1, g)
        for i in range(n):
            for j in range(n):
                total = decay * 0.0
                for m in range(n):
                    for k in range(n):
                        total += system.power[f, m, i, n - 1] * system.power[f, k, j, n - 1] * g[m + k]
                Q[i, j] = system.strength[f] * total
        return
    for i in range(n):
        for j in range(n):
            total = P[i, j] + 0.0 * decay
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
            total = A[i, j] * 0.0
            for k in range(n):
                total += system.drift[f, i, k] * A[k, j]
            dA[i, j] = gap * total
            dQ[i, j] = gap * system.strength[f] * A[i, n - 1] * A[j, n - 1]


@compiled
def _sandwich(n, A, P, out):
    """A P A'."""
    for i in range(n):
        for j in range(n):
            total = A[i, j] * 0.0
            for m in range(n):
                for k in range(n):
                    total += A[i, m] * P[m, k] * A[j, k]
            out[i, j] = total


@compiled
def _kron(n, X, m, Y, out):
    for i in range(n):
        for j in range(n):
            for k in range(m):
                for l in range(m):
                    out[i * m + k, j * m + l] = X[i, j] * Y[k, l]


@compiled
def _add_kron(n, X, m, Y, out):
    for i in range(n):
        for j in range(n):
            for k in range(m):
                for l in range(m):
                    out[i * m + k, j * m + l] += X[i, j] * Y[k, l]


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
def _widest(system):
    width = 1
    for b in range(len(system.variance)):
        width = max(width, system.start[b + 1] - system.start[b])
    return width


@compiled
def _transitions(system, gap, t, known, A, Q, room, g):
    """A and Q of all blocks, (B, S, S); those of the last gap are kept if it comes again."""
    for b in range(len(system.variance)):
        if gap != known or system.moving[b]:
            _block(system, b, gap, t, -1, A[b], Q[b], room[0], room[0], room[1:], g)


@compiled
def initial_covariance(system, t):
    """Covariance of the state at time t, shape (d, d)."""
    d, width = system.start[-1], _widest(system)
    P = np.zeros((d, d), dtype=system.rate.dtype)
    one = np.zeros((width, width), dtype=system.rate.dtype)
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


# --- products with A, block by block -------------------------------------------------------------------------


@compiled
def _step(system, A, x, out):
    """out = A x."""
    for b in range(len(system.variance)):
        start, n = system.start[b], system.start[b + 1] - system.start[b]
        for i in range(n):
            total = x[start] * 0.0
            for j in range(n):
                total += A[b, i, j] * x[start + j]
            out[start + i] = total


@compiled
def _step_back(system, A, x, out):
    """out = A'x."""
    for b in range(len(system.variance)):
        start, n = system.start[b], system.start[b + 1] - system.start[b]
        for i in range(n):
            total = x[start] * 0.0
            for j in range(n):
                total += A[b, j, i] * x[start + j]
            out[start + i] = total


@compiled
def _carry(system, A, P, half):
    """P <- A P A', in place, for a symmetric P."""
    d = P.shape[0]
    for b in range(len(system.variance)):
        start, n = system.start[b], system.start[b + 1] - system.start[b]
        for i in range(n):
            for k in range(d):
                total = P[0, 0] * 0.0
                for j in range(n):
                    total += A[b, i, j] * P[start + j, k]
                half[start + i, k] = total
    for b in range(len(system.variance)):
        start, n = system.start[b], system.start[b + 1] - system.start[b]
        for j in range(n):
            for i in range(start + j + 1):
                total = P[0, 0] * 0.0
                for k in range(n):
                    total += half[i, start + k] * A[b, j, k]
                P[i, start + j] = total
                P[start + j, i] = total


@compiled
def _carry_back(system, A, N, half):
    """N <- A'N A, in place, for a symmetric N."""
    d = N.shape[0]
    for b in range(len(system.variance)):
        start, n = system.start[b], system.start[b + 1] - system.start[b]
        for i in range(n):
            for k in range(d):
                total = N[0, 0] * 0.0
                for j in range(n):
                    total += A[b, j, i] * N[start + j, k]
                half[start + i, k] = total
    for b in range(len(system.variance)):
        start, n = system.start[b], system.start[b + 1] - system.start[b]
        for j in range(n):
            for i in range(start + j + 1):
                total = N[0, 0] * 0.0
                for k in range(n):
                    total += half[i, start + k] * A[b, k, j]
                N[i, start + j] = total
                N[start + j, i] = total


@compiled
def _add_noise(system, Q, P):
    for b in range(len(system.variance)):
        start, n = system.start[b], system.start[b + 1] - system.start[b]
        for i in range(n):
            for j in range(n):
                P[start + i, start + j] += Q[b, i, j]


@compiled
def _observed(system, x):
    """h'x."""
    total = x[0] * 0.0
    for b in range(len(system.variance)):
        total += x[system.start[b]]
    return total


# --- the filter ----------------------------------------------------------------------------------------------


@compiled
def _update(system, P, w, c, q, moved):
    """P <- (I - c w h') P (I - c w h')' + c q w w', in place; w = P h."""
    d = P.shape[0]
    for i in range(d):
        for j in range(d):
            P[i, j] -= c * w[i] * w[j]
    for i in range(d):
        moved[i] = P[i, 0] * 0.0
        for b in range(len(system.variance)):
            moved[i] += P[i, system.start[b]]
    for i in range(d):
        for j in range(i + 1):
            value = P[i, j] - c * moved[i] * w[j] + c * q * w[i] * w[j]
            P[i, j] = value
            P[j, i] = value


@compiled
def _weights_of(system, P, w):
    """w = P h, and s = h'w."""
    for i in range(P.shape[0]):
        w[i] = P[i, 0] * 0.0
        for b in range(len(system.variance)):
            w[i] += P[i, system.start[b]]
    return _observed(system, w)


@compiled
def forward(system, t, noise, observed):
    """The covariance filter over sorted times t (n,).

    `noise` (n,) are precisions of sites, or if `observed` variances of observations, infinite if there is none.

    Returns w (n, d), s, c, q, g (n,), and the predicted covariance at every CHUNK-th step.
    """
    n, d, width = len(t), system.start[-1], _widest(system)
    zero = (system.rate[:1].sum() + noise[:1].sum()) * 0.0 + system.variance[0] * 0.0
    P = initial_covariance(system, t[0]) + zero
    kept = np.empty(((n + CHUNK - 1) // CHUNK, d, d), dtype=P.dtype)
    w = np.empty((n, d), dtype=P.dtype)
    s, c, q, g = np.empty(n, P.dtype), np.empty(n, P.dtype), np.empty(n, P.dtype), np.empty(n, P.dtype)
    A = np.zeros((len(system.variance), width, width), dtype=system.rate.dtype)
    Q, half, moved = np.zeros_like(A), np.empty_like(P), np.empty(d, P.dtype)
    room = np.zeros((3 * _NEW + 2, width, width), dtype=system.rate.dtype)
    moments = np.zeros(2 * width + 1, dtype=system.rate.dtype)
    known = -1.0
    for k in range(n):
        if k % CHUNK == 0:
            kept[k // CHUNK] = P
        s[k] = _weights_of(system, P, w[k])
        if observed and np.isinf(noise[k]):  # nothing was seen there
            g[k], c[k], q[k] = 1.0, 0.0, 1.0
        elif observed:
            g[k] = s[k] + noise[k]
            c[k], q[k] = 1.0 / g[k], noise[k] / g[k]
        else:
            g[k] = 1.0 + noise[k] * s[k]
            c[k], q[k] = noise[k] / g[k], 1.0 / g[k]
        if k + 1 < n:
            gap = t[k + 1] - t[k]
            _update(system, P, w[k], c[k], q[k], moved)
            if gap > 0.0:
                _transitions(system, gap, t[k], known, A, Q, room, moments)
                known = gap
                _carry(system, A, P, half)
                _add_noise(system, Q, P)
    return w, s, c, q, g, kept


@compiled
def backward(system, t, w, s, c, q):
    """Marginal variances and the diagonal of R, each (n,)."""
    n, d, width = len(t), system.start[-1], _widest(system)
    N = np.zeros((d, d), dtype=w.dtype)
    var, left = np.empty(n, w.dtype), np.empty(n, w.dtype)
    A = np.zeros((len(system.variance), width, width), dtype=system.rate.dtype)
    Q, half, Nw = np.zeros_like(A), np.empty_like(N), np.empty(d, w.dtype)
    room = np.zeros((3 * _NEW + 2, width, width), dtype=system.rate.dtype)
    moments = np.zeros(2 * width + 1, dtype=system.rate.dtype)
    known = -1.0
    for k in range(n - 1, -1, -1):
        if k + 1 < n and t[k + 1] > t[k]:
            _transitions(system, t[k + 1] - t[k], t[k], known, A, Q, room, moments)
            known = t[k + 1] - t[k]
            _carry_back(system, A, N, half)
        wNw = _towards(N, w[k], Nw)
        left[k] = c[k] + c[k] * c[k] * wNw
        var[k] = q[k] * (s[k] - q[k] * wNw)
        _gain(system, N, Nw, c[k], left[k])
    return var, left


@compiled
def _towards(N, w, Nw):
    """Nw = N w, and w'N w."""
    total = N[0, 0] * 0.0
    for i in range(len(w)):
        Nw[i] = N[0, 0] * 0.0
        for j in range(len(w)):
            Nw[i] += N[i, j] * w[j]
        total += w[i] * Nw[i]
    return total


@compiled
def _gain(system, N, Nw, c, left):
    """N <- N - c (h (N w)' + (N w) h') + h h' R_kk, in place."""
    for b in range(len(system.variance)):
        i = system.start[b]
        for j in range(N.shape[0]):
            N[i, j] -= c * Nw[j]
            N[j, i] -= c * Nw[j]
    for b in range(len(system.variance)):
        for e in range(len(system.variance)):
            N[system.start[b], system.start[e]] += left


# --- means ---------------------------------------------------------------------------------------------------


@compiled
def smooth(system, t, w, s, c, q, B, observed):
    """((I - R K) B, Sigma B) for columns B (n, m), or if `observed` (R B, nothing of use)."""
    n, d, width, columns = len(t), system.start[-1], _widest(system), B.shape[1]
    x = np.zeros((columns, d), dtype=w.dtype)
    alpha, moved = np.empty((n, columns), w.dtype), np.empty((n, columns), w.dtype)
    A = np.zeros((len(system.variance), width, width), dtype=system.rate.dtype)
    Q, new = np.zeros_like(A), np.empty(d, w.dtype)
    room = np.zeros((3 * _NEW + 2, width, width), dtype=system.rate.dtype)
    moments = np.zeros(2 * width + 1, dtype=system.rate.dtype)
    known = -1.0
    for k in range(n):
        gap = t[k + 1] - t[k] if k + 1 < n else 0.0
        if gap > 0.0:
            _transitions(system, gap, t[k], known, A, Q, room, moments)
            known = gap
        for j in range(columns):
            mu = _observed(system, x[j])
            a = c[k] * (B[k, j] - mu) if observed else q[k] * B[k, j] - c[k] * mu
            alpha[k, j], moved[k, j] = a, mu + s[k] * a
            for i in range(d):
                x[j, i] += w[k, i] * a
            if gap > 0.0:
                _step(system, A, x[j], new)
                x[j] = new
    x[:] = 0.0
    for k in range(n - 1, -1, -1):
        gap = t[k + 1] - t[k] if k + 1 < n else 0.0
        if gap > 0.0:
            _transitions(system, gap, t[k], known, A, Q, room, moments)
            known = gap
        for j in range(columns):
            if gap > 0.0:
                _step_back(system, A, x[j], new)
                x[j] = new
            ahead = alpha[k, j] * 0.0
            for i in range(d):
                ahead += w[k, i] * x[j, i]
            alpha[k, j] -= c[k] * ahead
            moved[k, j] += q[k] * ahead
            for b in range(len(system.variance)):
                x[j, system.start[b]] += alpha[k, j]
    return alpha, moved


@compiled
def innovations(system, t, w, c, Y, inverse):
    """V Y for columns Y (n, m): what each value adds to those before it, R = V' diag(c) V; or V^-1 Y."""
    n, d, width, columns = len(t), system.start[-1], _widest(system), Y.shape[1]
    x = np.zeros((columns, d), dtype=w.dtype)
    out = np.empty((n, columns), w.dtype)
    A = np.zeros((len(system.variance), width, width), dtype=system.rate.dtype)
    Q, new = np.zeros_like(A), np.empty(d, w.dtype)
    room = np.zeros((3 * _NEW + 2, width, width), dtype=system.rate.dtype)
    moments = np.zeros(2 * width + 1, dtype=system.rate.dtype)
    known = -1.0
    for k in range(n):
        gap = t[k + 1] - t[k] if k + 1 < n else 0.0
        if gap > 0.0:
            _transitions(system, gap, t[k], known, A, Q, room, moments)
            known = gap
        for j in range(columns):
            mu = _observed(system, x[j])
            v = Y[k, j] if inverse else Y[k, j] - mu
            out[k, j] = v + mu if inverse else v
            for i in range(d):
                x[j, i] += w[k, i] * c[k] * v
            if gap > 0.0:
                _step(system, A, x[j], new)
                x[j] = new
    return out


@compiled
def innovations_adjoint(system, t, w, c, Y, inverse):
    """V'Y for columns Y (n, m), or V^-T Y."""
    n, d, width, columns = len(t), system.start[-1], _widest(system), Y.shape[1]
    r = np.zeros((columns, d), dtype=w.dtype)
    out = np.empty((n, columns), w.dtype)
    A = np.zeros((len(system.variance), width, width), dtype=system.rate.dtype)
    Q, new = np.zeros_like(A), np.empty(d, w.dtype)
    room = np.zeros((3 * _NEW + 2, width, width), dtype=system.rate.dtype)
    moments = np.zeros(2 * width + 1, dtype=system.rate.dtype)
    known = -1.0
    for k in range(n - 1, -1, -1):
        gap = t[k + 1] - t[k] if k + 1 < n else 0.0
        if gap > 0.0:
            _transitions(system, gap, t[k], known, A, Q, room, moments)
            known = gap
        for j in range(columns):
            if gap > 0.0:
                _step_back(system, A, r[j], new)
                r[j] = new
            ahead = Y[k, j] * (w[k, 0] * 0.0)
            for i in range(d):
                ahead += w[k, i] * c[k] * r[j, i]
            out[k, j] = Y[k, j] + ahead if inverse else Y[k, j] - ahead
            for b in range(len(system.variance)):
                r[j, system.start[b]] += Y[k, j] if inverse else out[k, j]
    return out


@compiled
def times(system, t, U):
    """K U for columns U (n, m)."""
    return _covariances(system, t, U)[0]


@compiled
def _covariances(system, t, U):
    """K U (n, m), and for every step the functional rr and the covariances s = cov(x, U'f), each (n, m, d)."""
    n, d, width, columns = len(t), system.start[-1], _widest(system), U.shape[1]
    A = np.zeros((len(system.variance), width, width), dtype=system.rate.dtype)
    Q, new = np.zeros_like(A), np.empty(d, system.rate.dtype)
    room = np.zeros((3 * _NEW + 2, width, width), dtype=system.rate.dtype)
    moments = np.zeros(2 * width + 1, dtype=system.rate.dtype)
    out = np.empty((n, columns), system.rate.dtype)
    ahead = np.zeros((n, columns, d), system.rate.dtype)
    s = np.zeros((n, columns, d), system.rate.dtype)
    known = -1.0
    for k in range(n - 1, -1, -1):
        if k + 1 < n:
            gap = t[k + 1] - t[k]
            if gap > 0.0:
                _transitions(system, gap, t[k], known, A, Q, room, moments)
                known = gap
            for j in range(columns):
                if gap > 0.0:
                    _step_back(system, A, ahead[k + 1, j], new)
                    ahead[k, j] = new
                else:
                    ahead[k, j] = ahead[k + 1, j]
        for j in range(columns):
            for b in range(len(system.variance)):
                ahead[k, j, system.start[b]] += U[k, j]
    P = initial_covariance(system, t[0])
    for j in range(columns):
        for i in range(d):
            for l in range(d):
                s[0, j, i] += P[i, l] * ahead[0, j, l]
        out[0, j] = _observed(system, s[0, j])
    for k in range(1, n):
        gap = t[k] - t[k - 1]
        if gap > 0.0:
            _transitions(system, gap, t[k - 1], known, A, Q, room, moments)
            known = gap
        for j in range(columns):
            if gap > 0.0:
                _step(system, A, s[k - 1, j], new)
                s[k, j] = new
                for b in range(len(system.variance)):
                    start = system.start[b]
                    for i in range(system.start[b + 1] - start):
                        for l in range(system.start[b + 1] - start):
                            s[k, j, start + i] += Q[b, i, l] * ahead[k, j, start + l]
            else:
                s[k, j] = s[k - 1, j]
            out[k, j] = _observed(system, s[k, j])
    return out, ahead, s


# --- pullbacks -----------------------------------------------------------------------------------------------


@compiled
def _contract(system, b, gap, t, GA, GQ, d_variance, d_rate, A, Q, dA, dQ, room, g):
    """Add <G_A, dA> + <G_Q, dQ> of a block and a step to the derivatives in its variance and rates."""
    n = system.start[b + 1] - system.start[b]
    done = False
    for f in range(system.first[b], system.first[b + 1]):
        if system.kind[f] == MATERN or system.kind[f] == ROTATION:
            _block(system, b, gap, t, f, A, Q, dA, dQ, room, g)
            done = True
            for i in range(n):
                for j in range(n):
                    d_rate[f] += GA[i, j] * dA[i, j] + GQ[i, j] * dQ[i, j]
    if not done:
        _block(system, b, gap, t, -1, A, Q, dA, dQ, room, g)
    for i in range(n):
        for j in range(n):
            d_variance[b] += GQ[i, j] * Q[i, j] / system.variance[b]


@compiled
def _contract_initial(system, b, t, G, d_variance):
    """Add <G, dP_1> of a block, G (S, S); the covariance at the first time depends on no rate."""
    P = initial_covariance(system, t)
    start = system.start[b]
    for i in range(system.start[b + 1] - start):
        for j in range(system.start[b + 1] - start):
            d_variance[b] += G[i, j] * P[start + i, start + j] / system.variance[b]


@compiled
def pull_products(system, t, L, R):
    """Derivatives of sum_j L[:, j]' K R[:, j] in the variances (B,) and rates (F,)."""
    n, width, blocks = len(t), _widest(system), len(system.variance)
    d_variance, d_rate = np.zeros(blocks, system.rate.dtype), np.zeros(len(system.rate), system.rate.dtype)
    _, ahead_l, s_l = _covariances(system, t, L)
    _, ahead_r, s_r = _covariances(system, t, R)
    room = np.zeros((3 * _NEW + 2, width, width), dtype=system.rate.dtype)
    g = np.zeros(2 * width + 1, dtype=system.rate.dtype)
    A, Q, dA, dQ = room[0].copy(), room[0].copy(), room[0].copy(), room[0].copy()
    GA, GQ = room[0].copy(), room[0].copy()
    for b in range(blocks):
        start, size = system.start[b], system.start[b + 1] - system.start[b]
        for k in range(n):
            gap = t[k] - t[k - 1] if k > 0 else 0.0
            if k > 0 and gap <= 0.0:
                continue
            GA[:], GQ[:] = 0.0, 0.0
            for j in range(L.shape[1]):
                for i in range(size):
                    for l in range(size):
                        one, other = ahead_l[k, j, start + i], ahead_r[k, j, start + i]
                        GQ[i, l] += 0.5 * (
                            one * ahead_r[k, j, start + l] + other * ahead_l[k, j, start + l]
                        )
                        if k > 0:
                            GA[i, l] += one * s_r[k - 1, j, start + l] + other * s_l[k - 1, j, start + l]
            if k == 0:
                _contract_initial(system, b, t[0], GQ, d_variance)
            else:
                _contract(system, b, gap, t[k - 1], GA, GQ, d_variance, d_rate, A, Q, dA, dQ, room, g)
    return d_variance, d_rate


@compiled
def pull_correction(system, t, w, s, c, q, kept):
    """Derivatives of tr(R K) in the variances (B,) and rates (F,), with R held."""
    n, d, width, blocks = len(t), system.start[-1], _widest(system), len(system.variance)
    d_variance, d_rate = np.zeros(blocks, w.dtype), np.zeros(len(system.rate), w.dtype)
    N, P = np.zeros((d, d), dtype=w.dtype), np.empty((d, d), dtype=w.dtype)
    filtered = np.empty((CHUNK, d, d), dtype=w.dtype)
    A = np.zeros((blocks, width, width), dtype=system.rate.dtype)
    Q, half, Nw = np.zeros_like(A), np.empty_like(N), np.empty(d, w.dtype)
    room = np.zeros((3 * _NEW + 2, width, width), dtype=system.rate.dtype)
    g = np.zeros(2 * width + 1, dtype=system.rate.dtype)
    one_A, one_Q, dA, dQ = room[0].copy(), room[0].copy(), room[0].copy(), room[0].copy()
    GA, GQ = np.zeros((width, width), w.dtype), np.zeros((width, width), w.dtype)
    known = -1.0
    for chunk in range(len(kept) - 1, -1, -1):
        first, last = chunk * CHUNK, min(n, (chunk + 1) * CHUNK)
        P[:] = kept[chunk]
        for k in range(first, last):
            _update(system, P, w[k], c[k], q[k], Nw)
            filtered[k - first] = P
            if k + 1 < last:
                gap = t[k + 1] - t[k]
                if gap > 0.0:
                    _transitions(system, gap, t[k], known, A, Q, room, g)
                    known = gap
                    _carry(system, A, P, half)
                    _add_noise(system, Q, P)
        for k in range(last - 1, first - 1, -1):
            gap = t[k + 1] - t[k] if k + 1 < n else 0.0
            if gap > 0.0:
                _transitions(system, gap, t[k], known, A, Q, room, g)
                known = gap
                F = filtered[k - first]
                for b in range(blocks):
                    start, size = system.start[b], system.start[b + 1] - system.start[b]
                    # the block of 2 N A P_f on the diagonal: half = (N A) in the rows of the block
                    for i in range(size):
                        for e in range(blocks):
                            lo, m = system.start[e], system.start[e + 1] - system.start[e]
                            for j in range(m):
                                total = N[0, 0] * 0.0
                                for l in range(m):
                                    total += N[start + i, lo + l] * A[e, l, j]
                                half[i, lo + j] = total
                    for i in range(size):
                        for j in range(size):
                            total = N[0, 0] * 0.0
                            for l in range(d):
                                total += half[i, l] * F[l, start + j]
                            GA[i, j] = 2.0 * total
                            GQ[i, j] = N[start + i, start + j]
                    _contract(
                        system, b, gap, t[k], GA, GQ, d_variance, d_rate, one_A, one_Q, dA, dQ, room, g
                    )
                _carry_back(system, A, N, half)
            wNw = _towards(N, w[k], Nw)
            _gain(system, N, Nw, c[k], c[k] + c[k] * c[k] * wNw)
    for b in range(blocks):
        start, size = system.start[b], system.start[b + 1] - system.start[b]
        GQ[:size, :size] = N[start : start + size, start : start + size]
        _contract_initial(system, b, t[0], GQ, d_variance)
    return d_variance, d_rate
