"""How predictions depend on the inputs that matter: numbers for the effect plots of a report.

Partial dependence, as in `cavity.measures`: the average of f over rows as one column of the table takes a value, with
the interval of that average. What is shown is in the units of the target: f itself if y is f plus noise, otherwise
what the likelihood makes of the average of f (a probability, an expected count), which keeps the interval exact
because that is a rising function. Of several latent functions averages of class probabilities or of predictions are
shown, without an interval.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from cavity.frames.columns import Column
from cavity.latent.posterior_process import PosteriorProcess
from cavity.likelihoods import BinaryLikelihood, WarpedTarget
from cavity.likelihoods.counts import CountLikelihood
from cavity.measures.effects import Interaction, grid_between, interaction
from cavity.measures.relevance import partial_dependence
from cavity.numerics.arrays import Array
from cavity.plots.view import View
from cavity.report.drawings import short_name
from cavity.tables.description import NO_INFLUENCE, draws_of, evenly

if TYPE_CHECKING:
    from cavity.tables import TableModel

MOST_EFFECTS = 6
"""Inputs with a picture."""

ROWS, PLACES = 60, 25
"""Rows that are averaged over, and places along an input."""

ROWS_OF_DRAWS, PLACES_OF_DRAWS = 20, 9
"""The same if predictions average over draws."""

LEVEL = 0.9
"""Probability of intervals."""

TOGETHER = 0.05
"""Share of the variance of f from which two inputs are shown together."""

CANDIDATES, MOST_PAIRS = 4, 2
"""Inputs whose pairs are looked at, and pairs that are shown."""


@dataclass(frozen=True)
class Effect:
    """Averages of predictions along a column.

    Attributes
    ----------
    column : Column
    places : array (g,)
        Values of the column, or 0, 1, ... for its levels.
    average : array (g, L)
        One for each line.
    low, high : arrays (g,) or None
        Ends of the interval of the only line.
    names : tuple of str
        Of the lines: classes, or the target.
    rows : array (n,)
        Values of the column in the data, for numbers.
    """

    column: Column
    places: Array
    average: Array
    low: Array | None
    high: Array | None
    names: tuple[str, ...]
    rows: Array


class Effects:
    """Effect plots of one model.

    Attributes
    ----------
    label : str
        What is on the vertical axis.
    """

    def __init__(self, model: TableModel) -> None:
        self.model, self.features = model, model.preparation.features
        estimator = model.estimator
        self.view = View(estimator)
        self.X = np.asarray(self.view.data[0], dtype=float)
        drawn = bool(draws_of(estimator))
        self.rows = evenly(self.X, ROWS_OF_DRAWS if drawn else ROWS)
        self.count = PLACES_OF_DRAWS if drawn else PLACES
        self.likelihood = self.view.posterior.model.likelihood
        process = None if drawn else self.view.posterior.function
        one = (
            len(estimator.members_) == 1
            and isinstance(process, PosteriorProcess)
            and process.weights.ndim == 1
        )
        self.process = process if one and self.link is not None else None
        target = short_name(model.preparation.target, 30)
        classes = getattr(estimator, "classes_", None)
        if classes is None:
            self.label = f"average {target}"
            self.names: tuple[str, ...] = (target,)
        elif len(classes) == 2:
            self.label, self.names = f"chance of {short_name(str(classes[1]), 20)}", (str(classes[1]),)
        else:
            self.label, self.names = "average probability", tuple(map(str, classes))

    @property
    def link(self) -> Callable[[Array], Array] | None:
        """From f to the units of the target, a rising function; None if it is none of one number."""
        likelihood = self.likelihood
        if isinstance(likelihood, BinaryLikelihood):
            return lambda f: np.exp(likelihood.log_prob(np.ones(np.shape(f)), f))
        if isinstance(likelihood, CountLikelihood):
            return likelihood.conditional_mean
        if isinstance(likelihood, WarpedTarget):
            return likelihood.warp.inverse
        return (lambda f: f) if self.view.is_location else None

    @property
    def columns(self) -> list[Column]:
        """Those that matter, the most important first."""
        known = {column.name: column for column in self.model.preparation.columns}
        found = [known[one.column] for one in self.model.report.relevance or () if one.share >= NO_INFLUENCE]
        return [column for column in found if column.text is None]

    def _at(self, column: Column) -> list[int]:
        return [self.features.index(name) for name in column.features]

    def along(self, column: Column) -> Effect:
        """The effect of one column."""
        at = self._at(column)
        if column.levels is None:
            places = grid_between(self.X[:, at[0]], self.count)
            values = column.coded(places)
        else:
            places, values = np.arange(float(len(column.levels))), column.coded_levels()
        rows = self.X[:, at[0]]
        if self.process is None or self.link is None:
            average = np.array([self._predictions(self._moved(at, value)).mean(axis=0) for value in values])
            return Effect(column, places, average, None, None, self.names, rows)
        found = partial_dependence(self.process, self.rows, at, values)
        half = float(ndtri(0.5 + LEVEL / 2)) * found.sd
        middle, low, high = (self.link(f) for f in (found.mean, found.mean - half, found.mean + half))
        return Effect(column, places, middle[:, None], low, high, self.names, rows)

    def _moved(self, at: Sequence[int], value: Array) -> Array:
        moved = self.rows.copy()
        moved[:, at] = value
        return moved

    def _predictions(self, X: Array) -> Array:
        """Of the target or of class probabilities, shape (m, L)."""
        if self.view.classes is not None:
            p = self.view.probabilities(X)
            return p[:, 1:] if p.shape[1] == 2 else p
        return np.asarray(self.view.predict_y(X).mean).reshape(len(X), 1)

    def together(self) -> list[Interaction]:
        """Pairs of numbers that act together, the strongest first; averages are in the units of the target."""
        if self.process is None or self.link is None:
            return []
        numbers = [self._at(c)[0] for c in self.columns if c.levels is None][:CANDIDATES]
        found = [interaction(self.process.mean, self.rows, pair) for pair in combinations(numbers, 2)]
        strong = sorted((one for one in found if one.share >= TOGETHER), key=lambda one: -one.share)
        return [
            Interaction(one.columns, one.share, one.grids, self.link(one.average))
            for one in strong[:MOST_PAIRS]
        ]
