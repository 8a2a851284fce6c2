"""Evidence and information over a grid of hyperparameters: `ionosphere` and `usps` (thesis 6.3.2 to 6.3.4).

On a 21 x 21 grid of (ln l, ln s): log evidence and information about the test labels, in bits, by Laplace's method and
EP, and the lower bound (6.13) at EP's posterior. On the 7 x 7 points of a subgrid fixed beforehand: annealed importance
sampling, and information from Markov chains. Where the gold standard is not certified the point counts as a miss. At
one point, posterior and predictions are looked at closely (`evidence_point`).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cavity.assessment.gold import gold_standard
from cavity.inference.base import InferenceFailedError
from cavity.inference.variational.elbo import lower_bound
from cavity.likelihoods import Probit
from cavity.likelihoods.observations import Observations
from cavity.numerics.arrays import Array
from cavity.studies import evidence_point
from cavity.studies.base import Cell, Outcome, Results, Study, Target
from cavity.studies.classification_methods import information
from cavity.studies.evidence_problem import (
    CLOSELY,
    COARSE,
    GOLD,
    POINTS,
    RANGES,
    Range,
    coarse_surface,
    log_p,
    model_at,
    problem,
    sampled_log_p,
    surface,
)
from cavity.studies.pictures import COLORS, new_panels, save

NATS_BELOW = np.array([200, 150, 100, 70, 50, 35, 25, 15, 10, 6, 3, 1, 0])
"""Contours of log evidence, in nats below the greatest value of all methods."""

BITS_BELOW = np.array([0.5, 0.4, 0.3, 0.2, 0.15, 0.1, 0.06, 0.03, 0.01, 0.0])
"""Contours of information, in bits below the greatest value of all methods."""

LABELED = 9
"""The highest contours have their values beside them."""

AXES = {"xlabel": "ln l (length scale)", "ylabel": "ln s (signal sd)"}

FEWEST = 4
"""Columns without which there are no contours."""


def draw_contours(results: Results, folder: Path, data: str) -> list[Path]:
    """Evidence and information of Laplace, EP and sampling; the lower bound and how far EP is from annealing."""
    where = RANGES[data]
    coarse = tuple(axis[list(COARSE)] for axis in where.axes())
    panels = [
        (where.axes(), surface(results, "laplace", "evidence"), "log evidence, Laplace"),
        (where.axes(), surface(results, "laplace", "information"), "information, bits, Laplace"),
        (where.axes(), surface(results, "ep", "evidence"), "log evidence, EP"),
        (where.axes(), surface(results, "ep", "information"), "information, bits, EP"),
        (coarse, coarse_surface(results, "AIS log evidence"), "log evidence, AIS on 7 x 7 points"),
        (coarse, coarse_surface(results, "information of MCMC"), "information, bits, MCMC on 7 x 7 points"),
    ]
    levels = (
        evidence_levels(*(values for _, values, _ in panels[::2])),
        information_levels(*(values for _, values, _ in panels[1::2])),
    )
    figure, axes = new_panels(3, 2, width=4.4, height=3.3)
    for k, (axis, (grid, values, title)) in enumerate(zip(axes, panels)):
        contours(axis, grid, values, title, levels[k % 2])
        axis.set(xlim=where.length, ylim=where.signal)
    for axis in axes[4:]:
        _mark_points(axis, coarse, coarse_surface(results, "certified, percent"))
    return [save(figure, folder / "grids.png", few_colors=True), _bound(results, folder, where)]


def evidence_levels(*surfaces: Array) -> Array:
    """The same whole nats for all surfaces, so that panels can be compared."""
    return np.asarray(np.floor(_greatest(surfaces)) - NATS_BELOW)


def information_levels(*surfaces: Array) -> Array:
    """The same hundredths of a bit for all surfaces."""
    return np.asarray(np.floor(100 * _greatest(surfaces)) / 100 - BITS_BELOW)


def _greatest(surfaces: tuple[Array, ...]) -> float:
    known = [float(np.nanmax(values)) for values in surfaces if np.isfinite(values).any()]
    return max(known, default=0.0)


def contours(axis: Any, grid: tuple[Array, ...], values: Array, title: str, levels: Array) -> None:
    """Contours over the columns that were run, the higher the darker; a cross at the greatest value."""
    from matplotlib import colormaps

    lengths, signals = grid
    axis.set(**AXES, title=title)
    known: NDArray[np.bool_] = np.asarray(np.isfinite(values).any(axis=0))
    if known.sum() < FEWEST:
        run = (
            f"{known.sum()} of {len(known)} columns run:\ntoo few for contours" if known.any() else "not run"
        )
        axis.text(0.5, 0.55, run, ha="center", transform=axis.transAxes)
        return
    lengths, values = lengths[known], values[:, known]
    colors = colormaps["viridis_r"](np.linspace(0.3, 1.0, len(levels)))
    lines = axis.contour(lengths, signals, values, levels=levels, colors=colors, linewidths=1)
    near = lines.levels[-LABELED:]  # farther down, steep slopes would put one label on another
    axis.clabel(lines, near, fontsize=8, fmt="%.0f" if np.all(levels == np.round(levels)) else "%.2f")
    row, column = np.unravel_index(np.nanargmax(values), values.shape)
    axis.plot(lengths[column], signals[row], "k+", markersize=11, markeredgewidth=1.6, clip_on=False)
    top = float(values[row, column])
    text = f"greatest: {top:.1f}" if abs(top) >= 10 else f"greatest: {top:.3f}"
    text += "" if known.all() else f" ({known.sum()} of {len(known)} columns)"
    box = {"facecolor": "w", "edgecolor": "none", "pad": 1.5}
    axis.text(0.98, 0.03, text, ha="right", fontsize=9, transform=axis.transAxes, bbox=box, zorder=5)


def _mark_points(axis: Any, coarse: tuple[Array, ...], certified: Array) -> None:
    """Dots where annealing is certified, crosses where it was run and is not."""
    lengths, signals = np.meshgrid(*coarse)
    for where, mark, color, size in ((certified > 0, ".", "0.6", 3), (certified == 0, "x", COLORS[1], 5)):
        axis.plot(lengths[where], signals[where], mark, color=color, markersize=size)


def _bound(results: Results, folder: Path, where: Range) -> Path:
    """The lower bound at EP's posterior (6.13), and EP minus annealing point by point."""
    figure, axes = new_panels(1, 2, width=4.4, height=3.3)
    bound = surface(results, "ep", "bound")
    contours(axes[0], where.axes(), bound, "lower bound at EP's posterior", evidence_levels(bound))
    difference, certified = (
        coarse_surface(results, measure) for measure in ("EP minus AIS", "certified, percent")
    )
    lengths, signals = (axis[list(COARSE)] for axis in where.axes())
    for place, value in np.ndenumerate(difference):
        if np.isfinite(value):
            sure = certified[place] > 0
            text = f"{value:+.2f}" if abs(value) < 9.995 else f"{value:+.0f}"
            look = {"color": "k" if sure else COLORS[1], "style": "normal" if sure else "italic"}
            centered = {"ha": "center", "va": "center", "fontsize": 8}
            axes[1].text(lengths[place[1]], signals[place[0]], text, **centered, **look)
    axes[1].set(**AXES, title="EP minus AIS, nats (italic: not certified)")
    for axis in axes:
        axis.set(xlim=where.length, ylim=where.signal)
    return save(figure, folder / "bound.png", few_colors=True)


