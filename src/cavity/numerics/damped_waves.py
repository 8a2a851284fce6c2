# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call"
"""Solutions of f'' + 2 zeta f' + f = 0, a damped oscillation of any damping ratio zeta > 0, without cancellation.

With eta^2 = 1 - zeta^2, which may be negative,

    c = exp(-zeta x) cos(eta x),   s = exp(-zeta x) sin(eta x) / eta,   d = (s - x c) / eta^2.

At zeta = 1 they are (1, x, x^3 / 3) exp(-x). The response to a unit displacement is c + zeta s; its slope in x is -s,
that in zeta is d.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cavity.numerics.arrays import Array
from cavity.numerics.compiled_helpers import helper

SERIES = 0.25
"""Value of |eta x|^2 below which s and d are power series."""

TERMS = 8
"""Terms of those series: the next is below 1e-17 of the first."""


@helper()
def damped_waves(x, zeta):
    """(c, s, d) at x >= 0."""
    eta2 = (1.0 - zeta) * (1.0 + zeta)
    u = eta2 * x * x
    if abs(u) < SERIES:
        decay = np.exp(-zeta * x)
        cosine, sine, third = 0.0, 0.0, 0.0
        term = 1.0  # (-u)^k / (2 k)!
        for k in range(TERMS):
            cosine += term
            sine += term / (2 * k + 1)
            term *= -u / ((2 * k + 1) * (2 * k + 2))
        term = 1.0 / 3.0  # (-u)^(k - 1) 2 k / (2 k + 1)!
        for k in range(1, TERMS):
            third += term
            term *= -u / (2 * k * (2 * k + 3))
        return decay * cosine, decay * x * sine, decay * x**3 * third
    if eta2 > 0.0:
        eta = np.sqrt(eta2)
        decay = np.exp(-zeta * x)
        c, s = decay * np.cos(eta * x), decay * np.sin(eta * x) / eta
    else:
        eta = np.sqrt(-eta2)
        slow, fast = np.exp(-x / (zeta + eta)), np.exp(-(zeta + eta) * x)
        c, s = 0.5 * (slow + fast), 0.5 * (slow - fast) / eta
    return c, s, (s - x * c) / eta2


@njit(cache=True, nogil=True, error_model="numpy")
def _fill(x, zeta, c, s, d):
    for i in range(len(x)):
        c[i], s[i], d[i] = damped_waves(x[i], zeta)


def damped_waves_of(x: Array, zeta: float) -> tuple[Array, Array, Array]:
    """(c, s, d) at every entry of an array, each of its shape."""
    c, s, d = np.empty((3, x.size))
    _fill(np.ascontiguousarray(x).ravel(), zeta, c, s, d)
    return c.reshape(x.shape), s.reshape(x.shape), d.reshape(x.shape)
