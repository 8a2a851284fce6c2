"""Mean functions of rows that observe slopes: a m(x) + u . grad m(x), as `cavity.kernels.WithSlopes` has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, cast

import numpy as np

from cavity.means.basis import Basis
from cavity.means.basis_features import Features
from cavity.means.functions import Constant, Mean, Zero
from cavity.numerics.arrays import Array
from cavity.runtime.errors import InputError


def _split(X: Array) -> tuple[Array, Array, Array]:
    """Inputs, weights and directions of wide rows."""
    D = X.shape[1] // 2 - 1
    return X[:, :D], X[:, D], X[:, D + 1 : -1]


@dataclass(frozen=True)
class FeatureSlopes(Features):
    """Basis functions of wide rows: a h(x) + u . grad h(x)."""

    features: Features

    def __call__(self, X: Array) -> Array:
        """H, shape (n, p)."""
        x, a, u = _split(X)
        return np.asarray(
            a[:, None] * self.features(x) + np.einsum("npd,nd->np", self.features.jacobian(x), u)
        )

    def jacobian(self, X: Array) -> Array:
        """Not known: it takes second derivatives."""
        raise InputError("slopes of basis functions cannot be differentiated in the inputs")

    def width(self, n_features: int) -> int:
        """That of the functions themselves."""
        return self.features.width(n_features // 2 - 1)


class MeanWithSlopes(Mean):
    """A mean function of wide rows.

    Constants are learned as ever; other means must have no free parameters if some rows observe slopes.
    """

    def __init__(self, mean: Mean) -> None:
        self._set_up({}, (mean,))

    @property
    def mean(self) -> Mean:
        """Of values."""
        return cast(Mean, self._parts[0])

    def _arguments(self) -> list[str]:
        return [repr(self.mean)]

    def bind(self, n_features: int, feature_names: Sequence[str] | None = None) -> Self:
        """The mean inside is bound to the inputs alone."""
        return self._rebuild({}, (self.mean.bind(n_features // 2 - 1, feature_names),))

    def _values(self, X: Array) -> Array:
        x, a, u = _split(X)
        along = np.einsum("nd,nd->n", self.mean._pull_inputs(x, np.ones(len(x))), u) if u.any() else 0.0
        return np.asarray(a * self.mean._values(x) + along)

    def _pull(self, X: Array, g: Array) -> Array:
        x, a, u = _split(X)
        if u.any() and not isinstance(self.mean, Constant) and self.mean.theta.size:
            raise InputError(
                f"slopes of {self.mean!r} cannot be learned",
                parameter="mean",
                remedy="use 'zero', 'constant' or Basis(...) together with slopes",
            )
        return self.mean._pull(x, a * g)

    def _pull_inputs(self, X: Array, g: Array) -> Array:
        x, _, _ = _split(X)
        if not isinstance(self.mean, Constant):
            raise InputError(
                "slopes of a mean function cannot be differentiated in the inputs", parameter="mean"
            )
        out = np.zeros_like(X)
        out[:, X.shape[1] // 2 - 1] = g * self.mean._values(x)
        return out


def with_slopes(mean: Mean) -> Mean:
    """The mean function of rows of `cavity.kernels.values` and `slopes`, for one of values.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.kernels import slopes, values
    >>> from cavity.means import Constant, with_slopes
    >>> with_slopes(Constant(3.0)).bind(4)(np.vstack([values([[1.0]]), slopes([[1.0]])]))
    array([3., 0.])
    """
    if isinstance(mean, Zero):
        return mean
    if not isinstance(mean, Basis):
        return MeanWithSlopes(mean)
    if mean.offset is not None:
        raise InputError("slopes of a Basis with an offset are not known", parameter="mean")
    functions = [FeatureSlopes(f) for f in mean.functions]
    new = Basis(functions) if mean.vague else Basis(functions, mean._mean, mean._covariance)
    return new if mean.n_dims is None else new.bind(2 * mean.n_dims + 2)
