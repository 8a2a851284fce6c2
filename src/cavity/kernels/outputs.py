"""Kernels of several outputs: the first column says which output a row is of, the others are its inputs.

    Coregionalized   k = B[o, o'] k_1(x, x'),   B = loadings loadings' + diag(variances)
    Convolved        outputs are one white noise, smoothed by a Gaussian of each output's own width

Sums of `Coregionalized` kernels are the linear model of coregionalization (Rasmussen and Williams, 2006, section 9.1).
Rows that were not seen are left out, and cost nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from cavity.kernels.base import Kernel, Rows
from cavity.kernels.categorical import Categorical
from cavity.kernels.distances import difference
from cavity.numerics.arrays import Array
from cavity.parameters.param import IDENTITY, LOG, Transform
from cavity.parameters.units import Unit
from cavity.runtime.checks import require_integer
from cavity.runtime.errors import InputError


def as_correlations(table: Array) -> Array:
    """A covariance matrix as correlations."""
    sd = np.sqrt(np.diag(table))
    return np.asarray(table / np.multiply.outer(sd, sd))


class Coregionalized(Kernel):
    """Outputs that are sums of shared functions, k = B[o, o'] k_1(x, x'), B = loadings loadings' + diag(variances).

    Parameters
    ----------
    kernel : Kernel
        k_1, of the inputs.
    outputs : int
        Number m of outputs; the first column holds 0 .. m - 1.
    rank : int
        Number of functions that outputs share.
    loadings : array (m, rank), optional
        How much of each function is in each output; signs and rotations do not matter, `table` does.
    variances : array (m,), optional
        Of what an output has for itself.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.kernels import SE, Coregionalized
    >>> kernel = Coregionalized(SE(1.0), 2, loadings=[[1.0], [0.8]], variances=[0.1, 0.2])
    >>> kernel([[0, 0.5], [1, 0.5]]).round(3)  # both outputs at one input
    array([[1.1 , 0.8 ],
           [0.8 , 0.84]])
    >>> print(kernel.correlations.round(2))
    [[1.   0.83]
     [0.83 1.  ]]
    """

    _widenable = False

    def __init__(
        self, kernel: Kernel, outputs: int, rank: int = 1, *, loadings: Any = None, variances: Any = None
    ) -> None:
        if not isinstance(kernel, Kernel):
            raise ValueError(f"Coregionalized takes a kernel, got {kernel!r}")
        count = require_integer(outputs, "Coregionalized: outputs", 2)
        q = require_integer(rank, "Coregionalized: rank", 1)
        if loadings is None:  # different for each function, and no two of them opposite
            loadings = np.cos(np.pi * np.multiply.outer(np.arange(count) + 0.5, np.arange(q)) / count)
        self._set_up({}, (Categorical(count, loadings=loadings, variances=variances), kernel))

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return len(self.table)

    @property
    def loadings(self) -> Any:
        """Of the functions that outputs share, (m, rank); a constructor's argument, with its flags."""
        return self._parts[0].params["loadings"]

    @property
    def variances(self) -> Any:
        """Of what outputs have for themselves; a constructor's argument, with its flags."""
        return self._parts[0].params["variances"]

    @property
    def kernel(self) -> Kernel:
        """Of the inputs."""
        return cast(Kernel, self._parts[1])

    @property
    def _table(self) -> Categorical:
        return cast(Categorical, self._parts[0])

    @property
    def table(self) -> Array:
        """Covariances of the outputs at one input, B, shape (m, m)."""
        return self._table.table

    @property
    def correlations(self) -> Array:
        """Correlations of the outputs at one input, shape (m, m)."""
        return as_correlations(self.table)

    def _arguments(self) -> list[str]:
        own = ", ".join(self._table._arguments()[1:])
        return [repr(self.kernel), str(self.outputs), own]

    def bind(self, n_features: int, feature_names: Sequence[str] | None = None) -> Self:
        """The kernel inside is bound to the columns after the first."""
        self._check_width(n_features)
        names = None if feature_names is None else list(feature_names)[1:]
        return self._rebuild({}, (self._table.bind(1), self.kernel.bind(n_features - 1, names)))

    def _check_width(self, n_features: int) -> None:
        if n_features < 2:
            raise InputError(
                "a kernel of several outputs needs a column that says which, and inputs; there is one column",
                parameter="X",
            )
        self.kernel._check_width(n_features - 1)

    def _prepare(self, X: Array, ids: NDArray[np.intp]) -> Rows:
        self._check_width(X.shape[1])
        inputs = np.ascontiguousarray(X[:, 1:])
        return self._table._prepare(X[:, :1], ids), self.kernel._prepare(inputs, ids)

    def _block(self, a: Rows, b: Rows) -> Array:
        K = self.kernel._block(a[1], b[1])
        K *= self._table._block(a[0], b[0])
        return K

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        T, inner = self._table._block(a[0], b[0]), self.kernel._block(a[1], b[1])
        return np.concatenate(
            [self._table._pull(a[0], b[0], G * inner, T), self.kernel._pull(a[1], b[1], G * T, inner)]
        )

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        T, inner = self._table._block(a[0], b[0]), self.kernel._block(a[1], b[1])
        dA, dB = self.kernel._pull_inputs(a[1], b[1], G * T, inner)
        return _with_output(dA), _with_output(dB)

    def _diag(self, a: Rows) -> Array:
        return self._table._diag(a[0]) * self.kernel._diag(a[1])

    def _pull_diag(self, a: Rows, g: Array) -> Array:
        T, inner = self._table._diag(a[0]), self.kernel._diag(a[1])
        return np.concatenate([self._table._pull_diag(a[0], g * inner), self.kernel._pull_diag(a[1], g * T)])

    def _pull_diag_inputs(self, a: Rows, g: Array) -> Array:
        return _with_output(self.kernel._pull_diag_inputs(a[1], g * self._table._diag(a[0])))


