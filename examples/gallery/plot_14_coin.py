"""
Bayes' rule for a coin
======================

The oldest example: from a prior over the probability of heads and a few tosses to what is believed afterwards. The
product of prior and likelihood is the posterior up to a constant, and that constant is the evidence of the model.
"""

import matplotlib.pyplot as plt
import numpy as np

from cavity.bayes import Beta

heads, tails = 7, 3
theta = np.linspace(0.001, 0.999, 400)
priors = {"nothing known": Beta(1, 1), "probably fair": Beta(20, 20), "probably two-headed": Beta(9, 1)}

fig, axes = plt.subplots(1, 3, figsize=(9.5, 3), sharey=True, layout="constrained")
for ax, (name, prior) in zip(axes, priors.items()):
    posterior = prior.update(heads, tails)
    ((low, high),) = posterior.highest_density(0.95).intervals
    inside = (theta > low) & (theta < high)
    density = np.exp(posterior.log_prob(theta))
    ax.plot(theta, np.exp(prior.log_prob(theta)), "--", color="0.5", label="prior")
    ax.plot(theta, density, color="#0072b2", label="posterior")
    ax.fill_between(theta[inside], density[inside], color="#0072b2", alpha=0.15, label="95 % region")
    evidence = prior.log_evidence(heads, tails, ordered=True)
    ax.set(title=f"{name}\nlog evidence {evidence:.2f}", xlabel="probability of heads")
    ax.title.set_fontsize(10)
axes[0].legend(frameon=False, fontsize=8)
plt.show()
