"""Least-squares classification: exact regression on labels, its squashing learned from left-out rows.

    mu_i, s_i^2   mean and variance of label i given the others, in closed form (Rasmussen and Williams, 2006, eq. 5.12)
    sum_i log p(y_i | mu_i, s_i^2)                                                            (eq. 6.42 to 6.44)

is maximized in the place of a log evidence, which regression on labels does not have. One factorization serves an
evaluation, its gradient and all classes, each told from the others with one right-hand side.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from scipy.special import log_ndtr

from cavity.inference.base import Approximation, Evidence, Gradient, InferenceRule, Stage, Status
from cavity.inference.exact import Observed
from cavity.likelihoods.base import Likelihood
from cavity.likelihoods.gaussian import Gaussian
from cavity.likelihoods.least_squares import LeastSquares as Labels
from cavity.likelihoods.observations import Observations
from cavity.likelihoods.one_vs_rest import OneVsRest
from cavity.numerics.arrays import Array
from cavity.numerics.special import LOG_2PI
from cavity.prediction import Prediction

MESSAGE = "log evidence is the log probability of left-out labels"


class LeastSquares(InferenceRule):
    """Exact regression on labels -1 and +1 (`cavity.likelihoods.LeastSquares`), or on those of several classes.

    Examples
    --------
    >>> from cavity import GP
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import LeastSquares
    >>> model = GP(4.0 * SE(1.0), LeastSquares(0.1, 1.0, lapse=1e-12), inference="least-squares")
    >>> round(model.evidence([[-2.0], [-1.0], [0.5], [1.0], [2.5]], [-1, -1, 1, -1, 1])[0], 6)
    -6.211786
    """

    name = "least-squares"
    integrates_basis = True
    all_functions = True

    def supports(self, likelihood: Likelihood) -> bool:
        """Labels as numbers, of two classes or of each class against the rest."""
        return isinstance(_labels(likelihood), Labels)

    def _observed(self, prior: Any, observations: Observations, transient: bool = False) -> Observed:
        likelihood, y = observations.likelihood, observations.y
        labels = cast(Labels, _labels(likelihood))
        one = prior.function(0) if isinstance(likelihood, OneVsRest) else prior
        targets = likelihood.answers(y) if isinstance(likelihood, OneVsRest) else y
        return Observed(one, observations.under(Gaussian(labels.variance), targets), transient=transient)

    def infer(self, prior: Any, observations: Observations, warm: Any = None) -> Approximation:
        """The posterior of the regression."""
        likelihood, found = observations.likelihood, self._observed(prior, observations)
        status = Status(stage=Stage.LEAST_SQUARES, jitter=found.conditioning.jitter, message=MESSAGE)
        value = float(np.sum(self._left_out(found, likelihood)[0]))
        if not isinstance(likelihood, OneVsRest):
            return Approximation(found.process(), value, status, found.gaussian())
        precision = np.repeat(1.0 / found.variance[:, None], found.targets, axis=1)
        conditioning = prior.condition_separately(precision, [found.conditioning] * found.targets)
        return Approximation(prior.process(found.alpha, conditioning), value, status)

    def evidence(self, prior: Any, observations: Observations, warm: Any = None) -> Evidence:
        """The log probability of left-out labels, and its gradient."""
        likelihood, found = observations.likelihood, self._observed(prior, observations, transient=True)
        log_p, d_mean, d_var, d_labels = self._left_out(found, likelihood)
        w = found.sample_weight[:, None]
        d = found._left[0][:, None]
        # mu = y - alpha / d and s^2 = 1 / d
        d_alpha = -w * d_mean / d
        d_d = np.sum(w * (d_mean * found.alpha - d_var) / d**2, axis=1)
        pulled = found.pull_left_out(d_alpha, d_d)
        likelihood_gradient = np.concatenate([pulled.likelihood, (w * d_labels).sum(axis=(1, 2))])
        mean = np.tile(pulled.mean, found.targets) if isinstance(likelihood, OneVsRest) else pulled.mean
        gradient = Gradient(pulled.kernel, mean, likelihood_gradient, pulled.representation)
        return Evidence(float(np.sum(w * log_p)), gradient)

    def _left_out(self, found: Observed, likelihood: Likelihood) -> tuple[Array, Array, Array, Array]:
        """log p of each left-out label (n, T); its derivatives in mean, variance, and (scale, offset, lapse)."""
        labels = cast(Labels, _labels(likelihood))
        d = found._left[0][:, None]
        y = found.y.reshape(found.n, -1)
        log_p, z, s = labels.squashed(y, y - found.alpha / d, 1.0 / d)
        slope = np.exp(np.log1p(-labels.lapse) - 0.5 * z * z - 0.5 * LOG_2PI - log_p)
        d_mean = slope * y / s
        d_var = -0.5 * slope * z / s**2
        d_lapse = np.exp(-log_p) * (0.5 - np.exp(log_ndtr(z)))
        return log_p, d_mean, d_var, np.stack([2.0 * labels.scale * d_var, d_mean, d_lapse])

    def leave_one_out(self, prior: Any, observations: Observations) -> Prediction:
        """Probabilities of each label given the others."""
        likelihood, found = observations.likelihood, self._observed(prior, observations)
        d = found._left[0][:, None]
        noise = cast(Labels, _labels(likelihood)).variance
        mean, var = found.y.reshape(found.n, -1) - found.alpha / d, np.maximum(1.0 / d - noise, 0.0)
        if isinstance(likelihood, OneVsRest):
            return likelihood.predictive(mean, np.repeat(var, found.targets, axis=1))
        return likelihood.predictive(mean[:, 0], var[:, 0])

    def degrees_of_freedom(self, prior: Any, observations: Observations) -> float:
        """Effective number of parameters of the regression, for each class."""
        found = self._observed(prior, observations)
        return found.targets * float(found.n - found.variance @ found._left[0])


def _labels(likelihood: Likelihood) -> Likelihood:
    return likelihood.answer if isinstance(likelihood, OneVsRest) else likelihood
