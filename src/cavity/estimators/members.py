"""What an estimator is made of: one fitted model, or several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from cavity.gp import GP
from cavity.kernels import Kernel
from cavity.learning import Run, SearchResult
from cavity.learning.training_rows import TrainingRows
from cavity.likelihoods import Likelihood
from cavity.numerics.arrays import Array
from cavity.posterior import Posterior
from cavity.runtime.stop_reason import StopReason


@dataclass(frozen=True)
class Member:
    """One fitted model of an estimator.

    Attributes
    ----------
    name : str
        What it tells apart, as in "setosa against the rest"; empty if it is the only one.
    search : SearchResult
        How its hyperparameters were learned.
    posterior : Posterior or SamplePosterior
    rows : TrainingRows
        The rows that it was fitted to.
    """

    name: str
    search: SearchResult
    posterior: Posterior
    rows: TrainingRows

    @property
    def model(self) -> GP:
        """The model with learned values."""
        return self.posterior.model

    @property
    def kernel(self) -> Kernel:
        """The kernel with learned values."""
        return self.model.kernel

    @property
    def mean(self) -> Any:
        """The mean function with learned values."""
        return self.model.mean

    @property
    def likelihood(self) -> Likelihood:
        """The likelihood with learned values."""
        return self.model.likelihood

    @property
    def runs(self) -> tuple[Run, ...]:
        """Every run of the optimizer."""
        return self.search.runs

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended its learning, or its chains."""
        trace = getattr(self.posterior, "trace", None)
        return self.search.stopped is StopReason.INTERRUPTED or (trace is not None and trace.interrupted)

    def log_probabilities(self, X: Array) -> Array:
        """Of the labels in increasing order, averaged over the posterior of f; they add up to one."""
        n_latent = self.likelihood.n_latent
        values = np.arange(n_latent) if n_latent > 1 else np.array([-1.0, 1.0])
        prediction = self.posterior.predict_y(X)
        log_p = np.column_stack([prediction.log_prob(np.full(len(X), value)) for value in values])
        return np.asarray(log_p - logsumexp(log_p, axis=1, keepdims=True))
