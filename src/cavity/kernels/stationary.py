"""Kernels that are a function of a scaled squared distance (book section 4.2.1).

    k(x, x') = g(r2),   r2 = (x - x')' M (x - x'),   M = diag(lengthscale)^-2 + loadings loadings'

The metric M is isotropic (one length scale), has one length scale per column (ARD), or adds a low-rank
factor-analysis term (book eq. 4.22). It enters once, in `_prepare`: with z = [x / lengthscale, x loadings] the
distance is Euclidean, r2 = |z - z'|^2. A kernel then supplies g and dg/dr2. With H = G * dg/dr2,

    d/dlog l_c of sum G K = -2 sum_ij H_ij (z_ic - z_jc)^2
                          = -2 [ sum_i r_i z_ic^2 + sum_j c_j z_jc^2 - 2 sum_i z_ic (H z)_ic ],   r, c row and column sums,

which is one matrix product per tile for all columns together.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from cavity.hyper import IDENTITY, LOG, Array, Param, Transform
from cavity.kernels.base import Kernel, Rows

DIRECT_COLUMNS = 2
"""Up to this many columns differences are squared one by one, which is as fast as a matrix product and exact."""

NEAR = 1e-7
"""Squared distances below this fraction of the tile's squared radius are computed again from differences."""


class Ard:
    """Stands for "one length scale per input column", made definite when the kernel meets data.

    Use the ready-made `ard`: `SE(ard)`, or `SE(ard(2.0))` to start all length scales at 2.
    """

    def __init__(self, start: Any = 1.0) -> None:
        self.start = start

    def __call__(self, start: Any) -> Ard:
        return Ard(start)

    def __repr__(self) -> str:
        return "ard" if not isinstance(self.start, Param) and self.start == 1.0 else f"ard({self.start!r})"


ard = Ard()


