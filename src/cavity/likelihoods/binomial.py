"""Binomial counts: successes among a known number of trials."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, betaln, expit

from cavity.likelihoods.base import (
    Derivatives,
    refuse,
)
from cavity.likelihoods.counts import CountLikelihood
from cavity.likelihoods.exponential_family import ExponentialFamily, NaturalForm
from cavity.numerics.arrays import Array
from cavity.numerics.special import log_sigmoid


class Binomial(ExponentialFamily, CountLikelihood):
    """Successes among a known number of trials, with success probability 1/(1 + exp(-f)).

    Parameters
    ----------
    trials : int or array (n,)
        Number of trials: one for all observations, or one each (then use `rows` and `at` for other data).

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.likelihoods import Binomial
    >>> np.exp(Binomial(2).log_prob(np.array([0, 1, 2]), np.zeros(3))).round(3)
    array([0.25, 0.5 , 0.25])
    """

    def __init__(self, trials: ArrayLike = 1) -> None:
        self.trials = self._checked_trials(trials)
        self._set_up({})

    @staticmethod
    def _checked_trials(trials: ArrayLike) -> Array:
        known = np.array(trials, dtype=float)
        if known.ndim > 1 or not np.all((known >= 1) & (known == np.floor(known))):
            raise ValueError(f"Binomial: trials must be positive integers, one or a vector, got {trials!r}")
        known.setflags(write=False)
        return known

    def at(self, trials: ArrayLike) -> Self:
        """The same model for other numbers of trials."""
        new = self._rebuild(self._params, self._parts)
        new.trials = self._checked_trials(trials)
        return new

    def rows(self, index: Any) -> Self:
        """The trials of some observations."""
        return self.at(self.trials[index]) if self.trials.ndim else self

    def check(self, y: ArrayLike) -> Array:
        """Counts up to the number of trials."""
        counts = super().check(y)
        if self.trials.ndim and self.trials.shape != counts.shape:
            raise ValueError(
                f"Binomial: y has shape {counts.shape}, but trials has shape {self.trials.shape}"
            )
        bad = counts > self.trials
        if bad.any():
            most = np.broadcast_to(self.trials, counts.shape)[np.argmax(bad)]
            refuse(counts, bad, f"Binomial: y must not exceed the trials ({most:g})")
        return counts

    def break_points(self, y: Array) -> Array:
        """Where the expected count equals the count, roughly."""
        return (np.log(y + 0.5) - np.log(np.maximum(self.trials - y, 0.0) + 0.5))[None]

    def _choose(self, y: Array) -> Array:
        """log C(N, y)."""
        return np.asarray(-betaln(self.trials - y + 1, y + 1) - np.log(self.trials + 1))

    def natural_form(self, y: Array) -> NaturalForm:
        """y f - N log(1 + exp(f)) + log C(N, y)."""
        return NaturalForm(y, self.trials, self._choose(y), 0.0, logistic=True)

    def log_prob(self, y: Array, f: Array) -> Array:
        """log C(N, y) + y log sigma(f) + (N - y) log sigma(-f)."""
        N = self.trials
        return np.asarray(self._choose(y) + y * log_sigmoid(f) + (N - y) * log_sigmoid(-f))

    def derivatives(self, y: Array, f: Array) -> Derivatives:
        """y - N p, -N p (1-p), -N p (1-p)(1-2p)."""
        N = self.trials
        p, q = expit(f), expit(-f)
        d2 = -N * p * q
        return Derivatives(self.log_prob(y, f), y * q - (N - y) * p, d2, d2 * (q - p))

    @property
    def largest_count(self) -> Array | float:
        """The trials."""
        return self.trials

    def conditional_cdf(self, y: Array, f: Array) -> Array:
        """Regularized incomplete beta function."""
        N = np.broadcast_to(self.trials, np.broadcast(y, f).shape)
        k = np.minimum(np.floor(np.broadcast_to(y, N.shape)), N)
        inside = (k >= 0) & (k < N)
        a = np.where(inside, N - k, 1.0)
        value = betainc(a, np.where(inside, k + 1, 1.0), expit(-f))
        return np.where(inside, value, np.where(k < 0, 0.0, 1.0))

    def conditional_mean(self, f: Array) -> Array:
        """N sigma(f)."""
        return np.asarray(self.trials * expit(f))

    def _moments(self, mean: Array, var: Array) -> tuple[Array, Array]:
        """From E[p], E[p^2]: probabilities that one and that two trials succeed."""
        spread = var > 0
        p1, p2 = expit(mean), expit(mean) ** 2
        if spread.any():
            m, v = mean[spread], var[spread]
            for k, p in ((1, p1), (2, p2)):
                p[spread] = np.exp(Binomial(k).tilted_normalized(np.full(len(m), float(k)), m, v).log_z)
        N = np.broadcast_to(self.trials, mean.shape)
        return N * p1, N * p1 + N * (N - 1) * p2 - (N * p1) ** 2

    def sample(self, f: ArrayLike, rng: np.random.Generator) -> Array:
        """Binomial draws."""
        f = np.asarray(f, dtype=float)
        N = np.broadcast_to(self.trials, f.shape).astype(np.int64)
        return rng.binomial(N, expit(f)).astype(float)

    def _arguments(self) -> list[str]:
        return [f"trials={self.trials.astype(int).tolist()!r}"]
