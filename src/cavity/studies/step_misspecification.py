"""A noisy step under three covariance functions (book section 5.4.3, figures 5.9 and 5.10).

The book's data are random and not printed (64 points, noise sd 0.1), so log evidences are averaged over several data
sets of the same kind and compared in order and size: one squared exponential -37.7, two of them -26.1, neural network
50.2. One of the sets is drawn.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cavity.datasets import make_step
from cavity.estimators import GPRegressor
from cavity.kernels import SE, Kernel, NeuralNetwork
from cavity.studies.base import Cell, Outcome, Published, Results, Study
from cavity.studies.pictures import COLORS, band, new_panels, save

GRID = np.linspace(-1, 1, 201)
KERNELS: dict[str, Kernel] = {
    "one SE": 1.0 * SE(1.0),
    "two SEs": 1.0 * SE(1.0) + 1.0 * SE(0.1),
    "neural network": 1.0 * NeuralNetwork(10.0),
}
BOOK = {"one SE": -37.7, "two SEs": -26.1, "neural network": 50.2}


def fit_step(method: str, seed: int, restarts: int) -> Outcome:
    """One fit by evidence maximization."""
    data = make_step(rng=seed)
    assert data.X_test is not None
    model = GPRegressor(KERNELS[method], mean="zero", n_restarts=restarts, random_state=seed)
    model.fit(data.X, data.y)
    y = model.predict_dist(GRID[:, None])
    rmse = float(np.sqrt(np.mean((model.predict(data.X_test) - data.y_test) ** 2)))
    return Outcome(
        {"log evidence": model.log_evidence_, "RMSE of the step": rmse},
        {"x": data.X[:, 0], "y": data.y, "mean": y.mean, "sd": np.sqrt(y.variance)},
    )


def draw(results: Results, folder: Path) -> list[Path]:
    """The first data set under each covariance function."""
    figure, axes = new_panels(1, 3, sharey=True)
    frame = results.frame
    for axis, method in zip(axes, KERNELS):
        s = results.arrays(method=method, set=0)
        value = frame[(frame["method"] == method) & (frame["set"] == 0)]["log evidence"].iloc[0]
        band(axis, GRID, s["mean"], s["sd"])
        axis.plot(GRID, s["mean"], color=COLORS[0], label="mean of y, two sds")
        axis.plot(s["x"], s["y"], "k+", markersize=5, label="data")
        axis.set(xlabel="input x", title=f"{method}: log evidence {value:.1f}")
    axes[0].set_ylabel("output y")
    axes[0].legend(frameon=False, fontsize=8, loc="lower right")
    return [save(figure, folder / "step.png")]


def _order(results: Results) -> list[str]:
    wide = results.frame.pivot(index="set", columns="method", values="log evidence")
    ordered = (wide["one SE"] < wide["two SEs"]) & (wide["two SEs"] < wide["neural network"])
    return [
        f"The book's order (one SE < two SEs < neural network) holds on {int(ordered.sum())} of {len(wide)} data sets. "
        "The sizes depend on where the random inputs fall near the step."
    ]


STUDY = Study(
    "step-misspecification",
    "A step function: stationary covariance functions do not fit it",
    "book section 5.4.3, figures 5.9 and 5.10",
    lambda quick: [
        Cell({"set": k, "method": m}, fit_step, {"method": m, "seed": k, "restarts": 2 if quick else 5})
        for k in range(2 if quick else 10)
        for m in KERNELS
    ],
    measures=("log evidence", "RMSE of the step"),
    published=tuple(Published({"method": m}, "log evidence", v) for m, v in BOOK.items()),
    draw=draw,
    remarks=_order,
    quick_note="Two data sets of ten, two restarts of five.",
)
