"""Thin-plate splines: the kernel whose penalty is the integral of all squared derivatives of order m.

Rasmussen and Williams (2006), section 6.3; Wahba (1990). In D columns, with 2m > D, the penalty has the Green's
function

    G(r) = theta r^(2m - D)            D odd,    theta = Gamma(D/2 - m) / (2^2m pi^(D/2) (m - 1)!)
    G(r) = theta r^(2m - D) log r      D even,   theta = (-1)^(D/2 + 1 + m) / (2^(2m-1) pi^(D/2) (m - 1)! (m - D/2)!)

which is positive definite on contrasts only, which take polynomials of degree below m to zero. With the Lagrange
polynomials p of as many nodes T as there are such polynomials,

    k(x, x') = G(x, x') - p(x)'G(T, x') - G(x, T) p(x') + p(x)'G(T, T) p(x')

is positive definite, and vanishes at the nodes. Beside vague polynomials of degree m - 1 (`Basis("linear")` for m = 2,
`Basis(Monomials(m - 1))` in general) predictions, variances and the evidence do not depend on the nodes.
"""

from __future__ import annotations

from itertools import combinations_with_replacement
from math import comb, factorial, gamma
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cavity.kernels.base import Given, Rows, as_inputs
from cavity.means.basis_features import Monomials
from cavity.numerics.arrays import Array
from cavity.runtime.checks import require_integer


def green_constant(order: int, dims: int) -> float:
    """theta of the Green's function."""
    m, half = order, dims // 2
    if dims % 2:
        return float(gamma(dims / 2 - m) / (2 ** (2 * m) * np.pi ** (dims / 2) * factorial(m - 1)))
    sign = (-1) ** (half + 1 + m)
    return float(sign / (2 ** (2 * m - 1) * np.pi**half * factorial(m - 1) * factorial(m - half)))


def cdist(A: Array, B: Array) -> Array:
    """Distances of all pairs of rows."""
    from scipy.spatial import distance  # which takes a while to load

    return np.asarray(distance.cdist(A, B))


