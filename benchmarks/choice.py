"""The kind of model that `cavity fit` chooses by itself, against plain models of scikit-learn, on tables of every kind.

`python -m benchmarks choice [--quick] [--seed S] [--only TABLE ...]`. Each table is split into three quarters and one,
ten times (`--quick`: three times), two splits side by side. What `cavity fit` does without options
(`cavity.tables.fit.fit_table`) is
compared with

- `boosting`: HistGradientBoosting, `forest`: 300 random trees, both with their defaults;
- `linear`: ridge regression with its penalty by leave-one-out, or logistic regression, on standardized columns;
- `sklearn`: scikit-learn's Gaussian process, a length scale for each standardized column and noise, one start.

by RMSE or, of classes, by log loss, means over the splits (RMSE: the root of the mean of squares). Of regressions the
coverage of 90 % intervals is counted over all splits, also in each third of the predicted values; if predictions are
discrete, by the randomized probability transform, because their intervals hold more than they say by construction.
Every number is computed in the run. Simulated tables and splits depend on the seed.

A row that is held out in several splits is nearly the same observation each time. Standard errors of coverage therefore
count rows, not predictions: with hits h_i of row i, which is predicted c_i times, that of sum c_i h_i / sum c_i is
sqrt(0.9 0.1 sum c_i^2) / sum c_i. Rows of one split share hyperparameters, which is not counted.

RESULT has the share of tables on which the choice is best or within 5 % of the best, the mean coverage, the mean
difference of stated and observed probability of classes, tables whose coverage is not within two standard errors of
90 % as a whole (`off`) or in some third (`off_thirds`), how many tables that would be on average if all intervals were
perfect (`by_chance`), and intervals that leave the range of their kind (`outside`).
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks.choice_tables import CLASSES, RANGES, REGRESSION, table
from cavity.prediction.calibration import expected_calibration_error
from cavity.tables import Table, prepare
from cavity.tables.fit import fit_table
from cavity.tables.training import Options

Array = NDArray[np.float64]

SPLITS, QUICK_SPLITS = 10, 3
JOBS = 2
"""Processes, of one thread each."""

WITHIN = 1.05
"""Of the best: level with it."""

LEVEL = 0.9
OURS = "cavity"

DRAWS = 200
"""Of perfect intervals, for what is off by chance."""


@dataclass
class Found:
    """Of one table: scores of each method by split, and what intervals did, row by row."""

    scores: dict[str, list[float]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    inside: list[Array] = field(default_factory=list)
    predicted: list[Array] = field(default_factory=list)
    rows: list[NDArray[np.intp]] = field(default_factory=list)
    outside: int = 0
    calibration: list[float] = field(default_factory=list)
    chosen: str = ""

    def add(self, other: Found) -> None:
        """Another split of the table."""
        for method, values in other.scores.items():
            self.scores.setdefault(method, []).extend(values)
            self.seconds[method] = self.seconds.get(method, 0.0) + other.seconds[method]
        self.inside += other.inside
        self.predicted += other.predicted
        self.rows += other.rows
        self.outside += other.outside
        self.calibration += other.calibration
        self.chosen = other.chosen

    def score(self, method: str, squares: bool) -> float:
        values = np.array(self.scores[method])
        return float(np.sqrt(np.mean(values**2)) if squares else np.mean(values))


def peers(classes: bool, columns: int, seed: int) -> dict[str, Any]:
    scaled = StandardScaler
    ones = np.ones(columns)
    if classes:
        kernel = ConstantKernel(1.0, (1e-3, 1e4)) * RBF(ones * np.sqrt(columns), (1e-2, 1e4))
        return {
            "boosting": HistGradientBoostingClassifier(random_state=seed),
            "forest": RandomForestClassifier(300, random_state=seed),
            "linear": make_pipeline(scaled(), LogisticRegression(max_iter=2000)),
            "sklearn": make_pipeline(scaled(), GaussianProcessClassifier(kernel, random_state=seed)),
        }
    kernel = ConstantKernel(1.0, (1e-3, 1e4)) * RBF(ones * np.sqrt(columns), (1e-2, 1e4)) + WhiteKernel(0.1)
    return {
        "boosting": HistGradientBoostingRegressor(random_state=seed),
        "forest": RandomForestRegressor(300, random_state=seed),
        "linear": make_pipeline(scaled(), RidgeCV(np.logspace(-3, 3, 13))),
        "sklearn": make_pipeline(
            scaled(), GaussianProcessRegressor(kernel, normalize_y=True, random_state=seed)
        ),
    }


def log_loss(p: Array, codes: NDArray[np.intp]) -> float:
    truth = np.maximum(p[np.arange(len(codes)), codes], 1e-15)
    return -float(np.mean(np.log(truth)))


def one_split(name: str, seed: int, split: int, with_peers: bool = True) -> Found:
    """Everything of one split, on one thread."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _one_split(name, seed, split, with_peers)


