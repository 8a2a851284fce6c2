"""The EP rule: which solver is tried when, what counts as converged, and what is reported.

Stages, in order; the status names the one that found the point, because accuracy differs by stage:

1. "ep": parallel updates, from a warm start or from zero sites; "ep by newton" where only Newton's method from the
   best of their iterates converged;
2. "ep by continuation": for likelihoods that are not log-concave, a path of fixed points from an easy problem;
3. "power ep": the largest power below 1 that converges, with its own evidence, up from the sites of the Gaussian of
   largest variational bound;
4. "variational": that Gaussian itself; its bound is the evidence reported.

Converged means that everything was recomputed from the sites and that tilted and marginal moments agree to
`TOLERANCE` posterior standard deviations, with a proper posterior and a finite evidence. Cavities may be improper
where the likelihood allows it (a mixture of Gaussians); the status then says "extended".

While hyperparameters are learned, one run of the optimizer stays on one branch: an evaluation starts at the sites of
the best one and must converge from there in the same stage; anything else is a failed evaluation, not a jump.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

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
from cavity.inference.ep.acceleration import Acceleration
from cavity.inference.ep.effort_budget import Effort
from cavity.inference.ep.local_steps import local_sweeps
from cavity.inference.ep.log_concave import log_concave_ep
from cavity.inference.ep.parallel import damped, state_or_none
from cavity.inference.ep.state import TOLERANCE, EPProblem, EPState
from cavity.inference.ep.tracking import KnownFixedPoint, follow
from cavity.latent.base import Capability, LatentPrior
from cavity.latent.sites import Sites
from cavity.likelihoods.base import Likelihood
from cavity.likelihoods.observations import Observations
from cavity.prediction import Prediction
from cavity.runtime.checks import is_number
from cavity.runtime.errors import Setting

POWERS = (0.05, 0.1, 0.2, 0.35, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Powers tried in turn where EP proper finds no fixed point; the largest that converges is reported."""

NEWTON_FIRST = 140
"""Points up to which a branch is followed by Newton's method rather than by parallel updates from its sites: systems of
2n equations cost little more there, and it stays on a branch that is about to end."""

NEWTON_AFTER = 300
"""Points up to which Newton's method takes over where parallel updates do not converge."""

LONGEST_STEP = 0.5
"""Longest step of an optimizer, in unit steps of a free parameter, without log-concavity. Trial steps of L-BFGS are
often ten times as long, and fixed points at their ends have nothing to do with those at their beginnings."""

SEARCH_TOLERANCE = 1e-3
"""Mismatch, in posterior standard deviations, of evaluations by an optimizer."""

SEARCH_SHARE = 0.75
"""Part of the effort for EP proper; the rest is for powers below one."""

DOUBTFUL, ORDERS = 100.0, 4
"""How far a bound on rounding errors may exceed the tolerance for them to be measured, and by how many permutations."""


@dataclass(frozen=True)
class EPWarm:
    """What a run of an optimizer has learned of its branch of fixed points.

    Attributes
    ----------
    best : KnownFixedPoint
        The fixed point of the run's best evaluation, where the next one starts: an optimizer returns to it, and a
        trial that strayed must not take the following ones along.
    stage : Stage
        At which the run's first point was found; the others follow it.
    acceleration : Acceleration
        What past sweeps say of the next ones.
    """

    best: KnownFixedPoint
    stage: Stage
    acceleration: Acceleration

    def fits(self, problem: EPProblem) -> bool:
        """Whether the problem differs from that of the run in parameter values alone."""
        return self.best.fits(problem)


@dataclass(frozen=True)
class Solution:
    """A certified fixed point with where it came from."""

    state: EPState
    stage: Stage
    iterations: int

    @property
    def status(self) -> Status:
        """For the result."""
        notes = []
        if not self.state.proper:
            notes.append(
                "some cavities are improper (extended fixed point): evidence and leave-one-out are less reliable"
            )
        if self.state.problem.power < 1.0:
            notes.append(f"power {self.state.problem.power:g}")
        return Status(
            stage=self.stage,
            iterations=self.iterations,
            residual=self.state.residual,
            jitter=self.state.q.jitter,
            message="; ".join(notes),
            extended=not self.state.proper,
        )