class ThinPlate(Given):
    """Thin-plate spline of order m, for use beside a vague polynomial of degree m - 1 (`Basis(Monomials(m - 1))`).

    Parameters
    ----------
    nodes : array (M, D)
        M = number of polynomials of degree below m, in a position that determines them (for m = 2: the corners of a
        triangle in the plane). They set where the kernel vanishes, and no prediction depends on them; choose them
        inside the data (`ThinPlate.over(X)` does).
    order : int
        m, with 2m > D; 2 bends least.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP
    >>> from cavity.kernels import ThinPlate
    >>> from cavity.likelihoods import Gaussian
    >>> from cavity.means import Basis
    >>> X = np.array([[0, 0], [1, 0], [0, 1], [1, 1], [0.5, 0.25], [0.2, 0.7]])
    >>> y = np.array([0, 1, -1, 0.5, 0.8, -0.3])
    >>> model = GP(4.0 * ThinPlate.over(X), Gaussian(0.04), mean=Basis("linear"))
    >>> model.condition(X, y).mean([[0.3, 0.4]]).round(6)
    array([0.217988])
    """

    _widenable = False

    def __init__(self, nodes: ArrayLike, order: int = 2) -> None:
        self.nodes: Array = as_inputs(nodes, "nodes")
        self.order = require_integer(order, "ThinPlate: order", 1)
        count, dims = self.nodes.shape
        self._input_columns = dims
        if 2 * self.order <= dims:
            raise ValueError(
                f"ThinPlate: 2 * order must exceed the number of columns, got order={order} for {dims}; "
                f"use order={dims // 2 + 1}"
            )
        needed = comb(dims + self.order - 1, dims)
        if count != needed:
            raise ValueError(
                f"ThinPlate: order {self.order} in {dims} columns has {needed} polynomials and needs as many nodes, "
                f"got {count}"
            )
        self._center: Array = np.asarray(self.nodes.mean(axis=0))
        self._spread = (
            np.maximum(np.abs(self.nodes - self._center).max(axis=0), 1e-300) if count > 1 else np.ones(dims)
        )
        self._polynomials = Monomials(self.order - 1)
        V = self._monomials(self.nodes)
        if np.linalg.cond(V) > 1e10:
            raise ValueError(
                "ThinPlate: the nodes do not determine a polynomial: they lie on a line or a surface"
            )
        # Lagrange polynomials are monomials times this
        self._coefficients: Array = np.asarray(np.linalg.inv(V), dtype=float)
        self._theta = green_constant(self.order, dims)
        self._among_nodes = self._green(cdist(self.nodes, self.nodes))
        self._set_up({})

    @classmethod
    def over(cls, X: ArrayLike, order: int = 2) -> Self:
        """With nodes spread over inputs X (n, D): a grid of the simplex in their box."""
        x = as_inputs(X)
        low, high = x.min(axis=0), x.max(axis=0)
        dims = x.shape[1]
        lattice = [
            np.bincount(np.array(p, dtype=int), minlength=dims)
            for k in range(order)
            for p in combinations_with_replacement(range(dims), k)
        ]
        share = np.array(lattice, dtype=float) / max(order - 1, 1)
        return cls(low + np.where(high > low, high - low, 1.0) * share, order)

    def _arguments(self) -> list[str]:
        return [repr(self.nodes.tolist()), *([f"order={self.order}"] if self.order != 2 else [])]

    def _green(self, r: Array) -> Array:
        power = 2 * self.order - self.nodes.shape[1]
        with np.errstate(divide="ignore", invalid="ignore"):
            out = self._theta * r**power * (1.0 if power % 2 else np.log(r))
        return np.where(r > 0, out, 0.0)

    def _green_slope(self, r: Array) -> Array:
        """G'(r) / r; zero at zero, where it is multiplied by zero."""
        power = 2 * self.order - self.nodes.shape[1]
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = power if power % 2 else power * np.log(r) + 1.0
            out = self._theta * factor * r ** (power - 2.0)
        return np.where(r > 0, out, 0.0)

    def _monomials(self, X: Array) -> Array:
        return self._polynomials((X - self._center) / self._spread)

    def _monomial_slopes(self, X: Array) -> Array:
        """Derivatives of the monomials, shape (n, M, D)."""
        return self._polynomials.jacobian((X - self._center) / self._spread) / self._spread

    def _prepare(self, X: Array, ids: NDArray[np.intp]) -> Rows:
        self._check_width(X.shape[1])
        return X, self._monomials(X) @ self._coefficients, self._green(cdist(X, self.nodes))

    def _block(self, a: Rows, b: Rows) -> Array:
        plain = self._green(cdist(a[0], b[0]))
        return np.asarray(plain - a[1] @ b[2].T - (a[2] - a[1] @ self._among_nodes) @ b[1].T)

    def _diag(self, a: Rows) -> Array:
        return np.asarray(np.einsum("ij,ij->i", a[1], a[1] @ self._among_nodes - 2.0 * a[2]))

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        W = G * self._green_slope(cdist(a[0], b[0]))
        first = W.sum(axis=1)[:, None] * a[0] - W @ b[0]
        second = W.sum(axis=0)[:, None] * b[0] - W.T @ a[0]
        return first + self._by_nodes(a, G @ b[1], G @ b[2]), second + self._by_nodes(
            b, G.T @ a[1], G.T @ a[2]
        )

    def _by_nodes(self, a: Rows, polynomials: Array, green: Array) -> Array:
        """Through p(x) and G(x, T), from cotangents summed over the other rows."""
        d_p, d_green = polynomials @ self._among_nodes - green, -polynomials
        slopes = np.einsum("nm,nkd->nmkd", d_p, self._monomial_slopes(a[0]))
        through_p = np.einsum("nmkd,km->nd", slopes, self._coefficients)
        w = d_green * self._green_slope(cdist(a[0], self.nodes))
        return np.asarray(through_p + w.sum(axis=1)[:, None] * a[0] - w @ self.nodes)

    def _pull_diag_inputs(self, a: Rows, g: Array) -> Array:
        # k(x, x) = p'G(T,T)p - 2 p'G(T, x)
        half = g[:, None] * a[1]
        return 2.0 * self._by_nodes(a, half, g[:, None] * a[2])
