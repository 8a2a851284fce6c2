"""
Laplace's method and EP on labels
=================================

Sixty labels in three clusters (Kuss, 2006, section 6.3.1). The posterior of a latent value is skewed: its mode lies
nearer to zero than its mean. Laplace's method takes the mode, so that its probabilities are too cautious; EP
matches the mean (Kuss and Rasmussen, 2005).
"""

import matplotlib.pyplot as plt
import numpy as np

from cavity import GP
from cavity.datasets import make_clusters_1d
from cavity.kernels import SE
from cavity.likelihoods import Probit

data = make_clusters_1d(rng=0)
grid = np.linspace(-9, 5, 250)[:, None]

fig, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
for rule, color, style in (("laplace", "#d55e00", "--"), ("ep", "#0072b2", "-")):
    posterior = GP(50.0 * SE(2.0), Probit(), inference=rule).condition(data.X, data.y)
    f = posterior.predict_f(grid)
    axes[0].fill_between(grid[:, 0], f.mean - 2 * f.sd, f.mean + 2 * f.sd, color=color, alpha=0.15, lw=0)
    axes[0].plot(grid, f.mean, style, color=color, label=f"{rule}: log evidence {posterior.log_evidence:.1f}")
    axes[1].plot(grid, posterior.predict_y(grid).mean, style, color=color, label=rule)
axes[0].axhline(0, color="0.6", lw=0.8)
axes[0].set(title="latent function", xlabel="x")
axes[1].set(title="mean of the label, between -1 and 1", xlabel="x")
axes[1].plot(data.X, data.y, "|", color="black", ms=9)
axes[0].legend(frameon=False, fontsize=8)
plt.show()
