"""Inverse dynamics of the SARCOS arm (book section 2.5, and table 8.1): approximations for large data side by side.

The training rows are those of the published file that are not in its test set (nearly all published test rows are in
the training set too): 40,035 rows, 4449 test rows, 21 inputs, the first torque. Inputs are standardized, targets
centered.

Table 8.1: a squared exponential with one length scale for each input is learned from a random subset of m rows (SD).
Its hyperparameters and its rows serve the subset of regressors (SR), the projected process (PP) and, on a random
partition into parts of m rows, the Bayesian committee machine (BCM, test rows in blocks of 500), which see all rows.

Beside it `GPRegressor` with its defaults on all rows, which chooses a representation by held-out rows; what its fit
costs is in floors, the processor time of K_uf K_fu and one Cholesky factorization for 1000 inducing inputs.
"""

from __future__ import annotations

import time
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf

from cavity.datasets import load
from cavity.estimators import GPRegressor
from cavity.gp import GP
from cavity.kernels import SE
from cavity.latent import Committee, Inducing
from cavity.learning.fit import learn
from cavity.likelihoods import Gaussian
from cavity.numerics.arrays import Array
from cavity.numerics.compiled import load_compiled
from cavity.studies.base import Cell, Outcome, Published, Results, Study, Target
from cavity.studies.pictures import COLORS, LINES, MARKERS, new_panels, save

SMSE, MSLL, FLOORS = "SMSE", "MSLL", "floors"
SIZES = {256: 10, 512: 10, 1024: 10, 2048: 2, 4096: 1}
"""Rows of a subset, and subsets of this size; the book has ten of each."""

COMMITTEE_SIZES = (256, 512, 1024, 2048, 4096)
"""Parts of committee machines, one partition each."""

TOGETHER = 500
"""Test rows that a committee machine predicts at once."""

BOOK = {
    "SD": (
        (256, 0.0813, -1.4291),
        (512, 0.0532, -1.5834),
        (1024, 0.0398, -1.7149),
        (2048, 0.0290, -1.8611),
        (4096, 0.0200, -2.0241),
    ),
    "SR": (
        (256, 0.0351, -1.6088),
        (512, 0.0259, -1.8185),
        (1024, 0.0193, -1.9728),
        (2048, 0.0150, -2.1126),
        (4096, 0.0110, -2.2474),
    ),
    "PP": (
        (256, 0.0351, -1.6940),
        (512, 0.0259, -1.8423),
        (1024, 0.0193, -1.9823),
        (2048, 0.0150, -2.1125),
        (4096, 0.0110, -2.2399),
    ),
    "BCM": ((256, 0.0314, -1.7066), (512, 0.0281, -1.7807), (1024, 0.0180, -2.0081), (2048, 0.0136, -2.1364)),
}
"""Table 8.1: m, standardized mean squared error, mean standardized log loss."""

LINEAR_BOOK = (0.075, -1.29)

PEERS = (
    ("LightGBM 4.7, tuned (127 leaves, 3000 trees)", 0.0127, -2.181, 82.0),
    ("GPyTorch 1.15 SVGP, 500 inducing inputs, ten epochs", 0.0328, -1.106, 25.0),
)
"""Others on the same rows: method, SMSE, MSLL, CPU seconds on one thread (`benchmarks/large_peer_fits.py`)."""


@lru_cache(maxsize=1)
def arm() -> tuple[Array, Array, Array, Array]:
    """Standardized training inputs, centered targets, and the same of the test rows."""
    data = load("sarcos")
    assert data.X_test is not None
    middle, spread, level = data.X.mean(axis=0), data.X.std(axis=0), data.y.mean()
    new, truth = (data.X_test - middle) / spread, np.asarray(data.y_test, dtype=float) - level
    return (data.X - middle) / spread, data.y - level, new, truth


def scores(mean: Array, variance: Array) -> dict[str, float]:
    """Error in test variances, and log loss relative to a normal density with the moments of the training targets."""
    _, y, _, truth = arm()
    error = truth - mean
    loss = 0.5 * (np.log(2 * np.pi * variance) + error**2 / variance)
    trivial = 0.5 * (np.log(2 * np.pi * np.var(y)) + truth**2 / np.var(y))
    return {SMSE: float(np.mean(error**2) / np.var(truth)), MSLL: float(np.mean(loss - trivial))}


