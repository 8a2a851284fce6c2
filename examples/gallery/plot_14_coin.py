"""
Bayes' rule for a coin
======================

The oldest example: from a prior over the probability of heads and a few tosses to what is believed afterwards. The
product of prior and likelihood is the posterior up to a constant, and that constant is the evidence of the model.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import betaln
from scipy.stats import beta

heads, tails = 7, 3
theta = np.linspace(0, 1, 400)
priors = {"nothing known": (1, 1), "probably fair": (20, 20), "probably two-headed": (9, 1)}

fig, axes = plt.subplots(1, 3, figsize=(9.5, 3), sharey=True, layout="constrained")
for ax, (name, (a, b)) in zip(axes, priors.items()):
    log_evidence = betaln(a + heads, b + tails) - betaln(a, b)
    ax.plot(theta, beta.pdf(theta, a, b), "--", color="0.5", label="prior")
    ax.plot(theta, beta.pdf(theta, a + heads, b + tails), color="#0072b2", label="posterior")
    ax.set(title=f"{name}\nlog evidence {log_evidence:.2f}", xlabel="probability of heads")
    ax.title.set_fontsize(10)
axes[0].legend(frameon=False, fontsize=8)
plt.show()
