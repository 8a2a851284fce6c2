"""Three clusters on a line (thesis 6.3.1, figure 6.5): Laplace's method and EP beside a sampled posterior.

Class +1 comes from N(-6, 0.8^2) and N(2, 0.8^2), class -1 from N(0, 0.8^2). All three methods use the hyperparameters
that maximize *Laplace's* evidence, a choice in favor of Laplace's method. Its posterior is too close to zero and its
band of two standard deviations around x = -6 includes zero; EP's does not, and EP agrees with Markov chains.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtr

from cavity.assessment.gold import Chains, sample_latent
from cavity.assessment.gold import predict as predict_from_chains
from cavity.datasets import make_clusters_1d
from cavity.datasets.synthetic import CLUSTERS_1D
from cavity.estimators import GPClassifier
from cavity.gp import GP
from cavity.kernels import SE
from cavity.likelihoods import Probit
from cavity.numerics.arrays import Array
from cavity.sampling.annealing.ais import annealed_importance_sampling
from cavity.studies.base import Cell, Outcome, Results, Study
from cavity.studies.pictures import COLORS, LINES, band, new_panels, save

RULES = {"Laplace": "laplace", "EP": "ep"}
METHODS = (*RULES, "MCMC")
GRID = np.linspace(-9.0, 5.0, 281)
CLAIM = -6.0
"""Where the thesis looks: the center of the cluster to the left."""


def true_probability(x: Array) -> Array:
    """p(y = +1 | x) of the process that makes the data."""
    centers, labels, counts = (np.array(column) for column in zip(*CLUSTERS_1D))
    log_weight = np.log(counts) - 0.5 * ((x[:, None] - centers) / 0.8) ** 2
    weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    return np.asarray(weight @ (labels > 0) / weight.sum(axis=1))


@lru_cache(maxsize=32)
def model_of(seed: int) -> GP:
    """Hyperparameters of greatest evidence under Laplace's method."""
    data = make_clusters_1d(rng=seed)
    learned = GPClassifier(1.0 * SE(1.0), inference="laplace", n_restarts=2, random_state=seed)
    kernel = learned.fit(data.X, data.y).kernel_
    return GP(kernel, Probit(), inference="laplace")


def with_rule(model: GP, rule: str) -> GP:
    """The same model under another approximation."""
    return GP(model.kernel, Probit(), inference=rule)


def classify(method: str, seed: int, seconds: float) -> Outcome:
    """Latent function and probabilities by one method on one set."""
    data = make_clusters_1d(rng=seed)
    y = np.asarray(data.y, dtype=float)
    model = model_of(seed)
    at = np.append(GRID, CLAIM)[:, None]
    if method == "MCMC":
        found = _sampled(model, data.X, y, at, seed, seconds)
    else:
        posterior = with_rule(model, RULES[method]).condition(data.X, y)
        f = posterior.predict_f(at)
        found = {
            "mean": f.mean,
            "sd": f.sd,
            "probability": np.exp(posterior.predict_y(at).log_prob(np.ones(len(at)))),
            "negative": float(ndtr(-f.mean[-1] / f.sd[-1])),
            "log evidence": posterior.log_evidence,
        }
    truth = true_probability(GRID)
    p = np.clip(found["probability"][:-1], 1e-12, 1 - 1e-12)
    weight = _density(GRID)
    bits = 1 + np.sum(weight * (truth * np.log2(p) + (1 - truth) * np.log2(1 - p))) / np.sum(weight)
    numbers = {
        "log evidence": float(found["log evidence"]),
        "information, bits": float(bits),
        "mean at -6": float(found["mean"][-1]),
        "sd at -6": float(found["sd"][-1]),
        "mean - 2 sd at -6": float(found["mean"][-1] - 2 * found["sd"][-1]),
        "P(f < 0) at -6": float(found["negative"]),
        "probability at -6": float(found["probability"][-1]),
    }
    arrays = {
        "x": data.X[:, 0],
        "y": y,
        "mean": found["mean"][:-1],
        "sd": found["sd"][:-1],
        "p": found["probability"][:-1],
    }
    return Outcome(numbers, arrays, str(found.get("note", "")))


def _density(x: Array) -> Array:
    """Density of inputs, up to a factor: what the expected information is averaged with."""
    centers, _, counts = (np.array(column) for column in zip(*CLUSTERS_1D))
    return np.asarray(np.exp(-0.5 * ((x[:, None] - centers) / 0.8) ** 2) @ counts)


def _sampled(model: GP, X: Array, y: Array, at: Array, seed: int, seconds: float) -> dict[str, Any]:
    """The same model by Hamiltonian Monte Carlo; the evidence by annealed importance sampling."""
    rng = np.random.default_rng(seed)
    ep = with_rule(model, "ep")
    chains = sample_latent(ep, X, y, max_time=seconds, rng=rng, progress=False)
    evidence = annealed_importance_sampling(
        ep, X, y, target_error=0.05, max_time=seconds, rng=rng, progress=False
    )
    y_at, _ = predict_from_chains(ep, X, chains, at)
    means, own_sd = given_draws(ep, X, chains, at)
    return {
        "mean": means.mean(axis=0),
        "sd": np.sqrt(own_sd**2 + means.var(axis=0)),
        "negative": float(np.mean(ndtr(-means[:, -1] / own_sd[-1]))),
        "probability": np.exp(y_at.log_prob(np.ones(len(at)))),
        "log evidence": evidence.log_evidence,
        "note": f"{chains.reason}; AIS standard error {evidence.standard_error:.3f}, certified {evidence.certified}",
    }


