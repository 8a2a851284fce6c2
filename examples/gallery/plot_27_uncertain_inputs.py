"""
Inputs that are known with an error
===================================

If the inputs of the data have errors, observations scatter most where the function is steep. A model of constant
noise must choose between steep and flat places; one in which each row has a variance of its own, about the squared slope
times the variance of the input (McHutchon and Rasmussen, 2011), does not have to. What is seen is also blurred: a
step looks less steep than it is. Slopes come from the fit itself, in a few rounds. The step here is steeper than
anything else in the data, which no length scale that is the same everywhere can be right about.
"""

import matplotlib.pyplot as plt
import numpy as np

from cavity import GPRegressor
from cavity.kernels import SE

rng = np.random.default_rng(4)
true = rng.uniform(0, 6, 70)
x = (true + 0.2 * rng.standard_normal(70))[:, None]
y = np.tanh(4 * (true - 3)) + 0.05 * rng.standard_normal(70)
grid = np.linspace(0, 6, 200)[:, None]

fig, axes = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained", sharey=True)
for ax, errors, title in zip(axes, (None, 0.2), ("constant noise", "noise that follows the slope")):
    model = GPRegressor(1.0 * SE(0.8), random_state=0, n_restarts=1).fit(x, y, input_sd=errors)
    mean, sd = model.predict(grid, return_std=True, noise=False)
    ax.fill_between(grid[:, 0], mean - 2 * sd, mean + 2 * sd, color="#0072b2", alpha=0.25, lw=0)
    ax.plot(grid, mean, color="#0072b2", label="predicted, two sd")
    ax.plot(grid, np.tanh(4 * (grid - 3)), "k--", lw=1, label="truth")
    ax.plot(x, y, "o", color="0.2", ms=3)
    ax.set(title=title, xlabel="x, as recorded")
axes[0].legend(frameon=False, fontsize=8)
plt.show()
