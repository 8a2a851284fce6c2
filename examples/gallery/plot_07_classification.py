"""
Classes, doubt, and the right to decline
========================================

Probabilities of two classes in the plane, the decision boundary, and the cases that are better shown to somebody: where
the larger probability is below 0.9, ``reject=0.1`` declines (Chow, 1970; Rasmussen and Williams, 2006, section 3.1).
"""

import matplotlib.pyplot as plt
import numpy as np

from cavity import GPClassifier

rng = np.random.default_rng(2)
angle = rng.uniform(0, np.pi, 80)
X = np.concatenate(
    [
        np.column_stack([np.cos(angle[:40]), np.sin(angle[:40])]),
        np.column_stack([1 - np.cos(angle[40:]), 0.4 - np.sin(angle[40:])]),
    ]
) + 0.25 * rng.standard_normal((80, 2))
y = np.repeat(["upper", "lower"], 40)

model = GPClassifier(n_restarts=0, random_state=0).fit(X, y)
print(model.kernel_, "log evidence", round(model.log_evidence_, 1))

# %%
# Hatched: declined. Far from all data the probability returns to one half.

u, v = np.meshgrid(np.linspace(-3, 4, 90), np.linspace(-2.5, 3, 80))
points = np.column_stack([u.ravel(), v.ravel()])
p = model.predict_proba(points)[:, list(model.classes_).index("upper")].reshape(u.shape)

fig, ax = plt.subplots(figsize=(7, 4.6), layout="constrained")
shades = ax.contourf(u, v, p, levels=np.linspace(0, 1, 11), cmap="PuOr_r")
ax.contour(u, v, p, levels=[0.5], colors="black")
ax.contourf(u, v, p, levels=[0.1, 0.9], colors="none", hatches=["//"])
for name, mark in (("upper", "^"), ("lower", "o")):
    ax.plot(*X[y == name].T, mark, color="black", mfc="white", ms=5, label=name)
ax.legend()
fig.colorbar(shades, label="probability of upper")
plt.show()

# %%
# The more is declined, the fewer errors remain among the decisions.

curve = model.error_reject_curve(X, y)
print(curve.rejected[:3], curve.error[:3])
