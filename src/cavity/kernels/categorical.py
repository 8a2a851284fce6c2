"""A kernel on categories: one column of codes, compared by level and not by distance.

Two forms:

    exchangeable      k = 1 for the same level, c for different ones,    -1/(m-1) < c < 1 for m levels
    coregionalized    k = B[level, level'],  B = loadings loadings' + diag(variances)

The lower limit of c is where the m x m matrix stops being positive semi-definite. Without declared levels any
code may turn up later, so c must then be positive, which is valid for every m.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from cavity.kernels.base import Kernel, Rows
from cavity.numerics.arrays import Array
from cavity.parameters.param import IDENTITY, LOG, UNIT, Logit, Transform
from cavity.parameters.units import Unit


class Categorical(Kernel):
    """Categories in one column of codes: k = 1 for equal levels, `correlation` otherwise; or a learned table.

    Parameters
    ----------
    levels : int or sequence of numbers, optional
        The codes that may occur: a count m for 0 .. m-1, or the codes themselves. Without it any code is
        allowed, and a level never seen in training is related to the others by `correlation`.
    correlation : float or Param, optional
        Correlation of different levels (no unit), default 0.5; between -1/(m-1) and 1 if m levels are
        declared, between 0 and 1 otherwise.
    loadings : array (m, q), optional
        With it the table of covariances is loadings loadings' + diag(variances) instead.
    variances : float or array (m,), optional
        Variance of each level on its own, default 1; only with loadings.

    Examples
    --------
    >>> from cavity.kernels import Categorical
    >>> Categorical(3, correlation=-0.25)([[0.0], [2.0]])
    array([[ 1.  , -0.25],
           [-0.25,  1.  ]])
    """

    _transforms: ClassVar[dict[str, Transform]] = {
        "correlation": UNIT,
        "loadings": IDENTITY,
        "variances": LOG,
    }
    _units: ClassVar = {"variances": Unit.VARIANCE}
    _single = ("correlation",)
    _input_columns = 1
    _widenable = False

    def __init__(
        self, levels: int | Sequence[float] | None = None, correlation: Any = None, *, loadings: Any = None,
        variances: Any = None,
    ) -> None:  # fmt: skip
        self.levels = _as_levels(levels)
        if loadings is None:
            if variances is not None:
                raise ValueError(
                    "Categorical: variances are for the form with loadings; give loadings as well"
                )
            if self.levels is not None:
                low = -1.0 / (len(self.levels) - 1)
                self._transforms = {**type(self)._transforms, "correlation": Logit(low, 1.0)}  # type: ignore[misc]
            self._set_up({"correlation": 0.5 if correlation is None else correlation})
            return
        if correlation is not None:
            raise ValueError("Categorical: give a correlation or loadings, not both")
        if self.levels is None:
            raise ValueError(
                "Categorical: the form with loadings needs the levels, e.g. Categorical(3, loadings=...)"
            )
        start = np.ones(len(self.levels)) if variances is None else variances
        self._set_up({"loadings": loadings, "variances": start})

    def _check(self) -> None:
        super()._check()
        if "loadings" not in self._params:
            return
        m = len(cast("tuple[float, ...]", self.levels))
        if np.ndim(self.loadings) != 2 or len(self.loadings) != m:
            shape = np.shape(self.loadings)
            raise ValueError(
                f"Categorical: loadings must have one row for each of the {m} levels, got shape {shape}"
            )
        if np.ndim(self.variances) and np.shape(self.variances) != (m,):
            shape = np.shape(self.variances)
            raise ValueError(
                f"Categorical: variances must be one number or one per level ({m}), got shape {shape}"
            )

    def _arguments(self) -> list[str]:
        listed = super()._arguments()
        if self.levels is None:
            return listed
        if self.levels == tuple(range(len(self.levels))):
            return [str(len(self.levels)), *listed]
        return [repr([int(v) if v == int(v) else v for v in self.levels]), *listed]

    @property
    def table(self) -> Array:
        """Covariances between the declared levels, shape (m, m)."""
        if self.levels is None:
            raise ValueError("Categorical: there is no table without declared levels")
        m = len(self.levels)
        if "loadings" in self._params:
            return cast(Array, self.loadings @ self.loadings.T + np.diag(np.broadcast_to(self.variances, m)))
        return cast(Array, np.full((m, m), self.correlation) + (1.0 - self.correlation) * np.eye(m))

    def _prepare(self, X: Array, ids: NDArray[np.intp]) -> Rows:
        self._check_width(X.shape[1])
        x = X[:, 0]
        if self.levels is None:
            self._refuse(x, x != np.round(x), "codes must be whole numbers unless the levels are declared")
            return (x,)
        levels = np.array(self.levels)
        order = np.argsort(levels)
        place = np.minimum(np.searchsorted(levels[order], x), len(levels) - 1)
        code = order[place]
        known = ", ".join(f"{v:g}" for v in self.levels)
        self._refuse(x, levels[code] != x, f"the levels are {known}")
        return (code,)

    @staticmethod
    def _refuse(x: Array, wrong: NDArray[np.bool_], reason: str) -> None:
        if wrong.any():
            row = int(np.argmax(wrong))
            raise ValueError(f"Categorical: unknown level {x[row]:g} at row {row}; {reason}")

    def _block(self, a: Rows, b: Rows) -> Array:
        if "loadings" in self._params:
            return cast(Array, self.table[np.ix_(a[0], b[0])])
        return np.where(np.equal.outer(a[0], b[0]), 1.0, self.correlation)

    def _by_level(self, a: Rows, b: Rows, G: Array) -> Array:
        """Sum of G over the cases of each pair of levels, shape (m, m)."""
        each = np.eye(len(cast("tuple[float, ...]", self.levels)))
        return each[a[0]].T @ G @ each[b[0]]

    def _gather(self, S: Array) -> Array:
        """From the cotangent S of the table to the gradient in loadings and variances."""
        diagonal = np.diag(S)
        own = diagonal if np.ndim(self.variances) else np.array([diagonal.sum()])
        return np.concatenate([((S + S.T) @ self.loadings).ravel(), own])

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        if "loadings" in self._params:
            return self._gather(self._by_level(a, b, G))
        return np.array([G.sum(where=np.not_equal.outer(a[0], b[0]))])

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        return np.zeros((len(a[0]), 1)), np.zeros((len(b[0]), 1))  # codes do not move continuously

    def _diag(self, a: Rows) -> Array:
        if "loadings" in self._params:
            return np.diag(self.table)[a[0]]
        return np.ones(len(a[0]))

    def _pull_diag(self, a: Rows, g: Array) -> Array:
        if "loadings" in self._params:
            return self._gather(np.diag(np.bincount(a[0], weights=g, minlength=len(self.loadings))))
        return np.zeros(1)

    def _pull_diag_inputs(self, a: Rows, g: Array) -> Array:
        return np.zeros((len(a[0]), 1))


def _as_levels(levels: Any) -> tuple[float, ...] | None:
    """Codes of the levels, checked."""
    if levels is None:
        return None
    if isinstance(levels, int | np.integer) and not isinstance(levels, bool):
        levels = range(int(levels))
    try:
        codes = tuple(float(v) for v in levels)
    except (TypeError, ValueError):
        raise ValueError(
            f"Categorical: levels must be a count or a list of numeric codes, got {levels!r}"
        ) from None
    if len(codes) < 2 or len(set(codes)) < len(codes) or not np.isfinite(codes).all():
        raise ValueError(
            f"Categorical: levels must be two or more different finite codes, got {list(codes)!r}"
        )
    return codes
