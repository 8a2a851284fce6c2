"""Any kernel made periodic by the warping u(x) = (cos, sin)(2 pi x / period) of each column.

Rasmussen and Williams (2006), eq. 4.31.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from cavity.kernels.base import Kernel, Rows
from cavity.kernels.cosine import TURN, phase
from cavity.kernels.state_space import Block, Factor, FactorKind, NoStateSpaceError, Quantity
from cavity.kernels.wrapper import Wrapper
from cavity.numerics.arrays import Array
from cavity.parameters.param import LOG, Transform


class Periodic(Wrapper):
    """Any kernel made periodic by the warping u(x) = (cos, sin)(2 pi x / period) of each column.

    `Periodic(SE(l))` is exp(-2 sin^2(pi (x - x') / period) / l^2): its length scale is measured on the
    circle of radius 1, not in units of the input. Vectors and `ard` inside hold one value per input column.

    Parameters
    ----------
    kernel : Kernel
        The base kernel, by default `SE(1.0)`.
    period : float, array (D,), `ard` or Param
        In units of the inputs.

    Examples
    --------
    >>> from cavity.kernels import SE, Periodic
    >>> k = Periodic(SE(1.3), period=1.0)
    >>> bool(abs(k([[0.25]], [[2025.25]])[0, 0] - 1.0) < 1e-14)
    True
    """

    _transforms: ClassVar[dict[str, Transform]] = {"period": LOG}
    _columnwise = ("period",)
    _widenable = False
    _approximately_markov = True
    _nearest_markov = "Seasonal(period, lengthscale, harmonics=6), with a constant"

    def __init__(self, kernel: Kernel | None = None, period: Any = 1.0) -> None:
        from cavity.kernels.squared_exponential import SE

        kernel = SE(1.0) if kernel is None else kernel
        self._set_up({"period": period}, (kernel,))

    @property
    def _homogeneous(self) -> bool:  # type: ignore[override]
        return self.kernel._homogeneous

    @cached_property
    def _wide(self) -> tuple[Kernel, NDArray[np.intp]]:
        """The base kernel on (cos, sin) of each column, and where its values come from."""
        return self.kernel._widened(2)

    def _state_space(self, states: int | None) -> tuple[Block, ...]:
        """Its mean over a period and one harmonic more than there are states (`Seasonal`), if the base is an SE."""
        from cavity.kernels.seasonal import periodic_spectrum
        from cavity.kernels.squared_exponential import SE

        base = self.kernel
        if states is None or not isinstance(base, SE) or self.flat.size != 2:
            raise NoStateSpaceError(self)
        size, period = self.flat.size, float(np.ravel(self.period)[0])
        found = []
        for j, (weight, slope) in enumerate(
            zip(*periodic_spectrum(float(np.ravel(base.lengthscale)[0]), states + 1))
        ):
            rate = Quantity.parameter(j * TURN / period, 0, size, -j * TURN / period**2)
            wave = (Factor(FactorKind.ROTATION, 0, rate),) if j else ()
            found.append(Block(Quantity.parameter(float(weight), 1, size, float(slope)), wave))
        return tuple(found)

    def _prepare(self, X: Array, ids: NDArray[np.intp]) -> Rows:
        self._check_width(X.shape[1])
        f = phase(X, self.period)
        U = np.empty((len(X), 2 * X.shape[1]))
        U[:, 0::2], U[:, 1::2] = np.cos(f), np.sin(f)
        return self._wide[0]._prepare(U, ids), U, X

    def _block(self, a: Rows, b: Rows) -> Array:
        return self._wide[0]._block(a[0], b[0])

    def _phase_pull(self, rows: Rows, dU: Array) -> Array:
        """From a cotangent of u = (cos f, sin f) to one of the phase f, shape (n, D)."""
        U = rows[1]
        return cast(Array, U[:, 0::2] * dU[:, 1::2] - U[:, 1::2] * dU[:, 0::2])

    def _gather(self, each: Array, wide_flat: Array) -> Array:
        """Flat gradient from the sum of f-cotangent times x per column, and the wide kernel's gradient."""
        period, source = np.asarray(self.period), self._wide[1]
        d_period = -TURN * each / period**2
        own = d_period if period.ndim else np.array([d_period.sum()])
        return np.concatenate([own, np.bincount(source, wide_flat, minlength=self.kernel.flat.size)])

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        wide = self._wide[0]
        dUa, dUb = wide._pull_inputs(a[0], b[0], G, K)
        fa, fb = self._phase_pull(a, dUa), self._phase_pull(b, dUb)
        each = np.einsum("ij,ij->j", fa, a[2]) + np.einsum("ij,ij->j", fb, b[2])
        return self._gather(each, wide._pull(a[0], b[0], G, K))

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        dUa, dUb = self._wide[0]._pull_inputs(a[0], b[0], G, K)
        rate = TURN / np.asarray(self.period)
        return self._phase_pull(a, dUa) * rate, self._phase_pull(b, dUb) * rate

    def _diag(self, a: Rows) -> Array:
        return self._wide[0]._diag(a[0])

    def _pull_diag(self, a: Rows, g: Array) -> Array:
        wide = self._wide[0]
        f = self._phase_pull(a, wide._pull_diag_inputs(a[0], g))
        return self._gather(np.einsum("ij,ij->j", f, a[2]), wide._pull_diag(a[0], g))

    def _pull_diag_inputs(self, a: Rows, g: Array) -> Array:
        f = self._phase_pull(a, self._wide[0]._pull_diag_inputs(a[0], g))
        return f * (TURN / np.asarray(self.period))
