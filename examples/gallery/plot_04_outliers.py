"""
Gross errors in the targets
===========================

The same data under Gaussian and under Student-t noise. Gaussian noise must explain every point by the same standard
deviation; Student-t noise may call a few of them wide (Kuss, 2006, chapter 5).
"""

import matplotlib.pyplot as plt
import numpy as np

from cavity import GPRegressor
from cavity.likelihoods import Gaussian, Laplace, MixtureOfGaussians, StudentT

rng = np.random.default_rng(0)
x = np.linspace(0, 8, 60)
y = np.sin(1.5 * x) + 0.1 * rng.standard_normal(60)
y[[10, 25, 40]] += 3

grid = np.linspace(0, 8, 300)
fig, axes = plt.subplots(1, 2, figsize=(8.5, 3.4), sharey=True, layout="constrained")
for ax, noise in zip(axes, ("gaussian", "student-t")):
    model = GPRegressor(likelihood=noise, n_restarts=0, random_state=0).fit(x[:, None], y)
    prediction = model.predict_dist(grid[:, None])
    suspect = model.outlier_probability_ > 0.5 if noise == "student-t" else np.zeros(60, bool)
    ax.fill_between(grid, *prediction.interval(0.9), color="#0072b2", alpha=0.2, lw=0)
    ax.plot(grid, prediction.mean, color="#0072b2")
    ax.plot(x, y, "o", color="black", ms=3)
    ax.plot(x[suspect], y[suspect], "o", mfc="none", color="#d55e00", ms=10)
    ax.set_title(f"{noise}: log evidence {model.log_evidence_:.1f}", fontsize=10)
plt.show()

# %%
# Why: the log densities of the noise models, and their slopes. The slope is the pull of a datum on the function. It
# grows without limit for Gaussian noise, is constant for Laplace noise, and falls again for the other two.

e = np.linspace(-6, 6, 400)
models = {
    "Gaussian": Gaussian(1.0),
    "Laplace": Laplace(0.7),
    "Student-t, 3 d.o.f.": StudentT(0.8, 3.0),
    "mixture": MixtureOfGaussians(0.05, 0.9, outlier_scale=4.0),
}
fig, axes = plt.subplots(1, 2, figsize=(8.5, 3.2), layout="constrained")
for (name, noise), style in zip(models.items(), ("-", "--", "-.", ":")):
    d = noise.derivatives(np.zeros(400), e)
    axes[0].plot(e, noise.log_prob(np.zeros(400), e), style, label=name)
    axes[1].plot(e, -d.d1, style)
axes[0].set(title="log p(y | f)", xlabel="residual", ylim=(-9, 0))
axes[1].set(title="pull on the function", xlabel="residual", ylim=(-4, 4))
axes[0].legend(frameon=False, fontsize=8)
plt.show()
