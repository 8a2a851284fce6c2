"""
Two explanations at once
========================

Either arc may be the function and the other one the outliers: the posterior has two modes. Expectation propagation
matches moments and covers both; a variational approximation chooses one, and where it started decides which (Kuss,
2006, figures 5.3 to 5.12).
"""

import matplotlib.pyplot as plt
import numpy as np

from cavity import GP
from cavity.datasets import make_two_arcs
from cavity.inference import BestBound, Sites
from cavity.kernels import SE
from cavity.likelihoods import StudentT

data = make_two_arcs(rng=0)
model = GP(1.0 * SE(1.5), StudentT(0.3, 2.0))
narrow = StudentT(0.2, 2.0)


def trusting(arc):
    """What a variational rule would remember of a fit that trusts one arc."""
    precision = np.where(data.extra["arc"] == -arc, 1e-3, 10.0)
    return BestBound(-np.inf, Sites(precision * data.y, precision))


fits = {
    "EP": GP(1.0 * SE(1.5), StudentT(0.3, 2.0), inference="ep").condition(data.X, data.y),
    "variational, from above": GP(1.0 * SE(1.5), narrow, inference="variational").condition(
        data.X, data.y, warm=trusting(1)
    ),
    "variational, from below": GP(1.0 * SE(1.5), narrow, inference="variational").condition(
        data.X, data.y, warm=trusting(-1)
    ),
}

# %%
# The functions and two standard deviations.

grid = np.linspace(-5.5, 5.5, 200)[:, None]
fig, axes = plt.subplots(1, 3, figsize=(10, 3.2), sharey=True, layout="constrained")
for ax, (name, posterior) in zip(axes, fits.items()):
    f = posterior.predict_f(grid)
    ax.fill_between(grid[:, 0], f.mean - 2 * f.sd, f.mean + 2 * f.sd, color="#0072b2", alpha=0.2, lw=0)
    ax.plot(grid, f.mean, color="#0072b2")
    ax.plot(data.X, data.y, "o", color="black", ms=3.5)
    ax.set_title(f"{name} ({posterior.status.stage})", fontsize=10)
axes[0].set_ylim(-2, 2)
plt.show()
