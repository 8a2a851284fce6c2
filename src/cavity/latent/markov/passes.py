# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call"
"""Compiled passes of a Gaussian Markov process over sorted times: filter, smoother and their pullbacks, O(n).

State x_k (d), x_{k+1} = A_k x_k + N(0, Q_k), f_k = h'x_k; h picks the first entry of each block.
With P the predicted covariance of x_k, w = P h, s = h'w, and a site of precision tau or an observation of variance v:

    site         g = 1 + tau s,   c = tau / g,   q = 1 / g
    observation  g = s + v,       c = 1 / g,     q = v / g

Forward, P_f = P - c w w', corrected so that P_f h = q w to rounding of q w, since at tiny noise nothing is left of the
digits of w - c w s (Joseph's form does the same, at twice the price). Backward, from N = 0, with Nb = A'N A:

    R_kk = c + c^2 w'Nb w,   var = q s - q^2 w'Nb w,   N <- Nb - c (h (Nb w)' + (Nb w) h') + h h' R_kk

With innovations a_k = q b_k - c mu_k for ((I - R K) b, Sigma b), or a_k = c (y_k - mu_k) for R y, means run forward,
m_f = m + w a, and backward, from r = 0, with rb = A'r:

    alpha = a - c w'rb,   moved = mu + s a + q w'rb,   r <- rb + h alpha

No inverse of P or Q is taken: repeated times, states without noise and exact observations are ordinary.

Pullbacks, of sum_k <G_A, dA_k> + <G_Q, dQ_k> + <G_P, dP_1>:

    tr(R dK)    G_A = 2 N A P_f,           G_Q = N,               G_P = N_1          (Koopman and Shephard 1992)
    l' dK r     G_A = rl s_r' + rr s_l',   G_Q = sym(rl rr'),     G_P = sym(rl_1 rr_1')

where rl_k = h l_k + A'rl_{k+1}, and s_k = A s_{k-1} + Q rr_k = cov(x_k, r'f). If parameters are rates of generators,
A = exp(gap rate F), then dP_{k+1} = gap (F P_{k+1} + P_{k+1} F' + D) with D the strength of the noise, for any P_f. The
pullbacks to all rates are then sums over time, weighted by the gaps, of blocks on the diagonal:

    tr(R dK)    for F: 2 N P,              for D: N
    l' dK r     for F: rl s_r' + rr s_l',  for D: sym(rl rr')             all at k + 1

Passes work on complex numbers too: a
derivative in the precisions is the imaginary part of a pass with tau + i eps w, exact to rounding.

A pass covers a stretch of time steps: states at its edge go in and out. `start` (B + 1) are the offsets of the blocks;
A, Q (m, B, S, S) the transitions; `which` (n,) says which of them leads from a time to the next, -1 if none does
because the next time is the same, or there is none.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cavity.numerics.compiled_helpers import helper

CHUNK = 64
"""Steps between stored covariances: others are computed again when they are needed."""

STILL, STEADY = 20, 1e-14
"""On a regular grid gains tend to a limit: after so many steps in which none changed by more than this it is taken."""

compiled = njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
part = helper(fastmath={"contract"})
summed = helper(fastmath={"contract", "reassoc", "nsz"})
"""Sums in any order, so that they are vectorized."""


# --- products with A, block by block -------------------------------------------------------------------------


@part
def copy(x, out):
    """out <- x of vectors. A loop compiles in a third of the time of `out[:] = x`, which checks and explains shapes."""
    for i in range(len(x)):
        out[i] = x[i]


@part
def _copy_matrix(P, out):
    """The same of matrices (d, d)."""
    for i in range(len(P)):
        for j in range(len(P)):
            out[i, j] = P[i, j]


@part
def _step(start, A, x, new):
    """x <- A x."""
    for b in range(len(start) - 1):
        lo, n = start[b], start[b + 1] - start[b]
        for i in range(n):
            total = x[lo] * 0.0
            for j in range(n):
                total += A[b, i, j] * x[lo + j]
            new[lo + i] = total
    copy(new, x)


@part
def _step_back(start, A, x, new):
    """x <- A'x."""
    for b in range(len(start) - 1):
        lo, n = start[b], start[b + 1] - start[b]
        for i in range(n):
            total = x[lo] * 0.0
            for j in range(n):
                total += A[b, j, i] * x[lo + j]
            new[lo + i] = total
    copy(new, x)


