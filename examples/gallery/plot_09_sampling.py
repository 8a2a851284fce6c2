"""
Hyperparameters, sampled
========================

With few data one best set of hyperparameters is overconfident. Chains draw from their posterior, and predictions
average over the draws (Kuss, 2006, section 4.3).
"""

import matplotlib.pyplot as plt
import numpy as np

from cavity import GPRegressor, Param
from cavity.inference import MCMC
from cavity.kernels import SE
from cavity.parameters.priors import LogNormal

rng = np.random.default_rng(3)
X = rng.uniform(-4, 4, (12, 1))
y = np.sin(X[:, 0]) + 0.2 * rng.standard_normal(12)

kernel = Param(1.0, prior=LogNormal.between(0.1, 10)) * SE(Param(1.0, prior=LogNormal.between(0.3, 10)))
best = GPRegressor(kernel, mean="zero", n_restarts=1, random_state=0).fit(X, y)
rule = MCMC(n_draws=100, warmup=100, chains=4, rng=0, progress=False)
averaged = GPRegressor(kernel, mean="zero", inference=rule, n_restarts=1, random_state=0).fit(X, y)
print(averaged.posterior_.diagnostics().round(2))

# %%
# One set against the average. The chains are short for the sake of a quick picture, and the fit above warns of it.

grid = np.linspace(-7, 7, 200)[:, None]
fig, axes = plt.subplots(1, 2, figsize=(8.5, 3.4), sharey=True, layout="constrained")
for ax, model, title in ((axes[0], best, "one best set"), (axes[1], averaged, "average over draws")):
    prediction = model.predict_dist(grid)
    ax.fill_between(grid[:, 0], *prediction.interval(0.95), color="#0072b2", alpha=0.2, lw=0)
    ax.plot(grid, prediction.mean, color="#0072b2")
    ax.plot(X, y, "o", color="black", ms=4)
    ax.set(title=title, xlabel="x")
plt.show()
