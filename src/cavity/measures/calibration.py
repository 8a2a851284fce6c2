"""Calibration: do predictions say as much as they should, no more and no less?

Regression. If y has the predicted distribution F, then F(y) is uniform (probability integral transform, PIT; Dawid
1984). For counts F jumps, and the mass of a case is spread evenly over [F(y - 1), F(y)] (Czado, Gneiting and Held
2009). The number of n cases in one of B bins is then binomial(n, 1 / B), which gives the band. Residuals are
z = Phi^-1(F(y)) (Dunn and Smyth 1996): (y - mean) / sd for normal predictions, and standard normal for a calibrated
model whatever the noise. The i-th smallest of n uniform numbers is beta(i, n + 1 - i), which gives the band of their
quantile-quantile plot.

Classification. Among cases to which probability p is given a share p should happen; observed shares have Wilson's
(1927) intervals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv, ndtri

from cavity.numerics.arrays import Array
from cavity.prediction import GaussianPrediction, Prediction
from cavity.prediction.calibration import reliability_bins
from cavity.runtime.checks import require_integer

# --- regression ---------------------------------------------------------------------------------------------


def pit(prediction: Prediction, y: ArrayLike, discrete: bool = False) -> tuple[Array, Array]:
    """P(Y < y) and P(Y <= y) under each case's prediction, (n,) each; the same for continuous predictions.

    >>> from cavity.prediction import GaussianPrediction
    >>> pit(GaussianPrediction([0.0], [4.0]), [0.0])[1]
    array([0.5])
    """
    high = np.asarray(prediction.cdf(y), dtype=float)
    if not discrete:
        return high, high
    return np.maximum(high - np.exp(prediction.log_prob(y)), 0.0), high


def pit_histogram(low: Array, high: Array, bins: int) -> Array:
    """Density of PIT values in equal bins of [0, 1], shape (bins,); its mean is one."""
    edges = np.linspace(0.0, 1.0, bins + 1)
    width = high - low
    point = width <= 0
    safe = np.where(point, 1.0, width)
    # share of each case's mass to the left of each edge
    spread = np.clip((edges[:, None] - low) / safe, 0.0, 1.0)
    index = np.minimum((high * bins).astype(int), bins - 1)
    step = (np.arange(bins + 1)[:, None] > index).astype(float)
    left = np.where(point, step, spread).mean(axis=1)
    return np.asarray(np.diff(left) * bins)


def pit_band(n: int, bins: int, level: float = 0.95) -> tuple[float, float]:
    """Central interval of the height of one bin if n cases are calibrated."""
    from scipy.stats import binom  # half a second to import

    tail = 0.5 * (1.0 - level)
    low, high = (float(binom.ppf(q, n, 1.0 / bins)) for q in (tail, 1.0 - tail))
    return low * bins / n, high * bins / n


def quantile_residuals(prediction: Prediction, y: ArrayLike, discrete: bool = False) -> Array:
    """z = Phi^-1(F(y)), (n,); for counts at the middle of the jump. Infinite if F(y) is 0 or 1 to all digits."""
    targets = np.asarray(y, dtype=float)
    if isinstance(prediction, GaussianPrediction):
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray((targets - prediction.mean) / prediction.sd)
    low, high = pit(prediction, targets, discrete)
    below = 0.5 * (low + high)
    above = 1.0 - below if discrete else np.asarray(prediction.survival(targets))
    return np.asarray(np.where(below <= 0.5, ndtri(below), -ndtri(above)))


def normal_order_band(n: int, level: float = 0.95) -> tuple[Array, Array, Array]:
    """Medians and central intervals of the order statistics of n standard normal numbers, (n,) each."""
    i = np.arange(1.0, n + 1.0)
    tail = 0.5 * (1.0 - level)
    low, middle, high = (
        np.asarray(ndtri(betaincinv(i, n + 1 - i, q)), dtype=np.float64) for q in (tail, 0.5, 1.0 - tail)
    )
    return middle, low, high


# --- classification -----------------------------------------------------------------------------------------


def wilson(successes: ArrayLike, n: ArrayLike, level: float = 0.95) -> tuple[Array, Array]:
    """Wilson's interval of a probability after some successes in n trials."""
    k, m = np.asarray(successes, dtype=float), np.asarray(n, dtype=float)
    z = float(ndtri(0.5 * (1.0 + level)))
    center = (k + 0.5 * z * z) / (m + z * z)
    half = z / (m + z * z) * np.sqrt(k * (m - k) / m + 0.25 * z * z)
    # at 0 and n successes the ends are 0 and 1 exactly
    return np.where(k == 0, 0.0, center - half), np.where(k == m, 1.0, center + half)


@dataclass(frozen=True)
class Reliability:
    """Stated probabilities and observed shares, of groups of cases with similar probabilities.

    Attributes
    ----------
    stated : array (k,)
        Mean probability of each group that has cases.
    observed : array (k,)
        Share in which the event happened.
    low, high : arrays (k,)
        Interval of the observed share.
    count : array of int (k,)
    """

    stated: Array
    observed: Array
    low: Array
    high: Array
    count: NDArray[np.intp]


def reliability(
    probability: ArrayLike, happened: ArrayLike, bins: int = 10, level: float = 0.95
) -> Reliability:
    """Group cases by probability in equal bins of [0, 1]; bins without cases are left out.

    >>> found = reliability([0.1, 0.1, 0.9, 0.9], [False, False, True, False], bins=2)
    >>> found.observed
    array([0. , 0.5])
    """
    require_integer(bins, "bins", 1)
    stated, observed, count = reliability_bins(probability, happened, bins)
    low, high = wilson(np.rint(observed * count), count, level)
    return Reliability(stated, observed, low, high, count)


def events(
    probabilities: Array, labels: NDArray[Any], classes: NDArray[Any], event: Any = None
) -> tuple[Any, ...]:
    """Probability (n,) of an event, whether it happened, and its name.

    `event` is a class; by default the second of two classes, or for more than two that the decision is right.
    """
    if event is None and len(classes) > 2:
        choice = probabilities.argmax(axis=1)
        return probabilities.max(axis=1), classes[choice] == labels, "the most probable class"
    which = len(classes) - 1 if event is None else next((c for c, k in enumerate(classes) if k == event), -1)
    if which < 0:
        raise ValueError(f"event must be one of the classes {classes.tolist()}, got {event!r}")
    return probabilities[:, which], labels == classes[which], classes[which]
