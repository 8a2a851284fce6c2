"""The EP rule: which solver is tried when, what counts as converged, and what is reported.

Stages, in order; the status names the one that found the point, because accuracy differs by stage:

1. "ep": parallel updates, from a warm start or from zero sites; "ep by newton" where only Newton's method from the
   best of their iterates converged;
2. "ep by continuation": for likelihoods that are not log-concave, a path of fixed points from an easy problem;
3. "ep from the variational solution": Newton's method from the sites of the Gaussian of largest variational bound;
4. "power ep": the largest power below 1 that converges, with its own evidence;
5. "variational": that Gaussian itself; its bound is the evidence reported.

Converged means that everything was recomputed from the sites and that tilted and marginal moments agree to
`TOLERANCE` posterior standard deviations, with a proper posterior and a finite evidence. Cavities may be improper
where the likelihood allows it (a mixture of Gaussians); the status then says "extended".

While hyperparameters are learned, one run of the optimizer stays on one branch: an evaluation starts at the sites of
the last one and must converge from there in the same stage; anything else is a failed evaluation, not a jump.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cavity.inference.base import (
    Approximation,
    Gradient,
    InferenceFailedError,
    Status,
    UnsupportedPairError,
)
from cavity.inference.ep.acceleration import Acceleration
from cavity.inference.ep.effort import Effort
from cavity.inference.ep.log_concave import positive_ep
from cavity.inference.ep.parallel import damped, state_or_none
from cavity.inference.ep.state import TOLERANCE, Problem, State
from cavity.inference.ep.tracking import Landmark, walk
from cavity.latent.conditioned import Conditioned
from cavity.latent.dense import DensePrior
from cavity.latent.sites import Sites
from cavity.likelihoods.base import Likelihood
from cavity.numerics.arrays import Array
from cavity.prediction import Prediction
from cavity.runtime.checks import is_number
from cavity.runtime.errors import Setting

POWERS = (0.05, 0.1, 0.2, 0.35, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Powers tried in turn where EP proper finds no fixed point; the largest that converges is reported."""

NEWTON_FIRST = 300
"""Points up to which a branch is followed by Newton's method rather than by parallel updates from its sites."""

LONGEST_STEP = 0.5
"""Longest step of an optimizer, in unit steps of a free parameter, without log-concavity. Trial steps of L-BFGS are
often ten times as long, and fixed points at their ends have nothing to do with those at their beginnings."""

SEARCH_SHARE = 0.75
"""Part of the effort for EP proper; the rest is for powers below one."""

DOUBTFUL, ORDERS = 100.0, 4
"""How far a bound on rounding errors may exceed the tolerance for them to be measured, and by how many permutations."""

SWEEPS = "sweeps of ep"
"""Key, in `prior.workspace.memory`, of what accelerates the sweeps of the next evaluation."""

GAP_PER_POINT = 0.25
"""Nats per point by which EP's evidence may exceed the variational bound before the status says so."""


@dataclass(frozen=True)
class Solution:
    """A certified fixed point with where it came from."""

    state: State
    stage: str
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
        stage = self.stage + ("" if self.state.proper else ", extended")
        jitter = self.state.q.correction.jitter
        return Status(True, stage, self.iterations, self.state.residual, jitter, "; ".join(notes))


def certify(problem: Problem, sites: Sites, tolerance: float) -> State | None:
    """The state recomputed from nothing but the sites, if it is a fixed point beyond doubt."""
    state = state_or_none(problem, sites)
    if state is None or not state.residual <= tolerance or not np.isfinite(state.log_evidence):
        return None
    if tolerance == np.inf:
        return state
    rounding = _rounding(state)
    sure = rounding <= tolerance or (
        rounding <= DOUBTFUL * tolerance and _holds_in_other_orders(state, tolerance)
    )
    return state if sure else None


def _holds_in_other_orders(state: State, tolerance: float) -> bool:
    """Whether the mismatch is well below the tolerance too when everything is computed with the points permuted.

    That changes nothing but rounding errors, and shows their size where a bound on them is too pessimistic.
    """
    problem, sites = state.problem, state.sites
    prior, n = problem.prior, len(sites)
    for seed in range(ORDERS):
        rows = np.random.default_rng(seed).permutation(n)
        weight = problem.weight if np.ndim(problem.weight) == 0 else np.asarray(problem.weight)[rows]
        permuted = replace(
            problem,
            prior=DensePrior(prior.kernel, prior.X[rows], prior.mean_function),
            likelihood=problem.likelihood.rows(rows),
            y=problem.y[rows],
            weight=weight,
        )
        again = state_or_none(permuted, Sites(sites.shift[rows], sites.precision[rows]))
        if again is None or not again.residual <= 0.3 * tolerance:
            return False
    return True


