"""Posterior and predictions at one pair of hyperparameters, as thesis figures 6.9 and 6.10 have them.

Laplace's method and EP against long chains: means and standard deviations of the latent values, the precisions that
the likelihood adds (W of Laplace's method, the sites of EP), probabilities of the class +1 at training and test inputs,
and marginals as histograms with both normal densities: those most skewed under the chains, and that where the two
approximations differ most in probability.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, skew

from cavity.assessment.gold import gold_standard
from cavity.numerics.arrays import Array
from cavity.studies.base import Outcome, Results
from cavity.studies.classification_methods import information
from cavity.studies.evidence_problem import CLOSELY, log_p, model_at, problem, sampled_log_p
from cavity.studies.pictures import COLORS, MARKERS, new_panels, save

METHODS = {"laplace": "Laplace", "ep": "EP"}
SKEWED = 3
"""Marginals that are shown because they are the most skewed."""

KEPT_DRAWS = 9000
"""As many as the thesis' histograms have."""

LEAST_PRECISION = 1e-6
"""Smaller ones are drawn there."""

ERROR = 0.15
"""Standard error that annealing is asked for, in nats."""

LABEL = "one point"
SMALL: dict[str, Any] = {"markersize": 3, "markeredgewidth": 0, "alpha": 0.6}


def compare(data: str, ln_l: float, ln_s: float, seconds: float, error: float) -> Outcome:
    """Both approximations and the chains at one pair of hyperparameters."""
    X, y, X_test, y_test = problem(data)
    model = model_at(ln_l, ln_s, "ep")
    rng = np.random.default_rng(0)
    gold = gold_standard(model, X, y, max_time=seconds, target_error=error, rng=rng, progress=False)
    F = gold.chains.pooled
    arrays: dict[str, NDArray[Any]] = {"mean": F.mean(axis=0), "sd": F.std(axis=0), "y": y}
    for part, inputs in (("train", X), ("test", X_test)):
        averaged = sampled_log_p(model, X, gold.chains, inputs)
        arrays[part] = np.exp(averaged[:, 1])
        bits = information(averaged, y if part == "train" else y_test)
    measures = {
        "log evidence": gold.evidence.log_evidence,
        "certified, percent": 100.0 * gold.certified,
        "information of MCMC": bits,
        "draws": float(len(F)),
        "fewest effective draws": gold.chains.ess,
        "R-hat": gold.chains.rhat,
    }
    for rule, name in METHODS.items():
        posterior = model_at(ln_l, ln_s, rule).condition(X, y)
        sites = posterior.approximation.sites
        assert sites is not None  # both rules have them
        tested = log_p(posterior, X_test)
        found = {
            "mean": posterior.mean(X),
            "sd": np.sqrt(posterior.variance(X)),
            "precision": sites.precision,
            "train": np.exp(log_p(posterior, X)[:, 1]),
            "test": np.exp(tested[:, 1]),
        }
        arrays |= {f"{name} {what}": value for what, value in found.items()}
        measures |= distances(found, arrays, name)
        measures[f"{name}: log evidence"] = posterior.log_evidence
        measures[f"{name}: information"] = information(tested, y_test)
    rows = chosen_rows(F, arrays["Laplace train"], arrays["EP train"])
    kept = np.linspace(0, len(F) - 1, min(KEPT_DRAWS, len(F))).astype(int)
    arrays |= {"rows": rows, "skewness": np.asarray(skew(F[:, rows], axis=0)), "draws": F[np.ix_(kept, rows)]}
    note = f"{gold.evidence.reason}; {gold.chains.reason}"
    return Outcome(measures, arrays, note)


