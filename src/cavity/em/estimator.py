"""What the estimators of this package share: the options of an EM fit, and checks of data and random states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from cavity.numerics.arrays import Array
from cavity.runtime.checks import generator


@dataclass(eq=False, repr=False, kw_only=True)
class EMEstimator(BaseEstimator):  # type: ignore[misc]
    """Options of an EM fit.

    Parameters
    ----------
    criterion : {"bic", "icl", "aic"}
        Criterion if the number of components or states is to be chosen from several.
    init : {"auto", "k-means++", "random"}
        Starting points; "auto" alternates, k-means++ first.
    n_init : int
        Number of starts; the best is kept, all are reported in `runs_`.
    max_iter, tol : EM steps at most, and the gain in log-likelihood per datum at which to stop.
    accelerate : bool
        SQUAREM extrapolation.
    ordering : {"means", None}
        Canonical order of components or states: by increasing mean (first feature first), or as EM left them.
    allow_nan : bool
        Integrate missing entries (NaN) out.
    n_jobs : int or None
        Threads.
    random_state : int, RandomState or None
    progress : bool
        Show a progress bar.
    """

    criterion: str = "bic"
    init: str = "auto"
    n_init: int = 1
    max_iter: int = 500
    tol: float = 1e-6
    accelerate: bool = False
    ordering: str | None = "means"
    allow_nan: bool = False
    n_jobs: int | None = None
    random_state: Any = None
    progress: bool = False

    def _check_rows(self, X: Any, reset: bool) -> Array:
        """X as numbers (n, D); missing entries only if they are announced."""
        x: Array = validate_data(
            self,
            X,
            reset=reset,
            dtype=np.float64,
            order="C",
            ensure_all_finite="allow-nan",
            ensure_min_samples=2 if reset else 1,
        )
        check_missing(x, self.allow_nan)
        if reset:
            check_observed(x)
        return x

    def _generator(self, random_state: Any) -> np.random.Generator:
        """NumPy generator from an int, Generator or RandomState; None stands for the estimator's own."""
        random_state = self.random_state if random_state is None else random_state
        return generator(random_state)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = bool(self.allow_nan)
        return tags


def check_missing(x: Array, allow_nan: bool) -> None:
    """Refuse NaN unless missing entries are announced."""
    if allow_nan:
        return
    missing = np.isnan(x)
    if missing.any():
        i, j = np.argwhere(missing)[0]
        raise ValueError(
            f"X contains NaN, first at row {i}, feature {j}: set allow_nan=True to integrate missing entries "
            "out, or remove them"
        )


def check_observed(x: Array) -> None:
    """Refuse training data with a feature that is missing in every row."""
    empty = np.flatnonzero(np.isnan(x).all(axis=0))
    if len(empty):
        raise ValueError(f"feature {int(empty[0])} of X is missing (NaN) in every row: remove it")
