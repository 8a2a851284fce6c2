"""Stationary kernels beside the squared exponential: a radial function g(r2), its slope, its shape.

Book section 4.2.1, equations 4.14 to 4.21. Distances are Euclidean in the metric of `Stationary` (with a
1-norm the Matern family is not positive definite in more than one dimension). All are 1 at r = 0.

Where the slope is k times something cheap, it is computed from the known K and saves the exponential.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from cavity.kernels.base import Rows
from cavity.kernels.bessel import log_matern, log_matern_slope, order_derivative
from cavity.kernels.distances import Pairs, integer_power
from cavity.kernels.stationary import Stationary
from cavity.numerics.arrays import Array
from cavity.numerics.compiled import kernel_exp
from cavity.parameters.param import IDENTITY, LOG, Logit, Param, Transform

SMALL_RATIO = 0.02
"""Below this r2 / (2 alpha) the derivative in alpha is summed as a series (ten terms reach round-off)."""


def _over(numerator: Array, denominator: Array) -> Array:
    """numerator / denominator, 0 where the denominator is 0."""
    return np.divide(numerator, denominator, out=np.zeros_like(denominator), where=denominator > 0)


class Matern(Stationary):
    """Matern, k = 2^(1-nu) / Gamma(nu) t^nu K_nu(t), t = sqrt(2 nu) r: functions of chosen smoothness.

    A sample has as many derivatives as there are integers below nu. Closed forms for nu = 1/2, exp(-r) (the
    Ornstein-Uhlenbeck process); 3/2, (1 + t) exp(-t); 5/2, (1 + t + t^2/3) exp(-t). Any other nu > 0 goes
    through a Bessel function and is some fifty times slower; nu -> infinity is the squared exponential.

    Parameters
    ----------
    lengthscale, loadings : see `Stationary`.
    nu : float or Param
        Smoothness, without unit. Kept fixed unless given as `Param(value)`; it is then learned with a
        derivative by a five-point rule (see `bessel.order_derivative`).

    Examples
    --------
    >>> from cavity.kernels import Matern
    >>> round(float(Matern(2.0, nu=2.5)([[0.0]], [[1.0]])[0, 0]), 6)
    0.828649
    """

    _transforms: ClassVar[dict[str, Transform]] = {**Stationary._transforms, "nu": LOG}
    _fixed_by_default = ("nu",)
    _kink = True

    def __init__(self, lengthscale: Any = 1.0, nu: Any = 1.5, *, loadings: Any = None) -> None:
        self._set_up_metric(lengthscale, loadings, nu=nu)

    def _check(self) -> None:
        super()._check()
        if np.ndim(self.nu):
            raise ValueError(f"Matern: nu must be a single number, got {self.nu!r}")

    @property
    def _homogeneous(self) -> bool:  # type: ignore[override]
        return self.nu in (0.5, 1.5, 2.5)

    def _radial(self, r2: Array, dims: int) -> Array:
        t = np.sqrt(r2, out=r2)
        t *= np.sqrt(2.0 * self.nu)
        if not self._homogeneous:
            return np.exp(log_matern(self.nu, t))
        if self.nu == 0.5:
            np.negative(t, out=t)
            return kernel_exp(t)
        factor = t * (1.0 / 3.0) if self.nu == 2.5 else None
        if factor is not None:
            factor += 1.0
            factor *= t
            factor += 1.0
        else:
            factor = t + 1.0
        np.negative(t, out=t)
        kernel_exp(t)
        t *= factor
        return t

    def _radial_slope(self, r2: Array, K: Array, dims: int) -> Array:
        t = np.sqrt(r2, out=r2)
        if self.nu == 0.5:  # -k / (2 r)
            out = _over(K, t)
            out *= -0.5
            return out
        t *= np.sqrt(2.0 * self.nu)
        if self.nu == 1.5:  # -(3/2) exp(-t)
            t += 1.0
            np.divide(K, t, out=t)
            t *= -1.5
            return t
        if self.nu == 2.5:  # -(5/6) (1 + t) exp(-t)
            t += 1.0  # u = 1 + t, and 1 + t + t^2/3 = (u^2 + u + 1) / 3
            out = t + 1.0
            out *= t
            out += 1.0
            np.divide(t, out, out=out)
            out *= K
            out *= -2.5
            return out
        return -np.exp(log_matern_slope(self.nu, t))

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        d_order = 0.0
        if not self._params["nu"].fixed:
            weights = order_derivative(self.nu, np.sqrt(self._distances(a, b)[0]))
            weights *= K
            d_order = float(np.einsum("ij,ij->", G, weights))
        return np.append(super()._pull(a, b, G, K), d_order)


class GammaExponential(Stationary):
    """Gamma-exponential, k = exp(-r^gamma) with 0 < gamma <= 2 (book eq. 4.18).

    Between the rough exponential (gamma = 1) and the smooth limit gamma = 2; not differentiable for gamma <
    2.

    Parameters
    ----------
    lengthscale, loadings : see `Stationary`.
    gamma : float or Param
        Exponent, without unit, below 2; exactly 2 only as `fixed(2.0)`.

    Examples
    --------
    >>> from cavity.kernels import GammaExponential
    >>> GammaExponential(1.0, gamma=1.0)([[0.0], [1.0]]).round(3)
    array([[1.   , 0.368],
           [0.368, 1.   ]])
    """

    _transforms: ClassVar[dict[str, Transform]] = {**Stationary._transforms, "gamma": Logit(0.0, 2.0)}
    _kink = True
    _homogeneous = True

    def __init__(self, lengthscale: Any = 1.0, gamma: Any = 1.0, *, loadings: Any = None) -> None:
        if isinstance(gamma, Param) and gamma.fixed and np.ndim(gamma.value) == 0 and gamma.value == 2.0:
            # the end of the interval has no unconstrained coordinate, and as a fixed value needs none
            self._transforms = {**type(self)._transforms, "gamma": IDENTITY}  # type: ignore[misc]
        self._set_up_metric(lengthscale, loadings, gamma=gamma)

    def _check(self) -> None:
        super()._check()
        param = self._params["gamma"]
        if np.ndim(param.value) or not 0.0 < param.value <= 2.0 or (param.value == 2.0 and not param.fixed):
            raise ValueError(
                f"GammaExponential: gamma must be between 0 and 2 (2 only if fixed), got {param.value!r}"
            )

    def _radial(self, r2: Array, dims: int) -> Array:
        with np.errstate(divide="ignore"):  # log 0 = -inf, and exp brings it back to 0
            np.log(r2, out=r2)
        r2 *= 0.5 * self.gamma
        np.exp(r2, out=r2)
        np.negative(r2, out=r2)
        return np.exp(r2, out=r2)

    def _radial_slope(self, r2: Array, K: Array, dims: int) -> Array:
        raise NotImplementedError  # _weighted does it together with the derivative in gamma

    def _weighted(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Pairs | None, float]:
        """H = G dg/dr2 with dg/dr2 = -(gamma/2) r^gamma / r2 k, the near pairs, and d/d gamma."""
        r2, near = self._distances(a, b)
        log_r2 = np.log(r2, out=np.full_like(r2, -np.inf), where=r2 > 0)
        H = np.multiply(log_r2, 0.5 * self.gamma)
        np.exp(H, out=H)
        H *= K
        H *= G
        log_r2[r2 == 0] = 0.0  # r^gamma log r is 0 there
        d_gamma = -0.5 * float(np.vdot(H, log_r2))
        np.divide(H, r2, out=H, where=r2 > 0)
        if self.gamma == 2.0:
            np.copyto(H, G * K, where=r2 == 0)  # the one case with a finite slope at 0, -1
        H *= -0.5 * self.gamma
        return H, near, d_gamma

    def _weights(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Pairs | None]:
        return self._weighted(a, b, G, K)[:2]

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        H, near, d_gamma = self._weighted(a, b, G, K)
        return np.append(self._pull_metric(a[0], b[0], H, near), d_gamma)


class RationalQuadratic(Stationary):
    """Rational quadratic, k = (1 + r2 / (2 alpha))^-alpha (book eq. 4.19): a mixture of length scales.

    Small alpha: many scales at once; alpha -> infinity: the squared exponential.

    Parameters
    ----------
    lengthscale, loadings : see `Stationary`.
    alpha : float or Param
        Shape, without unit.

    Examples
    --------
    >>> from cavity.kernels import RationalQuadratic
    >>> RationalQuadratic(1.0, alpha=0.5)([[0.0], [1.0]]).round(3)
    array([[1.   , 0.707],
           [0.707, 1.   ]])
    """

    _transforms: ClassVar[dict[str, Transform]] = {**Stationary._transforms, "alpha": LOG}
    _homogeneous = True

    def __init__(self, lengthscale: Any = 1.0, alpha: Any = 1.0, *, loadings: Any = None) -> None:
        self._set_up_metric(lengthscale, loadings, alpha=alpha)

    def _check(self) -> None:
        super()._check()
        if np.ndim(self.alpha):
            raise ValueError(f"RationalQuadratic: alpha must be a single number, got {self.alpha!r}")

    def _radial(self, r2: Array, dims: int) -> Array:
        r2 *= 0.5 / self.alpha
        np.log1p(r2, out=r2)
        r2 *= -self.alpha
        return kernel_exp(r2)

    def _radial_slope(self, r2: Array, K: Array, dims: int) -> Array:
        r2 *= -1.0 / self.alpha
        r2 -= 2.0
        return np.divide(K, r2, out=r2)  # -k / (2 + r2 / alpha)

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        if self._params["alpha"].fixed:
            return np.append(super()._pull(a, b, G, K), 0.0)
        t, near = self._distances(a, b)
        t *= 0.5 / self.alpha
        W = G * K
        d_alpha = _alpha_moment(t, W)
        t += 1.0
        W /= t
        W *= -0.5
        return np.append(self._pull_metric(a[0], b[0], W, near), d_alpha)


def _alpha_moment(t: Array, W: Array) -> float:
    """sum of W d log k / d alpha, that is of W [t / (1 + t) - log(1 + t)], t = r2 / (2 alpha).

    For a tile of small t, where the two would cancel, by the series sum_{m >= 2} (-1)^(m+1) (m-1)/m t^m.
    """
    if t.size and t.max() < SMALL_RATIO:
        series = np.zeros_like(t)
        for m in range(11, 1, -1):
            series *= t
            series += (-1.0) ** (m + 1) * (m - 1) / m
        series *= t
        series *= t
        return float(np.vdot(W, series))
    work = t + 1.0  # one work array for both: memory asked for and given back costs more than the arithmetic
    ratio = float(np.vdot(W, np.divide(t, work, out=work)))
    return ratio - float(np.vdot(W, np.log1p(t, out=work)))


# Polynomials of the compact kernels, book eq. 4.21: coefficients of 1, r, r^2, r^3 in terms of j
_COMPACT = (
    lambda j: (1.0,),
    lambda j: (1.0, j + 1.0),
    lambda j: (1.0, j + 2.0, (j * j + 4 * j + 3) / 3.0),
    lambda j: (1.0, j + 3.0, (6 * j * j + 36 * j + 45) / 15.0, (j**3 + 9 * j * j + 23 * j + 15) / 15.0),
)


class PiecewisePolynomial(Stationary):
    """Piecewise polynomial with compact support (book eq. 4.21): exactly 0 for r >= 1, so that K is sparse.

    k = (1 - r)_+^(j + q) p_q(r), with j = floor(D/2) + q + 1 for D input columns, which keeps it positive
    definite, and p_q a polynomial of degree q. 2q times differentiable at 0 (q = 0: rough, q = 3: smooth).

    Parameters
    ----------
    lengthscale, loadings : see `Stationary`; the length scale is the radius of the support.
    q : int
        Smoothness, 0 to 3.

    Examples
    --------
    >>> from cavity.kernels import PiecewisePolynomial
    >>> PiecewisePolynomial(1.0)([[0.0], [0.5], [2.0]])[0].round(3)
    array([1.   , 0.172, 0.   ])
    """

    _kink = True

    def __init__(self, lengthscale: Any = 1.0, q: int = 2, *, loadings: Any = None) -> None:
        if isinstance(q, bool) or q not in (0, 1, 2, 3):
            raise ValueError(f"PiecewisePolynomial: q must be 0, 1, 2 or 3, got {q!r}")
        self.q = int(q)
        super().__init__(lengthscale, loadings=loadings)

    def _arguments(self) -> list[str]:
        listed = super()._arguments()
        return [listed[0], f"q={self.q}", *listed[1:]]

    def _polynomial(self, dims: int) -> tuple[int, np.polynomial.Polynomial]:
        j = dims // 2 + self.q + 1
        return j + self.q, np.polynomial.Polynomial(_COMPACT[self.q](j))

    @staticmethod
    def _edge(r2: Array, power: int) -> tuple[Array, Array]:
        """r cut off at 1 (in the memory of r2), and (1 - r)^power."""
        r = np.sqrt(r2, out=r2)
        np.minimum(r, 1.0, out=r)
        return r, integer_power(1.0 - r, power)

    def _radial(self, r2: Array, dims: int) -> Array:
        power, p = self._polynomial(dims)
        r, K = self._edge(r2, power)
        K *= _horner(p.coef, r)
        return K

    def _radial_slope(self, r2: Array, K: Array, dims: int) -> Array:
        # dg/dr = (1-r)^(power-1) [(1-r) p' - power p] and dg/dr2 = dg/dr / (2 r); for q > 0 the bracket has a
        # factor r, which is divided out by dropping its first coefficient (zero)
        power, p = self._polynomial(dims)
        bracket = 0.5 * (np.polynomial.Polynomial([1.0, -1.0]) * p.deriv() - power * p)
        r, slope = self._edge(r2, power - 1)
        if power == 1:  # of one column, q = 0: the slope of a triangle jumps to zero at the edge
            slope[r >= 1.0] = 0.0
        if self.q == 0:
            slope *= _horner(bracket.coef, r)
            return _over(slope, r)
        slope *= _horner(bracket.coef[1:], r)
        return slope


def _horner(coefficients: Any, x: Array) -> Array:
    """c_0 + c_1 x + c_2 x^2 + ..."""
    out = np.full_like(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        out *= x
        out += c
    return out
