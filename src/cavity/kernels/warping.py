"""Kernels on transformed inputs or outputs (book sections 4.2.3 and 4.2.4).

Warped       k = k_1(u(x), u(x'))                            a function u of the inputs
Periodic     the same, u(x) = (cos, sin)(2 pi x / period)    any kernel made periodic
Rescaled     k = s(x) k_1(x, x') s(x')                       an amplitude that depends on the input
Normalized   k = k_1(x, x') / sqrt(k_1(x, x) k_1(x', x'))    variance 1 everywhere
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from cavity.kernels.base import Kernel, Rows
from cavity.kernels.functions import InputFunction, as_function
from cavity.kernels.spectral import TURN, phase
from cavity.numerics.arrays import Array
from cavity.parameters.param import LOG, Transform


class _Wrapper(Kernel):
    """A kernel around one other kernel."""

    @property
    def kernel(self) -> Kernel:
        """The kernel inside."""
        return cast(Kernel, self._parts[0])

    def _require_kernel(self, kernel: Any) -> None:
        if not isinstance(kernel, Kernel):
            raise ValueError(f"{type(self).__name__} takes a kernel, got {kernel!r}")


class _Functional(_Wrapper):
    """A kernel around another one and a function of the inputs."""

    _widenable = False

    def __init__(
        self, kernel: Kernel, function: str | InputFunction, jacobian: InputFunction | None = None
    ) -> None:
        self._require_kernel(kernel)
        self.function = as_function(function, jacobian, type(self).__name__)
        self._set_up({}, (kernel,))

    def _arguments(self) -> list[str]:
        return [repr(self.kernel), repr(self.function)]

    def __eq__(self, other: object) -> bool:
        same = type(self) is type(other) and self.function == cast(Any, other).function
        return same and self.kernel == cast(Any, other).kernel

    __hash__ = Kernel.__hash__


class Warped(_Functional):
    """A kernel on transformed inputs, k(x, x') = k_1(u(x), u(x')).

    Parameters
    ----------
    kernel : Kernel
        k_1, on the columns that the function returns.
    function : str or callable
        u: inputs (n, D) to (n, E). A registered name ("log", "sqrt", ...; see `register_function`) can be
        printed and saved, a plain callable cannot.
    jacobian : callable, optional
        Inputs (n, D) to (n, E, D). Without it derivatives in the inputs are refused.

    Examples
    --------
    >>> from cavity.kernels import SE, Warped
    >>> k = Warped(SE(1.0), "log")
    >>> k([[1.0]], [[2.0]]).round(9) == k([[10.0]], [[20.0]]).round(9)
    array([[ True]])
    """

    def bind(self, n_features: int, feature_names: Sequence[str] | None = None) -> Self:
        """The inner kernel is bound to the columns that the function returns."""
        return self._rebuild({}, (self.kernel.bind(self.function.width(n_features)),))

    def _prepare(self, X: Array, ids: NDArray[np.intp]) -> Rows:
        return self.kernel._prepare(self.function(X, "Warped"), ids), X

    def _back(self, X: Array, dU: Array) -> Array:
        return cast(Array, np.einsum("ne,ned->nd", dU, self.function.slopes(X, dU.shape[1], "Warped")))

    def _block(self, a: Rows, b: Rows) -> Array:
        return self.kernel._block(a[0], b[0])

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        return self.kernel._pull(a[0], b[0], G, K)

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        dA, dB = self.kernel._pull_inputs(a[0], b[0], G, K)
        return self._back(a[1], dA), self._back(b[1], dB)

    def _diag(self, a: Rows) -> Array:
        return self.kernel._diag(a[0])

    def _pull_diag(self, a: Rows, g: Array) -> Array:
        return self.kernel._pull_diag(a[0], g)

    def _pull_diag_inputs(self, a: Rows, g: Array) -> Array:
        return self._back(a[1], self.kernel._pull_diag_inputs(a[0], g))


class Rescaled(_Functional):
    """Vertical rescaling, k(x, x') = s(x) k_1(x, x') s(x'): an amplitude that depends on the input.

    Parameters
    ----------
    kernel : Kernel
    function : str or callable
        s: inputs (n, D) to (n, 1) or (n,); any sign.
    jacobian : callable, optional
        Inputs (n, D) to (n, 1, D). Without it derivatives in the inputs are refused.

    Examples
    --------
    >>> from cavity.kernels import SE, Rescaled
    >>> Rescaled(SE(1.0), "sqrt")([[1.0], [4.0]]).round(3)
    array([[1.   , 0.022],
           [0.022, 4.   ]])
    """

    def _prepare(self, X: Array, ids: NDArray[np.intp]) -> Rows:
        s = self.function(X, "Rescaled")
        if s.shape[1] != 1:
            raise ValueError(f"Rescaled: {self.function!r} must return one value per row, got {s.shape[1]}")
        return self.kernel._prepare(X, ids), s[:, 0], X

    def _block(self, a: Rows, b: Rows) -> Array:
        K = self.kernel._block(a[0], b[0])
        K *= a[1][:, None]
        K *= b[1]
        return K

    def _inner(self, a: Rows, b: Rows, G: Array) -> tuple[Array, Array]:
        return G * a[1][:, None] * b[1], self.kernel._block(a[0], b[0])

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        return self.kernel._pull(a[0], b[0], *self._inner(a, b, G))

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        inner_G, inner_K = self._inner(a, b, G)
        dA, dB = self.kernel._pull_inputs(a[0], b[0], inner_G, inner_K)
        W = G * inner_K
        slope_a, slope_b = (self.function.slopes(r[2], 1, "Rescaled")[:, 0] for r in (a, b))
        return dA + (W @ b[1])[:, None] * slope_a, dB + (a[1] @ W)[:, None] * slope_b

    def _diag(self, a: Rows) -> Array:
        return cast(Array, a[1] ** 2 * self.kernel._diag(a[0]))

    def _pull_diag(self, a: Rows, g: Array) -> Array:
        return self.kernel._pull_diag(a[0], g * a[1] ** 2)

    def _pull_diag_inputs(self, a: Rows, g: Array) -> Array:
        own = (2.0 * g * a[1] * self.kernel._diag(a[0]))[:, None] * self.function.slopes(a[2], 1, "Rescaled")[
            :, 0
        ]
        return cast(Array, own + self.kernel._pull_diag_inputs(a[0], g * a[1] ** 2))


class Normalized(_Wrapper):
    """Variance 1 everywhere, k = k_1(x, x') / sqrt(k_1(x, x) k_1(x', x')).

    Parameters
    ----------
    kernel : Kernel
        Its variance must be positive at every input.

    Examples
    --------
    >>> from cavity.kernels import Linear, Normalized
    >>> Normalized(Linear())([[1.0], [2.0]]).round(3)
    array([[1.   , 0.949],
           [0.949, 1.   ]])
    """

    def __init__(self, kernel: Kernel) -> None:
        self._require_kernel(kernel)
        self._set_up({}, (kernel,))

    def _arguments(self) -> list[str]:
        return [repr(self.kernel)]

    def _prepare(self, X: Array, ids: NDArray[np.intp]) -> Rows:
        rows = self.kernel._prepare(X, ids)
        variance = self.kernel._diag(rows)
        if not (variance > 0).all():
            row = int(np.argmin(variance > 0))
            raise ValueError(
                f"Normalized: the variance of {self.kernel!r} is 0 at row {row}, x = {X[row].tolist()}"
            )
        return rows, variance, 1.0 / np.sqrt(variance)

    def _block(self, a: Rows, b: Rows) -> Array:
        K = self.kernel._block(a[0], b[0])
        K *= a[2][:, None]
        K *= b[2]
        if a is b:
            np.fill_diagonal(K, 1.0)
        return K

    def _cotangents(self, a: Rows, b: Rows, G: Array) -> tuple[Array, Array, Array, Array]:
        """Cotangent of k_1(a, b), k_1(a, b) itself, and cotangents of the variances at a and b."""
        inner_K = self.kernel._block(a[0], b[0])
        inner_G = G * a[2][:, None]
        inner_G *= b[2]
        W = inner_G * inner_K
        return inner_G, inner_K, -0.5 * W.sum(axis=1) / a[1], -0.5 * W.sum(axis=0) / b[1]

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        inner_G, inner_K, ga, gb = self._cotangents(a, b, G)
        pulled = self.kernel._pull(a[0], b[0], inner_G, inner_K)
        return pulled + self.kernel._pull_diag(a[0], ga) + self.kernel._pull_diag(b[0], gb)

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        inner_G, inner_K, ga, gb = self._cotangents(a, b, G)
        dA, dB = self.kernel._pull_inputs(a[0], b[0], inner_G, inner_K)
        return dA + self.kernel._pull_diag_inputs(a[0], ga), dB + self.kernel._pull_diag_inputs(b[0], gb)

    def _diag(self, a: Rows) -> Array:
        return np.ones(len(a[1]))

    def _pull_diag(self, a: Rows, g: Array) -> Array:
        return np.zeros(self.flat.size)

    def _pull_diag_inputs(self, a: Rows, g: Array) -> Array:
        return np.zeros_like(self.kernel._pull_diag_inputs(a[0], g))


class Periodic(_Wrapper):
    """Any kernel made periodic by the warping u(x) = (cos, sin)(2 pi x / period) of each column (book eq.
    4.31).

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

    def __init__(self, kernel: Kernel | None = None, period: Any = 1.0) -> None:
        from cavity.kernels.stationary import SE

        kernel = SE(1.0) if kernel is None else kernel
        self._require_kernel(kernel)
        self._set_up({"period": period}, (kernel,))

    def _arguments(self) -> list[str]:
        return [repr(self.kernel), *super()._arguments()]

    @property
    def _homogeneous(self) -> bool:  # type: ignore[override]
        return self.kernel._homogeneous

    @cached_property
    def _wide(self) -> tuple[Kernel, NDArray[np.intp]]:
        """The base kernel on (cos, sin) of each column, and where its values come from."""
        return self.kernel._widened(2)

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
