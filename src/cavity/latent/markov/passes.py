# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call"
"""Compiled passes of a Gaussian Markov process over sorted times: filter, smoother and their pullbacks, O(n).

State x_k (d), x_{k+1} = A_k x_k + N(0, Q_k), f_k = h'x_k; h picks the first entry of each block.
With P the predicted covariance of x_k, w = P h, s = h'w, and a site of precision tau or an observation of variance v:

    site         g = 1 + tau s,   c = tau / g,   q = 1 / g
    observation  g = s + v,       c = 1 / g,     q = v / g

Forward, P_f = (I - c w h') P (I - c w h')' + c q w w' (Joseph's form). Backward, from N = 0, with Nb = A'N A:

    R_kk = c + c^2 w'Nb w,   var = q s - q^2 w'Nb w,   N <- Nb - c (h (Nb w)' + (Nb w) h') + h h' R_kk

With innovations a_k = q b_k - c mu_k for ((I - R K) b, Sigma b), or a_k = c (y_k - mu_k) for R y, means run forward,
m_f = m + w a, and backward, from r = 0, with rb = A'r:

    alpha = a - c w'rb,   moved = mu + s a + q w'rb,   r <- rb + h alpha

No inverse of P or Q is taken: repeated times, states without noise and exact observations are ordinary.

Pullbacks, of sum_k <G_A, dA_k> + <G_Q, dQ_k> + <G_P, dP_1>:

    tr(R dK)    G_A = 2 N A P_f,           G_Q = N,               G_P = N_1          (Koopman and Shephard 1992)
    l' dK r     G_A = rl s_r' + rr s_l',   G_Q = sym(rl rr'),     G_P = sym(rl_1 rr_1')

where rl_k = h l_k + A'rl_{k+1}, and s_k = A s_{k-1} + Q rr_k = cov(x_k, r'f). Passes work on complex numbers too: a
derivative in the precisions is the imaginary part of a pass with tau + i eps w, exact to rounding.

A pass covers a stretch of time steps: states at its edge go in and out. `start` (B + 1) are the offsets of the blocks;
A, Q (m, B, S, S) the transitions; `which` (n,) says which of them leads from a time to the next, -1 if none does
because the next time is the same, or there is none.
"""

from __future__ import annotations

import numpy as np

from cavity.latent.markov.transitions import compiled

CHUNK = 256
"""Steps between stored covariances: others are computed again when they are needed."""


# --- products with A, block by block -------------------------------------------------------------------------


@compiled
def _step(start, A, x, new):
    """x <- A x."""
    for b in range(len(start) - 1):
        lo, n = start[b], start[b + 1] - start[b]
        for i in range(n):
            total = x[lo] * 0.0
            for j in range(n):
                total += A[b, i, j] * x[lo + j]
            new[lo + i] = total
    x[:] = new


@compiled
def _step_back(start, A, x, new):
    """x <- A'x."""
    for b in range(len(start) - 1):
        lo, n = start[b], start[b + 1] - start[b]
        for i in range(n):
            total = x[lo] * 0.0
            for j in range(n):
                total += A[b, j, i] * x[lo + j]
            new[lo + i] = total
    x[:] = new


@compiled
def _carry(start, A, P, half, back):
    """P <- A P A', or A'P A if `back`, in place, for a symmetric P."""
    d = P.shape[0]
    for b in range(len(start) - 1):
        lo, n = start[b], start[b + 1] - start[b]
        for i in range(n):
            for k in range(d):
                half[lo + i, k] = 0.0
            for j in range(n):
                a = A[b, j, i] if back else A[b, i, j]
                for k in range(d):
                    half[lo + i, k] += a * P[lo + j, k]
    for b in range(len(start) - 1):
        lo, n = start[b], start[b + 1] - start[b]
        for j in range(n):
            for i in range(lo + j + 1):
                total = P[0, 0] * 0.0
                for k in range(n):
                    total += half[i, lo + k] * (A[b, k, j] if back else A[b, j, k])
                P[i, lo + j] = total
                P[lo + j, i] = total


