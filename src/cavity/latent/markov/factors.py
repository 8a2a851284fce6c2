"""Transitions of single factors of a Gaussian Markov process: A and Q over many gaps at once, and their slopes.

The factors are those of `kernels.state_space`, each of unit variance. Q is summed from positive terms if the step is
short, so it has full relative accuracy at any gap; P - A P A' would lose it. All are arrays (m, n, n) for m gaps; loops
over gaps are compiled for the kinds that have no closed form, when a kernel has such a factor.
"""

from __future__ import annotations

from math import factorial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cavity.kernels.state_space import FactorKind
from cavity.latent.markov.small_matrices import FORGOTTEN
from cavity.numerics.arrays import Array

AUTOREGRESSIVE = (FactorKind.AUTOREGRESSION, FactorKind.ARMA)
OSCILLATING = (FactorKind.OSCILLATOR, FactorKind.VELOCITY)

NODES, WEIGHTS = np.polynomial.legendre.leggauss(10)
"""Gauss's rule for integrals of squares over a short step: full relative accuracy, since all terms are positive."""

SMALL_STEP = 1.0
"""Value of rate * gap up to which Q is summed from positive terms; beyond it nothing cancels in P - A P A'."""


class System(NamedTuple):
    """A state space as arrays: B blocks of F factors, of at most S states.

    start (B + 1): offsets of the blocks' states; first (B + 1): their factors; variance (B). By factor: same, the
    first that is equal to it; kind, size, rate, origin; shape (F, W): its parameters besides the rate;
    power (F, S, S, S): (F + I)^m / m! of a Matern factor; strength: of its noise; covariance, drift (F, S, S).
    """

    start: NDArray[np.intp]
    first: NDArray[np.intp]
    same: NDArray[np.intp]
    kind: NDArray[np.intp]
    size: NDArray[np.intp]
    rate: Array
    origin: Array
    shape: Array
    power: Array
    strength: Array
    covariance: Array
    drift: Array
    variance: Array


def _matrices(m: int, *rows: tuple[Any, Any]) -> Array:
    """Matrices (m, 2, 2) from their entries, each a number or (m,)."""
    out = np.empty((m, 2, 2))
    for i, row in enumerate(rows):
        out[:, i, 0], out[:, i, 1] = row
    return out


# --- steps --------------------------------------------------------------------------------------------------


def _exponential_moments(x: Array, count: int) -> Array:
    """int_0^x s^m exp(-2 s) ds for m < count, row by row: a series of positive terms for the last, then downwards."""
    last, decay = count - 1, np.exp(-2.0 * x)
    g = np.empty((count, len(x)))
    term = decay * x ** (last + 1) / (last + 1)
    g[last] = term
    j = 0
    while np.any(term > 1e-17 * g[last]):
        j += 1
        term = term * (2.0 * x / (last + 1 + j))
        g[last] += term
    for m in range(last, 0, -1):
        g[m - 1] = (decay * x**m + 2.0 * g[m]) / m
    return g


