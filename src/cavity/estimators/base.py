"""What the estimators share: nested parameters, training rows, memory.

Models are immutable values, so `set_params(kernel__se__lengthscale=2.0)` puts an updated kernel in place of
the old one instead of changing it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from cavity.hyper import Array, Parametrized
from cavity.kernels import White
from cavity.kernels.base import Kernel

MATRICES_WHILE_FITTING = 3.0
"""n x n matrices alive while an objective and its gradient are evaluated: covariance, factor, and room for
tiles."""


class NestedParameters(BaseEstimator):  # type: ignore[misc]
    """get_params and set_params that reach into kernels, means and likelihoods by name."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of the estimator and, if `deep`, those of its parts, e.g. `kernel__se__lengthscale`."""
        params = cast("dict[str, Any]", super().get_params(deep=False))
        if deep:
            for name, value in list(params.items()):
                if isinstance(value, Parametrized):
                    params.update(
                        {f"{name}__{k.replace('.', '__')}": p.value for k, p in value._paths().items()}
                    )
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters; those of parts by their path, e.g. `kernel__se__lengthscale=2.0`."""
        direct = {k: v for k, v in params.items() if "__" not in k}
        super().set_params(**direct)
        nested: dict[str, dict[str, Any]] = {}
        for key, value in params.items():
            if "__" in key:
                name, _, path = key.partition("__")
                nested.setdefault(name, {})[path.replace("__", ".")] = value
        for name, changes in nested.items():
            part = getattr(self, name, None)
            if not isinstance(part, Parametrized):
                raise ValueError(
                    f"Invalid parameter {name!r} for estimator {self}. Valid parameters are: "
                    f"{sorted(self.get_params(deep=False))!r}; {name}={part!r} has no parameters of its own."
                )
            setattr(self, name, part.update(changes))
        return self


@dataclass(frozen=True)
class TrainingRows:
    """Rows as they enter the model: weight-zero rows left out, and, where rows repeat, one row with their
    total weight.

    A row of weight w is a likelihood factor to the power w, so w equal rows and one row of weight w are the
    same model. Rows are only put in a canonical order where weights or repeats make that necessary.

    Attributes
    ----------
    X, y : arrays
    weight : array (n,) or None
        None where all are one.
    index : array of int (n_original,)
        Row of X that stands for each original row; -1 where the weight is zero.
    """

    X: Array
    y: Array
    weight: Array | None
    index: NDArray[np.intp]

    @classmethod
    def of(cls, X: Array, y: Array, weight: Array | None, merge: bool = True) -> Self:
        """Canonical rows of checked data."""
        n = len(X)
        if weight is None:
            if not merge or not _has_repeats(X, y):
                return cls(X, y, None, np.arange(n))
            weight = np.ones(n)
        kept = np.flatnonzero(weight > 0)
        X, y, weight = X[kept], y[kept], weight[kept]
        index = np.full(n, -1, dtype=np.intp)
        if not merge:
            index[kept] = np.arange(len(kept))
        else:
            both = np.column_stack([X, y])
            _, first, inverse = np.unique(both, axis=0, return_index=True, return_inverse=True)
            index[kept] = inverse.reshape(-1)
            weight = np.bincount(inverse.reshape(-1), weights=weight)
            X, y = X[first], y[first]
        return cls(X, y, None if np.all(weight == 1.0) else weight, index)


def _has_repeats(X: Array, y: Array) -> bool:
    both = np.ascontiguousarray(np.column_stack([X, y]))
    return len({row.tobytes() for row in both}) < len(both)


def contains_white(kernel: Kernel) -> bool:
    """Whether a kernel has noise that belongs to a case, so that equal rows are not interchangeable with
    one."""
    return isinstance(kernel, White) or any(contains_white(cast(Kernel, part)) for part in kernel.parts)


class TooLargeError(MemoryError, ValueError):
    """An exact fit would not fit into memory."""


def available_memory() -> float:
    """Bytes of memory that can be had now; infinite where the system does not say."""
    try:
        with open("/proc/meminfo") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return float(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES")) * float(os.sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError, AttributeError):
        return float("inf")


def require_memory(n: int) -> None:
    """Refuse an n x n problem that cannot fit, before anything is allocated."""
    needed, free = MATRICES_WHILE_FITTING * 8.0 * n * n, available_memory()
    if needed > free:
        fits = int(np.sqrt(free / (MATRICES_WHILE_FITTING * 8.0)))
        raise TooLargeError(
            f"an exact fit of {n} rows needs about {needed / 2**30:.1f} GiB, but {free / 2**30:.1f} GiB are free; "
            f"set max_rows={fits // 2} (a random subset of the rows), or fit on a machine with more memory"
        )
