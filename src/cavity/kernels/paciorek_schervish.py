"""Any radial kernel with length scales that vary (Paciorek and Schervish; Rasmussen and Williams 2006, eq. 4.33, 4.34).

With l_d(x) = lengthscale_d s_d(x), the length scales of a stationary kernel times a positive function of the inputs,

    k(x, x') = prod_d sqrt(2 s_d s'_d / (s_d^2 + s'_d^2)) g(Q),   Q = sum_d 2 (z_d - z'_d)^2 / (s_d^2 + s'_d^2),

z = x / lengthscale, which is positive definite if g is a kernel in any number of dimensions. With the squared
exponential it is Gibbs' kernel; other kernels give rougher functions.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from cavity.kernels.base import Correlation, Kernel, Rows
from cavity.kernels.distances import FAR, difference
from cavity.kernels.gamma_exponential import GammaExponential
from cavity.kernels.gibbs import positive_scales, through_function
from cavity.kernels.input_functions import InputFunction, as_function
from cavity.kernels.matern import Matern
from cavity.kernels.rational_quadratic import RationalQuadratic
from cavity.kernels.squared_exponential import SE
from cavity.kernels.stationary import FARTHEST, Stationary
from cavity.kernels.wrapper import Wrapper
from cavity.numerics.arrays import Array
from cavity.parameters.param import IDENTITY, Transform
from cavity.parameters.units import Unit

VALID = (SE, Matern, RationalQuadratic, GammaExponential)
"""Kernels in any number of dimensions."""


class PaciorekSchervish(Correlation, Wrapper):
    """A stationary kernel whose length scales vary with the input: rough or smooth, fast here and slow there.

    Parameters
    ----------
    kernel : SE, Matern, RationalQuadratic or GammaExponential
        With length scales in units of the inputs, and shape parameters (nu, alpha, gamma) that are fixed.
    slope : float, array (D,), `ard` or Param
        Relative growth of the length scales per unit of input: s_d(x) = exp(slope_d x_d).
    function : str or callable, optional
        s as a function of the inputs instead, (n, D) to (n, D) or (n, 1), positive; it has no parameters to learn. A
        registered name can be printed and saved (`register_function`).
    jacobian : callable, optional
        Inputs (n, D) to (n, E, D), E the columns the function returns, for derivatives in the inputs.

    Examples
    --------
    >>> from cavity.kernels import Matern, PaciorekSchervish
    >>> PaciorekSchervish(Matern(1.0, nu=1.5), slope=0.5)([[0.0], [1.0]]).round(3)
    array([[1. , 0.6],
           [0.6, 1. ]])
    """

    _transforms: ClassVar[dict[str, Transform]] = {"slope": IDENTITY}
    _units: ClassVar = {"slope": Unit.INVERSE_LENGTH}
    _columnwise = ("slope",)
    _widenable = False

    def __init__(
        self, kernel: Kernel, slope: Any = None, *, function: str | InputFunction | None = None,
        jacobian: InputFunction | None = None,
    ) -> None:  # fmt: skip
        if not isinstance(kernel, VALID):
            names = ", ".join(valid.__name__ for valid in VALID)
            raise ValueError(
                f"PaciorekSchervish takes one of {names}, kernels in any number of dimensions, got {kernel!r}"
            )
        if "loadings" in kernel._params:
            raise ValueError(f"PaciorekSchervish takes length scales only, got loadings in {kernel!r}")
        free = [name for name, p in kernel._params.items() if name != "lengthscale" and not p.fixed]
        if free:
            raise ValueError(
                f"PaciorekSchervish: {free[0]} of {kernel!r} cannot be learned; write {free[0]}=fixed(value)"
            )
        if function is not None and slope is not None:
            raise ValueError("PaciorekSchervish: give either a slope or a function, not both")
        self.function = None if function is None else as_function(function, jacobian, type(self).__name__)
        own = {} if self.function is not None else {"slope": 0.0 if slope is None else slope}
        self._set_up(own, (kernel,))

    def _arguments(self) -> list[str]:
        return [*super()._arguments(), *([] if self.function is None else [f"function={self.function!r}"])]

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) and self.function == cast(PaciorekSchervish, other).function

    __hash__ = Kernel.__hash__

    def _prepare(self, X: Array, ids: NDArray[np.intp]) -> Rows:
        self._check_width(X.shape[1])
        self.kernel._check_width(X.shape[1])
        name = type(self).__name__
        with np.errstate(over="ignore"):
            z = np.clip(X / self.kernel.lengthscale, -FARTHEST, FARTHEST)
        if self.function is not None:
            return z, positive_scales(self.function, X, name), X
        with np.errstate(over="ignore", under="ignore"):
            scales = np.exp(self.slope * X)
        good = (np.isfinite(scales) & (scales > 0)).all(axis=1)
        if not good.all():
            row = int(np.argmin(good))
            raise ValueError(
                f"{name}: exp(slope * x) leaves the range of numbers at row {row}, x = {X[row].tolist()}; "
                "use a smaller slope, or inputs centered near 0"
            )
        return z, np.ascontiguousarray(np.broadcast_to(scales, X.shape)), X

    @staticmethod
    def _column(a: Rows, b: Rows, c: int) -> tuple[Array, Array, Array]:
        """u = sqrt(2) (z - z') / sqrt(s^2 + s'^2), sqrt(s^2 + s'^2) and 2 s s' / (s^2 + s'^2) for one column."""
        sa, sb = a[1][:, c], b[1][:, c]
        root = np.hypot.outer(sa, sb)
        u = difference(a[0][:, c], b[0][:, c])
        with np.errstate(over="ignore"):
            u /= root
        u *= np.sqrt(2.0)
        np.clip(u, -FAR, FAR, out=u)
        return u, root, 2.0 * (sa[:, None] / root) * (sb / root)

    def _factors(self, a: Rows, b: Rows) -> tuple[Array, Array]:
        """The product of roots, and Q."""
        Q, ratio = np.zeros((len(a[0]), len(b[0]))), np.ones((len(a[0]), len(b[0])))
        for c in range(a[0].shape[1]):
            u, _, part = self._column(a, b, c)
            u *= u
            Q += u
            ratio *= part
        return np.sqrt(ratio, out=ratio), Q

    def _block(self, a: Rows, b: Rows) -> Array:
        factor, Q = self._factors(a, b)
        factor *= cast(Stationary, self.kernel)._radial(Q, self._dims(a))
        return factor

    def _adjoints(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array, Array, Array, Array]:
        """Derivatives of sum G K in log s at a and b, in z at a and b, and in the log length scales."""
        radial, dims = cast(Stationary, self.kernel), self._dims(a)
        factor, Q = self._factors(a, b)
        H = radial._radial_slope(Q.copy(), radial._radial(Q, dims), dims)
        H *= factor
        H *= G
        W = G * K
        dsa, dsb, dza, dzb = (np.empty(r[0].shape) for r in (a, b, a, b))
        d_scale = np.empty(dims)
        for c in range(dims):
            u, root, _ = self._column(a, b, c)
            spread = H * u
            drift = spread / root
            drift *= 2.0 * np.sqrt(2.0)
            spread *= u  # H Q_c
            d_scale[c] = -2.0 * spread.sum()
            # d log factor / d log s = 1/2 - s^2 / (s^2 + s'^2),   d Q_c / d log s = -2 Q_c s^2 / (s^2 + s'^2)
            spread *= 2.0
            spread += W
            for ds, s, axis in ((dsa, a[1][:, c, None], 1), (dsb, b[1][:, c], 0)):
                ds[:, c] = 0.5 * W.sum(axis=axis) - (spread * (s / root) ** 2).sum(axis=axis)
            dza[:, c], dzb[:, c] = drift.sum(axis=1), -drift.sum(axis=0)
        return dsa, dsb, dza, dzb, d_scale

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        dsa, dsb, _, _, d_log = self._adjoints(a, b, G, K)
        scale = np.asarray(self.kernel.lengthscale)
        d_scale = d_log / scale if scale.ndim else np.array([d_log.sum() / scale])
        shapes = np.zeros(self.kernel.flat.size - scale.size)
        own = np.zeros(0)
        if self.function is None:
            own = np.einsum("ij,ij->j", dsa, a[2]) + np.einsum("ij,ij->j", dsb, b[2])
            own = own if np.ndim(self.slope) else np.array([own.sum()])
        return np.concatenate([own, d_scale, shapes])

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        dsa, dsb, dza, dzb, _ = self._adjoints(a, b, G, K)
        return self._to_inputs(a, dsa, dza), self._to_inputs(b, dsb, dzb)

    def _to_inputs(self, rows: Rows, ds: Array, dz: Array) -> Array:
        through = (
            ds * self.slope
            if self.function is None
            else through_function(self.function, rows[2], ds / rows[1], type(self).__name__)
        )
        return cast(Array, dz / self.kernel.lengthscale + through)
