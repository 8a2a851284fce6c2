"""Ten handwritten digits at once (book section 3.7.4): softmax with Laplace's method, on subsets of the training part.

The book uses all 4649 training cases; with ten latent functions that is beyond a small machine, so the subset size is
part of every row, and figures of the book stand in the remarks. Hyperparameters (one length scale, one signal variance
for all classes) are learned on the subset, or taken from the book (ln l = 2.35, ln s = 2.6). Information is that of the
book: entropy of the test labels (3.27 bits) plus the mean log2 probability of the true one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cavity.datasets import load
from cavity.estimators import GPClassifier
from cavity.kernels import SE, Kernel
from cavity.numerics.arrays import Array
from cavity.studies.base import Cell, Outcome, Results, Study
from cavity.studies.pictures import COLORS, LINES, MARKERS, new_panels, save

CLASSES = 10
LEARNED, AT_THE_BOOK = "Laplace, learned", "Laplace, book's values"
LINEAR, NEAREST = "linear logistic", "1-NN"
PENALTIES = (1e-3, 1e-2, 1e-1, 1.0)
"""Inverse penalties that the linear model tries."""

METHODS = (LEARNED, AT_THE_BOOK, LINEAR, NEAREST)
BOOK = {
    "Laplace": "error 3.1 %, information 2.67 bits, log evidence -1018",
    "linear logistic": "error 5.7 %, information 2.95 bits",
    "probabilistic 1-NN": "error 3.0 %, information 2.98 bits",
    "SVM, one against the rest": "error 2.2 %",
}
"""In print, for 4649 training cases."""


def subset(n: int, n_test: int, seed: int) -> tuple[Array, NDArray[Any], Array, NDArray[Any]]:
    """Random training and test cases of the book's repartition; n_test = 0 are all test cases."""
    data = load("usps_10class")
    assert data.X_test is not None
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(len(data.y))[:n]
    tested = rng.permutation(len(data.X_test))[: n_test or None]
    return data.X[chosen], data.y[chosen], data.X_test[tested], np.asarray(data.y_test)[tested]


def entropy(labels: NDArray[Any]) -> float:
    """Of the frequencies of labels, in bits."""
    share = np.unique(labels, return_counts=True)[1] / len(labels)
    return float(-np.sum(share * np.log2(share)))


def classify(method: str, n: int, n_test: int, seed: int) -> Outcome:
    """One method on one subset."""
    X, y, X_test, y_test = subset(n, n_test, seed)
    found: dict[str, float] = {}
    if method in (LEARNED, AT_THE_BOOK):
        model, log_p = _process(method, X, y, X_test, seed)
        found["log evidence"] = float(model.log_evidence_)
        found["ln l"] = float(np.log(model.kernel_.kernel.lengthscale))
        found["ln s"] = 0.5 * float(np.log(model.kernel_.variance))
        classes = model.classes_
    elif method == LINEAR:
        classes, log_p = _linear(X, y, X_test)
    else:
        return Outcome(_errors(_nearest(X, y, X_test), y_test))
    found |= _errors(classes[np.argmax(log_p, axis=1)], y_test)
    true = log_p[np.arange(len(y_test)), np.searchsorted(classes, y_test)]
    found["information, bits"] = entropy(y_test) + float(np.mean(true)) / np.log(2)
    table = np.zeros((CLASSES, CLASSES), dtype=int)
    np.add.at(table, (y_test.astype(int), classes[np.argmax(log_p, axis=1)].astype(int)), 1)
    return Outcome(found, {"confusion": table})


def _errors(decision: NDArray[Any], y_test: NDArray[Any]) -> dict[str, float]:
    return {"error, percent": 100 * float(np.mean(decision != y_test))}


def _process(method: str, X: Array, y: NDArray[Any], X_test: Array, seed: int) -> tuple[Any, Array]:
    kernel: Kernel = 1.0 * SE(10.0)
    if method == AT_THE_BOOK:
        kernel = float(np.exp(2 * 2.6)) * SE(float(np.exp(2.35)))
    model = GPClassifier(
        kernel,
        multi_class="softmax",
        objective=None if method == AT_THE_BOOK else "evidence",
        n_restarts=0,
        random_state=seed,
    ).fit(X, y)
    return model, model.predict_log_proba(X_test)


