# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call"
"""Compiled transitions of single factors of a Gaussian Markov process: A and Q between two times, and their slopes.

The factors are those of `kernels.state_space`, each of unit variance. Q is summed from positive terms if the step is
short, so it has full relative accuracy at any gap; P - A P A' would lose it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cavity.latent.markov.small_matrices import (
    FORGOTTEN,
    compiled,
    full,
    process_noise,
    transition,
    write_matrix,
)
from cavity.numerics.damped_waves import damped_waves
from cavity.numerics.lattice import lattice_steps

MATERN, ROTATION, WIENER, POWER, OSCILLATOR, GAUSSIAN, VELOCITY, AUTOREGRESSION, ARMA, INTEGRATED = range(10)
"""Kinds of factors, as in `kernels.state_space.FactorKind`."""

NODES, WEIGHTS = np.polynomial.legendre.leggauss(10)
"""Gauss's rule for integrals of squares over a short step: full relative accuracy, since all terms are positive."""

SMALL_STEP = 1.0
"""Value of rate * gap up to which Q is summed from positive terms; beyond it nothing cancels in P - A P A'."""

SHORT_STEP, SERIES_TERMS = 0.5, 16
"""Size of the step of a Gaussian factor, by a norm of its generator, that its power series is for, and its terms."""

TWO_STATES, THREE_STATES = (0.0,) * 3, (0.0,) * 6
"""Packed covariances that say to `small_matrices` how many states there are."""


class System(NamedTuple):
    """A state space as arrays: B blocks of F factors, of at most S states.

    start (B + 1): offsets of the blocks' states; first (B + 1): their factors; variance (B). By factor: same, the
    first that is equal to it; kind, size, rate, origin; shape (F, W): its parameters besides the rate;
    power (F, S, S, S): (F + I)^m / m! of a Matern factor; strength: of its noise; covariance, drift (F, S, S).
    """

    start: NDArray
    first: NDArray
    same: NDArray
    kind: NDArray
    size: NDArray
    rate: NDArray
    origin: NDArray
    shape: NDArray
    power: NDArray
    strength: NDArray
    covariance: NDArray
    drift: NDArray
    variance: NDArray


# --- steps --------------------------------------------------------------------------------------------------


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
def few_matern_states(n, x, A, Q):
    """A and Q of a Matern factor of one to three states, for x below `FORGOTTEN`."""
    decay = np.exp(-x)
    if n == 1:
        A[0, 0], Q[0, 0] = decay, -np.expm1(-2.0 * x)
    elif n == 2:
        write_matrix(TWO_STATES, transition(TWO_STATES, x, decay), A)
        write_matrix(TWO_STATES, full(process_noise(TWO_STATES, x, decay)), Q)
    else:
        write_matrix(THREE_STATES, transition(THREE_STATES, x, decay), A)
        write_matrix(THREE_STATES, full(process_noise(THREE_STATES, x, decay)), Q)


@compiled
def rotation(angle, A):
    """A of a rotation."""
    c, s = np.cos(angle), np.sin(angle)
    A[0, 0], A[0, 1], A[1, 0], A[1, 1] = c, s, -s, c


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


@compiled
def _gaussian(system, f, gap, A, Q):
    """A and Q of the process that stands for a squared exponential.

    Over a short step by power series and Gauss's rule, over twice as long by A <- A A, Q <- Q + A Q A', which sums
    positive terms.
    """
    n, x, F = system.size[f], system.rate[f] * gap, system.drift[f]
    size = 0.0
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
        moved[:, 0] = 0.0
        moved[n - 1, 0] = 1.0
        _exponential_times(n, 1, F, 0.5 * x * (1.0 + NODES[k]), moved, term)
        weight = 0.5 * x * WEIGHTS[k] * system.strength[f]
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
def _integrated(x, A, Q):
    """A and Q of an integrated process; Q = 2 int_0^x a a' with a the second column of A, by Gauss's rule or closed."""
    forgotten = -np.expm1(-x)
    A[0, 0], A[0, 1], A[1, 0], A[1, 1] = 1.0, forgotten, 0.0, np.exp(-x)
    if x > SMALL_STEP:
        Q[0, 0] = 2.0 * x - 3.0 + 4.0 * A[1, 1] - A[1, 1] * A[1, 1]
    else:
        Q[0, 0] = 0.0
        for k in range(len(NODES)):
            Q[0, 0] += x * WEIGHTS[k] * np.expm1(-0.5 * x * (1.0 + NODES[k])) ** 2
    Q[0, 1] = forgotten * forgotten
    Q[1, 0], Q[1, 1] = Q[0, 1], -np.expm1(-2.0 * x)


