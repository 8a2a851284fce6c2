"""Neal's curve with outliers: every noise model, by evidence and by the density of test targets.

100 points to learn from and 1000 to test on, noise of standard deviation 0.1, and of 1 with probability 0.05. Test
targets have outliers of their own, so that the density of noisy targets (NLP) rewards noise models that expect them;
RMSE is that of the noise-free function, which is known. Sets of the same kind made by `make_neal` say how much of a
difference is luck: set 0 is Neal's own, the others are drawn.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cavity.datasets import load, make_neal
from cavity.datasets.synthetic import neal_function
from cavity.numerics.arrays import Array
from cavity.studies import robust_methods
from cavity.studies.base import Cell, Outcome, Results, Study
from cavity.studies.pictures import COLORS, band, box_plots, new_panels, save
from cavity.studies.summary import cpu_per_fit

METHODS = robust_methods.DETERMINISTIC
QUICK = ("snMLII", "tVar", "lapEP", "tEP", "mnEP")
GRID = np.linspace(-3.0, 3.0, 241)
OWN = 0
"""The set that Neal published."""


def problem(number: int) -> tuple[Array, Array, Array, Array]:
    """Training inputs and targets, test inputs and noisy test targets."""
    if number == OWN:
        data = load("neal_outliers")
        assert data.X_test is not None
        return data.X, np.asarray(data.y, float), data.X_test, np.asarray(data.y_test, float)
    data = make_neal(rng=number)
    other = make_neal(1000, n_test=1, rng=1000 + number)
    return data.X, data.y, other.X, other.y


def true_nlp(X: Array, y: Array) -> float:
    """NLP of the distribution that makes the targets: what no method can beat, but by luck."""
    error = y - neal_function(X[:, 0])
    density = sum(w * np.exp(-0.5 * (error / s) ** 2) / s for w, s in ((0.95, 0.1), (0.05, 1.0)))
    return float(-np.mean(np.log(density / np.sqrt(2 * np.pi))))


def fit_set(method: str, number: int, restarts: int) -> Outcome:
    """One method on one set."""
    X, y, X_test, y_test = problem(number)
    at = np.vstack([X_test, GRID[:, None]])
    count = len(X_test)
    fitted = robust_methods.fit(method, X, y, at, seed=number, restarts=restarts)
    assert fitted.of_f is not None
    assert fitted.of_y is not None
    error = fitted.mean[:count] - neal_function(X_test[:, 0])
    padded = np.concatenate([y_test, fitted.mean[count:]])
    log_p = fitted.of_y.log_prob(padded)[:count]
    found = {
        "RMSE": float(np.sqrt(np.mean(error**2))),
        "NLP": float(-np.mean(log_p)),
        "NLP above the truth's": float(-np.mean(log_p)) - true_nlp(X_test, y_test),
    }
    if np.isfinite(fitted.log_evidence):
        found["log evidence"] = fitted.log_evidence
    arrays = {"x": X[:, 0], "y": y, "mean": fitted.mean[count:], "sd": np.sqrt(fitted.of_f.variance[count:])}
    if fitted.outlier_probability is not None:
        arrays["outlier_probability"] = np.asarray(fitted.outlier_probability)
        gross = np.abs(y - neal_function(X[:, 0])) > 0.4
        called = arrays["outlier_probability"] > 0.5
        found["gross outliers found, percent"] = (
            100.0 * float(np.mean(called[gross])) if gross.any() else np.nan
        )
        found["false alarms"] = float(np.sum(called & ~gross))
    return Outcome(found | (fitted.extras or {}), arrays, fitted.note)


def remarks(results: Results) -> list[str]:
    """Neal's own set in one line for each method, ratio of evidences, and paired gains over the drawn sets."""
    frame = results.frame
    out: list[str] = []
    own = frame[frame["set"] == OWN].set_index("method")
    if "NLP" not in own:
        return out
    by_rank = own["NLP"].sort_values()
    out.append(
        "Neal's own set, NLP of noisy test targets: " + ", ".join(f"{m} {v:.3f}" for m, v in by_rank.items())
    )
    if "log evidence" in own:
        evidence = own["log evidence"].dropna().astype(float).to_dict()
        plain = evidence.pop("snMLII", np.nan)
        text = ", ".join(f"{m} {v - plain:+.1f}" for m, v in evidence.items())
        out.append(f"Neal's own set, log evidence above that of Gaussian noise (a bound for tVar): {text}")
    wide = frame.pivot_table(index="set", columns="method", values="NLP", sort=False)
    if len(wide) > 2:
        for method in wide.columns.drop("snMLII"):
            better = (wide["snMLII"] - wide[method]).dropna().to_numpy(dtype=float)
            if len(better) < 2:
                continue
            error = better.std(ddof=1) / np.sqrt(len(better))
            out.append(
                f"NLP gain of {method} over snMLII: {better.mean():.3f}, standard error {error:.3f}, better on "
                f"{int((better > 0).sum())} of {len(better)} sets"
            )
    out.append(cpu_per_fit(frame))
    return out


