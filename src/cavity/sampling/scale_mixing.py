"""Student-t and Laplace noise as scale mixtures of normals: what the samplers need of the mixing densities.

Each observation has a noise variance v of its own. In a coordinate e of about unit scale under its prior, whatever the
hyperparameters,

    Student-t:  v = nu s^2 / (2 g), g ~ Gamma(nu/2, 1):   log g = psi(nu/2) + sqrt(psi'(nu/2)) e,
    Laplace:    v = 2 s^2 g,        g ~ Exponential(1):   log g = e,

where psi is the digamma function (log g has mean psi and variance psi'). With a = nu/2, D = psi'(a), the log density of
e is a log g - g - log Gamma(a) + 1/2 log D for the first and e - exp(e) for the second. Given the residual r = y - f,

    Student-t:  g ~ Gamma((nu + 1) / 2) / (1 + r^2 / (nu s^2)),   v = nu s^2 / (2 g),
    Laplace:    v = w + s^2 z^2,   w ~ inverse Gaussian(mean s |r|, shape r^2),   z ~ N(0, 1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import digamma, gammaln, zeta

from cavity.likelihoods.laplace import Laplace
from cavity.likelihoods.student_t import StudentT
from cavity.numerics.arrays import Array
from cavity.numerics.special import LOG_2PI

MOST_DF = 1e12
"""Degrees of freedom beyond which rounding errors would rule: the density counts as zero there."""


class Mixing(NamedTuple):
    """Noise variances as functions of white coordinates e and of the P natural values of the likelihood.

    `log_variance` (n,), its derivatives `by_white` (n,) and `by_flat` (P, n); the log prior density of e, summed, and
    its derivatives `d_white` (n,) and `d_flat` (P,).
    """

    log_variance: Array
    by_white: Array
    by_flat: Array
    log_prior: float
    d_white: Array
    d_flat: Array


def student_t_mixing(likelihood: StudentT, e: Array) -> Mixing:
    """v = nu s^2 / (2 g) with log g = psi(a) + sqrt(psi'(a)) e, a = nu / 2.

    In terms of x = log(g / a), which is near zero for many degrees of freedom, where a log g - g - log Gamma(a) would
    be the difference of numbers of size a log a: that is -a (exp(x) - 1 - x) + (a log a - a - log Gamma(a)).
    """
    s, nu = float(likelihood.scale), float(likelihood.df)
    if nu > MOST_DF:
        raise ValueError(f"df must be at most {MOST_DF:g} to sample noise variances, got {nu!r}")
    a = 0.5 * nu
    D, d_D = float(zeta(2.0, a)), -2.0 * float(zeta(3.0, a))  # psi' and psi''
    root = np.sqrt(D)
    x = float(digamma(a)) - np.log(a) + root * e
    gap = -a * np.expm1(x)  # a - g
    d_log_g = D + 0.5 * d_D / root * e  # in a
    by_flat = np.stack([np.full(len(e), 2.0 / s), 1.0 / nu - 0.5 * d_log_g])
    log_prior = float(np.sum(gap + a * x) + len(e) * (0.5 * np.log(D) + _stirling(a)))
    d_a = float(np.sum(root * e + gap * d_log_g) + 0.5 * len(e) * d_D / D)
    return Mixing(
        2.0 * np.log(s) - x,
        np.full(len(e), -root),
        by_flat,
        log_prior,
        gap * root,
        np.array([0.0, 0.5 * d_a]),
    )


def _stirling(a: float) -> float:
    """a log a - a - log Gamma(a), by its series where the difference would cancel."""
    if a < 1e3:
        return float(a * np.log(a) - a - gammaln(a))
    return float(0.5 * np.log(a) - 0.5 * LOG_2PI - 1.0 / (12.0 * a))


def student_t_white(likelihood: StudentT, log_variance: Array) -> Array:
    """The inverse: e of log variances."""
    a = 0.5 * float(likelihood.df)
    log_g = np.log(a) + 2.0 * np.log(float(likelihood.scale)) - log_variance
    return np.asarray((log_g - digamma(a)) / np.sqrt(zeta(2.0, a)))


def student_t_given(likelihood: StudentT, residuals: Array, rng: np.random.Generator) -> Array:
    """Log variances (n,) drawn given the residuals."""
    s, nu = float(likelihood.scale), float(likelihood.df)
    with np.errstate(divide="ignore"):
        log_g = np.log(rng.standard_gamma(0.5 * (nu + 1.0), len(residuals)))
    log_g -= np.log1p((residuals / s) ** 2 / nu)
    return np.asarray(np.log(0.5 * nu) + 2.0 * np.log(s) - log_g)


def laplace_mixing(likelihood: Laplace, e: Array) -> Mixing:
    """v = 2 s^2 exp(e), exp(e) exponentially distributed."""
    s = float(likelihood.scale)
    g = np.exp(e)
    return Mixing(
        np.log(2.0) + 2.0 * np.log(s) + e,
        np.ones(len(e)),
        np.full((1, len(e)), 2.0 / s),
        float(np.sum(e - g)),
        1.0 - g,
        np.zeros(1),
    )


def laplace_white(likelihood: Laplace, log_variance: Array) -> Array:
    """The inverse: e of log variances."""
    return np.asarray(log_variance - np.log(2.0) - 2.0 * np.log(float(likelihood.scale)))


def laplace_given(likelihood: Laplace, residuals: Array, rng: np.random.Generator) -> Array:
    """Log variances (n,) drawn given the residuals."""
    s = float(likelihood.scale)
    # An inverse Gaussian of mean zero is not defined; one of this mean is nothing beside z^2.
    size = np.maximum(np.abs(residuals) / s, np.finfo(float).tiny ** 0.25)
    with np.errstate(divide="ignore"):
        return np.asarray(
            2.0 * np.log(s) + np.log(rng.wald(size, size**2) + rng.standard_normal(len(size)) ** 2)
        )


class ScaleMixing(NamedTuple):
    """A noise model as a scale mixture: variances of coordinates, the inverse, log variances given residuals."""

    mixing: Callable[[Any, Array], Mixing]
    white: Callable[[Any, Array], Array]
    given: Callable[[Any, Array, np.random.Generator], Array]


SCALE_MIXINGS: dict[type, ScaleMixing] = {
    StudentT: ScaleMixing(student_t_mixing, student_t_white, student_t_given),
    Laplace: ScaleMixing(laplace_mixing, laplace_white, laplace_given),
}
"""Noise model -> its mixing density."""
