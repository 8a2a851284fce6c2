"""
Two optima of the evidence
==========================

With few data there may be two stories: a function that varies quickly with little noise, or a slow one with much. The
evidence then has two maxima, and an optimizer finds the one nearer to its start (Rasmussen and Williams, 2006, figure
5.5). ``runs_`` shows all runs, so that this is seen.
"""

import matplotlib.pyplot as plt
import numpy as np

from cavity import GP, GPRegressor, fixed
from cavity.kernels import SE
from cavity.likelihoods import Gaussian

X = np.array([-5.11, -3.14, -1.73, -1.06, -0.04, 2.3, 3.79])[:, None]
y = np.array([-0.47, -0.22, 0.2, -0.2, -0.41, 0.95, 0.58])

length, noise = np.logspace(-1, 1.9, 50), np.logspace(-1.7, 0.5, 50)
value = np.array(
    [[GP(1.0 * SE(scale), Gaussian(sd**2)).evidence(X, y)[0] for scale in length] for sd in noise]
)

model = GPRegressor(fixed(1.0) * SE(1.0), mean="zero", n_restarts=5, random_state=0).fit(X, y)
ends = {(round(float(run.value), 2)) for run in model.runs_}
print("log evidences reached:", sorted(ends, reverse=True))

# %%
# The evidence over length scale and noise, and the two fits that its maxima stand for.

fig, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
levels = value.max() - np.array([12, 6, 4, 3, 2, 1.5, 1, 0.6, 0.3, 0.1, -0.01])
axes[0].contourf(length, noise, value, levels=levels, cmap="Blues", extend="min")
axes[0].set(xscale="log", yscale="log", xlabel="length scale", ylabel="noise sd", title="log evidence")
peaks = [
    (i, j)
    for i in range(1, 49)
    for j in range(1, 49)
    if value[i, j] == value[i - 1 : i + 2, j - 1 : j + 2].max()
]
grid = np.linspace(-7.5, 7.5, 200)[:, None]
for (i, j), color, style in zip(peaks, ("#d55e00", "#009e73", "#cc79a7"), ("-", "--", ":")):
    axes[0].plot(length[j], noise[i], "P", color=color, ms=10, mec="white")
    f = GP(1.0 * SE(length[j]), Gaussian(noise[i] ** 2)).condition(X, y).predict_f(grid)
    axes[1].plot(grid, f.mean, style, color=color, label=f"length {length[j]:.2g}, noise {noise[i]:.2g}")
    axes[1].fill_between(grid[:, 0], f.mean - 2 * f.sd, f.mean + 2 * f.sd, color=color, alpha=0.12, lw=0)
axes[1].plot(X, y, "o", color="black")
axes[1].legend(frameon=False, fontsize=8)
axes[1].set(title="what the maxima stand for", xlabel="x")
plt.show()
