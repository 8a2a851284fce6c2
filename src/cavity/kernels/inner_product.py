"""What the kernels of a weighted inner product share (Rasmussen and Williams, 2006, section 4.2.2).

    u(x, x') = bias + sum_d variance_d x_d x'_d

Linear and polynomial kernels are functions of u(x, x'); the neural network kernel is a function of u(x, x) and
u(x', x') as well. A subclass gives the function (`_link`) and its pullback (`_link_pull`). The rest is two matrix
products per tile.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from cavity.kernels.base import Kernel, Rows
from cavity.numerics.arrays import Array
from cavity.parameters.param import LOG, Param, Transform
from cavity.runtime.errors import InputError


class InnerProduct(Kernel):
    """Common part of the kernels of u(x, x') = bias + sum_d variance_d x_d x'_d.

    Parameters
    ----------
    variance : float, array (D,), `ard` or Param
        Prior variance of the weight of a column, in units of (output / input)^2.
    bias : float or Param
        Prior variance of the weight of the constant 1; the number 0 leaves it out.
    """

    _transforms: ClassVar[dict[str, Transform]] = {"variance": LOG, "bias": LOG}
    _columnwise = ("variance",)
    _single = ("bias",)

    def __init__(self, variance: Any = 1.0, bias: Any = 1.0) -> None:
        values = {"variance": variance}
        if isinstance(bias, Param) or np.ndim(bias) or bias != 0:
            values["bias"] = bias
        self._set_up(values)

    def _arguments(self) -> list[str]:
        listed = super()._arguments()
        return listed if "bias" in self._params else [*listed, "bias=0.0"]

    @property
    def _offset(self) -> float:
        return cast(float, self.bias) if "bias" in self._params else 0.0

    @abstractmethod
    def _link(self, u: Array, qa: Array, qb: Array) -> Array:
        """k from u (may be overwritten), q_a = u(a, a) as a column and q_b as a row."""

    @abstractmethod
    def _link_pull(
        self, u: Array, qa: Array, qb: Array, G: Array
    ) -> tuple[Array, Array | None, Array | None]:
        """Cotangents of u (same shape), q_a (n,) and q_b (m,); None if k does not depend on them."""

    @abstractmethod
    def _link_diag(self, q: Array) -> Array:
        """k(x, x) from q = u(x, x)."""

    @abstractmethod
    def _link_diag_slope(self, q: Array) -> Array:
        """dk(x, x)/dq."""

    def _prepare(self, X: Array, ids: NDArray[np.intp]) -> Rows:
        self._check_width(X.shape[1])
        with np.errstate(over="ignore"):  # and refused
            weighted = X * self.variance
            own = np.einsum("ij,ij->i", X, weighted) + self._offset
        if not np.isfinite(own).all():
            raise InputError(
                f"{type(self).__name__} needs squares of inputs, and those of {np.abs(X).max():.3g} are beyond "
                "floating-point numbers; give inputs in other units"
            )
        return X, weighted, own

    def _u(self, a: Rows, b: Rows) -> Array:
        u = a[1] @ b[0].T
        if self._offset:
            u += self._offset
        return cast(Array, u)

    def _block(self, a: Rows, b: Rows) -> Array:
        return self._link(self._u(a, b), a[2][:, None], b[2])

    def _gather(self, d_variance: Array, d_bias: float) -> Array:
        """Gradient in flat order from the derivatives in each column's variance and in the bias."""
        scale = d_variance if np.ndim(self.variance) else np.array([d_variance.sum()])
        return np.append(scale, d_bias) if "bias" in self._params else scale

    def _pull_alone(self, a: Rows, b: Rows, G: Array) -> Array:
        return self._pull(a, b, G, G)  # k itself is not used

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        U, ga, gb = self._link_pull(self._u(a, b), a[2][:, None], b[2], G)
        d_variance, d_bias = np.einsum("ij,ij->j", a[0], U @ b[0]), float(U.sum())
        for rows, g in ((a, ga), (b, gb)):
            if g is not None:
                d_variance += g @ (rows[0] ** 2)
                d_bias += float(g.sum())
        return self._gather(d_variance, d_bias)

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        U, ga, gb = self._link_pull(self._u(a, b), a[2][:, None], b[2], G)
        dA, dB = U @ b[1], U.T @ a[1]
        if ga is not None and gb is not None:
            dA += 2.0 * ga[:, None] * a[1]
            dB += 2.0 * gb[:, None] * b[1]
        return dA, dB

    def _diag(self, a: Rows) -> Array:
        return self._link_diag(a[2])

    def _pull_diag(self, a: Rows, g: Array) -> Array:
        w = g * self._link_diag_slope(a[2])
        return self._gather(w @ (a[0] ** 2), float(w.sum()))

    def _pull_diag_inputs(self, a: Rows, g: Array) -> Array:
        return cast(Array, 2.0 * (g * self._link_diag_slope(a[2]))[:, None] * a[1])
