"""Bumps in one state variable and their expectations under a Gaussian, in closed form.

Value functions and rewards are sums of products of one-dimensional bumps, and the next state has independent
components given where the system is and what it does (7.32). So every expectation is a product over columns of

    line    b(x) = exp(-(x - c)^2 / (2 l^2)),          E b = sqrt(l^2 / t) exp(-(c - m)^2 / (2 t)),     t = l^2 + v,
    angle   b(x) = exp((cos(x - c) - 1) / l^2),        E b = sum_k b_k exp(-k^2 v / 2) cos(k (m - c)),

for x ~ N(m, v). The second is the squared exponential in (sin x, cos x); its Fourier coefficients are modified
Bessel functions, b_0 = e^-K I_0(K), b_k = 2 e^-K I_k(K), K = 1/l^2, so that angles need no approximation.

A line may have ends: what lies outside [low, high] then counts as zero, and E b is multiplied by the probability
that the product of bump and Gaussian, N(x | (m l^2 + c v) / t, v l^2 / t), gives to the interval.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray
from scipy.special import ive, ndtr

from cavity.numerics.arrays import Array

SMALLEST_TERM = 1e-15
"""Fourier terms below this are left out; the largest value of a bump is 1."""

FAR = 8.5
"""Standard deviations beyond which a Gaussian is zero in double precision."""

SQRT_2PI = float(np.sqrt(2.0 * np.pi))


class Factor(ABC):
    """Bumps in one column. Means and variances m, v have shape (B,), centers c (n,); results (B, n)."""

    @abstractmethod
    def expected(self, m: Array, v: Array, c: Array, width: float) -> Array:
        """E b(x) for x ~ N(m, v); a bump of infinite width is one everywhere."""

    @abstractmethod
    def derivatives(self, m: Array, v: Array, c: Array, width: float) -> tuple[Array, Array, Array]:
        """E b(x), and its derivatives in m and in v."""

    @abstractmethod
    def correlation(self, x: Array, c: Array, width: float) -> tuple[Array, Array]:
        """b(x) at points x (B,), and its derivative in log(width)."""

    @abstractmethod
    def paired(self, m: Array, v: Array, c: Array, width: float, e: Array, other: float) -> Array:
        """E b(x; c, width) b(x; e, other) for centers c (n,) and e (k,), shape (B, n, k)."""


class Line(Factor):
    """Squared exponential bumps on the real line, or on an interval with nothing outside."""

    def __init__(self, low: float = -np.inf, high: float = np.inf) -> None:
        if not low < high:
            raise ValueError(f"low must be below high, got {low!r} and {high!r}")
        self.low, self.high = float(low), float(high)
        self.bounded = bool(np.isfinite(low) or np.isfinite(high))

    def expected(self, m: Array, v: Array, c: Array, width: float) -> Array:
        """E b(x), shape (B, n)."""
        share, precision = _shares(v, width)
        bump: Array = np.exp(-0.5 * precision * (c - m[:, None]) ** 2) * np.sqrt(share)
        near = self._near_ends(m, v, c, width)
        if len(near):
            bump[near] *= self._inside(m[near], v[near], c, width)
        return bump

    def derivatives(self, m: Array, v: Array, c: Array, width: float) -> tuple[Array, Array, Array]:
        """E b(x) and its derivatives in m and v, each (B, n)."""
        share, precision = _shares(v, width)
        z = precision * (c - m[:, None])
        bump = np.exp(-0.5 * z * (c - m[:, None])) * np.sqrt(share)
        d_m, d_v = z * bump, 0.5 * (z**2 - precision) * bump
        near = self._near_ends(m, v, c, width)
        if len(near):
            p = self._inside(m[near], v[near], c, width)
            p_m, p_v = self._inside_slopes(m[near], v[near], c, width)
            d_m[near] = d_m[near] * p + bump[near] * p_m
            d_v[near] = d_v[near] * p + bump[near] * p_v
            bump[near] *= p
        return bump, d_m, d_v

    def _near_ends(self, m: Array, v: Array, c: Array, width: float) -> NDArray[np.intp]:
        """Rows in which anything of the product of bump and Gaussian may lie outside."""
        if not self.bounded:
            return np.zeros(0, dtype=np.intp)
        centers, sd = self._product(m, v, np.array([c.min(), c.max()]), width)
        lowest = np.minimum(m, centers[:, 0]) - FAR * sd[:, 0]
        highest = np.maximum(m, centers[:, 1]) + FAR * sd[:, 0]
        return np.flatnonzero((lowest < self.low) | (highest > self.high))

    def _product(self, m: Array, v: Array, c: Array, width: float) -> tuple[Array, Array]:
        """Mean (B, n) and sd (B, 1) of the Gaussian that the product of bump and N(m, v) is proportional to."""
        share, precision = _shares(v, width)
        return m[:, None] * share + c * (v[:, None] * precision), np.sqrt(v[:, None] * share)

    def _inside(self, m: Array, v: Array, c: Array, width: float) -> Array:
        """Probability of the interval under the product, shape (B, n)."""
        center, sd = self._product(m, v, c, width)
        certain = sd == 0  # without variance a state is inside, ends included, or outside
        safe = np.where(certain, 1.0, sd)
        above = np.where(certain, np.where(center <= self.high, np.inf, -np.inf), (self.high - center) / safe)
        below = np.where(certain, np.where(center < self.low, np.inf, -np.inf), (self.low - center) / safe)
        return np.asarray(ndtr(above) - ndtr(below))

    def _inside_slopes(self, m: Array, v: Array, c: Array, width: float) -> tuple[Array, Array]:
        """Derivatives of `_inside` in m and v; zero if there is no variance."""
        share, precision = _shares(v, width)
        center, sd = self._product(m, v, c, width)
        certain = sd == 0
        sd = np.where(certain, 1.0, sd)
        moved = (c - m[:, None]) * precision * share  # of the center with v
        spread = share**2 / (2.0 * sd)  # of the sd with v
        p_m, p_v = np.zeros(center.shape), np.zeros(center.shape)
        for sign, end in ((1.0, self.high), (-1.0, self.low)):
            if np.isfinite(end):
                z = (end - center) / sd
                density = np.where(certain, 0.0, sign * np.exp(-0.5 * z**2) / (SQRT_2PI * sd))
                p_m -= density * share
                p_v -= density * (moved + z * spread)
        return p_m, p_v

    def correlation(self, x: Array, c: Array, width: float) -> tuple[Array, Array]:
        """b(x) and its derivative in log(width)."""
        square = ((x[:, None] - c) / width) ** 2
        b = np.exp(-0.5 * square)
        return b, b * square

    def paired(self, m: Array, v: Array, c: Array, width: float, e: Array, other: float) -> Array:
        """E b(x; c, width) b(x; e, other), shape (B, n, k): the product of two bumps is a bump."""
        first, second = width**-2.0, other**-2.0
        total = first + second
        height = np.exp(-0.5 * (c[:, None] - e) ** 2 * (first * second / total))
        center = (c[:, None] * first + e * second) / total
        product = self.expected(m, v, center.ravel(), total**-0.5)
        return np.asarray(product.reshape(len(m), *height.shape) * height)


def _shares(v: Array, width: float) -> tuple[Array, Array]:
    """l^2 / t and 1 / t, each (B, 1), t = l^2 + v; also for the infinite width of a bump that is one everywhere."""
    precision = width**-2.0
    share = 1.0 / (1.0 + precision * v[:, None])
    return share, precision * share


class Angle(Factor):
    """Bumps on the circle: squared exponentials in sine and cosine."""

    @staticmethod
    def _series(width: float) -> tuple[Array, Array]:
        """Frequencies k and coefficients b_k that matter."""
        K = width**-2.0
        k = np.arange(int(10.0 + 9.0 * np.sqrt(K)))
        b = np.where(k == 0, 1.0, 2.0) * ive(k, K)
        keep = b > SMALLEST_TERM
        return k[keep].astype(float), b[keep]

    def _terms(self, m: Array, v: Array, c: Array, width: float) -> tuple[Array, ...]:
        k, b = self._series(width)
        weight = b * np.exp(-0.5 * k**2 * v[:, None])
        return k, weight, m[:, None] * k, np.cos(c[:, None] * k), np.sin(c[:, None] * k)

    def expected(self, m: Array, v: Array, c: Array, width: float) -> Array:
        """E b(x), shape (B, n)."""
        _, weight, phase, cos, sin = self._terms(m, v, c, width)
        return np.asarray((weight * np.cos(phase)) @ cos.T + (weight * np.sin(phase)) @ sin.T)

    def derivatives(self, m: Array, v: Array, c: Array, width: float) -> tuple[Array, Array, Array]:
        """E b(x) and its derivatives in m and v, each (B, n)."""
        k, weight, phase, cos, sin = self._terms(m, v, c, width)
        a, b = weight * np.cos(phase), weight * np.sin(phase)
        d_m = (k * a) @ sin.T - (k * b) @ cos.T
        d_v = -0.5 * ((k**2 * a) @ cos.T + (k**2 * b) @ sin.T)
        return a @ cos.T + b @ sin.T, d_m, d_v

    def correlation(self, x: Array, c: Array, width: float) -> tuple[Array, Array]:
        """b(x) and its derivative in log(width)."""
        half = 2.0 * np.sin(0.5 * (x[:, None] - c)) ** 2 / width**2  # (1 - cos) / l^2
        b = np.exp(-half)
        return b, 2.0 * b * half

    def paired(self, m: Array, v: Array, c: Array, width: float, e: Array, other: float) -> Array:
        """E b(x; c, width) b(x; e, other), shape (B, n, k): the product of two Fourier series, term by term."""
        p, first = self._two_sided(width)
        q, second = self._two_sided(other)
        frequency = p[:, None] + q
        waves = np.exp(1j * frequency * m[:, None, None] - 0.5 * frequency**2 * v[:, None, None])
        left = first * np.exp(-1j * c[:, None] * p)
        right = second * np.exp(-1j * e[:, None] * q)
        return np.asarray((left @ waves @ right.T).real)

    def _two_sided(self, width: float) -> tuple[Array, Array]:
        """Frequencies of both signs and coefficients, for sums of exp(i k x)."""
        k, b = self._series(width)
        return np.concatenate([-k[:0:-1], k]), np.concatenate([0.5 * b[:0:-1], b[:1], 0.5 * b[1:]])