def _one_split(name: str, seed: int, split: int, with_peers: bool) -> Found:
    found = Found()
    frame, classes = table(name, seed), name in CLASSES
    rows = np.arange(len(frame))
    strata = frame["y"] if classes else None
    train, test = train_test_split(rows, test_size=0.25, random_state=seed + split, stratify=strata)
    part = frame.iloc[train].reset_index(drop=True)
    read = Table(part, np.arange(1, len(part) + 1), len(part))
    started = time.process_time()
    preparation, X, y = prepare(read, "y")
    model = fit_table(preparation, X, y, read, Options(test_size=0.0)).estimator
    seconds = {OURS: time.process_time() - started}
    held = frame.iloc[test].reset_index(drop=True)
    Z, target = preparation.inputs(held), preparation.targets(held)
    choice = getattr(model, "choice_", None)
    found.chosen = "" if choice is None else choice.chosen.render()
    scores: dict[str, float] = {}
    if classes:
        p = model.predict_proba(Z)
        codes = np.searchsorted(model.classes_, target)
        scores[OURS] = log_loss(p, codes)
        top = np.argmax(p, axis=1)
        certainty = expected_calibration_error(p[np.arange(len(p)), top], top == codes)
        found.calibration.append(certainty)
    else:
        prediction = model.predict_dist(Z)
        mean = prediction.mean
        scores[OURS] = float(np.sqrt(np.mean((mean - target) ** 2)))
        found.inside.append(_inside(prediction, target, split))
        found.predicted.append(mean)
        found.rows.append(test)
        low, high = prediction.interval(LEVEL)
        ends = RANGES.get(name, (-np.inf, np.inf))
        found.outside += int(np.sum((low < ends[0]) | (high > ends[1])))
    for method, peer in peers(classes, X.shape[1], seed).items() if with_peers else ():
        started = time.process_time()
        peer.fit(X.to_numpy(dtype=float), y)
        if classes:
            scores[method] = log_loss(
                peer.predict_proba(Z.to_numpy(dtype=float)), np.searchsorted(peer.classes_, target)
            )
        else:
            scores[method] = float(np.sqrt(np.mean((peer.predict(Z.to_numpy(dtype=float)) - target) ** 2)))
        seconds[method] = time.process_time() - started
    found.scores = {method: [value] for method, value in scores.items()}
    found.seconds = seconds
    return found


def _inside(prediction: Any, y: Array, seed: int) -> Array:
    """Whether each target is in its interval; of discrete predictions by the randomized transform."""
    tail = 0.5 * (1.0 - LEVEL)
    above = prediction.cdf(y)
    below = prediction.cdf(y - 0.5) if _is_discrete(prediction) else above
    place = below + np.random.default_rng(seed).uniform(size=len(y)) * (above - below)
    low, high = prediction.interval(LEVEL)
    inside = (y >= low) & (y <= high)
    return np.where(_is_discrete(prediction), (place >= tail) & (place <= 1.0 - tail), inside).astype(float)


def _is_discrete(prediction: Any) -> bool:
    return hasattr(prediction, "probabilities") or "Count" in type(prediction).__name__


def parts(found: Found) -> list[NDArray[np.intp]]:
    """Places of all predictions, and of those in each third of the predicted values."""
    order = np.argsort(np.concatenate(found.predicted), kind="stable")
    return [order, *np.array_split(order, 3)]


