"""Laplace's method: a Gaussian at the mode of p(f | y), with the curvature there (Rasmussen and
Williams 2006, sections 3.4 and 5.5.1).

    log q(y) = sum_i w_i log p(y_i | f_i) - 1/2 a' K a - 1/2 log|I + K W|,    f = m + K a,   W = -w d2

at the mode (eq. 3.32), where a = w d1. The mode moves with the hyperparameters, and W with it. With
Sigma = (K^-1 + W)^-1, R = (K + W^-1)^-1, u_i = dlog q/df_i = 1/2 Sigma_ii w_i d3_i (eq. 5.23 has the
wrong sign) and v = (I - R K) u,

    d log q / dK     = 1/2 (a a' - R) + 1/2 (v a' + a v')
    d log q / dm     = a + v
    d log q / dtheta = sum_i w_i (dlog p_i + 1/2 Sigma_ii dd2_i + (K v)_i dd1_i) / dtheta

for parameters theta of the likelihood. Directions in which a mode is nearly flat lower the log evidence
(`flatness`): without that it would tend to infinity where a mode vanishes.

As sites: precision W_i, shift W_i f_i + w_i d1_i. Leaving point i out is approximated by taking its site away
from the marginal of f_i.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from cavity.inference.base import (
    Approximation,
    Evidence,
    Gradient,
    InferenceFailedError,
    InferenceRule,
    Status,
    UnsupportedPairError,
    cavities_by_refit,
)
from cavity.inference.laplace.flatness import barrier
from cavity.inference.laplace.mode_search import CONVERGED, Mode, OneLatent
from cavity.inference.laplace.several_functions import SeveralLatents, cavities, gradient
from cavity.inference.laplace.tracking import Found, KnownMode, known, search, tracked
from cavity.latent.base import LatentPrior
from cavity.latent.prior_times_sites import Conditioned
from cavity.latent.sites import Sites
from cavity.likelihoods.base import Likelihood
from cavity.likelihoods.observations import Observations
from cavity.numerics.arrays import Array
from cavity.prediction import Prediction
from cavity.runtime.errors import Setting

TOLD = 0.05
"""Nats that nearly flat directions must cost before the status says so."""

LONGEST_STEP = 1.0
"""Longest step of an optimizer if there may be several modes."""


class Laplace(InferenceRule):
    """Laplace's method; needs a likelihood with two continuous derivatives.

    Examples
    --------
    >>> from cavity import GP
    >>> from cavity.inference import Laplace
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import Probit
    >>> model = GP(1.0 * SE(1.0), Probit(), inference=Laplace())
    >>> posterior = model.condition([[0.0], [1.0], [2.0]], [1, 1, -1])
    >>> posterior.status.stage.value, posterior.status.converged
    ('newton', True)
    """

    name = "laplace"

    def supports(self, likelihood: Likelihood) -> bool:
        """Whether the likelihood is smooth."""
        return bool(likelihood.smooth)

    def step_limit(self, likelihood: Likelihood) -> float:
        """Change of a parameter, in its unit steps, up to which a mode is worth following at once."""
        return np.inf if likelihood.log_concave else LONGEST_STEP

    def infer(
        self, prior: LatentPrior, observations: Observations, warm: KnownMode | None = None
    ) -> Approximation:
        """Posterior process and log evidence; of the mode that `warm` remembers, if it can be followed to here."""
        problem = self._problem(prior, observations)
        found = self._found(problem, warm)
        mode = found.mode
        value, status = problem.log_evidence(mode), _status(found)
        if isinstance(problem, SeveralLatents):
            return Approximation(problem.prior.process(mode.a, mode.curvature), value, status)
        fence = barrier(mode.curvature).value
        if fence < -TOLD:
            told = f"the log evidence pays {-fence:.1f} nats for directions in which the mode is nearly flat"
            status = replace(status, message="; ".join(part for part in (status.message, told) if part))
        q = _gaussian(problem, mode)
        # the weights of the mode itself: those of the sites agree up to the remaining Newton step
        return Approximation(prior.process(mode.a, mode.curvature), value, status, q)

    @staticmethod
    def _found(problem: OneLatent | SeveralLatents, warm: KnownMode | None) -> Found:
        if warm is not None:
            try:
                return tracked(problem, warm)
            except InferenceFailedError:  # its branch cannot be followed to here
                pass
        return search(problem)

    def evidence(
        self, prior: LatentPrior, observations: Observations, warm: KnownMode | None = None
    ) -> Evidence:
        """Log evidence and its gradient; continues the mode of the last evaluation."""
        # With several modes several factors are alive at a time; with one, memory need not be paged in anew.
        problem = self._problem(prior, observations, transient=bool(observations.likelihood.log_concave))
        mode = tracked(problem, warm).mode
        if mode.residual > CONVERGED:
            raise InferenceFailedError(
                f"Newton's method stopped {mode.residual:.2g} posterior standard deviations from the mode"
            )
        value = problem.log_evidence(mode)
        remembered = known(problem, mode, value)
        slope, d = _gradient(problem, mode) if isinstance(problem, OneLatent) else gradient(problem, mode)
        # The remaining step, which changes Psi by its square but W in proportion, makes the value that of the mode.
        return Evidence(value + float(np.vdot(slope, mode.step)), d, remembered)

    def leave_one_out(self, prior: LatentPrior, observations: Observations) -> Prediction:
        """Distribution of each target given the others: the sites of the others, without a new mode."""
        problem = self._problem(prior, observations)
        mode = search(problem).mode
        if isinstance(problem, OneLatent):
            q = _gaussian(problem, mode)
            return observations.likelihood.predictive(*cavities_by_refit(self, q, observations))
        return observations.likelihood.predictive(*cavities(self, problem, mode))

    def degrees_of_freedom(self, prior: LatentPrior, observations: Observations) -> float:
        """Effective number of parameters, tr(Sigma W): of each row that of its own block."""
        problem = self._problem(prior, observations)
        mode = search(problem).mode
        if isinstance(problem, OneLatent):
            return float(-mode.derivatives.d2 @ mode.curvature.var)
        W = problem.W(mode.derivatives, safe=False)
        return float(np.einsum("nij,nji->", W, mode.curvature.training_blocks()))

    def _problem(
        self, prior: Any, observations: Observations, transient: bool = False
    ) -> OneLatent | SeveralLatents:
        likelihood = observations.likelihood
        if not self.supports(likelihood):
            raise UnsupportedPairError(
                "Laplace's method needs a likelihood with two continuous derivatives, which "
                f"{type(likelihood).__name__} has not",
                remedy=("use ", Setting("inference", ("ep", "variational"))),
            )
        self.refuse_basis(prior)
        if likelihood.n_latent > 1:
            return SeveralLatents(prior, observations)
        return OneLatent(prior, observations, transient)


# --- evidence -----------------------------------------------------------------------------------------------


def _gaussian(problem: OneLatent, mode: Mode) -> Conditioned:
    """The Gaussian at the mode, as prior times sites."""
    W = -mode.derivatives.d2
    return Conditioned(problem.prior, Sites(W * mode.f + mode.derivatives.d1, W), mode.curvature)


def _status(found: Found) -> Status:
    mode = found.mode
    notes = []
    if found.modes > 1:
        notes.append(
            f"{found.modes} modes found from {found.starts} starts; the one of highest density is kept"
        )
    if found.flat:
        notes.append(
            "the mode is nearly flat in one direction: variances there and the evidence are too large"
        )
    if mode.residual > CONVERGED:
        notes.append(
            f"Newton's method stopped {mode.residual:.2g} posterior standard deviations from the mode"
        )
    if mode.curvature.jitter:
        notes.append(f"jitter {mode.curvature.jitter:.3g} was added to the diagonal")
    return Status(
        converged=mode.residual <= CONVERGED,
        stage=found.stage,
        iterations=found.iterations,
        residual=mode.residual,
        jitter=mode.curvature.jitter,
        message="; ".join(notes),
    )


def _gradient(problem: OneLatent, mode: Mode) -> tuple[Array, Gradient]:
    """dlog q/df at the mode, and the gradient in the parameters; may use up the mode's factorization."""
    d, curvature = mode.derivatives, mode.curvature
    slopes = problem.likelihood.parameter_derivatives(problem.y, mode.f)
    by_log_prob, by_d1, by_d2 = map(problem.observations.weighted, slopes)
    fence = barrier(curvature)
    by_W = fence.by_precision - 0.5 * curvature.var
    a, u = mode.a, -by_W * d.d3
    v, Kv = curvature.project(u)
    left, right = np.column_stack([0.5 * a + v, fence.left]), np.column_stack([a, fence.right])
    prior = curvature.pull_prior(left, right, -0.5)
    d_likelihood = by_log_prob.sum(axis=1) - by_d2 @ by_W + by_d1 @ Kv
    return u, Gradient.of(problem.prior, prior, a + v, d_likelihood)
