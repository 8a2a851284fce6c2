"""Slopes of stationary kernels: the jet of a squared distance, and functions of it.

With z = x / lengthscale, v = u / lengthscale and d = z - z', the jet of r2 = |d|^2 is

    left = 2 v . d,    right = -2 v' . d,    both = -2 v . v'

so that k = g(r2) has K_left = 2 g' v.d and K_both = -4 g'' (v.d)(v'.d) - 2 g' v.v': three matrix products a tile,
whatever the number of columns. Rasmussen and Williams (2006), section 9.4.
"""

from __future__ import annotations

from functools import singledispatch
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import gamma, k0

from cavity.kernels.base import Kernel, Rows
from cavity.kernels.bessel import log_matern
from cavity.kernels.distances import Metric, center_of, drifts, squared_distances
from cavity.kernels.jets.base import Back, Jets, Pairing, WithoutSlopes, jets_of
from cavity.kernels.jets.numbers import Jet, Node, apply, parameter
from cavity.kernels.matern import Matern
from cavity.kernels.piecewise_polynomial import PiecewisePolynomial
from cavity.kernels.rational_quadratic import RationalQuadratic
from cavity.kernels.squared_exponential import SE
from cavity.kernels.stationary import Stationary, over
from cavity.numerics.arrays import Array
from cavity.numerics.compiled import kernel_exp


class Radial(Jets):
    """Slopes of k = g(r2)."""

    kernel: Stationary

    def prepare(self, X: Array, U: Array, ids: NDArray[np.intp]) -> Rows:
        """Scaled inputs and directions."""
        k = self.kernel
        v = U / k.lengthscale
        if "loadings" in k._params:
            v = np.hstack([v, U @ k.loadings])
        return k._prepare(X, ids), np.ascontiguousarray(v), X, U

    def node(self, a: Rows, b: Rows, pairing: Pairing, flat: Array | None, back: Back | None) -> Node:
        """g of the squared distance."""
        k, size = self.kernel, np.size(self.kernel.lengthscale)
        center = center_of(b[0][0])
        za, zb = a[0][0] - center, b[0][0] - center
        va, vb = a[1], b[1]
        if pairing.paired:
            r2, near = np.zeros(len(za)), None
        else:
            r2, near = squared_distances(cast(Metric, a[0]), cast(Metric, b[0]), k._kink)
        # exp(-r2 / 2) is its own derivative in -r2 / 2: factors go to the rows, which are small
        scale = -0.5 if isinstance(k, SE) else 1.0
        left = right = both = None
        if pairing.left:
            u = (2.0 * scale) * va
            left = pairing.dot(-u, zb)
            left += pairing.column(np.einsum("ij,ij->i", u, za))
        if pairing.right:
            u = (2.0 * scale) * vb
            right = pairing.dot(-za, u)
            right += np.einsum("ij,ij->i", u, zb)
        if pairing.left and pairing.right:
            both = pairing.dot((-2.0 * scale) * va, vb)

        def sink(H: Jet) -> None:
            dza, dzb, dva, dvb = np.zeros_like(za), np.zeros_like(zb), np.zeros_like(va), np.zeros_like(vb)
            if H.value is not None and not pairing.paired:
                dza, dzb = (2.0 * part for part in drifts(za, zb, H.value.copy(), near))
            if H.left is not None:
                moved = 2.0 * pairing.of_left(H.left)[:, None]
                dza += moved * va
                dzb -= 2.0 * pairing.towards_right(H.left, va)
                dva += moved * za - 2.0 * pairing.towards_left(H.left, zb)
            if H.right is not None:
                moved = 2.0 * pairing.of_right(H.right)[:, None]
                dza -= 2.0 * pairing.towards_left(H.right, vb)
                dzb += moved * vb
                dvb += moved * zb - 2.0 * pairing.towards_right(H.right, za)
            if H.both is not None:
                dva -= 2.0 * pairing.towards_left(H.both, vb)
                dvb -= 2.0 * pairing.towards_right(H.both, va)
            for part in (dza, dzb, dva, dvb):
                part *= scale
            sides = ((za, va, dza, dva, a), (zb, vb, dzb, dvb, b))
            D = k._dims(a[0])
            if flat is not None:
                for z, v, dz, dv, rows in sides:
                    each = np.einsum("ij,ij->j", z[:, :D], dz[:, :D]) + np.einsum(
                        "ij,ij->j", v[:, :D], dv[:, :D]
                    )
                    each = -each / k.lengthscale
                    flat[:size] += each if size == D else each.sum()
                    if z.shape[1] > D:
                        x = z[:, :D] * k.lengthscale  # centered
                        flat[size : size + k.loadings.size] += (
                            x.T @ dz[:, D:] + rows[3].T @ dv[:, D:]
                        ).ravel()
            if back is not None:
                back(*(k._to_inputs(d) for d in (dza, dva, dzb, dvb)))

        distance = Node(Jet(r2, left, right, both), sink=sink)
        radial = radial_function(k, r2, k._dims(a[0]))
        if isinstance(k, RationalQuadratic) and flat is not None:
            index = k.flat.size - 1
            return apply(
                radial, distance, (parameter(k.alpha, flat, index), _alpha_slopes(k.alpha, r2, radial))
            )
        return apply(radial, distance)


