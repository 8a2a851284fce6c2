"""Candidates on some rows: one run of the optimizer each, and the log density of rows that it has not seen.

With many rows a model is learned from `ROWS` of them and predicts others. With few, they are left out in folds, and
each fold is learned anew from where learning from all of them has ended. Hyperparameters have then not seen the rows
they are judged by: a closed-form leave-one-out density at values that have seen all rows flatters models with many.

Under Gaussian noise a few far rows would decide which kernel is best: on Boston housing they preferred one length scale
for all columns, which predicts other rows worse. So two candidates with Gaussian noise are compared with its tails
replaced by those of Student-t noise. Whether the tails themselves are right is asked at the end, by the search for
outliers.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from cavity.gp import GP
from cavity.learning.fit import learn
from cavity.numerics.arrays import Array
from cavity.numerics.special import LOG_2PI
from cavity.posterior import Posterior
from cavity.prediction import GaussianPrediction, Prediction, WarpedPrediction
from cavity.runtime.deadlines import Deadline
from cavity.runtime.interrupts import not_swallowed

ROWS, OTHERS = 300, 600
"""Rows to learn from, and most others to predict."""

FOLDS = 4
"""Folds, if there are less than half as many others as rows to learn from."""

ROUGHLY = 1e-6
"""Part of the log evidence: learning ends if a step gains less. Of some hundred nats that is a few ten-thousandths, and
densities of rows left out differ by far more."""

IMPOSSIBLE = -700.0
"""Smallest log density: rows that a candidate calls impossible count as this improbable."""

LEAST_GAIN = 1.0
"""Nats, over all rows, below which a difference is none."""

FAILURES = (ValueError, ArithmeticError, np.linalg.LinAlgError)
"""Errors of a candidate without which one can do."""

SURPRISING = 0.05
"""Probability that any row of Gaussian noise is called far."""

MEDIAN_OF_NORMAL = 0.6745
"""Median of the absolute value of a standard normal variable."""

HEAVY_DF, HEAVY_SCALE = 4.0, 0.831
"""Student-t density of residuals that are compared; of this scale, a normal variable has the highest expected log
density if it is measured in its own standard deviations."""


@dataclass(frozen=True)
class Trial:
    """A candidate.

    Attributes
    ----------
    name : str
    model : GP
        With learned values.
    density : array (m,)
        Log density of each row, left out.
    residual : array (m,)
        Its distance from what was predicted, in standard deviations.
    gaussian : bool
        Whether it was predicted with Gaussian noise.
    reach : tuple of float
        Smallest and largest end of the 90 % intervals of the rows.
    residual_of_learned : array (k,)
        As `residual`, of rows that it was learned from, each given the others: if all rows of others are predicted by
        one model with exact inference, and otherwise empty.
    """

    name: str
    model: GP
    density: Array
    residual: Array
    gaussian: bool
    reach: tuple[float, float]
    residual_of_learned: Array = field(default_factory=lambda: np.zeros(0))

    @property
    def score(self) -> float:
        """Mean log density."""
        return float(np.mean(self.density))

    @property
    def heavy_density(self) -> Array:
        """Log density of each row with Student-t tails in place of normal ones."""
        from scipy.stats import t

        r = self.residual
        normal = -0.5 * (r**2 + LOG_2PI)
        heavy = self.density - normal + t.logpdf(r, HEAVY_DF, scale=HEAVY_SCALE)
        return np.where(self.density > IMPOSSIBLE, heavy, IMPOSSIBLE)

    def beats(self, other: Trial, margin: float = 0.5) -> bool:
        """Whether it is better by more than so many standard errors of the difference, row by row."""
        heavy = self.gaussian and other.gaussian
        gap = self.heavy_density - other.heavy_density if heavy else self.density - other.density
        with np.errstate(invalid="ignore"):
            error = float(np.std(gap) / np.sqrt(len(gap)))
        return bool(np.mean(gap) > max(margin * error, LEAST_GAIN / len(gap)))


class Screen:
    """Rows on which candidates are compared.

    Parameters
    ----------
    X, y : arrays (n, D), (n,)
    weight : array (n,), optional
    groups : array of int (n,), optional
        Classes: every fold has the same share of each.
    whole : bool
        Whether targets are whole numbers: densities over all numbers are then compared as probabilities of them.
    """

    def __init__(
        self,
        X: Array,
        y: Array,
        weight: Array | None,
        rng: np.random.Generator,
        time: Deadline,
        *,
        groups: NDArray[np.intp] | None = None,
        whole: bool = False,
    ) -> None:
        order = rng.permutation(len(y))
        self.held_out = len(y) > 1.5 * ROWS
        if groups is not None:  # any first part has their shares, or every so-manieth row has
            order = (
                _interleaved(order, groups)
                if self.held_out
                else order[np.argsort(groups[order], kind="stable")]
            )
        order = order[: ROWS + OTHERS] if self.held_out else order
        self.X, self.y = X[order], y[order]
        self.weight = None if weight is None else weight[order]
        self.rng, self.time, self.whole = rng, time, whole

    @property
    def _splits(self) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Rows to learn from and rows to predict."""
        place = np.arange(len(self.y))
        if self.held_out:
            return [(place[:ROWS], place[ROWS:])]
        return [(place[place % FOLDS != k], place[place % FOLDS == k]) for k in range(FOLDS)]

    @property
    def predicted_inputs(self) -> Array:
        """Inputs of the rows that are predicted, in the order of densities and residuals."""
        return np.asarray(self.X[np.concatenate([test for _, test in self._splits])])

    def far(self, trial: Trial) -> NDArray[np.bool_]:
        """Rows (n,) that are far from what a trial predicts without them, those it was learned from among them."""
        predicted = np.concatenate([test for _, test in self._splits])
        learned = np.arange(len(trial.residual_of_learned))
        found = np.zeros(len(self.y), dtype=bool)
        sizes = np.concatenate([trial.residual_of_learned, trial.residual])
        found[np.concatenate([learned, predicted])] = far_rows(sizes)
        return found

    def without(self, rows: NDArray[np.bool_]) -> None:
        """Leave out some of the rows (n,)."""
        self.X, self.y = self.X[~rows], self.y[~rows]
        self.weight = None if self.weight is None else self.weight[~rows]

    def run(self, name: str, model: GP, start: GP | None = None) -> Trial | None:
        """Learn a candidate; None if that fails, or there is no time.

        `start` is the model with values to start from; by default they are read off the data.
        """
        if self.time.left == 0.0:
            return None
        try:
            with _quiet(), not_swallowed():
                return self._run(name, model if start is None else start, warm=start is not None)
        except FAILURES:
            return None

    def _run(self, name: str, model: GP, warm: bool) -> Trial:
        rows = np.arange(ROWS) if self.held_out else np.arange(len(self.y))
        found = self._learn(model, rows, warm)
        density, residual, ends, gaussian = [], [], [], True
        for train, test in self._splits:
            posterior = found if self.held_out else self._learn(found.model, train, warm=True)
            prediction = posterior.predict_y(self.X[test])
            density.append(log_density(prediction, self.y[test], self.whole))
            residual.append(residuals(prediction, self.y[test]))
            ends.append(prediction.interval(0.9))
            gaussian &= is_gaussian(prediction)
        reach = min(float(np.min(low)) for low, _ in ends), max(float(np.max(high)) for _, high in ends)
        left_out = np.zeros(0)
        if self.held_out and found.model.inference.name == "exact":
            weight = None if self.weight is None else self.weight[rows]
            others = found.model.leave_one_out(self.X[rows], self.y[rows], weight)
            left_out = residuals(others, self.y[rows])
        each = np.concatenate(residual)
        return Trial(name, found.model, np.concatenate(density), each, gaussian, reach, left_out)

    def _learn(self, model: GP, rows: NDArray[np.intp], warm: bool) -> Posterior:
        weight = None if self.weight is None else self.weight[rows]
        found = learn(
            model,
            self.X[rows],
            self.y[rows],
            weight,
            n_restarts=0,
            given=(),
            warm=warm,
            rng=self.rng,
            max_time=self.time.left,
            enough=ROUGHLY,
            progress=False,
            warn=False,
        )
        return found.posterior


