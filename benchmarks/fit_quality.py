"""`python -m benchmarks fit_quality --out FILE [--against OTHER]`: what default fits end at, on real data sets.

Each of ten real sets is fitted with the defaults under Gaussian, Student-t, mixture and Laplace noise, once as it is
and once with gross errors planted in a tenth of its training targets. A row of the table holds the log evidence, the
mean log density of held-out rows, their error, the outliers found, and CPU seconds. Two tables, of two versions of this
package, are compared side by side: a later version should lose at most 0.1 nats of evidence and 0.005 nats a row.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.report import result_line, table

NOISE = ("gaussian", "student-t", "mixture", "laplace")
"""Likelihoods that are fitted."""

TRAINING, TESTING = 150, 100
"""Most rows of each part."""

EVIDENCE_LOSS, DENSITY_LOSS = 0.1, 0.005
"""What may be lost: nats of log evidence, nats per held-out row."""

CERTAIN = 0.5
"""Probability from which a row is called an outlier."""


def real_sets() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Inputs (n, D) and targets (n,) by name."""
    from sklearn import datasets as shipped

    from cavity.datasets import load

    found = {}
    for name in ("boston", "motorcycle", "snelson", "faithful", "airline", "neal_outliers"):
        data = load(name)
        found[name] = (np.asarray(data.X, float), np.asarray(data.y, float))
    diabetes = shipped.load_diabetes()
    found["diabetes"] = (diabetes.data, diabetes.target.astype(float))
    wine = shipped.load_wine().data
    found["wine"] = (wine[:, 1:], wine[:, 0])
    iris = shipped.load_iris().data
    found["iris"] = (iris[:, [0, 1, 3]], iris[:, 2])
    cells = shipped.load_breast_cancer().data
    found["cells"] = (cells[:, [0, 1, 4, 5, 6, 7, 8]], cells[:, 9])
    return found


def split(
    X: np.ndarray, y: np.ndarray, errors: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training and held-out rows; with gross errors of three to six standard deviations in a tenth of the first."""
    rng = np.random.default_rng(7)
    order = rng.permutation(len(y))
    n = min(TRAINING, 2 * len(y) // 3)
    train, test = order[:n], order[n : n + TESTING]
    targets = y[train].copy()
    if errors:
        bad = rng.choice(n, n // 10, replace=False)
        targets[bad] += y.std() * rng.uniform(3, 6, len(bad)) * rng.choice([-1.0, 1.0], len(bad))
    return X[train], targets, X[test], y[test]


def fitted(name: str, noise: str, errors: bool, X: np.ndarray, y: np.ndarray) -> dict[str, object]:
    """One row of the table."""
    from cavity import GPRegressor

    X, y, X_new, y_new = split(X, y, errors)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = GPRegressor(likelihood=noise, random_state=0).fit(X, y)
    seconds = time.process_time() - began
    density = float(np.mean(model.predict_dist(X_new).log_prob(y_new)))
    error = float(np.sqrt(np.mean((model.predict(X_new) - y_new) ** 2)) / y_new.std())
    doubtful = [] if noise == "gaussian" else np.flatnonzero(model.outlier_probability_ > CERTAIN).tolist()
    return {
        "data": name,
        "noise": noise,
        "errors": errors,
        "log_evidence": model.log_evidence_,
        "log_density": density,
        "error": error,
        "outliers": " ".join(map(str, doubtful)),
        "stage": model.posterior_.status.label,
        "cpu": seconds,
    }


def compared(new: pd.DataFrame, old: pd.DataFrame) -> tuple[str, pd.DataFrame]:
    """Both tables side by side, as text and as a frame."""
    both = new.merge(old, on=["data", "noise", "errors"], suffixes=("", "_old"))
    both["evidence_gain"] = both.log_evidence - both.log_evidence_old
    both["density_gain"] = both.log_density - both.log_density_old
    header = (
        "set, noise",
        "evidence",
        "gain",
        "density",
        "gain",
        "error",
        "was",
        "outliers",
        "was",
        "cpu",
        "was",
    )
    rows = [
        (
            f"{row.data}{' + errors' if row.errors else ''}, {row.noise}",
            f"{row.log_evidence:.3f}",
            f"{row.evidence_gain:+.3f}",
            f"{row.log_density:.4f}",
            f"{row.density_gain:+.4f}",
            f"{row.error:.4f}",
            f"{row.error_old:.4f}",
            str(len(str(row.outliers).split())),
            str(len(str(row.outliers_old).split())),
            f"{row.cpu:.1f}",
            f"{row.cpu_old:.1f}",
        )
        for row in both.itertuples()
    ]
    return table(header, rows), both


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks fit_quality", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="CSV file to write")
    parser.add_argument("--against", type=Path, help="CSV file of another version")
    parser.add_argument("--quick", action="store_true", help="the first three sets only")
    options = parser.parse_args(argv)
    rows = []
    sets = real_sets()
    for name in list(sets)[:3] if options.quick else sets:
        for errors in (False, True):
            for noise in NOISE:
                rows.append(fitted(name, noise, errors, *sets[name]))
                print({k: v for k, v in rows[-1].items() if k != "outliers"}, flush=True)
                pd.DataFrame(rows).to_csv(options.out, index=False)
    new = pd.read_csv(options.out, keep_default_na=False)
    if options.against is None:
        return 0
    text, both = compared(new, pd.read_csv(options.against, keep_default_na=False))
    print(text)
    losing = (both.evidence_gain < -EVIDENCE_LOSS) | (both.density_gain < -DENSITY_LOSS)
    figures = {
        "fits": f"{len(both)}",
        "worse": f"{int(losing.sum())}",
        "worst_evidence": both.evidence_gain.min(),
        "mean_density_gain": both.density_gain.mean(),
        "cpu_ratio": both.cpu.sum() / both.cpu_old.sum(),
    }
    print(result_line(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