@compiled
def _add_noise(start, Q, P):
    """P <- P + Q."""
    for b in range(len(start) - 1):
        lo, n = start[b], start[b + 1] - start[b]
        for i in range(n):
            for j in range(n):
                P[lo + i, lo + j] += Q[b, i, j]


@compiled
def _observed(start, x):
    """h'x."""
    total = x[0] * 0.0
    for b in range(len(start) - 1):
        total += x[start[b]]
    return total


@compiled
def _add_observed(start, x, value):
    """x <- x + h value."""
    for b in range(len(start) - 1):
        x[start[b]] += value


@compiled
def _dot(x, y):
    total = x[0] * 0.0
    for i in range(len(x)):
        total += x[i] * y[i]
    return total


# --- the filter ----------------------------------------------------------------------------------------------


@compiled
def _update(start, P, w, c, q, moved):
    """P <- (I - c w h') P (I - c w h')' + c q w w', in place; w = P h."""
    d = P.shape[0]
    for i in range(d):
        for j in range(d):
            P[i, j] -= c * w[i] * w[j]
    for i in range(d):
        moved[i] = _observed(start, P[i])
    for i in range(d):
        for j in range(i + 1):
            value = P[i, j] - c * moved[i] * w[j] + c * q * w[i] * w[j]
            P[i, j] = value
            P[j, i] = value