def _rounding(state: State) -> float:
    """How far rounding of the marginals may move the tilted moments.

    A flat cavity is a small difference of large precisions, and a remote second mode of the tilted density magnifies
    its error by up to the fourth moment. Where that exceeds the tolerance no claim of convergence can be checked.
    """
    t = state.problem.tilted(*state.cavity, order=4)
    sensitivity = float(np.max(0.25 * (np.asarray(t.c4) / t.var**2 - 1.0)))
    information = float(np.max(np.abs(state.sites.precision) * state.problem.prior.diagonal))
    return 4.0 * np.finfo(float).eps * len(state.sites) * max(1.0, information) * sensitivity


class EP:
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
    >>> posterior.status.stage, posterior.status.residual < 1e-8
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

    def supports(self, likelihood: Likelihood) -> bool:
        """Whether the likelihood has one latent function per observation."""
        return likelihood.n_latent == 1

    def longest_step(self, likelihood: Likelihood) -> float:
        """Change of a parameter, in its unit steps, up to which a branch of fixed points is worth following at once."""
        return np.inf if likelihood.log_concave else LONGEST_STEP

    def _problem(
        self,
        prior: DensePrior,
        likelihood: Likelihood,
        y: Array,
        sample_weight: Array | None,
        power: float = 1.0,
    ) -> Problem:
        if not self.supports(likelihood):
            raise UnsupportedPairError(
                f"EP needs one latent function per observation, but {type(likelihood).__name__} has "
                f"{likelihood.n_latent}",
                remedy=("use ", Setting("inference", "laplace"), ", or one-vs-rest classification"),
            )
        if y.ndim != 1:
            raise UnsupportedPairError(
                f"EP handles one target at a time, got y of shape {y.shape}; fit a model per column"
            )
        _refuse_vague(prior)
        return Problem(prior, likelihood, y, 1.0 if sample_weight is None else sample_weight, power)

    # --- solving ---------------------------------------------------------------------------------------------------

    def _fast(self, problem: Problem, start: Sites, lasting: bool = True) -> Solution | None:
        """Stage 1 from one start; where it need not last, the posterior may live in the prior's workspace."""
        if problem.likelihood.log_concave:
            state, sweeps = positive_ep(problem, start, self.tolerance)
            if state is not None and lasting:
                state = _with_conditioned(state)
            if state is not None and state.residual <= self.tolerance:
                return Solution(state, "ep", sweeps)
        acceleration = problem.prior.workspace.memory.setdefault(SWEEPS, Acceleration())
        found, best, sweeps = damped(problem, start, self.tolerance, acceleration=acceleration)
        if found is None and best is not None and problem.prior.n <= NEWTON_FIRST:
            found = self._corrected(problem, best.sites)
            if (
                found is not None and found.proper
            ):  # otherwise a path from an easy problem may find a proper one
                return Solution(found, "ep by newton", sweeps)
            found = None
        return None if found is None else Solution(found, "ep", sweeps)

    def _solve(self, problem: Problem, lasting: bool = True) -> Solution | None:
        """A fixed point of EP proper, from scratch."""
        found = self._fast(problem, Sites.zero(problem.prior.n), lasting)
        if found is not None or problem.likelihood.log_concave:
            return found
        return self._continue(problem)

    def _continue(self, problem: Problem) -> Solution | None:
        """Stage 2."""
        from cavity.inference.ep.continuation import find_fixed_point

        sites, steps = find_fixed_point(problem, Effort(SEARCH_SHARE * self.effort))
        if sites is None:
            return None
        state = certify(problem, sites, self.tolerance)
        return None if state is None else Solution(state, "ep by continuation", steps)

    def _from_variational(self, problem: Problem, start: Sites) -> Solution | None:
        """Stage 3."""
        state = self._corrected(problem, start)
        return None if state is None else Solution(state, "ep from the variational solution", 0)

    def _lower_power(self, problem: Problem, start: Sites) -> Solution | None:
        """Stage 4: up from the variational solution, the limit of small powers; the largest power is kept."""
        effort = Effort((1.0 - SEARCH_SHARE) * self.effort)
        best, sweeps = None, 0
        for power in POWERS:
            if effort.spent:
                break
            reduced = replace(problem, power=power)
            state = self._corrected(reduced, start, effort)
            if state is None:
                state, _, used = damped(reduced, start, self.tolerance, power, effort=effort)
                sweeps += used
            if state is None:
                break
            best, start = Solution(state, "power ep", sweeps), state.sites
        return best

    # --- the contract ----------------------------------------------------------------------------------------------

    def infer(
        self, prior: DensePrior, likelihood: Likelihood, y: Array, sample_weight: Array | None = None
    ) -> Approximation:
        """Posterior process, log evidence and status; always something usable, labeled as what it is."""
        problem = self._problem(prior, likelihood, y, sample_weight)
        solution = self._remembered(problem) or self._solve(problem)
        if solution is None:
            variational = self._variational(prior, likelihood, y, sample_weight)
            assert variational.sites is not None
            start = variational.sites
            solution = self._from_variational(problem, start) or self._lower_power(problem, start)
            if solution is None:
                return variational
        state = solution.state
        return Approximation(state.q.process(), state.log_evidence, self._status(solution), state.sites)

    def _status(self, solution: Solution) -> Status:
        status = solution.status
        if solution.state.problem.likelihood.log_concave:
            return status
        gap = solution.state.log_evidence - _lower_bound(solution.state)
        if gap <= GAP_PER_POINT * solution.state.problem.prior.n:
            return status
        note = f"EP's log evidence exceeds the variational lower bound of its own posterior by {gap:.1f} nats: check it"
        message = "; ".join(part for part in (status.message, note) if part)
        return Status(True, status.stage, status.iterations, status.residual, status.jitter, message)

    def _variational(
        self, prior: DensePrior, likelihood: Likelihood, y: Array, sample_weight: Array | None
    ) -> Approximation:
        from cavity.inference.variational.rule import Variational

        if not Variational().supports(likelihood):
            raise InferenceFailedError(
                f"EP found no fixed point, and {type(likelihood).__name__} has no variational solution to fall back "
                "on: do observations of the same input contradict each other?"
            )
        result = Variational().infer(prior, likelihood, y, sample_weight)
        old = result.status
        message = (
            "EP found no fixed point; this is the variational solution, and its bound is the log evidence"
        )
        status = Status(False, "variational", old.iterations, old.residual, old.jitter, message)
        return Approximation(result.process, result.log_evidence, status, result.sites)

    def evidence(
        self, prior: DensePrior, likelihood: Likelihood, y: Array, sample_weight: Array | None = None
    ) -> tuple[float, Gradient]:
        """Log evidence and its exact gradient, staying on the branch of the last evaluation."""
        problem = self._problem(prior, likelihood, y, sample_weight)
        solution = self._on_branch(problem, lasting=False)
        state = solution.state
        memory = prior.workspace.memory
        memory["ep"] = state.sites
        memory.setdefault("ep stage", solution.stage)  # that of the first point: the others follow it
        best: Landmark | None = memory.get("ep best")
        if best is None or state.log_evidence >= best.log_evidence:
            memory["ep best"] = Landmark.of(problem, state.sites, state.log_evidence)
        pulled = state.q.pull(1.0)
        d_likelihood = state.tilted.d_log_z.sum(axis=1)
        return state.log_evidence, Gradient(pulled.kernel, pulled.mean, d_likelihood)

    def _on_branch(self, problem: Problem, lasting: bool = True) -> Solution:
        memory = problem.prior.workspace.memory
        last: Sites | None = memory.get("ep")
        best: Landmark | None = memory.get("ep best")
        if last is None or best is None or len(last) != problem.prior.n or not best.fits(problem):
            memory.pop("ep best", None)
            memory.pop("ep stage", None)
            solution = self._solve(problem, lasting)
            if solution is None:
                raise InferenceFailedError("EP found no fixed point at these hyperparameters")
            return solution
        failure = InferenceFailedError("EP's branch does not reach these hyperparameters: too long a step")
        if problem.likelihood.log_concave:
            solution = self._fast(problem, last, lasting) or self._solve(problem, lasting)
        else:
            # An optimizer returns to its best point: a trial that strayed must not take the following ones along.
            solution = None if problem.prior.n <= NEWTON_FIRST else self._fast(problem, best.sites)
            if solution is None:
                way = walk(best, problem)
                solution = self._certified(problem, way.sites)
                if way.sites is None:
                    failure.reached, failure.normal = way.part, way.normal
        if solution is None:
            raise failure
        return solution

    def _remembered(self, problem: Problem) -> Solution | None:
        """The fixed point on the branch that an optimization followed, where the workspace remembers one."""
        memory = problem.prior.workspace.memory
        if "ep best" not in memory:
            return None
        stage = memory.get("ep stage", "ep")
        try:
            return replace(self._on_branch(problem), stage=stage)
        except InferenceFailedError:
            return None

    def _certified(self, problem: Problem, sites: Sites | None) -> Solution | None:
        state = None if sites is None else certify(problem, sites, self.tolerance)
        return None if state is None else Solution(state, "ep", 0)

    def _corrected(self, problem: Problem, start: Sites, effort: Effort | None = None) -> State | None:
        from cavity.inference.ep.cavity_newton import newton_from_sites

        sites = newton_from_sites(problem, start, effort)
        return None if sites is None else certify(problem, sites, self.tolerance)

    def _fixed_point(self, problem: Problem) -> Solution:
        """Of EP proper, or it is an error."""
        solution = self._solve(problem)
        if solution is None:
            raise InferenceFailedError(
                "EP found no fixed point, so there are no cavities",
                remedy=("use ", Setting("inference", "variational")),
            )
        return solution

    def leave_one_out_log_prob(
        self, prior: DensePrior, likelihood: Likelihood, y: Array, sample_weight: Array | None = None
    ) -> tuple[float, Gradient]:
        """Not available with a gradient."""
        raise UnsupportedPairError(
            "leave-one-out learning needs exact inference (Gaussian noise); use objective='evidence' with ep"
        )

    def degrees_of_freedom(self, prior: DensePrior, likelihood: Likelihood, y: Array) -> float:
        """Effective number of parameters, tr(K R) = sum_i tau_i v_i."""
        solution = self._fixed_point(self._problem(prior, likelihood, y, None))
        return float(solution.state.sites.precision @ solution.state.q.var)

    def leave_one_out(
        self, prior: DensePrior, likelihood: Likelihood, y: Array, sample_weight: Array | None = None
    ) -> Prediction:
        """Distribution of each target given the others: the likelihood averaged over the cavity."""
        problem = self._problem(prior, likelihood, y, sample_weight)
        shift, precision = self._fixed_point(problem).state.cavity
        ordinary = precision > 0
        mean, var = shift / np.where(ordinary, precision, 1.0), 1.0 / np.where(ordinary, precision, 1.0)
        for i in np.flatnonzero(~ordinary):
            # No proper cavity says what the others know: leave the point out in earnest.
            mean[i], var[i] = self._without(problem, int(i))
        return likelihood.predictive(mean, var)

    def _without(self, problem: Problem, i: int) -> tuple[float, float]:
        """Mean and variance of f_i from a fit without row i."""
        prior = problem.prior
        rows = np.delete(np.arange(prior.n), i)
        smaller = DensePrior(prior.kernel, prior.X[rows], prior.mean_function)
        weight = None if np.ndim(problem.weight) == 0 else np.asarray(problem.weight)[rows]
        process = self.infer(smaller, problem.likelihood.rows(rows), problem.y[rows], weight).process
        at = prior.X[i : i + 1]
        return float(process.mean(at)[0]), float(process.variance(at)[0])


def _with_conditioned(state: State) -> State:
    """The same sites on the full posterior object, whose means are more accurate; the variances are kept.

    The tilted moments are computed again: evidence terms of slightly different means would not cancel.
    """
    q = Conditioned(state.problem.prior, state.sites)
    q.__dict__["var"] = state.q.var
    return State(state.problem, state.sites, q)


def _lower_bound(state: State) -> float:
    """E_q log p(y|f) - KL(q || prior) at the EP solution (thesis eq. 6.13)."""
    from cavity.inference.variational.elbo import evidence_lower_bound

    problem = state.problem
    weight = None if np.ndim(problem.weight) == 0 else np.asarray(problem.weight)
    return float(evidence_lower_bound(state.q, problem.likelihood, problem.y, weight))


def _refuse_vague(prior: DensePrior) -> None:
    from cavity.means.basis import Basis

    if isinstance(prior.mean_function, Basis):
        raise UnsupportedPairError(
            "basis functions with integrated weights need exact inference; put them into the kernel "
            "(a Linear or Polynomial kernel with a finite variance) or use a mean function with learned coefficients"
        )