def subset(m: int, seed: int) -> tuple[GP, NDArray[np.intp]]:
    """The model learned from a random subset, and its rows."""
    X, y, _, _ = arm()
    rows = np.sort(np.random.default_rng(seed).choice(len(X), m, replace=False))
    model = GP(float(np.var(y)) * SE(np.full(X.shape[1], 4.0)), Gaussian(0.05 * float(np.var(y)))).bind(
        X.shape[1]
    )
    found = learn(model, X[rows], y[rows], n_restarts=0, rng=seed)
    return found.model, rows


def table_8_1(m: int, seed: int) -> list[tuple[str, GP, Array, Array]]:
    """What each method conditions on: its name, model and data."""
    X, y, _, _ = arm()
    model, rows = subset(m, seed)
    found = [("SD", model, X[rows], y[rows])]
    for name, kind in (("SR", "sor"), ("PP", "dtc")):
        found.append((name, model.with_representation(Inducing(kind=kind, inputs=X[rows])), X, y))
    return found


def of_subset(m: int, seed: int) -> Outcome:
    """SD, SR, PP and, for small parts, BCM from one subset."""
    _, _, new, _ = arm()
    found: dict[str, float] = {}
    for name, model, X, y in table_8_1(m, seed):
        prediction = model.condition(X, y).predict_y(new)
        found |= {f"{name} {k}": v for k, v in scores(prediction.mean, prediction.variance).items()}
    return Outcome(found)


def of_committee(m: int, seed: int) -> Outcome:
    """The Bayesian committee machine, test rows in blocks, and the rules that take them one by one."""
    X, y, new, _ = arm()
    model, _ = subset(m, seed)
    noise = float(model.likelihood.get("gaussian.variance"))
    found: dict[str, float] = {}
    posterior = model.with_representation(Committee(m, "bcm", seed=seed)).condition(X, y)
    pieces = [posterior.process.together(new[at : at + TOGETHER]) for at in range(0, len(new), TOGETHER)]
    mean = np.concatenate([mean for mean, _ in pieces])
    variance = np.concatenate([np.diagonal(cov) for _, cov in pieces])
    found |= {f"BCM {k}": v for k, v in scores(mean, variance + noise).items()}
    for rule in ("gpoe", "rbcm"):
        mean, variance = posterior.process.moments(new, rule)
        found |= {f"{rule} {k}": v for k, v in scores(mean, variance + noise).items()}
    return Outcome(found)


def linear() -> Outcome:
    """Linear regression, noise from the training residuals."""
    X, y, new, _ = arm()
    weights, *_ = np.linalg.lstsq(X, y, rcond=None)
    left = y - X @ weights
    return Outcome(scores(new @ weights, np.full(len(new), float(np.mean(left**2)))))


def floor(n: int, m: int = 1000) -> float:
    """CPU seconds of A'A for an n x m matrix in blocks of 1024 rows, and of one Cholesky factorization of m."""
    tile, C = np.random.default_rng(0).standard_normal((1024, m)), np.zeros((m, m), order="F")
    begin = time.process_time()
    for start in range(0, n, 1024):
        dsyrk(1.0, tile[: min(1024, n - start)].T, beta=1.0, c=C, lower=1, overwrite_c=1)
    C.reshape(-1, order="F")[:: m + 1] += 1.0
    dpotrf(C, lower=1, overwrite_a=1)
    return time.process_time() - begin


def default(seed: int) -> Outcome:
    """`GPRegressor` with its defaults on all rows."""
    X, y, new, _ = arm()
    load_compiled()
    floors = [floor(len(X)) for _ in range(3)]
    begin = time.process_time()
    model = GPRegressor(random_state=seed).fit(X, y)
    took = time.process_time() - begin
    floors += [floor(len(X)) for _ in range(3)]
    prediction = model.predict_dist(new)
    trials = ", ".join(f"{name} {score:.3f}" for name, score in model.posterior_.status.trials)
    return Outcome(
        {**scores(prediction.mean, prediction.variance), FLOORS: took / float(np.median(floors))},
        note=f"{model.model_.representation.name}; log density a row of 1000 held out: {trials}",
    )


