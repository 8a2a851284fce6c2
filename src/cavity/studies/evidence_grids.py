"""Evidence and information over a grid of hyperparameters: `ionosphere` and `usps` (thesis 6.3.2 to 6.3.4).

Probit, isotropic squared exponential, zero mean, inputs standardized (Ionosphere) or as they are (USPS). On a 21 x 21
grid of (ln l, ln s): log evidence and information about the test labels, in bits, by Laplace's method and EP, and the
lower bound (6.13) at EP's posterior. On every third row and column, chosen before anything was run: annealed importance
sampling, and information from Markov chains. Where the gold standard is not certified the point counts as a miss.
The ranges are chosen to hold both maxima; those of the thesis' figures are not in its text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cavity.assessment.gold import gold_standard, predict
from cavity.datasets import load
from cavity.gp import GP
from cavity.inference.base import InferenceFailedError
from cavity.inference.bounds import lower_bound
from cavity.kernels import SE
from cavity.likelihoods import Probit
from cavity.studies.base import Cell, Outcome, Results, Study
from cavity.studies.folds import standardized
from cavity.studies.pictures import new_panels, save

Array = NDArray[np.float64]

POINTS = 21
COARSE = tuple(range(1, POINTS, 3))
"""Rows and columns of the subgrid of the gold standard."""


@dataclass(frozen=True)
class Range:
    """Of ln l and ln s."""

    length: tuple[float, float]
    signal: tuple[float, float]

    def axes(self) -> tuple[Array, Array]:
        """Values of ln l and ln s on the grid."""
        return np.linspace(*self.length, POINTS), np.linspace(*self.signal, POINTS)


RANGES = {"ionosphere": Range((0.0, 5.0), (-1.0, 6.0)), "usps": Range((2.0, 5.0), (0.0, 5.0))}


@lru_cache(maxsize=2)
def problem(name: str) -> tuple[Array, Array, Array, Array]:
    """Training inputs and labels, test inputs and labels; labels are -1 and +1."""
    if name == "usps":
        data = load("usps_3v5")
        assert data.X_test is not None
        positive = np.unique(data.y)[1]
        y, y_test = (np.where(a == positive, 1.0, -1.0) for a in (data.y, np.asarray(data.y_test)))
        return data.X, y, data.X_test, y_test
    data = load("ionosphere")
    y = np.where(data.y == np.unique(data.y)[1], 1.0, -1.0)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:200], order[200:]
    (X,) = standardized(data.X)
    return X[train], y[train], X[test], y[test]


def information(prediction: Any, y: Array) -> float:
    """Mean of 1 + log2 p(true label), in bits (6.12)."""
    return float(1 + np.mean(prediction.log_prob(y)) / np.log(2))


def model_at(ln_l: float, ln_s: float, rule: str) -> GP:
    """The model at one point of the grid."""
    return GP(float(np.exp(2 * ln_s)) * SE(float(np.exp(ln_l))), Probit(), inference=rule)


def approximate_column(data: str, method: str, column: int) -> Outcome:
    """One value of ln l, all values of ln s."""
    X, y, X_test, y_test = problem(data)
    lengths, signals = RANGES[data].axes()
    evidence, bits, bound = (np.full(POINTS, np.nan) for _ in range(3))
    for k, ln_s in enumerate(signals):
        try:
            posterior = model_at(lengths[column], ln_s, method).condition(X, y)
        except (InferenceFailedError, np.linalg.LinAlgError):
            continue
        evidence[k] = posterior.log_evidence if posterior.status.converged else np.nan
        bits[k] = information(posterior.predict_y(X_test), y_test)
        if method == "ep":
            bound[k] = lower_bound(posterior.approximation, Probit(), y)
    failed = int(np.isnan(evidence).sum())
    return Outcome(
        {"best log evidence": float(np.nanmax(evidence)), "not converged": failed},
        {"evidence": evidence, "information": bits, "bound": bound},
    )


def gold_point(data: str, column: int, row: int, seconds: float) -> Outcome:
    """Annealed importance sampling and chains at one point of the subgrid, with EP and Laplace beside them."""
    X, y, X_test, y_test = problem(data)
    lengths, signals = RANGES[data].axes()
    model = model_at(lengths[column], signals[row], "ep")
    rng = np.random.default_rng([column, row])
    gold = gold_standard(model, X, y, seconds=seconds, seed=rng, progress=False)
    ep = model.condition(X, y)
    laplace = model_at(lengths[column], signals[row], "laplace").condition(X, y)
    averaged, _ = predict(model, X, gold.chains, X_test)
    found = gold.evidence
    within = found.certified and abs(ep.log_evidence - found.log_evidence) <= 1.0
    return Outcome(
        {
            "AIS log evidence": found.log_evidence,
            "AIS standard error": found.standard_error,
            "certified, percent": 100.0 * found.certified,
            "EP within a nat, percent": 100.0 * within,
            "EP minus AIS": ep.log_evidence - found.log_evidence,
            "Laplace minus AIS": laplace.log_evidence - found.log_evidence,
            "information of MCMC": information(averaged, y_test),
            "information of EP": information(ep.predict_y(X_test), y_test),
            "R-hat": gold.chains.rhat,
        },
        note=found.reason,
    )


def _cells(data: str, seconds: float, quick_columns: tuple[int, ...]) -> Callable[[bool], list[Cell]]:
    def cells(quick: bool) -> list[Cell]:
        columns = quick_columns if quick else range(POINTS)
        out = [
            Cell(
                {"method": m, "column": c, "row": -1},
                approximate_column,
                {"data": data, "method": m, "column": c},
            )
            for c in columns
            for m in ("laplace", "ep")
        ]
        coarse = [(10, 10)] if quick else [(c, r) for c in COARSE for r in COARSE]
        budget = 20.0 if quick else seconds
        return out + [
            Cell(
                {"method": "gold standard", "column": c, "row": r},
                gold_point,
                {"data": data, "column": c, "row": r, "seconds": budget},
            )
            for c, r in coarse
        ]

    return cells


def _surface(results: Results, method: str, what: str) -> Array:
    """Values over the grid, rows are ln s; nan where a column was not run."""
    out = np.full((POINTS, POINTS), np.nan)
    for column in range(POINTS):
        stored = results.arrays(method=method, column=column)
        if stored:
            out[:, column] = stored[what]
    return out


def _contours(axis: Any, values: Array, where: Range, title: str, evidence: bool) -> None:
    lengths, signals = where.axes()
    if np.isfinite(values).sum() < 4 * POINTS:
        axis.text(0.5, 0.5, "not run", ha="center", transform=axis.transAxes)
    else:
        top = np.nanmax(values)
        levels = (
            top - np.array([200, 150, 100, 70, 50, 35, 25, 15, 10, 6, 3, 1])
            if evidence
            else np.unique(np.round(np.linspace(max(0.0, top - 0.5), top, 9), 3))
        )
        lines = axis.contour(lengths, signals, values, levels=levels, cmap="viridis", linewidths=1)
        axis.clabel(lines, fontsize=6, fmt="%.0f" if evidence else "%.2f")
        row, column = np.unravel_index(np.nanargmax(values), values.shape)
        axis.plot(lengths[column], signals[row], "k+", markersize=10)
    axis.set(xlabel="ln l", ylabel="ln s", title=title)


def _draw(data: str) -> Callable[[Results, Path], list[Path]]:
    def draw(results: Results, folder: Path) -> list[Path]:
        where = RANGES[data]
        figure, axes = new_panels(3, 2, width=4.2, height=3.2)
        for row, (method, name) in enumerate((("laplace", "Laplace"), ("ep", "EP"))):
            values = _surface(results, method, "evidence"), _surface(results, method, "information")
            _contours(axes[2 * row], values[0], where, f"log evidence, {name}", True)
            _contours(axes[2 * row + 1], values[1], where, f"information, {name}, bits", False)
        _contours(axes[4], _surface(results, "ep", "bound"), where, "lower bound at EP's posterior", True)
        _differences(axes[5], results, where)
        return [save(figure, folder / "grids.png")]

    return draw


def _differences(axis: Any, results: Results, where: Range) -> None:
    """EP minus AIS on the subgrid; crosses are points without a certificate."""
    lengths, signals = where.axes()
    frame = results.frame
    gold = frame[frame["method"] == "gold standard"]
    for _, point in gold.iterrows():
        at = lengths[int(point["column"])], signals[int(point["row"])]
        if np.isnan(point.get("EP minus AIS", np.nan)):
            continue
        certified = point["certified, percent"] > 0
        axis.text(
            *at, f"{point['EP minus AIS']:+.1f}", ha="center", fontsize=7, color="k" if certified else "r"
        )
    axis.set(
        xlabel="ln l",
        ylabel="ln s",
        title="EP minus AIS, nats (red: not certified)",
        xlim=where.length,
        ylim=where.signal,
    )


def _remarks(data: str) -> Callable[[Results], list[str]]:
    def remarks(results: Results) -> list[str]:
        lengths, signals = RANGES[data].axes()
        out = []
        for method in ("laplace", "ep"):
            values, bits = (_surface(results, method, what) for what in ("evidence", "information"))
            if np.isfinite(values).any():
                row, column = np.unravel_index(np.nanargmax(values), values.shape)
                out.append(
                    f"{method}: greatest log evidence {values[row, column]:.2f} at (ln l, ln s) = "
                    f"({lengths[column]:.2f}, {signals[row]:.2f}), information there {bits[row, column]:.3f} bits, "
                    f"greatest on the grid {np.nanmax(bits):.3f}"
                )
        gold = results.frame[results.frame["method"] == "gold standard"]
        if len(gold):
            within, certified = gold["EP within a nat, percent"] > 0, gold["certified, percent"] > 0
            out.append(
                f"EP within 1 nat of certified AIS at {int(within.sum())} of {len(gold)} points of the subgrid; "
                f"{int(certified.sum())} are certified"
            )
        return out

    return remarks


_MEASURES = (
    "AIS standard error",
    "certified, percent",
    "EP within a nat, percent",
    "EP minus AIS",
    "Laplace minus AIS",
    "information of MCMC",
    "information of EP",
    "not converged",
)


def _study(data: str, title: str, source: str, seconds: float) -> Study:
    return Study(
        data,
        title,
        source,
        _cells(data, seconds, (4, 10, 16) if data == "ionosphere" else (6,)),
        measures=_MEASURES,
        draw=_draw(data),
        remarks=_remarks(data),
        quick_note="A few columns of the grid and one point of the gold standard.",
    )


STUDIES = {
    "ionosphere": _study(
        "ionosphere",
        "Ionosphere: evidence and information over hyperparameters",
        "thesis 6.3.2 and 6.3.4, figures 6.6 and 6.11 (no numbers in print)",
        120.0,
    ),
    "usps": _study(
        "usps",
        "USPS, threes against fives: evidence and information over hyperparameters",
        "thesis 6.3.3 and 6.3.4, figures 6.8, 6.11; book: Laplace -99 at (2.85, 2.35), EP -90 at (2.6, 4.1)",
        300.0,
    ),
}
