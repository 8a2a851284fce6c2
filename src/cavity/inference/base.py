"""What every inference rule returns: the posterior process, the log evidence, and an honest status."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from cavity.latent.posterior import PosteriorProcess
    from cavity.sites import Sites

Array = NDArray[np.float64]


class ConvergenceWarning(UserWarning):
    """An approximation or an optimization stopped before it met its own criterion."""


class UnsupportedPairError(ValueError):
    """An inference rule was asked to handle a likelihood or a representation it cannot."""


@dataclass(frozen=True)
class Status:
    """How an inference rule ended.

    Attributes
    ----------
    converged : bool
        Whether the rule's own criterion holds for what is returned.
    stage : str
        Which algorithm found the result ("exact", "newton", "ep", "double loop", "power ep", "variational", ...).
    iterations : int
    residual : float
        The criterion's value: for EP the largest mismatch of moments, for Laplace the norm of the Newton step.
    jitter : float
        What was added to the diagonal of the factorized matrix; 0 nearly always.
    message : str
        Anything a user should know, in a sentence.
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
    """

    process: PosteriorProcess
    log_evidence: float
    status: Status = field(default_factory=Status)
    sites: Sites | None = None
