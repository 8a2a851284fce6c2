"""Transitions of a Gaussian Markov process from those of its factors: A and Q of blocks, and their pullbacks.

Of a Kronecker product of two, with P after the step and A P A' = P - Q,

    A = A_1 (x) A_2,    Q = Q_1 (x) P_2 + (P_1 - Q_1) (x) Q_2.
"""

from __future__ import annotations

import numpy as np

from cavity.kernels.state_space import FactorKind
from cavity.latent.markov.factors import (
    AUTOREGRESSIVE,
    System,
    factor_prior,
    factor_slope,
    factor_step,
    shapes_of,
)
from cavity.numerics.arrays import Array

ONE = np.ones((1, 1, 1))


def _kron(X: Array, Y: Array) -> Array:
    """Products of matrices (m, n, n) and (m, k, k); either may be one for all."""
    n = X.shape[1] * Y.shape[1]
    return (X[:, :, None, :, None] * Y[:, None, :, None, :]).reshape(-1, n, n)


class _Steps:
    """A and Q (m, n, n) of factors and blocks, all of unit variance; factors that are equal are computed once."""

    def __init__(self, system: System, gaps: Array, times: Array) -> None:
        self.system, self.gaps, self.after = system, gaps, times + gaps
        self._known: dict[int, tuple[Array, Array]] = {}
        self._priors: dict[int, Array] = {}

    def factor(self, e: int) -> tuple[Array, Array]:
        """A and Q."""
        f = int(self.system.same[e])
        if f not in self._known:
            self._known[f] = factor_step(self.system, f, self.gaps)
        return self._known[f]

    def prior(self, e: int) -> Array:
        """P after the step."""
        f = int(self.system.same[e])
        if f not in self._priors:
            self._priors[f] = factor_prior(self.system, f, self.after)
        return self._priors[f]

    def slope(self, e: int, wrt: int) -> tuple[Array, Array]:
        """Derivatives of A and Q of a factor."""
        return factor_slope(self.system, e, self.gaps, wrt, self.factor(e)[0])

    def factors(self, b: int) -> range:
        """Those of a block."""
        return range(int(self.system.first[b]), int(self.system.first[b + 1]))

    def block(self, b: int) -> tuple[Array, Array]:
        """A and Q."""
        factors = self.factors(b)
        if len(factors) == 1:
            return self.factor(factors[0])
        A, Q, P = ONE, 0.0 * ONE, ONE
        for e in factors:
            own_A, own_Q, own_P = *self.factor(e), self.prior(e)
            A, Q, P = _kron(A, own_A), _kron(Q, own_P) + _kron(P - Q, own_Q), _kron(P, own_P)
        return A, Q

    def block_slope(self, b: int, of: int, wrt: int) -> tuple[Array, Array]:
        """Derivatives of A and Q in a number of one of its factors."""
        if len(self.factors(b)) == 1:
            return self.slope(of, wrt)
        A, Q, P = ONE, 0.0 * ONE, ONE
        dA, dQ = Q, Q
        for e in self.factors(b):
            own_A, own_Q, own_P = *self.factor(e), self.prior(e)
            dA, dQ = _kron(dA, own_A), _kron(dQ, own_P - own_Q)
            if e == of:
                change, noise = self.slope(e, wrt)
                dA, dQ = dA + _kron(A, change), dQ + _kron(P - Q, noise)
            A, Q, P = _kron(A, own_A), _kron(Q, own_P) + _kron(P - Q, own_Q), _kron(P, own_P)
        return dA, dQ


def initial_covariance(system: System, t: float) -> Array:
    """Covariance of the state at time t, shape (d, d)."""
    d = system.start[-1]
    P, at = np.zeros((d, d)), np.array([t])
    for b, variance in enumerate(system.variance):
        one = ONE
        for f in range(system.first[b], system.first[b + 1]):
            prior = factor_prior(system, f, at)
            one = prior if one is ONE else _kron(one, prior)
        own = slice(system.start[b], system.start[b + 1])
        P[own, own] = variance * one[0]
    return P


def transitions(system: System, gaps: Array, times: Array) -> tuple[Array, Array]:
    """A and Q (m, B, S, S) of steps that begin at these times, m of them, and are so long."""
    steps, sizes = _Steps(system, gaps, times), np.diff(system.start)
    A, Q = np.zeros((2, len(gaps), len(sizes), *(2 * [max(sizes, default=1)])))
    for b, n in enumerate(sizes):
        A[:, b, :n, :n], Q[:, b, :n, :n] = steps.block(b)
    Q *= system.variance[:, None, None]
    return A, Q


def pull_transitions(
    system: System,
    gaps: Array,
    times: Array,
    Q: Array,
    GA: Array,
    GQ: Array,
    d_variance: Array,
    d_rate: Array,
) -> None:
    """Add sum_k <GA_k, dA_k> + <GQ_k, dQ_k> to the derivatives in variances (B,), and rates and shapes (1 + W, F)."""
    steps, sizes = _Steps(system, gaps, times), np.diff(system.start)
    d_variance += np.einsum("kbij,kbij->b", GQ, Q) / system.variance
    for b, n in enumerate(sizes):
        own_A, own_Q = GA[:, b, :n, :n], system.variance[b] * GQ[:, b, :n, :n]
        for e in steps.factors(b):
            without_rate = int(system.kind[e]) in (FactorKind.WIENER, FactorKind.POWER, *AUTOREGRESSIVE)
            for wrt in range(1 if without_rate else 0, 1 + shapes_of(system, e)):
                dA, dQ = steps.block_slope(b, e, wrt)
                d_rate[wrt, e] += np.einsum("kij,kij->", own_A, dA) + np.einsum("kij,kij->", own_Q, dQ)


def pull_initial(system: System, t: float, G: Array, d_variance: Array, d_rate: Array) -> None:
    """Add <G, dP> for the covariance of the state at time t, G (d, d); only that of an integrated process depends on
    its rate, d_rate (1 + W, F)."""
    P = initial_covariance(system, t)
    for b, variance in enumerate(system.variance):
        own, f = slice(system.start[b], system.start[b + 1]), system.first[b]
        d_variance[b] += np.sum(G[own, own] * P[own, own]) / variance
        if system.first[b + 1] == f + 1 and int(system.kind[f]) == FactorKind.INTEGRATED:
            moved = system.drift[f, :2, :2] @ P[own, own]  # dP = gap (F P + P F' + D)
            change = moved + moved.T
            change[1, 1] += variance * system.strength[f]
            d_rate[0, f] += (t - system.origin[f]) * np.sum(G[own, own] * change)