ERROR = {"ionosphere": 0.15, "usps": 0.25}
"""Standard error that annealing is asked for, in nats: small beside the nat by which EP is judged."""

DRAWS = {"ionosphere": 800.0, "usps": 200.0}
"""Effective draws of every latent value that are enough for the information at a point of the subgrid."""

SECONDS = 1200.0
"""The most that a point of the gold standard may take; nearly all need far less."""


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
        bits[k] = information(log_p(posterior, X_test), y_test)
        if method == "ep":
            bound[k] = lower_bound(posterior.approximation, Observations(Probit(), y))
    failed = int(np.isnan(evidence).sum())
    return Outcome(
        {"best log evidence": float(np.nanmax(evidence)), "not converged": failed},
        {"evidence": evidence, "information": bits, "bound": bound},
    )


def gold_point(data: str, column: int, row: int, seconds: float, error: float) -> Outcome:
    """Annealed importance sampling and chains at one point of the subgrid, with EP and Laplace beside them."""
    X, y, X_test, y_test = problem(data)
    lengths, signals = RANGES[data].axes()
    model = model_at(lengths[column], signals[row], "ep")
    rng = np.random.default_rng([column, row])
    gold = gold_standard(
        model, X, y, max_time=seconds, target_error=error, enough=DRAWS[data], rng=rng, progress=False
    )
    ep = model.condition(X, y)
    laplace = model_at(lengths[column], signals[row], "laplace").condition(X, y)
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
            "information of MCMC": information(sampled_log_p(model, X, gold.chains, X_test), y_test),
            "information of EP": information(log_p(ep, X_test), y_test),
            "information of Laplace": information(log_p(laplace, X_test), y_test),
            "R-hat": gold.chains.rhat,
            "fewest effective draws": gold.chains.ess,
        },
        note=found.reason,
    )


