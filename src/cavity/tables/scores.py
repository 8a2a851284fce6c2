"""Scores of predictions on rows that a model has not seen, beside those of a guess that knows no inputs.

RMSE          root mean squared error, in units of the target; the median absolute error beside it
SMSE          mean squared error over the variance of the held-out targets: 1 for the mean of the targets
NLP           mean negative log predictive density (regression) or probability (classification), in nats
MSLL          NLP less that of the guess: 0 for the guess, below zero is better
information   mean of log2 p(label) above that of guessing by the frequencies of the classes, in bits: 0 for a
              model that has learned nothing, the entropy of the classes for a perfect one
coverage      share of targets inside central intervals; a value that has a probability of its own, such as a count,
              and is an end of its interval counts by the part of this probability that lies within the levels
calibration   mean difference of stated probability and frequency, over groups of similar probability
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cavity.numerics.arrays import Array
from cavity.prediction import Prediction
from cavity.prediction.calibration import expected_calibration_error
from cavity.tables.fit_report import ClassificationScores, RegressionScores

if TYPE_CHECKING:
    import pandas as pd

LEVELS = (0.5, 0.9, 0.95)
"""Probabilities of the intervals whose coverage is counted."""

TINY = 1e-12
"""Probability up to which a value has none of its own."""

GROUPS = 7
"""Of rows of similar stated certainty."""


def regression_scores(model: Any, X: pd.DataFrame, y: Array, y_train: Array) -> RegressionScores:
    """Scores of a model that has learned from targets `y_train`."""
    return scores_of(model.predict_dist(X), y, y_train)


def scores_of(prediction: Prediction, y: Array, y_train: Array) -> RegressionScores:
    """RMSE, NLP and coverage, and RMSE and NLP of a normal density with the mean and variance of the targets."""
    mean, variance = float(np.mean(y_train)), float(np.var(y_train)) or 1.0
    coverage = [(level, float(np.mean(inside(prediction, y, level)))) for level in LEVELS]
    return RegressionScores(
        rmse=float(np.sqrt(np.mean((prediction.mean - y) ** 2))),
        guess_rmse=float(np.sqrt(np.mean((y - mean) ** 2))),
        nlp=-float(np.mean(prediction.log_prob(y))),
        guess_nlp=float(np.mean(0.5 * (np.log(2 * np.pi * variance) + (y - mean) ** 2 / variance))),
        coverage=tuple(coverage),
        median_error=float(np.median(np.abs(prediction.mean - y))),
        guess_median_error=float(np.median(np.abs(y - mean))),
        target_variance=float(np.var(y)),
    )


def inside(prediction: Prediction, y: Array, level: float) -> Array:
    """Whether each target is in its central interval, 0 or 1; in part if it is an end with a probability of its own.

    Intervals of whole numbers hold more than they say. Counted so, fair ones hold their level on average: this is the
    expectation of the randomized probability transform (Czado, Gneiting and Held 2009).
    """
    lower, upper = prediction.interval(level)
    whole = ((y >= lower) & (y <= upper)).astype(float)
    at_end = (y == lower) | (y == upper)
    if not at_end.any():
        return whole
    tail = 0.5 * (1.0 - level)
    above, below = prediction.cdf(y), prediction.cdf(np.nextafter(y, -np.inf))
    mass = above - below
    part = np.clip(np.minimum(above, 1.0 - tail) - np.maximum(below, tail), 0.0, None)
    return np.where(at_end & (mass > TINY), part / np.maximum(mass, TINY), whole)


def classification_scores(
    model: Any, X: pd.DataFrame, y: NDArray[Any], y_train: NDArray[Any]
) -> ClassificationScores:
    """Error rate, NLP, information and calibration, and the error of always naming the most frequent class."""
    log_p = model.predict_log_proba(X)
    classes, counts = np.unique(y_train, return_counts=True)
    codes = np.searchsorted(classes, y)
    rows = np.arange(len(y))
    frequencies = counts / counts.sum()
    choice = np.argmax(log_p, axis=1)
    truth = log_p[rows, codes]
    certainty, right = np.exp(log_p[rows, choice]), choice == codes
    return ClassificationScores(
        error=float(np.mean(choice != codes)),
        guess_error=float(np.mean(codes != np.argmax(counts))),
        nlp=-float(np.mean(truth)),
        guess_nlp=-float(np.mean(np.log(frequencies[codes]))),
        information=float(np.mean(truth - np.log(frequencies[codes]))) / float(np.log(2.0)),
        calibration=expected_calibration_error(certainty, right),
        confusion=_confusion(codes, choice, len(classes)),
        reliability=_groups(certainty, right),
    )


Confusion = tuple[tuple[int, ...], ...]
Groups = tuple[tuple[float, int, int], ...]


def counted_classes(model: Any, X: pd.DataFrame, y: NDArray[Any]) -> tuple[Confusion, Groups]:
    """Rows by true and by chosen class, and by groups of similar certainty, as in `ClassificationScores`."""
    p = model.predict_proba(X)
    choice, codes = np.argmax(p, axis=1), np.searchsorted(model.classes_, y)
    groups = _groups(p[np.arange(len(y)), choice], choice == codes)
    return _confusion(codes, choice, len(model.classes_)), groups


def _confusion(codes: NDArray[np.intp], choice: NDArray[np.intp], classes: int) -> Confusion:
    counts = np.zeros((classes, classes), dtype=int)
    np.add.at(counts, (codes, choice), 1)
    return tuple(tuple(row) for row in counts.tolist())


def _groups(certainty: Array, right: NDArray[np.bool_]) -> Groups:
    """Mean stated certainty, right answers and rows of groups of equal width."""
    edges = np.linspace(float(certainty.min()), 1.0 + 1e-12, GROUPS + 1)
    place = np.clip(np.searchsorted(edges, certainty, side="right") - 1, 0, GROUPS - 1)
    groups = [place == k for k in range(GROUPS)]
    return tuple((float(certainty[g].mean()), int(right[g].sum()), int(g.sum())) for g in groups if g.any())