def draw(results: Results, folder: Path) -> list[Path]:
    """Fits to Neal's own set, and box plots over all sets."""
    own = [m for m in dict.fromkeys(results.frame["method"]) if results.arrays(method=m, set=OWN)]
    columns = 3
    figure, axes = new_panels(
        -(-len(own) // columns), columns, width=3.6, height=2.6, sharex=True, sharey=True
    )
    for axis, method in zip(axes, own):
        s = results.arrays(method=method, set=OWN)
        axis.plot(GRID, neal_function(GRID), color="0.5", linewidth=1, label="truth")
        band(axis, GRID, s["mean"], s["sd"])
        axis.plot(GRID, s["mean"], "--", color=COLORS[0], linewidth=1.2, label="mean of f, two sds")
        axis.plot(s["x"], s["y"], "k.", markersize=3)
        if "outlier_probability" in s:
            called = s["outlier_probability"] > 0.5
            look = {"mfc": "none", "mec": COLORS[1], "markersize": 7, "label": "called outlier"}
            axis.plot(s["x"][called], s["y"][called], "o", **look)
        axis.set(title=method, ylim=(-2.5, 4.6))
    for axis in axes[len(own) :]:
        axis.set_visible(False)
    for axis in axes[max(0, len(own) - columns) : len(own)]:
        axis.set_xlabel("x")
        axis.tick_params(labelbottom=True)
    for axis in axes[::columns]:
        axis.set_ylabel("y")
    named = next((a for a, m in zip(axes, own) if m != "snMLII"), axes[0])
    named.legend(frameon=False, fontsize=7, loc="lower right")
    boxes = box_plots(results.frame, ("RMSE", "NLP"), folder / "box_plots.png")
    return [save(figure, folder / "fits.png"), boxes]


def cells(quick: bool) -> list[Cell]:
    """Sampled methods, minutes each, run on Neal's own set alone."""
    work = [(m, k) for k in range(1 if quick else 10) for m in (QUICK if quick else METHODS)]
    if not quick:
        work += [(m, OWN) for m in robust_methods.SAMPLED]
    restarts = 1 if quick else 3
    return [
        Cell({"set": k, "method": m}, fit_set, {"method": m, "number": k, "restarts": restarts})
        for m, k in work
    ]


STUDY = Study(
    "neal",
    "Neal's curve with outliers: all noise models",
    "data of R. Neal (fbm); no numbers of this kind in print",
    cells,
    measures=(
        "RMSE",
        "NLP",
        "NLP above the truth's",
        "log evidence",
        "gross outliers found, percent",
        "false alarms",
    ),
    draw=draw,
    remarks=remarks,
    quick_note="Neal's own set alone, without sampled methods, one restart.",
)
