"""Spectral densities of stationary kernels, and what follows from them: smoothness, crossings of a level.

    k(tau) = int S(s) exp(2 pi i s'tau) ds          (Bochner; Rasmussen and Williams, 2006, eq. 4.5)

Isotropic kernels in D dimensions; s is the length of the frequency vector, in cycles per unit.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, kv

from cavity.kernels import (
    SE,
    Constant,
    Cosine,
    GammaExponential,
    IntegratedWiener,
    Kernel,
    Linear,
    Matern,
    NeuralNetwork,
    Normalized,
    Periodic,
    PiecewisePolynomial,
    Polynomial,
    RationalQuadratic,
    Wiener,
)
from cavity.kernels.algebra import On, Power, Product, Scaled, Sum
from cavity.kernels.white_noise import White
from cavity.numerics.arrays import Array
from cavity.runtime.errors import InputError


class NoSpectralDensityError(InputError):
    """A kernel for which no spectral density is known here."""


def _scale(kernel: Kernel) -> float:
    length = np.asarray(getattr(kernel, "lengthscale", np.nan), dtype=float)
    if length.size != 1 or not np.isfinite(length).all():
        raise NoSpectralDensityError(
            f"needs a kernel with one length scale, got {kernel!r}", parameter="kernel", value=kernel
        )
    return float(length.ravel()[0])


def spectral_density(kernel: Kernel, frequency: ArrayLike, dim: int = 1) -> Array:
    """S at frequencies s >= 0, for isotropic kernels of `dim` inputs.

    Squared exponential, Matern of any order, rational quadratic, their sums and multiples. White noise and
    constants have none: the one is flat for ever, the other a spike at zero.

    Examples
    --------
    >>> from cavity.kernels import SE
    >>> from cavity.theory import spectral_density
    >>> spectral_density(2.0 * SE(1.0), [0.0, 0.1]).round(4)
    array([5.0133, 4.1152])
    """
    s: Array = np.asarray(frequency, dtype=float)
    if isinstance(kernel, Scaled):
        return np.asarray(float(kernel.variance) * spectral_density(kernel.kernel, s, dim))
    if isinstance(kernel, Sum):
        return np.asarray(sum(spectral_density(term, s, dim) for term in kernel.terms))
    if isinstance(kernel, SE):
        length = _scale(kernel)
        return np.asarray((2 * np.pi * length**2) ** (dim / 2) * np.exp(-2 * (np.pi * length * s) ** 2))
    if isinstance(kernel, Matern):
        length, nu = _scale(kernel), float(kernel.nu)
        a = 2 * nu / length**2
        log_c = (
            dim * np.log(2) + 0.5 * dim * np.log(np.pi) + gammaln(nu + dim / 2) - gammaln(nu) + nu * np.log(a)
        )
        return np.asarray(np.exp(log_c - (nu + dim / 2) * np.log(a + 4 * np.pi**2 * s**2)))
    if isinstance(kernel, RationalQuadratic):
        return _rational_quadratic(_scale(kernel), float(kernel.alpha), s, dim)
    reason = (
        "a constant is a spike at zero" if isinstance(kernel, Constant) else f"for {kernel!r} none is known"
    )
    if isinstance(kernel, White):
        reason = "white noise is flat for ever"
    raise NoSpectralDensityError(
        f"has no spectral density here: {reason}",
        parameter="kernel",
        value=kernel,
        remedy="use SE, Matern, RationalQuadratic, their sums and multiples",
    )


def _rational_quadratic(length: float, alpha: float, s: Array, dim: int) -> Array:
    """(1 + r^2 / (2 alpha l^2))^-alpha in frequencies: a Matern covariance with the two variables exchanged."""
    c2 = 2 * alpha * length**2
    order = alpha - dim / 2
    z = 2 * np.pi * s * np.sqrt(c2)
    log_front = (dim / 2) * np.log(np.pi * c2) - gammaln(alpha) + np.log(2.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        inner = np.exp(log_front + order * np.log(z / 2)) * kv(order, z)
    at_zero = (
        np.exp((dim / 2) * np.log(np.pi * c2) + gammaln(order) - gammaln(alpha)) if order > 0 else np.inf
    )
    return np.where(z == 0, at_zero, inner)


def derivatives(kernel: Kernel) -> float:
    """How many mean-square derivatives the process has; inf for all of them, 0 if it is only continuous.

    Examples
    --------
    >>> from cavity.kernels import SE, Matern
    >>> from cavity.theory import derivatives
    >>> derivatives(SE(1.0)), derivatives(1.0 * Matern(1.0, 2.5)), derivatives(SE(1.0) + Matern(1.0, 0.5))
    (inf, 2.0, 0.0)
    """
    if isinstance(kernel, Scaled | Power | On | Normalized):
        return derivatives(kernel.kernel)
    if isinstance(kernel, Sum | Product):
        return min(derivatives(cast(Kernel, part)) for part in kernel.parts)
    if isinstance(kernel, SE | RationalQuadratic | Constant | Linear | Polynomial | NeuralNetwork | Cosine):
        return float("inf")
    if isinstance(kernel, Periodic):  # of a smooth function of the angle
        return derivatives(kernel.kernel)
    if isinstance(kernel, Matern):
        return float(np.ceil(float(kernel.nu)) - 1)
    if isinstance(kernel, GammaExponential):
        return float("inf") if kernel.gamma == 2 else 0.0
    if isinstance(kernel, PiecewisePolynomial):
        return float(kernel.q)
    if isinstance(kernel, IntegratedWiener):
        return float(kernel.order)
    if isinstance(kernel, Wiener):
        return 0.0
    raise InputError(
        f"is not one whose smoothness is known here: {kernel!r}",
        parameter="kernel",
        value=kernel,
        remedy="use SE, RationalQuadratic, Matern, Periodic or Wiener, their sums and products",
    )


def upcrossings(kernel: Kernel, level: float = 0.0) -> float:
    """Expected number of times that a process of one input, with mean zero, rises through a level, per unit.

    (1 / 2 pi) sqrt(-k''(0) / k(0)) exp(-level^2 / 2 k(0)) (Rice; Rasmussen and Williams, 2006, eq. 4.3). A process
    without a derivative crosses infinitely often.

    Examples
    --------
    >>> from cavity.kernels import SE
    >>> from cavity.theory import upcrossings
    >>> round(upcrossings(SE(0.5)), 6)  # 1 / (2 pi l)
    0.31831
    """
    if derivatives(kernel) < 1:
        return float("inf")
    variance = float(kernel(np.zeros((1, 1)))[0, 0])
    return float(np.sqrt(_curvature(kernel) / variance) / (2 * np.pi) * np.exp(-0.5 * level**2 / variance))


def _curvature(kernel: Kernel) -> float:
    """-k''(0)."""
    if isinstance(kernel, Scaled):
        return float(kernel.variance) * _curvature(kernel.kernel)
    if isinstance(kernel, Sum):
        return sum(_curvature(term) for term in kernel.terms)
    if isinstance(kernel, Constant):
        return 0.0
    inverse = _scale(kernel) ** -2.0
    if isinstance(kernel, Matern):
        nu = float(kernel.nu)
        return float(inverse * nu / (nu - 1.0))
    return float(inverse)
