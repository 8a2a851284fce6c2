"""
Maps of rows with many columns
==============================

Handwritten digits have 64 pixels. Principal components lay them out on a plane; a Gaussian process from a plane to
the pixels (:class:`~cavity.GPLVM`) and generative topographic mapping (:class:`~cavity.em.GTM`) on a sheet
that bends. New digits, the larger marks, are placed by `transform`, which also says how sure their places are. Titles
give the share of new digits whose nearest neighbor on the map is another digit.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier

from cavity import GPLVM
from cavity.em import GTM

X, digit = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(X))
train, new = order[:150], order[150:350]

fig, axes = plt.subplots(1, 3, figsize=(12.5, 4.2), layout="constrained")
maps = {
    "principal components": PCA(2),
    "GTM": GTM(n_basis=6, regularization=0.01),
    "GPLVM": GPLVM(max_iter=150, random_state=0),
}
for axis, (name, model) in zip(axes, maps.items()):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 150 steps are enough for a picture
        model.fit(X[train])
    places, found = model.transform(X[train]), model.transform(X[new])
    wrong = np.mean(KNeighborsClassifier(1).fit(places, digit[train]).predict(found) != digit[new])
    axis.scatter(*places.T, c=digit[train], cmap="tab10", s=6, alpha=0.5)
    axis.scatter(*found.T, c=digit[new], cmap="tab10", s=22)
    axis.set(title=f"{name}: {wrong:.0%} wrong", xticks=[], yticks=[])

# the new digits that GPLVM is least sure of
found, covariance = maps["GPLVM"].transform(X[new], return_cov=True)
sd = np.sqrt(np.linalg.eigvalsh(covariance)[:, -1])
for i in np.argsort(-sd)[:3]:
    axes[2].annotate(f"{digit[new][i]}", found[i], xytext=(6, 6), textcoords="offset points", weight="bold")
    values, vectors = np.linalg.eigh(covariance[i])
    turn = np.linspace(0, 2 * np.pi, 60)
    ring = found[i][:, None] + 2 * vectors @ (
        np.sqrt(values)[:, None] * np.stack([np.cos(turn), np.sin(turn)])
    )
    axes[2].plot(*ring, color="k", lw=1)
plt.show()