def log_density(prediction: Prediction, y: Array, whole: bool = False) -> Array:
    """Log density of targets, bounded from below; of whole ones the log probability of what is rounded to them."""
    if not whole or hasattr(prediction, "probabilities"):
        return np.maximum(prediction.log_prob(y), IMPOSSIBLE)
    with np.errstate(divide="ignore"):
        both = (
            prediction.cdf(y + 0.5) - prediction.cdf(y - 0.5),
            prediction.survival(y - 0.5) - prediction.survival(y + 0.5),
        )
        return np.maximum(np.log(np.maximum(*both)), IMPOSSIBLE)


def residuals(prediction: Prediction, y: Array) -> Array:
    """Distances (n,) of targets to their predictions, in standard deviations, where the noise is around f."""
    if isinstance(prediction, WarpedPrediction):
        return residuals(prediction.base, prediction.warp.forward(y))
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs(y - prediction.mean) / np.sqrt(prediction.variance))


def is_gaussian(prediction: Prediction) -> bool:
    """Whether a prediction is normal, perhaps of a warped target."""
    base = prediction.base if isinstance(prediction, WarpedPrediction) else prediction
    return isinstance(base, GaussianPrediction)


def surprising_distance(rows: int) -> float:
    """Standard deviations that one of so many normal residuals seldom exceeds.

    >>> round(surprising_distance(40), 2), round(surprising_distance(1000), 2)
    (3.23, 4.06)
    """
    return float(-ndtri(0.5 * SURPRISING / rows))


def far_rows(residuals: Array) -> NDArray[np.bool_]:
    """Which residuals of rows that were left out, in sd, are surprising.

    Several outliers inflate the noise that was learned, and hide each other. Their sd is therefore also measured by
    the median of the residuals, which half of the rows would have to be wrong to move.
    """
    spread = min(float(np.median(residuals)) / MEDIAN_OF_NORMAL, 1.0)
    return np.asarray(residuals > surprising_distance(len(residuals)) * spread)


def _interleaved(order: NDArray[np.intp], groups: NDArray[np.intp]) -> NDArray[np.intp]:
    """The order changed so that every part of it has about the same share of each group."""
    place = np.empty(len(order))
    for group in np.unique(groups):
        members = np.flatnonzero(groups[order] == group)
        place[members] = (np.arange(len(members)) + 0.5) / len(members)
    return order[np.argsort(place, kind="stable")]


@contextmanager
def _quiet() -> Iterator[None]:
    """Warnings of candidates are nobody's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
