"""A stationary process AR(p) or ARMA(p, q) at whole times (Rasmussen and Williams 2006, appendix B.3).

    f(t) = sum_k a_k f(t - k) + e(t) + sum_j theta_j e(t - j),    e white noise

The regression on the past is written by its partial autocorrelations: any p numbers between -1 and 1 are those of one
stationary process, and of one only. The moving average is written likewise, and is then invertible (Barndorff-Nielsen
and Schou 1973; Monahan 1984). Correlations are powers of its transition, which solve the Yule-Walker equations.
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
    """Stationary autoregression of order p at whole times, of variance one; ARMA(p, q) with a moving average.

    It has an exact state-space form of p states, or of max(p, q + 1) with a moving average.

    Parameters
    ----------
    partial : float, array (p,) or Param
        Partial autocorrelations, each between -1 and 1: that of lag i is the correlation of f(t) and f(t - i) given
        the values in between (without a moving average). `fixed(0.0)` for a moving average alone.
    moving : float, array (q,) or Param, optional
        The moving average, by numbers between -1 and 1: the recursion that leads from partial autocorrelations to
        coefficients leads from these to theta. One number is theta_1 itself.

    Examples
    --------
    >>> from cavity.kernels import Autoregressive
    >>> kernel = Autoregressive([5 / 7, 0.3])
    >>> kernel([[0.0], [1.0], [2.0]]).round(4)[0]
    array([1.    , 0.7143, 0.6571])
    >>> kernel.coefficients
    array([0.5, 0.3])
    >>> Autoregressive(0.5, moving=0.4)([[0.0], [1.0], [2.0]]).round(4)[0]
    array([1.    , 0.6923, 0.3462])
    """

    _transforms: ClassVar[dict[str, Transform]] = {"partial": Logit(-1.0, 1.0), "moving": Logit(-1.0, 1.0)}
    _input_columns = 1
    _widenable = False

    def __init__(self, partial: Any = 0.5, moving: Any = None) -> None:
        self._set_up({"partial": partial} if moving is None else {"partial": partial, "moving": moving})

    def _check(self) -> None:
        super()._check()
        for name, param in self._params.items():
            if np.ndim(param.value) > 1 or np.size(param.value) == 0:
                raise ValueError(
                    f"Autoregressive: {name} must be a number, or a vector with one per lag, got {param.value!r}"
                )

    @property
    def _partial(self) -> Array:
        return np.atleast_1d(np.asarray(self.partial, dtype=float))

    @property
    def _moving(self) -> Array:
        return np.atleast_1d(
            np.asarray(self._params["moving"].value if "moving" in self._params else [], float)
        )

    @property
    def _padded(self) -> Array:
        """Partial autocorrelations, as many as there are states."""
        p, states = self._partial, max(len(self._partial), len(self._moving) + 1)
        return np.concatenate([p, np.zeros(states - len(p))])

    @property
    def coefficients(self) -> Array:
        """a_1, ..., a_p of the regression on the past, by the recursion of Durbin and Levinson."""
        a = np.empty(0)
        for k in self._partial:
            a = np.append(a - k * a[::-1], k)
        return a

    @property
    def moving_coefficients(self) -> Array:
        """theta_1, ..., theta_q of the moving average."""
        theta = np.empty(0)
        for m in self._moving:
            theta = np.append(theta + m * theta[::-1], m)
        return theta

    @property
    def innovation_variance(self) -> float:
        """Variance of the white noise, a share of that of the process."""
        from cavity.numerics.lattice import moving_average

        w, unused = np.empty((2, len(self._padded)))
        moving_average(self._padded, self._moving, -1, w, unused)
        return float(np.prod((1.0 - self._partial) * (1.0 + self._partial)) / (w @ w))

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
        return np.asarray(correlations(self._padded, self._moving, lags)[0][which])

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        from cavity.numerics.lattice import correlations

        lags, which = self._lags(a, b)
        by_lag = np.bincount(which.ravel(), np.ravel(G), len(lags))
        slope = by_lag @ correlations(self._padded, self._moving, lags)[1]
        return np.delete(slope, np.s_[len(self._partial) : len(self._padded)])

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        return np.zeros_like(a[0]), np.zeros_like(b[0])

    def _state_space(self, states: int | None) -> tuple[Block, ...]:
        size, n, q = self.flat.size, len(self._padded), len(self._moving)
        none = Quantity.fixed(0.0, size)
        regression = [self._quantity("partial", i) for i in range(len(self._partial))]
        shapes, kind = regression + [none] * (n - len(regression)), FactorKind.AUTOREGRESSION
        if q:
            kind = FactorKind.ARMA
            shapes += [self._quantity("moving", i) for i in range(q)] + [none] * (n - 1 - q)
        factor = Factor(kind, n, none, shapes=tuple(shapes))
        return (Block(Quantity.fixed(1.0, size), (factor,)),)
