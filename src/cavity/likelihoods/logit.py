"""The logistic likelihood of labels -1 and +1 (Rasmussen and Williams, 2006, chapter 3)."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from cavity.likelihoods.base import (
    Derivatives,
)
from cavity.likelihoods.binary import BinaryLikelihood
from cavity.likelihoods.exponential_family import ExponentialFamily, NaturalForm
from cavity.numerics.arrays import Array
from cavity.numerics.special import log_sigmoid


class Logit(ExponentialFamily, BinaryLikelihood):
    """p(y|f) = 1/(1 + exp(-y f)).

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.likelihoods import Logit
    >>> np.exp(Logit().log_prob(np.array([1.0, -1.0]), np.array([1.0, 1.0]))).round(3)
    array([0.731, 0.269])
    """

    log_concave = True

    def natural_form(self, y: Array) -> NaturalForm:
        """f - log(1 + exp(f)) for the label +1, -log(1 + exp(f)) for -1."""
        return NaturalForm(0.5 * (y + 1.0), np.ones(1), np.zeros(1), 0.0, logistic=True)

    def log_prob(self, y: Array, f: Array) -> Array:
        """-log(1 + exp(-y f))."""
        return log_sigmoid(y * f)

    def derivatives(self, y: Array, f: Array) -> Derivatives:
        """With p = p(+1|f): d2 = -p(1-p), d3 = -p(1-p)(1-2p)."""
        p, q = expit(f), expit(-f)
        d2 = -p * q
        return Derivatives(self.log_prob(y, f), y * expit(-y * f), d2, d2 * (q - p))

    def slope(self, y: Array, f: Array) -> Array:
        """y p(-y|f)."""
        return np.asarray(y * expit(-y * f))
