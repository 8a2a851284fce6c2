"""
Outputs that tell about each other
==================================

Two instruments follow one process; the second fails for a while, and has gross errors besides. A model of each
output alone knows nothing inside the gap. A model of both learns how they are correlated, fills the gap from the
first, and gives each output its own noise: normal for the one, Student-t for the other.
"""

import matplotlib.pyplot as plt
import numpy as np

from cavity import CoregionalizedRegressor, GPRegressor

rng = np.random.default_rng(2)
t = np.sort(rng.uniform(0, 10, 70))[:, None]
f = np.sin(t[:, 0]) + 0.4 * np.sin(2.7 * t[:, 0])
g = 20 - 6 * f
Y = np.column_stack([f + 0.1 * rng.standard_normal(70), g + 0.6 * rng.standard_normal(70)])
Y[[5, 52], 1] += [25, -20]
Y[(t[:, 0] > 3.5) & (t[:, 0] < 7), 1] = np.nan
grid = np.linspace(0, 10, 250)[:, None]

both = CoregionalizedRegressor(likelihood=["gaussian", "student-t"], random_state=0).fit(t, Y)
mean, sd = both.predict(grid, return_std=True, noise=False)
seen = ~np.isnan(Y[:, 1])
alone = GPRegressor(likelihood="student-t", random_state=0).fit(t[seen], Y[seen, 1])
own, own_sd = alone.predict(grid, return_std=True, noise=False)

fig, axes = plt.subplots(1, 3, figsize=(12.5, 3.6), layout="constrained")
truth = np.sin(grid[:, 0]) + 0.4 * np.sin(2.7 * grid[:, 0])
panels = (
    (0, mean[:, 0], sd[:, 0], "first output", truth),
    (1, own, own_sd, "second output, alone", 20 - 6 * truth),
    (
        1,
        mean[:, 1],
        sd[:, 1],
        f"second output, with the first (correlation {both.correlations_[0, 1]:.2f})",
        20 - 6 * truth,
    ),
)
for ax, (output, m, s, title, true) in zip(axes, panels):
    ax.fill_between(grid[:, 0], m - 2 * s, m + 2 * s, color="#0072b2", alpha=0.2, lw=0)
    ax.plot(grid, m, color="#0072b2")
    ax.plot(grid, true, "k--", lw=1)
    ax.plot(t, Y[:, output], "o", color="0.2", ms=3)
    ax.set_title(title, fontsize=9)
    ax.set_xlabel("time")
    if output:
        ax.set_ylim(5, 35)
plt.show()
