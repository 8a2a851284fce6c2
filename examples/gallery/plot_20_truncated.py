"""
A Gaussian cut to a region
==========================

Given that a Gaussian vector lies in a polyhedron, what are its mean and covariance, and how probable was that?
Expectation propagation replaces each constraint by a Gaussian site; one constraint is matched exactly, and several
nearly so. The Gaussian reaches beyond the edge, as it must: its moments are those of the part inside.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

from cavity.bayes import Gaussian, truncate

fig, axes = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained")
x = np.linspace(-4, 3, 400)
cut = truncate(Gaussian([0.0], 1.0), high=1.0)
sd = np.sqrt(cut.gaussian.covariance[0, 0])
axes[0].fill_between(x, np.where(x < 1, norm.pdf(x) / norm.cdf(1), 0.0), color="0.85", label="cut at 1")
axes[0].plot(x, norm.pdf(x, cut.gaussian.mean[0], sd), color="#d55e00", label="EP")
beyond = norm.sf(1.0, cut.gaussian.mean[0], sd)
axes[0].set(title=f"one constraint; {beyond:.1%} of the Gaussian lie beyond it")
axes[0].legend(frameon=False, fontsize=8)

gaussian = Gaussian([0.2, -0.1], [[1.0, 0.3], [0.3, 0.5]])
planes, low, high = np.array([[1.0, 1.0], [1.0, -1.0]]), [-1.0, -0.5], [1.0, np.inf]
region = truncate(gaussian, low, high, planes)
draws = gaussian.sample(20_000, rng=0)
inside = np.all((draws @ planes.T > low) & (draws @ planes.T < high), axis=1)
axes[1].plot(*draws[inside][:1500].T, ".", ms=2, color="0.6")
turn = np.linspace(0, 2 * np.pi, 200)
ellipse = region.gaussian.mean[:, None] + region.gaussian.axes(0.9) @ np.stack([np.cos(turn), np.sin(turn)])
axes[1].plot(*ellipse, color="#d55e00")
axes[1].plot(*region.gaussian.mean, "+", color="#d55e00", ms=10)
probability = np.exp(region.log_probability)
axes[1].set(title=f"a wedge: probability {probability:.4f}, of draws {inside.mean():.4f}", aspect="equal")
plt.show()
