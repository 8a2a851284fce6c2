"""Gaussian scale mixtures: p(y|f) = sum or integral over w of c(w) exp(-w (y-f)^2/2).

Variational EM and Gibbs samplers use the precision w as a latent variable; `ScaleMixture` is what they ask
for.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import ArrayLike

from cavity.likelihoods.base import Likelihood
from cavity.numerics.arrays import Array
from cavity.numerics.special import softmax_columns
from cavity.prediction import MixturePrediction

WIDE = 3.0
"""An observation whose own noise sd exceeds this many scales of the noise model is called an outlier."""


CLEAN_NODES = 48
"""Nodes that stand for the noise variances of observations that are no outliers."""


class ScaleMixture(Likelihood):
    """A likelihood that is normal given a latent precision w.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.likelihoods import Laplace, ScaleMixture, StudentT
    >>> [isinstance(noise, ScaleMixture) for noise in (StudentT(0.1, 4.0), Laplace(0.1))]
    [True, True]
    """

    @abstractmethod
    def scale_mixture(self) -> tuple[Array, Array]:
        """Nodes w (J,) and log c (J,) with p(y|f) = sum_j c_j exp(-w_j e^2/2), e = y - f."""

    @abstractmethod
    def expected_precision(self, squared_residual: Array) -> Array:
        """E[w | e] as a function of e^2: weights of iterated least squares and of variational EM (with
        E[e^2])."""

    @abstractmethod
    def sample_precision(self, residual: Array, rng: np.random.Generator) -> Array:
        """One draw of w given each residual e = y - f, for Gibbs sampling."""

    @abstractmethod
    def clean_variances(self) -> tuple[Array, Array]:
        """Noise variances (J,), and how probable each is (J,), of an observation that is no outlier."""

    def clean_predictive(self, mean: ArrayLike, var: ArrayLike) -> MixturePrediction:
        """Of a new y whose own noise is not wide: its sd is at most `WIDE` times the scale."""
        noise, weights = self.clean_variances()
        center, spread = np.asarray(mean, dtype=float), np.asarray(var, dtype=float)
        return MixturePrediction(np.log(weights), center, spread + noise[:, None])

    def outlier_probability(self, y: Array, mean: Array, var: Array) -> Array:
        """Posterior probability that the observation's own noise is wide: sd above `WIDE` times the scale.

        Given f ~ N(mean, var) from everything else, the precision w of the observation has the node weights of the
        tilted density as its posterior; the node at the threshold counts in part.
        """
        w, log_c = self.scale_mixture()
        # given w, y - mean is normal with variance var + 1/w
        g = 1.0 / (1.0 + np.multiply.outer(w, var))
        log_r = log_c[:, None] + 0.5 * np.log(g) - 0.5 * (w[:, None] * g) * (y - mean) ** 2
        below = -2.0 * np.log(WIDE * float(self.scale)) - np.log(w)
        counted = np.clip(below / np.abs(np.gradient(np.log(w))) + 0.5, 0.0, 1.0)
        return np.asarray(np.clip(counted @ softmax_columns(log_r)[1], 0.0, 1.0))


def legendre_nodes(low: float, high: float) -> tuple[Array, Array]:
    """Nodes and weights (J,) of the Gauss-Legendre rule between two numbers."""
    x, w = np.polynomial.legendre.leggauss(CLEAN_NODES)
    half = 0.5 * (high - low)
    return low + half * (x + 1.0), half * w
