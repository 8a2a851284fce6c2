"""
Logistic regression and Laplace's method
========================================

The posterior of two weights is not Gaussian, but nearly so. Laplace's method puts a Gaussian at its mode; predictions
averaged over it are less certain than those of the best weights, and never change sides ("moderation"). Whether
the Gaussian is good enough is checked by weighting draws of it: k-hat below 0.7 says that it covers the posterior.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit, log_expit

from cavity.bayes import BayesianLogisticRegression, laplace

x = np.array([-2, -1, -0.5, 0.5, 1, 2.0])
labels = np.array([0, 0, 1, 0, 1, 1])
Z, sign = np.column_stack([np.ones(6), x]), 2 * labels - 1


def log_posterior(w):
    return float(np.sum(log_expit(sign * (Z @ w))) - w @ w / 8 - np.log(8 * np.pi))


found = laplace(log_posterior, [0.0, 0.0])
print(
    f"log evidence {found.log_integral:.3f}, by weighted draws {found.log_integral_by_weights:.3f} (exact -4.529)"
)
print(found.message)

b, w = np.meshgrid(np.linspace(-4, 4, 161), np.linspace(-2.5, 6, 161))
exact = np.array([log_posterior(np.array(p)) for p in zip(b.ravel(), w.ravel())]).reshape(b.shape)
gaussian = found.gaussian.log_prob(np.column_stack([b.ravel(), w.ravel()])).reshape(b.shape)
model = BayesianLogisticRegression(2.0, 2.0).fit(x[:, None], labels)
new = np.linspace(-6, 6, 200)

fig, axes = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained")
levels = np.array([-6.0, -3.0, -1.0, -0.3])
axes[0].contour(b, w, exact - exact.max(), levels, colors="0.3", linestyles="-")
axes[0].contour(b, w, gaussian - gaussian.max(), levels, colors="#d55e00", linestyles="--")
axes[0].set(xlabel="intercept", ylabel="weight", title="posterior, and Laplace's Gaussian (dashed)")
axes[1].plot(new, expit(model.decision_function(new[:, None])), "--", color="0.5", label="best weights")
axes[1].plot(new, model.predict_proba(new[:, None])[:, 1], color="#0072b2", label="averaged over weights")
axes[1].plot(x, labels, "k.", ms=8)
axes[1].set(xlabel="x", ylabel="probability of class 1")
axes[1].legend(frameon=False, fontsize=8)
plt.show()
