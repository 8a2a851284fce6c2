"""What the two variational rules share: inference, evidence with its gradient, and leave-one-out, from sites.

At a stationary point the bound L(sites, hyperparameters) has no first-order dependence on the sites, so that
its gradient is the explicit one, at fixed sites:

    dL/dK = 1/2 (alpha alpha' - R),    dL/dm = alpha,    dL/dtheta = sum_i dg_i/dtheta   (likelihood's
    parameters)

Leaving point i out is approximated by taking its site away. With b_i = R_ii / tau_i = 1 - tau_i v_i the
marginal without it has variance v_i / b_i and mean m_i - alpha_i v_i / b_i.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np

from cavity.inference.base import Approximation, Gradient, InferenceFailedError, Status, UnsupportedPairError
from cavity.inference.variational.natural_gradient import Ascent, LocalBound, maximize_bound
from cavity.latent.dense import DensePrior
from cavity.latent.sites import Sites
from cavity.likelihoods.base import Likelihood
from cavity.means.basis import Basis
from cavity.numerics.arrays import Array
from cavity.prediction import Prediction


class BoundRule(ABC):
    """An inference rule that maximizes a lower bound on the log evidence over sites.

    Parameters
    ----------
    tolerance : float
        Largest distance from stationarity, in units of the posterior, of a converged solution.
    max_evaluations : int
        Evaluations of the bound after which one climb gives up.
    """

    name: str
    stage: str

    def __init__(self, tolerance: float = 1e-6, max_evaluations: int = 1000) -> None:
        if not tolerance > 0:
            raise ValueError(f"tolerance must be positive, got {tolerance!r}")
        if max_evaluations < 1:
            raise ValueError(f"max_evaluations must be at least 1, got {max_evaluations!r}")
        self.tolerance, self.max_evaluations = tolerance, max_evaluations

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(tolerance={self.tolerance!r}, max_evaluations={self.max_evaluations!r})"
        )

    # --- what a rule says about itself ----------------------------------------------------------------------

    @abstractmethod
    def supports(self, likelihood: Likelihood) -> bool:
        """Whether the rule can handle the likelihood."""

    @abstractmethod
    def _refusal(self, likelihood: Likelihood) -> UnsupportedPairError:
        """Why an unsupported likelihood is refused, and what to use instead."""

    @abstractmethod
    def _local(self, likelihood: Likelihood, y: Array) -> LocalBound:
        """g and its derivatives, before sample weights."""

    @abstractmethod
    def _starts(
        self, prior: DensePrior, likelihood: Likelihood, y: Array, sample_weight: Array | None
    ) -> Iterator[Sites]:
        """Where to begin if nothing is known; the best bound is kept."""

    # --- the contract ---------------------------------------------------------------------------------------

    def infer(
        self, prior: DensePrior, likelihood: Likelihood, y: Array, sample_weight: Array | None = None
    ) -> Approximation:
        """Posterior process and bound, the best of several starts where the bound may have several maxima.

        A maximum that the workspace remembers from evaluations of the evidence is found again.
        """
        self._check(prior, likelihood, y)
        _, sites = prior.workspace.memory.get(f"{self.name} best", (0.0, None))
        best = None
        if sites is not None and len(sites) == prior.n:
            best = self._climb(prior, likelihood, y, sample_weight, sites)
        if best is None or not best.converged:
            best = self._search(prior, likelihood, y, sample_weight)
        q = best.iterate.q
        status = Status(
            best.converged, self.stage, best.evaluations, best.residual, q.correction.jitter, best.message
        )
        return Approximation(q.process(), best.iterate.bound, status, best.iterate.sites)

    def evidence(
        self, prior: DensePrior, likelihood: Likelihood, y: Array, sample_weight: Array | None = None
    ) -> tuple[float, Gradient]:
        """The bound and its gradient.

        Starts where the best evaluation on this workspace ended: an optimizer returns to the best point so
        far, and a trial that strayed to another maximum of the bound must not take the following ones with
        it.
        """
        self._check(prior, likelihood, y)
        memory, key = prior.workspace.memory, f"{self.name} best"
        bound, sites = memory.get(key, (-np.inf, None))
        if sites is None or len(sites) != prior.n:
            found, bound = self._search(prior, likelihood, y, sample_weight), -np.inf
        else:
            found = self._climb(prior, likelihood, y, sample_weight, sites)
        if not found.converged:
            raise InferenceFailedError(
                f"{self.stage} did not converge: residual {found.residual:.2g}, {found.message}"
            )
        if found.iterate.bound >= bound:
            memory[key] = (found.iterate.bound, found.iterate.sites)
        pulled = found.iterate.q.pull(1.0)
        return found.iterate.bound, Gradient(
            pulled.kernel, pulled.mean, found.iterate.local.d_flat.sum(axis=1)
        )

    def leave_one_out(
        self, prior: DensePrior, likelihood: Likelihood, y: Array, sample_weight: Array | None = None
    ) -> Prediction:
        """Distribution of each target given the others: the sites of the others, without a new fit.

        Negative sites elsewhere can leave nothing proper behind; such a point is left out in earnest.
        """
        found = self._search(prior, likelihood, y, sample_weight)
        mean, var = found.iterate.q.without_own_site()
        for i in np.flatnonzero(np.isnan(var)):
            weight = np.ones(prior.n) if sample_weight is None else np.array(sample_weight, dtype=float)
            weight[i] = 0.0
            q = self._search(prior, likelihood, y, weight).iterate.q
            mean[i], var[i] = q.mean[i], q.var[i]
        return likelihood.predictive(mean, var)

    def leave_one_out_log_prob(
        self, prior: DensePrior, likelihood: Likelihood, y: Array, sample_weight: Array | None = None
    ) -> tuple[float, Gradient]:
        """Not available with a gradient."""
        raise UnsupportedPairError(
            "leave-one-out learning needs exact inference (Gaussian noise); "
            f"use objective='evidence' with {self.name}"
        )

    def degrees_of_freedom(self, prior: DensePrior, likelihood: Likelihood, y: Array) -> float:
        """Effective number of parameters, tr(K R) = sum_i tau_i v_i."""
        q = self._search(prior, likelihood, y, None).iterate.q
        return float(q.sites.precision @ q.var)

    # --- climbing -------------------------------------------------------------------------------------------

    def _check(self, prior: DensePrior, likelihood: Likelihood, y: Array) -> None:
        if not self.supports(likelihood):
            raise self._refusal(likelihood)
        if y.ndim != 1:
            raise UnsupportedPairError(
                f"{self.name} handles one target at a time, got y of shape {y.shape}; fit a model per column"
            )
        if isinstance(prior.mean_function, Basis):
            raise UnsupportedPairError(
                f"basis functions whose weights are integrated out need exact inference; with {self.name} "
                "use a mean function with parameters ('constant', 'linear') or add a Linear kernel"
            )

    def _climb(
        self,
        prior: DensePrior,
        likelihood: Likelihood,
        y: Array,
        sample_weight: Array | None,
        start: Sites,
        tolerance: float | None = None,
    ) -> Ascent:
        local = weighted(self._local(likelihood, y), sample_weight)
        return maximize_bound(prior, local, start, tolerance or self.tolerance, self.max_evaluations)

    def _search(
        self, prior: DensePrior, likelihood: Likelihood, y: Array, sample_weight: Array | None
    ) -> Ascent:
        """The highest of the maxima that the starts lead to; one that converged is preferred."""
        self._check(prior, likelihood, y)
        climbs = [
            self._climb(prior, likelihood, y, sample_weight, start)
            for start in self._starts(prior, likelihood, y, sample_weight)
        ]
        return max(climbs, key=lambda climb: (climb.converged, climb.iterate.bound))


def weighted(local: LocalBound, sample_weight: Array | None) -> LocalBound:
    """The local bound with each observation counted as often as its weight says."""
    if sample_weight is None:
        return local
    return lambda mean, var: type(out := local(mean, var))(*(sample_weight * part for part in out))
