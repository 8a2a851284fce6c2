"""The state of the lecture notes' worked example: noiseless SE of unit scale and length, three values, a grid.

It is of a maximization: minus the function is what is minimized here.
"""

from __future__ import annotations

import numpy as np

from cavity import GP
from cavity.kernels import SE
from cavity.latent.moments import Moments, moments_of
from cavity.likelihoods import Gaussian

X = np.array([[1.0], [2.5], [4.0]])
F = np.array([0.2, 1.0, -0.5])
GRID = np.arange(0.0, 5.01, 0.5)[:, None]
BEST = -1.0

MEAN = -np.array(
    [-0.0845148872, -0.0256718542, 0.2, 0.5874402414, 0.949121715, 1, 0.6155796336, -0.0061458831, -0.5, -0.6488108917,
     -0.513618435]
)  # fmt: skip
SD = np.array(
    [0.7767263175, 0.4395410575, 0, 0.3152015767, 0.3018711759, 0, 0.3018711759, 0.3152015767, 0, 0.4395410575,
     0.7767263175]
)  # fmt: skip
SEEN = np.isin(GRID[:, 0], X[:, 0])


def state(noise: float = 0.0) -> Moments:
    """Mean and variance of minus the function."""
    model = GP(1.0 * SE(1.0), Gaussian(max(noise, 1e-13)))
    return moments_of(model.condition(X, -F).process)
