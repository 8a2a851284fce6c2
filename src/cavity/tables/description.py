"""What a model says about the table it was learned from: relevance of columns, outliers, hyperparameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from cavity.estimators import GPRegressor
from cavity.frames.columns import Column
from cavity.gp import GP
from cavity.kernels import Periodic, Standardized, Warped
from cavity.learning.robust_starts import is_robust
from cavity.likelihoods import (
    Clipped,
    HeteroscedasticGaussian,
    Likelihood,
    NegativeBinomial,
    Poisson,
    WarpedTarget,
)
from cavity.measures.effects import average_along, grid_between, turning
from cavity.numerics.arrays import Array
from cavity.parameters.per_latent import PerLatent
from cavity.prediction import CategoricalPrediction
from cavity.sampling.posterior import SamplePosterior
from cavity.tables.fit_report import Outlier, Relevance
from cavity.tables.formatting import plain, rounded
from cavity.tables.model import TableModel
from cavity.tables.preparation import Preparation

if TYPE_CHECKING:
    import pandas as pd

LIKELY = 0.5
"""Outlier probability from which a row is listed under robust noise."""

UNEXPECTED = 0.999
"""The same under other noise, whose number is that of its tails."""

CENTRAL = f"the central {UNEXPECTED:.1%} of predictions".replace("%", " %")
"""Where rows are expected under noise that is not robust."""

SHUFFLES = 8
"""How often relevance puts inputs into random orders."""

SHUFFLES_OF_DRAWS = 2
"""The same if predictions average over draws."""

LISTED_OUTLIERS = 50

NO_INFLUENCE = 0.01
"""Share of the variance of predictions below which a column has next to no influence."""

EFFECT_ROWS, EFFECT_PLACES = 100, 25
"""Rows over which predictions are averaged, and places along a column."""

EFFECT_ROWS_OF_DRAWS, EFFECT_PLACES_OF_DRAWS = 30, 9
"""The same if predictions average over draws."""

LEVELS = "levels"
"""The shape of an effect that goes from level to level of a text column."""

CLASSES = "classes"
"""The shape of an effect on several classes: which is likelier at either end of a column."""

SHIFT = 0.05
"""Probability by which it must be likelier."""


def relevance(model: Any, preparation: Preparation, X: pd.DataFrame, seed: int) -> tuple[Relevance, ...]:
    """Share of the variance of predictions that is due to each column of the table, with its error; largest first.

    The total Sobol index of `cavity.plots.relevance_of`, with the 0/1 columns of a text column taken together.
    """
    from cavity.plots import relevance_of

    place = {name: i for i, name in enumerate(X.columns)}
    groups = [[place[feature] for feature in column.features] for column in preparation.columns]
    shuffles = SHUFFLES_OF_DRAWS if draws_of(model) else SHUFFLES
    share = relevance_of(model, X.to_numpy(), shuffles=shuffles, rng=seed, groups=groups)
    effects = Effects(model, X.to_numpy())
    found = [
        effects.along(column, places, Relevance(column.name, float(value), float(error)))
        for column, places, value, error in zip(preparation.columns, groups, share.value, share.error)
    ]
    return tuple(sorted(found, key=lambda one: -one.share))


class Effects:
    """How the average of the posterior mean of f goes along columns of a table; of several classes, which ones are
    likelier at the ends; of several functions else nothing is said."""

    def __init__(self, model: Any, X: Array) -> None:
        self.posterior = model.members_[0].posterior
        drawn = bool(draws_of(model))
        self.rows = evenly(X, EFFECT_ROWS_OF_DRAWS if drawn else EFFECT_ROWS)
        self.X = X
        self.places = EFFECT_PLACES_OF_DRAWS if drawn else EFFECT_PLACES
        self.classes = getattr(model, "classes_", ())
        self.known = len(model.members_) == 1

    def mean(self, X: Array) -> Array:
        """Of f; of the first of several functions, which is the level."""
        return np.asarray(self.posterior.mean(X)).reshape(len(X), -1)[:, 0]

    def along(self, column: Column, places: Sequence[int], found: Relevance) -> Relevance:
        """The same with its shape, if the column matters."""
        if not self.known or found.share < NO_INFLUENCE or column.text is not None:
            return found
        if len(self.classes) > 2:
            return self._of_classes(column, places, found)
        if column.levels is None:
            grid = grid_between(self.X[:, places[0]], self.places)
            turn = turning(grid, average_along(self.mean, self.rows, places, column.coded(grid)))
            high, low = (rounded(place, grid[-1] - grid[0]) for place in (turn.highest, turn.lowest))
            return replace(found, shape=str(turn.shape), highest=high, lowest=low)
        average = average_along(self.mean, self.rows, places, column.coded_levels())
        high, low = column.levels[int(np.argmax(average))], column.levels[int(np.argmin(average))]
        return replace(found, shape=LEVELS, highest=high, lowest=low)

    def _of_classes(self, column: Column, places: Sequence[int], found: Relevance) -> Relevance:
        """The classes whose average probabilities rise and fall most from one end of a column to the other."""
        if column.levels is not None:
            return found
        ends = column.coded(grid_between(self.X[:, places[0]], self.places)[[0, -1]])
        moved = np.tile(self.rows, (2, 1))
        moved[:, list(places)] = np.repeat(ends, len(self.rows), axis=0)
        prediction = cast(CategoricalPrediction, self.posterior.predict_y(moved))
        low, high = prediction.probabilities.reshape(2, len(self.rows), -1).mean(axis=1)
        rise = high - low
        if np.max(np.abs(rise)) < SHIFT:
            return found
        up, down = (str(self.classes[int(k)]) for k in (np.argmax(rise), np.argmin(rise)))
        return replace(found, shape=CLASSES, highest=up, lowest=down)


def evenly(X: Array, most: int) -> Array:
    """At most so many rows, evenly spread over all."""
    return X if len(X) <= most else X[np.linspace(0, len(X) - 1, most).astype(int)]


def draws_of(estimator: Any) -> list[SamplePosterior]:
    """The posteriors of an estimator that are made of draws."""
    found = [member.posterior for member in estimator.members_]
    return [posterior for posterior in found if isinstance(posterior, SamplePosterior)]


def outliers(model: GPRegressor, y: Array, rows: NDArray[np.intp]) -> tuple[Outlier, ...]:
    """Rows that are probably outliers, the most probable first."""
    probability = model.outlier_probability_
    least = LIKELY if is_robust(model.likelihood_) else UNEXPECTED
    order = np.argsort(-probability, kind="stable")
    chosen = [int(i) for i in order if probability[i] > least][:LISTED_OUTLIERS]
    return tuple(Outlier(int(rows[i]), float(y[i]), float(probability[i])) for i in chosen)


@dataclass(frozen=True)
class Hyperparameter:
    """A hyperparameter with its value, and what it means in the user's units.

    Of draws, the value is that of their mean (in the units that were sampled), and `interval` holds 90 % of them.
    `problem` names the model it belongs to, if there are several, and `column` the column of X, if it belongs to one.
    `of_noise_level` says whether it belongs to the function that the level of the noise follows.
    """

    problem: str
    name: str
    value: float
    fixed: bool
    interval: tuple[float, float] | None
    meaning: str
    column: str = ""
    of_noise_level: bool = False

    @property
    def kind(self) -> str:
        """The last part of its name: "lengthscale", "variance", ..."""
        return self.name.split(".")[-1].split("[")[0]

    @property
    def in_words(self) -> str:
        """What it is called outside the code."""
        noise = self.name.split(".")[0] in NOISES
        line = self.name.startswith("linear")
        words = NOISE_WORDS if noise else LINE_WORDS if line else KERNEL_WORDS
        word = words.get(self.kind)
        if self.kind == "gaps":
            return "gap to the next threshold"
        if word is None or ("[" in self.name and not self.column):
            return self.name
        owner = f" of {self.column}" if self.column else ""
        if self.of_noise_level:
            return f"{word}{owner}, of the noise level" if owner else word.replace("function", "noise level")
        return word + owner


NOISES = (
    *("gaussian", "studentt", "laplace", "mixtureofgaussians", "epsiloninsensitive", "negativebinomial"),
    *("positivewarp", "intervalwarp", "ordinalprobit", "heteroscedasticgaussian"),
)
NOISE_WORDS = {
    "variance": "noise variance",
    "scale": "noise scale",
    "df": "degrees of freedom of the noise",
    "fraction": "share of gross errors",
    "inflation": "width of gross errors",
    "bend": "bend of the scale of the target",
    "first": "first threshold",
    "shape": "shape of the counts",
}
LOG_LINK = (Poisson, NegativeBinomial)
"""Likelihoods whose function is the logarithm of a rate."""

LINE_WORDS = {"variance": "variance of the slopes", "bias": "variance of the level of the line"}
KERNEL_WORDS = {
    "lengthscale": "length scale",
    "period": "period",
    "variance": "variance of the function",
    "value": "mean level",
    "nu": "smoothness",
}

STRAIGHT = 3.0
"""Length scales, in ranges of their column, from which on the function is nearly a straight line along it."""


def hyperparameters(model: TableModel) -> list[Hyperparameter]:
    """Every hyperparameter of a model, but for the places of inducing inputs, which say nothing by themselves."""
    estimator, preparation = model.estimator, model.preparation
    idle = {one.column for one in model.report.relevance or () if one.share < NO_INFLUENCE}
    quiet = {feature for column in preparation.columns if column.name in idle for feature in column.features}
    found = []
    for member in estimator.members_:
        one, drawn = member.model, _intervals(member.posterior)
        described = {
            path: (name, unit) for path, name, unit in _column_names(one.kernel, preparation.features)
        }
        ranges = dict(zip(preparation.features, np.ptp(member.rows.X, axis=0)))
        levels = _of_noise_level(one)
        for place, (entry, value) in enumerate(zip(one.entries, one.flat)):
            if entry.name.startswith("inducing."):
                continue
            feature, unit = described.get(entry.name, (None, 1.0))
            column = feature or ""
            meaning = _meaning(entry.name, float(value), preparation, feature, unit, one.likelihood)
            if place in levels and entry.name.endswith("variance"):
                meaning = f"sd {np.sqrt(value):.4g} in logarithms of the noise variance"
            if entry.name.split(".")[-1].startswith("lengthscale") and column:
                meaning = _reach(
                    float(value) * unit,
                    float(ranges[column]),
                    column in quiet,
                    preparation.units.get(column),
                )
            found.append(
                Hyperparameter(
                    member.name,
                    entry.name,
                    float(value),
                    bool(entry.fixed),
                    drawn.get(entry.name),
                    meaning,
                    column,
                    place in levels,
                )
            )
    return found


def _of_noise_level(model: GP) -> range:
    """Places of the kernel's values that belong to the second function, which the log variance of the noise follows."""
    if not isinstance(model.likelihood, HeteroscedasticGaussian) or not isinstance(model.kernel, PerLatent):
        return range(0)
    first = next(iter(model.kernel.parts))
    return range(first.flat.size, model.kernel.flat.size)


