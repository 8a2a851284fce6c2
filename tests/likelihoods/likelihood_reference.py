"""Truth for likelihood tests, independent of the library's own quadrature.

`tilted_reference` integrates on a dense, fixed set of Gauss-Legendre panels: geometric ladders, 8 per
decade over 17 decades, around the cavity mean, the likelihood's own center and the mode found by zooming.
No adaptivity, no closed forms; log densities come from scipy.stats.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special, stats

X, W = np.polynomial.legendre.leggauss(10)
OFFSETS = 10.0 ** np.linspace(-15, 2, 17 * 8 + 1)


@dataclass
class Truth:
    log_z: float  # of the normalized cavity
    mean: float
    var: float
    c3: float
    c4: float


def _ladder(center: float, scale: float) -> np.ndarray:
    return np.concatenate([center - OFFSETS * scale, [center], center + OFFSETS * scale])


def _zoom(g, points: np.ndarray) -> float:
    """The largest g on a grid, refined by ever finer grids around it."""
    points = np.unique(points)
    for _ in range(12):
        k = int(np.argmax(g(points)))
        low, high = points[max(k - 1, 0)], points[min(k + 1, len(points) - 1)]
        points = np.linspace(low, high, 41)
    return float(points[int(np.argmax(g(points)))])


def panels(edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    edges = np.unique(edges)
    half = 0.5 * np.diff(edges)
    nodes = (0.5 * (edges[1:] + edges[:-1]))[:, None] + half[:, None] * X
    return nodes.ravel(), (half[:, None] * W).ravel()


def tilted_reference(log_p, mean: float, var: float, centers=(), power: float = 1.0) -> Truth:
    """Moments of log_p(f)^power N(f | mean, var)."""
    sd = float(np.sqrt(var))

    def g_of(f: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            out = power * log_p(f) - 0.5 * ((f - mean) / sd) ** 2
        return np.where(np.isnan(out), -np.inf, out)

    starts = [mean, *centers]
    span = max([sd, *(abs(c - mean) for c in centers)])
    grid = np.concatenate([_ladder(c, span) for c in starts])
    mode = _zoom(g_of, grid)

    # offsets t from the mode; the cavity relative to its value there, so that nothing large is subtracted
    def g(t: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            out = power * log_p(mode + t) - t * (0.5 * t + (mode - mean)) / var
        return np.where(np.isnan(out), -np.inf, out)

    edges = np.concatenate([_ladder(c - mode, span) for c in [mode, *starts]])
    nodes, weights = panels(edges)
    values = g(nodes)
    top = values.max()
    w = weights * np.exp(values - top)
    z = w.sum()
    w = w / z
    m = float(w @ nodes)
    d = nodes - m
    log_z = np.log(z) + top - 0.5 * np.log(2 * np.pi * var) - 0.5 * (mode - mean) ** 2 / var
    return Truth(float(log_z), mode + m, float(w @ d**2), float(w @ d**3), float(w @ d**4))


def expectation(h, mean: float, var: float, centers=()) -> float:
    """E[h(f)] under N(mean, var), by dense panels over 12 standard deviations."""
    sd = float(np.sqrt(var))
    kinks = np.concatenate([_ladder((c - mean) / sd, 1.0) for c in centers]) if len(centers) else np.zeros(0)
    edges = np.concatenate([np.linspace(-12, 12, 97), kinks])
    x, w = panels(edges[np.abs(edges) <= 12])
    return float(np.sum(w * stats.norm.pdf(x) * h(mean + sd * x)))


# --- log densities written independently of the library: parameters -> y -> f -> log p ----------------------


def student_t(scale, df):
    return lambda y: lambda f: stats.t.logpdf(y - f, df, scale=scale)


def laplace(scale):
    return lambda y: lambda f: -np.abs(y - f) / scale - np.log(2 * scale)


def epsilon_insensitive(scale, epsilon):
    def of(y):
        def log_p(f):
            e = np.abs(y - f)
            return np.where(e < epsilon, 0.0, -(e - epsilon) / scale) - np.log(2 * scale + 2 * epsilon)

        return log_p

    return of


def gaussian(variance):
    return lambda y: lambda f: stats.norm.logpdf(y, f, np.sqrt(variance))


def mixture(parts, weights):
    def of(y):
        return lambda f: special.logsumexp([np.log(w) + p(y)(f) for w, p in zip(weights, parts)], axis=0)

    return of


def probit(y):
    return lambda f: stats.norm.logcdf(y * f)


def lapse(rate):
    return lambda y: lambda f: np.logaddexp(np.log(rate / 2), np.log(1 - rate) + stats.norm.logcdf(y * f))


def logit(y):
    return lambda f: np.minimum(y * f, 0.0) - np.log1p(np.exp(-np.abs(f)))


def heaviside(y):
    return lambda f: np.where(y * f >= 0, 0.0, -np.inf)


def poisson(y):
    return lambda f: y * f - np.exp(f) - special.gammaln(y + 1)


def negative_binomial(r):
    def of(y):
        const = special.gammaln(y + r) - special.gammaln(r) - special.gammaln(y + 1) + r * np.log(r)
        return lambda f: const + y * f - (y + r) * np.logaddexp(np.log(r), f)

    return of


def binomial(n):
    def of(y):
        return lambda f: np.log(special.comb(n, y)) - y * np.logaddexp(0, -f) - (n - y) * np.logaddexp(0, f)

    return of


def ordinal(thresholds):
    b = np.concatenate([[-np.inf], thresholds, [np.inf]])

    def of(y):
        def log_p(f):
            low, high = b[int(y)] - f, b[int(y) + 1] - f
            # mirror to the lower tail, where differences of distribution functions keep their digits
            flip = low > -high
            lo, hi = np.where(flip, -high, low), np.where(flip, -low, high)
            a, c = stats.norm.logcdf(hi), stats.norm.logcdf(lo)
            return a + np.log1p(-np.exp(c - a))

        return log_p

    return of
