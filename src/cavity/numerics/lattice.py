# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call"
"""The normalized lattice of a stationary process ARMA(p, q) of variance one, as a Gaussian Markov process.

An autoregression u is written by the errors of its predictions. With k_i the partial autocorrelations,
c_i^2 = 1 - k_i^2, e_i and b_i the errors of predicting forwards and backwards from i values, each divided by its
standard deviation, and e_n = white noise,

    e_{i-1}(t) = c_i e_i(t) + k_i b_{i-1}(t - 1),    b_i(t) = c_i b_{i-1}(t - 1) - k_i e_i(t),    e_0 = b_0 = u.

Each line is a rotation, so the state b = (b_0, ..., b_{n-1}) has covariance I whatever the k_i are. A moving average
f = u(t) + sum_j theta_j u(t - j) with j < n is a functional of that state, f = w'b, and x = U b, with U orthogonal and
w / |w| its first row, is a state of covariance I whose first entry is f, scaled to variance one.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cavity.numerics.arrays import Array
from cavity.numerics.compiled_helpers import helper

compiled = njit(cache=True, nogil=True, error_model="numpy")
part = helper()

MOST_STEPS = 2.0**62
"""Steps that are told apart."""


@part
def lattice_step(partial, wrt, A, noise, dA, d_noise):
    """A (p, p) and the response to the noise (p,) of one step, and their derivatives in the partial autocorrelation
    `wrt`."""
    p = len(partial)
    for column in range(p + 1):  # the last is the noise
        e, de = (1.0 if column == p else 0.0), 0.0
        for i in range(p - 1, -1, -1):
            k = partial[i]
            c = np.sqrt((1.0 - k) * (1.0 + k))
            b = 1.0 if column == i else 0.0
            back, d_back = c * b - k * e, -k * de
            ahead, d_ahead = c * e + k * b, c * de
            if i == wrt:
                d_back -= k / c * b + e
                d_ahead += b - k / c * e
            if i + 1 < p:
                if column == p:
                    noise[i + 1], d_noise[i + 1] = back, d_back
                else:
                    A[i + 1, column], dA[i + 1, column] = back, d_back
            e, de = ahead, d_ahead
        if column == p:
            noise[0], d_noise[0] = e, de
        else:
            A[0, column], dA[0, column] = e, de


@compiled
def moving_average(partial, moving, wrt, w, dw):
    """w (n,) of f = w'b, and its derivative in the number `wrt`, n partial autocorrelations first.

    The theta_j come from the `moving` numbers between -1 and 1 by the recursion of Levinson. Older values of u are
    brought to the present one step at a time, by the rotations backwards, which keep the length of w.
    """
    n, q = len(partial), len(moving)
    theta, d_theta, new, d_new = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
    theta[0] = 1.0  # theta_0, theta_1, ...
    for i in range(q):
        m = moving[i]
        dm = 1.0 if wrt == n + i else 0.0
        for j in range(i + 2):
            new[j] = theta[j] + m * theta[i + 1 - j]
            d_new[j] = d_theta[j] + m * d_theta[i + 1 - j] + dm * theta[i + 1 - j]
        for j in range(i + 2):
            theta[j], d_theta[j] = new[j], d_new[j]
    for i in range(n):
        w[i], dw[i] = 0.0, 0.0
    for lag in range(q, -1, -1):
        if lag < q:
            ahead, d_ahead = 0.0, 0.0
            for i in range(n - 1, 0, -1):
                k, b, db = partial[i - 1], w[i - 1], dw[i - 1]
                c = np.sqrt((1.0 - k) * (1.0 + k))
                w[i], dw[i] = c * b - k * ahead, c * db - k * d_ahead
                d_ahead = k * db + c * d_ahead
                if i - 1 == wrt:
                    dw[i] -= k / c * b + ahead
                    d_ahead += b - k / c * ahead
                ahead = k * b + c * ahead
            w[0], dw[0] = ahead, d_ahead
        w[0] += theta[lag]
        dw[0] += d_theta[lag]


@part
def _unit(w, dw):
    """w / |w| and its derivative, in place."""
    square, along = 0.0, 0.0
    for i in range(len(w)):
        square += w[i] * w[i]
        along += w[i] * dw[i]
    norm = np.sqrt(square)
    for i in range(len(w)):
        dw[i] = (dw[i] - w[i] * along / square) / norm
        w[i] /= norm


@part
def _reflected(w, dw, A, noise, dA, d_noise):
    """A <- U A U, noise <- U noise, and the derivatives, in place, for the reflection U = U' with first row w, |w| = 1.

    U = s (v v' / (1 + |w_0|) - I) with s the sign of w_0 and v = w + s e_0.
    """
    n = len(w)
    s = 1.0 if w[0] >= 0 else -1.0
    v = w.copy()
    v[0] += s
    scale = 1.0 + abs(w[0])
    room = np.empty((5, n, n))
    U, dU, first, second, third = room[0], room[1], room[2], room[3], room[4]
    for i in range(n):
        for j in range(n):
            U[i, j] = s * v[i] * v[j] / scale - (s if i == j else 0.0)
            dU[i, j] = s * (dw[i] * v[j] + v[i] * dw[j]) / scale - v[i] * v[j] * dw[0] / scale**2
    _product(dU, A, first)
    _product(U, dA, second)
    _product(U, A, third)
    for i in range(n):
        for j in range(n):
            first[i, j] += second[i, j]
    _product(first, U, second)
    _product(third, dU, dA)  # d(U A U) = (dU A + U dA) U + U A dU
    _product(third, U, A)
    for i in range(n):
        for j in range(n):
            dA[i, j] += second[i, j]
    old, d_old = noise.copy(), d_noise.copy()
    for i in range(n):
        noise[i], d_noise[i] = 0.0, 0.0
        for j in range(n):
            noise[i] += U[i, j] * old[j]
            d_noise[i] += U[i, j] * d_old[j] + dU[i, j] * old[j]


@part
def _product(X, Y, out):
    """out <- X Y."""
    n = len(X)
    for i in range(n):
        for j in range(n):
            total = 0.0
            for k in range(n):
                total += X[i, k] * Y[k, j]
            out[i, j] = total


@part
def _follow(step, out, room):
    """A <- B A, Q <- B Q B' + N, a sum of positive terms, and the derivatives: of (B, N, dB, dN) and (A, Q, dA, dQ),
    each (4, n, n), which may be the same."""
    B, N, dB, dN = step[0], step[1], step[2], step[3]
    A, Q, dA, dQ = out[0], out[1], out[2], out[3]
    n = len(A)
    new, d_new, spread, d_spread = room[0], room[1], room[2], room[3]
    _product(B, A, new)
    _product(dB, A, d_new)
    _product(B, dA, room[4])
    _product(B, Q, spread)
    _product(dB, Q, d_spread)
    _product(B, dQ, room[5])
    for i in range(n):
        for j in range(i + 1):
            total, d_total = N[i, j], dN[i, j]
            for k in range(n):
                total += spread[i, k] * B[j, k]
                d_total += (d_spread[i, k] + room[5, i, k]) * B[j, k] + spread[i, k] * dB[j, k]
            room[6, i, j], room[7, i, j] = total, d_total
    for i in range(n):
        for j in range(n):
            low, high = max(i, j), min(i, j)
            Q[i, j], dQ[i, j] = room[6, low, high], room[7, low, high]
            A[i, j], dA[i, j] = new[i, j], d_new[i, j] + room[4, i, j]


@part
def lattice_steps(partial, moving, count, wrt, out):
    """A, Q, dA, dQ into `out` (4, n, n): of so many steps at once, by doubling, and their derivatives in the number
    `wrt`, one of the n partial autocorrelations, or of the fewer than n numbers of the moving average after them."""
    n = len(partial)
    one, room = np.zeros((4, n, n)), np.empty((8, n, n))
    noise, d_noise = np.empty(n), np.empty(n)
    lattice_step(partial, wrt, one[0], noise, one[2], d_noise)
    if len(moving) > 0:
        w, dw = np.empty(n), np.empty(n)
        moving_average(partial, moving, wrt, w, dw)
        _unit(w, dw)
        _reflected(w, dw, one[0], noise, one[2], d_noise)
    for i in range(n):
        for j in range(n):
            one[1, i, j] = noise[i] * noise[j]
            one[3, i, j] = d_noise[i] * noise[j] + noise[i] * d_noise[j]
            out[0, i, j] = 1.0 if i == j else 0.0
            out[1, i, j], out[2, i, j], out[3, i, j] = 0.0, 0.0, 0.0
    left = np.int64(min(np.round(count), MOST_STEPS))
    while left > 0:
        if left & 1:
            _follow(one, out, room)
        left >>= 1
        if left > 0:
            _follow(one, one, room)


@compiled
def _many_steps(partial, moving, counts, wrt, out):
    for k in range(len(counts)):
        lattice_steps(partial, moving, counts[k], wrt, out[k])


def lattice_steps_of(partial: Array, moving: Array, counts: Array, wrt: int) -> Array:
    """A, Q, dA, dQ, each (m, n, n), of so many steps each."""
    n = len(partial)
    out = np.empty((len(counts), 4, n, n))
    _many_steps(partial, moving, counts, wrt, out)
    return out.transpose(1, 0, 2, 3)


@compiled
def correlations(partial, moving, lags):
    """Correlations at whole lags >= 0, (U,), and their derivatives in all numbers of the process (U, n + q).

    w'A^lag w, of the lattice with w its unit vector of the moving average.
    """
    n, q = len(partial), len(moving)
    value, slope = np.empty(len(lags)), np.empty((len(lags), n + q))
    room, none = np.empty((4, n, n)), np.empty(0)
    one, noise, d_noise = np.empty((2, n, n)), np.empty(n), np.empty(n)
    w, dw = np.empty(n), np.empty(n)
    row, d_row, new, d_new = np.zeros(n), np.zeros(n), np.empty(n), np.empty(n)
    for wrt in range(n + q):
        lattice_step(partial, wrt, one[0], noise, one[1], d_noise)
        moving_average(partial, moving, wrt, w, dw)
        _unit(w, dw)
        last = np.int64(0)
        for j in range(n):
            row[j], d_row[j] = w[j], dw[j]  # w'A^lag
        for u in range(len(lags)):
            gap = np.int64(lags[u]) - last
            last += gap
            far = gap > n
            if far:
                lattice_steps(partial, none, float(gap), wrt, room)
            for _ in range(1 if far else gap):
                A, dA = (room[0], room[2]) if far else (one[0], one[1])
                for j in range(n):
                    total, d_total = 0.0, 0.0
                    for k in range(n):
                        total += row[k] * A[k, j]
                        d_total += d_row[k] * A[k, j] + row[k] * dA[k, j]
                    new[j], d_new[j] = total, d_total
                for j in range(n):
                    row[j], d_row[j] = new[j], d_new[j]
            value[u], slope[u, wrt] = 0.0, 0.0
            for j in range(n):
                value[u] += row[j] * w[j]
                slope[u, wrt] += d_row[j] * w[j] + row[j] * dw[j]
    return value, slope