@singledispatch
def radial_function(kernel: Kernel, r2: Array, dims: int) -> tuple[Array, ...]:
    """g and its first three derivatives in r2, zero at r2 = 0 where they are infinite."""
    raise NotImplementedError


@radial_function.register
def _(kernel: SE, r2: Array, dims: int) -> tuple[Array, ...]:
    g = kernel_exp(r2.copy(), -0.5)
    return g, g, g, g  # in -r2 / 2, which is what `Radial` gives


@radial_function.register
def _(kernel: RationalQuadratic, r2: Array, dims: int) -> tuple[Array, ...]:
    a = kernel.alpha
    b = 1.0 + r2 / (2.0 * a)
    g = b**-a
    first = -0.5 * g / b
    second = -0.5 * (a + 1.0) / a * first / b
    return g, first, second, -0.5 * (a + 2.0) / a * second / b


def _alpha_slopes(alpha: float, r2: Array, radial: tuple[Array, ...]) -> tuple[Array, ...]:
    """Derivatives of g, g' and g'' in alpha."""
    t = r2 / (2.0 * alpha)
    log, ratio = np.log1p(t), t / (1.0 + t)
    return (
        radial[0] * (ratio - log),
        radial[1] * ((alpha + 1.0) / alpha * ratio - log),
        radial[2] * ((alpha + 2.0) / alpha * ratio - log - 1.0 / (alpha * (alpha + 1.0))),
    )


@radial_function.register
def _(kernel: Matern, r2: Array, dims: int) -> tuple[Array, ...]:
    """With F_m(t) = t^m K_m(t), t^2 = 2 nu r2: g is proportional to F_nu, and dF_m / d(t^2 / 2) = -F_(m - 1)."""
    nu, t = float(kernel.nu), np.sqrt(2.0 * kernel.nu * r2)
    if nu == 1.5:
        e = np.exp(-t)
        inverse = over(np.ones_like(t), t)
        return (1.0 + t) * e, -1.5 * e, 2.25 * e * inverse, -3.375 * e * (1.0 + inverse) * inverse**2
    if nu == 2.5:
        e = np.exp(-t)
        inverse = over(np.ones_like(t), t)
        return (
            (1.0 + t + t * t / 3.0) * e,
            -(5.0 / 6.0) * (1.0 + t) * e,
            (25.0 / 12.0) * e,
            -(125.0 / 24.0) * e * inverse,
        )
    found, factor = [], 1.0
    for m in range(4):
        order = nu - m
        if m:
            factor *= -nu / 2.0
            if order > 0:
                factor /= order
        if order > 0:
            found.append(factor * np.exp(log_matern(order, t.copy())))
            continue
        # t^order K_order(t) for an order <= 0, without the gamma functions that cancel above
        scale = (-nu) ** m * 2.0 ** (1.0 - nu) / gamma(nu)
        safe = np.where(t > 0, t, 1.0)
        if order == 0:
            value = k0(safe)
        else:
            value = (
                safe ** (2.0 * order)
                * 2.0 ** (-order - 1.0)
                * gamma(-order)
                * np.exp(log_matern(-order, safe.copy()))
            )
        found.append(np.where(t > 0, scale * value, 0.0))
    return tuple(found)


@radial_function.register
def _(kernel: PiecewisePolynomial, r2: Array, dims: int) -> tuple[Array, ...]:
    """A polynomial in r up to the edge; d/dr2 takes r^k to (k / 2) r^(k - 2)."""
    power, p = kernel._polynomial(dims)
    edge = np.polynomial.Polynomial([1.0, -1.0]) ** power
    coefficients = {k: float(c) for k, c in enumerate((edge * p).coef) if abs(float(c)) > 1e-10}
    r = np.sqrt(r2)
    inside, safe = (r < 1.0), np.where(r > 0, r, 1.0)
    found = []
    for _ in range(4):
        terms = sum((c * (safe**k if k < 0 else r**k) for k, c in coefficients.items()), np.zeros_like(r))
        if any(k < 0 for k in coefficients):
            terms = np.where(r > 0, terms, 0.0)
        found.append(np.where(inside, terms, 0.0))
        coefficients = {k - 2: 0.5 * k * c for k, c in coefficients.items() if k != 0}
    return tuple(found)


@jets_of.register
def _(kernel: SE) -> Jets:
    return Radial(kernel)


@jets_of.register
def _(kernel: RationalQuadratic) -> Jets:
    return Radial(kernel)


@jets_of.register
def _(kernel: Matern) -> Jets:
    smooth = bool(kernel.nu > 1.0) and kernel._params["nu"].fixed
    return Radial(kernel) if smooth else WithoutSlopes(kernel)


@jets_of.register
def _(kernel: PiecewisePolynomial) -> Jets:
    return Radial(kernel) if kernel.q > 0 else WithoutSlopes(kernel)