def certify(problem: EPProblem, sites: Sites, tolerance: float) -> EPState | None:
    """The state recomputed from nothing but the sites, if it is a fixed point beyond doubt."""
    state = state_or_none(problem, sites)
    if state is None or not state.residual <= tolerance or not np.isfinite(state.log_evidence):
        return None
    if tolerance == np.inf:
        return state
    rounding, allowed = _rounding(state), min(tolerance, TOLERANCE)
    sure = rounding <= allowed or (
        rounding <= DOUBTFUL * allowed and _holds_in_other_orders(state, tolerance)
    )
    return state if sure else None


def _holds_in_other_orders(state: EPState, tolerance: float) -> bool:
    """Whether the mismatch is well below the tolerance too when everything is computed with the points permuted.

    That changes nothing but rounding errors, and shows their size if a bound on them is too pessimistic.
    """
    problem, sites = state.problem, state.sites
    if Capability.PERMUTATION not in problem.prior.representation.capabilities:
        return False
    for seed in range(ORDERS):
        rows = np.random.default_rng(seed).permutation(len(sites))
        permuted = replace(
            problem, prior=problem.prior.rows(rows), observations=problem.observations.rows(rows)
        )
        again = state_or_none(permuted, Sites(sites.shift[rows], sites.precision[rows]))
        if again is None or not again.residual <= 0.3 * tolerance:
            return False
    return True


def _rounding(state: EPState) -> float:
    """How far rounding of the marginals may move the tilted moments.

    A flat cavity is a small difference of large precisions, and a remote second mode of the tilted density magnifies
    its error by up to the fourth moment. Where that exceeds the tolerance no claim of convergence can be checked.
    """
    t = state.problem.tilted(*state.cavity, order=4)
    sensitivity = float(np.max(0.25 * (np.asarray(t.c4) / t.var**2 - 1.0)))
    information = float(np.max(np.abs(state.sites.precision) * state.problem.prior.diagonal))
    return 4.0 * np.finfo(float).eps * len(state.sites) * max(1.0, information) * sensitivity


