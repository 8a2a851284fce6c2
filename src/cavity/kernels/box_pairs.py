"""Averages of exp(-u^2 / 2) over two boxes, for all pairs of rows: compiled, with derivatives (see `box_averages`)."""

from __future__ import annotations

from math import erf, exp, sqrt

import numpy as np
from numba import njit

from cavity.numerics.arrays import Array

SMALL = 0.3
"""Half width, in length scales, below which averages are by a Gauss rule."""

FAR = 39.0
"""Distance of two boxes, in length scales, from which on their covariance is below the smallest number."""

_x, _w = np.polynomial.legendre.leggauss(7)
NODES, WEIGHTS = _x, _w / 2.0
HALF_PI_ROOT, ROOT_HALF = sqrt(np.pi / 2.0), sqrt(0.5)


@njit(cache=True, nogil=True)
def _twice(u: float) -> float:
    """g(u), whose second derivative is exp(-u^2 / 2)."""
    return HALF_PI_ROOT * u * erf(u * ROOT_HALF) + exp(-0.5 * u * u)


@njit(cache=True, nogil=True)
def _once(d: float, h: float) -> float:
    """Average of exp(-u^2 / 2) over u within h of d."""
    if h == 0.0:
        return exp(-0.5 * d * d)
    if h < SMALL:
        total = 0.0
        for x, w in zip(NODES, WEIGHTS):
            u = d + h * x
            total += w * exp(-0.5 * u * u)
        return total
    return HALF_PI_ROOT * (erf((d + h) * ROOT_HALF) - erf((d - h) * ROOT_HALF)) / (2.0 * h)


@njit(cache=True, nogil=True)
def _once_slope(d: float, h: float) -> float:
    """Its derivative in d."""
    if h == 0.0:
        return -d * exp(-0.5 * d * d)
    if h < SMALL:
        total = 0.0
        for x, w in zip(NODES, WEIGHTS):
            u = d + h * x
            total -= w * u * exp(-0.5 * u * u)
        return total
    return (exp(-0.5 * (d + h) ** 2) - exp(-0.5 * (d - h) ** 2)) / (2.0 * h)


@njit(cache=True, nogil=True)
def pair(d: float, one: float, other: float) -> float:
    """Average of exp(-u^2 / 2) over two boxes of these half widths, d apart."""
    s, t = min(one, other), max(one, other)
    if abs(d) > s + t + FAR:
        return 0.0
    if s == 0.0:
        return _once(d, t)
    if s < SMALL:
        total = 0.0
        for x, w in zip(NODES, WEIGHTS):
            total += w * _once(d + s * x, t)
        return total
    return (_twice(d + s + t) - _twice(d + s - t) - _twice(d - s + t) + _twice(d - s - t)) / (4.0 * s * t)


@njit(cache=True, nogil=True)
def _in_width(d: float, h: float, other: float, value: float) -> float:
    """Derivative of `pair` in one of the half widths."""
    if h == 0.0:
        return 0.0
    if h < SMALL:
        total = 0.0
        for x, w in zip(NODES, WEIGHTS):
            total += w * x * _once_slope(d + h * x, other)
        return total
    return (0.5 * (_once(d + h, other) + _once(d - h, other)) - value) / h


@njit(cache=True, nogil=True)
def slopes_of_pair(d: float, one: float, other: float) -> tuple[float, float, float, float]:
    """`pair`, and its derivatives in d and in the half widths."""
    value = pair(d, one, other)
    s, t = min(one, other), max(one, other)
    if abs(d) > s + t + FAR:
        return 0.0, 0.0, 0.0, 0.0
    if s == 0.0:
        apart = _once_slope(d, t)
    elif s < SMALL:
        apart = 0.0
        for x, w in zip(NODES, WEIGHTS):
            apart += w * _once_slope(d + s * x, t)
    else:
        apart = (_once(d + s, t) - _once(d - s, t)) / (2.0 * s)
    return value, apart, _in_width(d, one, other, value), _in_width(d, other, one, value)


@njit(cache=True, nogil=True)
def covariances(x: Array, h: Array, y: Array, k: Array) -> Array:
    """Of all pairs of boxes, in units of the length scales: centres x (n, D), half widths h, and y, k."""
    out = np.ones((len(x), len(y)))
    for i in range(len(x)):
        for j in range(len(y)):
            for c in range(x.shape[1]):
                out[i, j] *= pair(x[i, c] - y[j, c], h[i, c], k[j, c])
    return out


@njit(cache=True, nogil=True)
def pulled(x: Array, h: Array, y: Array, k: Array, G: Array) -> tuple[Array, Array, Array, Array, Array]:
    """Derivatives of sum G * covariances in x, h, y, k, and of each column in the logarithm of its length scale."""
    D = x.shape[1]
    dx, dh, dy, dk, dl = (
        np.zeros(x.shape),
        np.zeros(x.shape),
        np.zeros(y.shape),
        np.zeros(y.shape),
        np.zeros(D),
    )
    parts = np.empty((D, 4))
    for i in range(len(x)):
        for j in range(len(y)):
            for c in range(D):
                parts[c] = slopes_of_pair(x[i, c] - y[j, c], h[i, c], k[j, c])
            for c in range(D):
                others = G[i, j]
                for e in range(D):
                    if e != c:
                        others *= parts[e, 0]
                apart, one, other = others * parts[c, 1], others * parts[c, 2], others * parts[c, 3]
                dx[i, c] += apart
                dy[j, c] -= apart
                dh[i, c] += one
                dk[j, c] += other
                dl[c] -= (x[i, c] - y[j, c]) * apart + h[i, c] * one + k[j, c] * other
    return dx, dh, dy, dk, dl
