"""
An average of two models
========================

A function that is smooth in its left half and jumps in its right one. As a rough function everything is uncertain, as a
smooth one with heavy-tailed noise the jumps are missed. Neither model is right, and neither is so much better that the
other should be thrown away: ``StackedRegressor`` mixes their predictive distributions, with the weights that give rows
the highest density when they are left out.
"""

import matplotlib.pyplot as plt
import numpy as np

from cavity import GPRegressor, StackedRegressor


def measured(x, rng):
    """Targets with a little noise."""
    return np.sin(x) + np.where(x < 5, 0.0, np.sign(np.sin(4 * x))) + 0.1 * rng.standard_normal(len(x))


rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0, 10, 80))
y = measured(x, rng)
average = StackedRegressor(
    [
        ("rough", GPRegressor("1.0 * Matern(1.0, 0.5)", n_restarts=0, random_state=0)),
        ("heavy-tailed", GPRegressor("1.0 * SE(1.0)", likelihood="laplace", n_restarts=0, random_state=0)),
    ]
).fit(x[:, None], y)
print(average.comparison_.round(2))

# %%
# Bands hold 90 %. The numbers above the panels are mean log densities of a thousand new rows: the average was fitted to
# left-out rows, and is better on new ones too.

new = np.sort(rng.uniform(0, 10, 1000))
targets = measured(new, rng)
models = {**average.named_estimators_, "average": average}
fig, axes = plt.subplots(3, 1, figsize=(8, 6.6), sharex=True, sharey=True, layout="constrained")
for ax, (name, model), color in zip(axes, models.items(), ("#0072b2", "#d55e00", "#009e73")):
    prediction = model.predict_dist(new[:, None])
    low, high = prediction.interval(0.9)
    ax.fill_between(new, low, high, color=color, alpha=0.2, lw=0)
    ax.plot(new, prediction.mean, color=color, lw=1.5)
    ax.plot(x, y, ".", color="black", ms=4)
    ax.set(title=f"{name}: {prediction.log_prob(targets).mean():.2f} nats a row", ylabel="y")
axes[-1].set(xlabel="x")
plt.show()