def _with_output(d: Array) -> Array:
    """Cotangents of the inputs, with none of the output."""
    return np.hstack([np.zeros((len(d), 1)), d])


class Convolved(Kernel):
    """Outputs that are one white noise smoothed by Gaussians, h_o(x) = amplitude_o exp(-x^2 / (2 lengthscale_o^2)).

        k = v v' prod_d sqrt(2 pi) l l' / sqrt(l^2 + l'^2) exp(-(x_d - x'_d)^2 / (2 (l^2 + l'^2)))

    Unlike `Coregionalized` outputs may be smooth on different scales and correlated all the same.

    Parameters
    ----------
    lengthscales : array (m,)
        Width of each output's smoothing, the same in all columns.
    amplitudes : array (m,)
        Of either sign; as many as length scales, for outputs 0 .. m - 1 in the first column.

    Examples
    --------
    >>> from cavity.kernels import Convolved
    >>> Convolved([0.5, 1.0], [1.0, 0.7])([[0, 0.0]], [[1, 0.5]]).round(6)
    array([[0.710025]])
    """

    _transforms: ClassVar[dict[str, Transform]] = {"lengthscales": LOG, "amplitudes": IDENTITY}
    _units: ClassVar = {"lengthscales": Unit.GIVEN, "amplitudes": Unit.GIVEN}
    _widenable = False

    def __init__(self, lengthscales: Any = (1.0, 1.0), amplitudes: Any = (1.0, 1.0)) -> None:
        self._set_up({"lengthscales": lengthscales, "amplitudes": amplitudes})

    def _check(self) -> None:
        shapes = np.shape(self.lengthscales), np.shape(self.amplitudes)
        if len(shapes[0]) != 1 or shapes[0] != shapes[1] or shapes[0][0] < 2:
            raise ValueError(
                f"Convolved: lengthscales and amplitudes must be one number for each output, got shapes {shapes[0]} "
                f"and {shapes[1]}"
            )

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return len(self.lengthscales)

    def _prepare(self, X: Array, ids: NDArray[np.intp]) -> Rows:
        if X.shape[1] < 2:
            raise InputError("Convolved needs a column that says which output, and inputs", parameter="X")
        code = Categorical(self.outputs)._prepare(X[:, :1], ids)[0]
        return code, np.ascontiguousarray(X[:, 1:])

    def _tables(self, D: int) -> tuple[Array, Array]:
        """Covariances at one input, and l^2 + l'^2, both (m, m)."""
        scale, v = self.lengthscales, self.amplitudes
        return np.multiply.outer(v, v) * self._overlap(D), np.add.outer(scale**2, scale**2)

    def _parts_of(self, a: Rows, b: Rows) -> tuple[Array, Array, Array, Array]:
        """Squared distances, widths, what is left at that distance, and covariances at one input."""
        table, width = self._tables(a[1].shape[1])
        r2 = np.zeros((len(a[0]), len(b[0])))
        for c in range(a[1].shape[1]):
            d = difference(a[1][:, c], b[1][:, c])
            d *= d
            r2 += d
        pair = np.ix_(a[0], b[0])
        return r2, width[pair], np.exp(-0.5 * r2 / width[pair]), table[pair]

    def _block(self, a: Rows, b: Rows) -> Array:
        _, _, left, table = self._parts_of(a, b)
        left *= table
        return left

    def _gather(self, shared: Array, spread: Array, D: int) -> Array:
        """From sums over pairs of outputs of G K / (v v'), and of G K r2, to the gradient."""
        scale, v = self.lengthscales, self.amplitudes
        width = np.add.outer(scale**2, scale**2)
        S = shared * np.multiply.outer(v, v)
        # d log k / dl = D / l - D l / (l^2 + l'^2) + r2 l / (l^2 + l'^2)^2
        slope = D * S / scale[:, None] - scale[:, None] * (D * S / width - spread / width**2)
        other = D * S / scale - scale * (D * S / width - spread / width**2)
        d_amplitudes = shared @ v + shared.T @ v
        return np.concatenate([slope.sum(axis=1) + other.sum(axis=0), d_amplitudes])

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        r2, _, left, _ = self._parts_of(a, b)
        v, D = self.amplitudes, a[1].shape[1]
        each = np.eye(self.outputs)
        W = G * left * self._overlap(D)[np.ix_(a[0], b[0])]
        sides = each[a[0]].T, each[b[0]]
        shared, spread = sides[0] @ W @ sides[1], sides[0] @ (W * r2) @ sides[1]
        return self._gather(shared, spread * np.multiply.outer(v, v), D)

    def _overlap(self, D: int) -> Array:
        scale = self.lengthscales
        return np.asarray(
            (
                np.sqrt(2.0 * np.pi)
                * np.multiply.outer(scale, scale)
                / np.sqrt(np.add.outer(scale**2, scale**2))
            )
            ** D
        )

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        _, width, left, table = self._parts_of(a, b)
        W = -G * left * table / width
        dA = W.sum(axis=1)[:, None] * a[1] - W @ b[1]
        dB = W.sum(axis=0)[:, None] * b[1] - W.T @ a[1]
        return _with_output(dA), _with_output(dB)

    def _diag(self, a: Rows) -> Array:
        return np.diag(self._tables(a[1].shape[1])[0])[a[0]]

    def _pull_diag(self, a: Rows, g: Array) -> Array:
        D = a[1].shape[1]
        own = np.bincount(a[0], weights=g, minlength=self.outputs) * np.diag(self._overlap(D))
        sums = np.diag(np.asarray(own, dtype=float))
        return self._gather(sums, np.zeros_like(sums), D)

    def _pull_diag_inputs(self, a: Rows, g: Array) -> Array:
        return np.zeros((len(a[0]), a[1].shape[1] + 1))