def given_draws(model: GP, X: Array, chains: Chains, at: Array) -> tuple[Array, Array]:
    """Mean (S, m) of f at new inputs given each draw of f at the training inputs, and its sd (m,), equal for all."""
    prior, cross = model.prior(X), model.kernel(X, at)
    weights = prior.observe(np.zeros(prior.n)).apply(cross)
    variance = model.kernel.diag(at) - np.einsum("ij,ij->j", cross, weights)
    return chains.pooled @ weights, np.sqrt(np.maximum(variance, 1e-12))


def remarks(results: Results) -> list[str]:
    """The thesis' claims, checked on every set."""
    frame = results.frame
    if "mean - 2 sd at -6" not in frame:
        return []
    low = frame.pivot(index="set", columns="method", values="mean - 2 sd at -6")
    sets = len(low)
    out = [
        f"{m}: mean minus two sds at x = -6 is below zero on {int((low[m] < 0).sum())} of {sets} sets "
        f"(median {low[m].median():+.2f})"
        for m in METHODS
        if m in low
    ]
    if {"Laplace", "EP"} <= set(low.columns):
        held = (low["Laplace"] < 0) & (low["EP"] > 0)
        out.append(
            f"The claim of the thesis, that Laplace's band around -6 overlaps zero and EP's does not, holds on "
            f"{int(held.sum())} of {sets} sets."
        )
    mass = frame.groupby("method", sort=False)["P(f < 0) at -6"].median()
    out.append(
        "median posterior probability of f(-6) < 0: "
        + ", ".join(f"{m} {v:.2g}" for m, v in mass.items())
        + " (0 is: in no draw)"
    )
    if {"EP", "MCMC"} <= set(low.columns):
        sd = frame.pivot(index="set", columns="method", values="sd at -6")
        ratio = (sd["EP"] / sd["MCMC"]).median()
        out.append(
            f"The posterior of f(-6) is skewed towards large values: EP has its mean, but {ratio:.2f} of its standard "
            "deviation (median)."
        )
    out += _agreement(results, frame)
    return out


def _agreement(results: Results, frame: pd.DataFrame) -> list[str]:
    """Largest difference of probabilities from those of the chains; signs of the latent means."""
    out = []
    for method in RULES:
        gaps, signs = [], []
        for k in frame["set"].unique():
            found, truth = results.arrays(method=method, set=k), results.arrays(method="MCMC", set=k)
            if found and truth:
                gaps.append(float(np.max(np.abs(found["p"] - truth["p"]))))
                signs.append(float(np.mean(np.sign(found["mean"]) == np.sign(truth["mean"]))))
        if gaps:
            out.append(
                f"{method}: largest difference of p(y = +1 | x) from MCMC on the grid {max(gaps):.3f} "
                f"(median over sets {np.median(gaps):.3f}); sign of the latent mean as of MCMC on "
                f"{100 * np.mean(signs):.1f} % of the grid"
            )
    return out


def draw(results: Results, folder: Path) -> list[Path]:
    """The first set: probabilities, and the latent function with its bands (figure 6.5)."""
    figure, axes = new_panels(1, 2, width=5.2, height=3.6, sharex=True)
    left, right = axes
    left.plot(GRID, true_probability(GRID), color="0.55", linewidth=3, alpha=0.6, label="generating process")
    for k, method in enumerate(METHODS):
        s = results.arrays(method=method, set=0)
        color, line = COLORS[k], LINES[k]
        left.plot(GRID, s["p"], line, color=color, label=method)
        right.plot(GRID, s["mean"], line, color=color, label=method)
        if method != "MCMC":
            band(right, GRID, s["mean"], s["sd"], color=color, alpha=0.15)
        for sign in (-2, 2):
            right.plot(GRID, s["mean"] + sign * s["sd"], line, color=color, linewidth=0.6)
    points = results.arrays(method="EP", set=0)
    place = np.where(points["y"] > 0, 1.04, -0.04)
    left.plot(points["x"], place, "k|", markersize=6)
    left.set(xlabel="input x", ylabel="p(y = +1 | x)", title="probability (strokes: the data)")
    right.axhline(0.0, color="k", linewidth=0.6)
    right.axvline(CLAIM, color="k", linewidth=0.6, linestyle=":")
    right.set(xlabel="input x", ylabel="f(x)", title="latent function, two standard deviations")
    for axis in axes:
        axis.legend(frameon=False, fontsize=8)
    return [save(figure, folder / "synthetic_classification.png")]


STUDY = Study(
    "synthetic-classification",
    "Three clusters on a line: Laplace's method, EP and the truth",
    "thesis 6.3.1, figure 6.5 (no numbers in print; the set is random)",
    lambda quick: [
        Cell({"set": k, "method": m}, classify, {"method": m, "seed": k, "seconds": 4.0 if quick else 30.0})
        for k in range(1 if quick else 10)
        for m in METHODS
    ],
    measures=(
        "log evidence",
        "information, bits",
        "mean at -6",
        "sd at -6",
        "mean - 2 sd at -6",
        "P(f < 0) at -6",
        "probability at -6",
    ),
    draw=draw,
    remarks=remarks,
    quick_note="One random set of ten.",
)
