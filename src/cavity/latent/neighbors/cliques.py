# mypy: disable-error-code="untyped-decorator,no-untyped-call"
"""Compiled passes over rows and their neighbors, eight rows side by side.

A clique is a row i and its neighbors c, the row last. With A = K_cc + S_c, k = k_ci and targets y,

    b = A^-1 k,   v = k_ii + s_i - k'b,   e = y_i - b'y_c,   log p(y_i | y_c) = log N(e | 0, v).

One Cholesky factorization of the clique with the targets as further rows gives them: its last row is L^-1 k, its last
pivot v, and what elimination leaves of y_i is e. With w = (-b, 1) and z = (A^-1 y_c, 0), both of the clique,

    de = -z' dA w,   dv = w' dA w,

so the cotangent of the clique's covariances is of rank two whatever the number of targets:

    d [sum_t -e_t^2 / v + d log v] = <dA, g w' + w g' + c w w'>,  g = sum_t e_t z_t / v,  c = sum_t e_t^2 / v^2 + d / v.

The precision matrix that cliques make is the sum of w w' / v. Its product with a matrix P, held fixed, is that of
w'p / v with p = P w, a target of the clique's own for which e = w'p; the cotangent has g = -z / v, c = d / v - e / v^2.

Covariances are sums of radial functions of scaled columns (`kernels.radial_sum`), or come from outside. Entry (i, j) of
a lower triangle, packed row by row, is eight numbers, one for each clique. A neighbor that those before it determine to
rounding is left out (its pivot counts as infinite); missing neighbors are -1.

Notation: m rows in a clique, P targets, C columns of z, T terms.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cavity.kernels.radial_sum import MATERN_12, MATERN_32, MATERN_52, RATIONAL_QUADRATIC, SQUARED_EXPONENTIAL
from cavity.numerics.lanes import WIDTH, fill, load, store
from cavity.numerics.scalar import exp, inlined, jit, jit_sums, log

DETERMINED = 16.0 * float(np.finfo(float).eps)
"""Share of its own variance below which what a neighbor adds to those before it is rounding."""

SQRT3, SQRT5 = 3.0**0.5, 5.0**0.5


# --- covariances --------------------------------------------------------------------------------------------


@jit
def _gather(Z: Any, points: Any, neighbors: Any, first: Any, z: Any, alive: Any) -> Any:
    """Columns of the eight cliques, relative to their own row; whether any neighbor or row is missing."""
    k, C = neighbors.shape[1], Z.shape[1]
    m, missing = k + 1, False
    for lane in range(WIDTH):
        p = first + lane
        row = points[p] if p < len(points) else -1
        for a in range(m):
            other = row if a == k else (neighbors[p, a] if row >= 0 else -1)
            alive[a * WIDTH + lane] = 1.0 if other >= 0 else 0.0
            if other < 0:
                missing = True
                for c in range(C):
                    z[(c * m + a) * WIDTH + lane] = 0.0
            else:
                for c in range(C):
                    z[(c * m + a) * WIDTH + lane] = Z[other, c] - Z[row, c]
    return missing


@jit
def _distances(z: Any, m: Any, low: Any, high: Any, out: Any) -> None:
    """Squared distances in columns low to high, packed."""
    for i in range(m):
        row = i * (i + 1) // 2
        j = 0
        while j + 4 <= i:
            r0, r1, r2, r3 = fill(0.0), fill(0.0), fill(0.0), fill(0.0)
            for c in range(low, high):
                at = c * m
                own = load(z, (at + i) * WIDTH)
                d0 = own - load(z, (at + j) * WIDTH)
                d1 = own - load(z, (at + j + 1) * WIDTH)
                d2 = own - load(z, (at + j + 2) * WIDTH)
                d3 = own - load(z, (at + j + 3) * WIDTH)
                r0 = r0 + d0 * d0
                r1 = r1 + d1 * d1
                r2 = r2 + d2 * d2
                r3 = r3 + d3 * d3
            store(out, (row + j) * WIDTH, r0)
            store(out, (row + j + 1) * WIDTH, r1)
            store(out, (row + j + 2) * WIDTH, r2)
            store(out, (row + j + 3) * WIDTH, r3)
            j += 4
        while j < i:
            r0 = fill(0.0)
            for c in range(low, high):
                d0 = load(z, (c * m + i) * WIDTH) - load(z, (c * m + j) * WIDTH)
                r0 = r0 + d0 * d0
            store(out, (row + j) * WIDTH, r0)
            j += 1
        store(out, (row + i) * WIDTH, fill(0.0))


@jit
def _radial(kind: Any, shape: Any, variance: Any, value: Any, slope: Any, shape_slope: Any) -> None:
    """Squared distances in `value` become covariances; their slopes in the distance and in the shape, if asked for."""
    wanted = len(slope) > 0
    if kind == SQUARED_EXPONENTIAL:  # the slope is -1/2 of the value
        for x in range(len(value)):
            value[x] = variance * exp(-0.5 * value[x])
    elif kind == MATERN_12:
        for x in range(len(value)):
            r = np.sqrt(value[x])
            value[x] = variance * exp(-r)
            if wanted:
                slope[x] = -0.5 * value[x] / r if r > 0.0 else 0.0
    elif kind == MATERN_32:
        for x in range(len(value)):
            t = SQRT3 * np.sqrt(value[x])
            e = variance * exp(-t)
            value[x] = (1.0 + t) * e
            if wanted:
                slope[x] = -1.5 * e
    elif kind == MATERN_52:
        for x in range(len(value)):
            t = SQRT5 * np.sqrt(value[x])
            e = variance * exp(-t)
            value[x] = (1.0 + t + t * t / 3.0) * e
            if wanted:
                slope[x] = -(5.0 / 6.0) * (1.0 + t) * e
    elif kind == RATIONAL_QUADRATIC:
        for x in range(len(value)):
            t = 0.5 * value[x] / shape
            base = 1.0 + t
            own = log(base)
            value[x] = variance * exp(-shape * own)
            if wanted:
                slope[x] = -0.5 * value[x] / base
                shape_slope[x] = value[x] * (t / base - own)
    else:  # a constant
        for x in range(len(value)):
            value[x] = variance
            if wanted:
                slope[x] = 0.0


@jit
def _covariances(
    z: Any, m: Any, terms: Any, value: Any, slope: Any, shape_slope: Any, A: Any, slopes: Any
) -> None:
    """The sum of all terms in the leading entries of A, each of them in `value`."""
    starts, kinds, shapes, variances = terms
    size = m * (m + 1) // 2 * WIDTH
    nothing = slope[0, :0]
    for t in range(len(kinds)):
        _distances(z, m, starts[t], starts[t + 1], value[t])
        _radial(
            kinds[t],
            shapes[t],
            variances[t],
            value[t],
            slope[t] if slopes else nothing,
            shape_slope[t] if slopes else nothing,
        )
        own = value[t]
        for x in range(size):
            A[x] = own[x] if t == 0 else A[x] + own[x]


@jit
def _load_given(given: Any, first: Any, m: Any, A: Any) -> None:
    """Covariances of eight cliques that were evaluated elsewhere, (q, m, m)."""
    for lane in range(WIDTH):
        p = min(first + lane, len(given) - 1)
        for i in range(m):
            for j in range(i + 1):
                A[(i * (i + 1) // 2 + j) * WIDTH + lane] = given[p, i, j]


@jit
def _forget_missing(m: Any, alive: Any, A: Any) -> None:
    """What is missing is independent of all else."""
    for i in range(m):
        for j in range(i + 1):
            at = (i * (i + 1) // 2 + j) * WIDTH
            for lane in range(WIDTH):
                if alive[i * WIDTH + lane] * alive[j * WIDTH + lane] == 0.0:
                    A[at + lane] = 1.0 if i == j else 0.0


@jit
def _add_noise_and_targets(
    points: Any, neighbors: Any, first: Any, noise: Any, Y: Any, local: Any, alive: Any, A: Any
) -> None:
    """Noise on the diagonal, and targets as further rows: those of the members, or one of the clique's own."""
    k = neighbors.shape[1]
    m, P = k + 1, Y.shape[1]
    if len(local):
        P = 1
    base = m * (m + 1) // 2
    for a in range(m):
        for lane in range(WIDTH):
            known = alive[a * WIDTH + lane] > 0.0
            p = first + lane
            other = -1
            if known:
                other = points[p] if a == k else neighbors[p, a]
                A[(a * (a + 1) // 2 + a) * WIDTH + lane] += noise[other]
            for t in range(P):
                if len(local):
                    A[(base + a) * WIDTH + lane] = local[p, a] if known else 0.0
                else:
                    A[(base + t * m + a) * WIDTH + lane] = Y[other, t] if known else 0.0


# --- factorization ------------------------------------------------------------------------------------------


@inlined
def _row(i: Any, m: Any) -> Any:
    """Where row i begins: those of the triangle, then those of the targets."""
    return i * (i + 1) // 2 if i < m else m * (m + 1) // 2 + (i - m) * m


@jit
def _factorize(A: Any, m: Any, rows: Any, inverse: Any) -> None:
    """L in place, column by column, for all rows; the last column is left as what remains: v, and e of the targets."""
    for j in range(m):
        own = _row(j, m)
        i = j
        while i < rows:
            if i + 4 <= rows:
                at0, at1, at2, at3 = _row(i, m), _row(i + 1, m), _row(i + 2, m), _row(i + 3, m)
                s0, s1 = load(A, (at0 + j) * WIDTH), load(A, (at1 + j) * WIDTH)
                s2, s3 = load(A, (at2 + j) * WIDTH), load(A, (at3 + j) * WIDTH)
                for p in range(j):
                    x = load(A, (own + p) * WIDTH)
                    s0 = s0 - load(A, (at0 + p) * WIDTH) * x
                    s1 = s1 - load(A, (at1 + p) * WIDTH) * x
                    s2 = s2 - load(A, (at2 + p) * WIDTH) * x
                    s3 = s3 - load(A, (at3 + p) * WIDTH) * x
                store(A, (at0 + j) * WIDTH, s0)
                store(A, (at1 + j) * WIDTH, s1)
                store(A, (at2 + j) * WIDTH, s2)
                store(A, (at3 + j) * WIDTH, s3)
                i += 4
            else:
                at0 = _row(i, m)
                s0 = load(A, (at0 + j) * WIDTH)
                for p in range(j):
                    s0 = s0 - load(A, (at0 + p) * WIDTH) * load(A, (own + p) * WIDTH)
                store(A, (at0 + j) * WIDTH, s0)
                i += 1
        if j < m - 1:
            for lane in range(WIDTH):
                pivot = A[(own + j) * WIDTH + lane]
                least = inverse[j * WIDTH + lane]  # the least that counts
                inverse[j * WIDTH + lane] = 1.0 / np.sqrt(pivot) if pivot > least else 0.0
            scale = load(inverse, j * WIDTH)
            for i in range(j, rows):
                at = (_row(i, m) + j) * WIDTH
                store(A, at, load(A, at) * scale)


@jit
def _least_pivots(A: Any, m: Any, inverse: Any) -> None:
    for j in range(m):
        for lane in range(WIDTH):
            inverse[j * WIDTH + lane] = DETERMINED * A[(_row(j, m) + j) * WIDTH + lane]


@jit
def _solve_back(A: Any, m: Any, inverse: Any, x: Any, y: Any) -> None:
    """L^-T x and L^-T y for the neighbors, in place."""
    for j in range(m - 2, -1, -1):
        at, scale = _row(j, m), load(inverse, j * WIDTH)
        xj, yj = load(x, j * WIDTH) * scale, load(y, j * WIDTH) * scale
        store(x, j * WIDTH, xj)
        store(y, j * WIDTH, yj)
        for p in range(j):
            L = load(A, (at + p) * WIDTH)
            store(x, p * WIDTH, load(x, p * WIDTH) - L * xj)
            store(y, p * WIDTH, load(y, p * WIDTH) - L * yj)


# --- passes -------------------------------------------------------------------------------------------------


@jit
def _weighted_moments(z: Any, m: Any, low: Any, high: Any, H: Any, sums: Any, moments: Any) -> None:
    """moments_c += sum over pairs of H (z_i - z_j)^2, with the sums of rows and columns of H together.

    Columns come in pairs, because H is larger than the nearest cache; the last one twice, if their number is odd.
    """
    for c in range(low, high, 2):
        d = min(c + 1, high - 1)
        of_c, of_d = load(moments, c * WIDTH), load(moments, d * WIDTH)
        at_c, at_d = c * m, d * m
        for i in range(m):
            row = i * (i + 1) // 2
            c0, c1, d0, d1 = fill(0.0), fill(0.0), fill(0.0), fill(0.0)
            j = 0
            while j + 2 <= i:
                h0, h1 = load(H, (row + j) * WIDTH), load(H, (row + j + 1) * WIDTH)
                c0 = c0 + h0 * load(z, (at_c + j) * WIDTH)
                c1 = c1 + h1 * load(z, (at_c + j + 1) * WIDTH)
                d0 = d0 + h0 * load(z, (at_d + j) * WIDTH)
                d1 = d1 + h1 * load(z, (at_d + j + 1) * WIDTH)
                j += 2
            if j < i:
                h0 = load(H, (row + j) * WIDTH)
                c0 = c0 + h0 * load(z, (at_c + j) * WIDTH)
                d0 = d0 + h0 * load(z, (at_d + j) * WIDTH)
            own, total = load(z, (at_c + i) * WIDTH), load(sums, i * WIDTH)
            c0 = c0 + c1
            of_c = of_c + own * (own * total - (c0 + c0))
            own = load(z, (at_d + i) * WIDTH)
            d0 = d0 + d1
            of_d = of_d + own * (own * total - (d0 + d0))
        store(moments, c * WIDTH, of_c)
        store(moments, d * WIDTH, of_d)


@jit
def _weigh(m: Any, w: Any, g: Any, h: Any, values: Any, H: Any, sums: Any) -> None:
    """H = 2 (g_i w_j + w_i h_j) values_ij below the diagonal, and the sums of its rows and columns together."""
    for i in range(m):
        store(sums, i * WIDTH, fill(0.0))
    two = fill(2.0)
    for i in range(m):
        row = i * (i + 1) // 2
        gi, wi = load(g, i * WIDTH) * two, load(w, i * WIDTH) * two
        total = fill(0.0)
        for j in range(i):
            at = (row + j) * WIDTH
            x = (gi * load(w, j * WIDTH) + wi * load(h, j * WIDTH)) * load(values, at)
            store(H, at, x)
            store(sums, j * WIDTH, load(sums, j * WIDTH) + x)
            total = total + x
        store(sums, i * WIDTH, load(sums, i * WIDTH) + total)


@jit_sums
def _sum(x: Any) -> Any:
    total = 0.0
    for i in range(len(x)):
        total += x[i]
    return total


@jit
def _weighted_sum(m: Any, w: Any, g: Any, h: Any, values: Any, out: Any) -> Any:
    """Sum over pairs and lanes of the cotangent times values, both triangles."""
    total = fill(0.0)
    for i in range(m):
        row = i * (i + 1) // 2
        gi, wi = load(g, i * WIDTH), load(w, i * WIDTH)
        for j in range(i):
            x = gi * load(w, j * WIDTH) + wi * load(h, j * WIDTH)
            total = total + x * load(values, (row + j) * WIDTH)
    store(out, 0, total)
    return 2.0 * _sum(out)


@jit
def conditionals(
    Z: Any, terms: Any, given: Any, points: Any, neighbors: Any, noise: Any, Y: Any, weights: Any
) -> Any:
    """For each of q points: weights b (q, k) of its neighbors if wanted, v (q,), and e of the targets (q, P)."""
    k, C, P, T = neighbors.shape[1], Z.shape[1], Y.shape[1], max(1, len(terms[1]))
    m, rows = k + 1, k + 1 + P
    size = m * (m + 1) // 2 * WIDTH
    z, alive, inverse = np.empty(max(1, C) * m * WIDTH), np.empty(m * WIDTH), np.empty(m * WIDTH)
    value, nothing = np.empty((T, size)), np.empty((1, 0))
    A = np.empty(size + P * m * WIDTH)
    x, y = np.empty(m * WIDTH), np.zeros(m * WIDTH)
    v, e = np.empty(len(points)), np.empty((len(points), P))
    for first in range(0, len(points), WIDTH):
        missing = _gather(Z, points, neighbors, first, z, alive)
        if len(given):
            _load_given(given, first, m, A)
        else:
            _covariances(z, m, terms, value, nothing, nothing, A, False)
        if missing:
            _forget_missing(m, alive, A)
        _add_noise_and_targets(points, neighbors, first, noise, Y, Y[:0], alive, A)
        _least_pivots(A, m, inverse)
        _factorize(A, m, rows, inverse)
        if len(weights):
            last = _row(k, m)
            for j in range(k * WIDTH):
                x[j] = A[last * WIDTH + j]
            _solve_back(A, m, inverse, x, y)
        for lane in range(min(WIDTH, len(points) - first)):
            v[first + lane] = A[(_row(k, m) + k) * WIDTH + lane]
            for t in range(P):
                e[first + lane, t] = A[(_row(m + t, m) + k) * WIDTH + lane]
            if len(weights):
                for j in range(k):
                    weights[first + lane, j] = x[j * WIDTH + lane]
    return v, e


@jit
def evidence_and_gradient(
    Z: Any,
    terms: Any,
    given: Any,
    points: Any,
    neighbors: Any,
    noise: Any,
    Y: Any,
    local: Any,
    d_log_det: Any,
    weights: Any,
    cotangents: Any,
) -> Any:
    """As `conditionals`, and the gradient of sum_i [-e_i'e_i / v_i + d_log_det log v_i].

    With `local` targets p (q, m) in place of Y, that of sum_i [w'P w / v_i + d_log_det log v_i], P held fixed.
    Returns v, e; moments (C,), sums over pairs weighted by slopes; derivatives in variances and shapes of the terms
    (T,); and in the noise variances of all rows. Of covariances that were given, their `cotangents` (q, m, m).
    """
    k, C, T = neighbors.shape[1], Z.shape[1], max(1, len(terms[1]))
    P = 1 if len(local) else Y.shape[1]
    m, rows = k + 1, k + 1 + P
    starts, kinds, _, variances = terms
    size = m * (m + 1) // 2 * WIDTH
    z, alive, inverse = np.empty(max(1, C) * m * WIDTH), np.empty(m * WIDTH), np.empty(m * WIDTH)
    value, slope, shape_slope = np.empty((T, size)), np.empty((T, size)), np.empty((T, size))
    A, H = np.empty(size + P * m * WIDTH), np.empty(size)
    w, g, h, sums, out = (
        np.empty(m * WIDTH),
        np.empty(m * WIDTH),
        np.empty(m * WIDTH),
        np.empty(m * WIDTH),
        np.empty(WIDTH),
    )
    c = np.empty(WIDTH)
    v, e = np.empty(len(points)), np.empty((len(points), P))
    moments, d_noise = np.zeros(max(1, C) * WIDTH), np.zeros(len(noise))
    d_variance, d_shape = np.zeros(len(kinds)), np.zeros(len(kinds))
    for first in range(0, len(points), WIDTH):
        missing = _gather(Z, points, neighbors, first, z, alive)
        if len(given):
            _load_given(given, first, m, A)
        else:
            _covariances(z, m, terms, value, slope, shape_slope, A, True)
        if missing:
            _forget_missing(m, alive, A)
        _add_noise_and_targets(points, neighbors, first, noise, Y, local, alive, A)
        _least_pivots(A, m, inverse)
        _factorize(A, m, rows, inverse)
        last = _row(k, m)
        for lane in range(WIDTH):
            own = A[(last + k) * WIDTH + lane]
            c[lane] = d_log_det / own
            for j in range(k):
                w[j * WIDTH + lane] = A[(last + j) * WIDTH + lane]
                g[j * WIDTH + lane] = 0.0
            for t in range(P):
                row = _row(m + t, m)
                left = A[(row + k) * WIDTH + lane] / own
                if len(local):
                    c[lane] -= left / own
                    left = -1.0 / own
                else:
                    c[lane] += left * left
                for j in range(k):
                    g[j * WIDTH + lane] += left * A[(row + j) * WIDTH + lane]
            c[lane] *= alive[k * WIDTH + lane]
            w[k * WIDTH + lane], g[k * WIDTH + lane] = 1.0, 0.0
        _solve_back(A, m, inverse, w, g)
        for lane in range(min(WIDTH, len(points) - first)):
            v[first + lane] = A[(last + k) * WIDTH + lane]
            for t in range(P):
                e[first + lane, t] = A[(_row(m + t, m) + k) * WIDTH + lane]
            for j in range(k):
                weights[first + lane, j] = w[j * WIDTH + lane]
        diagonal = 0.0
        for j in range(m):
            for lane in range(WIDTH):
                at = j * WIDTH + lane
                if j < k:
                    w[at] = -w[at]
                h[at] = g[at] + c[lane] * w[at]
                own = (g[at] + h[at]) * w[at]
                if alive[at] > 0.0:
                    p = first + lane
                    d_noise[points[p] if j == k else neighbors[p, j]] += own
                    diagonal += own
        if len(given):
            for lane in range(min(WIDTH, len(points) - first)):
                for i in range(m):
                    for j in range(m):
                        a, b = i * WIDTH + lane, j * WIDTH + lane
                        cotangents[first + lane, i, j] = g[a] * w[b] + w[a] * h[b]
            continue
        for t in range(len(kinds)):
            smooth = kinds[t] == SQUARED_EXPONENTIAL
            _weigh(m, w, g, h, value[t] if smooth else slope[t], H, sums)
            _weighted_moments(z, m, starts[t], starts[t + 1], H, sums, moments)
            whole = 0.5 * _sum(sums) if smooth else _weighted_sum(m, w, g, h, value[t], out)
            d_variance[t] += whole / variances[t] + diagonal
            if kinds[t] == RATIONAL_QUADRATIC:
                d_shape[t] += _weighted_sum(m, w, g, h, shape_slope[t], out)
    total = np.zeros(C)
    for t in range(len(kinds)):
        for x in range(starts[t], starts[t + 1]):
            total[x] = _sum(moments[x * WIDTH : (x + 1) * WIDTH])
            if kinds[t] == SQUARED_EXPONENTIAL:
                total[x] *= -0.5
    return v, e, total, d_variance, d_shape, d_noise