class EP(InferenceRule):
    """Expectation propagation.

    Parameters
    ----------
    tolerance : float
        Largest mismatch of tilted and marginal moments, in posterior standard deviations.
    effort : float
        Work for the search for a fixed point where the fast iteration does not converge, in seconds of one core of a
        usual processor. It is counted in steps, not measured, so that results do not depend on the machine.

    Examples
    --------
    >>> from cavity import GP
    >>> from cavity.inference import EP
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import Probit
    >>> model = GP(1.0 * SE(1.0), Probit(), inference=EP(tolerance=1e-8))
    >>> posterior = model.condition([[0.0], [1.0], [2.0]], [1, 1, -1])
    >>> posterior.status.stage.value, posterior.status.residual < 1e-8
    ('ep', True)
    """

    name = "ep"

    def __init__(self, tolerance: float = TOLERANCE, effort: float = 10.0) -> None:
        if not (is_number(tolerance) and tolerance > 0):
            raise ValueError(f"tolerance must be a positive number, got {tolerance!r}")
        if not (is_number(effort) and effort >= 0):
            raise ValueError(f"effort must be a number of seconds >= 0, inf for no limit, got {effort!r}")
        self.tolerance, self.effort = tolerance, effort

    def __repr__(self) -> str:
        return f"EP(tolerance={self.tolerance!r}, effort={self.effort!r})"

    def for_search(self) -> EP:
        """To a larger mismatch of moments: the evidence is stationary in the sites, so that its error is the square."""
        return EP(max(self.tolerance, SEARCH_TOLERANCE), self.effort)

    def supports(self, likelihood: Likelihood) -> bool:
        """Whether the likelihood has one latent function per observation."""
        return likelihood.n_latent == 1

    def step_limit(self, likelihood: Likelihood) -> float:
        """Change of a parameter, in its unit steps, up to which a branch of fixed points is worth following at once."""
        return np.inf if likelihood.log_concave else LONGEST_STEP

    def _problem(self, prior: LatentPrior, observations: Observations) -> EPProblem:
        likelihood = observations.likelihood
        if not self.supports(likelihood):
            raise UnsupportedPairError(
                f"EP needs one latent function per observation, but {type(likelihood).__name__} has "
                f"{likelihood.n_latent}",
                remedy=("use ", Setting("inference", "laplace"), ", or one-vs-rest classification"),
            )
        self.refuse_several_targets(observations)
        self.refuse_basis(prior)
        return EPProblem(prior, observations)

    # --- solving ---------------------------------------------------------------------------------------------------

    def _fast(
        self, problem: EPProblem, start: Sites, acceleration: Acceleration, lasting: bool = True
    ) -> Solution | None:
        """Stage 1 from one start; unless it must last, the posterior may live in shared memory."""
        newton_first = problem.prior.cheap_squares
        solution = self._log_concave(problem, start, lasting) if newton_first else None
        if solution is not None:
            return solution
        found, best, sweeps = damped(problem, start, self.tolerance, acceleration=acceleration)
        if found is None and not newton_first:
            solution = self._log_concave(problem, start, lasting)
            if solution is not None:
                return solution
        if found is None and problem.prior.n > NEWTON_AFTER and problem.prior.representation.linear_cost:
            found, more = local_sweeps(problem, self.tolerance)
            sweeps += more
        elif found is None and best is not None and problem.prior.n <= NEWTON_AFTER:
            found = self._corrected(problem, best.sites)
            if found is not None and found.proper:
                return Solution(found, Stage.EP_NEWTON, sweeps)
            found = None  # a path from an easy problem may find a proper one
        return None if found is None else Solution(found, Stage.EP, sweeps)

    def _log_concave(self, problem: EPProblem, start: Sites, lasting: bool) -> Solution | None:
        """By Newton's method, if sites have nonnegative precisions."""
        if not problem.likelihood.log_concave:
            return None
        state, sweeps = log_concave_ep(problem, start, self.tolerance)
        if state is not None and lasting:
            state = EPState(problem, state.sites)
        return (
            Solution(state, Stage.EP, sweeps)
            if state is not None and state.residual <= self.tolerance
            else None
        )

    def _solve(
        self, problem: EPProblem, acceleration: Acceleration | None = None, lasting: bool = True
    ) -> Solution | None:
        """A fixed point of EP proper, from scratch."""
        acceleration = Acceleration() if acceleration is None else acceleration
        found = self._fast(problem, Sites.zero(problem.prior.n), acceleration, lasting)
        if found is not None or problem.likelihood.log_concave:
            return found
        return self._continue(problem)

    def _continue(self, problem: EPProblem) -> Solution | None:
        """Stage 2."""
        from cavity.inference.ep.continuation import find_fixed_point

        sites, steps = find_fixed_point(replace(problem, effort=Effort(SEARCH_SHARE * self.effort)))
        return self._certified(problem, sites, Stage.EP_CONTINUATION, steps)

    def _lower_power(self, problem: EPProblem, start: Sites) -> Solution | None:
        """Stage 3: up from the variational solution, the limit of small powers; the largest power is kept."""
        problem = replace(problem, effort=Effort((1.0 - SEARCH_SHARE) * self.effort))
        best, sweeps = None, 0
        for power in POWERS:
            if problem.effort.spent:
                break
            reduced = replace(problem, power=power)
            state = self._corrected(reduced, start)
            if state is None:
                state, _, used = damped(reduced, start, self.tolerance, power)
                sweeps += used
            if state is None:
                break
            best, start = Solution(state, Stage.POWER_EP, sweeps), state.sites
        return best

    def _certified(
        self, problem: EPProblem, sites: Sites | None, stage: Stage, steps: int = 0
    ) -> Solution | None:
        state = None if sites is None else certify(problem, sites, self.tolerance)
        return None if state is None else Solution(state, stage, steps)

    def _corrected(self, problem: EPProblem, start: Sites) -> EPState | None:
        from cavity.inference.ep.cavity_newton import newton_from_sites

        sites = newton_from_sites(problem, start)
        return None if sites is None else certify(problem, sites, self.tolerance)

    # --- the contract ----------------------------------------------------------------------------------------------

    def infer(
        self, prior: LatentPrior, observations: Observations, warm: EPWarm | None = None
    ) -> Approximation:
        """Posterior process, log evidence and status; always something usable, labeled as what it is."""
        problem = self._problem(prior, observations)
        solution = self._remembered(problem, warm) or self._solve(problem)
        if solution is None:
            variational = self._variational(prior, observations)
            start = variational.sites
            assert start is not None
            solution = self._lower_power(problem, start)
            if solution is None:
                return variational
        state = solution.state
        return Approximation(state.q.process(), state.log_evidence, solution.status, state.q)

    def _variational(self, prior: LatentPrior, observations: Observations) -> Approximation:
        """Stage 4."""
        from cavity.inference.variational import Variational

        if not Variational().supports(observations.likelihood):
            raise InferenceFailedError(
                f"EP found no fixed point, and {type(observations.likelihood).__name__} has no variational solution to "
                "fall back on: do observations of the same input contradict each other?"
            )
        result = Variational().infer(prior, observations)
        message = (
            "EP found no fixed point; this is the variational solution, and its bound is the log evidence"
        )
        return replace(result, status=replace(result.status, converged=False, message=message))

    def evidence(
        self, prior: LatentPrior, observations: Observations, warm: EPWarm | None = None
    ) -> Evidence:
        """Log evidence and its exact gradient, staying on the branch of the last evaluation."""
        problem = self._problem(prior, observations)
        if warm is not None and not warm.fits(problem):
            warm = None
        acceleration = Acceleration() if warm is None else warm.acceleration.copy()
        solution = self._on_branch(problem, warm, acceleration, lasting=False)
        state = solution.state
        best = None if warm is None else warm.best
        if best is None or state.log_evidence >= best.log_evidence:
            best = KnownFixedPoint.of(problem, state.sites, state.log_evidence)
        stage = solution.stage if warm is None else warm.stage
        value, d_likelihood = state.log_evidence, state.d_likelihood  # before the pull, which may use up q
        return Evidence(
            value, Gradient.at_fixed_sites(state.q, d_likelihood), EPWarm(best, stage, acceleration)
        )

    def _on_branch(
        self, problem: EPProblem, warm: EPWarm | None, acceleration: Acceleration, lasting: bool = True
    ) -> Solution:
        if warm is None:
            solution = self._solve(problem, acceleration, lasting)
            if solution is None:
                raise InferenceFailedError("EP found no fixed point at these hyperparameters")
            return solution
        failure = InferenceFailedError("EP's branch does not reach these hyperparameters: too long a step")
        if problem.likelihood.log_concave:
            solution = self._fast(problem, warm.best.sites, acceleration, lasting) or self._solve(
                problem, acceleration, lasting
            )
        else:
            solution = None
            if problem.prior.n > NEWTON_FIRST:
                solution = self._fast(problem, warm.best.sites, acceleration)
            if solution is None:
                way = follow(warm.best, problem)
                solution = self._certified(problem, way.sites, Stage.EP)
                if way.sites is None:
                    failure.reached = way.part
        if solution is None:
            raise failure
        return solution

    def _remembered(self, problem: EPProblem, warm: EPWarm | None) -> Solution | None:
        """The fixed point on the branch that an optimization followed."""
        if warm is None or not warm.fits(problem):
            return None
        try:
            return replace(self._on_branch(problem, warm, warm.acceleration.copy()), stage=warm.stage)
        except InferenceFailedError:
            return None

    def _fixed_point(self, problem: EPProblem) -> Solution:
        """Of EP proper, or it is an error."""
        solution = self._solve(problem)
        if solution is None:
            raise InferenceFailedError(
                "EP found no fixed point, so there are no cavities",
                remedy=("use ", Setting("inference", "variational")),
            )
        return solution

    def degrees_of_freedom(self, prior: LatentPrior, observations: Observations) -> float:
        """Effective number of parameters, tr(K R) = sum_i tau_i v_i."""
        q = self._fixed_point(self._problem(prior, observations)).state.q
        return float(q.sites.precision @ q.var)

    def leave_one_out(self, prior: LatentPrior, observations: Observations) -> Prediction:
        """Distribution of each target given the others: the likelihood averaged over the cavity."""
        q = self._fixed_point(self._problem(prior, observations)).state.q
        return observations.likelihood.predictive(*cavities_by_refit(self, q, observations))