def _few_matern_states(n: int, x: Array) -> tuple[Array, Array]:
    """A and Q of a Matern factor of one to three states."""
    from cavity.latent.markov.single_matern import transitions

    A, Q = np.empty((2, len(x), 1, n, n))
    transitions((0.0,) * (n * (n + 1) // 2), 1.0, 1.0, x, A, Q)
    return A[:, 0], Q[:, 0]


def _matern(system: System, f: int, gaps: Array) -> tuple[Array, Array]:
    """A and Q of a Matern factor."""
    n, x = int(system.size[f]), system.rate[f] * gaps
    if n <= 3:
        return _few_matern_states(n, x)
    power, P = system.power[f, :n, :n, :n], system.covariance[f, :n, :n]
    x = np.minimum(x, FORGOTTEN)
    A = np.zeros((len(x), n, n))
    for term in power[::-1]:
        A *= x[:, None, None]
        A += term
    A *= np.where(x < FORGOTTEN, np.exp(-x), 0.0)[:, None, None]
    Q = P - A @ P @ A.transpose(0, 2, 1)
    short = np.flatnonzero(x <= SMALL_STEP)
    g, a = _exponential_moments(x[short], 2 * n - 1), power[:, :, n - 1]
    Q[short] = system.strength[f] * np.einsum(
        "mi,kj,mks->sij", a, a, g[np.add.outer(np.arange(n), np.arange(n))]
    )
    return A, Q


def _wiener_covariance(n: int, span: Array) -> Array:
    """Covariance of an n-fold integral of white noise after spans of time, from zero."""
    at = n - 1 - np.arange(n)
    below = np.array([factorial(i) for i in at], dtype=float)
    order = 1 + np.add.outer(at, at)
    return np.asarray(span[:, None, None] ** order / (order * np.outer(below, below)))


def _polynomial_step(n: int, gaps: Array) -> Array:
    """A of a polynomial and its derivatives."""
    A = np.zeros((len(gaps), n, n))
    for j in range(n):
        for i in range(j + 1):
            A[:, i, j] = gaps ** (j - i) / factorial(j - i)
    return A


def _integrated(x: Array) -> tuple[Array, Array]:
    """A and Q of an integrated process; Q = 2 int_0^x a a' with a the second column of A, by Gauss's rule or closed."""
    forgotten, left = -np.expm1(-x), np.exp(-x)
    by_rule = np.sum(x[:, None] * WEIGHTS * np.expm1(-0.5 * np.outer(x, 1.0 + NODES)) ** 2, axis=1)
    first = np.where(x > SMALL_STEP, 2.0 * x - 3.0 + 4.0 * left - left * left, by_rule)
    m, cross = len(x), forgotten * forgotten
    Q = _matrices(m, (first, cross), (cross, -np.expm1(-2.0 * x)))
    return _matrices(m, (1.0, forgotten), (0.0, left)), Q


def factor_prior(system: System, f: int, t: Array) -> Array:
    """Covariance of a factor's state at times t (m,), or one for all."""
    n, kind = int(system.size[f]), int(system.kind[f])
    if kind in (FactorKind.MATERN, FactorKind.GAUSSIAN):
        return system.covariance[f : f + 1, :n, :n]
    if kind == FactorKind.WIENER:
        return _wiener_covariance(n, t - system.origin[f])
    if kind == FactorKind.INTEGRATED:
        A, P = _integrated(system.rate[f] * (t - system.origin[f]))
        moved = A[:, :, 1]  # and what the slope at the start moved
        return P + moved[:, :, None] * moved[:, None, :]
    if kind == FactorKind.POWER:  # the derivatives of t^(n - 1), times themselves
        below = np.array([factorial(n - 1) / factorial(n - 1 - i) for i in range(n)])
        x = below * t[:, None] ** np.arange(n - 1, -1, -1)
        return np.asarray(x[:, :, None] * x[:, None, :])
    return np.eye(n)[None]


def _oscillator_step(x: Array, zeta: float) -> tuple[Array, Array, Array, Array]:
    """A of a damped oscillator, row by row."""
    from cavity.numerics.damped_waves import damped_waves_of

    c, s, _ = damped_waves_of(x, zeta)
    return c + zeta * s, s, -s, c - zeta * s


def _oscillator_slope(x: Array, zeta: float) -> tuple[Array, Array, Array, Array]:
    """The derivative of A in zeta, row by row."""
    from cavity.numerics.damped_waves import damped_waves_of

    _, s, d = damped_waves_of(x, zeta)
    cross = zeta * d - x * s
    return d, cross, -cross, d - 2.0 * (s + zeta * cross)


def _oscillator(x: Array, zeta: float) -> tuple[Array, Array]:
    """A and Q of a damped oscillator; Q = 4 zeta int_0^x a a' with a the second column of A, or I - A A'."""
    a, b, c, d = _oscillator_step(x, zeta)
    first, second = 1.0 - a * a - b * b, 1.0 - c * c - d * d
    short = np.flatnonzero(x * (1.0 + zeta) <= SMALL_STEP)
    inner = 0.5 * np.outer(x[short], 1.0 + NODES)
    _, p, _, q = _oscillator_step(inner, zeta)
    first[short] = 2.0 * zeta * x[short] * (p * p @ WEIGHTS)
    second[short] = 2.0 * zeta * x[short] * (q * q @ WEIGHTS)
    cross = 2.0 * zeta * b * b
    return _matrices(len(x), (a, b), (c, d)), _matrices(len(x), (first, cross), (cross, second))


def _oscillator_by_damping(x: Array, zeta: float, A: Array) -> tuple[Array, Array]:
    """Derivatives of A and Q in zeta."""
    a, b, c, d = _oscillator_slope(x, zeta)
    dA = _matrices(len(x), (a, b), (c, d))
    first, second = -2.0 * np.sum(A * dA, axis=2).T
    short = np.flatnonzero(x * (1.0 + zeta) <= SMALL_STEP)
    inner = 0.5 * np.outer(x[short], 1.0 + NODES)
    (_, p, _, q), (_, dp, _, dq) = _oscillator_step(inner, zeta), _oscillator_slope(inner, zeta)
    first[short] = 2.0 * x[short] * (p * (p + 2.0 * zeta * dp) @ WEIGHTS)
    second[short] = 2.0 * x[short] * (q * (q + 2.0 * zeta * dq) @ WEIGHTS)
    cross = 2.0 * A[:, 0, 1] * (A[:, 0, 1] + 2.0 * zeta * dA[:, 0, 1])
    return dA, _matrices(len(x), (first, cross), (cross, second))


def _oscillator_slopes(x: Array, gaps: Array, zeta: float, by_shape: bool, A: Array) -> tuple[Array, Array]:
    """Derivatives of A and Q in the rate, or in zeta."""
    if by_shape:
        return _oscillator_by_damping(x, zeta, A)
    h = gaps[:, None]
    dA = np.stack([h * A[:, 1], -h * (A[:, 0] + 2.0 * zeta * A[:, 1])], axis=1)
    return dA, 4.0 * zeta * h[:, :, None] * A[:, :, 1, None] * A[:, None, :, 1]


def _lattice(system: System, f: int, gaps: Array, wrt: int) -> Array:
    """A, Q and their derivatives in a shape, or none of them if -1, of an autoregressive process: (4, m, n, n)."""
    from cavity.numerics.lattice import lattice_steps_of

    n, shape = system.size[f], system.shape[f, : shapes_of(system, f)]
    return lattice_steps_of(shape[:n], shape[n:], gaps, wrt)


def shapes_of(system: System, f: int) -> int:
    """Number of a factor's parameters besides its rate."""
    kind, n = int(system.kind[f]), int(system.size[f])
    if kind in AUTOREGRESSIVE:
        return n if kind == FactorKind.AUTOREGRESSION else 2 * n - 1
    return 1 if kind in OSCILLATING else 0


def factor_step(system: System, f: int, gaps: Array) -> tuple[Array, Array]:
    """A and Q of a factor."""
    n, kind, x = int(system.size[f]), int(system.kind[f]), system.rate[f] * gaps
    if kind == FactorKind.MATERN:
        return _matern(system, f, gaps)
    if kind == FactorKind.GAUSSIAN:
        from cavity.latent.markov.gaussian_steps import gaussian_steps

        A, Q = np.empty((2, len(gaps), n, n))
        gaussian_steps(np.ascontiguousarray(system.drift[f, :n, :n]), system.strength[f], x, A, Q)
        return A, Q
    if kind == FactorKind.INTEGRATED:
        return _integrated(x)
    if kind in AUTOREGRESSIVE:
        A, Q = _lattice(system, f, gaps, -1)[:2]
        return A, Q
    if kind in OSCILLATING:
        A, Q = _oscillator(x, system.shape[f, 0])
        return (A, Q) if kind == FactorKind.OSCILLATOR else (A[:, ::-1, ::-1], Q[:, ::-1, ::-1])
    if kind == FactorKind.ROTATION:
        c, s = np.cos(x), np.sin(x)
        return _matrices(len(x), (c, s), (-s, c)), np.zeros((len(x), 2, 2))
    A = _polynomial_step(n, gaps)
    return A, _wiener_covariance(n, gaps) if kind == FactorKind.WIENER else np.zeros(A.shape)


def factor_slope(system: System, f: int, gaps: Array, wrt: int, A: Array) -> tuple[Array, Array]:
    """Derivatives of A and Q in the rate of a factor that has one (`wrt` = 0), or in one of its shapes (1, ...)."""
    n, kind, x = int(system.size[f]), int(system.kind[f]), system.rate[f] * gaps
    if kind in AUTOREGRESSIVE:
        dA, dQ = _lattice(system, f, gaps, wrt - 1)[2:]
        return dA, dQ
    if kind == FactorKind.OSCILLATOR:
        return _oscillator_slopes(x, gaps, system.shape[f, 0], wrt == 1, A)
    if kind == FactorKind.VELOCITY:
        dA, dQ = _oscillator_slopes(x, gaps, system.shape[f, 0], wrt == 1, A[:, ::-1, ::-1])
        return dA[:, ::-1, ::-1], dQ[:, ::-1, ::-1]
    h = gaps[:, None, None]
    if kind == FactorKind.ROTATION:
        return h * np.stack([A[:, 1], -A[:, 0]], axis=1), np.zeros(A.shape)
    a = A[:, :, n - 1]
    return h * (system.drift[f, :n, :n] @ A), h * system.strength[f] * a[:, :, None] * a[:, None, :]
