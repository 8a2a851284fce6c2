"""
Which experiment next?
======================

Acquisition functions of the lecture notes on one function: a draw from a Matern process, minimized after seven values.
Each says where the next experiment is worth most (triangles). Probability of improvement stays near the best value
unless a margin asks for more; expected improvement, the knowledge gradient and entropy look farther; a draw of the
function (Thompson sampling) goes where that draw is smallest.
"""

import numpy as np
from matplotlib import pyplot as plt

from cavity import GP
from cavity.design import moments_of
from cavity.design.acquisition import (
    draw_minima,
    entropy_search,
    expected_improvement,
    joint_draws,
    knowledge_gradient,
    lower_confidence_bound,
    max_value_entropy,
    multiplier_for,
    probability_of_improvement,
)
from cavity.kernels import Matern
from cavity.likelihoods import Gaussian
from cavity.plots import BAND, DATA, PALETTE, TRUTH

rng = np.random.default_rng(4)
grid = np.linspace(0.0, 10.0, 300)[:, None]
kernel = 1.0 * Matern(1.2, nu=2.5)
f = GP(kernel).sample_prior(grid, rng=11)[0]
rows = np.array([12, 60, 105, 150, 190, 240, 290])
moments = moments_of(GP(kernel, Gaussian(1e-6)).condition(grid[rows], f[rows]).process)
mean, variance = moments(grid)
m, best = mean[:, 0], f[rows].min()


def draw_posterior(axis, title):
    sd = np.sqrt(variance)
    axis.fill_between(grid[:, 0], m - 2 * sd, m + 2 * sd, color=BAND, alpha=0.2, lw=0)
    axis.plot(grid[:, 0], m, color=BAND)
    axis.plot(grid[rows, 0], f[rows], "o", color=DATA, markersize=4)
    axis.set_title(title, fontsize=9)


def draw_score(axis, values, number, name):
    color = PALETTE[number]
    axis.plot(grid[:, 0], values, color=color, linestyle=("-", "--", ":")[number % 3], label=name)
    axis.plot(grid[np.argmax(values), 0], np.max(values), "v", color=color)


figure, axes = plt.subplots(4, 2, figsize=(9, 9), layout="constrained", sharex=True)
draw_posterior(axes[0, 0], "posterior, and the function")
axes[0, 0].plot(grid[:, 0], f, color=TRUTH, linestyle="--")

axes[0, 1].set_title("probability of improvement, by margin", fontsize=9)
for number, margin in enumerate((0.0, 0.1, 0.5)):
    draw_score(axes[0, 1], probability_of_improvement(m, variance, best, margin).value, number, f"{margin:g}")

axes[1, 0].set_title("expected improvement and knowledge gradient", fontsize=9)
draw_score(axes[1, 0], expected_improvement(m, variance, best).value, 0, "expected improvement")
every = grid[::6]
kg = np.interp(grid[:, 0], every[:, 0], knowledge_gradient(moments, every, every))
draw_score(axes[1, 0], kg, 1, "knowledge gradient")

axes[1, 1].set_title("confidence bounds, by probability", fontsize=9)
for number, p in enumerate((0.8, 0.95, 0.999)):
    draw_score(axes[1, 1], lower_confidence_bound(m, variance, multiplier_for(p)).value, number, f"{p:g}")

# %%
# A hundred draws of the function, the places of their minima, and what an observation would tell of the minimum: of its
# place (entropy search) and of its value (max-value entropy search).

draws = joint_draws(moments, grid, 100, rng)
draw_posterior(axes[2, 0], "draws of the function, and their minima")
axes[2, 0].plot(grid[:, 0], draws[:20].T, color=TRUTH, alpha=0.4, linewidth=0.6)
places = np.argmin(draws, axis=1)
axes[2, 0].plot(grid[places, 0], draws[np.arange(100), places], ".", color=PALETTE[1])
axes[2, 1].set_title("where the minimum may be", fontsize=9)
axes[2, 1].hist(grid[places, 0], np.linspace(0, 10, 41), color=BAND, alpha=0.6)

axes[3, 0].set_title("information on the place of the minimum (nats)", fontsize=9)
es = entropy_search(moments, every, every, 4000, rng, 1e-4)
draw_score(axes[3, 0], np.interp(grid[:, 0], every[:, 0], es), 0, "entropy search")
axes[3, 1].set_title("information on the value of the minimum (nats)", fontsize=9)
minima = draw_minima(m, variance, 100, rng)
draw_score(axes[3, 1], max_value_entropy(m, variance, minima).value, 1, "max-value entropy search")
for axis in (axes[0, 1], axes[1, 0], axes[1, 1]):
    axis.legend(fontsize=7)
plt.show()
