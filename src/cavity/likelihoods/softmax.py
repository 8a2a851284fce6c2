"""Several classes 0..C-1 with one latent function each: p(y = c | f) = exp(f_c) / sum_k exp(f_k).

Averages over independent normal f_c are one-dimensional by Gumbel's trick: class c has the largest f_c +
G_c, G_c standard Gumbel noise, with probability exactly softmax_c(f), and the largest has mean log sum
exp(f) + Euler's constant. With F_c the distribution function of f_c + G_c and F_c' its density,

    E[softmax_c] = integral F_c'(x) prod_{k != c} F_k(x) dx,    E[log sum exp] = integral x d prod F_k(x) -
    gamma,

smooth integrands for which the trapezoid rule converges geometrically. Correlated f (as Laplace's method
gives them) are averaged over a fixed quasi-random point set instead.

Curvature (Rasmussen and Williams, 2006, section 3.5): W = D - pi pi', D = diag(pi).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_softmax, ndtr, ndtri, softmax

from cavity.likelihoods.base import ExpectedLogProb, LatentDerivatives, Power, Tilted
from cavity.likelihoods.class_labels import ClassLabels
from cavity.numerics.arrays import Array
from cavity.prediction import CategoricalPrediction

STEP = 0.28
"""Trapezoid step in x: a Gumbel density is analytic in a strip of half-width pi/2, error exp(-pi^2/step)."""

GAUSS_RANGE = 8.5
GUMBEL_RANGE = (-4.5, 40.0)
WIDE = 1.5
"""Standard deviation above which the convolution is done over the Gumbel rather than the normal variable."""

SOBOL_POINTS = 4096
"""Quasi-random points for correlated latent values: probabilities to about 1e-4."""


def gumbel_plus_normal(z: Array, sd: Array) -> tuple[Array, Array, Array]:
    """Distribution function, density and its slope of G + sd N(0, 1) at z (X, m), for sd (m,)."""
    out = np.empty((3, *z.shape))
    narrow = sd <= WIDE
    if narrow.any():
        t = np.arange(-GAUSS_RANGE, GAUSS_RANGE + 0.1, 0.2)
        weight = np.exp(-0.5 * t * t) * 0.2 / np.sqrt(2 * np.pi)
        with np.errstate(over="ignore", invalid="ignore"):
            e = np.exp(-(z[:, narrow, None] - sd[narrow, None] * t))
            F = np.exp(-e)
            density = np.where(F > 0, e * F, 0.0)
            slope = np.where(F > 0, density * (e - 1), 0.0)
        out[:, :, narrow] = F @ weight, density @ weight, slope @ weight
    if not narrow.all():
        wide = ~narrow
        top = max(GUMBEL_RANGE[1], float(np.max(z[:, wide], initial=0.0)) + 10.0)
        g = np.arange(GUMBEL_RANGE[0], top, STEP)
        weight = np.exp(-g - np.exp(-g)) * STEP
        s = sd[wide, None]
        u = (z[:, wide, None] - g) / s
        phi = np.exp(-0.5 * u * u) / (np.sqrt(2 * np.pi) * s)
        out[:, :, wide] = ndtr(u) @ weight, phi @ weight, (-u / s * phi) @ weight
    return out[0], out[1], out[2]


def _averages(mean: Array, var: Array) -> tuple[Array, Array, Array]:
    """E[softmax] (n, C), E[log sum exp] (n,) and E[softmax (1 - softmax)] (n, C) for independent f."""
    n, C = mean.shape
    probability, spread, log_sum = np.empty((n, C)), np.empty((n, C)), np.empty(n)
    sd = np.sqrt(var)
    low = np.max(mean - GAUSS_RANGE * sd, axis=1) - 5.0
    high = np.max(mean + GAUSS_RANGE * sd, axis=1) + 40.0
    step = STEP * np.maximum(1.0, 0.8 * sd.min(axis=1))
    counts = np.ceil((high - low) / step).astype(int) + 1
    order = np.argsort(counts)
    inner = 160  # nodes of the inner rule, for the size of a block
    start = 0
    while start < n:
        size = max(1, int(4e6 // (counts[order[min(start + 64, n) - 1]] * C * inner)))
        block = order[start : start + min(size, 64)]
        start += len(block)
        count = int(counts[block].max())
        h = (high[block] - low[block]) / (count - 1)
        x = low[block] + h * np.arange(count)[:, None]  # (X, m)
        z = (x[:, :, None] - mean[block]).reshape(count, -1)
        F, density, slope = (
            a.reshape(count, len(block), C) for a in gumbel_plus_normal(z, sd[block].ravel())
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            log_F = np.log(F)
            others = log_F.sum(axis=2, keepdims=True) - log_F
            others = np.exp(np.where(np.isfinite(log_F), others, -np.inf))
        wins = density * others
        probability[block] = wins.sum(axis=0) * h[:, None]
        log_sum[block] = (x * wins.sum(axis=2)).sum(axis=0) * h - np.euler_gamma
        spread[block] = -(slope * others).sum(axis=0) * h[:, None]
    return probability, log_sum, spread


class Softmax(ClassLabels):
    """Classes 0..C-1 with one latent function each.

    Parameters
    ----------
    n_classes : int
        C >= 2.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.likelihoods import Softmax
    >>> Softmax(3).probabilities(np.array([[0.0, 0.0, 1.0]])).round(3)
    array([[0.212, 0.212, 0.576]])
    """

    log_concave = True

    def __init__(self, n_classes: int) -> None:
        self._set_classes(n_classes)
        self._set_up({})

    def probabilities(self, f: Array) -> Array:
        """softmax(f), shape of f; pi in W = diag(pi) - pi pi'."""
        return np.asarray(softmax(f, axis=-1))

    def log_prob(self, y: Array, f: Array) -> Array:
        """log softmax at the label, for f (..., n, C)."""
        log_p = log_softmax(f, axis=-1)
        index = np.broadcast_to(np.asarray(y).astype(int), log_p.shape[:-1])
        return np.asarray(np.take_along_axis(log_p, index[..., None], axis=-1)[..., 0])

    def latent_derivatives(self, y: Array, f: Array) -> LatentDerivatives:
        """Gradient one_hot(y) - pi and Hessian -(diag(pi) - pi pi')."""
        pi = self.probabilities(f)
        hessian = pi[:, :, None] * pi[:, None, :]
        diagonal = np.arange(self.n_latent)
        hessian[:, diagonal, diagonal] -= pi
        return LatentDerivatives(self.log_prob(y, f), self.one_hot(y) - pi, hessian)

    def curvature_gradient(self, y: Array, f: Array, S: Array) -> Array:
        """d/df of tr(S (diag(pi) - pi pi'))."""
        pi = self.probabilities(f)
        diagonal = np.diagonal(S, axis1=1, axis2=2)
        Spi = np.einsum("nij,nj->ni", S, pi)
        g = diagonal - 2 * Spi  # derivative with respect to pi, then through the softmax
        return np.asarray(pi * (g - (pi * g).sum(axis=1, keepdims=True)))

    def tilted(self, y: Array, shift: Array, precision: Array, power: Power = 1.0, order: int = 2) -> Tilted:
        """Not available: a C-dimensional integral."""
        raise ValueError(
            "Softmax has no tilted moments (a C-dimensional integral each): use Laplace or variational "
            "inference, or one-vs-rest Probit classifiers with EP"
        )

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> ExpectedLogProb:
        """E[f_y] - E[log sum exp f] for independent f_c ~ N(mean_c, var_c); mean and var are (n, C)."""
        mean, var = np.broadcast_arrays(np.asarray(mean, dtype=float), np.asarray(var, dtype=float))
        p, log_sum, spread = _averages(mean, var)
        hot = self.one_hot(y)
        value = (hot * mean).sum(axis=1) - log_sum
        return ExpectedLogProb(value, hot - p, -0.5 * spread, np.zeros((0, len(value))))

    def predictive(self, mean: ArrayLike, var: ArrayLike) -> CategoricalPrediction:
        """Class probabilities for f ~ N(mean, var).

        `mean` is (n, C); `var` is (n, C) for independent latent values (accurate to rounding) or (n, C, C)
        for a covariance (quasi-random average, about 1e-4).
        """
        m: Array = np.asarray(mean, dtype=float)
        v: Array = np.asarray(var, dtype=float)
        p = self._correlated(m, v) if v.ndim == 3 else _averages(m, np.broadcast_to(v, m.shape))[0]
        return CategoricalPrediction(p / p.sum(axis=1, keepdims=True), np.arange(self.n_latent))

    def _correlated(self, mean: Array, cov: Array) -> Array:
        values, vectors = np.linalg.eigh(cov)
        root = vectors * np.sqrt(np.clip(values, 0.0, None))[:, None, :]
        points = _normal_points(self.n_latent)
        out = np.empty_like(mean)
        for i in range(0, len(mean), 64):
            f = mean[i : i + 64] + np.einsum("nij,sj->sni", root[i : i + 64], points)
            out[i : i + 64] = self.probabilities(f).mean(axis=0)
        return out

    def sample(self, f: ArrayLike, rng: np.random.Generator) -> Array:
        """Labels by Gumbel's trick; f is (..., n, C)."""
        f = np.asarray(f, dtype=float)
        return np.asarray(np.argmax(f + rng.gumbel(size=f.shape), axis=-1).astype(float))

    def _arguments(self) -> list[str]:
        return [repr(self.n_latent)]


def _normal_points(dim: int) -> Array:
    """A fixed quasi-random normal point set (S, dim), symmetric about zero."""
    from scipy.stats import qmc

    u: Any = qmc.Sobol(dim, seed=0).random(SOBOL_POINTS // 2)
    z = ndtri(np.clip(u, 1e-12, 1 - 1e-12))
    return np.concatenate([z, -z])
