"""
A sum of kernels, taken apart
=============================

A kernel that is a sum says that the function is one. After the fit each term has a posterior of its own: here a slow
trend and a season, from a series in which nobody has seen either by itself.
"""

import matplotlib.pyplot as plt
import numpy as np

from cavity import GPRegressor, fixed
from cavity.kernels import SE, Periodic

rng = np.random.default_rng(1)
year = np.linspace(2000, 2010, 120)
trend, season = 0.04 * (year - 2004) ** 2, 0.6 * np.sin(2 * np.pi * year)
y = trend + season + 0.15 * rng.standard_normal(len(year))

kernel = 1.0 * SE(5.0) + 1.0 * Periodic(SE(1.0), period=fixed(1.0))
model = GPRegressor(kernel, n_restarts=1, random_state=0).fit(year[:, None], y)
print(model.kernel_)

# %%
# ``component_mean`` takes a term of the learned kernel.

grid = np.linspace(2000, 2010, 400)[:, None]
parts = [model.posterior_.process.component_mean(term, grid) for term in model.kernel_.terms]

fig, axes = plt.subplots(3, 1, figsize=(7, 5.4), sharex=True, layout="constrained")
axes[0].plot(year, y, ".", color="black")
axes[0].plot(grid, model.predict(grid), color="#0072b2")
for ax, part, truth in zip(axes[1:], parts, (trend, season)):
    ax.plot(grid, part, color="#0072b2", label="found")
    ax.plot(
        year,
        truth - truth.mean() + part.mean(),
        "--",
        color="#d55e00",
        lw=1.2,
        label="truth, shifted to the same mean",
    )
axes[1].legend(frameon=False, fontsize=8)
for ax, title in zip(axes, ("data and fit", "trend", "season")):
    ax.set_title(title, fontsize=10)
plt.show()