@compiled
def factor_prior(system, f, t, P):
    """Covariance of a factor's state at time t."""
    n, kind = system.size[f], system.kind[f]
    if kind in (MATERN, GAUSSIAN):
        for i in range(n):
            for j in range(n):
                P[i, j] = system.covariance[f, i, j]
    elif kind == ROTATION:
        P[0, 0], P[0, 1], P[1, 0], P[1, 1] = 1.0, 0.0, 0.0, 1.0
    elif kind == WIENER:
        _wiener_covariance(n, t - system.origin[f], P)
    elif kind == INTEGRATED:
        x = system.rate[f] * (t - system.origin[f])
        ahead = np.empty((2, 2))
        _integrated(x, ahead, P)
        P[0, 0] += ahead[0, 1] * ahead[0, 1]  # and what the slope at the start moved
        P[0, 1] += ahead[0, 1] * ahead[1, 1]
        P[1, 0], P[1, 1] = P[0, 1], 1.0
    elif kind in (OSCILLATOR, VELOCITY, AUTOREGRESSION, ARMA):
        for i in range(n):
            for j in range(n):
                P[i, j] = 1.0 if i == j else 0.0
    else:  # the derivatives of t^(n - 1), times themselves
        for i in range(n):
            P[i, i] = 1.0
            for m in range(i):
                P[i, i] *= n - 1 - m
            for _ in range(n - 1 - i):
                P[i, i] *= t
        for i in range(n):
            for j in range(n):
                if i != j:
                    P[i, j] = P[i, i] * P[j, j]
        for i in range(n):
            P[i, i] *= P[i, i]


@compiled
def _oscillator_transition(x, zeta):
    """A of a damped oscillator, row by row."""
    c, s, _ = damped_waves(x, zeta)
    return c + zeta * s, s, -s, c - zeta * s


@compiled
def _oscillator_slope(x, zeta):
    """The derivative of A in zeta, row by row."""
    _, s, d = damped_waves(x, zeta)
    cross = zeta * d - x * s
    return d, cross, -cross, d - 2.0 * (s + zeta * cross)


@compiled
def _oscillator(x, zeta, A, Q):
    """A and Q of a damped oscillator; Q = 4 zeta int_0^x a a' with a the second column of A, or I - A A'."""
    A[0, 0], A[0, 1], A[1, 0], A[1, 1] = _oscillator_transition(x, zeta)
    if x * (1.0 + zeta) > SMALL_STEP:
        Q[0, 0] = 1.0 - A[0, 0] * A[0, 0] - A[0, 1] * A[0, 1]
        Q[1, 1] = 1.0 - A[1, 0] * A[1, 0] - A[1, 1] * A[1, 1]
    else:
        Q[0, 0], Q[1, 1] = 0.0, 0.0
        for k in range(len(NODES)):
            _, a, _, b = _oscillator_transition(0.5 * x * (1.0 + NODES[k]), zeta)
            Q[0, 0] += 2.0 * zeta * x * WEIGHTS[k] * a * a
            Q[1, 1] += 2.0 * zeta * x * WEIGHTS[k] * b * b
    Q[0, 1] = 2.0 * zeta * A[0, 1] * A[0, 1]
    Q[1, 0] = Q[0, 1]


