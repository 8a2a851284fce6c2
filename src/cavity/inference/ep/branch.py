"""Staying on one branch of fixed points while hyperparameters change.

EP may have several fixed points, and which one plain iterations reach after a long step is a matter of luck. Newton's
method from the known fixed point finds the continuation of its branch where the step is short enough; where it fails,
the step is walked in parts, along a straight line in unconstrained parameters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cavity.inference.ep.state import Problem
from cavity.kernels.base import Kernel
from cavity.latent.dense import DensePrior
from cavity.likelihoods.base import Likelihood
from cavity.means import Mean
from cavity.sites import Sites

FIRST_PART, SHORTEST_PART = 0.25, 1.0 / 128
"""Parts of the way that are tried at once."""

ENOUGH = 1e-10
"""Mismatch at which Newton's method ends: its next step would only confirm it."""

LONGEST_WALK = 40
"""Newton solutions after which a walk is given up."""


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


def walk(landmark: Landmark, problem: Problem) -> Sites | None:
    """Sites of the fixed point that the landmark's branch leads to; None where it ends or the way is too long."""
    from cavity.inference.ep.points import newton_from_sites

    sites, done, part = landmark.sites, 0.0, 1.0
    for _ in range(LONGEST_WALK):
        goal = min(1.0, done + part)
        found = newton_from_sites(problem if goal == 1.0 else landmark.towards(problem, goal), sites, ENOUGH)
        if found is not None:
            if goal == 1.0:
                return found
            sites, done, part = found, goal, 2.0 * part
            continue
        part = min(0.5 * part, FIRST_PART) if done == 0.0 else 0.5 * part
        if part < SHORTEST_PART:
            return None
    return None
