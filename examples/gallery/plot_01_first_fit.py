"""
A first fit
===========

Thirty noisy values of a function: what is known about it afterwards, and what is not. The band is wide where there are
no data, because functions that differ there explain the data equally well.
"""

import matplotlib.pyplot as plt
import numpy as np

from cavity import GPRegressor

rng = np.random.default_rng(0)
x = np.concatenate([rng.uniform(0, 4, 18), rng.uniform(6.5, 9, 12)])
y = np.sin(x) + 0.15 * rng.standard_normal(30)

model = GPRegressor(n_restarts=1, random_state=0).fit(x[:, None], y)
print(model.kernel_, model.likelihood_)
print("log evidence", round(model.log_evidence_, 2))

# %%
# The predictive distribution at new inputs, with the noise of a new observation and without it.

grid = np.linspace(-1, 10.5, 300)
observed = model.predict_dist(grid[:, None])
function = model.predict_latent(grid[:, None])

fig, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
ax.fill_between(
    grid, *observed.interval(0.95), color="#0072b2", alpha=0.15, lw=0, label="95 % of new observations"
)
ax.fill_between(
    grid, *function.interval(0.95), color="#0072b2", alpha=0.25, lw=0, label="95 % of the function"
)
ax.plot(grid, observed.mean, color="#0072b2", label="mean")
ax.plot(grid, np.sin(grid), "--", color="0.4", lw=1, label="truth")
ax.plot(x, y, "o", color="black", ms=3.5)
ax.legend(frameon=False, fontsize=8, ncols=4, loc="upper center")
ax.set(xlabel="x", ylabel="y", ylim=(-2.4, 2.8))
plt.show()
