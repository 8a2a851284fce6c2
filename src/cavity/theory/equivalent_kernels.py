"""The equivalent kernel: how a Gaussian process smooths many observations of a function, spread evenly.

With rho observations of noise variance v per unit length, the posterior mean of a stationary process is a weighted
average of the targets, m(x) = int h(x - x') y(x') dx', and in frequencies (Rasmussen and Williams, 2006, eq. 7.9)

    h~(s) = S(s) / (S(s) + v / rho).

Multiplied by the spacing 1 / rho it is the weight that a prediction gives to an observation at that distance. A Wiener
process integrated m - 1 times, the spline of order m, has S(s) = c (2 pi s)^-2m, infinite at zero, which h~ does not
mind: smoothing leaves polynomials as they are (for m = 2 there is a closed form, Silverman, 1984).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import quad

from cavity.kernels import SE, IntegratedWiener, Kernel, Wiener
from cavity.kernels.algebra import Scaled, Sum
from cavity.numerics.arrays import Array
from cavity.runtime.checks import require_positive
from cavity.runtime.errors import InputError
from cavity.theory.spectral import spectral_density


def equivalent_kernel(kernel: Kernel, noise_variance: float, density: float, distance: ArrayLike) -> Array:
    """h at distances, for a stationary kernel of one input.

    Parameters
    ----------
    kernel : Kernel
        One with a `spectral_density`, a (integrated) Wiener process, or a sum of such.
    noise_variance : float
    density : float
        Observations per unit length; locally n p(x).
    distance : array

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.kernels import Matern
    >>> from cavity.theory import equivalent_kernel
    >>> found = equivalent_kernel(Matern(1 / 5, 0.5), 0.5, 402.0, [0.0])  # Ornstein-Uhlenbeck: closed form
    >>> v = 0.5 / 402
    >>> beta = np.sqrt(25 + 10 / v)
    >>> bool(np.isclose(found[0], 5 / (v * beta)))
    True
    """
    v = _noise_share(noise_variance, density)
    r = np.abs(np.atleast_1d(np.asarray(distance, dtype=float)))

    def transfer(s: float) -> float:
        S = _density(kernel, s)
        return 1.0 / (1.0 + v / S) if S > 0 else 0.0

    edge = _edge(transfer)
    out = np.empty(len(r))
    for i, one in enumerate(r):
        if one == 0.0:
            out[i] = 2.0 * (
                quad(transfer, 0, edge, limit=400, epsabs=0, epsrel=1e-12)[0]
                + quad(transfer, edge, np.inf)[0]
            )
        else:
            near = quad(
                transfer, 0, edge, weight="cos", wvar=2 * np.pi * one, limit=400, epsabs=1e-10, epsrel=1e-10
            )[0]
            far = quad(transfer, edge, np.inf, weight="cos", wvar=2 * np.pi * one, limlst=200)[0]
            out[i] = 2.0 * (near + far)
    return out


def _density(kernel: Kernel, s: float) -> float:
    """S(s), also of processes that are stationary only in their increments."""
    if isinstance(kernel, Scaled):
        return float(kernel.variance) * _density(kernel.kernel, s)
    if isinstance(kernel, Sum):
        return sum(_density(term, s) for term in kernel.terms)
    if isinstance(kernel, Wiener):
        integrals = kernel.order if isinstance(kernel, IntegratedWiener) else 0
        return float((2.0 * np.pi * s) ** (-2 * (integrals + 1))) if s > 0 else np.inf
    return float(spectral_density(kernel, s))


def _edge(transfer: Callable[[float], float]) -> float:
    """Where the transfer function has fallen to one half: to its left it is nearly flat, to its right a tail."""
    s = 1.0
    while transfer(s) > 0.5 and s < 1e12:
        s *= 2.0
    while transfer(s) < 0.25 and s > 1e-12:
        s *= 0.5
    return 2.0 * s


def _noise_share(noise_variance: float, density: float) -> float:
    for name, value in (("noise_variance", noise_variance), ("density", density)):
        require_positive(value, name)
    return noise_variance / density


def step_approximation(kernel: Kernel, noise_variance: float, density: float, distance: ArrayLike) -> Array:
    """The squared exponential's equivalent kernel with a transfer function that is one up to a frequency and then zero.

    2 s_c sinc(2 s_c r), s_c^2 = log(1/b) / (2 pi^2 l^2), b = v / (rho S(0)) (Rasmussen and Williams, 2006, eq. 7.12).

    Examples
    --------
    >>> from cavity.kernels import SE
    >>> from cavity.theory import step_approximation
    >>> step_approximation(SE(0.004**0.5), 0.1, 250.0, [0.0]).round(2)
    array([17.41])
    """
    plain = kernel.kernel if isinstance(kernel, Scaled) else kernel
    if not isinstance(plain, SE):
        raise InputError(f"must be a squared exponential, got {kernel!r}", parameter="kernel", value=kernel)
    b = _noise_share(noise_variance, density) / float(spectral_density(kernel, 0.0))
    if not b < 1:
        raise InputError(
            f"is so sparse ({density!r}) that the noise outweighs every frequency",
            parameter="density",
            value=density,
        )
    length = float(np.asarray(plain.lengthscale).ravel()[0])
    cut = np.sqrt(np.log(1 / b) / (2 * np.pi**2 * length**2))
    return np.asarray(2 * cut * np.sinc(2 * cut * np.asarray(distance, dtype=float)))
