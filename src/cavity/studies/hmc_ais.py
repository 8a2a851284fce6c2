"""Hamiltonian Monte Carlo over hyperparameters; annealed importance sampling against an exact evidence (thesis 4.3.6).

Boston housing, 400 houses to learn from and 106 to test on, Gaussian noise and a length scale for each of 13 inputs: 15
hyperparameters. Evidence maximization picks one set of them; HMC makes 500 draws, discards 50, and every tenth of the
rest predicts. The evidence at the maximum is known exactly, so that annealed importance sampling can be judged: once
with the thesis' settings (four runs, 8000 temperatures), once as the library does it, until its own certificate holds.
Evidence and errors depend on the split, which the thesis does not give.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cavity.datasets import load
from cavity.gp import GP
from cavity.kernels import SE
from cavity.likelihoods import Gaussian
from cavity.numerics.arrays import Array
from cavity.sampling.annealing.ais import annealed_importance_sampling
from cavity.sampling.diagnostics import ess_bulk
from cavity.sampling.hmc import HMCOptions, hamiltonian
from cavity.sampling.hyperparameter_target import HyperparameterTarget
from cavity.studies.base import Cell, Outcome, Published, Results, Study
from cavity.studies.folds import standardized
from cavity.studies.pictures import COLORS, new_panels, save
from cavity.studies.summary import cpu_per_fit

MAXIMUM, SAMPLED = "evidence maximum", "HMC"
THESIS_AIS, CERTIFIED_AIS = "AIS, settings of the thesis", "AIS, until certified"


class Problem:
    """One random split, standardized on its training part, and the model that maximizes the evidence there."""

    def __init__(self, split: int, train: int) -> None:
        data = load("boston")
        order = np.random.default_rng(split).permutation(len(data.y))
        seen, new = order[:train], order[train:]
        self.features = data.feature_names
        self.X, self.X_test = standardized(data.X[seen], data.X[new])
        y = np.asarray(data.y, float)
        center, self.scale = y[seen].mean(), float(y[seen].std())
        self.y, self.y_test = (y[seen] - center) / self.scale, (y[new] - center) / self.scale
        columns = self.X.shape[1]
        model = GP(1.0 * SE(np.full(columns, 3.0)), Gaussian(0.1))
        self.best: Any = model.learn(self.X, self.y, n_restarts=2, rng=split).model

    def measures(self, mean: Array, log_p: Array) -> dict[str, float]:
        """RMSE in 1000 dollars, NLP of the standardized target."""
        error = self.scale * (mean - self.y_test)
        return {"RMSE": float(np.sqrt(np.mean(error**2))), "NLP": float(-np.mean(log_p))}


def maximize(split: int, train: int) -> Outcome:
    """Predictions at the hyperparameters of greatest evidence."""
    p = Problem(split, train)
    posterior = p.best.condition(p.X, p.y)
    y = posterior.predict_y(p.X_test)
    found = p.measures(y.mean, y.log_prob(p.y_test)) | {"log evidence": posterior.log_evidence}
    return Outcome(found, {"theta": p.best.theta})


def sample(split: int, train: int, draws: int, discard: int, every: int) -> Outcome:
    """Predictions averaged over draws of the hyperparameters; `draws` counts those that are discarded."""
    p = Problem(split, train)
    target = HyperparameterTarget(p.best, p.X, p.y)
    trace = hamiltonian(
        target,
        p.best.theta,
        HMCOptions(length=np.pi / 2),
        n_draws=draws - discard,
        warmup=discard,
        rng=split,
        progress=False,
    )
    used = trace.thin(every).pooled
    predictions = [target.model.replace(u).condition(p.X, p.y).predict_y(p.X_test) for u in used]
    log_p = np.array([y.log_prob(p.y_test) for y in predictions])
    mean = np.mean([y.mean for y in predictions], axis=0)
    found = p.measures(mean, np.logaddexp.reduce(log_p, axis=0) - np.log(len(log_p)))
    found |= {
        "acceptance": float(trace.acceptance.mean()),
        "smallest ESS": float(ess_bulk(trace.positions).min()),
        "evaluations": float(target.evaluations),
    }
    arrays = {
        "positions": trace.positions[0],
        "names": np.array(_readable(trace.names, p.features)),
        "maximum": p.best.theta,
    }
    return Outcome(found, arrays)


def anneal(method: str, split: int, train: int, steps: int, budget: float) -> Outcome:
    """Annealed importance sampling at the maximum of the evidence, from the prior, beside the exact value."""
    p = Problem(split, train)
    exact = p.best.condition(p.X, p.y).log_evidence
    options: dict[str, Any] = (
        {"runs": 4, "steps": steps, "schedule": "power"}
        if method == THESIS_AIS
        else {"runs": 24, "target_error": 0.3, "max_time": budget}
    )
    found = annealed_importance_sampling(
        p.best, p.X, p.y, start="prior", rng=split, progress=False, **options
    )
    error = found.log_evidence - exact
    return Outcome(
        {
            "log evidence": found.log_evidence,
            "exact log evidence": exact,
            "AIS minus exact": error,
            "standard error": found.standard_error,
            "error in standard errors": abs(error) / found.standard_error,
            "sd of log weights": found.sd_log_weights,
            "certified": float(found.certified),
            "acceptance": found.acceptance,
        },
        {"log_weights": found.log_weights, "exact": np.array([exact])},
        found.reason,
    )


def cells(quick: bool) -> list[Cell]:
    """Split by split; annealing on the first."""
    splits, train = (1, 150) if quick else (5, 400)
    common = {"train": train}
    length = (
        {"draws": 150, "discard": 30, "every": 10} if quick else {"draws": 500, "discard": 50, "every": 10}
    )
    out = []
    for k in range(splits):
        out.append(Cell({"split": k, "method": MAXIMUM}, maximize, {"split": k, **common}))
        out.append(Cell({"split": k, "method": SAMPLED}, sample, {"split": k, **common, **length}))
    for method in (THESIS_AIS, CERTIFIED_AIS):
        given = {
            "method": method,
            "split": 0,
            "steps": 500 if quick else 8000,
            "budget": 20.0 if quick else 90.0,
        }
        out.append(Cell({"split": 0, "method": method}, anneal, given | common))
    return out


def remarks(results: Results) -> list[str]:
    """Reduction of the error by averaging, and the error of annealing."""
    frame = results.frame
    wide = frame[frame["method"].isin((MAXIMUM, SAMPLED))].pivot(
        index="split", columns="method", values="RMSE"
    )
    change = 100 * (wide[SAMPLED] / wide[MAXIMUM] - 1).to_numpy(dtype=float)
    out = [
        f"RMSE of HMC relative to the evidence maximum: {change.mean():+.1f} % on average over {len(change)} "
        f"split{'s' if len(change) > 1 else ''} ("
        + ", ".join(f"{v:+.1f}" for v in change)
        + "; the thesis: about -10 "
        "on its one split)."
    ]
    for method in (THESIS_AIS, CERTIFIED_AIS):
        row = frame[frame["method"] == method].iloc[0]
        out.append(
            f"{method}: {row['log evidence']:.2f} +/- {row['standard error']:.2f} where "
            f"{row['exact log evidence']:.2f} is exact, {'' if row['certified'] else 'not '}certified; {row['note']}"
        )
    out.append("The thesis on its split: -142.23 by AIS where -141.55 is exact.")
    out.append(cpu_per_fit(frame))
    return out


def draw(results: Results, folder: Path) -> list[Path]:
    """Traces of all hyperparameters of the first split; log weights of annealing around the exact value."""
    s = results.arrays(split=0, method=SAMPLED)
    figure, axes = new_panels(5, 3, width=3.4, height=1.5, sharex=True)
    for i, (axis, name) in enumerate(zip(axes, s["names"])):
        axis.plot(s["positions"][:, i], color=COLORS[0], linewidth=0.7, label="HMC")
        axis.axhline(s["maximum"][i], color=COLORS[1], linewidth=1, linestyle="--", label="evidence maximum")
        axis.set_title(f"ln {name}", fontsize=9)
    for axis in axes[-3:]:
        axis.set_xlabel("draw")
    marks, labels = axes[0].get_legend_handles_labels()
    figure.legend(marks, labels, loc="outside upper center", ncols=2, frameon=False)
    return [
        save(figure, folder / "traces.png", few_colors=True),
        _annealing_picture(results, folder / "annealing.png"),
    ]


def _readable(names: Sequence[str], features: Sequence[str]) -> list[str]:
    """Names of the model's parameters as a reader would say them."""
    words = {"se.variance": "signal variance", "gaussian.variance": "noise variance"}
    words |= {f"se.lengthscale[{i}]": f"length scale of {name}" for i, name in enumerate(features)}
    return [words.get(name, name) for name in names]


