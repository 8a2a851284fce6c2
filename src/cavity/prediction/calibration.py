"""Calibration of probabilities: cases grouped by the probability that was stated, and how often the event happened."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cavity.numerics.arrays import Array


def reliability_bins(
    probability: ArrayLike, happened: ArrayLike, bins: int = 10
) -> tuple[Array, Array, NDArray[np.intp]]:
    """Mean stated probability, share in which the event happened, and number of cases, of each bin that has cases.

    Parameters
    ----------
    probability : array (n,)
    happened : array of bool (n,)
    bins : int
        Equal bins of [0, 1].
    """
    p, event = np.asarray(probability, dtype=float), np.asarray(happened, dtype=bool)
    group = np.minimum((p * bins).astype(int), bins - 1)
    count = np.bincount(group, minlength=bins)
    some = count > 0
    stated = np.bincount(group, weights=p, minlength=bins)[some] / count[some]
    hits = np.bincount(group, weights=event.astype(float), minlength=bins)[some]
    return stated, hits / count[some], count[some]


def expected_calibration_error(probability: ArrayLike, happened: ArrayLike, bins: int = 10) -> float:
    """Mean absolute difference of stated probability and observed share, over bins weighted by their cases.

    Examples
    --------
    >>> expected_calibration_error([0.75, 0.75, 0.75, 0.75], [True, True, True, False])
    0.0
    """
    stated, observed, count = reliability_bins(probability, happened, bins)
    return float(count @ np.abs(stated - observed) / count.sum())
