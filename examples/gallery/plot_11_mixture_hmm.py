"""
Groups and regimes: EM
======================

A mixture finds groups in rows that come in no order; a hidden Markov model finds regimes in a series, where
neighbors tell of each other (Bilmes, 1998).
"""

import matplotlib.pyplot as plt
import numpy as np

from cavity.em import HMM, GaussianMixture

rng = np.random.default_rng(0)
rows = np.concatenate(
    [
        rng.multivariate_normal([0, 0], [[1, 0.8], [0.8, 1]], 150),
        rng.multivariate_normal([4, 0], [[0.5, -0.3], [-0.3, 0.8]], 100),
    ]
)
mixture = GaussianMixture("bic", n_init=3, random_state=0).fit(rows)
print(mixture.n_components_, "groups;", mixture.status_)

states = np.repeat([0, 1, 0, 1, 0], [80, 40, 60, 70, 50])
series = rng.normal(1.5 * states, 1.0)
hmm = HMM(2, random_state=0).fit(series[:, None])
regime = hmm.predict_proba(series[:, None])[:, 1]

# %%
# Left: responsibilities as shades, and ellipses of one and two standard deviations. Right: the series and the
# probability of the upper regime; single values say little, runs say much.

fig, axes = plt.subplots(1, 2, figsize=(9.5, 3.7), layout="constrained", width_ratios=[1, 1.5])
axes[0].scatter(*rows.T, c=mixture.predict_proba(rows)[:, 0], cmap="cividis", s=10)
circle = np.stack([np.cos(np.linspace(0, 2 * np.pi, 80)), np.sin(np.linspace(0, 2 * np.pi, 80))])
for mean, covariance in zip(mixture.means_, mixture.covariances_):
    for radius in (1, 2):
        axes[0].plot(
            *(mean[:, None] + radius * np.linalg.cholesky(covariance) @ circle), color="#d55e00", lw=1
        )
axes[1].plot(series, ".", color="0.4", ms=3)
axes[1].fill_between(
    range(len(series)),
    -3.5,
    -3.5 + 2 * regime,
    color="#0072b2",
    alpha=0.4,
    lw=0,
    label="probability of the upper regime",
)
axes[1].step(range(len(series)), -3.5 + 2 * states, color="#d55e00", lw=1, label="truth")
axes[1].legend(frameon=False, fontsize=8, loc="upper left", ncols=2)
axes[1].set(ylim=(-3.7, 6), xlabel="time")
plt.show()
