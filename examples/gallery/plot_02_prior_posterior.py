"""
From prior to posterior
=======================

A Gaussian process is a distribution over functions. Left: draws before any data; right: draws from what remains once
four values are known (Rasmussen and Williams, 2006, figure 2.2).
"""

import matplotlib.pyplot as plt
import numpy as np

from cavity import GP
from cavity.kernels import SE
from cavity.likelihoods import Gaussian

model = GP(1.0 * SE(1.0), Gaussian(1e-4))
grid = np.linspace(-5, 5, 200)[:, None]
X, y = np.array([[-4.0], [-3.0], [-1.0], [2.0]]), np.array([-1.2, 0.0, 1.0, -0.4])
posterior = model.condition(X, y)

before = model.sample_prior(grid, size=4, rng=1)
after = posterior.sample(grid, size=4, rng=1)
f = posterior.predict_f(grid)

# %%
# The band is two standard deviations of the function on either side of the mean.

fig, axes = plt.subplots(1, 2, figsize=(8, 3.4), sharey=True, layout="constrained")
for ax, mean, sd, draws, title in (
    (axes[0], np.zeros(200), np.ones(200), before, "prior"),
    (axes[1], f.mean, f.sd, after, "posterior"),
):
    ax.fill_between(grid[:, 0], mean - 2 * sd, mean + 2 * sd, color="0.85", lw=0)
    for draw, style in zip(draws, ("-", "--", "-.", ":")):
        ax.plot(grid[:, 0], draw, style, lw=1.3)
    ax.set(title=title, xlabel="x")
axes[0].set_ylabel("f(x)")
axes[1].plot(X, y, "P", color="black", ms=7)
plt.show()
