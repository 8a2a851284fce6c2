"""Gibbs' kernel: a squared exponential whose length scale is a function of the input.

Rasmussen and Williams (2006), eq. 4.32:

    k(x, x') = prod_d sqrt(2 l_d l'_d / (l_d^2 + l'_d^2)) exp(-(x_d - x'_d)^2 / (l_d^2 + l'_d^2))

with l_d = l_d(x) and l'_d = l_d(x'). The built-in function is log-linear, l_d(x) = lengthscale_d exp(slope_d
x_d), with learnable values; any positive function of the inputs may take its place.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from cavity.kernels.base import Correlation, Kernel, Rows
from cavity.kernels.distances import difference
from cavity.kernels.input_functions import InputFunction, NamedFunction, as_function
from cavity.numerics.arrays import Array
from cavity.parameters.param import IDENTITY, LOG, Transform
from cavity.parameters.units import Unit


def positive_scales(function: NamedFunction, X: Array, owner: str) -> Array:
    """Length scales (n, D) by a function of the inputs that returns one or D columns, checked."""
    scales = function(X, owner)
    if scales.shape[1] not in (1, X.shape[1]):
        raise ValueError(
            f"{owner}: {function!r} must return 1 or {X.shape[1]} columns, got {scales.shape[1]}"
        )
    if not (scales > 0).all():
        row = int(np.argwhere(~(scales > 0))[0, 0])
        raise ValueError(
            f"{owner}: {function!r} must be positive, but is {scales[row].tolist()} at row {row}"
        )
    return np.ascontiguousarray(np.broadcast_to(scales, X.shape))


def through_function(function: NamedFunction, X: Array, dl: Array, owner: str) -> Array:
    """From a cotangent of the length scales (n, D) to one of the inputs."""
    width = function(X, owner).shape[1]
    dl = dl if width == dl.shape[1] else dl.sum(axis=1, keepdims=True)
    return cast(Array, np.einsum("ne,ned->nd", dl, function.slopes(X, width, owner)))


class Gibbs(Correlation):
    """Gibbs' non-stationary kernel: smooth functions that vary faster in some places than in others.

    Parameters
    ----------
    lengthscale : float, array (D,), `ard` or Param
        Length scale at x = 0, in units of the inputs.
    slope : float, array (D,), `ard` or Param
        Relative growth of the length scale per unit of input: l_d(x) = lengthscale_d exp(slope_d x_d).
    function : str or callable, optional
        Length scales as a function of the inputs instead, (n, D) to (n, D) or (n, 1), positive; it has no
        parameters to learn. A registered name can be printed and saved (`register_function`).
    jacobian : callable, optional
        Inputs (n, D) to (n, E, D), E the columns the function returns; without it derivatives in the inputs
        are refused for a function of your own.

    Examples
    --------
    >>> from cavity.kernels import Gibbs
    >>> Gibbs(1.0, slope=0.5)([[0.0], [1.0]]).round(3)
    array([[1.  , 0.72],
           [0.72, 1.  ]])
    """

    _transforms: ClassVar[dict[str, Transform]] = {"lengthscale": LOG, "slope": IDENTITY}
    _units: ClassVar = {"slope": Unit.INVERSE_LENGTH}
    _columnwise = ("lengthscale", "slope")
    _widenable = False

    def __init__(
        self, lengthscale: Any = None, slope: Any = None, *, function: str | InputFunction | None = None,
        jacobian: InputFunction | None = None,
    ) -> None:  # fmt: skip
        if function is None:
            self.function = None
            scale, rate = (1.0 if lengthscale is None else lengthscale), (0.0 if slope is None else slope)
            self._set_up({"lengthscale": scale, "slope": rate})
            return
        if lengthscale is not None or slope is not None:
            raise ValueError("Gibbs: give either lengthscale and slope, or a function, not both")
        self.function = as_function(function, jacobian, "Gibbs")
        self._set_up({})

    def _arguments(self) -> list[str]:
        return super()._arguments() if self.function is None else [f"function={self.function!r}"]

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) and self.function == cast(Gibbs, other).function

    __hash__ = Kernel.__hash__

    def _prepare(self, X: Array, ids: NDArray[np.intp]) -> Rows:
        self._check_width(X.shape[1])
        if self.function is None:
            return X, self._log_linear(X)
        return X, positive_scales(self.function, X, "Gibbs")

    def _log_linear(self, X: Array) -> Array:
        with np.errstate(over="ignore"):
            scales = self.lengthscale * np.exp(self.slope * X)
        if not (np.isfinite(scales) & (scales > 0)).all():
            row = int(np.argwhere(~(np.isfinite(scales) & (scales > 0)))[0, 0])
            raise ValueError(
                f"Gibbs: lengthscale * exp(slope * x) leaves the range of numbers at row {row}, "
                f"x = {X[row].tolist()}; use a smaller slope, or inputs centered near 0"
            )
        return cast(Array, scales)

    def _block(self, a: Rows, b: Rows) -> Array:
        exponent = np.zeros((len(a[0]), len(b[0])))
        ratio = np.ones_like(exponent)
        for c in range(a[0].shape[1]):
            d, pair, product = self._column(a, b, c)
            d *= d
            d /= pair
            exponent -= d
            product /= pair
            ratio *= product
        np.sqrt(ratio, out=ratio)
        ratio *= np.exp(exponent, out=exponent)
        return ratio

    @staticmethod
    def _column(a: Rows, b: Rows, c: int) -> tuple[Array, Array, Array]:
        """x - x', l^2 + l'^2 and 2 l l' for one column."""
        la, lb = a[1][:, c], b[1][:, c]
        return (
            difference(a[0][:, c], b[0][:, c]),
            np.add.outer(la * la, lb * lb),
            np.multiply.outer(2.0 * la, lb),
        )

    def _adjoints(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array, Array, Array]:
        """Derivatives of sum G K in l at a and b (inputs held), and in x at a and b (length scales held)."""
        W = G * K
        dla, dlb, dxa, dxb = (np.empty(r[0].shape) for r in (a, b, a, b))
        rows, columns = W.sum(axis=1), W.sum(axis=0)
        for c in range(a[0].shape[1]):
            d, pair, _ = self._column(a, b, c)
            inverse = W / pair
            # d log k / dl = 1/(2 l) - l / (l^2 + l'^2) + 2 l d^2 / (l^2 + l'^2)^2
            d_scaled = inverse * d
            spread = d_scaled * d
            spread *= 2.0
            spread /= pair
            spread -= inverse
            la, lb = a[1][:, c], b[1][:, c]
            dla[:, c] = 0.5 * rows / la + la * spread.sum(axis=1)
            dlb[:, c] = 0.5 * columns / lb + lb * spread.sum(axis=0)
            dxa[:, c] = -2.0 * d_scaled.sum(axis=1)
            dxb[:, c] = 2.0 * d_scaled.sum(axis=0)
        return dla, dlb, dxa, dxb

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        if self.function is not None:
            return np.zeros(0)
        dla, dlb, _, _ = self._adjoints(a, b, G, K)
        dlog_a, dlog_b = dla * a[1], dlb * b[1]
        d_scale = (dlog_a.sum(axis=0) + dlog_b.sum(axis=0)) / self.lengthscale
        d_slope = np.einsum("ij,ij->j", dlog_a, a[0]) + np.einsum("ij,ij->j", dlog_b, b[0])
        pieces = [
            each if np.ndim(self._params[name].value) else np.array([each.sum()])
            for name, each in (("lengthscale", d_scale), ("slope", d_slope))
        ]
        return np.concatenate(pieces)

    def _through_scales(self, rows: Rows, dl: Array) -> Array:
        """From a cotangent of the length scales to one of the inputs."""
        X, scales = rows
        if self.function is None:
            return cast(Array, dl * scales * self.slope)
        return through_function(self.function, X, dl, "Gibbs")

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        dla, dlb, dxa, dxb = self._adjoints(a, b, G, K)
        return dxa + self._through_scales(a, dla), dxb + self._through_scales(b, dlb)
