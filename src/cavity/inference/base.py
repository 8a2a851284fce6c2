"""What every inference rule answers: the posterior process, the log evidence, and an honest status.

An inference rule is an object with a `name` and

- `supports(likelihood)`: whether it can handle the likelihood at all;
- `infer(prior, likelihood, y, sample_weight=None)`: an `Approximation`;
- `evidence(prior, likelihood, y, sample_weight=None)`: log evidence and its `Gradient`, for learning. It may
  remember what helps the next evaluation in `prior.workspace.memory`, and raises `InferenceFailedError` where
  the value would not be comparable with the last one (no convergence, another branch, another stage);
- `leave_one_out(prior, likelihood, y, sample_weight=None)`: a `Prediction` of each target given the others.

An unsupported pair raises `UnsupportedPairError`, which names alternatives. A sample weight w means that the
likelihood factor is raised to the power w.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.numerics.arrays import Array
from cavity.runtime.errors import Described, InputError, Text

if TYPE_CHECKING:
    from cavity.latent.process import PosteriorProcess
    from cavity.latent.sites import Sites


class ConvergenceWarning(Described, UserWarning):
    """An approximation or an optimization stopped before it met its own criterion."""


class InferenceFailedError(Described, np.linalg.LinAlgError):
    """An evaluation of the evidence that cannot be used by an optimizer; the message says why.

    Where it is known, `reached` is the part of the way from the run's best evaluation up to which its solution could be
    followed, and `normal` the direction in `theta` in which it ends there, whatever the way.
    """

    def __init__(
        self, problem: Text, reached: float | None = None, normal: Array | None = None, *, remedy: Text = ()
    ) -> None:
        super().__init__(problem, remedy=remedy)
        self.reached, self.normal = reached, normal


def samples(rule: Any) -> bool:
    """Whether a rule samples: it draws from the posterior of a whole model instead of approximating it."""
    return hasattr(rule, "sample_posterior")


class UnsupportedPairError(InputError):
    """An inference rule was asked to handle a likelihood or a representation it cannot."""


@dataclass(frozen=True)
class Status:
    """How an inference rule ended.

    Attributes
    ----------
    converged : bool
        Whether the rule's own criterion holds for what is returned.
    stage : str
        Which algorithm found the result ("exact", "newton", "ep", "double loop", "power ep", "variational",
        ...).
    iterations : int
    residual : float
        The criterion's value: for EP the largest mismatch of moments, for Laplace the norm of the Newton
        step.
    jitter : float
        What was added to the diagonal of the factorized matrix; 0 nearly always.
    message : str
        Anything a user should know, in a sentence.

    Examples
    --------
    >>> from cavity import GP
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import Probit
    >>> status = GP(1.0 * SE(1.0), Probit(), inference="laplace").condition([[0.0], [1.0]], [1, -1]).status
    >>> status.converged, status.stage
    (True, 'newton')
    """

    converged: bool = True
    stage: str = "exact"
    iterations: int = 0
    residual: float = 0.0
    jitter: float = 0.0
    message: str = ""


@dataclass(frozen=True)
class Gradient:
    """Derivatives of a scalar in the natural (flat) values of the three parts of a model."""

    kernel: Array
    mean: Array
    likelihood: Array

    @property
    def flat(self) -> Array:
        """All of them, in the order of `GP.flat`."""
        return np.concatenate([self.kernel, self.mean, self.likelihood])


@dataclass(frozen=True)
class Approximation:
    """A Gaussian posterior process with its log evidence.

    Attributes
    ----------
    process : PosteriorProcess
    log_evidence : float
    status : Status
    sites : Sites or None
        None for exact inference, where the likelihood is itself Gaussian.

    Examples
    --------
    >>> from cavity import GP
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import Probit
    >>> approximation = GP(1.0 * SE(1.0), Probit()).condition([[0.0], [1.0]], [1, -1]).approximation
    >>> len(approximation.sites), round(approximation.log_evidence, 2)
    (2, -1.6)
    """

    process: PosteriorProcess
    log_evidence: float
    status: Status = field(default_factory=Status)
    sites: Sites | None = None
