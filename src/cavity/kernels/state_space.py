"""Kernels of one input as Gaussian Markov processes: f(t) is the sum of the first entries of the states of its blocks.

A kernel with such a form is a sum of independent *blocks*. The state of a block is a Kronecker product of *factors*
(Rasmussen and Williams 2006, appendix B; Hartikainen and Sarkka 2010; Solin and Sarkka 2014). Between two times h apart

    x(t + h) = A(h) x(t) + N(0, Q),    Q = P(t + h) - A P(t) A',    P(t) = cov x(t),

and the kernel of a block is variance * (A(h) P(t))[0, 0]. The factors, each of unit variance:

    MATERN    order p, rate lam: a Matern process of smoothness p + 1/2, lam = sqrt(2 p + 1) / lengthscale, in the
              balanced state (f, f' / lam, ..., f^(p) / lam^p), in which A and Q depend on lam h alone
    ROTATION  rate omega: cos(omega h); a rotation without noise
    WIENER    order m, from `origin` on: an integrated Wiener process (m = 1: Brownian motion), state (f, f', ...)
    INTEGRATED  rate lam, from `origin` on: the integral of an Ornstein-Uhlenbeck process v of variance one, state
              (lam f, v), which depends on lam h alone; not in products
    POWER     order m: f = t^m, state (f, f', ...), without noise
    OSCILLATOR  rate omega, shape zeta: f'' + 2 zeta omega f' + omega^2 f = white noise, state (f, f' / omega)
    VELOCITY  the same, seen by its velocity: state (f' / omega, f)
    GAUSSIAN  order d, rate 1 / lengthscale: stands for a squared exponential, whose spectrum exp(-w^2 / 2) becomes
              1 / sum_{j <= d} (w^2 / 2)^j / j! (Hartikainen and Sarkka 2010); state (f, f', ..., f^(d - 1)), each
              of unit variance
    AUTOREGRESSION  order p, shapes its partial autocorrelations: at whole times, in the state of `numerics.lattice`
    ARMA      order n, n partial autocorrelations and n - 1 numbers of a moving average: the same with that average

Sums of kernels list their blocks one after the other; products pair them. Every number that depends on a parameter is
a `Quantity`, which knows its derivative in the kernel's natural values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np

from cavity.numerics.arrays import Array

if TYPE_CHECKING:
    from cavity.kernels.base import Kernel


class FactorKind(IntEnum):
    """Kinds of factors; arrays hold them as numbers."""

    MATERN = 0
    ROTATION = 1
    WIENER = 2
    POWER = 3
    OSCILLATOR = 4
    GAUSSIAN = 5
    VELOCITY = 6
    AUTOREGRESSION = 7
    ARMA = 8
    INTEGRATED = 9


AT_WHOLE_TIMES = (FactorKind.AUTOREGRESSION, FactorKind.ARMA)
"""Kinds of processes on a grid."""


class NoStateSpaceError(ValueError):
    """A kernel, or a term of it, is no Gaussian Markov process of one input.

    Attributes
    ----------
    term : Kernel
    nearest : str
        A kernel that has such a form and behaves alike; that of the term's class unless given.
    """

    def __init__(self, term: Kernel, nearest: str | None = None) -> None:
        nearest = term._nearest_markov if nearest is None else nearest
        other = "representation=Markov(states=8), an approximation, or " if term._approximately_markov else ""
        super().__init__(
            f"{term!r} has no exact state-space form; the nearest kernel that has one is {nearest}; or use {other}"
            "representation='dense'"
        )
        self.term, self.nearest = term, nearest


def require_whole_times(t: Array) -> None:
    """Refuse times between those of an autoregression."""
    off = t != np.round(t)
    if off.any():
        raise ValueError(
            f"Autoregressive is a process at whole times, got {t[np.argmax(off)]!s}; count the steps of the grid, "
            "t = 0, 1, 2, ..., or use a process in continuous time, such as Matern(lengthscale, nu=0.5) or "
            "DampedOscillator(period, quality)"
        )


@dataclass(frozen=True)
class Quantity:
    """A number and its derivative in the natural values of a kernel, shape (p,)."""

    value: float
    slope: Array

    @classmethod
    def fixed(cls, value: float, size: int) -> Quantity:
        """One that depends on no parameter."""
        return cls(value, np.zeros(size))

    @classmethod
    def parameter(cls, value: float, index: int, size: int, factor: float = 1.0) -> Quantity:
        """A number that changes by `factor` with one of the parameters."""
        slope = np.zeros(size)
        slope[index] = factor
        return cls(value, slope)

    def times(self, other: Quantity) -> Quantity:
        """The product."""
        return Quantity(self.value * other.value, self.value * other.slope + other.value * self.slope)

    def power(self, exponent: int) -> Quantity:
        """A power of it."""
        slope = exponent * self.value ** (exponent - 1) if exponent else 0.0
        return Quantity(self.value**exponent, slope * self.slope)

    def moved(self, offset: int, size: int) -> Quantity:
        """For a kernel with `size` values, of which those of this one begin at `offset`."""
        slope = np.zeros(size)
        slope[offset : offset + len(self.slope)] = self.slope
        return Quantity(self.value, slope)


@dataclass(frozen=True)
class Factor:
    """One factor of a block: `rate` is lam or omega, `origin` where a process starts that has a start.

    `shapes` are its other parameters: zeta, or partial autocorrelations and a moving average.
    """

    kind: FactorKind
    order: int
    rate: Quantity
    origin: float = 0.0
    shapes: tuple[Quantity, ...] = ()

    @property
    def size(self) -> int:
        """Length of its state."""
        if self.kind in (FactorKind.MATERN, FactorKind.POWER):
            return self.order + 1
        counted = (FactorKind.WIENER, FactorKind.GAUSSIAN, *AT_WHOLE_TIMES)
        return self.order if self.kind in counted else 2

    @property
    def generator(self) -> tuple[Array, Array, float]:
        """F of rate one, stationary covariance and strength of the noise, which moves the last entry of the state."""
        if self.kind is FactorKind.MATERN:
            return matern_constants(self.order)
        if self.kind is FactorKind.GAUSSIAN:
            return gaussian_constants(self.order)
        if self.kind is FactorKind.ROTATION:
            return np.array([[0.0, 1.0], [-1.0, 0.0]]), np.eye(2), 0.0
        if self.kind is FactorKind.INTEGRATED:
            return np.array([[0.0, 1.0], [0.0, -1.0]]), np.zeros((2, 2)), 2.0
        return np.zeros((self.size, self.size)), np.zeros((self.size, self.size)), 0.0

    def moved(self, offset: int, size: int) -> Factor:
        """See `Quantity.moved`."""
        shapes = tuple(shape.moved(offset, size) for shape in self.shapes)
        return Factor(self.kind, self.order, self.rate.moved(offset, size), self.origin, shapes)


@dataclass(frozen=True)
class Block:
    """A Kronecker product of factors, none for a constant, with its variance."""

    variance: Quantity
    factors: tuple[Factor, ...] = ()

    @property
    def size(self) -> int:
        """Length of its state."""
        return int(np.prod([factor.size for factor in self.factors], dtype=int))

    @cached_property
    def generators(self) -> list[tuple[Array, Array]]:
        """By factor, F and D of the block: A = exp(gap rate F), and dP = F P + P F' + D for a change of the rate by one
        over the gap, any P. Of factors without a rate they are zero."""
        found = []
        for f, factor in enumerate(self.factors):
            F, _, strength = factor.generator
            noise = np.zeros_like(F)
            noise[-1, -1] = strength
            before = [np.eye(other.size) for other in self.factors[:f]]
            after = [np.eye(other.size) for other in self.factors[f + 1 :]]
            around = [other.generator[1] for other in self.factors]
            around[f] = noise
            found.append((_kronecker([*before, F, *after]), self.variance.value * _kronecker(around)))
        return found

    def moved(self, offset: int, size: int) -> Block:
        """See `Quantity.moved`."""
        factors = tuple(factor.moved(offset, size) for factor in self.factors)
        return Block(self.variance.moved(offset, size), factors)

    def times(self, other: Block) -> Block:
        """The block of the product of two kernels."""
        return Block(self.variance.times(other.variance), self.factors + other.factors)

    def scaled(self, variance: Quantity) -> Block:
        """With the variance multiplied."""
        return Block(self.variance.times(variance), self.factors)


@dataclass(frozen=True)
class StateSpace:
    """The blocks of a kernel of one input.

    Examples
    --------
    >>> from cavity.kernels import Cosine, Matern
    >>> form = (2.0 * Matern(1.5, nu=1.5) * Cosine(3.0) + Matern(4.0, nu=2.5)).state_space()
    >>> [block.size for block in form.blocks], form.size
    ([4, 3], 7)
    """

    blocks: tuple[Block, ...]

    @property
    def size(self) -> int:
        """Length of the state."""
        return sum(block.size for block in self.blocks)

    @property
    def moving(self) -> bool:
        """Whether the noise of the state depends on time itself: if a factor that has a beginning meets another."""
        began = {FactorKind.WIENER, FactorKind.POWER}
        return any(
            len(block.factors) > 1 and not began.isdisjoint(factor.kind for factor in block.factors)
            for block in self.blocks
        )

    @property
    def at_whole_times(self) -> bool:
        """Whether it is a process at whole times only."""
        return any(factor.kind in AT_WHOLE_TIMES for block in self.blocks for factor in block.factors)

    @property
    def rates_only(self) -> bool:
        """Whether the parameters of all factors are rates of generators (`Block.generators`)."""
        shaped = any(factor.shapes for block in self.blocks for factor in block.factors)
        return not self.moving and not shaped


def _kronecker(matrices: Sequence[Array]) -> Array:
    out: Array = np.ones((1, 1))
    for matrix in matrices:
        out = np.asarray(np.kron(out, matrix), dtype=float)
    return out


def refuse_in_products(kernel: Kernel, found: Sequence[Sequence[Block]]) -> None:
    """Refuse a product with a factor whose covariance depends on its rate and on time."""
    if any(
        factor.kind is FactorKind.INTEGRATED for part in found for block in part for factor in block.factors
    ):
        raise NoStateSpaceError(kernel)


def joined(parts: Sequence[Kernel], offset: int, size: int, states: int | None) -> list[tuple[Block, ...]]:
    """The blocks of each part of a kernel with `size` values, of which those of the first part begin at `offset`."""
    found = []
    for part in parts:
        found.append(tuple(block.moved(offset, size) for block in part._state_space(states)))
        offset += part.flat.size
    return found


@cache
def matern_constants(order: int) -> tuple[Array, Array, float]:
    """Drift F of the balanced Matern state with rate one, its stationary covariance, and the strength of the noise.

    F is the companion matrix of (s + 1)^(p + 1). The covariances are spectral moments of S proportional to
    (1 + w^2)^-(p + 1): E[w^(2k)] = Gamma(k + 1/2) Gamma(p + 1/2 - k) / (Gamma(1/2) Gamma(p + 1/2)).
    """
    from scipy.special import binom, gammaln

    size = order + 1
    F = np.diag(np.ones(order), 1)
    F[-1] = -binom(size, np.arange(size))
    P = np.zeros((size, size))
    for i in range(size):
        for j in range(i % 2, size, 2):
            k = (i + j) // 2
            log_moment = gammaln(k + 0.5) + gammaln(order + 0.5 - k) - gammaln(0.5) - gammaln(order + 0.5)
            P[i, j] = (-1.0) ** ((i - j) // 2) * np.exp(log_moment)
    return F, P, float(-2.0 * F[-1] @ P[:, -1])


@cache
def gaussian_constants(order: int) -> tuple[Array, Array, float]:
    """The same of the process that stands for a squared exponential of length scale one.

    F is the companion matrix of the polynomial whose roots are those of sum_j (-s^2 / 2)^j / j! in the left half
    plane. Covariances solve F P + P F' + q e e' = 0; states are scaled to unit variance.
    """
    from scipy.linalg import solve_continuous_lyapunov
    from scipy.special import factorial

    j = np.arange(order, -1, -1)
    squares = np.roots((-0.5) ** j / factorial(j))  # of s^2
    roots = -np.sqrt(squares.astype(complex))
    polynomial = np.real(np.poly(roots))  # roots with a negative real part come in conjugate pairs
    F = np.diag(np.ones(order - 1), 1)
    F[-1] = -polynomial[:0:-1]
    noise = np.zeros((order, order))
    noise[-1, -1] = 1.0
    P = solve_continuous_lyapunov(F, -noise)
    scale = 1.0 / np.sqrt(np.diag(P))
    P = P * np.outer(scale, scale)
    F = F * np.outer(scale, 1.0 / scale)
    return F, 0.5 * (P + P.T), float(-2.0 * F[-1] @ P[:, -1])
