"""
Where to measure next
=====================

Bayesian optimization by hand: `cavity.design` does it, and here is the idea.
Expected improvement weighs what is promising against what is unknown (Jones, Schonlau and Welch, 1998).
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

from cavity import GP
from cavity.kernels import Matern
from cavity.likelihoods import Gaussian


def objective(x):
    """What would be expensive to measure."""
    return -np.sin(3 * x) - 0.15 * x**2 + 0.7 * x


X = np.array([[-0.9], [0.2], [1.1]])
grid = np.linspace(-1, 3, 300)[:, None]
model = GP(1.0 * Matern(0.8, nu=2.5), Gaussian(1e-6))

fig, axes = plt.subplots(
    2, 3, figsize=(10, 4.6), sharex=True, sharey="row", layout="constrained", height_ratios=[2, 1]
)
for above, below in axes.T:
    y = objective(X[:, 0])
    f = model.condition(X, y).predict_f(grid)
    z = (f.mean - y.max()) / f.sd
    improvement = (f.mean - y.max()) * norm.cdf(z) + f.sd * norm.pdf(z)
    best = np.argmax(improvement)
    above.fill_between(grid[:, 0], f.mean - 2 * f.sd, f.mean + 2 * f.sd, color="#0072b2", alpha=0.2, lw=0)
    above.plot(grid, f.mean, color="#0072b2")
    above.plot(grid, objective(grid), "--", color="0.5", lw=1)
    above.plot(X, y, "o", color="black")
    above.set_title(f"{len(X)} measurements", fontsize=10)
    below.plot(grid, improvement, color="#d55e00")
    below.axvline(grid[best, 0], color="0.6", lw=1)
    X = np.vstack([X, grid[best]])
axes[1, 0].set_ylabel("expected improvement")
plt.show()
