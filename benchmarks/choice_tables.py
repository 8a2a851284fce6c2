"""Tables for `benchmarks.choice`: real ones, those that scikit-learn ships, and simulated ones of every kind of target.

A table is a data frame with a column `y`. Simulated ones depend on a seed, so that others than those of the benchmark
can be set aside.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn import datasets as shipped

from cavity.datasets import load

MOST_ROWS = 500
"""Of larger tables so many rows are drawn."""

Frame = pd.DataFrame
Make = Callable[[int], Frame]


def _from_cavity(name: str) -> Make:
    def make(seed: int) -> Frame:
        data = load(name)
        X = data.X if data.X_test is None else np.vstack([data.X, data.X_test])
        y = data.y if data.y_test is None else np.concatenate([data.y, data.y_test])
        return pd.DataFrame(X, columns=list(data.feature_names)).assign(y=y)

    return make


def _classes(name: str) -> Make:
    def make(seed: int) -> Frame:
        frame = _from_cavity(name)(seed)
        return frame.assign(y=[f"class {label}" for label in frame["y"]])

    return make


def _dated(name: str, scale: float = 1.0) -> Make:
    """Time in years as dates."""

    def make(seed: int) -> Frame:
        data = load(name)
        years = np.floor(data.X[:, 0] + 1e-6)
        months = np.clip(np.floor((data.X[:, 0] - years) * 12 + 1e-6) + 1, 1, 12)
        dates = [f"{int(y)}-{int(m):02d}" for y, m in zip(years, months)]
        return pd.DataFrame({"date": dates, "y": data.y}).drop_duplicates("date")

    return make


def _from_sklearn(name: str, classes: bool = False) -> Make:
    def make(seed: int) -> Frame:
        data = getattr(shipped, f"load_{name}")()
        X = np.asarray(data.data, dtype=float)
        frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
        return frame.assign(y=[f"class {t}" for t in data.target] if classes else data.target)

    return make


# --- simulated ----------------------------------------------------------------------------------------------


def _inputs(seed: int, n: int, columns: int) -> tuple[np.random.Generator, NDArray[np.float64], Frame]:
    rng = np.random.default_rng(10_000 + seed)
    X = rng.uniform(-2.0, 2.0, (n, columns))
    return rng, X, pd.DataFrame(X, columns=[f"x{i}" for i in range(columns)])


def prices(seed: int) -> Frame:
    """Log-normal: a price of a house by size, age and two columns that do not matter."""
    rng, X, frame = _inputs(seed, 400, 4)
    log = 12.0 + 0.5 * X[:, 0] - 0.3 * np.abs(X[:, 1]) + 0.25 * rng.standard_normal(len(X))
    return frame.assign(y=np.round(np.exp(log), -2))


def percentages(seed: int) -> Frame:
    rng, X, frame = _inputs(seed, 300, 3)
    logit = 1.8 * np.sin(1.5 * X[:, 0]) + 1.2 * X[:, 1] + 0.5 * rng.standard_normal(len(X))
    return frame.assign(y=100.0 / (1.0 + np.exp(-logit)))


def shares_with_ends(seed: int) -> Frame:
    """Shares of ten answers: many zeros and ones."""
    rng, X, frame = _inputs(seed, 300, 2)
    p = 1.0 / (1.0 + np.exp(-2.0 * X[:, 0] - np.sin(2 * X[:, 1])))
    return frame.assign(y=rng.binomial(25, p) / 25.0)


def counts(seed: int) -> Frame:
    rng, X, frame = _inputs(seed, 400, 3)
    return frame.assign(y=rng.poisson(np.exp(0.3 + 0.8 * np.sin(1.5 * X[:, 0]) + 0.3 * X[:, 1])))


def overdispersed(seed: int) -> Frame:
    rng, X, frame = _inputs(seed, 400, 2)
    rate = np.exp(1.5 + 0.6 * X[:, 0]) * rng.gamma(2.0, 0.5, len(X))
    return frame.assign(y=rng.poisson(rate))


def ratings(seed: int) -> Frame:
    """Ordered, from 1 to 5."""
    rng, X, frame = _inputs(seed, 400, 4)
    taste = np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 1] + 0.5 * rng.standard_normal(len(X))
    return frame.assign(y=1 + np.digitize(taste, [-1.0, -0.3, 0.4, 1.1]))


def seasons(seed: int) -> Frame:
    """Three years of weeks: a trend, a season of the year, noise."""
    rng = np.random.default_rng(10_000 + seed)
    days = pd.date_range("2019-01-07", periods=260, freq="W")
    t = np.arange(260) / 52.18
    y = 20 + 2 * t + 6 * np.sin(2 * np.pi * t) + 2 * np.cos(4 * np.pi * t) + rng.standard_normal(260)
    return pd.DataFrame({"week": days.strftime("%Y-%m-%d"), "y": y})


def wide(seed: int) -> Frame:
    """Sixty columns of which five matter."""
    rng, X, frame = _inputs(seed, 200, 60)
    y = X[:, 0] + 0.7 * X[:, 1] - 0.7 * X[:, 2] + np.sin(1.5 * X[:, 3]) + 0.5 * X[:, 4]
    return frame.assign(y=y + 0.5 * rng.standard_normal(len(X)))


def tiny(seed: int) -> Frame:
    rng, X, frame = _inputs(seed, 40, 2)
    return frame.assign(y=np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.standard_normal(len(X)))


def outliers(seed: int) -> Frame:
    rng, X, frame = _inputs(seed, 300, 4)
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.1 * rng.standard_normal(len(X))
    return frame.assign(y=y + np.where(rng.uniform(size=len(X)) < 0.04, rng.normal(0, 4, len(X)), 0.0))


def changing_noise(seed: int) -> Frame:
    rng, X, frame = _inputs(seed, 400, 2)
    return frame.assign(y=np.sin(2 * X[:, 0]) + 0.2 * np.exp(0.7 * X[:, 0]) * rng.standard_normal(len(X)))


def imbalanced(seed: int) -> Frame:
    """Three in a hundred."""
    rng, X, frame = _inputs(seed, 500, 4)
    odds = -5.2 + 1.5 * X[:, 0] + X[:, 1] ** 2 * 0.5
    return frame.assign(y=np.where(rng.uniform(size=len(X)) < 1 / (1 + np.exp(-odds)), "bad", "good"))


REGRESSION: dict[str, Make] = {
    "boston": _from_cavity("boston"),
    "motorcycle": _from_cavity("motorcycle"),
    "faithful": _from_cavity("faithful"),
    "airline": _dated("airline"),
    "snelson": _from_cavity("snelson"),
    "mauna_loa": _dated("mauna_loa"),
    "diabetes": _from_sklearn("diabetes"),
    "prices": prices,
    "percentages": percentages,
    "shares_with_ends": shares_with_ends,
    "counts": counts,
    "overdispersed": overdispersed,
    "ratings": ratings,
    "seasons": seasons,
    "wide": wide,
    "tiny": tiny,
    "outliers": outliers,
    "changing_noise": changing_noise,
}

CLASSES: dict[str, Make] = {
    "ionosphere": _classes("ionosphere"),
    "wisconsin": _classes("wisconsin"),
    "pima": _classes("pima"),
    "sonar": _classes("sonar"),
    "crabs": _classes("crabs"),
    "cancer": _from_sklearn("breast_cancer", classes=True),
    "iris": _from_sklearn("iris", classes=True),
    "wine": _from_sklearn("wine", classes=True),
    "imbalanced": imbalanced,
}

SIMULATED = (
    "prices", "percentages", "shares_with_ends", "counts", "overdispersed", "ratings", "seasons", "wide", "tiny",
    "outliers", "changing_noise", "imbalanced",
)  # fmt: skip

RANGES = {
    "prices": (0.0, np.inf),
    "percentages": (0.0, 100.0),
    "shares_with_ends": (0.0, 1.0),
    "counts": (0.0, np.inf),
    "overdispersed": (0.0, np.inf),
    "ratings": (1.0, 5.0),
    "airline": (0.0, np.inf),
    "boston": (0.0, np.inf),
    "diabetes": (0.0, np.inf),
}
"""What targets of a table can be at all."""


def table(name: str, seed: int) -> Frame:
    """A table, at most `MOST_ROWS` rows of it."""
    frame = {**REGRESSION, **CLASSES}[name](seed).reset_index(drop=True)
    if len(frame) > MOST_ROWS:
        frame = frame.sample(MOST_ROWS, random_state=seed).reset_index(drop=True)
    return frame
