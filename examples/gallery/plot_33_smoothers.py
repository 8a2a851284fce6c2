"""
A Gaussian process as a smoother
================================

The posterior mean is a weighted average of the targets. Left: the weights at one place, beside those of a kernel
smoother (Nadaraya and Watson), which are positive and follow the kernel, whatever the number of points; those of the
process have negative lobes and become narrower as data come. Middle: for many evenly spread points they tend to the
equivalent kernel, a filter. Right: what the smoothers make of the same data.
"""

import matplotlib.pyplot as plt
import numpy as np

from cavity import GP
from cavity.kernels import SE
from cavity.likelihoods import Gaussian
from cavity.theory import equivalent_kernel, step_approximation

length, noise = np.sqrt(0.004), 0.1
kernel = SE(length)
rng = np.random.default_rng(1)
x = np.sort(rng.uniform(size=50))[:, None]
y = np.sin(9 * x[:, 0]) + np.sqrt(noise) * rng.standard_normal(50)
process = GP(kernel, Gaussian(noise)).condition(x, y)


def nadaraya_watson(at):
    weights = kernel(at, x)
    return weights / weights.sum(axis=1, keepdims=True)


fig, axes = plt.subplots(1, 3, figsize=(12.5, 3.4), layout="constrained")
at = np.array([[0.5]])
weights = np.linalg.solve(kernel(x) + noise * np.eye(50), kernel(x, at))[:, 0]
axes[0].axhline(0.0, color="0.8", lw=0.8)
axes[0].plot(x, weights, ".-", color="#0072b2", lw=0.8, label="process")
axes[0].plot(x, nadaraya_watson(at)[0], ".-", color="#d55e00", lw=0.8, label="kernel smoother")
axes[0].set(title="weights of 50 targets at x = 0.5", xlabel="x")
axes[0].legend(frameon=False, fontsize=8)

r = np.linspace(-0.3, 0.3, 241)
for n, color in ((10, "#009e73"), (50, "#0072b2"), (250, "#cc79a7")):
    axes[1].plot(r, equivalent_kernel(kernel, noise, n, np.abs(r)), color=color, label=f"{n} points")
axes[1].plot(r, step_approximation(kernel, noise, 250, r), ":", color="#cc79a7", label="250, step filter")
axes[1].set(title="equivalent kernels", xlabel="distance")
axes[1].legend(frameon=False, fontsize=8)

grid = np.linspace(0, 1, 300)[:, None]
axes[2].plot(x, y, "+", color="0.5")
axes[2].plot(grid, np.sin(9 * grid), color="0.7", label="truth")
axes[2].plot(grid, process.mean(grid), color="#0072b2", label="process")
axes[2].plot(grid, nadaraya_watson(grid) @ y, color="#d55e00", label="kernel smoother")
axes[2].set(title="the same kernel width", xlabel="x")
axes[2].legend(frameon=False, fontsize=8)
plt.show()
