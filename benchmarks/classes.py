"""Several classes: log loss and errors of the default against other ways, on held-out rows.

`python -m benchmarks classes [--quick]`. Every method learns one length scale and one signal variance on the same rows
(columns standardized, pixels as they are), from one start:

- `default`: `GPClassifier`, one against the rest by EP;
- `sum`: the same functions, their probabilities divided by the sum, as is usual;
- `softmax`: `multi_class="softmax"`, Laplace's method;
- `probit`: the multinomial probit by nested EP (`benchmarks.multinomial_probit`);
- `sklearn`: scikit-learn's `GaussianProcessClassifier`, one against the rest by Laplace's method.

The last line has, for every set, the log loss of the default in units of the best other method: at most 1.05 is wanted.
CPU seconds of fit and prediction are means over the splits.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits, load_iris, load_wine, make_classification
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from benchmarks import multinomial_probit
from cavity.datasets import load
from cavity.estimators import GPClassifier

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

WITHIN = 1.05
"""Log loss of the default, in units of the best, that is wanted."""

TESTED = 500
"""Most rows that are held out."""


@dataclass(frozen=True)
class Problem:
    """A data set, the number of training rows, and how many splits there are, quick and in full."""

    rows: Callable[[], tuple[Array, NDArray[Any]]]
    n: int
    splits: tuple[int, int]
    pixels: bool = False

    def split(self, seed: int) -> tuple[Array, Codes, Array, Codes]:
        """Training and test rows."""
        X, labels = self.rows()
        y = np.unique(labels, return_inverse=True)[1]
        test = min(TESTED, len(y) - self.n)
        train, tested = train_test_split(
            np.arange(len(y)), train_size=self.n, test_size=test, stratify=y, random_state=seed
        )
        center, sd = X[train].mean(axis=0), X[train].std(axis=0)
        sd = np.full(len(sd), X[train].std()) if self.pixels else np.where(sd > 0, sd, 1.0)
        return (X[train] - center) / sd, y[train], (X[tested] - center) / sd, y[tested]


def _crabs() -> tuple[Array, NDArray[Any]]:
    """Two species of both sexes."""
    data = load("crabs")
    species = data.feature_names.index("sp")
    measured = np.delete(data.X, species, axis=1)
    return measured, np.char.add(data.X[:, species].astype(int).astype(str), np.asarray(data.y, dtype=str))


def _usps() -> tuple[Array, NDArray[Any]]:
    data = load("usps_10class")
    return data.X, data.y


def _clusters() -> tuple[Array, NDArray[Any]]:
    X, y = make_classification(
        600, 8, n_informative=5, n_redundant=1, n_classes=4, flip_y=0.03, random_state=0
    )
    return X, y


PROBLEMS = {
    "iris": Problem(lambda: load_iris(return_X_y=True), 75, (20, 100)),
    "wine": Problem(lambda: load_wine(return_X_y=True), 90, (10, 100)),
    "crabs": Problem(_crabs, 100, (10, 100)),
    "clusters": Problem(_clusters, 150, (5, 30)),
    "digits": Problem(lambda: load_digits(return_X_y=True), 200, (3, 20), pixels=True),
    "usps": Problem(_usps, 200, (3, 20), pixels=True),
}
KERNEL = "1.0 * SE(1.0)"


def default_and_sum(X: Array, y: Codes, X_test: Array) -> tuple[Array, Array]:
    """Log probabilities of the default, and of its functions with probabilities divided by their sum."""
    model = GPClassifier(KERNEL, n_restarts=0, random_state=0).fit(X, y)
    latent = model.predict_latent(X_test)
    answer = model.likelihood_.answer
    pairs = zip(latent.mean.T, latent.variance.T)
    each = np.column_stack([answer.log_probabilities(m, v)[:, 1] for m, v in pairs])
    return model.predict_log_proba(X_test), each - np.log(np.exp(each).sum(axis=1, keepdims=True))


def softmax(X: Array, y: Codes, X_test: Array) -> Array:
    """The softmax by Laplace's method."""
    model = GPClassifier(KERNEL, multi_class="softmax", n_restarts=0, random_state=0).fit(X, y)
    return model.predict_log_proba(X_test)


def sklearn(X: Array, y: Codes, X_test: Array) -> Array:
    """Of scikit-learn, from a length scale of the size of the data."""
    kernel = ConstantKernel(4.0, (1e-3, 1e6)) * RBF(np.sqrt(X.shape[1]), (1e-2, 1e4))
    model = GaussianProcessClassifier(kernel, random_state=0).fit(X, y)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(model.predict_proba(X_test)))


METHODS = ("default", "sum", "softmax", "probit", "sklearn")


def measure(problem: Problem, seed: int) -> dict[str, tuple[float, float, float]]:
    """Log loss, error rate and CPU seconds of each method on one split."""
    X, y, X_test, y_test = problem.split(seed)
    found = {}

    def score(names: tuple[str, ...], run: Callable[..., Any]) -> None:
        began = time.process_time()
        out = run(X, y, X_test)
        seconds = time.process_time() - began
        for name, log_p in zip(names, out if len(names) > 1 else (out,)):
            loss = -float(np.mean(log_p[np.arange(len(y_test)), y_test]))
            found[name] = (loss, float(np.mean(np.argmax(log_p, axis=1) != y_test)), seconds)

    with warnings.catch_warnings(), threadpool_limits(1):  # waiting threads would be counted
        warnings.simplefilter("ignore")
        score(("default", "sum"), default_and_sum)
        score(("softmax",), softmax)
        score(("probit",), multinomial_probit.fit_predict)
        score(("sklearn",), sklearn)
    return found


def table(name: str, found: list[dict[str, tuple[float, float, float]]]) -> tuple[str, float]:
    """Lines for one set, and the log loss of the default in units of the best other."""
    lines, mean = [], {}
    for method in METHODS:
        values = np.array([one[method] for one in found])
        error = values.std(axis=0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.full(3, np.nan)
        mean[method] = values[:, 0].mean()
        lines.append(
            f"{name:9} {method:8} {mean[method]:8.4f} +- {error[0]:.4f}  {values[:, 1].mean():7.4f} +- "
            f"{error[1]:.4f}  {values[:, 2].mean():7.2f}"
        )
    return "\n".join(lines), mean["default"] / min(mean[m] for m in METHODS[1:])


def main(argv: list[str] | None = None) -> int:
    """Print the tables; the exit code is 1 if the default is worse than wanted on some set."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks classes", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few splits, under four minutes")
    quick = parser.parse_args(argv).quick
    print("set       method   log loss           errors              CPU s")
    ratios = {}
    for name, problem in PROBLEMS.items():
        found = [measure(problem, seed) for seed in range(problem.splits[0 if quick else 1])]
        lines, ratios[name] = table(name, found)
        print(lines, flush=True)
    print("RESULT " + " ".join(f"{name}={ratio:.3f}" for name, ratio in ratios.items()))
    return int(max(ratios.values()) > WITHIN)