def distances(found: dict[str, Array], gold: dict[str, Array], name: str) -> dict[str, float]:
    """How far an approximation is from the chains: slope of means through zero, sds, probabilities."""
    slope = float(found["mean"] @ gold["mean"] / (gold["mean"] @ gold["mean"]))
    return {
        f"{name}: means as a share of MCMC's": slope,
        f"{name}: sds as a share of MCMC's": float(np.mean(found["sd"] / gold["sd"])),
        f"{name}: difference of training probabilities": float(
            np.mean(np.abs(found["train"] - gold["train"]))
        ),
        f"{name}: difference of test probabilities": float(np.mean(np.abs(found["test"] - gold["test"]))),
        f"{name}: largest difference of probabilities": float(
            max(np.max(np.abs(found[part] - gold[part])) for part in ("train", "test"))
        ),
    }


def chosen_rows(F: Array, laplace: Array, ep: Array) -> NDArray[np.int64]:
    """Training rows of the histograms: the most skewed, and that where probabilities differ most (another one)."""
    rows = list(np.argsort(-np.abs(skew(F, axis=0)), kind="stable")[:SKEWED])
    apart = np.abs(laplace - ep)
    apart[rows] = -1.0
    return np.array([*rows, int(np.argmax(apart))], dtype=np.int64)


# --- what is told of it ---------------------------------------------------------------------------------------


def remarks(results: Results, data: str) -> list[str]:
    """Sentences with the figures of this point."""
    records = [r for r in results.records if r["labels"]["method"] == LABEL and not r["error"]]
    if not records:
        return []
    found, (ln_l, ln_s) = records[0]["measures"], CLOSELY[data]
    stored = results.arrays(method=LABEL)
    out = [
        f"at (ln l, ln s) = ({ln_l}, {ln_s}): {found['draws']:.0f} draws of the chains ({found['R-hat']:.3f} is the "
        f"worst R-hat, {found['fewest effective draws']:.0f} the fewest effective draws), information of MCMC "
        f"{found['information of MCMC']:.3f} bits"
    ]
    for name in METHODS.values():
        get = {what: found[f"{name}: {what}"] for what in _TOLD}
        out.append(
            f"{name} there: log evidence {get['log evidence']:.2f} (AIS {found['log evidence']:.2f}), means are "
            f"{get[_TOLD[1]]:.2f} and sds {get[_TOLD[2]]:.2f} of MCMC's, probabilities differ by "
            f"{get[_TOLD[3]]:.4f} (training) and {get[_TOLD[4]]:.4f} (test) on average and {get[_TOLD[5]]:.3f} at "
            f"most, information {get['information']:.3f} bits"
        )
    row = int(stored["rows"][-1])
    p = [float(stored[key][row]) for key in ("Laplace train", "EP train", "train")]
    out.append(
        f"training row {row}, where the two differ most among those shown: p(y = +1) is {p[0]:.4f} by Laplace, "
        f"{p[1]:.4f} by EP, {p[2]:.4f} by MCMC"
    )
    return out


_TOLD = (
    "log evidence",
    "means as a share of MCMC's",
    "sds as a share of MCMC's",
    "difference of training probabilities",
    "difference of test probabilities",
    "largest difference of probabilities",
    "information",
)


# --- pictures -------------------------------------------------------------------------------------------------


def draw(results: Results, folder: Path, data: str) -> list[Path]:
    """Scatter plots and histograms; nothing if the point was not run."""
    stored = results.arrays(method=LABEL)
    if not stored:
        return []
    return [_scatter_plots(stored, folder, CLOSELY[data]), _histograms(stored, folder)]


