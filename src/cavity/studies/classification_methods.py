"""The classifiers that `classification-table` compares, each as probabilities and decisions for the test cases.

| name | what |
|---|---|
| Laplace, EP | probit Gaussian process, isotropic squared exponential, hyperparameters of greatest evidence |
| SVM | support vectors with a radial kernel, cost and width by inner 5-fold cross-validation, Platt's probabilities |
| kNN | k nearest neighbors, k by inner cross-validation |
| label regression | Gaussian process regression on the labels -1 and +1, decided by the sign |
| least squares | the same with probabilities, learned from left-out labels (book section 6.5.1) |

The evidence of both approximations is nearly flat in large signal variances (thesis 6.4), so the library's weak prior
on the signal variance is used: flat below a standard deviation of 20, lower by 4.4 nats at 60. The thesis had none, and
its posterior means on Crabs, Sonar and USPS are longer for that reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cavity.estimators import GPClassifier, GPRegressor
from cavity.kernels import SE
from cavity.numerics.arrays import Array
from cavity.studies.folds import fitted_quietly

PROCESSES = {"Laplace": "laplace", "EP": "ep"}
METHODS = (*PROCESSES, "SVM", "kNN", "label regression", "least squares")

COSTS = tuple(10.0 ** np.arange(-1, 5))
LENGTHS = tuple(2.0 ** np.arange(-1, 5, 0.5))
"""Of the radial kernel, in units of the square root of the number of inputs over four."""

NEIGHBORS = (1, 3, 5, 7, 9, 11, 15, 21)


@dataclass(frozen=True)
class Fit:
    """Labels -1 and +1 that a method decides for, log probability of +1 and of -1 if it has them."""

    decision: Array
    log_p: Array | None = None
    mean_length: float = float("nan")
    log_evidence: float = float("nan")
    settings: dict[str, float] | None = None
    note: str = ""


def fit(method: str, X: Array, y: Array, X_test: Array, *, seed: int, restarts: int) -> Fit:
    """Fit one method to labels -1 and +1 and predict at the test inputs."""
    if method in PROCESSES:
        return _process(PROCESSES[method], X, y, X_test, seed, restarts)
    if method == "SVM":
        return _support_vectors(X, y, X_test, seed)
    if method == "kNN":
        return _neighbors(X, y, X_test, seed)
    if method == "label regression":
        return _label_regression(X, y, X_test, seed, restarts)
    if method == "least squares":
        return _least_squares(X, y, X_test, seed, restarts)
    raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}")


def measures(fitted: Fit, y_test: Array) -> dict[str, float]:
    """Error in percent, information in bits (6.12), length of the posterior mean, and settings."""
    out = {"error, percent": 100.0 * float(np.mean(fitted.decision != y_test))}
    if fitted.log_p is not None:
        out["information, bits"] = information(fitted.log_p, y_test)
    for name, value in (("length of the mean", fitted.mean_length), ("log evidence", fitted.log_evidence)):
        if np.isfinite(value):
            out[name] = value
    return out | (fitted.settings or {})


def information(log_p: Array, y_test: Array) -> float:
    """Mean of 1 + log2 p(true label); `log_p` (m, 2) are the log probabilities of -1 and +1."""
    true = np.where(y_test > 0, log_p[:, 1], log_p[:, 0])
    return float(1 + np.mean(true) / np.log(2))


def _process(rule: str, X: Array, y: Array, X_test: Array, seed: int, restarts: int) -> Fit:
    model = GPClassifier(
        1.0 * SE(1.0), likelihood="probit", inference=rule, n_restarts=restarts, random_state=seed
    )
    note = fitted_quietly(model, X, y)
    log_p = model.predict_log_proba(X_test)
    kernel = model.kernel_
    settings = {
        "ln l": float(np.log(kernel.kernel.lengthscale)),
        "ln s": 0.5 * float(np.log(kernel.variance)),
    }
    length = float(np.linalg.norm(model.posterior_.mean(X)))
    decision = np.where(log_p[:, 1] > log_p[:, 0], 1.0, -1.0)
    return Fit(decision, log_p, length, float(model.log_evidence_), settings, note)


def _label_regression(X: Array, y: Array, X_test: Array, seed: int, restarts: int) -> Fit:
    model = GPRegressor(1.0 * SE(1.0), mean="zero", n_restarts=restarts, random_state=seed)
    note = fitted_quietly(model, X, y)
    decision = np.where(model.predict(X_test) > 0, 1.0, -1.0)
    return Fit(decision, log_evidence=float(model.log_evidence_), note=note)


def _least_squares(X: Array, y: Array, X_test: Array, seed: int, restarts: int) -> Fit:
    model = GPClassifier(1.0 * SE(1.0), likelihood="least-squares", n_restarts=restarts, random_state=seed)
    note = fitted_quietly(model, X, y)
    log_p = model.predict_log_proba(X_test)
    return Fit(np.where(log_p[:, 1] > log_p[:, 0], 1.0, -1.0), log_p, note=note)


def _support_vectors(X: Array, y: Array, X_test: Array, seed: int) -> Fit:
    """Platt's sigmoid is fitted to decision values of held-out cases, as in the thesis."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.model_selection import StratifiedKFold
    from sklearn.svm import SVC

    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    cost, gamma = _best_machine(X, y, folds)
    machine = SVC(C=cost, gamma=gamma)
    platt = CalibratedClassifierCV(machine, method="sigmoid", cv=folds, ensemble=False)
    probability = platt.fit(X, y).predict_proba(X_test)
    with np.errstate(divide="ignore"):
        log_p = np.log(probability)
    settings = {"ln C": float(np.log(cost)), "ln l": float(-0.5 * np.log(2 * gamma))}
    return Fit(np.asarray(machine.fit(X, y).predict(X_test), dtype=float), log_p, settings=settings)


def _best_machine(X: Array, y: Array, folds: Any) -> tuple[float, float]:
    """Cost and gamma of the fewest errors of held-out cases; distances of inputs are found once for all of them."""
    from scipy.spatial.distance import pdist, squareform
    from sklearn.model_selection import cross_val_score
    from sklearn.svm import SVC

    scale = 0.25 * np.sqrt(X.shape[1])
    gammas = [0.5 / (scale * length) ** 2 for length in LENGTHS]
    distances = squareform(pdist(X, "sqeuclidean"))
    accuracy = np.empty((len(COSTS), len(gammas)))
    for k, gamma in enumerate(gammas):
        kernel = np.exp(-gamma * distances)
        for j, cost in enumerate(COSTS):
            machine = SVC(C=cost, kernel="precomputed")
            accuracy[j, k] = cross_val_score(machine, kernel, y, cv=folds).mean()
    best = np.unravel_index(np.argmax(accuracy), accuracy.shape)
    return float(COSTS[best[0]]), gammas[best[1]]


def _neighbors(X: Array, y: Array, X_test: Array, seed: int) -> Fit:
    from sklearn.model_selection import GridSearchCV, StratifiedKFold
    from sklearn.neighbors import KNeighborsClassifier

    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    search = GridSearchCV(KNeighborsClassifier(), {"n_neighbors": list(NEIGHBORS)}, cv=folds).fit(X, y)
    settings = {"k": float(search.best_params_["n_neighbors"])}
    return Fit(np.asarray(search.predict(X_test), dtype=float), settings=settings)
