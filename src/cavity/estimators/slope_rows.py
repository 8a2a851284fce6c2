"""Slopes that were observed beside values, as rows of a model: `GPRegressor.fit(X, y, slopes=..., slope_signs=...)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from cavity.gp import GP
from cavity.kernels import WithSlopes, slopes, values
from cavity.kernels.base import as_inputs
from cavity.likelihoods import Gaussian, Likelihood, Probit, Switch
from cavity.means import as_mean, with_slopes
from cavity.numerics.arrays import Array
from cavity.parameters.per_latent import PerLatent
from cavity.runtime.errors import InputError

VALUES, SLOPES, SIGNS = 0.0, 1.0, 2.0
"""Kinds of rows."""

SOFTNESS = 0.01
"""Slope at which a sign is still in doubt, beside the typical slope of the function."""


@dataclass(frozen=True)
class SlopeRows:
    """Rows that observe slopes, their targets, and which kinds there are."""

    X: Array
    y: Array
    kinds: tuple[float, ...]

    @classmethod
    def of(cls, X: Array, y: Array, given: Any, signs: Any) -> Self | None:
        """Rows of observed slopes and of signs of slopes; None if there are none."""
        if given is None and signs is None:
            return None
        if y.ndim > 1:
            raise InputError("is for one target", parameter="slopes", remedy="fit one model for each target")
        rows, targets, kinds = [], [], []
        if given is not None:
            where, found = _observed(given, X.shape[1])
            rows.append(where)
            targets.append(found)
            kinds.append(SLOPES)
        if signs is not None:
            where, found = _signed(signs, X, y)
            rows.append(where)
            targets.append(found)
            kinds.append(SIGNS)
        return cls(np.vstack(rows), np.concatenate(targets), tuple(kinds))

    def after(self, X: Array, y: Array, weight: Array | None) -> tuple[Array, Array, Array | None]:
        """All rows: values first, then slopes."""
        if weight is not None:
            weight = np.concatenate([weight, np.ones(len(self.y))])
        return np.vstack([values(X, VALUES), self.X]), np.concatenate([y, self.y]), weight

    def model(self, model: GP, inference: Any) -> GP:
        """A model of values as one of values and slopes."""
        if isinstance(model.kernel, PerLatent):
            raise InputError("is for likelihoods of one latent function", parameter="slopes")
        noise: dict[float, Likelihood] = {VALUES: model.likelihood}
        if SLOPES in self.kinds:
            noise[SLOPES] = Gaussian(1.0)
        if SIGNS in self.kinds:
            noise[SIGNS] = Probit()
        wide = WithSlopes(model.kernel), Switch(noise, by=-1), with_slopes(as_mean(model.mean))
        return GP(*wide, inference, model.representation).bind(self.X.shape[1])


def _inputs(X: Any, columns: int, name: str) -> Array:
    x = as_inputs(X, f"X of {name}")
    if x.shape[1] != columns:
        raise InputError(f"must be at inputs of {columns} columns as X has, got {x.shape[1]}", parameter=name)
    return x


def _observed(given: Any, columns: int) -> tuple[Array, Array]:
    """Rows and targets of (X, gradients) or (X, slopes, direction)."""
    if not isinstance(given, tuple | list) or len(given) not in (2, 3):
        raise InputError(
            "must be (X, gradients) with a number for each column, NaN where none was seen, or (X, slopes, direction)",
            parameter="slopes",
        )
    x = _inputs(given[0], columns, "slopes")
    seen = np.asarray(given[1], dtype=float)
    if len(given) == 3:
        if seen.shape != (len(x),):
            raise InputError(
                f"must be one number for each of its {len(x)} rows, got shape {seen.shape}",
                parameter="slopes",
            )
        rows, targets = slopes(x, given[2], SLOPES), seen
    else:
        table = seen[:, None] if seen.ndim == 1 and columns == 1 else seen
        if table.shape != x.shape:
            raise InputError(
                f"must be gradients of shape {x.shape}, one number for each column, got {seen.shape}",
                parameter="slopes",
                remedy="or give a direction: slopes=(X, slopes, direction)",
            )
        rows = np.vstack([slopes(x, d, SLOPES) for d in range(columns)])
        targets = table.T.ravel()
    there = ~np.isnan(targets)
    if np.isinf(targets).any() or not there.any():
        raise InputError(
            "must be finite numbers, or NaN where none was seen, and one at least", parameter="slopes"
        )
    return rows[there], targets[there]


def _signed(given: Any, X: Array, y: Array) -> tuple[Array, Array]:
    """Rows and labels of (X, direction, sign): whether f rises or falls."""
    if not isinstance(given, tuple | list) or len(given) != 3:
        raise InputError("must be (X, direction, sign), the sign 1 or -1", parameter="slope_signs")
    x = _inputs(given[0], X.shape[1], "slope_signs")
    signs = np.broadcast_to(np.asarray(given[2], dtype=float), len(x))
    if not np.isin(signs, (-1.0, 1.0)).all():
        raise InputError(
            f"must be 1 (rising) or -1 (falling), got {signs[~np.isin(signs, (-1.0, 1.0))][0]:g}",
            parameter="slope_signs",
        )
    rows = slopes(x, given[1], SIGNS)
    D, spread = X.shape[1], np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    directions = rows[:, D + 1 : -1]
    typical = (float(np.std(y)) or 1.0) * np.linalg.norm(directions / spread, axis=1)
    if not (typical > 0).all():
        raise InputError("must have directions that are not zero", parameter="slope_signs")
    rows[:, D + 1 : -1] = directions / (SOFTNESS * typical)[:, None]
    return rows, signs.copy()
