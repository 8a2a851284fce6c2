"""
Confidence is not precision
===========================

Two bubbles rise from a submarine of length ten, anywhere along it: two numbers drawn uniformly between theta - 5 and
theta + 5. Four ways to give an interval for its middle theta all hold it in half of all cases (they are 50 % confidence
procedures), and disagree altogether about what one pair of bubbles says (Morey and others, 2016).

If the bubbles are nearly ten apart, theta is known almost exactly: the posterior is uniform on a short interval.
The procedure that ignores the distance d still gives a wide interval, and the one that takes the distance itself
gives its *widest* interval just there. Half of the posterior is what the Bayesian interval holds, for every d.

Coverage alone says next to nothing. Toss a coin: heads, and the interval is the whole line; tails, and it is empty.
That too holds the truth in half of all cases, and nobody would bet even money on either answer (the fundamental
confidence fallacy).
"""

import matplotlib.pyplot as plt
import numpy as np

rng = np.random.default_rng(0)
theta = 0.0
x = rng.uniform(theta - 5, theta + 5, (200_000, 2))
middle, d = x.mean(axis=1), np.abs(x[:, 0] - x[:, 1])
halves = {
    "of the mean": lambda d: np.full_like(d, 5 - 5 / np.sqrt(2)),
    "of the order statistics": lambda d: d / 2,
    "most powerful": lambda d: np.where(d < 5, d / 2, 5 - d / 2),
    "Bayesian": lambda d: (5 - d / 2) / 2,
}

grid = np.linspace(0, 10, 300)[1:-1]
fig, axes = plt.subplots(1, 2, figsize=(9.5, 3.4), layout="constrained")
for name, half in halves.items():
    coverage = np.mean(np.abs(middle - theta) < half(d))
    held = np.minimum(half(grid) / (5 - grid / 2), 1.0)  # the posterior is uniform on middle +/- (5 - d/2)
    axes[0].plot(grid, 2 * half(grid), label=f"{name}: covers {coverage:.3f}")
    axes[1].plot(grid, held)
axes[0].set(xlabel="distance of the bubbles", ylabel="width of the 50 % interval")
axes[0].legend(frameon=False, fontsize=8)
axes[1].set(xlabel="distance of the bubbles", ylabel="posterior probability it holds", ylim=(0, 1.05))
whole_line = rng.random(len(x)) < 0.5  # a coin, which has seen no data
print(f"the coin covers {np.mean(whole_line):.3f}; given heads {1.0:.0f}, given tails {0.0:.0f}")
plt.show()
