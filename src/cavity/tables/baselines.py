"""Plain models of scikit-learn on the same rows: whether a Gaussian process was worth it.

guessing            the mean of the targets, or the frequencies of the classes
linear regression   with a little ridge; logistic regression of classes
gradient boosting   of histograms, with its defaults
"""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cavity.frames.coding import Coding
from cavity.kernels.strings import count_matrix, windows
from cavity.numerics.arrays import Array
from cavity.runtime.interrupts import not_swallowed
from cavity.tables.fit_report import Baseline

if TYPE_CHECKING:
    import pandas as pd

GUESS, LINEAR, LOGISTIC, BOOSTING = (
    "guessing",
    "linear regression",
    "logistic regression",
    "gradient boosting",
)
"""Names of baselines."""


LONGEST, MOST_SUBSTRINGS = {"letters": 3, "words": 1}, 50
"""Of texts: longest substrings that plain models see, in their units, and how many of each length."""


def baselines(
    task: str, X: pd.DataFrame, y: NDArray[Any], train: NDArray[np.intp], test: NDArray[np.intp]
) -> tuple[Baseline, ...]:
    """Plain models learned from rows `train`, scored on rows `test`; those that cannot be fitted are left out."""
    score = _regression if task == "regression" else _classification
    found = []
    for name, model in _models(task):
        started = time.monotonic()
        try:
            with warnings.catch_warnings(), not_swallowed():
                warnings.simplefilter("ignore")
                scores = score(model, X.to_numpy(dtype=float), y, train, test)
        except ValueError:  # too few rows of a class, say
            continue
        error, nlp, median = scores
        found.append(Baseline(name, error, nlp, time.monotonic() - started, median))
    return tuple(found)


def for_plain_models(coding: Coding, X: pd.DataFrame) -> pd.DataFrame:
    """Inputs in which texts are counts of their most frequent substrings, in the place of codes."""
    if not coding.has_text:
        return X
    import pandas as pd

    parts = []
    for column in coding.columns:
        values = X[column.features].to_numpy(dtype=float)
        if column.text is None:
            parts.append(values)
            continue
        for number, _ in windows(values, values[:0], LONGEST[column.text.unit]):
            counts = count_matrix(number, int(number.max(initial=0)) + 1).toarray()
            often = np.argsort(-np.count_nonzero(counts, axis=0), kind="stable")[:MOST_SUBSTRINGS]
            parts.append(counts[:, often])
    joined = np.hstack(parts)
    return pd.DataFrame(joined, columns=[str(k) for k in range(joined.shape[1])])


def _models(task: str) -> list[tuple[str, Any]]:
    from sklearn.dummy import DummyClassifier, DummyRegressor
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.linear_model import LogisticRegression, RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if task == "regression":
        return [
            (GUESS, DummyRegressor()),
            (LINEAR, make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 3, 13)))),
            (BOOSTING, HistGradientBoostingRegressor(random_state=0)),
        ]
    return [
        (GUESS, DummyClassifier(strategy="prior")),
        (LOGISTIC, make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))),
        (BOOSTING, HistGradientBoostingClassifier(random_state=0)),
    ]


def _regression(
    model: Any, X: Array, y: NDArray[Any], train: NDArray[np.intp], test: NDArray[np.intp]
) -> tuple[float, float | None, float | None]:
    """RMSE, the negative log density of normal noise, the median absolute error; boosting has no noise."""
    model.fit(X[train], y[train])
    errors = model.predict(X[test]) - y[test]
    rmse, median = float(np.sqrt(np.mean(errors**2))), float(np.median(np.abs(errors)))
    if not hasattr(model, "constant_") and not hasattr(model, "named_steps"):
        return rmse, None, median
    variance = float(np.mean((model.predict(X[train]) - y[train]) ** 2)) or 1.0
    return rmse, float(0.5 * (np.log(2 * np.pi * variance) + rmse**2 / variance)), median


def _classification(
    model: Any, X: Array, y: NDArray[Any], train: NDArray[np.intp], test: NDArray[np.intp]
) -> tuple[float, float | None, float | None]:
    """Share of wrong classes, and the mean negative log probability of the right ones."""
    model.fit(X[train], y[train])
    p = model.predict_proba(X[test])
    codes = np.searchsorted(model.classes_, y[test])
    truth = np.maximum(p[np.arange(len(codes)), codes], np.finfo(float).tiny)
    return float(np.mean(np.argmax(p, axis=1) != codes)), -float(np.mean(np.log(truth))), None
