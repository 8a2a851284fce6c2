"""
Strings, and the length that matters
====================================

Half of these strings hold the letters "abc" somewhere. The kernel counts shared substrings of each length, with a
variance for each length that is learned by the evidence: it finds that three letters matter, and neither single
letters nor pairs. Nobody had to say so.
"""

import matplotlib.pyplot as plt
import numpy as np

from cavity import GPClassifier
from cavity.kernels import Substrings, encode


def strings(n, rng):
    """Every second string holds the motif."""
    found = []
    while len(found) < n:
        text, wanted = "".join(rng.choice(list("abcd"), 20)), len(found) % 2 == 1
        if wanted and "abc" not in text:
            place = rng.integers(0, 18)
            text = text[:place] + "abc" + text[place + 3 :]
        if ("abc" in text) == wanted:
            found.append(text)
    return found, np.arange(n) % 2


rng = np.random.default_rng(0)
texts, labels = strings(80, rng)
new, truth = strings(300, rng)
model = GPClassifier(Substrings([1.0, 1.0, 1.0, 1.0]), random_state=0, n_restarts=0).fit(
    encode(texts), labels
)
probability = model.predict_proba(encode(new))[:, 1]

fig, axes = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained")
weights = model.kernel_.weights
axes[0].bar([1, 2, 3, 4], weights / weights.sum(), color="#0072b2")
axes[0].set(xlabel="length of substrings", ylabel="share of the variance", xticks=[1, 2, 3, 4])
bins = np.linspace(0, 1, 21)
axes[1].hist(probability[truth == 1], bins, color="#d55e00", alpha=0.7, label="holds the motif")
axes[1].hist(probability[truth == 0], bins, color="#0072b2", alpha=0.7, label="does not")
error = np.mean((probability > 0.5) != truth)
axes[1].set(xlabel="probability of the motif, 300 new strings", title=f"{100 * error:.1f} % errors")
axes[1].legend(frameon=False)
plt.show()