def _reach(lengthscale: float, span: float, idle: bool, unit: str | None) -> str:
    """What a length scale says about its column."""
    if idle:
        return "no influence"
    if lengthscale > STRAIGHT * span:
        return "nearly a straight line"
    return f"matters over about {plain(lengthscale, 2)}" + (f" {unit.split()[0]}" if unit else "")


def inference_in_words(status: Any) -> str:
    """How the posterior was found, without the words of the trade."""
    words = INFERENCE_WORDS.get(str(status.stage), str(status.stage))
    return words + (f" ({status.detail})" if status.detail else "")


INFERENCE_WORDS = {
    "exact": "exact",
    "newton": "Laplace's approximation",
    "irls+newton": "Laplace's approximation",
    "ep": "expectation propagation (EP)",
    "ep by newton": "expectation propagation (EP)",
    "ep by continuation": "expectation propagation (EP), hard to find: check it with cavity assess",
    "power ep": "power expectation propagation",
    "sequential ep": "expectation propagation (EP), row by row",
    "adf": "assumed-density filtering",
    "variational": "variational approximation",
    "mcmc": "Markov chains",
}
"""Algorithms, as `cavity.inference.base.Stage` names them."""


def _intervals(posterior: Any) -> dict[str, tuple[float, float]]:
    """Central interval of 90 % of the draws of each hyperparameter; nothing where none were drawn."""
    if not isinstance(posterior, SamplePosterior) or not posterior.trace.dim:
        return {}
    low, high = np.quantile(posterior.natural, [0.05, 0.95], axis=(0, 1))
    return {n: (float(a), float(b)) for n, a, b in zip(posterior.draws.model.names, low, high)}


