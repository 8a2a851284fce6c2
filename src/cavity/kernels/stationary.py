"""What stationary kernels share: a function of a scaled squared distance.

Rasmussen and Williams (2006), section 4.2.1:

    k(x, x') = g(r2),   r2 = (x - x')' M (x - x'),   M = diag(lengthscale)^-2 + loadings loadings'

The metric M is isotropic (one length scale), has one length scale per column (ARD), or adds a low-rank
factor-analysis term (eq. 4.22). It enters once, in `_prepare`: with z = [x / lengthscale, x loadings]
the distance is Euclidean, r2 = |z - z'|^2. A kernel then supplies g and dg/dr2. With H = G * dg/dr2,

    d/d log l_c of sum G K = -2 sum_ij H_ij (z_ic - z_jc)^2,

which costs about one matrix product per tile for all columns together (`distances`). If the slope is k times
something cheap, it is computed from the known K, without another exponential.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from cavity.kernels.base import Correlation, Kernel, Rows
from cavity.kernels.distances import (
    Metric,
    Pairs,
    cross_moments,
    drifts,
    prepare_metric,
    second_moments,
    squared_distances,
)
from cavity.numerics.arrays import Array
from cavity.parameters.param import IDENTITY, LOG, Transform
from cavity.parameters.units import Unit


def over(numerator: Array, denominator: Array) -> Array:
    """numerator / denominator, 0 if the denominator is 0."""
    return np.divide(numerator, denominator, out=np.zeros_like(denominator), where=denominator > 0)


FARTHEST = 1e300
"""Inputs farther out, in length scales, are there: differences of such inputs are floating-point numbers."""


class Stationary(Correlation):
    """Common part of all kernels of the form g(r2): the metric, distances and their derivatives.

    Parameters
    ----------
    lengthscale : float, array (D,), `ard` or Param
        Distance, in units of the inputs, over which the function changes.
    loadings : array (D, q), optional
        Factor-analysis part of the metric: r2 gains |(x - x')' loadings|^2. In units of 1 / input.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.kernels import Matern, Stationary
    >>> kernel = Matern(2.0, nu=1.5)
    >>> isinstance(kernel, Stationary), kernel([[0.0], [1.0]]).round(3)[0]
    (True, array([1.   , 0.785]))
    """

    _transforms: ClassVar[dict[str, Transform]] = {"lengthscale": LOG, "loadings": IDENTITY}
    _units: ClassVar = {"loadings": Unit.INVERSE_LENGTH}
    _columnwise = ("lengthscale",)
    _kink: ClassVar[bool] = False
    """True if g is not smooth in r2 at 0; tiny distances must then be free of cancellation."""

    def __init__(self, lengthscale: Any = 1.0, *, loadings: Any = None) -> None:
        self._set_up_metric(lengthscale, loadings)

    def _set_up_metric(self, lengthscale: Any, loadings: Any, **shape: Any) -> None:
        values: dict[str, Any] = {"lengthscale": lengthscale}
        if loadings is not None:
            values["loadings"] = loadings
        self._set_up({**values, **shape})

    def _check(self) -> None:
        super()._check()
        if "loadings" in self._params:
            shape = np.shape(self.loadings)
            if len(shape) != 2:
                raise ValueError(
                    f"{type(self).__name__}: loadings must be a matrix (columns, q), got shape {shape}"
                )
            self._set_dims(shape[0], "loadings")

    # --- the radial function --------------------------------------------------------------------------------

    @abstractmethod
    def _radial(self, r2: Array, dims: int) -> Array:
        """g(r2) for inputs with `dims` columns; may overwrite r2."""

    @abstractmethod
    def _radial_slope(self, r2: Array, K: Array, dims: int) -> Array:
        """dg/dr2 as a fresh array (or in r2), finite: zero at r2 = 0 where the limit is infinite."""

    # --- distances ------------------------------------------------------------------------------------------

    def _prepare(self, X: Array, ids: NDArray[np.intp]) -> Rows:
        self._check_width(X.shape[1])
        with np.errstate(over="ignore"):  # beyond the largest number is far out all the same
            z = np.clip(X / self.lengthscale, -FARTHEST, FARTHEST)
        if "loadings" in self._params:
            z = np.hstack([z, X @ self.loadings])
        return prepare_metric(z)

    def _dims(self, a: Rows) -> int:
        """Number of input columns behind prepared rows."""
        return cast(int, a[0].shape[1]) - (self.loadings.shape[1] if "loadings" in self._params else 0)

    def _distances(self, a: Rows, b: Rows) -> tuple[Array, Pairs | None]:
        return squared_distances(cast(Metric, a), cast(Metric, b), self._kink)

    def _weights(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Pairs | None]:
        """H = G dg/dr2, and the near pairs."""
        r2, near = self._distances(a, b)
        H = self._radial_slope(r2, K, self._dims(a))
        H *= G
        return H, near

    # --- values and pulls -----------------------------------------------------------------------------------

    def _block(self, a: Rows, b: Rows) -> Array:
        return self._radial(self._distances(a, b)[0], self._dims(a))

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        H, near = self._weights(a, b, G, K)
        return self._pull_metric(a[0], b[0], H, near)

    def _pull_metric(
        self, za: Array, zb: Array, H: Array, near: Pairs | None, sums: tuple[Array, Array] | None = None
    ) -> Array:
        """From H = G dg/dr2 to the derivatives in length scales and loadings. May overwrite H.

        `sums` are the sums of the rows and of the columns of H, if they are known.
        """
        scale = np.asarray(self.lengthscale)
        D = self._dims((za,))
        d_loadings = np.zeros(0)
        if za.shape[1] > D:
            # dr2/d loadings_dc = 2 (x_d - x'_d)(p_c - p'_c), x = z * lengthscale and p the projected columns
            xa, xb = za[:, :D] * scale, zb[:, :D] * scale
            d_loadings = 2.0 * cross_moments(xa, xb, za[:, D:], zb[:, D:], H.copy(), near).ravel()
        d_scale = self._from_moments(second_moments(za[:, :D], zb[:, :D], H, near, sums))
        return np.concatenate([d_scale, d_loadings]) if d_loadings.size else d_scale

    def _from_moments(self, moments: Array) -> Array:
        """Derivatives in the length scales, from sum H (z - z')^2 by columns."""
        scale = np.asarray(self.lengthscale)
        return -2.0 * moments / scale if scale.ndim else np.array([-2.0 * moments.sum() / scale])

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        H, near = self._weights(a, b, G, K)
        H *= 2.0
        dza, dzb = drifts(a[0], b[0], H, near)
        return self._to_inputs(dza), self._to_inputs(dzb)

    def _to_inputs(self, dz: Array) -> Array:
        if "loadings" not in self._params:
            return cast(Array, dz / self.lengthscale)
        D = self.loadings.shape[0]
        return cast(Array, dz[:, :D] / self.lengthscale + dz[:, D:] @ self.loadings.T)

    def _widened(self, copies: int) -> tuple[Kernel, NDArray[np.intp]]:
        if "loadings" in self._params:
            raise ValueError(
                f"Periodic cannot wrap {type(self).__name__} with loadings; use length scales only"
            )
        return super()._widened(copies)
