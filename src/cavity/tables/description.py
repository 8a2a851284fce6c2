"""What a model says about the table it was learned from: relevance of columns, outliers, hyperparameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cavity.estimators import GPRegressor
from cavity.kernels import Periodic, Warped
from cavity.learning.robust_starts import is_robust
from cavity.numerics.arrays import Array
from cavity.sampling.posterior import SamplePosterior
from cavity.tables.fit_report import Outlier, Relevance
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


def relevance(model: Any, preparation: Preparation, X: pd.DataFrame, seed: int) -> tuple[Relevance, ...]:
    """Share of the variance of predictions that is due to each column of the table, with its error; largest first.

    The total Sobol index of `cavity.plots.relevance_of`, with the 0/1 columns of a text column taken together.
    """
    from cavity.plots import relevance_of

    place = {name: i for i, name in enumerate(X.columns)}
    groups = [[place[feature] for feature in column.features] for column in preparation.columns]
    shuffles = SHUFFLES_OF_DRAWS if draws_of(model) else SHUFFLES
    share = relevance_of(model, X.to_numpy(), shuffles=shuffles, rng=seed, groups=groups)
    found = [
        Relevance(column.name, float(value), float(error))
        for column, value, error in zip(preparation.columns, share.value, share.error)
    ]
    return tuple(sorted(found, key=lambda one: -one.share))


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
    `problem` names the model it belongs to, if there are several.
    """

    problem: str
    name: str
    value: float
    fixed: bool
    interval: tuple[float, float] | None
    meaning: str


def hyperparameters(model: TableModel) -> list[Hyperparameter]:
    """Every hyperparameter of a model."""
    estimator, preparation = model.estimator, model.preparation
    found = []
    for member in estimator.members_:
        one, drawn = member.model, _intervals(member.posterior)
        described = dict(_column_names(one.kernel, preparation.features))
        for entry, value in zip(one.entries, one.flat):
            meaning = _meaning(entry.name, float(value), preparation, described.get(entry.name))
            found.append(
                Hyperparameter(
                    member.name, entry.name, float(value), bool(entry.fixed), drawn.get(entry.name), meaning
                )
            )
    return found


def _intervals(posterior: Any) -> dict[str, tuple[float, float]]:
    """Central interval of 90 % of the draws of each hyperparameter; nothing where none were drawn."""
    if not isinstance(posterior, SamplePosterior) or not posterior.trace.dim:
        return {}
    low, high = np.quantile(posterior.natural, [0.05, 0.95], axis=(0, 1))
    return {n: (float(a), float(b)) for n, a, b in zip(posterior.draws.model.names, low, high)}


def _meaning(name: str, value: float, preparation: Preparation, feature: str | None) -> str:
    kind = name.split(".")[-1].split("[")[0]
    if feature is not None:
        if kind not in ("lengthscale", "period"):
            return f"for {feature}"
        unit = preparation.units.get(feature)
        return f"in units of {feature}" if unit is None else f"in {unit.split()[0]}, of {feature}"
    if kind == "variance" and preparation.task == "regression" and value >= 0:
        return f"sd {np.sqrt(value):.4g} in units of {preparation.target}"
    if kind in ("scale", "value") and preparation.task == "regression":
        return f"in units of {preparation.target}"
    return ""


def _column_names(kernel: Any, features: Sequence[str]) -> list[tuple[str, str]]:
    """(parameter, input column) of each value that belongs to one column."""
    numbered = list(kernel._paths()) if hasattr(kernel, "_paths") else []
    found: list[tuple[str, str]] = []
    paths = iter(numbered)

    def walk(node: Any, names: Sequence[str]) -> None:
        for name, param in node._params.items():
            path = next(paths)
            if name not in node._columnwise:
                continue
            if np.ndim(param.value) == 1 and len(param.value) == len(names):
                found.extend((f"{path}[{i}]", feature) for i, feature in enumerate(names))
            elif np.ndim(param.value) == 0 and len(names) == 1:
                found.append((path, names[0]))
        dims = getattr(node, "dims", None)
        inner: Sequence[str] = (
            [names[d] for d in dims] if dims is not None and all(isinstance(d, int) for d in dims) else names
        )
        if isinstance(node, Periodic | Warped):
            inner = ()  # other inputs: on a circle, or of a function
        for part in node._parts:
            walk(part, inner)

    walk(kernel, features)
    return found
