"""Averages of a function over a box around each input: a pixel, an hour, a layer of soil.

For the squared exponential they are in closed form, column by column. Rows hold D centres and D widths; a width of zero
is a value, and rows of all widths may be mixed. With h = width / 2 and d = x - x' in units of the length scale,

    k = prod_d [g(d + h + h') - g(d + h - h') - g(d - h + h') + g(d - h - h')] / (4 h h')

where g(u) = (pi/2)^1/2 u erf(u / 2^1/2) + exp(-u^2 / 2), whose second derivative is exp(-u^2 / 2). These differences
lose digits if a box is much smaller than the length scale; Gauss rules of a few nodes are exact to rounding there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cavity.kernels.base import Rows
from cavity.kernels.blurred import Averages
from cavity.numerics.arrays import Array


class BoxAverages(Averages):
    """Averages of functions with a squared exponential kernel over a box around each input.

    Rows are D centres and D widths, zero for a value.

    Parameters
    ----------
    lengthscale : float, array (D,), `ard` or Param

    Examples
    --------
    >>> from cavity.kernels import BoxAverages
    >>> BoxAverages(1.0)([[0.0, 0.0]], [[0.0, 2.0]]).round(4)  # a value, and the average from -1 to 1
    array([[0.8556]])
    """

    _sizes = "widths of boxes"

    def __init__(self, lengthscale: Any = 1.0) -> None:
        self._set_up({"lengthscale": lengthscale})

    def _prepare(self, X: Array, ids: NDArray[np.intp]) -> Rows:
        centre, width = self._halves(X)
        scale = np.asarray(self.lengthscale, dtype=float)
        return np.ascontiguousarray(centre / scale), np.ascontiguousarray(0.5 * width / scale)

    def _gather(self, each: Array) -> Array:
        """Derivatives in the length scales from those in their logarithms."""
        each = each / np.asarray(self.lengthscale, dtype=float)
        return each if np.ndim(self.lengthscale) else np.array([each.sum()])

    def _rows(self, centre: Array, half: Array) -> Array:
        """Derivatives in centres and widths of the data."""
        scale = np.asarray(self.lengthscale, dtype=float)
        return np.hstack([centre / scale, 0.5 * half / scale])

    def _block(self, a: Rows, b: Rows) -> Array:
        from cavity.kernels.box_pairs import covariances

        return np.asarray(covariances(*a, *b))

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        from cavity.kernels.box_pairs import pulled

        return self._gather(pulled(a[0], a[1], b[0], b[1], np.ascontiguousarray(G))[4])

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        from cavity.kernels.box_pairs import pulled

        dx, dh, dy, dk, _ = pulled(a[0], a[1], b[0], b[1], np.ascontiguousarray(G))
        return self._rows(dx, dh), self._rows(dy, dk)

    def _own(self, a: Rows) -> tuple[Array, Array]:
        """Covariances of boxes with themselves by column, and their derivatives in the half widths."""
        from cavity.kernels.box_pairs import slopes_of_pair

        half = a[1]
        flat = [slopes_of_pair(0.0, h, h) for h in half.ravel()]
        found = np.array(flat).reshape(*half.shape, 4)
        return found[..., 0], found[..., 2] + found[..., 3]

    def _diag(self, a: Rows) -> Array:
        return np.asarray(np.prod(self._own(a)[0], axis=1))

    def _own_slopes(self, a: Rows, g: Array) -> Array:
        """d/d half width of sum g * k(x, x), for each row and column."""
        values, slopes = self._own(a)
        D = values.shape[1]
        others = np.array([np.prod(np.delete(values, c, axis=1), axis=1) for c in range(D)]).T
        return np.asarray(g[:, None] * others * slopes)

    def _pull_diag(self, a: Rows, g: Array) -> Array:
        return self._gather(-np.sum(a[1] * self._own_slopes(a, g), axis=0))

    def _pull_diag_inputs(self, a: Rows, g: Array) -> Array:
        return self._rows(np.zeros(a[0].shape), self._own_slopes(a, g))
