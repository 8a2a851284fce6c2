"""
Norms, operators and draws
==========================

The posterior mean minimizes squared errors plus the squared norm that belongs to the kernel. Left: that norm may be a
penalty on derivatives. With :math:`\\int \\alpha^2 f^2 + f'^2` it belongs to the exponential kernel: the inverse of a
matrix of finite differences is its covariance. Right: draws of the process are not in the space of functions with a
finite norm. With N eigenfunctions the expected squared norm of a draw is N; that of the posterior mean stays where it is.

The inner product of :math:`f = \\sum_i a_i k(\\cdot, x_i)` and :math:`g = \\sum_j b_j k(\\cdot, z_j)` is
:math:`a^\\top K(X, Z) b`. So :math:`\\langle f, k(\\cdot, x) \\rangle = f(x)`, the reproducing property: values are inner
products. A part of f that is orthogonal to the kernels at the training inputs changes no value there and adds to the
norm, so the minimizer has none (the representer theorem).
"""

import matplotlib.pyplot as plt
import numpy as np

from cavity.kernels import SE, Matern
from cavity.theory import nystrom, se_gaussian

fig, axes = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained")
alpha, x = 2.0, np.linspace(-4, 4, 401)
h = x[1] - x[0]
D = np.diff(np.eye(len(x)), axis=0) / h
precision = h * (alpha**2 * np.eye(len(x)) + D.T @ D)
axes[0].plot(
    x, np.linalg.inv(precision)[200], color="#0072b2", lw=3, alpha=0.5, label="inverse of differences"
)
axes[0].plot(
    x, Matern(1 / alpha, 0.5)(x[:, None], [[0.0]]) / (2 * alpha), "k--", lw=1, label="exponential kernel"
)
axes[0].set(title="a penalty on derivatives is a kernel", xlabel="x")
axes[0].legend(frameon=False, fontsize=8)

counts = np.arange(1, 26)
exact = se_gaussian(6**-0.5, 0.5, 25)
rng = np.random.default_rng(0)
nodes = 0.5 * rng.standard_normal((8, 1))
y = np.sin(4 * nodes[:, 0])
weights = np.linalg.solve(SE(6**-0.5)(nodes) + 0.01 * np.eye(8), y)
of_mean = (exact(nodes).T @ weights) ** 2 * exact.values  # f_i^2 / lambda_i of the posterior mean
draws = np.cumsum(rng.standard_normal((200, 25)) ** 2, axis=1)
axes[1].plot(counts, draws.mean(axis=0), ".", color="#d55e00", label="draws, average of 200")
axes[1].plot(counts, counts, color="k", lw=1, label="N")
axes[1].plot(counts, np.cumsum(of_mean), color="#0072b2", label="posterior mean")
norm = weights @ SE(6**-0.5)(nodes) @ weights
axes[1].axhline(norm, color="#0072b2", ls=":", label="a'Ka")
axes[1].set(title="squared norm by N eigenfunctions", xlabel="N")
axes[1].legend(frameon=False, fontsize=8)

place = np.array([[0.3]])
f, k_x = exact.values * (exact(nodes).T @ weights), exact.values * exact(place)[0]  # their coefficients
inner = np.sum(f * k_x / exact.values)
value = (SE(6**-0.5)(place, nodes) @ weights)[0]
print(f"inner product of f and k(., x) by eigenfunctions {inner:.6f}, f(x) {value:.6f}")

x, w = np.polynomial.hermite_e.hermegauss(60)
numeric = nystrom(SE(6**-0.5), 0.5 * x[:, None], w / w.sum(), 5)
print("eigenvalues", exact.values[:5].round(6), "by quadrature", numeric.values.round(6))
plt.show()
