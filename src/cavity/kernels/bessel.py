"""The Matern function of any order, in the log domain (Rasmussen and Williams, 2006, eq. 4.14).

    M_nu(t) = 2^(1 - nu) / Gamma(nu) * t^nu K_nu(t),     t = sqrt(2 nu) r,     M_nu(0) = 1.

For orders up to `DEBYE_ORDER` the scaled Bessel function `kve` serves; if it overflows (t tiny, order
above one) the first terms of the power series are exact to round-off. For larger orders K_nu is replaced by
its uniform asymptotic expansion (Debye; Abramowitz and Stegun 9.7.8). With z = t / nu, s = sqrt(1 + z^2) and
w = s - 1,

    log M_nu = nu [log(1 + w/2) - w] - log(1 + w)/2 + log D(1/s) - log D(1)
    D(p) = sum_k (-1)^k u_k(p) / nu^k

in which everything large has canceled by hand: Stirling's series for Gamma(nu) is D(1), and nu -> infinity
gives -r^2 / 2 without loss of digits.
"""

from __future__ import annotations

from functools import cache
from typing import cast

import numpy as np
from numpy.polynomial import Polynomial

from cavity.numerics.arrays import Array

DEBYE_ORDER = 40.0
"""From this order on the asymptotic expansion, with `DEBYE_TERMS` terms, is exact to about 1e-15."""

DEBYE_TERMS = 9

FARTHEST = 1e9
"""SciPy's Bessel functions end a little beyond it; there K_nu(t) exp(t) is sqrt(pi / 2t) to 1e-6 for any small order,
beside an exponential that is zero."""

ORDER_STEP = 5e-3
"""Relative step for the derivative in the order: a five-point rule then has error about 1e-10."""


@cache
def _debye_polynomials() -> tuple[Polynomial, ...]:
    """u_0, u_1, ...: u_{k+1} = p^2 (1 - p^2) u_k' / 2 + (1/8) integral_0^p (1 - 5 t^2) u_k(t) dt."""
    u = [Polynomial([1.0])]
    for _ in range(DEBYE_TERMS):
        last = u[-1]
        u.append(
            Polynomial([0, 0, 0.5, 0, -0.5]) * last.deriv() + (Polynomial([1, 0, -5]) * last).integ() / 8
        )
    return tuple(u)


def _log_debye_sum(nu: float, p: Array) -> Array:
    combined = sum((u * (-1 / nu) ** k for k, u in enumerate(_debye_polynomials())), Polynomial([0.0]))
    return cast(Array, np.log(combined(p)))


def _log_large(nu: float, t: Array) -> Array:
    z2 = (t / nu) ** 2
    s = np.sqrt(1.0 + z2)
    w = z2 / (1.0 + s)
    at_zero = _log_debye_sum(nu, np.ones(1))
    return nu * (np.log1p(0.5 * w) - w) - 0.5 * np.log1p(w) + _log_debye_sum(nu, 1.0 / s) - at_zero


def _scaled_bessel(nu: float, t: Array) -> Array:
    """K_nu(t) exp(t) for t > 0, infinite if it overflows."""
    from scipy.special import kve

    return cast(Array, np.where(t > FARTHEST, np.sqrt(0.5 * np.pi / t), kve(nu, t)))


def _log_bessel(nu: float, t: Array) -> Array:
    from scipy.special import gammaln

    positive = t > 0
    safe = np.where(positive, t, 1.0)
    scaled = _scaled_bessel(nu, safe)
    usable = positive & np.isfinite(scaled)
    scaled = np.where(usable & (scaled > 0), scaled, 1.0)
    value = (1.0 - nu) * np.log(2.0) - gammaln(nu) + nu * np.log(safe) + np.log(scaled) - safe
    # kve overflows only for nu > 1 and t so small that the next term of the series is below round-off
    series = np.log1p(-0.25 * np.minimum(t, 1e-2) ** 2 / (nu - 1.0)) if nu > 1.0 else np.zeros_like(t)
    return cast(Array, np.where(usable, value, series))


def log_matern(nu: float, t: Array) -> Array:
    """log M_nu(t) for t >= 0, element by element."""
    value = _log_large(nu, t) if nu >= DEBYE_ORDER else _log_bessel(nu, t)
    return np.minimum(value, 0.0, out=value)  # M_nu <= 1: above it only by round-off


def log_matern_slope(nu: float, t: Array) -> Array:
    """log of -dM_nu/dr2 with r2 = t^2 / (2 nu); -inf if t = 0 and the slope is infinite.

    From d/dt [t^nu K_nu] = -t^nu K_{nu-1}: dM_nu/dr2 = -nu 2^(1-nu) / Gamma(nu) t^(nu-1) K_{nu-1}(t), and
    if nu > 1 this is -nu / (2 (nu - 1)) M_{nu-1}(t).
    """
    from scipy.special import gammaln

    if nu > 1.0:
        return cast(Array, np.log(0.5 * nu / (nu - 1.0)) + log_matern(nu - 1.0, t))
    positive = t > 0
    safe = np.where(positive, t, 1.0)
    scaled = _scaled_bessel(1.0 - nu, safe)
    value = np.log(nu) + (1.0 - nu) * np.log(2.0) - gammaln(nu) + (nu - 1.0) * np.log(safe) - safe
    return cast(Array, np.where(positive, value + np.log(np.where(scaled > 0, scaled, 1.0)), -np.inf))


def order_derivative(nu: float, r: Array) -> Array:
    """d/d nu of log M_nu(sqrt(2 nu) r) at fixed r, by a symmetric five-point rule.

    There is no closed form. The function is smooth in log nu, so the step is relative; the truncation error
    is of fourth order and the round-off error about 1e-15 / step, together around 1e-11.
    """
    h = ORDER_STEP * nu

    def value(order: float) -> Array:
        return log_matern(order, np.sqrt(2.0 * order) * r)

    outer = value(nu + 2 * h) - value(nu - 2 * h)
    inner = value(nu + h) - value(nu - h)
    return (8.0 * inner - outer) / (12.0 * h)