def standard_error(rows: NDArray[np.intp]) -> float:
    """Of the coverage, from the row of each prediction: predictions of one row are one observation."""
    times = np.unique(rows, return_counts=True)[1]
    return float(np.sqrt(LEVEL * (1 - LEVEL) * np.sum(times**2)) / np.sum(times))


def are_off(found: Found, inside: Array) -> list[bool]:
    """Whether the coverage of all predictions, and in each third, is beyond two standard errors of the level."""
    rows = np.concatenate(found.rows)
    gaps = [(abs(np.mean(inside[part]) - LEVEL), rows[part]) for part in parts(found)]
    return [bool(gap > 2.0 * standard_error(own) + 0.5 / len(own)) for gap, own in gaps]


def off_by_chance(found: Found, rng: np.random.Generator) -> Array:
    """How often a table is off as a whole, and in some third, if each row is in its interval with probability 0.9."""
    rows = np.unique(np.concatenate(found.rows), return_inverse=True)[1]
    draws = (rng.uniform(size=(DRAWS, rows.max() + 1)) < LEVEL).astype(float)
    off = [are_off(found, draw[rows]) for draw in draws]
    return np.mean([(whole, any(thirds)) for whole, *thirds in off], axis=0)


def line(name: str, found: Found) -> str:
    classes = name in CLASSES
    values = {m: found.score(m, not classes) for m in found.scores}
    best = min(values.values())
    mark = "*" if values[OURS] <= best else ("=" if values[OURS] <= WITHIN * best else " ")
    told = "  ".join(f"{m} {v:9.4g}" for m, v in values.items())
    if classes:
        extra = f"calibration {np.mean(found.calibration):.3f}"
    else:
        coverage = float(np.mean(np.concatenate(found.inside)))
        thirds = (np.mean(np.concatenate(found.inside)[part]) for part in parts(found)[1:])
        extra = f"cover {coverage:.3f} ({' '.join(f'{c:.2f}' for c in thirds)})"
        extra += f" outside {found.outside}" if found.outside else ""
    return f"{mark} {name:17s} {told}  {extra}  {found.seconds[OURS]:.1f} s  {found.chosen}"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks choice", description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--splits", type=int, default=None)
    parser.add_argument("--only", nargs="*", default=None)
    parser.add_argument("--alone", action="store_true", help="without the peers")
    options = parser.parse_args(argv)
    splits = options.splits or (QUICK_SPLITS if options.quick else SPLITS)
    names = options.only or [*REGRESSION, *CLASSES]
    results = {name: Found() for name in names}
    tasks = [(name, split) for name in names for split in range(splits)]
    run = Parallel(n_jobs=JOBS, return_as="generator")
    done = run(delayed(one_split)(name, options.seed, split, not options.alone) for name, split in tasks)
    for (name, split), found in zip(tasks, done):
        results[name].add(found)
        if split == splits - 1:
            print(line(name, results[name]), flush=True)
    print(summary(results))
    return 0


def summary(results: dict[str, Found]) -> str:
    level = 0
    coverages, off, off_thirds, outside = [], [], [], 0
    calibration = []
    chance, rng = np.zeros(2), np.random.default_rng(0)
    for name, found in results.items():
        values = {m: found.score(m, name not in CLASSES) for m in found.scores}
        level += values[OURS] <= WITHIN * min(values.values())
        calibration += found.calibration
        if name in CLASSES:
            continue
        inside = np.concatenate(found.inside)
        coverages.append(float(np.mean(inside)))
        outside += found.outside
        whole, *thirds = are_off(found, inside)
        off += [name] if whole else []
        off_thirds += [name] if any(thirds) else []
        chance += off_by_chance(found, rng)
    fields = {
        "tables": str(len(results)),
        "win_or_tie": f"{level / len(results):.3f}",
        "coverage_90": f"{np.mean(coverages):.3f}" if coverages else "nan",
        "calibration": f"{np.mean(calibration):.3f}" if calibration else "nan",
        "off": ",".join(off) or "none",
        "off_thirds": ",".join(off_thirds) or "none",
        "by_chance": f"{chance[0]:.1f},{chance[1]:.1f}",
        "outside": str(outside),
    }
    return "RESULT " + " ".join(f"{key}={value}" for key, value in fields.items())


if __name__ == "__main__":
    raise SystemExit(main())
