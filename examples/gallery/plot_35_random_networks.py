"""
From networks to processes
==========================

A network with random weights is a random function: the sum of its hidden units tends to a Gaussian process as their
number grows (Neal, 1996; Williams, 1998). With error functions for units the covariance of the limit is known, the
kernel :class:`~cavity.kernels.NeuralNetwork`. Left: how normal the output at one place is, for few and for many
units. Right: its correlation with the output elsewhere, averaged over networks, against the kernel.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import erf
from scipy.stats import norm

from cavity.kernels import NeuralNetwork

rng = np.random.default_rng(0)
grid = np.linspace(-3, 3, 61)
kernel = NeuralNetwork(4.0, 4.0)  # prior variances of the units' slopes and offsets
inputs = np.column_stack([np.ones(61), grid])


def outputs(units, networks):
    """Of random networks at the grid, scaled so that their variance does not depend on the number of units."""
    u = 2.0 * rng.standard_normal((networks, units, 2))
    return np.einsum("nh,nhx->nx", rng.standard_normal((networks, units)), erf(u @ inputs.T)) / np.sqrt(units)


fig, axes = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained")
z = np.linspace(-4, 4, 81)
for units, color in ((1, "#d55e00"), (3, "#009e73"), (30, "#0072b2")):
    f = outputs(units, 4000)
    share = f[:, 40] / f[:, 40].std()
    axes[0].hist(share, bins=z, density=True, histtype="step", color=color, label=f"{units} units")
axes[0].plot(z, norm.pdf(z), color="k", lw=1, label="normal")
axes[0].set(title="output at x = 1, standardized")
axes[0].legend(frameon=False, fontsize=8)

correlation = np.corrcoef(f.T)[40]
K = kernel(grid[:, None])
axes[1].plot(grid, correlation, ".", color="#0072b2", label="4000 networks of 30 units")
axes[1].plot(grid, K[40] / np.sqrt(K[40, 40] * np.diag(K)), color="k", lw=1, label="kernel")
axes[1].set(title="correlation with the output at x = 1", xlabel="x")
axes[1].legend(frameon=False, fontsize=8)
plt.show()