def _meaning(
    name: str,
    value: float,
    preparation: Preparation,
    feature: str | None,
    factor: float,
    likelihood: Likelihood,
) -> str:
    """In words; a length of one column is `factor` times its value, in units of the column."""
    kind = name.split(".")[-1].split("[")[0]
    if feature is not None:
        if kind not in ("lengthscale", "period"):
            return f"for {feature}"
        unit = preparation.units.get(feature)
        size = "" if factor == 1.0 else f"{value * factor:.4g} "
        return size + (f"in units of {feature}" if unit is None else f"in {unit.split()[0]}, of {feature}")
    if kind == "lengthscale" and factor != 1.0:
        return "in standard deviations of each column"
    if kind in ("variance", "bias") and value >= 0:
        per = " per sd of a column" if name.startswith("linear") and factor != 1.0 else ""
        unit = _unit(likelihood, preparation.target)
        return f"sd {np.sqrt(value):.4g} {unit}{per}" if unit else ""
    if kind == "value" and isinstance(likelihood, LOG_LINK):
        return f"{np.exp(value):.3g} in units of {preparation.target}"
    if kind == "value" and isinstance(likelihood, WarpedTarget):
        return f"{float(likelihood.warp.inverse(np.array([value]))[0]):.4g} in units of {preparation.target}"
    if kind in ("scale", "value"):
        return _unit(likelihood, preparation.target)
    return {
        "df": "the fewer, the more gross errors",
        "inflation": "in noise scales",
        "bend": "0 is a logarithm, above 5 a straight line",
        "shape": "the smaller, the more they spread: variance = mean + mean^2 / shape",
        "nu": "0.5 is rough, 2.5 nearly smooth",
    }.get(kind, "")


