"""
How much one target may pull
============================

The derivative of the log density of the noise says how strongly a target pulls the function towards itself. Under
Gaussian noise the pull grows with the distance, without limit; under Laplace and epsilon-insensitive noise it is
bounded; under Student-t noise and mixtures it falls again: a gross error is let go (Kuss, 2006, section 5.7).
"""

import matplotlib.pyplot as plt
import numpy as np

from cavity.likelihoods import EpsilonInsensitive, Gaussian, Laplace, MixtureOfGaussians, StudentT

residual = np.linspace(-6, 6, 601)
noise = {
    "Gaussian": Gaussian(1.0),
    "Laplace": Laplace(0.7),
    "epsilon-insensitive": EpsilonInsensitive(0.7, 0.5),
    "Student-t, 3 degrees": StudentT(0.7, 3.0),
    "mixture": MixtureOfGaussians(fraction=0.1, scale=0.7, inflation=5.0),
}
fig, axes = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained")
for name, likelihood in noise.items():
    log_p = likelihood.log_prob(residual, np.zeros_like(residual))
    axes[0].plot(residual, np.exp(log_p), label=name)
    axes[1].plot(residual, -np.gradient(log_p, residual), label=name)
axes[0].set(title="density of the noise", xlabel="target less function")
axes[1].set(title="pull on the function", xlabel="target less function", ylim=(-3.5, 3.5))
axes[0].legend(frameon=False, fontsize=8)
plt.show()
