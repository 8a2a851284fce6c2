"""What kind of number a target is, read off its values alone, and the likelihoods that suit each kind.

few values    up to ten neighboring whole numbers, each of them often: ordered categories
counts        whole numbers from zero on, small enough that their being whole matters
share         between 0 and 1, or 0 and 100, and close to both ends
positive      from zero on, over more than a factor of two
real          anything else
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from cavity.likelihoods import (
    Clipped,
    Gaussian,
    IntervalWarp,
    Likelihood,
    OrdinalProbit,
    PositiveWarp,
    WarpedTarget,
    as_likelihood,
)
from cavity.likelihoods.registry import BY_NAME
from cavity.numerics.arrays import Array
from cavity.runtime.errors import InputError

FEW_VALUES = 10
"""Most different values of ordered categories."""

ROWS_PER_VALUE = 5
"""Fewest rows for each of them, on average."""

SMALL_COUNT = 30.0
"""Median of whole numbers up to which a density over all numbers is no good approximation."""

NEAR_AN_END = 0.1
"""Part of the range of a share within which the smallest and the largest target must be of its ends."""

WIDE_RANGE = 2.0
"""Ratio of large and small positive targets beyond which noise may grow with them."""

FEWEST_ROWS = 10
"""Rows below which a range says nothing."""


class Kind(Enum):
    """Of a target."""

    REAL = "real numbers"
    POSITIVE = "positive numbers"
    SHARE = "shares"
    COUNT = "counts"
    FEW = "a few neighboring whole numbers"


@dataclass(frozen=True)
class TargetKind:
    """A kind, and the range of its values."""

    kind: Kind
    lower: float = -np.inf
    upper: float = np.inf

    @property
    def words(self) -> str:
        """What the targets look like, as a clause."""
        if self.kind is Kind.SHARE:
            return "percentages" if self.upper == 100.0 else "shares between 0 and 1"
        if self.kind is Kind.FEW:
            return f"whole numbers from {self.lower:g} to {self.upper:g}, each of them often"
        return str(self.kind.value)


def kind_of(y: Array) -> TargetKind:
    """The kind of targets (n,).

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.learning.choice.kinds import kind_of
    >>> kind_of(np.array([0.0, 3, 1, 0, 12, 2, 5, 1, 0, 7, 4])).kind.name
    'COUNT'
    """
    low, high, n = float(np.min(y)), float(np.max(y)), len(y)
    if n < FEWEST_ROWS or low < 0.0 or low == high:
        return TargetKind(Kind.REAL)
    whole = bool(np.all(y == np.round(y)))
    values = np.unique(y)
    if whole and len(values) == high - low + 1 and len(values) <= min(FEW_VALUES, n / ROWS_PER_VALUE):
        return TargetKind(Kind.FEW, low, high)
    if whole and float(np.median(y)) <= SMALL_COUNT and np.gcd.reduce(values.astype(np.int64)) == 1:
        return TargetKind(Kind.COUNT, 0.0)
    for end in (1.0, 100.0):
        if low <= NEAR_AN_END * end and (1.0 - NEAR_AN_END) * end <= high <= end:
            return TargetKind(Kind.SHARE, 0.0, end)
    small, large = np.quantile(y, [0.05, 0.95])
    if large > WIDE_RANGE * small:
        return TargetKind(Kind.POSITIVE, 0.0)
    return TargetKind(Kind.REAL)


# --- likelihoods that are made for some targets -------------------------------------------------------------


def positive(y: Array) -> Likelihood:
    """Gaussian noise of positive targets, between proportional and constant; zeros are half the smallest other."""
    above = y[y > 0]
    if np.any(y < 0) or not len(above):
        raise InputError(f"must be positive, got {float(np.min(y)):g}", parameter="y", row=int(np.argmin(y)))
    shift = 0.5 * float(above.min()) if len(above) < len(y) else 0.0
    return WarpedTarget(Gaussian(), PositiveWarp(center=float(np.median(above)), shift=shift))


def share(y: Array) -> Likelihood:
    """Gaussian noise of the logit of targets between 0 and 1, or 0 and 100; ends are half of the nearest other."""
    end = 1.0 if np.max(y) <= 1.0 else 100.0
    if np.min(y) < 0.0 or np.max(y) > end:
        wrong = int(np.argmin(y) if np.min(y) < 0 else np.argmax(y))
        raise InputError(f"must be between 0 and 1, or 0 and 100, got {y[wrong]:g}", parameter="y", row=wrong)
    inside = y[(y > 0) & (y < end)] / end
    nearest = float(np.min(np.minimum(inside, 1 - inside))) if len(inside) else 0.5
    touched = len(inside) < len(y)
    squeeze = 0.5 * max(nearest, 0.5 / len(y)) if touched else 0.0
    return WarpedTarget(Gaussian(), IntervalWarp(0.0, end, squeeze=min(squeeze, 0.05)))


def ordinal(y: Array) -> Likelihood:
    """Ordered categories from the smallest to the largest target."""
    if not np.all(y == np.round(y)) or np.ptp(y) > 1000 or np.ptp(y) < 1:
        raise InputError("must be a few neighboring whole numbers for ordered categories", parameter="y")
    shares = np.array([np.mean(y <= k) for k in np.arange(np.min(y), np.max(y))])
    from scipy.special import ndtri

    thresholds = np.sqrt(2.0) * ndtri(np.clip(shares, 0.5 / len(y), 1 - 0.5 / len(y)))
    thresholds = thresholds + 1e-3 * np.arange(
        len(thresholds)
    )  # categories that were not seen have some width
    return OrdinalProbit(thresholds, lowest=int(np.min(y)))


def clipped(kind: TargetKind) -> Likelihood:
    """Gaussian noise whose predictions do not leave the range."""
    return WarpedTarget(Gaussian(), Clipped(kind.lower, kind.upper))


MADE_FOR: dict[str, Callable[[Array], Likelihood]] = {
    "positive": positive,
    "share": share,
    "ordinal": ordinal,
}
"""Names of likelihoods that depend on the targets."""


def likelihood_for(spec: Any, y: Array) -> Likelihood:
    """A likelihood from its name, or from itself, for these targets."""
    if isinstance(spec, str) and spec in MADE_FOR and y.ndim == 1:
        return MADE_FOR[spec](y)
    if isinstance(spec, str) and spec not in BY_NAME:
        names = ", ".join(map(repr, ("auto", *BY_NAME, *MADE_FOR)))
        raise InputError(
            f"must be a Likelihood or one of {names}, got {spec!r}", parameter="likelihood", value=spec
        )
    return as_likelihood(spec)
