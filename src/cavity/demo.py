"""The demonstration: a noisy function with a few gross errors, fitted with Gaussian and with robust noise.

Both models are learned by maximizing the evidence on the same data, compared by evidence and by the log loss on clean
held-out points, and drawn side by side. The approximate inference behind the robust one is then held against annealed
importance sampling and Markov chains.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cavity.numerics.arrays import Array

if TYPE_CHECKING:
    from cavity.assessment import Assessment
    from cavity.estimators import GPRegressor
    from cavity.report import Page

N_TRAIN, N_TEST, N_OUTLIERS, NOISE_SD = 60, 200, 7, 0.1
INTERVAL = 0.8

NOISE = {"Gaussian noise": "gaussian", "Student-t noise, EP": "student-t"}

MAX_TIME = 20.0
"""Seconds for the check against sampling: enough to certify it on an idle core."""


@dataclass(frozen=True)
class DemoData:
    """Training data with gross errors, and clean test data."""

    X: Array
    y: Array
    is_outlier: Array
    X_test: Array
    y_test: Array
    truth: Array


def true_function(x: Array) -> Array:
    """What the data are made from."""
    return np.asarray(np.sin(1.5 * x) * np.exp(-0.12 * x) + 0.15 * x)


def make_data(seed: int = 3) -> DemoData:
    """Embedded data: reproducible from the seed."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 8, N_TRAIN))
    y = true_function(x) + NOISE_SD * rng.standard_normal(N_TRAIN)
    wrong = rng.choice(N_TRAIN, N_OUTLIERS, replace=False)
    y[wrong] += rng.choice([-1, 1], N_OUTLIERS) * rng.uniform(1.0, 2.5, N_OUTLIERS)
    x_test = np.linspace(0, 8, N_TEST)
    truth = true_function(x_test)
    y_test = truth + NOISE_SD * rng.standard_normal(N_TEST)
    flags = np.zeros(N_TRAIN)
    flags[wrong] = 1.0
    return DemoData(x[:, None], y, flags, x_test[:, None], y_test, truth)


@dataclass(frozen=True)
class DemoResult:
    """What the demonstration found, and where it put picture and report."""

    rows: list[dict[str, Any]]
    assessment: Assessment
    picture: Path
    report: Path


def run(
    out: Path, seed: int = 3, max_time: float = MAX_TIME, say: Callable[[str], None] = lambda _: None
) -> DemoResult:
    """Fit, compare, check, draw, and write a report.

    Parameters
    ----------
    out : Path
        Folder for picture and report.
    seed : int
        Of the data.
    max_time : float
        Seconds for the check against sampling.
    say : callable
        Told what is being done.
    """
    from cavity.assessment import assess
    from cavity.estimators import GPRegressor

    data = make_data(seed)
    models: dict[str, GPRegressor] = {}
    rows = []
    for name, likelihood in NOISE.items():
        say(f"Fitting {name} ...")
        started = time.perf_counter()
        models[name] = GPRegressor(likelihood=likelihood, random_state=0).fit(data.X, data.y)
        rows.append(scores(name, models[name], data, time.perf_counter() - started))
    say(
        f"Checking approximations against annealed importance sampling and Markov chains; {max_time:g} seconds ..."
    )
    some = slice(None, None, 4)
    robust = models["Student-t noise, EP"]
    checked = assess(robust, data.X, data.y, data.X_test[some], data.y_test[some], max_time=max_time, rng=0)
    out.mkdir(parents=True, exist_ok=True)
    picture = out / "fits.png"
    draw(models, data, picture)
    page = report_page(models, data, rows, checked, f"cavity demo --seed {seed}")
    return DemoResult(rows, checked, picture, page.write(out / "report.html"))


