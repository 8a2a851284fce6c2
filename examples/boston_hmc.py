"""Boston housing: one best set of hyperparameters, or an average over many?

Run `CAVITY_DATA=folder python examples/boston_hmc.py [picture.png] [splits]`. A Gaussian process with a length scale
for each of the 13 inputs, a signal and a noise variance: 15 hyperparameters. Evidence maximization picks one set of
them; Hamiltonian Monte Carlo makes 500 draws from their posterior, discards 50 and averages predictions over the
others, as in Kuss (2006, section 4.3.6). Both see 400 houses and are tested on the other 106, for several random
splits. The picture shows the draws of one split.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from cavity import GP, datasets
from cavity.kernels import SE
from cavity.likelihoods import Gaussian
from cavity.sampling import HMCOptions, HyperparameterTarget, Trace, diagnostics, hamiltonian

TRAIN, DRAWS, DISCARD, EVERY = 400, 500, 50, 10
"""Houses to learn from; draws, those discarded, and of which the rest one in `EVERY` predicts."""


@dataclass
class Split:
    """Results of one split; errors in thousands of dollars."""

    rmse_best: float
    rmse_average: float
    nlp_best: float
    nlp_average: float
    trace: Trace
    theta_best: np.ndarray
    seconds: tuple[float, float]


def run(X: np.ndarray, y: np.ndarray, seed: int) -> Split:
    """Both ways of dealing with the hyperparameters, on one random split."""
    order = np.random.default_rng(seed).permutation(len(X))
    train, test = order[:TRAIN], order[TRAIN:]
    x_mean, x_sd, y_mean, y_sd = X[train].mean(0), X[train].std(0), y[train].mean(), y[train].std()
    Z, t = (X - x_mean) / x_sd, (y - y_mean) / y_sd

    began = time.perf_counter()
    model = GP(1.0 * SE(np.full(X.shape[1], 3.0)), Gaussian(0.1))
    best = model.learn(Z[train], t[train], n_restarts=2, rng=seed).model
    learned = time.perf_counter()

    target = HyperparameterTarget(best, Z[train], t[train])
    options = HMCOptions(length=np.pi / 2)
    trace = hamiltonian(target, best.theta, options, n_draws=DRAWS - DISCARD, warmup=DISCARD, rng=seed)
    ended = time.perf_counter()

    plain = best.condition(Z[train], t[train]).predict_y(Z[test])
    kept = trace.thin(EVERY).pooled
    predictions = [target.model.replace(u).condition(Z[train], t[train]).predict_y(Z[test]) for u in kept]
    mean = np.mean([p.mean for p in predictions], axis=0)
    log_p = np.array([p.log_prob(t[test]) for p in predictions])
    return Split(
        y_sd * float(np.sqrt(np.mean((plain.mean - t[test]) ** 2))),
        y_sd * float(np.sqrt(np.mean((mean - t[test]) ** 2))),
        -float(np.mean(plain.log_prob(t[test]))),
        -float(np.mean(np.logaddexp.reduce(log_p, axis=0) - np.log(len(log_p)))),
        trace,
        best.theta,
        (learned - began, ended - learned),
    )


def draw(split: Split, path: str) -> None:
    """Traces of all hyperparameters beside the values that evidence maximization picked."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = [name.replace("se.", "").replace("gaussian.", "noise ") for name in split.trace.names]
    figure, axes = plt.subplots(5, 3, figsize=(11, 10), sharex=True, layout="constrained")
    for i, (axis, name) in enumerate(zip(axes.ravel(), names)):
        axis.plot(split.trace.positions[0, :, i], color="#0072B2", lw=0.8, label="HMC")
        axis.axhline(split.theta_best[i], color="#D55E00", lw=1.2, ls="--", label="evidence maximum")
        axis.set_title(f"log {name}", fontsize=9)
        axis.tick_params(labelsize=8)
    for axis in axes[-1]:
        axis.set_xlabel("draw", fontsize=9)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=2, fontsize=9)
    figure.suptitle("Boston housing: 15 hyperparameters, one chain", x=0.02, ha="left", fontsize=11)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main(argv: list[str]) -> dict[str, Any]:
    """All splits, a table, and the picture of the first."""
    picture = argv[0] if argv else "boston_hmc.png"
    count = int(argv[1]) if len(argv) > 1 else 5
    data = datasets.load("boston")
    X, y = np.asarray(data.X, dtype=float), np.asarray(data.y, dtype=float)
    print("split   RMSE best  RMSE HMC   NLP best  NLP HMC   acceptance  smallest ESS  seconds (fit, HMC)")
    splits = []
    for seed in range(count):
        split = run(X, y, seed)
        splits.append(split)
        least = float(diagnostics.ess_bulk(split.trace.positions).min())
        print(
            f"{seed:5d}   {split.rmse_best:9.3f}  {split.rmse_average:8.3f}   {split.nlp_best:8.3f}  "
            f"{split.nlp_average:7.3f}   {split.trace.acceptance.mean():10.2f}  {least:12.0f}  "
            f"{split.seconds[0]:.1f}, {split.seconds[1]:.1f}",
            flush=True,
        )
        if seed == 0:
            draw(split, picture)
    means = {k: float(np.mean([getattr(s, k) for s in splits])) for k in ("rmse_best", "rmse_average")}
    means |= {k: float(np.mean([getattr(s, k) for s in splits])) for k in ("nlp_best", "nlp_average")}
    print(
        f" mean   {means['rmse_best']:9.3f}  {means['rmse_average']:8.3f}   {means['nlp_best']:8.3f}  "
        f"{means['nlp_average']:7.3f}"
    )
    return means


if __name__ == "__main__":
    main(sys.argv[1:])