def _linear(X: Array, y: NDArray[Any], X_test: Array) -> tuple[NDArray[Any], Array]:
    """Multiple linear logistic regression, penalty by the log probability of held-out labels in 5 folds."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict

    classes, code = np.unique(y, return_inverse=True)
    models = [LogisticRegression(C=C, max_iter=2000) for C in PENALTIES]
    held_out = [cross_val_predict(m, X, y, cv=5, method="predict_log_proba") for m in models]
    scores = [np.mean(log_p[np.arange(len(y)), code]) for log_p in held_out]
    best = models[int(np.argmax(scores))].fit(X, y)
    return classes, np.asarray(best.predict_log_proba(X_test))


def _nearest(X: Array, y: NDArray[Any], X_test: Array) -> NDArray[Any]:
    from sklearn.neighbors import KNeighborsClassifier

    return np.asarray(KNeighborsClassifier(1).fit(X, y).predict(X_test))


def cells(quick: bool) -> list[Cell]:
    """All methods on nested random subsets."""
    sizes, n_test = ((150,), 1000) if quick else ((250, 500, 1000), 0)
    return [
        Cell({"n": n, "method": m}, classify, {"method": m, "n": n, "n_test": n_test, "seed": 0})
        for n in sizes
        for m in METHODS
    ]


def remarks(results: Results) -> list[str]:
    """The book's figures, and what they are for."""
    frame = results.frame
    largest = int(frame["n"].max())
    out = ["In print for all 4649 training cases: " + "; ".join(f"{m}: {v}" for m, v in BOOK.items()) + "."]
    learned = frame[frame["method"] == LEARNED]
    for _, row in learned.iterrows():
        out.append(
            f"n = {row['n']}: learned ln l = {row['ln l']:.2f}, ln s = {row['ln s']:.2f} (book: 2.35, 2.6); "
            f"{row['cpu_seconds']:.0f} CPU seconds"
        )
    out.append(f"Subsets of at most {largest} cases: with fewer cases errors are larger than the book's.")
    return out


def draw(results: Results, folder: Path) -> list[Path]:
    """Error and information over the subset size, and which digits are taken for which."""
    frame = results.frame
    largest = int(frame["n"].max())
    figure, axes = new_panels(1, 3, width=3.6, height=3.2)
    for axis, measure in zip(axes, ("error, percent", "information, bits")):
        for k, method in enumerate(METHODS):
            own = frame[(frame["method"] == method) & frame[measure].notna()]
            if len(own):
                look = {"marker": MARKERS[k], "color": COLORS[k], "markersize": 4}
                axis.plot(own["n"], own[measure], LINES[k], label=method, **look)
        sizes = sorted(frame["n"].unique())
        axis.set(xlabel="training cases", ylabel=measure, xscale="log")
        axis.set_xticks(sizes, [str(n) for n in sizes])
        axis.minorticks_off()
    axes[0].set_ylim(bottom=0)
    axes[0].legend(frameon=False, fontsize=8)
    table = results.arrays(n=largest, method=LEARNED)["confusion"].astype(float)
    wrong = table - np.diag(np.diag(table))
    axes[2].imshow(wrong, cmap="Blues")
    for i, j in zip(*np.nonzero(wrong)):
        shade = "w" if wrong[i, j] > 0.6 * wrong.max() else "k"
        axes[2].text(j, i, f"{wrong[i, j]:.0f}", ha="center", va="center", fontsize=7, color=shade)
    axes[2].set(xlabel="predicted", ylabel="true digit", title=f"errors, {LEARNED}, n = {largest}")
    axes[2].set_xticks(range(CLASSES))
    axes[2].set_yticks(range(CLASSES))
    return [save(figure, folder / "usps_10class.png")]


STUDY = Study(
    "usps-10class",
    "Ten handwritten digits: softmax with Laplace's method on subsets",
    "book section 3.7.4 (4649 training cases there)",
    cells,
    measures=("error, percent", "information, bits", "log evidence", "ln l", "ln s"),
    by=("n", "method"),
    draw=draw,
    remarks=remarks,
    quick_note="150 training cases and 1000 test cases.",
)
