r"""
An integral with its error
==========================

Integrating a function known at a few points is inference too: the integral of a Gaussian process is normal. The
variance is only as honest as the kernel. A squared exponential takes smoothness on trust, and its error bars may be
far too short; a Matern kernel promises less. Shown: the average of a function with a corner, \|x - 0.37\|, over [0,
1] as points are added.
"""

import matplotlib.pyplot as plt
import numpy as np

from cavity import GP
from cavity.integrals import BoxMeasure
from cavity.kernels import SE, Matern
from cavity.likelihoods import Gaussian


def f(x):
    """The integrand."""
    return np.abs(x - 0.37)


truth = (0.37**2 + 0.63**2) / 2
counts = np.arange(2, 8)
fig, axes = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained")
for place, (kernel, label, color) in enumerate(
    ((1.0 * SE(0.5), "squared exponential", "#0072b2"), (1.0 * Matern(0.8, nu=1.5), "Matern 3/2", "#d55e00"))
):
    found = []
    for n in counts:
        x = (np.arange(n) + 0.5) / n
        posterior = GP(kernel, Gaussian(1e-8)).condition(x[:, None], f(x))
        found.append(posterior.integrate(BoxMeasure([0.0], [1.0])))
    mean, sd = (np.array([getattr(one, name)[0] for one in found]) for name in ("mean", "sd"))
    axes[0].errorbar(counts + 0.15 * place, mean, 2 * sd, fmt="o", color=color, label=label, ms=4, capsize=2)
    axes[1].semilogy(counts, np.abs(mean - truth), "o-", color=color, label=f"error, {label}", ms=4)
    axes[1].semilogy(counts, 2 * sd, "--", color=color, label="two sd")
axes[0].axhline(truth, color="k", lw=1)
axes[0].set(xlabel="points", title="the integral, two sd")
axes[0].legend(frameon=False, fontsize=8)
axes[1].set(xlabel="points", title="true error and claimed error")
axes[1].legend(frameon=False, fontsize=8)
plt.show()
