"""Several classes, each told from all others by a latent function of its own.

A label y = c is seen as C answers, "yes" for class c and "no" for all others, each with a binary likelihood:

    p(y | f) = prod_k p(s_k | f_k),    s_y = +1, s_k = -1 otherwise.

The factors share nothing, so that the posterior is one of C independent functions, and every rule for one function
serves (`cavity.inference.function_by_function`). Answers to a new case need not be one "yes" and C - 1 "no". Given that
they are, class c has a probability proportional to p_c prod_{k != c} (1 - p_k), that is to the odds p_c / (1 - p_c) of
its answer, p_c averaged over the posterior of f_c. This would be right if the C functions had been learned from data of
their own. They were learned from the same labels: of two classes the second function is the first one, negated, and
the odds would count twice what is known once. C answers say as much as C - 1, so

    P(y = c)  proportional to  (p_c / (1 - p_c))^((C - 1) / C),

which is exact for two classes, and the first formula for many. Dividing p_c by their sum, the usual way, is too
cautious: its log loss was larger on each of seven data sets (docs/classification.md).
"""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_softmax

from cavity.likelihoods.base import ExpectedLogProb, LatentDerivatives, Likelihood, Power, Tilted
from cavity.likelihoods.binary import BinaryLikelihood
from cavity.likelihoods.class_labels import ClassLabels
from cavity.likelihoods.probit import Probit
from cavity.numerics.arrays import Array
from cavity.prediction import CategoricalPrediction


class OneVsRest(ClassLabels):
    """Classes 0..C-1 by C binary answers, "this class" or "another one".

    Parameters
    ----------
    n_classes : int
        C >= 3; two classes have one answer, which is the binary likelihood itself.
    answer : BinaryLikelihood, optional
        Of each answer, its parameters shared by all; the probit by default.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.likelihoods import OneVsRest
    >>> prediction = OneVsRest(3).predictive(np.array([[-1.0, 0.0, 2.0]]), np.ones((1, 3)))
    >>> prediction.probabilities.round(3)
    array([[0.07 , 0.151, 0.779]])
    """

    def __init__(self, n_classes: int, answer: Likelihood | None = None) -> None:
        self._set_classes(n_classes, least=3)
        part = Probit() if answer is None else answer
        if not isinstance(part, BinaryLikelihood):
            raise ValueError(f"OneVsRest: answer must be a likelihood of labels -1 and +1, got {answer!r}")
        self.log_concave, self.smooth = part.log_concave, part.smooth
        self._set_up({}, (part,))

    @property
    def answer(self) -> BinaryLikelihood:
        """The likelihood of each answer, of labels -1 and +1."""
        return cast(BinaryLikelihood, self._parts[0])

    def answers(self, y: Array) -> Array:
        """+1 in the column of the class, -1 in the others, shape (n, C)."""
        return 2.0 * self.one_hot(y) - 1.0

    def log_prob(self, y: Array, f: Array) -> Array:
        """Sum over the answers, for f (..., n, C)."""
        return np.asarray(self.answer.log_prob(self.answers(y), f).sum(axis=-1))

    def latent_derivatives(self, y: Array, f: Array) -> LatentDerivatives:
        """Those of the answers; Hessians are diagonal."""
        d = self.answer.derivatives(self.answers(y), f)
        return LatentDerivatives(d.log_prob.sum(axis=1), d.d1, d.d2[:, :, None] * np.eye(self.n_latent))

    def curvature_gradient(self, y: Array, f: Array, S: Array) -> Array:
        """d/df of sum_c S_cc W_c: minus the third derivatives."""
        d = self.answer.derivatives(self.answers(y), f)
        return -np.diagonal(S, axis1=1, axis2=2) * d.d3

    def latent_parameter_derivatives(self, y: Array, f: Array) -> LatentDerivatives:
        """Those of the answers."""
        d = self.answer.parameter_derivatives(self.answers(y), f)
        return LatentDerivatives(d.log_prob.sum(axis=2), d.d1, d.d2[..., None] * np.eye(self.n_latent))

    def tilted(self, y: Array, shift: Array, precision: Array, power: Power = 1.0, order: int = 2) -> Tilted:
        """Not here: those of one function are the answer's."""
        raise ValueError("OneVsRest factorizes over its functions: use the tilted moments of its `answer`")

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> ExpectedLogProb:
        """Sum over the answers; mean and var are (n, C)."""
        mean, var = np.broadcast_arrays(np.asarray(mean, dtype=float), np.asarray(var, dtype=float))
        e = self.answer.expected_log_prob(self.answers(y).ravel(), mean.ravel(), var.ravel())
        of_flat = e.d_flat.reshape(len(e.d_flat), *mean.shape).sum(axis=2)
        value, d_mean, d_var = (part.reshape(mean.shape) for part in (e.value, e.d_mean, e.d_var))
        return ExpectedLogProb(value.sum(axis=1), d_mean, d_var, of_flat)

    def predictive(self, mean: ArrayLike, var: ArrayLike) -> CategoricalPrediction:
        """Class probabilities for f ~ N(mean, var), `mean` (n, C).

        `var` is (n, C), or (n, C, C) for a covariance, of which the diagonal counts: each answer has its own function.
        """
        m: Array = np.asarray(mean, dtype=float)
        v: Array = np.asarray(var, dtype=float)
        v = np.diagonal(v, axis1=1, axis2=2) if v.ndim == 3 else np.broadcast_to(v, m.shape)
        log_p = self.answer.log_probabilities(m.ravel(), v.ravel()).reshape(*m.shape, 2)
        log_p = self._normalized(log_p[..., 1] - log_p[..., 0])
        return CategoricalPrediction(np.exp(log_p), np.arange(self.n_latent), log_p)

    def _normalized(self, log_odds: Array) -> Array:
        """Log probabilities of the classes from the log odds of their answers, shape (..., C)."""
        C = self.n_latent
        return np.asarray(log_softmax((C - 1) / C * log_odds, axis=-1))

    def sample(self, f: ArrayLike, rng: np.random.Generator) -> Array:
        """Labels given that one answer is "yes"; f is (..., n, C)."""
        f = np.asarray(f, dtype=float)
        one = np.ones(f.shape)
        log_p = self._normalized(self.answer.log_prob(one, f) - self.answer.log_prob(-one, f))
        return np.asarray(np.argmax(log_p + rng.gumbel(size=f.shape), axis=-1).astype(float))

    def _arguments(self) -> list[str]:
        return [repr(self.n_latent), repr(self.answer)]
