"""
An input that is itself uncertain
=================================

The input is known up to a normal distribution. What is then known of the output is no longer normal; its mean and
variance follow in closed form (Kuss, 2006, section 7.2.1; Girard and others, 2003), and are those of a million draws.
"""

import matplotlib.pyplot as plt
import numpy as np

from cavity import GP
from cavity.kernels import SE
from cavity.likelihoods import Gaussian

rng = np.random.default_rng(0)
X = rng.uniform(-4, 4, (25, 1))
posterior = GP(1.0 * SE(1.0), Gaussian(0.01)).condition(
    X, np.sin(1.5 * X[:, 0]) + 0.1 * rng.standard_normal(25)
)

mean, variance = 0.6, 0.5**2
moments = posterior.predict_gaussian([mean], [variance])
m, v = float(moments.mean.squeeze()), float(moments.covariance.squeeze())
print(moments.method, round(m, 4), round(v, 4))

x = mean + np.sqrt(variance) * rng.standard_normal(200_000)
f = posterior.predict_f(x[:, None])
draws = f.mean + f.sd * rng.standard_normal(len(x))
print("by draws", draws.mean().round(4), draws.var().round(4))

# %%
# Below: the distribution of the input. Left: that of the output, with the normal density of the same moments.

grid = np.linspace(-2, 3.2, 300)
g = posterior.predict_f(grid[:, None])
fig, axes = plt.subplots(
    2,
    2,
    figsize=(7, 5),
    layout="constrained",
    width_ratios=[1, 2.2],
    height_ratios=[2.2, 1],
    sharex="col",
    sharey="row",
)
axes[0, 1].fill_between(grid, g.mean - 2 * g.sd, g.mean + 2 * g.sd, color="#0072b2", alpha=0.2, lw=0)
axes[0, 1].plot(grid, g.mean, color="#0072b2")
axes[0, 0].hist(draws, bins=80, density=True, orientation="horizontal", color="0.75")
at = np.linspace(-1.8, 1.8, 200)
axes[0, 0].plot(np.exp(-0.5 * (at - m) ** 2 / v) / np.sqrt(2 * np.pi * v), at, color="#d55e00")
axes[0, 0].invert_xaxis()
axes[0, 0].set(title="output", ylim=(-1.8, 1.8))
axes[0, 1].set(title="function")
axes[1, 1].fill_between(grid, np.exp(-0.5 * (grid - mean) ** 2 / variance), color="0.75", lw=0)
axes[1, 1].set(xlabel="input", yticks=[])
axes[1, 0].axis("off")
plt.show()
