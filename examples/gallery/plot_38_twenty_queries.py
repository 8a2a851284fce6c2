"""
Twenty experiments
==================

One function, four rules, twenty experiments each, after the figures of lecture notes on experimental design. The ticks
below each picture are the experiments in their order from bottom to top; thick ones came within 0.2 of the minimum.
Below, what predictive entropy search makes of a place where the minimum might be: the slope there is zero, the
function bends upwards, and it is lower than anywhere else.
"""

import numpy as np
from matplotlib import pyplot as plt

from cavity import GP
from cavity.design import moments_of
from cavity.design.acquisition import (
    given_minimum,
    joint_draws,
    knowledge_gradient,
    log_expected_improvement,
    lower_confidence_bound,
    multiplier_for,
)
from cavity.kernels import SE
from cavity.likelihoods import Gaussian
from cavity.plots import BAND, DATA, OUTLIER, TRUTH

grid = np.linspace(0.0, 10.0, 201)[:, None]
model = GP(1.0 * SE(0.8), Gaussian(1e-6))
f = model.sample_prior(grid, rng=5)[0]


def posterior(rows):
    return moments_of(model.condition(grid[rows], f[rows]).process)


def improvement(moments, best, rng):
    mean, variance = moments(grid)
    return log_expected_improvement(mean[:, 0], variance, best).value


def bound(moments, best, rng):
    mean, variance = moments(grid)
    return lower_confidence_bound(mean[:, 0], variance, multiplier_for(0.999)).value


def knowledge(moments, best, rng):
    few = grid[::5]
    return np.interp(grid[:, 0], few[:, 0], knowledge_gradient(moments, few, few, 1e-6))


def thompson(moments, best, rng):
    return -joint_draws(moments, grid, 1, rng)[0]


RULES = {
    "expected improvement": improvement,
    "confidence bound, 99.9 %": bound,
    "knowledge gradient": knowledge,
    "Thompson sampling": thompson,
}

figure, axes = plt.subplots(
    2, 4, figsize=(11, 4.4), layout="constrained", sharex=True, sharey="row", height_ratios=[2, 1]
)
for (above, below), (name, rule) in zip(axes.T, RULES.items()):
    rng, rows = np.random.default_rng(1), [40, 160]
    while len(rows) < 20:
        score = rule(posterior(rows), f[rows].min(), rng)
        score[rows] = -np.inf  # an experiment without noise is not repeated
        rows.append(int(np.argmax(score)))
    mean, variance = posterior(rows)(grid)
    sd = np.sqrt(variance)
    above.fill_between(grid[:, 0], mean[:, 0] - 2 * sd, mean[:, 0] + 2 * sd, color=BAND, alpha=0.2, lw=0)
    above.plot(grid[:, 0], mean[:, 0], color=BAND)
    above.plot(grid[:, 0], f, "--", color=TRUTH, linewidth=1)
    above.plot(grid[rows, 0], f[rows], "o", color=DATA, markersize=3)
    above.set_title(name, fontsize=9)
    near = f[rows] < f.min() + 0.2
    for k, row in enumerate(rows):
        below.plot(
            grid[row], k + 1, "|", color=OUTLIER if near[k] else DATA, ms=7, mew=2.5 if near[k] else 0.8
        )
axes[0, 0].set_ylabel("f")
axes[1, 0].set_ylabel("experiment")

# %%
# Six experiments, a place where a drawn function has its minimum, and the process given that this is the place.

rows = [10, 45, 85, 120, 150, 190]
moments = posterior(rows)
place = grid[np.argmin(joint_draws(moments, grid, 1, np.random.default_rng(3))[0])]
given = given_minimum(moments, place, f[rows].min(), 0.0, 10.0)
figure, axes = plt.subplots(1, 2, figsize=(9, 3), layout="constrained", sharey=True)
mean, variance = moments(grid)
for axis, m, v, name in (
    (axes[0], mean[:, 0], variance, "posterior"),
    (axes[1], *given(grid), "given that the minimum is at the line"),
):
    sd = np.sqrt(v)
    axis.fill_between(grid[:, 0], m - 2 * sd, m + 2 * sd, color=BAND, alpha=0.2, lw=0)
    axis.plot(grid[:, 0], m, color=BAND)
    axis.plot(grid[rows, 0], f[rows], "o", color=DATA, markersize=4)
    axis.axvline(place[0], color=OUTLIER, linestyle="--", linewidth=1)
    axis.set_title(name, fontsize=9)
plt.show()
