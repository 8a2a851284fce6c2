"""Staying on one branch of fixed points while hyperparameters change.

EP may have several fixed points, and which one plain iterations reach after a long step is a matter of luck. Newton's
method from the known fixed point finds the continuation of its branch where the step is short enough; where it fails,
the step is walked in parts, along a straight line in unconstrained parameters, from predictions by the implicit
derivative of the cavities. A branch may end (two of them meet and vanish): then it is said where.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from cavity.inference.ep.state import EPProblem
from cavity.kernels.base import Kernel
from cavity.latent.sites import Sites
from cavity.likelihoods.base import Likelihood
from cavity.means.functions import Mean
from cavity.numerics.arrays import Array

if TYPE_CHECKING:
    from cavity.inference.ep.cavity_newton import CavityPoint

FIRST_PART, SHORTEST_PART = 0.25, 1.0 / 128
"""Parts of the way that are tried at once."""

ENOUGH = 1e-10
"""Mismatch at which Newton's method ends: its next step would only confirm it."""

LONGEST_WALK = 40
"""Newton solutions after which a walk is given up."""

EPS = 1e-6
"""Part of the way over which derivatives are taken."""

LARGEST = 4.0
"""Largest predicted step of a cavity coordinate."""


@dataclass(frozen=True)
class KnownFixedPoint:
    """A fixed point with the model it belongs to."""

    log_evidence: float
    sites: Sites
    kernel: Kernel
    mean_function: Mean | None
    likelihood: Likelihood

    @classmethod
    def of(cls, problem: EPProblem, sites: Sites, log_evidence: float) -> KnownFixedPoint:
        """To be remembered for the next evaluation."""
        prior = problem.prior
        return cls(log_evidence, sites, prior.kernel, prior.mean_function, problem.likelihood)

    def fits(self, problem: EPProblem) -> bool:
        """Whether the other problem differs in parameter values alone."""
        prior = problem.prior
        pairs = [(self.kernel, prior.kernel), (self.likelihood, problem.likelihood)]
        if (self.mean_function is None) != (prior.mean_function is None):
            return False
        if self.mean_function is not None and prior.mean_function is not None:
            pairs.append((self.mean_function, prior.mean_function))
        return len(self.sites) == prior.n and all(
            type(mine) is type(other) and mine.names == other.names for mine, other in pairs
        )

    def towards(self, problem: EPProblem, part: float) -> EPProblem:
        """The problem at a part of the way from here (0) to there (1)."""
        there = problem.prior
        mean = self.mean_function
        if mean is not None and there.mean_function is not None:
            mean = mean.replace(_between(mean.theta, there.mean_function.theta, part))
        kernel = self.kernel.replace(_between(self.kernel.theta, there.kernel.theta, part))
        likelihood = self.likelihood.replace(_between(self.likelihood.theta, problem.likelihood.theta, part))
        return replace(
            problem, prior=there.at(kernel, mean), observations=problem.observations.under(likelihood)
        )


def _between(a: np.ndarray, b: np.ndarray, part: float) -> np.ndarray:
    return np.asarray((1.0 - part) * a + part * b)


@dataclass(frozen=True)
class Followed:
    """How far a branch could be followed.

    Attributes
    ----------
    sites : Sites or None
        Those at the end of the way, where it was reached.
    part : float
        The part of the way that was gone.
    """

    sites: Sites | None
    part: float


def follow(known: KnownFixedPoint, problem: EPProblem) -> Followed:
    """Follow the known's branch to the problem's parameters.

    After the first attempt, Newton's method starts from a prediction along the branch.
    """
    from cavity.inference.ep.cavity_newton import newton, newton_from_sites

    found = newton_from_sites(problem, known.sites, enough=ENOUGH)
    if found is not None:
        return Followed(found, 1.0)
    point = _point(known.towards(problem, 0.0), known.sites)
    done, part = 0.0, FIRST_PART
    slope: Array | None = None
    for _ in range(LONGEST_WALK):
        if point is None or part < SHORTEST_PART:
            break
        if slope is None:
            slope = _slope(point, known.towards(problem, done + EPS))
            if slope is None:
                break
        goal = min(1.0, done + part)
        there = problem if goal == 1.0 else known.towards(problem, goal)
        guess = point.moved((goal - done) * slope, there) if np.max(np.abs(slope)) * part < LARGEST else None
        new: CavityPoint | None = None if guess is None else newton(guess, enough=ENOUGH)
        if new is None:
            part *= 0.5
        elif goal == 1.0:
            return Followed(new.sites, 1.0)
        else:
            point, done, part, slope = new, goal, 2.0 * part, None
    return Followed(None, done)


def _point(problem: EPProblem, sites: Sites) -> CavityPoint | None:
    from cavity.inference.ep.cavity_newton import ERRORS, CavityPoint
    from cavity.inference.ep.parallel import state_or_none

    state = state_or_none(problem, sites)
    try:
        return None if state is None else CavityPoint.of_state(state)
    except ERRORS:
        return None


def _change(point: CavityPoint, ahead: EPProblem) -> Array | None:
    """Change of the equations at the same cavities, divided by `EPS`."""
    from cavity.inference.ep.cavity_newton import ERRORS, CavityPoint

    try:
        moved = CavityPoint(ahead, point.shift, np.log(point.precision - ahead.min_cavity_precision))
    except ERRORS:
        return None
    return np.asarray((moved.equations - point.equations) / EPS)


def _slope(point: CavityPoint, ahead: EPProblem) -> Array | None:
    """Change of the cavities along the branch."""
    change = _change(point, ahead)
    if change is None:
        return None
    try:
        slope = np.asarray(np.linalg.solve(point.jacobian(), -change))
    except np.linalg.LinAlgError:
        return None
    return slope if np.all(np.isfinite(slope)) else None