def _annealing_picture(results: Results, path: Path) -> Path:
    figure, (axis,) = new_panels(1, 1, width=6.0, height=2.4)
    methods = (THESIS_AIS, CERTIFIED_AIS)
    frame = results.frame.set_index("method")
    for place, method in enumerate(methods):
        s = results.arrays(split=0, method=method)
        axis.plot(
            s["log_weights"], np.full(len(s["log_weights"]), place), "|", color=COLORS[0], markersize=14
        )
        row = frame.loc[method]
        axis.errorbar(
            row["log evidence"],
            place + 0.25,
            xerr=2 * row["standard error"],
            fmt="o",
            color=COLORS[1],
            capsize=3,
        )
        axis.plot([s["exact"][0]] * 2, [place - 0.3, place + 0.4], "k--", linewidth=1)
    axis.set_yticks(range(len(methods)), methods)
    axis.set(xlabel="log evidence", ylim=(-0.5, 1.6))
    axis.set_title("strokes: runs; point: estimate, two standard errors; dashed: exact", fontsize=9)
    return save(figure, path)


STUDY = Study(
    "hmc-ais",
    "Boston: sampled hyperparameters, and annealed importance sampling against the exact evidence",
    "thesis 4.3.6 (its split is not known)",
    cells,
    measures=(
        "RMSE",
        "NLP",
        "acceptance",
        "smallest ESS",
        "log evidence",
        "exact log evidence",
        "AIS minus exact",
        "standard error",
        "error in standard errors",
        "sd of log weights",
        "certified",
    ),
    published=(
        Published({"method": SAMPLED}, "acceptance", 0.9),
        Published({"method": THESIS_AIS}, "AIS minus exact", -0.68),
    ),
    draw=draw,
    remarks=remarks,
    quick_note="One split of five, 150 houses of 400, 150 draws of 500, 500 temperatures of 8000.",
)
