"""Additive kernels: functions of one column, of pairs of columns, up to a given order.

Rasmussen and Williams (2006), section 4.2.4:

    k(x, x') = sum_{q=1..order} variance_q e_q(z_1, ..., z_D),     z_d = k_d(x_d, x'_d)

e_q is the elementary symmetric polynomial: the sum over all sets of q columns of the product of their kernels
(Duvenaud, Nickisch and Rasmussen, 2011). It is computed by adding one column at a time, E_q += z_d E_{q-1},
which has only additions and multiplications of the z; its derivative runs the same recursion backwards. The
identities of Newton and Girard would do as well, but subtract large powers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from cavity.kernels.base import Kernel, Rows
from cavity.numerics.arrays import Array
from cavity.parameters.param import LOG, Transform
from cavity.parameters.units import Unit
from cavity.runtime.checks import require_integer


def _has_ard(kernel: Kernel) -> bool:
    return bool(kernel._ard) or any(_has_ard(cast(Kernel, part)) for part in kernel.parts)


def symmetric_polynomials(z: Sequence[Array], order: int) -> list[list[Array]]:
    """E[d][q]: elementary symmetric polynomial of degree q in the first d of the arrays, q = 0..order."""
    one = np.ones_like(z[0])
    table = [[one] + [np.zeros_like(one)] * order]
    for d, zd in enumerate(z, start=1):
        last = table[-1]
        table.append([one] + [last[q] + zd * last[q - 1] if q <= d else last[q] for q in range(1, order + 1)])
    return table


class Additive(Kernel):
    """Sum over all sets of at most `order` columns of products of one-column kernels.

    Parameters
    ----------
    kernel : Kernel or list of Kernel
        The kernel of one column. Plain values are shared by all columns, `ard` inside gives every column its
        own, and a list holds one kernel per column.
    order : int
        Largest number of columns that interact.
    variances : float or array (order,), optional
        Variance of each order of interaction, default 1.

    Examples
    --------
    >>> from cavity.kernels import SE, Additive, ard
    >>> Additive(SE(ard), order=2).bind(3).names[:3]
    ('additive.variances[0]', 'additive.variances[1]', 'se.lengthscale[0]')
    """

    _transforms: ClassVar[dict[str, Transform]] = {"variances": LOG}
    _units: ClassVar = {"variances": Unit.VARIANCE_BY_ORDER}
    _widenable = False

    def __init__(self, kernel: Kernel | Sequence[Kernel], order: int = 1, variances: Any = None) -> None:
        kernels = [kernel] if isinstance(kernel, Kernel) else list(kernel)
        if not kernels or not all(isinstance(k, Kernel) for k in kernels):
            raise ValueError(f"Additive takes a kernel or a list of kernels, one per column, got {kernel!r}")
        self.order = require_integer(order, "Additive: order", 1)
        self._shared = isinstance(kernel, Kernel)
        values = np.ones(self.order) if variances is None else variances
        self._set_up({"variances": values}, [k if self._shared else k.bind(1) for k in kernels])

    def _check(self) -> None:
        self.n_dims = None if self._shared else len(self._parts)
        shape = np.shape(self.variances)
        if shape != (self.order,) and not (shape == () and self.order == 1):
            raise ValueError(
                f"Additive: variances must have one value per order ({self.order}), got shape {shape}"
            )
        if self.n_dims is not None:
            self._check_order(self.n_dims)

    def _check_order(self, n_features: int) -> None:
        if self.order > n_features:
            raise ValueError(
                f"Additive: order {self.order} is more than the number of columns ({n_features})"
            )

    def _arguments(self) -> list[str]:
        inner = repr(self._parts[0]) if self._shared else repr(list(self._parts))
        return [inner, f"order={self.order}", *super()._arguments()]

    def bind(self, n_features: int, feature_names: Sequence[str] | None = None) -> Self:
        """Give every column its own kernel if `ard` asks for it."""
        self._check_width(n_features)
        self._check_order(n_features)
        kernels = cast("tuple[Kernel, ...]", self._parts)
        if self._shared and _has_ard(kernels[0]):
            return self._rebuild(self._params, (kernels[0].bind(1),) * n_features, _shared=False)
        return self._rebuild(self._params, tuple(k.bind(1) for k in kernels))

    def _kernel(self, d: int) -> Kernel:
        return cast(Kernel, self._parts[0 if self._shared else d])

    def _prepare(self, X: Array, ids: NDArray[np.intp]) -> Rows:
        self._check_width(X.shape[1])
        self._check_order(X.shape[1])
        return tuple(
            self._kernel(d)._prepare(np.ascontiguousarray(X[:, [d]]), ids) for d in range(X.shape[1])
        )

    def _columns(self, a: Rows, b: Rows) -> list[Array]:
        return [self._kernel(d)._block(ta, tb) for d, (ta, tb) in enumerate(zip(a, b))]

    def _value(self, z: Sequence[Array]) -> Array:
        E = symmetric_polynomials(z, self.order)[-1]
        return cast(Array, sum(v * e for v, e in zip(np.ravel(self.variances), E[1:])))

    def _reverse(self, z: Sequence[Array], G: Array) -> tuple[Array, list[Array]]:
        """Derivatives of sum G k in the variances, and the cotangent of each z_d."""
        table = symmetric_polynomials(z, self.order)
        d_variances = np.array([np.sum(G * e) for e in table[-1][1:]])
        adjoint = [v * G for v in np.ravel(self.variances)]  # of E_1 .. E_order
        pulls = []
        for d in range(len(z) - 1, -1, -1):
            pulls.append(cast(Array, sum(adjoint[q] * table[d][q] for q in range(min(self.order, d + 1)))))
            for q in range(self.order - 1):
                adjoint[q] = adjoint[q] + z[d] * adjoint[q + 1]
        return d_variances, pulls[::-1]

    def _collect(self, d_variances: Array, pulls: list[Array]) -> Array:
        if self._shared:
            return np.concatenate([d_variances, cast(Array, sum(pulls))])
        return np.concatenate([d_variances, *pulls])

    def _block(self, a: Rows, b: Rows) -> Array:
        return self._value(self._columns(a, b))

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        z = self._columns(a, b)
        d_variances, cotangents = self._reverse(z, G)
        pulls = [self._kernel(d)._pull(a[d], b[d], g, z[d]) for d, g in enumerate(cotangents)]
        return self._collect(d_variances, pulls)

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        z = self._columns(a, b)
        _, cotangents = self._reverse(z, G)
        pulls = [self._kernel(d)._pull_inputs(a[d], b[d], g, z[d]) for d, g in enumerate(cotangents)]
        return np.hstack([p[0] for p in pulls]), np.hstack([p[1] for p in pulls])

    def _diagonals(self, a: Rows) -> list[Array]:
        return [self._kernel(d)._diag(ta) for d, ta in enumerate(a)]

    def _diag(self, a: Rows) -> Array:
        return self._value(self._diagonals(a))

    def _pull_diag(self, a: Rows, g: Array) -> Array:
        d_variances, cotangents = self._reverse(self._diagonals(a), g)
        pulls = [self._kernel(d)._pull_diag(a[d], c) for d, c in enumerate(cotangents)]
        return self._collect(d_variances, pulls)

    def _pull_diag_inputs(self, a: Rows, g: Array) -> Array:
        _, cotangents = self._reverse(self._diagonals(a), g)
        return np.hstack([self._kernel(d)._pull_diag_inputs(a[d], c) for d, c in enumerate(cotangents)])