def cells(quick: bool) -> list[Cell]:
    """Every subset of every size, the baselines, and the defaults on all rows."""
    out = [Cell({"method": "linear regression", "m": 0, "seed": 0}, linear, {})]
    sizes = {256: 1} if quick else SIZES
    for m, count in sizes.items():
        for seed in range(count):
            out.append(Cell({"method": "table 8.1", "m": m, "seed": seed}, of_subset, {"m": m, "seed": seed}))
    if quick:
        return out
    for m in COMMITTEE_SIZES:
        out.append(Cell({"method": "committee", "m": m, "seed": 0}, of_committee, {"m": m, "seed": 0}))
    for seed in range(3):
        out.append(Cell({"method": "defaults", "m": 0, "seed": seed}, default, {"seed": seed}))
    return out


def remarks(results: Results) -> list[str]:
    """What the rows are, and what they cost."""
    frame = results.frame
    out = [
        "The book's rows are with the published test set, nearly all of which is in its training set; here those rows "
        "were taken out, so that its figures flatter it.",
        "SD, SR and PP share the hyperparameters that SD learned; committees take those of the subset of their size.",
    ]
    times = frame.groupby(["method", "m"], sort=False)["cpu_seconds"].mean().reset_index()
    parts = []
    for row in times.to_dict("records"):
        size = f" m = {row['m']}" if row["m"] else ""
        parts.append(f"{row['method']}{size} {row['cpu_seconds']:.0f}")
    text = ", ".join(parts)
    out += [f"{name}: SMSE {smse}, MSLL {msll}, {took:.0f} CPU seconds." for name, smse, msll, took in PEERS]
    return [*out, f"CPU seconds of a cell: {text}."]


def draw(results: Results, folder: Path) -> list[Path]:
    """Both measures over the rows of a subset, with those of the defaults as lines."""
    frame = results.frame
    figure, axes = new_panels(1, 2, width=4.2, height=3.4)
    for axis, measure in zip(axes, (SMSE, MSLL)):
        for k, (name, published) in enumerate(BOOK.items()):
            column = f"{name} {measure}"
            if column not in frame:
                continue
            ours = frame[frame[column].notna()].groupby("m")[column].mean()
            axis.plot(
                ours.index, ours, LINES[0], color=COLORS[k], marker=MARKERS[k], markersize=4, label=name
            )
            axis.plot(
                [row[0] for row in published],
                [row[1 + (measure == MSLL)] for row in published],
                ":",
                color=COLORS[k],
            )
        own = frame[frame["method"] == "defaults"]
        if len(own):
            axis.axhline(own[measure].mean(), color="0.3", lw=1, label="defaults")
        axis.set(xlabel="rows of the subset, m", ylabel=measure, xscale="log")
        axis.set_xticks(list(SIZES), [str(m) for m in SIZES])
        axis.minorticks_off()
    axes[0].set_yscale("log")
    axes[0].legend(frameon=False, fontsize=8)
    axes[1].set_title("dotted: in print", fontsize=9)
    return [save(figure, folder / "sarcos.png")]


def _published() -> tuple[Published, ...]:
    out = [
        Published({"method": "linear regression"}, measure, value, "table 2.1")
        for measure, value in zip((SMSE, MSLL), LINEAR_BOOK)
    ]
    for name, rows in BOOK.items():
        for m, *values in rows:
            labels = {"method": "committee" if name == "BCM" else "table 8.1", "m": m}
            for measure, value in zip((SMSE, MSLL), values):
                out.append(Published(labels, f"{name} {measure}", value, "table 8.1"))
    return tuple(out)


STUDY = Study(
    "sarcos",
    "A robot arm, 40,035 rows: approximations for large data",
    "book section 2.5 and table 8.1 (44,484 training rows there, the test rows among them)",
    cells,
    measures=(
        SMSE,
        MSLL,
        FLOORS,
        *(f"{name} {measure}" for name in (*BOOK, "gpoe", "rbcm") for measure in (SMSE, MSLL)),
    ),
    by=("method", "m"),
    published=_published(),
    targets=(
        Target({"method": "defaults"}, SMSE, "<=", 0.0085),
        Target({"method": "defaults"}, MSLL, "<=", -2.45),
        Target({"method": "defaults"}, FLOORS, "<=", 60.0),
    ),
    draw=draw,
    remarks=remarks,
    quick_note="One subset of 256 rows and linear regression.",
    needs_arrays=False,
)
