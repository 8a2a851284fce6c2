"""What the two variational rules share: inference, evidence with its gradient, and leave-one-out, from sites.

At a stationary point the bound L(sites, hyperparameters) has no first-order dependence on the sites, so that
its gradient is the explicit one, at fixed sites:

    dL/dK = 1/2 (alpha alpha' - R),    dL/dm = alpha,    dL/dtheta = sum_i dg_i/dtheta

for parameters theta of the likelihood.

Leaving point i out is approximated by taking its site away. With b_i = R_ii / tau_i = 1 - tau_i v_i the
marginal without it has variance v_i / b_i and mean m_i - alpha_i v_i / b_i.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

from cavity.inference.base import (
    Approximation,
    Evidence,
    Gradient,
    InferenceFailedError,
    InferenceRule,
    Stage,
    Status,
    UnsupportedPairError,
    cavities_by_refit,
)
from cavity.inference.variational.natural_gradient import Ascent, LocalBound, maximize_bound
from cavity.latent.base import LatentPrior
from cavity.latent.sites import Sites
from cavity.likelihoods.base import Likelihood
from cavity.likelihoods.observations import Observations
from cavity.numerics.arrays import Array
from cavity.prediction import Prediction
from cavity.runtime.checks import require_positive


@dataclass(frozen=True)
class BestBound:
    """The maximum of a run's best evaluation: an optimizer returns to it.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP
    >>> from cavity.inference import BestBound, Sites
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import StudentT
    >>> X, y = np.zeros((2, 1)), np.array([-2.0, 2.0])
    >>> trust = np.array([0.01, 10.0])  # begin with the second of two observations that contradict each other
    >>> model = GP(9.0 * SE(1.0), StudentT(0.1, 2.0), inference="variational")
    >>> model.condition(X, y, warm=BestBound(-np.inf, Sites(trust * y, trust))).mean(X[:1]) > 1.0
    array([ True])
    """

    bound: float
    sites: Sites


class BoundRule(InferenceRule):
    """An inference rule that maximizes a lower bound on the log evidence over sites.

    Parameters
    ----------
    tolerance : float
        Largest distance from stationarity, in units of the posterior, of a converged solution.
    max_evaluations : int
        Evaluations of the bound after which one climb gives up.
    """

    stage: Stage

    def __init__(self, tolerance: float = 1e-6, max_evaluations: int = 1000) -> None:
        require_positive(tolerance, "tolerance")
        if max_evaluations < 1:
            raise ValueError(f"max_evaluations must be at least 1, got {max_evaluations!r}")
        self.tolerance, self.max_evaluations = tolerance, max_evaluations

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(tolerance={self.tolerance!r}, max_evaluations={self.max_evaluations!r})"
        )

    # --- what a rule says about itself ----------------------------------------------------------------------

    @abstractmethod
    def _refusal(self, likelihood: Likelihood) -> UnsupportedPairError:
        """Why an unsupported likelihood is refused, and what to use instead."""

    @abstractmethod
    def _local(self, likelihood: Likelihood, y: Array) -> LocalBound:
        """g and its derivatives, before sample weights."""

    @abstractmethod
    def _starts(self, prior: LatentPrior, observations: Observations) -> Iterator[Sites]:
        """Where to begin if nothing is known; the best bound is kept."""

    # --- the contract ---------------------------------------------------------------------------------------

    def infer(
        self, prior: LatentPrior, observations: Observations, warm: BestBound | None = None
    ) -> Approximation:
        """Posterior process and bound, the best of several starts if the bound may have several maxima."""
        self._check(prior, observations)
        best = None
        if warm is not None and len(warm.sites) == prior.n:
            best = self._climb(prior, observations, warm.sites)
        if best is None or not best.converged:
            best = self._search(prior, observations)
        q = best.iterate.q
        status = Status(best.converged, self.stage, best.evaluations, best.residual, q.jitter, best.message)
        return Approximation(q.process(), best.iterate.bound, status, q)

    def evidence(
        self, prior: LatentPrior, observations: Observations, warm: BestBound | None = None
    ) -> Evidence:
        """The bound and its gradient.

        Starts where the best evaluation of the run ended: an optimizer returns to the best point so far, and a trial
        that strayed to another maximum of the bound must not take the following ones with it.
        """
        self._check(prior, observations)
        if warm is None or len(warm.sites) != prior.n:
            found, warm = self._search(prior, observations), None
        else:
            found = self._climb(prior, observations, warm.sites)
        if not found.converged:
            raise InferenceFailedError(
                f"{self.stage} did not converge: residual {found.residual:.2g}, {found.message}"
            )
        bound = found.iterate.bound
        if warm is None or bound >= warm.bound:
            warm = BestBound(bound, found.iterate.sites)
        gradient = Gradient.at_fixed_sites(found.iterate.q, found.iterate.local.d_flat.sum(axis=1))
        return Evidence(bound, gradient, warm)

    def leave_one_out(self, prior: LatentPrior, observations: Observations) -> Prediction:
        """Distribution of each target given the others: the sites of the others, without a new fit."""
        q = self._search(prior, observations).iterate.q
        return observations.likelihood.predictive(*cavities_by_refit(self, q, observations))

    def degrees_of_freedom(self, prior: LatentPrior, observations: Observations) -> float:
        """Effective number of parameters, tr(K R) = sum_i tau_i v_i."""
        q = self._search(prior, observations).iterate.q
        return float(q.sites.precision @ q.var)

    # --- climbing -------------------------------------------------------------------------------------------

    def _check(self, prior: LatentPrior, observations: Observations) -> None:
        if not self.supports(observations.likelihood):
            raise self._refusal(observations.likelihood)
        self.refuse_several_targets(observations)
        self.refuse_basis(prior)

    def _climb(self, prior: LatentPrior, observations: Observations, start: Sites) -> Ascent:
        local = weighted(self._local(observations.likelihood, observations.y), observations)
        return maximize_bound(prior, local, start, self.tolerance, self.max_evaluations)

    def _search(self, prior: LatentPrior, observations: Observations) -> Ascent:
        """The highest of the maxima that the starts lead to; one that converged is preferred."""
        self._check(prior, observations)
        climbs = [self._climb(prior, observations, start) for start in self._starts(prior, observations)]
        return max(climbs, key=lambda climb: (climb.converged, climb.iterate.bound))


def weighted(local: LocalBound, observations: Observations) -> LocalBound:
    """The local bound with each observation counted as often as its weight says."""
    if observations.weight is None:
        return local
    return lambda mean, var: type(out := local(mean, var))(*map(observations.weighted, out))
