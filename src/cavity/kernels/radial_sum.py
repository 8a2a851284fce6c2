"""Kernels as sums of radial functions of scaled columns, for compiled loops over many small matrices.

    k(x, x') = sum_t variance_t g_t(|z_t - z_t'|^2),   z_t = x[columns_t] / lengthscale_t

Squared exponentials, Matern functions of order 1/2, 3/2 and 5/2, rational quadratics and constants, scaled, on some
columns, and added up. `RadialSum.of` gives this form of a kernel, or None if it has another. Compiled loops return
derivatives in variances, shapes and, for each column, M_c = sum G dg/dr2 (z_c - z_c')^2; `pull` takes them to the
kernel's natural values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cavity.kernels.algebra import On, Scaled, Sum
from cavity.kernels.base import Kernel
from cavity.kernels.constant import Constant
from cavity.kernels.matern import Matern
from cavity.kernels.rational_quadratic import RationalQuadratic
from cavity.kernels.squared_exponential import SE
from cavity.kernels.stationary import Stationary
from cavity.numerics.arrays import Array

SQUARED_EXPONENTIAL, MATERN_12, MATERN_32, MATERN_52, RATIONAL_QUADRATIC, CONSTANT = range(6)
"""Numbers of the radial functions."""

_MATERN = {0.5: MATERN_12, 1.5: MATERN_32, 2.5: MATERN_52}

Terms = tuple[NDArray[np.int64], NDArray[np.int64], Array, Array]
"""Where the columns of each term begin (T + 1,), its radial function, shape and variance (T,)."""


@dataclass(frozen=True)
class Term:
    """One term; `of_...` say which of the kernel's natural values a quantity is.

    Attributes
    ----------
    columns : array (C,)
        Of the inputs.
    of_variance : tuple of int
        The variance is the product of these.
    of_scale : array (C,)
    of_shape : int
        -1 if it has none.
    """

    kind: int
    columns: NDArray[np.intp]
    of_variance: tuple[int, ...]
    of_scale: NDArray[np.intp]
    of_shape: int = -1

    def moved(self, offset: int) -> Term:
        """As part of a kernel with so many values before its own."""
        shape = self.of_shape + offset if self.of_shape >= 0 else -1
        factors = tuple(i + offset for i in self.of_variance)
        return replace(self, of_variance=factors, of_scale=self.of_scale + offset, of_shape=shape)


@dataclass(frozen=True)
class RadialSum:
    """A kernel in this form.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.kernels import SE, Matern
    >>> from cavity.kernels.radial_sum import RadialSum
    >>> form = RadialSum.of(2.0 * SE([1.0, 4.0]) + Matern(0.5, nu=1.5).on([0]), 2)
    >>> form.coordinates(np.array([[1.0, 2.0]]))
    array([[1. , 0.5, 2. ]])
    """

    kernel: Kernel
    parts: tuple[Term, ...]

    @classmethod
    def of(cls, kernel: Kernel, dims: int) -> RadialSum | None:
        """The form of a kernel of inputs with so many columns; None if it has none."""
        parts = _terms(kernel, np.arange(dims))
        return None if parts is None else cls(kernel, tuple(parts))

    @cached_property
    def terms(self) -> Terms:
        """What compiled loops take."""
        flat = self.kernel.flat
        starts = np.cumsum([0, *(len(part.columns) for part in self.parts)]).astype(np.int64)
        shapes = [flat[part.of_shape] if part.of_shape >= 0 else 0.0 for part in self.parts]
        variances = [np.prod(flat[list(part.of_variance)]) for part in self.parts]
        kinds = np.array([part.kind for part in self.parts], dtype=np.int64)
        return starts, kinds, np.array(shapes, dtype=float), np.array(variances, dtype=float)

    @property
    def variance(self) -> float:
        """k(x, x)."""
        return float(self.terms[3].sum())

    @cached_property
    def _scales(self) -> Array:
        index = np.concatenate([part.of_scale for part in self.parts])
        return np.asarray(self.kernel.flat[index])

    def coordinates(self, X: Array) -> Array:
        """Scaled columns of all terms side by side, shape (n, C)."""
        columns = np.concatenate([part.columns for part in self.parts])
        return np.ascontiguousarray(X[:, columns] / self._scales)

    def pull(self, moments: Array, d_variance: Array, d_shape: Array) -> Array:
        """Gradient in the kernel's natural values, shape (P,)."""
        flat, out, at = self.kernel.flat, np.zeros(self.kernel.flat.size), 0
        variances = self.terms[3]
        for t, part in enumerate(self.parts):
            own = slice(at, at + len(part.columns))
            at = own.stop
            np.add.at(out, part.of_scale, -2.0 * moments[own] / self._scales[own])
            for i in part.of_variance:
                out[i] += d_variance[t] * variances[t] / flat[i]
            if part.of_shape >= 0:
                out[part.of_shape] += d_shape[t]
        return out


def _terms(kernel: Kernel, columns: NDArray[np.intp]) -> list[Term] | None:
    none = np.zeros(0, np.intp)
    if isinstance(kernel, Constant):
        return [Term(CONSTANT, none, (0,), none)]
    if isinstance(kernel, On):
        return _terms(kernel.kernel, columns[list(kernel.dims)])
    if isinstance(kernel, Scaled):
        inside = _terms(kernel.kernel, columns)
        if inside is None:
            return None
        return [replace(t, of_variance=(0, *t.of_variance)) for t in (part.moved(1) for part in inside)]
    if isinstance(kernel, Sum):
        found, offset = [], 0
        for part in kernel.terms:
            inside = _terms(part, columns)
            if inside is None:
                return None
            found += [term.moved(offset) for term in inside]
            offset += part.flat.size
        return found
    return _leaf(kernel, columns)


def _leaf(kernel: Kernel, columns: NDArray[np.intp]) -> list[Term] | None:
    if not isinstance(kernel, Stationary) or "loadings" in kernel.params:
        return None
    count = np.size(kernel.lengthscale)
    of_scale = np.arange(count) if np.ndim(kernel.lengthscale) else np.zeros(len(columns), np.intp)
    if type(kernel) is SE:
        return [Term(SQUARED_EXPONENTIAL, columns, (), of_scale)]
    if type(kernel) is Matern and kernel.nu in _MATERN and kernel.params["nu"].fixed:
        return [Term(_MATERN[kernel.nu], columns, (), of_scale)]
    if type(kernel) is RationalQuadratic:
        return [Term(RATIONAL_QUADRATIC, columns, (), of_scale, count)]
    return None
