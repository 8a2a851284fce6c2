"""
Functions that only rise
========================

That a dose never does less than a smaller one is knowledge about signs of slopes. Each sign is an observation of a
label, with a probit likelihood, beside values with normal noise (Riihimaki and Vehtari, 2010): one model with two
likelihoods, by expectation propagation. Where data are noisy and few, the plain fit turns down; with signs at a
dozen places it does not.
"""

import matplotlib.pyplot as plt
import numpy as np

from cavity import GPRegressor
from cavity.kernels import SE
from cavity.likelihoods import Gaussian

rng = np.random.default_rng(1)
dose = rng.uniform(0, 5, (14, 1))
effect = dose[:, 0] ** 2 / (4 + dose[:, 0] ** 2) + 0.12 * rng.standard_normal(14)
grid = np.linspace(0, 5, 150)[:, None]
signs = (np.linspace(0, 5, 12)[:, None], 0, 1)

fig, axes = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained", sharey=True)
options = {"kernel": 0.5 * SE(0.9), "mean": "zero", "objective": None}
for ax, given, title in zip(axes, ({}, {"slope_signs": signs}), ("without signs", "with signs of slopes")):
    model = GPRegressor(**options, likelihood=Gaussian(0.12**2)).fit(dose, effect, **given)
    mean, sd = model.predict(grid, return_std=True, noise=False)
    ax.fill_between(grid[:, 0], mean - 2 * sd, mean + 2 * sd, color="#0072b2", alpha=0.2, lw=0)
    ax.plot(grid, mean, color="#0072b2")
    ax.plot(grid, grid**2 / (4 + grid**2), "k--", lw=1)
    ax.plot(dose, effect, "o", color="0.2", ms=4)
    ax.set(title=title, xlabel="dose")
axes[0].set_ylabel("effect")
plt.show()