def _scatter_plots(stored: dict[str, Array], folder: Path, point: tuple[float, float]) -> Path:
    figure, axes = new_panels(2, 3, width=3.4, height=3.2)
    panels = (
        ("mean", "posterior mean of f, training cases", "mean"),
        ("sd", "posterior sd of f, training cases", "sd"),
        ("train", "p(y = +1), training cases", "p"),
        ("test", "p(y = +1), test cases", "p"),
    )
    for axis, (what, title, short) in zip((axes[0], axes[1], axes[3], axes[4]), panels):
        pairs = {name: (stored[what], stored[f"{name} {what}"]) for name in METHODS.values()}
        _against(axis, pairs)
        axis.set(title=title, xlabel=f"{short}, MCMC", ylabel=f"{short}, approximations")
    _precisions(axes[2], stored["Laplace precision"], stored["EP precision"])
    _differences(axes[5], stored)
    axes[0].legend(frameon=False, fontsize=8)
    figure.suptitle(f"ln l = {point[0]}, ln s = {point[1]}", fontsize=10)
    return save(figure, folder / "scatter.png")


def _against(axis: Any, pairs: dict[str, tuple[Array, Array]]) -> None:
    low, high = (f([f(np.concatenate(pair)) for pair in pairs.values()]) for f in (np.min, np.max))
    pad = 0.04 * (high - low)
    ends = [low - pad, high + pad]
    axis.plot(ends, ends, color="0.6", linewidth=1)
    for k, (name, (gold, ours)) in enumerate(pairs.items()):
        axis.plot(gold, ours, MARKERS[k], color=COLORS[1 - k], label=name, **SMALL)


def _precisions(axis: Any, laplace: Array, ep: Array) -> None:
    ep, laplace = np.maximum(ep, LEAST_PRECISION), np.maximum(laplace, LEAST_PRECISION)
    ends = [min(ep.min(), laplace.min()) / 1.5, 1.5 * max(ep.max(), laplace.max())]
    axis.plot(ends, ends, color="0.6", linewidth=1)
    axis.loglog(ep, laplace, "o", color=COLORS[2], **SMALL)
    axis.set(
        title="precisions of the likelihood",
        xlabel="sites of EP, not below 1e-6",
        ylabel="W of Laplace's method, not below 1e-6",
    )


def _differences(axis: Any, stored: dict[str, Array]) -> None:
    """How far predictions are off, sorted: what a scatter plot hides where points lie on each other."""
    for k, name in enumerate(METHODS.values()):
        for part, line in (("train", "-"), ("test", "--")):
            gap = np.sort(np.abs(stored[f"{name} {part}"] - stored[part]))[::-1]
            percent, label = np.linspace(0, 100, len(gap)), f"{name}, {part}"
            axis.semilogy(percent, np.maximum(gap, 1e-5), line, color=COLORS[1 - k], label=label)
    axis.set(
        title="differences from MCMC, sorted", xlabel="percent of cases", ylabel="difference, not below 1e-5"
    )
    axis.legend(frameon=False, fontsize=8)


def _histograms(stored: dict[str, Array], folder: Path) -> Path:
    figure, axes = new_panels(2, 2, width=4.2, height=3.0)
    for k, (axis, row) in enumerate(zip(axes, stored["rows"])):
        draws = stored["draws"][:, k]
        axis.hist(draws, bins=50, density=True, color="0.75", label="MCMC")
        normals = {n: (stored[f"{n} mean"][row], stored[f"{n} sd"][row]) for n in METHODS.values()}
        low = min(draws.min(), *(m - 3 * sd for m, sd in normals.values()))
        high = max(draws.max(), *(m + 3 * sd for m, sd in normals.values()))
        f = np.linspace(low, high, 400)
        for j, (name, (mean, sd)) in enumerate(normals.items()):
            axis.plot(f, norm.pdf(f, mean, sd), ("--", "-")[j], color=COLORS[1 - j], label=name)
        axis.axvline(0.0, color="k", linewidth=0.8, linestyle=":")
        what = f"skewness {stored['skewness'][k]:+.2f}" if k < SKEWED else "EP far from Laplace"
        axis.set(xlabel="latent value f", ylabel="density")
        axis.set_title(f"training row {row}, y = {stored['y'][row]:+.0f}: {what}", fontsize=10)
    axes[0].legend(frameon=False, fontsize=8)
    return save(figure, folder / "marginals.png")
