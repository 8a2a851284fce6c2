"""The demonstration: a noisy function with a few gross errors, fitted with Gaussian and with robust noise.

Both models are learned by maximizing the evidence on the same data, compared by evidence and by the log loss on clean
held-out points, and drawn side by side.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cavity.hyper import Array

N_TRAIN, N_TEST, N_OUTLIERS, NOISE_SD = 60, 200, 7, 0.1
INTERVAL = 0.8


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


def run(out: Path, seed: int = 3) -> dict[str, Any]:
    """Fit, compare, draw. Returns the rows of the table and the path of the picture."""
    from cavity.estimators import GPRegressor
    from cavity.plots import new_figure, plot_fit

    data = make_data(seed)
    figure, axes = new_figure(panels=2)
    rows = []
    for ax, (name, likelihood) in zip(
        axes, [("Gaussian noise", "gaussian"), ("Student-t noise, EP", "student-t")]
    ):
        started = time.perf_counter()
        model = GPRegressor(likelihood=likelihood, random_state=0).fit(data.X, data.y)
        seconds = time.perf_counter() - started
        prediction = model.predict_dist(data.X_test)
        flagged = None if likelihood == "gaussian" else model.outlier_probability_
        found = (
            ""
            if flagged is None
            else f"{int(np.sum((flagged > 0.5) & (data.is_outlier > 0)))} of {N_OUTLIERS}"
        )
        rows.append(
            {
                "model": name,
                "log evidence": model.log_evidence_,
                "test log loss": -float(np.mean(prediction.log_prob(data.y_test))),
                "test RMSE": float(np.sqrt(np.mean((prediction.mean - data.truth) ** 2))),
                "outliers found": found,
                "seconds": seconds,
            }
        )
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
    out.mkdir(parents=True, exist_ok=True)
    picture = out / "fits.png"
    figure.savefig(picture)
    return {"rows": rows, "picture": picture}