@compiled
def forward(start, A, Q, which, P, noise, observed, w, s, c, q, g, kept):
    """The covariance filter; P (d, d) is that of the first state, and then that of the first state after the stretch.

    `noise` (n,) are precisions of sites, or if `observed` variances of observations, infinite if there is none. Fills
    w (n, d), s, c, q, g (n,), and in `kept` the predicted covariance at every CHUNK-th step.
    """
    half, moved = np.empty_like(P), np.empty_like(P[0])
    for k in range(len(which)):
        if k % CHUNK == 0:
            kept[k // CHUNK] = P
        for i in range(P.shape[0]):
            w[k, i] = _observed(start, P[i])
        s[k] = _observed(start, w[k])
        if observed and np.isinf(noise[k]):  # nothing was seen there
            g[k], c[k], q[k] = 1.0, 0.0, 1.0
        elif observed:
            g[k] = s[k] + noise[k]
            c[k], q[k] = 1.0 / g[k], noise[k] / g[k]
        else:
            g[k] = 1.0 + noise[k] * s[k]
            c[k], q[k] = noise[k] / g[k], 1.0 / g[k]
        _update(start, P, w[k], c[k], q[k], moved)
        if which[k] >= 0:
            _carry(start, A[which[k]], P, half, False)
            _add_noise(start, Q[which[k]], P)


@compiled
def _towards(N, w, Nw):
    """Nw = N w, and w'N w."""
    for i in range(len(w)):
        Nw[i] = _dot(N[i], w)
    return _dot(w, Nw)


@compiled
def _gain(start, N, Nw, c, left):
    """N <- N - c (h (N w)' + (N w) h') + h h' R_kk, in place."""
    for b in range(len(start) - 1):
        i = start[b]
        for j in range(N.shape[0]):
            N[i, j] -= c * Nw[j]
            N[j, i] -= c * Nw[j]
        for e in range(len(start) - 1):
            N[i, start[e]] += left


@compiled
def backward(start, A, which, N, w, s, c, q, var, left):
    """Marginal variances and the diagonal of R, each (n,); N (d, d) comes from the future and goes to the past."""
    half, Nw = np.empty_like(N), np.empty_like(N[0])
    for k in range(len(which) - 1, -1, -1):
        if which[k] >= 0:
            _carry(start, A[which[k]], N, half, True)
        wNw = _towards(N, w[k], Nw)
        left[k] = c[k] + c[k] * c[k] * wNw
        var[k] = q[k] * (s[k] - q[k] * wNw)
        _gain(start, N, Nw, c[k], left[k])


# --- means ---------------------------------------------------------------------------------------------------


@compiled
def smooth_forward(start, A, which, x, w, s, c, q, B, observed, alpha, moved):
    """Innovations and filtered means of columns B (n, m): of shifts of sites, or if `observed` of observations.

    x (m, d) are the states at the edge.
    """
    new = np.empty_like(x[0])
    for k in range(len(which)):
        for j in range(B.shape[1]):
            mu = _observed(start, x[j])
            a = c[k] * (B[k, j] - mu) if observed else q[k] * B[k, j] - c[k] * mu
            alpha[k, j], moved[k, j] = a, mu + s[k] * a
            for i in range(x.shape[1]):
                x[j, i] += w[k, i] * a
            if which[k] >= 0:
                _step(start, A[which[k]], x[j], new)


@compiled
def smooth_backward(start, A, which, r, w, c, q, alpha, moved):
    """What the future adds: ((I - R K) B, Sigma B), or (R B, nothing of use) of observations; r (m, d) at the edge."""
    new = np.empty_like(r[0])
    for k in range(len(which) - 1, -1, -1):
        for j in range(alpha.shape[1]):
            if which[k] >= 0:
                _step_back(start, A[which[k]], r[j], new)
            ahead = _dot(w[k], r[j])
            alpha[k, j] -= c[k] * ahead
            moved[k, j] += q[k] * ahead
            _add_observed(start, r[j], alpha[k, j])


@compiled
def innovations(start, A, which, x, w, c, Y, inverse, out):
    """V Y for columns Y (n, m): what each value adds to those before it, R = V' diag(c) V; or V^-1 Y."""
    new = np.empty_like(x[0])
    for k in range(len(which)):
        for j in range(Y.shape[1]):
            mu = _observed(start, x[j])
            v = Y[k, j] if inverse else Y[k, j] - mu
            out[k, j] = v + mu if inverse else v
            for i in range(x.shape[1]):
                x[j, i] += w[k, i] * c[k] * v
            if which[k] >= 0:
                _step(start, A[which[k]], x[j], new)


@compiled
def innovations_adjoint(start, A, which, r, w, c, Y, inverse, out):
    """V'Y for columns Y (n, m), or V^-T Y."""
    new = np.empty_like(r[0])
    for k in range(len(which) - 1, -1, -1):
        for j in range(Y.shape[1]):
            if which[k] >= 0:
                _step_back(start, A[which[k]], r[j], new)
            ahead = c[k] * _dot(w[k], r[j])
            out[k, j] = Y[k, j] + ahead if inverse else Y[k, j] - ahead
            _add_observed(start, r[j], Y[k, j] if inverse else out[k, j])


# --- products with K and pullbacks ---------------------------------------------------------------------------


@compiled
def functionals(start, A, which, r, U, ahead):
    """rr_k = h U_k + A'rr_{k+1} for columns U (n, m), into `ahead` (n, m, d); r (m, d) at the edge."""
    new = np.empty_like(r[0])
    for k in range(len(which) - 1, -1, -1):
        for j in range(U.shape[1]):
            if which[k] >= 0:
                _step_back(start, A[which[k]], r[j], new)
            _add_observed(start, r[j], U[k, j])
            ahead[k, j] = r[j]


@compiled
def _move_covariances(start, A, Q, ahead, x, new):
    """cov(x_{k+1}, U'f) from cov(x_k, U'f) of one column, with the functional at k + 1."""
    _step(start, A, x, new)
    for b in range(len(start) - 1):
        lo, n = start[b], start[b + 1] - start[b]
        for i in range(n):
            for j in range(n):
                x[lo + i] += Q[b, i, j] * ahead[lo + j]


@compiled
def times(start, A, Q, which, x, ahead, after, out):
    """K U, from the functionals of U at these times and at the one after the stretch; x (m, d) = cov(x_k, U'f)."""
    new = np.empty_like(x[0])
    last = len(which) - 1
    for k in range(len(which)):
        for j in range(x.shape[0]):
            out[k, j] = _observed(start, x[j])
            if which[k] >= 0:
                follows = after[j] if k == last else ahead[k + 1, j]
                _move_covariances(start, A[which[k]], Q[which[k]], follows, x[j], new)


@compiled
def pull_products(start, A, Q, which, xl, xr, ahead_l, ahead_r, after_l, after_r, GA, GQ):
    """Cotangents of A and Q in sum_j L[:, j]' K R[:, j], added to GA and GQ; x and ahead as of `times`."""
    new = np.empty_like(xl[0])
    last = len(which) - 1
    for k in range(len(which)):
        u = which[k]
        if u < 0:
            continue
        for j in range(xl.shape[0]):
            one = after_l[j] if k == last else ahead_l[k + 1, j]
            other = after_r[j] if k == last else ahead_r[k + 1, j]
            for b in range(len(start) - 1):
                lo, n = start[b], start[b + 1] - start[b]
                for i in range(n):
                    for m in range(n):
                        GA[u, b, i, m] += one[lo + i] * xr[j, lo + m] + other[lo + i] * xl[j, lo + m]
                        GQ[u, b, i, m] += 0.5 * (one[lo + i] * other[lo + m] + other[lo + i] * one[lo + m])
            _move_covariances(start, A[u], Q[u], one, xl[j], new)
            _move_covariances(start, A[u], Q[u], other, xr[j], new)


@compiled
def pull_correction(start, A, Q, which, N, w, c, q, kept, GA, GQ):
    """Cotangents of A and Q in tr(R K), R held, added to GA and GQ; N (d, d) as of `backward`."""
    n, d = w.shape
    P, half, Nw = np.empty_like(N), np.empty_like(N), np.empty_like(N[0])
    filtered = np.empty((min(n, CHUNK), d, d), dtype=N.dtype)
    for chunk in range((n - 1) // CHUNK, -1, -1):
        first, last = chunk * CHUNK, min(n, (chunk + 1) * CHUNK)
        P[:] = kept[chunk]
        for k in range(first, last):
            _update(start, P, w[k], c[k], q[k], Nw)
            filtered[k - first] = P
            if k + 1 < last and which[k] >= 0:
                _carry(start, A[which[k]], P, half, False)
                _add_noise(start, Q[which[k]], P)
        for k in range(last - 1, first - 1, -1):
            if which[k] >= 0:
                _pull_step(start, A[which[k]], N, filtered[k - first], half, GA[which[k]], GQ[which[k]])
                _carry(start, A[which[k]], N, half, True)
            wNw = _towards(N, w[k], Nw)
            _gain(start, N, Nw, c[k], c[k] + c[k] * c[k] * wNw)


@compiled
def _pull_step(start, A, N, F, half, GA, GQ):
    """Add the blocks on the diagonal of 2 N A F to GA, and those of N to GQ."""
    d = N.shape[0]
    for b in range(len(start) - 1):
        lo, n = start[b], start[b + 1] - start[b]
        for i in range(n):
            for e in range(len(start) - 1):
                at, m = start[e], start[e + 1] - start[e]
                for j in range(m):
                    total = N[0, 0] * 0.0
                    for k in range(m):
                        total += N[lo + i, at + k] * A[e, k, j]
                    half[i, at + j] = total
        for i in range(n):
            for j in range(n):
                total = N[0, 0] * 0.0
                for k in range(d):
                    total += half[i, k] * F[lo + j, k]
                GA[b, i, j] += 2.0 * total
                GQ[b, i, j] += N[lo + i, lo + j]
