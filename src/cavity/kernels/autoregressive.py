"""A stationary autoregression AR(p) at whole times (Rasmussen and Williams 2006, appendix B.3).

    f(t) = sum_k a_k f(t - k) + white noise

It is written by its partial autocorrelations: any p numbers between -1 and 1 are those of one stationary process, and
of one only. Correlations are powers of its transition, which solve the Yule-Walker equations.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cavity.kernels.base import Correlation, Rows
from cavity.kernels.state_space import Block, Factor, FactorKind, Quantity, require_whole_times
from cavity.numerics.arrays import Array
from cavity.parameters.param import Transform
from cavity.parameters.transforms import Logit


class Autoregressive(Correlation):
    """Stationary autoregression of order p at whole times, of variance one.

    It has an exact state-space form of p states.

    Parameters
    ----------
    partial : float, array (p,) or Param
        Partial autocorrelations, each between -1 and 1: that of lag i is the correlation of f(t) and f(t - i) given
        the values in between.

    Examples
    --------
    >>> from cavity.kernels import Autoregressive
    >>> kernel = Autoregressive([5 / 7, 0.3])
    >>> kernel([[0.0], [1.0], [2.0]]).round(4)[0]
    array([1.    , 0.7143, 0.6571])
    >>> kernel.coefficients
    array([0.5, 0.3])
    """

    _transforms: ClassVar[dict[str, Transform]] = {"partial": Logit(-1.0, 1.0)}
    _widenable = False

    def __init__(self, partial: Any = 0.5) -> None:
        self._set_up({"partial": partial})

    def _check(self) -> None:
        if np.ndim(self.partial) > 1 or np.size(self.partial) == 0:
            raise ValueError(
                f"Autoregressive: partial must be a number, or a vector with one per lag, got {self.partial!r}"
            )
        self.n_dims = 1

    @property
    def _partial(self) -> Array:
        return np.atleast_1d(np.asarray(self.partial, dtype=float))

    @property
    def coefficients(self) -> Array:
        """a_1, ..., a_p of the regression on the past, by the recursion of Durbin and Levinson."""
        a = np.empty(0)
        for k in self._partial:
            a = np.append(a - k * a[::-1], k)
        return a

    @property
    def innovation_variance(self) -> float:
        """Variance of the white noise, a share of that of the process."""
        return float(np.prod((1.0 - self._partial) * (1.0 + self._partial)))

    def _prepare(self, X: Array, ids: NDArray[np.intp]) -> Rows:
        self._check_width(X.shape[1])
        require_whole_times(X[:, 0])
        return (X,)

    def _lags(self, a: Rows, b: Rows) -> tuple[Array, NDArray[np.intp]]:
        """The lags that occur, at least, and which of them belongs to each pair."""
        r = np.abs(np.subtract.outer(a[0][:, 0], b[0][:, 0]))
        longest = float(np.max(r, initial=0.0))
        if longest <= r.size:
            return np.arange(longest + 1.0), r.astype(np.intp)
        lags, which = np.unique(r, return_inverse=True)
        return lags, which.reshape(r.shape)

    def _block(self, a: Rows, b: Rows) -> Array:
        from cavity.numerics.lattice import correlations

        lags, which = self._lags(a, b)
        return np.asarray(correlations(self._partial, lags)[0][which])

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        from cavity.numerics.lattice import correlations

        lags, which = self._lags(a, b)
        by_lag = np.bincount(which.ravel(), np.ravel(G), len(lags))
        return np.asarray(by_lag @ correlations(self._partial, lags)[1])

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        return np.zeros_like(a[0]), np.zeros_like(b[0])

    def _state_space(self, states: int | None) -> tuple[Block, ...]:
        size = self.flat.size
        shapes = tuple(self._quantity("partial", i) for i in range(len(self._partial)))
        factor = Factor(FactorKind.AUTOREGRESSION, len(shapes), Quantity.fixed(0.0, size), shapes=shapes)
        return (Block(Quantity.fixed(1.0, size), (factor,)),)