@compiled
def _oscillator_by_damping(x, zeta, A, dA, dQ):
    """Derivatives of A and Q in zeta."""
    dA[0, 0], dA[0, 1], dA[1, 0], dA[1, 1] = _oscillator_slope(x, zeta)
    if x * (1.0 + zeta) > SMALL_STEP:
        dQ[0, 0] = -2.0 * (A[0, 0] * dA[0, 0] + A[0, 1] * dA[0, 1])
        dQ[1, 1] = -2.0 * (A[1, 0] * dA[1, 0] + A[1, 1] * dA[1, 1])
    else:
        dQ[0, 0], dQ[1, 1] = 0.0, 0.0
        for k in range(len(NODES)):
            y = 0.5 * x * (1.0 + NODES[k])
            _, a, _, b = _oscillator_transition(y, zeta)
            _, da, _, db = _oscillator_slope(y, zeta)
            dQ[0, 0] += 2.0 * x * WEIGHTS[k] * a * (a + 2.0 * zeta * da)
            dQ[1, 1] += 2.0 * x * WEIGHTS[k] * b * (b + 2.0 * zeta * db)
    dQ[0, 1] = 2.0 * A[0, 1] * (A[0, 1] + 2.0 * zeta * dA[0, 1])
    dQ[1, 0] = dQ[0, 1]


@compiled
def _oscillator_slopes(x, gap, zeta, by_shape, A, dA, dQ):
    """Derivatives of A and Q in the rate, or in zeta."""
    if by_shape:
        _oscillator_by_damping(x, zeta, A, dA, dQ)
        return
    for j in range(2):
        dA[0, j], dA[1, j] = gap * A[1, j], -gap * (A[0, j] + 2.0 * zeta * A[1, j])
        dQ[0, j], dQ[1, j] = 4.0 * zeta * gap * A[0, 1] * A[j, 1], 4.0 * zeta * gap * A[1, 1] * A[j, 1]


@compiled
def _exchanged(M):
    """M with its two states in the other order, in place."""
    M[0, 0], M[1, 1] = M[1, 1], M[0, 0]
    M[0, 1], M[1, 0] = M[1, 0], M[0, 1]


@compiled
def shapes_of(system, f):
    """Number of a factor's parameters besides its rate."""
    if system.kind[f] == AUTOREGRESSION:
        return system.size[f]
    if system.kind[f] == ARMA:
        return 2 * system.size[f] - 1
    return 1 if system.kind[f] in (OSCILLATOR, VELOCITY) else 0


@compiled
def factor_step(system, f, gap, A, Q, g):
    """A and Q of a factor."""
    n, kind = system.size[f], system.kind[f]
    if kind == MATERN:
        _matern(system, f, gap, A, Q, g)
        return
    if kind == GAUSSIAN:
        _gaussian(system, f, gap, A, Q)
        return
    if kind == INTEGRATED:
        _integrated(system.rate[f] * gap, A, Q)
        return
    if kind in (AUTOREGRESSION, ARMA):
        unused, shape = np.empty((2, n, n)), system.shape[f, : shapes_of(system, f)]
        lattice_steps(shape[:n], shape[n:], gap, -1, A[:n, :n], Q[:n, :n], unused[0], unused[1])
        return
    for i in range(n):
        for j in range(n):
            A[i, j], Q[i, j] = 0.0, 0.0
    if kind == ROTATION:
        rotation(system.rate[f] * gap, A)
    elif kind in (OSCILLATOR, VELOCITY):
        _oscillator(system.rate[f] * gap, system.shape[f, 0], A, Q)
        if kind == VELOCITY:
            _exchanged(A)
            _exchanged(Q)
    else:
        for i in range(n):
            value = 1.0
            for j in range(i, n):
                A[i, j] = value
                value *= gap / (j - i + 1)
        if kind == WIENER:
            _wiener_covariance(n, gap, Q)


@compiled
def factor_slope(system, f, gap, wrt, A, dA, dQ):
    """Derivatives of A and Q in the rate of a factor that has one (`wrt` = 0), or in one of its shapes (1, ...)."""
    n = system.size[f]
    if system.kind[f] in (AUTOREGRESSION, ARMA):
        again, shape = np.empty((2, n, n)), system.shape[f, : shapes_of(system, f)]
        lattice_steps(shape[:n], shape[n:], gap, wrt - 1, again[0], again[1], dA[:n, :n], dQ[:n, :n])
        return
    if system.kind[f] == OSCILLATOR:
        _oscillator_slopes(system.rate[f] * gap, gap, system.shape[f, 0], wrt == 1, A, dA, dQ)
        return
    if system.kind[f] == VELOCITY:
        _exchanged(A)
        _oscillator_slopes(system.rate[f] * gap, gap, system.shape[f, 0], wrt == 1, A, dA, dQ)
        _exchanged(A)
        _exchanged(dA)
        _exchanged(dQ)
        return
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