@part
def _carry(start, A, P, half, back):
    """P <- A P A', or A'P A if `back`, in place, for a symmetric P."""
    d = P.shape[0]
    for b in range(len(start) - 1):
        lo, n = start[b], start[b + 1] - start[b]
        for i in range(n):
            out = half[lo + i]
            a, row = (A[b, 0, i] if back else A[b, i, 0]), P[lo]
            for k in range(d):
                out[k] = a * row[k]
            j = 1
            while j + 1 < n:  # two rows at a time
                a, e = (A[b, j, i], A[b, j + 1, i]) if back else (A[b, i, j], A[b, i, j + 1])
                row, other = P[lo + j], P[lo + j + 1]
                for k in range(d):
                    out[k] += a * row[k] + e * other[k]
                j += 2
            if j < n:
                a, row = (A[b, j, i] if back else A[b, i, j]), P[lo + j]
                for k in range(d):
                    out[k] += a * row[k]
    for b in range(len(start) - 1):
        lo, n = start[b], start[b + 1] - start[b]
        for j in range(n):
            for i in range(lo + j + 1):
                total = P[0, 0] * 0.0
                for k in range(n):
                    total += half[i, lo + k] * (A[b, k, j] if back else A[b, j, k])
                P[i, lo + j] = total
                P[lo + j, i] = total


@part
def _add_noise(start, Q, P):
    """P <- P + Q."""
    for b in range(len(start) - 1):
        lo, n = start[b], start[b + 1] - start[b]
        for i in range(n):
            for j in range(n):
                P[lo + i, lo + j] += Q[b, i, j]


@part
def _observed(start, x):
    """h'x."""
    total = x[0] * 0.0
    for b in range(len(start) - 1):
        total += x[start[b]]
    return total


@part
def _add_observed(start, x, value):
    """x <- x + h value."""
    for b in range(len(start) - 1):
        x[start[b]] += value


@part
def _add_rows(start, P, out):
    """P h of a symmetric P."""
    d = P.shape[0]
    first = P[start[0]]
    for i in range(d):
        out[i] = first[i]
    for b in range(1, len(start) - 1):
        row = P[start[b]]
        for i in range(d):
            out[i] += row[i]


@summed
def dot(x, y):
    """x'y."""
    total = x[0] * 0.0
    for i in range(len(x)):
        total += x[i] * y[i]
    return total


@part
def product(X, Y, out):
    """out <- X Y of square matrices, which is neither of them. To compile `X @ Y` takes seconds."""
    for i in range(len(X)):
        for j in range(len(X)):
            out[i, j] = 0.0
        for k in range(len(X)):
            x, row = X[i, k], Y[k]
            for j in range(len(X)):
                out[i, j] += x * row[j]


@part
def product_transposed(X, Y, out):
    """out <- X'Y."""
    for i in range(len(X)):
        for j in range(len(X)):
            out[i, j] = 0.0
    for k in range(len(X)):
        for i in range(len(X)):
            x, row = X[k, i], Y[k]
            for j in range(len(X)):
                out[i, j] += x * row[j]


# --- the filter ----------------------------------------------------------------------------------------------


@part
def _update(start, P, w, c, q, moved):
    """P <- P - c w w', in place, less (e h' + h e') / B - h h' (h'e) / B^2 with e = P h - q w: then P h = q w."""
    d, blocks = P.shape[0], len(start) - 1
    for i in range(d):
        row, scale = P[i], c * w[i]
        for j in range(d):
            row[j] -= scale * w[j]
    _add_rows(start, P, moved)
    for i in range(d):
        moved[i] = (moved[i] - q * w[i]) / blocks
    own = _observed(start, moved) / (2 * blocks)
    for b in range(blocks):
        moved[start[b]] -= own
    for b in range(blocks):
        e = start[b]
        for i in range(d):
            P[e, i] -= moved[i]
            P[i, e] -= moved[i]


@part
def _steady(x, y):
    """Whether two vectors are equal but for rounding."""
    largest, apart = 0.0, 0.0
    for i in range(len(x)):
        largest = max(largest, abs(x[i]))
        apart = max(apart, abs(x[i] - y[i]))
    return apart <= STEADY * largest