class Stationary(Kernel):
    """Common part of all kernels of the form g(r2): the metric, distances and their derivatives.

    Parameters
    ----------
    lengthscale : float, array (D,), `ard` or Param
        Distance, in units of the inputs, over which the function changes.
    loadings : array (D, q), optional
        Factor-analysis part of the metric: r2 gains |(x - x')' loadings|^2.
    """

    _transforms: ClassVar[dict[str, Transform]] = {"lengthscale": LOG, "loadings": IDENTITY}
    _shape_parameters: ClassVar[tuple[str, ...]] = ()
    _needs_root: ClassVar[bool] = False
    """True where g has a kink at r = 0, so that tiny distances must be free of cancellation."""

    def __init__(self, lengthscale: Any = 1.0, *, loadings: Any = None, **shape: Any) -> None:
        self._ard: Ard | None = lengthscale if isinstance(lengthscale, Ard) else None
        values: dict[str, Any] = {"lengthscale": lengthscale.start if isinstance(lengthscale, Ard) else lengthscale}
        if loadings is not None:
            values["loadings"] = loadings
        self._set_up({**values, **shape})
        self._check_metric()

    def _check_metric(self) -> None:
        scale, loadings = np.asarray(self.lengthscale), self._params.get("loadings")
        if scale.ndim > 1:
            raise ValueError(f"{type(self).__name__}: lengthscale must be a number or a vector, got shape {scale.shape}")
        self.n_dims = scale.size if scale.ndim else None
        if loadings is not None:
            shape = np.shape(loadings.value)
            if len(shape) != 2 or (self.n_dims is not None and shape[0] != self.n_dims):
                raise ValueError(f"{type(self).__name__}: loadings must have one row per input column, got shape {shape}")
            self.n_dims = shape[0]

    def bind(self, n_features: int, feature_names: Sequence[str] | None = None) -> Self:
        """Turn `ard` into one length scale per column."""
        if self._ard is None:
            return super().bind(n_features, feature_names)
        param = self._params["lengthscale"]
        params = {**self._params, "lengthscale": replace(param, value=np.full(n_features, param.value))}
        new = self._rebuild(params, ())
        new._ard = None
        new._check_metric()
        return new

    def _arguments(self) -> list[str]:
        listed = [f"{name}={param!r}" for name, param in self._params.items()]
        if self._ard is not None:
            listed[0] = f"lengthscale={self._ard!r}"
        return listed

    # --- the radial function -------------------------------------------------------------------------------------

    @abstractmethod
    def _radial(self, r2: Array) -> Array:
        """g(r2); may overwrite its argument."""

    @abstractmethod
    def _radial_slope(self, r2: Array) -> Array:
        """dg/dr2, finite everywhere (zero where r2 = 0 if the limit is infinite); must not overwrite its argument."""

    def _slope(self, a: Rows, b: Rows, K: Array) -> Array:
        """dg/dr2 for a tile; kernels that can tell it from K override this and save the distances."""
        return self._radial_slope(self._r2(a, b))

    def _pull_shape(self, a: Rows, b: Rows, G: Array, K: Array) -> list[float]:
        """Derivatives in the shape parameters, in the order of `_shape_parameters`."""
        return []

    # --- distances ------------------------------------------------------------------------------------------------

    def _prepare(self, X: Array, ids: NDArray[np.intp]) -> Rows:
        if self._ard is not None:
            return self.bind(X.shape[1])._prepare(X, ids)
        z = X / self.lengthscale
        if "loadings" in self._params:
            z = np.hstack([z, X @ self.loadings])
        return (z,)

    def _r2(self, a: Rows, b: Rows) -> Array:
        za, zb = a[0], b[0]
        if za.shape[1] <= DIRECT_COLUMNS:
            r2 = np.subtract.outer(za[:, 0], zb[:, 0])
            r2 *= r2
            for c in range(1, za.shape[1]):
                d = np.subtract.outer(za[:, c], zb[:, c])
                d *= d
                r2 += d
            return r2
        # |za - zb|^2 as one matrix product of augmented rows, about the tile's own center to keep cancellation small.
        center = zb.mean(axis=0)
        za, zb = za - center, zb - center
        na, nb = np.einsum("ij,ij->i", za, za), np.einsum("ij,ij->i", zb, zb)
        r2 = np.column_stack([za, na, np.ones_like(na)]) @ np.column_stack([-2.0 * zb, np.ones_like(nb), nb]).T
        if a is b:
            np.fill_diagonal(r2, 0.0)
        if self._needs_root:
            i, j = np.nonzero(r2 < NEAR * (na.max() + nb.max()))
            d = za[i] - zb[j]
            r2[i, j] = np.einsum("ij,ij->i", d, d)
        return r2

    # --- values and pulls -----------------------------------------------------------------------------------------

    def _block(self, a: Rows, b: Rows) -> Array:
        return self._radial(self._r2(a, b))

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        shape = self._pull_shape(a, b, G, K)
        H = self._slope(a, b, K)
        H *= G
        return np.concatenate([self._pull_metric(a[0], b[0], H), shape])

    def _pull_metric(self, za: Array, zb: Array, H: Array) -> Array:
        """From H = G dg/dr2 to the derivatives in length scales and loadings."""
        center = zb.mean(axis=0)
        za, zb = za - center, zb - center
        rows, columns, Hz = H.sum(axis=1), H.sum(axis=0), H @ zb
        scale = np.asarray(self.lengthscale)
        D = za.shape[1] - (self._params["loadings"].value.shape[1] if "loadings" in self._params else 0)
        xa, xb = za[:, :D], zb[:, :D]
        moved = rows @ xa**2 + columns @ xb**2 - 2.0 * np.einsum("ij,ij->j", xa, Hz[:, :D])
        d_scale = -2.0 * moved / scale if scale.ndim else np.array([-2.0 * moved.sum() / scale])
        if D == za.shape[1]:
            return d_scale
        # dr2/d loadings_dc = 2 (x_d - x'_d)(p_c - p'_c) with x = z * lengthscale and p the projected columns
        pa, pb = za[:, D:], zb[:, D:]
        product = self._cross_moment(xa, xb, pa, pb, H, rows, columns)
        d_loadings = 2.0 * product * (scale[:, None] if scale.ndim else scale)
        return np.concatenate([d_scale, d_loadings.ravel()])

    @staticmethod
    def _cross_moment(xa: Array, xb: Array, pa: Array, pb: Array, H: Array, rows: Array, columns: Array) -> Array:
        """sum_ij H_ij (xa_i - xb_j)(pa_i - pb_j)', shape (D, q)."""
        same = xa.T @ (rows[:, None] * pa) + xb.T @ (columns[:, None] * pb)
        return same - xa.T @ (H @ pb) - (H @ xb).T @ pa

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        H = self._slope(a, b, K)
        H *= G
        za, zb = a[0], b[0]
        center = zb.mean(axis=0)
        za, zb = za - center, zb - center
        dza = 2.0 * (H.sum(axis=1)[:, None] * za - H @ zb)
        dzb = 2.0 * (H.sum(axis=0)[:, None] * zb - H.T @ za)
        return self._to_inputs(dza), self._to_inputs(dzb)

    def _to_inputs(self, dz: Array) -> Array:
        if "loadings" not in self._params:
            return dz / self.lengthscale
        D = self.loadings.shape[0]
        return dz[:, :D] / self.lengthscale + dz[:, D:] @ self.loadings.T

    def _diag(self, a: Rows) -> Array:
        return np.ones(len(a[0]))

    def _pull_diag(self, a: Rows, g: Array) -> Array:
        return np.zeros(self.flat.size)

    def _pull_diag_inputs(self, a: Rows, g: Array) -> Array:
        return self._to_inputs(np.zeros_like(a[0]))


class SE(Stationary):
    """Squared exponential, k = exp(-r2 / 2) (book eq. 4.9): infinitely smooth functions."""

    _homogeneous = True

    def _radial(self, r2: Array) -> Array:
        r2 *= -0.5
        return np.exp(r2, out=r2)

    def _radial_slope(self, r2: Array) -> Array:
        return -0.5 * np.exp(-0.5 * r2)

    def _slope(self, a: Rows, b: Rows, K: Array) -> Array:
        return -0.5 * K