def _unit(likelihood: Likelihood, target: str) -> str:
    """What the function is measured in; nothing if it has no unit."""
    if isinstance(likelihood, LOG_LINK):
        return f"in logarithms of {target}"
    if likelihood.discrete:
        return ""
    warped = isinstance(likelihood, WarpedTarget) and not isinstance(likelihood.warp, Clipped)
    return f"in units of {target}" + (" near its middle" if warped else "")


def _column_names(kernel: Any, features: Sequence[str]) -> list[tuple[str, str | None, float]]:
    """(parameter, input column, its unit) of each value that belongs to one column, or to all standardized ones."""
    numbered = list(kernel._paths()) if hasattr(kernel, "_paths") else []
    found: list[tuple[str, str | None, float]] = []
    paths = iter(numbered)

    def walk(node: Any, names: Sequence[str], units: Sequence[float]) -> None:
        for name, param in node._params.items():
            path = next(paths)
            if name not in node._columnwise:
                continue
            if np.ndim(param.value) == 1 and len(param.value) == len(names):
                found.extend((f"{path}[{i}]", *column) for i, column in enumerate(zip(names, units)))
            elif np.ndim(param.value) == 0 and len(names) == 1:
                found.append((path, names[0], units[0]))
            elif units and units[0] != 1.0:
                found.append((path, None, units[0]))
        dims = getattr(node, "dims", None)
        inner: Sequence[str] = (
            [names[d] for d in dims] if dims is not None and all(isinstance(d, int) for d in dims) else names
        )
        own = [1.0] * len(inner) if not isinstance(node, Standardized) else list(node.scale)
        units = own if isinstance(node, Standardized) or dims is not None else units
        if isinstance(node, Periodic | Warped):
            inner = ()  # other inputs: on a circle, or of a function
        for part in node._parts:
            walk(part, inner, units)

    walk(kernel, features, [1.0] * len(features))
    return found
