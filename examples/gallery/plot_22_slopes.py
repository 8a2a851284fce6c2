"""
Slopes as observations
======================

A derivative of a Gaussian process is a Gaussian process too: covariances of slopes are derivatives of the kernel.
So a slope is an observation like any other, here with noise of its own that is learned. With slopes, five points
are enough to see how the function bends between them, and the slope of the fit is predicted with its error.
"""

import matplotlib.pyplot as plt
import numpy as np

from cavity import GPRegressor, fixed
from cavity.kernels import SE
from cavity.likelihoods import Gaussian

rng = np.random.default_rng(0)
x = np.array([[-2.4], [-1.3], [-0.1], [1.2], [2.5]])
f, slope = np.sin(1.7 * x[:, 0]), 1.7 * np.cos(1.7 * x[:, 0])
y, dy = f + 0.03 * rng.standard_normal(5), slope + 0.1 * rng.standard_normal(5)
grid = np.linspace(-3.2, 3.2, 200)[:, None]

fig, axes = plt.subplots(1, 3, figsize=(12.5, 3.6), layout="constrained")
for ax, given, title in zip(axes, ({}, {"slopes": (x, dy)}), ("values alone", "values and slopes")):
    model = GPRegressor(1.0 * SE(1.0), likelihood=Gaussian(fixed(0.03**2)), random_state=0).fit(x, y, **given)
    mean, sd = model.predict(grid, return_std=True, noise=False)
    ax.fill_between(grid[:, 0], mean - 2 * sd, mean + 2 * sd, color="#0072b2", alpha=0.2, lw=0)
    ax.plot(grid, mean, color="#0072b2", label="predicted, two sd")
    ax.plot(grid, np.sin(1.7 * grid), "k--", lw=1, label="truth")
    ax.plot(x, y, "o", color="0.2")
    ax.set(title=title, ylim=(-2.6, 2.6), xlabel="x")
for where, value, rise in zip(x[:, 0], y, dy):
    axes[1].plot(where + np.array([-0.3, 0.3]), value + rise * np.array([-0.3, 0.3]), color="#d55e00", lw=2)
axes[0].legend(frameon=False, fontsize=8, loc="upper left")
found = model.predict_slope(grid)
mean, sd = found.mean[:, 0], found.sd[:, 0]
axes[2].fill_between(grid[:, 0], mean - 2 * sd, mean + 2 * sd, color="#d55e00", alpha=0.2, lw=0)
axes[2].plot(grid, mean, color="#d55e00")
axes[2].plot(grid, 1.7 * np.cos(1.7 * grid), "k--", lw=1)
axes[2].plot(x, dy, "o", color="0.2")
axes[2].set(title="the slope, predicted", xlabel="x")
plt.show()
