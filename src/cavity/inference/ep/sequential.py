"""Sequential EP (book Algorithm 3.5) and one-pass assumed-density filtering, for comparison and teaching.

Sites are updated one at a time, the posterior by a rank-one change after each, and everything is recomputed after a
sweep. Slower than the parallel rule: a Python loop over points is the price of the schedule.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cavity.inference.base import Approximation, InferenceFailedError, Stage
from cavity.inference.ep.acceleration import Acceleration
from cavity.inference.ep.rule import EP, EPWarm, Solution, certify
from cavity.inference.ep.state import TOLERANCE, EPProblem
from cavity.latent.base import LatentPrior
from cavity.latent.sites import Sites
from cavity.likelihoods.observations import Observations
from cavity.runtime.errors import Setting


class SequentialEP(EP):
    """EP with one site updated at a time.

    Parameters
    ----------
    sweeps : int
        Largest number of passes over the data; 1 with `adf` below.
    damping : float
        Part of the full update that is made.
    adf : bool
        Assumed-density filtering: a single pass in the order of the data. It is not a fixed point, and says so.
    tolerance : float
        As for EP.

    Examples
    --------
    >>> from cavity import GP
    >>> from cavity.inference import SequentialEP
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import Probit
    >>> model = GP(1.0 * SE(1.0), Probit(), inference=SequentialEP())
    >>> posterior = model.condition([[0.0], [1.0], [2.0]], [1, 1, -1])
    >>> posterior.status.stage.value
    'sequential ep'
    """

    name = "sequential ep"

    def __init__(
        self, sweeps: int = 100, damping: float = 1.0, adf: bool = False, tolerance: float = TOLERANCE
    ) -> None:
        super().__init__(tolerance)
        self.sweeps, self.damping, self.adf = sweeps, damping, adf

    def __repr__(self) -> str:
        return f"SequentialEP(sweeps={self.sweeps!r}, damping={self.damping!r}, adf={self.adf!r})"

    def _solve(
        self, problem: EPProblem, acceleration: Acceleration | None = None, lasting: bool = True
    ) -> Solution | None:
        sites = Sites.zero(problem.prior.n)
        for sweep in range(1 if self.adf else self.sweeps):
            try:
                sites = _sweep(problem, sites, 1.0 if self.adf else self.damping)
            except np.linalg.LinAlgError:
                return None
            state = certify(problem, sites, np.inf if self.adf else self.tolerance)
            if state is not None:
                return Solution(state, Stage.ADF if self.adf else Stage.SEQUENTIAL_EP, sweep + 1)
        return None

    def infer(
        self, prior: LatentPrior, observations: Observations, warm: EPWarm | None = None
    ) -> Approximation:
        """Posterior, evidence and status; raises if no fixed point is found (no fallback here)."""
        solution = self._solve(self._problem(prior, observations))
        if solution is None:
            raise InferenceFailedError(
                f"sequential EP did not converge in {self.sweeps} sweeps",
                remedy=("use ", Setting("inference", "ep")),
            )
        state, status = solution.state, solution.status
        if not state.residual <= self.tolerance:
            message = "one pass of assumed-density filtering: not a fixed point, and dependent on the order of the data"
            status = replace(status, converged=False, message=message)
        return Approximation(state.q.process(), state.log_evidence, status, state.q)

    def _on_branch(
        self, problem: EPProblem, warm: EPWarm | None, acceleration: Acceleration, lasting: bool = True
    ) -> Solution:
        solution = self._solve(problem)
        if solution is None or self.adf:
            raise InferenceFailedError("sequential EP did not converge at these hyperparameters")
        return solution


def _sweep(problem: EPProblem, sites: Sites, damping: float) -> Sites:
    """One pass over the points, with rank-one updates of the posterior covariance (book eq. 3.70)."""
    q = problem.given(sites)
    S, prior_mean = q.covariance.copy(), problem.prior.mean
    shift, precision = sites.shift.copy(), sites.precision.copy()
    mean = q.mean.copy()
    limit, power = problem.min_cavity_precision, np.broadcast_to(problem.factor_power, precision.shape)
    for i in range(len(precision)):
        variance = S[i, i]
        cavity_precision = 1.0 / variance - precision[i]
        cavity_shift = mean[i] / variance - shift[i]
        if cavity_precision <= limit[i]:
            continue
        one = slice(i, i + 1)
        t = problem.likelihood.rows(one).tilted(
            problem.y[one], np.array([cavity_shift]), np.array([cavity_precision]), power[one]
        )
        d_precision = damping * (1.0 / t.var[0] - cavity_precision - precision[i])
        d_shift = damping * (t.mean[0] / t.var[0] - cavity_shift - shift[i])
        if 1.0 + d_precision * variance <= 0:
            continue
        column = S[:, i].copy()
        S -= (d_precision / (1.0 + d_precision * variance)) * np.outer(column, column)
        precision[i] += d_precision
        shift[i] += d_shift
        # mean = m + S (shift - precision * m)
        mean = prior_mean + S @ (shift - precision * prior_mean)
    return Sites(shift, precision)