def _cells(data: str, quick_columns: tuple[int, ...], quick: bool) -> list[Cell]:
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
    budget = 20.0 if quick else SECONDS
    ln_l, ln_s = CLOSELY[data]
    out.append(
        Cell(
            {"method": evidence_point.LABEL, "column": -1, "row": -1},
            evidence_point.compare,
            {"data": data, "ln_l": ln_l, "ln_s": ln_s, "seconds": budget, "error": evidence_point.ERROR},
        )
    )
    return out + [
        Cell(
            {"method": GOLD, "column": c, "row": r},
            gold_point,
            {"data": data, "column": c, "row": r, "seconds": budget, "error": ERROR[data]},
        )
        for c, r in coarse
    ]


def _draw(data: str, results: Results, folder: Path) -> list[Path]:
    return draw_contours(results, folder, data) + evidence_point.draw(results, folder, data)


def _remarks(data: str, results: Results) -> list[str]:
    return _maxima(results, data) + _gold_remarks(results) + evidence_point.remarks(results, data)


def _maxima(results: Results, data: str) -> list[str]:
    """Where each surface is greatest, and what the model there tells about the test labels."""
    lengths, signals = RANGES[data].axes()
    out = []
    for name, method, what in (
        ("Laplace", "laplace", "evidence"),
        ("EP", "ep", "evidence"),
        ("lower bound", "ep", "bound"),
    ):
        values, bits = surface(results, method, what), surface(results, method, "information")
        if np.isfinite(values).any():
            row, column = np.unravel_index(np.nanargmax(values), values.shape)
            out.append(
                f"{name}: greatest value {values[row, column]:.2f} at (ln l, ln s) = "
                f"({lengths[column]:.2f}, {signals[row]:.2f}), information there {bits[row, column]:.3f} bits, "
                f"greatest on the grid {np.nanmax(bits):.3f}"
            )
    return out


def _gold_remarks(results: Results) -> list[str]:
    frame = results.frame
    gold = frame[(frame["method"] == GOLD) & (frame["error"] == "")]
    if not len(gold):
        return []
    within, certified = gold["EP within a nat, percent"] > 0, gold["certified, percent"] > 0
    sure = gold[certified]
    out = [
        f"EP within 1 nat of certified AIS at {int(within.sum())} of {len(gold)} points of the subgrid; "
        f"{int(certified.sum())} are certified"
    ]
    if len(sure):
        laplace = int((sure["Laplace minus AIS"].abs() <= 1).sum())
        out.append(
            f"at certified points EP minus AIS is between {sure['EP minus AIS'].min():+.2f} and "
            f"{sure['EP minus AIS'].max():+.2f} nats, median {sure['EP minus AIS'].median():+.2f}; Laplace minus AIS "
            f"between {sure['Laplace minus AIS'].min():+.1f} and {sure['Laplace minus AIS'].max():+.1f}, within a nat "
            f"at {laplace}"
        )
    gaps = {
        m: (gold[f"information of {m}"] - gold["information of MCMC"]).abs().max() for m in ("EP", "Laplace")
    }
    out.append(
        "largest difference of information from MCMC on the subgrid: "
        + ", ".join(f"{m} {gap:.3f} bits" for m, gap in gaps.items())
    )
    return out


_MEASURES = (
    "AIS standard error",
    "certified, percent",
    "EP within a nat, percent",
    "EP minus AIS",
    "Laplace minus AIS",
    "information of MCMC",
    "information of EP",
    "information of Laplace",
    "not converged",
)


def _study(data: str, title: str, source: str, targets: tuple[Target, ...] = ()) -> Study:
    return Study(
        data,
        title,
        source,
        partial(_cells, data, COARSE if data == "ionosphere" else (6,)),
        measures=_MEASURES,
        targets=targets,
        draw=partial(_draw, data),
        remarks=partial(_remarks, data),
        quick_note="A few columns of the grid and one point of the gold standard.",
    )


STUDIES = {
    "ionosphere": _study(
        "ionosphere",
        "Ionosphere: evidence and information over hyperparameters",
        "thesis 6.3.2 and 6.3.4, figures 6.6 and 6.11 (no numbers in print)",
        (Target({"method": GOLD}, "EP within a nat, percent", ">=", 95.0),),
    ),
    "usps": _study(
        "usps",
        "USPS, threes against fives: evidence and information over hyperparameters",
        "thesis 6.3.3 and 6.3.4, figures 6.8 to 6.11; book: Laplace -99 at (2.85, 2.35), EP -90 at (2.6, 4.1)",
    ),
}
