"""
Occam's razor
=============

Is a coin fair? The model "fair" can say one thing only; the model "any probability" can explain any number of
heads, and therefore expects each of them little. The evidence weighs both: near one half the simpler model wins,
without a penalty that anybody had to choose. The classical test asks another question, and rejects fairness at 115
heads of 200, where the odds are still slightly in its favor.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import binom

from cavity.bayes import Beta, binomial_test, compare_models

n = 200
heads = np.arange(n + 1)
fair = binom(n, 0.5).pmf(heads)
free = np.exp(Beta(1, 1).log_evidence(heads, n - heads))

fig, axes = plt.subplots(1, 2, figsize=(9.5, 3.4), layout="constrained")
axes[0].plot(heads, fair, label="fair")
axes[0].plot(heads, free, label="any probability")
axes[0].axvline(115, color="0.6", lw=0.8)
axes[0].set(xlim=(50, 150), xlabel="heads of 200", ylabel="evidence")
axes[0].legend(frameon=False, fontsize=8)
shown = np.arange(80, 121)
probability = [
    compare_models({"fair": np.log(fair[x]), "any": np.log(free[x])}).weights["fair"] for x in shown
]
p_value = [binomial_test(int(x), n).two_sided for x in shown]
axes[1].plot(shown, probability, label="P(fair | heads)")
axes[1].plot(shown, p_value, "--", label="two-sided p-value")
axes[1].axhline(0.05, color="0.6", lw=0.8)
axes[1].axvline(115, color="0.6", lw=0.8)
axes[1].set(xlabel="heads of 200", ylim=(0, 1.02))
axes[1].legend(frameon=False, fontsize=8)
plt.show()

print(binomial_test(115, n, within=0.05))
