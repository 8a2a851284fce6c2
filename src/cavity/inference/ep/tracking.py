"""Staying on one branch of fixed points while hyperparameters change.

EP may have several fixed points, and which one plain iterations reach after a long step is a matter of luck. Newton's
method from the known fixed point finds the continuation of its branch where the step is short enough; where it fails,
the step is walked in parts, along a straight line in unconstrained parameters, from predictions by the implicit
derivative of the cavities. A branch may end (two of them meet and vanish): then it is said where, and at what surface.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from cavity.inference.ep.state import Problem
from cavity.kernels.base import Kernel
from cavity.latent.dense import DensePrior
from cavity.latent.sites import Sites
from cavity.likelihoods.base import Likelihood
from cavity.means.functions import Mean
from cavity.numerics.arrays import Array

if TYPE_CHECKING:
    from cavity.inference.ep.cavity_newton import Point

FIRST_PART, SHORTEST_PART = 0.25, 1.0 / 128
"""Parts of the way that are tried at once."""

ENOUGH = 1e-10
"""Mismatch at which Newton's method ends: its next step would only confirm it."""

LONGEST_WALK = 40
"""Newton solutions after which a walk is given up."""

EPS = 1e-6
"""Part of the way over which derivatives are taken."""

NEARLY_SINGULAR = 0.1
"""Smallest singular value of the Jacobian up to which a branch counts as ending where it could not be followed."""

LARGEST = 4.0
"""Largest predicted step of a cavity coordinate."""


@dataclass(frozen=True)
class Landmark:
    """A fixed point with the model it belongs to."""

    log_evidence: float
    sites: Sites
    kernel: Kernel
    mean_function: Mean | None
    likelihood: Likelihood

    @classmethod
    def of(cls, problem: Problem, sites: Sites, log_evidence: float) -> Landmark:
        """To be remembered for the next evaluation."""
        prior = problem.prior
        return cls(log_evidence, sites, prior.kernel, prior.mean_function, problem.likelihood)

    def fits(self, problem: Problem) -> bool:
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

    def towards(self, problem: Problem, part: float) -> Problem:
        """The problem at a part of the way from here (0) to there (1)."""
        there = problem.prior
        mean = self.mean_function
        if mean is not None and there.mean_function is not None:
            mean = mean.replace(_between(mean.theta, there.mean_function.theta, part))
        kernel = self.kernel.replace(_between(self.kernel.theta, there.kernel.theta, part))
        likelihood = self.likelihood.replace(_between(self.likelihood.theta, problem.likelihood.theta, part))
        return replace(problem, prior=DensePrior(kernel, there.X, mean), likelihood=likelihood)


def _between(a: np.ndarray, b: np.ndarray, part: float) -> np.ndarray:
    return np.asarray((1.0 - part) * a + part * b)


@dataclass(frozen=True)
class Walk:
    """How far a branch could be followed.

    Attributes
    ----------
    sites : Sites or None
        Those at the end of the way, where it was reached.
    part : float
        The part of the way that was gone.
    normal : array or None
        Where the branch ends on the way: the normal, in the parameters of kernel, mean function and likelihood, of the
        surface at which it does. There the Jacobian is singular, w'J = 0, and the normal is w' d equations / d theta.
    """

    sites: Sites | None
    part: float
    normal: Array | None = None


def walk(landmark: Landmark, problem: Problem) -> Walk:
    """Follow the landmark's branch to the problem's parameters.

    After the first attempt, Newton's method starts from a prediction along the branch.
    """
    from cavity.inference.ep.cavity_newton import newton, newton_from_sites

    found = newton_from_sites(problem, landmark.sites, enough=ENOUGH)
    if found is not None:
        return Walk(found, 1.0)
    point = _point(landmark.towards(problem, 0.0), landmark.sites)
    done, part = 0.0, FIRST_PART
    slope: Array | None = None
    for _ in range(LONGEST_WALK):
        if point is None or part < SHORTEST_PART:
            break
        if slope is None:
            slope = _slope(point, landmark.towards(problem, done + EPS))
            if slope is None:
                break
        goal = min(1.0, done + part)
        there = problem if goal == 1.0 else landmark.towards(problem, goal)
        guess = point.moved((goal - done) * slope, there) if np.max(np.abs(slope)) * part < LARGEST else None
        new: Point | None = None if guess is None else newton(guess, enough=ENOUGH)
        if new is None:
            part *= 0.5
        elif goal == 1.0:
            return Walk(new.sites, 1.0)
        else:
            point, done, part, slope = new, goal, 2.0 * part, None
    return Walk(None, done, None if point is None else _normal(point))


def _normal(point: Point) -> Array | None:
    """See `Walk`; None where the branch does not seem to end here."""
    left, sizes, _ = np.linalg.svd(point.jacobian())
    if sizes[-1] > NEARLY_SINGULAR:
        return None
    problem, prior, w = point.problem, point.problem.prior, left[:, -1]
    by_kernel = [
        replace(problem, prior=DensePrior(prior.kernel.replace(theta), prior.X, prior.mean_function))
        for theta in _one_by_one(prior.kernel.theta)
    ]
    by_likelihood = [
        replace(problem, likelihood=problem.likelihood.replace(theta))
        for theta in _one_by_one(problem.likelihood.theta)
    ]
    changes = [_change(point, ahead) for ahead in by_kernel + by_likelihood]
    if any(change is None for change in changes):
        return None
    slopes = np.array([w @ change for change in changes])
    normal = np.concatenate(
        [slopes[: len(by_kernel)], _pull_mean_function(point, w), slopes[len(by_kernel) :]]
    )
    size = float(np.linalg.norm(normal))
    return normal / size if 0.0 < size < np.inf else None


def _one_by_one(theta: Array) -> list[Array]:
    """Vectors in which one parameter differs by `EPS`."""
    return list(theta + EPS * np.eye(len(theta)))


def _pull_mean_function(point: Point, w: Array) -> Array:
    """w' d equations / d theta of the mean function, which may have units: d E_q f / d prior mean = I - cov_q T."""
    prior, n = point.problem.prior, point.problem.prior.n
    if prior.mean_function is None:
        return np.zeros(0)
    d_mean = (w[:n] - w[n:] * point.off) / point.sd
    d_prior_mean = d_mean - point.sites.precision * (point.q.covariance @ d_mean)
    return prior.mean_function.to_theta(prior.pull_mean(d_prior_mean))


def _point(problem: Problem, sites: Sites) -> Point | None:
    from cavity.inference.ep.cavity_newton import ERRORS, Point
    from cavity.inference.ep.parallel import state_or_none

    state = state_or_none(problem, sites)
    try:
        return None if state is None else Point.of_state(state)
    except ERRORS:
        return None


def _change(point: Point, ahead: Problem) -> Array | None:
    """Change of the equations at the same cavities, divided by `EPS`."""
    from cavity.inference.ep.cavity_newton import ERRORS, Point

    try:
        moved = Point(ahead, point.shift, np.log(point.precision - ahead.min_cavity_precision))
    except ERRORS:
        return None
    return np.asarray((moved.equations - point.equations) / EPS)


def _slope(point: Point, ahead: Problem) -> Array | None:
    """Change of the cavities along the branch."""
    change = _change(point, ahead)
    if change is None:
        return None
    try:
        slope = np.asarray(np.linalg.solve(point.jacobian(), -change))
    except np.linalg.LinAlgError:
        return None
    return slope if np.all(np.isfinite(slope)) else None
