"""
Support vectors as most probable functions
==========================================

Support vector regression minimizes :math:`\\frac{1}{2} f'K^{-1}f + C\\sum_i \\max(|y_i - f_i| - \\epsilon, 0)`.
That is minus a log posterior: of a Gaussian process whose noise is flat within :math:`\\epsilon` and falls off
exponentially outside, with :math:`C` one over its scale. The machine finds the most probable function; the process also
says how far to trust it. Both have the same covariance here, and a free constant.

The classifier has no such reading. Its hinge loss, taken as minus a log probability of a label, gives two probabilities
that do not add up to one (Sollich, 2002): they fall short of it between the margins and beyond them, as if the
labels of some cases were withheld.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import log_expit, log_ndtr
from sklearn.svm import SVR

from cavity import GP
from cavity.kernels import SE, Constant
from cavity.likelihoods import EpsilonInsensitive

rng = np.random.default_rng(3)
x = np.sort(rng.uniform(-3, 3, 30))[:, None]
y = np.sin(2 * x[:, 0]) + 0.15 * rng.standard_normal(30)
y[[6, 20]] += [1.5, -1.5]
grid = np.linspace(-3.5, 3.5, 300)[:, None]

fig, axes = plt.subplots(1, 3, figsize=(12.5, 3.6), layout="constrained")
z = np.linspace(-3, 3, 300)
axes[0].plot(z, np.maximum(1 - z, 0), color="k", label="hinge")
axes[0].plot(z, -log_expit(z), color="#0072b2", label="logistic")
axes[0].plot(z, -log_ndtr(z), color="#d55e00", label="probit")
axes[0].set(xlabel="label times f", title="minus log probability of a label", ylim=(-0.2, 5))
axes[0].legend(frameon=False, fontsize=8)
for C, style in ((1.0, "-"), (4.0, "--")):
    total = (np.exp(-C * np.maximum(1 - z, 0)) + np.exp(-C * np.maximum(1 + z, 0))) / (1 + np.exp(-2 * C))
    axes[1].plot(z, total, style, color="k", label=f"hinge, C = {C:g}")
axes[1].axhline(1.0, color="#0072b2", label="logistic, probit")
axes[1].set(xlabel="f", title="probabilities of both labels, added", ylim=(0, 1.1))
axes[1].legend(frameon=False, fontsize=8)

kernel, scale, epsilon = SE(0.7), 0.15, 0.1
machine = SVR(C=1 / scale, epsilon=epsilon, kernel="precomputed", tol=1e-8).fit(kernel(x), y)
process = GP(kernel + Constant(100.0), EpsilonInsensitive(scale, epsilon), inference="ep").condition(x, y)
f = process.predict_f(grid)
low, high = f.interval(0.95)
axes[2].fill_between(grid[:, 0], low, high, color="#0072b2", alpha=0.2, lw=0)
axes[2].plot(grid, f.mean, color="#0072b2", label="process by EP, 95 %")
axes[2].plot(grid, machine.predict(kernel(grid, x)), "k--", lw=1, label="support vectors")
axes[2].plot(x, y, "+", color="0.3")
axes[2].plot(x[machine.support_], y[machine.support_], "o", mfc="none", color="0.3", ms=7)
axes[2].set(title=f"equal covariances; {len(machine.support_)} of 30 support")
axes[2].legend(frameon=False, fontsize=8)
plt.show()
