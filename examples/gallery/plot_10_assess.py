"""
Is the approximation any good here?
===================================

``cavity.assess`` holds approximations against annealed importance sampling and long Markov chains, on the same model
and the same data, and says in a sentence what it found (compare Kuss, 2006, figures 6.9 and 6.10).
"""

from io import BytesIO

import matplotlib.pyplot as plt
import numpy as np

from cavity import GP, assess
from cavity.kernels import SE
from cavity.likelihoods import Probit

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 2))
y = np.where(X[:, 0] + X[:, 1] ** 2 + 0.3 * rng.normal(size=60) > 0.7, 1.0, -1.0)
X_test = rng.normal(size=(100, 2))

result = assess(
    GP(30.0 * SE(1.0), Probit()), X, y, X_test, inference=["laplace", "ep"], max_time=6.0, progress=False
)
print(result)

# %%
# Each dot is a training row (first two columns) or a test case (last column).

picture = BytesIO()
result.plot().savefig(picture, dpi=90)
picture.seek(0)
plt.figure(figsize=(11, 5.6), layout="constrained")
plt.imshow(plt.imread(picture))
plt.axis("off")
plt.show()