def scores(name: str, model: GPRegressor, data: DemoData, seconds: float) -> dict[str, Any]:
    """A row of the table: log loss and RMSE are on clean test data."""
    prediction = model.predict_dist(data.X_test)
    hits = int(np.sum(flagged(model) & (data.is_outlier > 0)))
    return {
        "model": name,
        "log evidence": model.log_evidence_,
        "test log loss": -float(np.mean(prediction.log_prob(data.y_test))),
        "test RMSE": float(np.sqrt(np.mean((prediction.mean - data.truth) ** 2))),
        "outliers found": "" if model.likelihood == "gaussian" else f"{hits} of {N_OUTLIERS}",
        "seconds": seconds,
    }


def flagged(model: GPRegressor) -> NDArray[np.bool_]:
    """Points that are probably outliers; Gaussian noise knows none."""
    if model.likelihood == "gaussian":
        return np.zeros(N_TRAIN, dtype=bool)
    return np.asarray(model.outlier_probability_) > 0.5


def draw(models: Mapping[str, GPRegressor], data: DemoData, path: Path) -> None:
    """The fits side by side, as a PNG."""
    from cavity.plots import new_figure, plot_fit

    figure, axes = new_figure(panels=len(models))
    for ax, (name, model) in zip(axes, models.items()):
        plot_fit(
            model,
            ax=ax,
            grid=data.X_test,
            levels=(INTERVAL,),
            truth=data.truth,
            ylabel="",
            title=f"{name}\nlog evidence {model.log_evidence_:.1f}",
            legends=False,
        )
    axes[0].set_ylabel("y")
    figure.legend(
        *axes[-1].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=8, frameon=False
    )
    figure.savefig(path)


def report_page(
    models: Mapping[str, GPRegressor],
    data: DemoData,
    rows: list[dict[str, Any]],
    checked: Assessment,
    command: str,
) -> Page:
    """The page: table, pictures, outliers, verdicts."""
    from cavity.report import DataTable, Page, Picture, Text
    from cavity.report.content import assessment_blocks, versions
    from cavity.report.drawings import as_svg, fit_of_one_input

    page = Page(
        "Data with gross errors, two noise models",
        f"{N_TRAIN} points, {N_OUTLIERS} of them off by 10 to 25 noise standard deviations",
    )
    page.add(
        "Comparison",
        Text(verdict(rows), "good"),
        DataTable(
            list(rows[0]), [list(row.values()) for row in rows], "Log loss and RMSE are on clean test data"
        ),
    )
    pictures = []
    for number, (name, model) in enumerate(models.items()):
        prediction = model.predict_dist(data.X_test)

        def panel(ax: Any, model: GPRegressor = model, prediction: Any = prediction) -> None:
            fit_of_one_input(
                ax, data.X_test[:, 0], prediction, data.X[:, 0], data.y, ("x", "y"), flagged(model)
            )

        pictures.append(Picture(as_svg(panel, f"fit{number}"), f"{name}: mean, intervals of y, data."))
    page.add("The fits", *pictures)
    robust = list(models.values())[-1]
    found = np.flatnonzero(flagged(robust))
    values = [
        [int(i), float(data.X[i, 0]), float(data.y[i]), float(robust.outlier_probability_[i])] for i in found
    ]
    page.add("Outliers", DataTable(("point", "x", "y", "probability"), values, "Found by Student-t noise"))
    page.add("Check of the approximation", *assessment_blocks(checked))
    page.add("How to repeat it", *versions(command))
    return page


def verdict(rows: list[dict[str, Any]]) -> str:
    """What the table says, in a sentence."""
    plain, robust = rows
    gain = robust["log evidence"] - plain["log evidence"]
    better = plain["test log loss"] - robust["test log loss"]
    return (
        f"{robust['model']} has {abs(gain):.1f} nats {'more' if gain > 0 else 'less'} evidence than "
        f"{plain['model']}, and a log loss on clean test data that is {abs(better):.2f} nats per point "
        f"{'lower' if better > 0 else 'higher'}."
    )