@compiled
def forward(start, A, Q, which, P, noise, observed, freeze, w, s, c, q, g, kept):
    """The covariance filter; P (d, d) is that of the first state, and then that of the first state after the stretch.

    `noise` (n,) are precisions of sites, or if `observed` variances of observations, infinite if there is none. Fills
    w (n, d), s, c, q, g (n,), and in `kept` the predicted covariance at every CHUNK-th step. With `freeze` nothing is
    computed again where times are regular, noise is constant and P has come to its limit.
    """
    half, moved = np.empty_like(P), np.empty_like(P[0])
    still = 0
    for k in range(len(which)):
        if k % CHUNK == 0:
            _copy_matrix(P, kept[k // CHUNK])
        like = freeze and k > 0 and which[k] >= 0 and which[k] == which[k - 1] and noise[k] == noise[k - 1]
        if like and still >= STILL:
            copy(w[k - 1], w[k])
            s[k], c[k], q[k], g[k] = s[k - 1], c[k - 1], q[k - 1], g[k - 1]
            continue
        _add_rows(start, P, w[k])
        still = still + 1 if like and _steady(w[k], w[k - 1]) else 0
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


@part
def _towards(N, w, Nw):
    """Nw = N w, and w'N w."""
    for i in range(len(w)):
        Nw[i] = N[0, i] * w[0]
    for j in range(1, len(w)):
        row, scale = N[j], w[j]
        for i in range(len(w)):
            Nw[i] += row[i] * scale
    return dot(w, Nw)


@part
def _gain(start, N, Nw, c, left):
    """N <- N - c (h (N w)' + (N w) h') + h h' R_kk, in place."""
    for b in range(len(start) - 1):
        i = start[b]
        for j in range(N.shape[0]):
            N[i, j] -= c * Nw[j]
            N[j, i] -= c * Nw[j]
        for e in range(len(start) - 1):
            N[i, start[e]] += left


@part
def _alike(which, w, c, q, k, j):
    """Whether nothing that the backward pass asks for differs between two steps, to the bit."""
    if which[k] < 0 or which[k] != which[j] or c[k] != c[j] or q[k] != q[j]:
        return False
    different = 0
    for i in range(w.shape[1]):
        different += w[k, i] != w[j, i]
    return different == 0


@compiled
def backward(start, A, which, N, freeze, w, s, c, q, var, left):
    """Marginal variances and the diagonal of R, each (n,); N (d, d) comes from the future and goes to the past."""
    half, Nw, last = np.empty_like(N), np.empty_like(N[0]), np.zeros_like(N[0])
    still = 0
    for k in range(len(which) - 1, -1, -1):
        like = freeze and k + 1 < len(which) and _alike(which, w, c, q, k, k + 1)
        if like and still >= STILL:
            left[k], var[k] = left[k + 1], var[k + 1]
            continue
        if which[k] >= 0:
            _carry(start, A[which[k]], N, half, True)
        wNw = _towards(N, w[k], Nw)
        left[k] = c[k] + c[k] * c[k] * wNw
        var[k] = q[k] * (s[k] - q[k] * wNw)
        _gain(start, N, Nw, c[k], left[k])
        still = still + 1 if like and _steady(Nw, last) else 0
        copy(Nw, last)


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
            ahead = dot(w[k], r[j])
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
            ahead = c[k] * dot(w[k], r[j])
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
            copy(r[j], ahead[k, j])


@part
def move_covariances(start, A, Q, ahead, x, new):
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
                move_covariances(start, A[which[k]], Q[which[k]], follows, x[j], new)


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
            move_covariances(start, A[u], Q[u], one, xl[j], new)
            move_covariances(start, A[u], Q[u], other, xr[j], new)


@compiled
def pull_products_to_rates(start, A, Q, which, gaps, xl, xr, ahead_l, ahead_r, after_l, after_r, GF, GD, d_Q):
    """Cotangents of the generators and of the noise, added to GF and GD (B, S, S), and of <Q, dQ> to d_Q (B,)."""
    new = np.empty_like(xl[0])
    last = len(which) - 1
    for k in range(len(which)):
        u = which[k]
        if u < 0:
            continue
        for j in range(xl.shape[0]):
            one = after_l[j] if k == last else ahead_l[k + 1, j]
            other = after_r[j] if k == last else ahead_r[k + 1, j]
            move_covariances(start, A[u], Q[u], one, xl[j], new)
            move_covariances(start, A[u], Q[u], other, xr[j], new)
            for b in range(len(start) - 1):
                lo, n = start[b], start[b + 1] - start[b]
                for i in range(n):
                    p, q = gaps[u] * one[lo + i], gaps[u] * other[lo + i]
                    for m in range(n):
                        GF[b, i, m] += p * xr[j, lo + m] + q * xl[j, lo + m]
                        GD[b, i, m] += 0.5 * (p * other[lo + m] + q * one[lo + m])
                        d_Q[b] += one[lo + i] * Q[u, b, i, m] * other[lo + m]


@part
def _covariances_again(start, A, Q, which, first, last, kept, w, c, q, half, moved, P):
    """Predicted covariances of the steps from the first to the one after the last, into P."""
    _copy_matrix(kept, P[0])
    for k in range(first, last):
        now, follows = P[k - first], P[k + 1 - first]
        _copy_matrix(now, follows)
        _update(start, follows, w[k], c[k], q[k], moved)
        if which[k] >= 0:
            _carry(start, A[which[k]], follows, half, False)
            _add_noise(start, Q[which[k]], follows)


@compiled
def pull_correction_to_rates(start, A, Q, which, gaps, N, freeze, w, s, c, q, kept, GF, GD, d_Q, var, left):
    """The same of tr(R K), R held, and what `backward` gives; N (d, d) as there."""
    n, d = w.shape
    half, Nw, last_Nw = np.empty_like(N), np.empty_like(N[0]), np.zeros_like(N[0])
    P = np.empty((min(n, CHUNK) + 1, d, d), dtype=N.dtype)
    still = 0
    for chunk in range((n - 1) // CHUNK, -1, -1):
        first, last = chunk * CHUNK, min(n, (chunk + 1) * CHUNK)
        if freeze and still >= STILL and _chunk_alike(which, w, c, q, first, last):
            _pull_rates(start, gaps[which[first]], last - first, N, kept[chunk], Q[which[first]], GF, GD, d_Q)
            left[first:last], var[first:last] = left[last], var[last]
            continue
        _covariances_again(start, A, Q, which, first, last, kept[chunk], w, c, q, half, Nw, P)
        for k in range(last - 1, first - 1, -1):
            u = which[k]
            if u >= 0:
                _pull_rates(start, gaps[u], 1.0, N, P[k + 1 - first], Q[u], GF, GD, d_Q)
                _carry(start, A[u], N, half, True)
            wNw = _towards(N, w[k], Nw)
            left[k] = c[k] + c[k] * c[k] * wNw
            var[k] = q[k] * (s[k] - q[k] * wNw)
            _gain(start, N, Nw, c[k], left[k])
            like = freeze and k + 1 < n and _alike(which, w, c, q, k, k + 1)
            still = still + 1 if like and _steady(Nw, last_Nw) else 0
            copy(Nw, last_Nw)


@part
def _chunk_alike(which, w, c, q, first, last):
    """Whether all steps of a chunk are as the one after it."""
    if last >= len(which):
        return False
    alike = 0
    for k in range(first, last):
        alike += _alike(which, w, c, q, k, last)
    return alike == last - first


@part
def _pull_rates(start, gap, count, N, P, Q, GF, GD, d_Q):
    """Add the blocks on the diagonal of 2 gap N P to GF, those of gap N to GD, and <N, Q> to d_Q, so many times."""
    for b in range(len(start) - 1):
        lo, n = start[b], start[b + 1] - start[b]
        for i in range(n):
            row = N[lo + i]
            for j in range(n):
                GF[b, i, j] += count * 2.0 * gap * dot(row, P[lo + j])
                GD[b, i, j] += count * gap * row[lo + j]
                d_Q[b] += count * row[lo + j] * Q[b, i, j]


@compiled
def pull_correction(start, A, Q, which, N, w, c, q, kept, GA, GQ):
    """Cotangents of A and Q in tr(R K), R held, added to GA and GQ; N (d, d) as of `backward`."""
    n, d = w.shape
    P, half, Nw = np.empty_like(N), np.empty_like(N), np.empty_like(N[0])
    filtered = np.empty((min(n, CHUNK), d, d), dtype=N.dtype)
    for chunk in range((n - 1) // CHUNK, -1, -1):
        first, last = chunk * CHUNK, min(n, (chunk + 1) * CHUNK)
        _copy_matrix(kept[chunk], P)
        for k in range(first, last):
            _update(start, P, w[k], c[k], q[k], Nw)
            _copy_matrix(P, filtered[k - first])
            if k + 1 < last and which[k] >= 0:
                _carry(start, A[which[k]], P, half, False)
                _add_noise(start, Q[which[k]], P)
        for k in range(last - 1, first - 1, -1):
            if which[k] >= 0:
                _pull_step(start, A[which[k]], N, filtered[k - first], half, GA[which[k]], GQ[which[k]])
                _carry(start, A[which[k]], N, half, True)
            wNw = _towards(N, w[k], Nw)
            _gain(start, N, Nw, c[k], c[k] + c[k] * c[k] * wNw)


@part
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
