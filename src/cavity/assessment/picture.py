"""The picture of an assessment, in the manner of thesis figures 6.9 and 6.10.

A row per method: posterior means, posterior sds and predictive probabilities against those of the chains, with the
line of equality, and the marginal that is most skewed under the chains as a histogram with the method's normal density.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import skew

from cavity.assessment.verdict import label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cavity.assessment.result import Assessment

COLOR, GOLD = "#0072b2", "#999999"


def draw(assessment: Assessment) -> Figure:
    """The figure; save it with `figure.savefig(path)`."""
    from matplotlib.figure import Figure

    methods = [m for m in assessment.methods if not m.failure]
    if not methods:
        raise ValueError("no method of this assessment gave a result, so that there is nothing to draw")
    predictive = assessment.gold_predictive.probability
    columns = 3 + bool(len(predictive))
    figure = Figure(figsize=(3.2 * columns, 2.9 * len(methods)), dpi=130, layout="constrained")
    axes = figure.subplots(len(methods), columns, squeeze=False)
    F = assessment.gold.chains.pooled
    mean, sd = F.mean(axis=0), F.std(axis=0)
    skewed = int(np.argmax(np.abs(skew(F, axis=0))))
    for row, method in zip(axes, methods):
        name = label(method.name)
        _scatter(row[0], mean, method.mean, "posterior mean of f", name)
        _scatter(row[1], sd, method.sd, "posterior sd of f", name)
        _marginal(row[2], F[:, skewed], method.mean[skewed], method.sd[skewed], skewed, name)
        if len(predictive):
            _scatter(row[3], predictive, method.predictive.probability, "predictive probability", name)
    return figure


def _scatter(axis: Any, gold: NDArray[Any], ours: NDArray[Any], what: str, name: str) -> None:
    low, high = (f(np.concatenate([gold, ours])) for f in (np.min, np.max))
    pad = 0.04 * (high - low) or 0.1
    axis.plot([low - pad, high + pad], [low - pad, high + pad], color="0.6", linewidth=1)
    axis.plot(gold, ours, "o", color=COLOR, markersize=3, alpha=0.6)
    axis.set(xlabel=f"{what}, MCMC", ylabel=f"{what}, {name}")
    axis.spines[["top", "right"]].set_visible(False)


def _marginal(axis: Any, draws: NDArray[Any], mean: float, sd: float, row: int, name: str) -> None:
    axis.hist(draws, bins=40, density=True, color=GOLD, label="MCMC")
    low, high = min(draws.min(), mean - 3 * sd), max(draws.max(), mean + 3 * sd)
    x = np.linspace(low, high, 200)
    axis.plot(x, np.exp(-0.5 * ((x - mean) / sd) ** 2) / (sd * np.sqrt(2 * np.pi)), color=COLOR, label=name)
    axis.set(xlabel=f"f at training row {row}, the most skewed", ylabel="density")
    axis.legend(frameon=False, fontsize=8)
    axis.spines[["top", "right"]].set_visible(False)
