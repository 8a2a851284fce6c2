# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call"
"""Compiled transitions of the process that stands for a squared exponential."""

from __future__ import annotations

import numpy as np

from cavity.latent.markov.small_matrices import compiled, part

NODES, WEIGHTS = np.polynomial.legendre.leggauss(10)

SHORT_STEP, SERIES_TERMS = 0.5, 16
"""Size of the step, by a norm of its generator, that its power series is for, and its terms."""


@part
def _exponential_times(n, columns, F, x, M, term):
    """M <- exp(x F) M, of so many columns, for a short step, by the power series.

    F is a companion matrix up to the scales of its states: entries right above the diagonal, and a last row.
    """
    for i in range(n):
        for j in range(columns):
            term[i, j] = M[i, j]
    for m in range(1, SERIES_TERMS):
        for j in range(columns):
            total = 0.0
            for k in range(n):
                total += F[n - 1, k] * term[k, j]
            for i in range(n - 1):
                term[i, j] = x / m * F[i, i + 1] * term[i + 1, j]
            term[n - 1, j] = x / m * total
        for i in range(n):
            for j in range(columns):
                M[i, j] += term[i, j]


@part
def _step(F, strength, x, A, Q):
    """A and Q (n, n): over a short step by power series and Gauss's rule, over twice as long by A <- A A,
    Q <- Q + A Q A', which sums positive terms."""
    n, size = len(F), 0.0
    for i in range(n):
        row = 0.0
        for j in range(n):
            row += abs(F[i, j])
        size = max(size, row)
    doublings = 0
    while x * size > SHORT_STEP and doublings < 60:
        x *= 0.5
        doublings += 1
    term, new, moved = np.empty((n, n)), np.empty((n, n)), np.empty((n, 1))
    for i in range(n):
        for j in range(n):
            Q[i, j] = 0.0
    for k in range(len(NODES)):
        for i in range(n):
            moved[i, 0] = 1.0 if i == n - 1 else 0.0
        _exponential_times(n, 1, F, 0.5 * x * (1.0 + NODES[k]), moved, term)
        weight = 0.5 * x * WEIGHTS[k] * strength
        for i in range(n):
            for j in range(n):
                Q[i, j] += weight * moved[i, 0] * moved[j, 0]
    for i in range(n):
        for j in range(n):
            A[i, j] = 1.0 if i == j else 0.0
    _exponential_times(n, n, F, x, A, term)
    for _ in range(doublings):
        for i in range(n):
            for j in range(n):
                carried, twice = 0.0, 0.0
                for k in range(n):
                    carried += A[i, k] * Q[k, j]
                    twice += A[i, k] * A[k, j]
                term[i, j], new[i, j] = carried, twice
        for i in range(n):
            for j in range(i + 1):
                for k in range(n):
                    Q[i, j] += term[i, k] * A[j, k]
                Q[j, i] = Q[i, j]
        for i in range(n):
            for j in range(n):
                A[i, j] = new[i, j]


@compiled
def gaussian_steps(F, strength, x, A, Q):
    """A and Q (m, n, n) for the generator F and values x of rate * gap."""
    for k in range(len(x)):
        _step(F, strength, x[k], A[k], Q[k])
