"""Filtering one observation at a time, and the distribution of the next observation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cavity.em.components import Components, Params, mixed, responsibilities
from cavity.numerics.arrays import Array


@dataclass(frozen=True)
class Forecast:
    """Distribution of the next observation of each of S sequences: a mixture of the states' emissions.

    Attributes
    ----------
    state_probs : (S, K)
    mean : (S, D)
    covariance : (S, D, D)
        Where a possible state has Student-t emissions with two degrees of freedom or fewer, variances are
        infinite and covariances of different features NaN: they do not exist.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.em import HMM
    >>> X = np.random.default_rng(0).normal(np.repeat([[0.0], [5.0]], 50, axis=0))
    >>> forecast = HMM(2, random_state=0).fit(X).predict_next(X)
    >>> forecast.state_probs.round(1), forecast.mean.shape
    (array([[0., 1.]]), (1, 1))
    """

    state_probs: Array
    mean: Array
    covariance: Array
    family: Components
    params: Params

    def log_prob(self, x: ArrayLike) -> Array:
        """Log density of an observation x (S, D) for each sequence, (S,)."""
        rows = np.atleast_2d(np.asarray(x, dtype=float))
        if rows.shape != self.mean.shape:
            raise ValueError(
                f"x has shape {rows.shape}, expected {self.mean.shape}: one observation per sequence"
            )
        with np.errstate(divide="ignore"):
            logs = self.family.log_prob(self.params, rows) + np.log(self.state_probs)
        return responsibilities(logs)[0]


def forecast(family: Components, params: Params, state_probs: Array) -> Forecast:
    """Mean and covariance of the mixture of emissions with the given state probabilities (S, K)."""
    means = family.mean(params)
    mean = state_probs @ means
    within = mixed(state_probs, family.covariance(params))
    dev = means[None] - mean[:, None, :]
    between = np.einsum("sk,ski,skj->sij", state_probs, dev, dev)
    return Forecast(state_probs, mean, within + between, family, params)


class OnlineFilter:
    """Forward recursion, one observation at a time.

    Attributes
    ----------
    state_probs : (K,)
        P(state now | observations so far); start probabilities before the first observation.
    log_likelihood : float
        Log-likelihood of the observations so far.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.em import HMM
    >>> X = np.random.default_rng(0).normal(np.repeat([[0.0], [5.0]], 50, axis=0))
    >>> online = HMM(2, random_state=0).fit(X).online()
    >>> [int(online.update(x).argmax()) for x in ([0.1], [4.9])]
    [0, 1]
    """

    def __init__(
        self, startprob: Array, transmat: Array, family: Components, params: Params, allow_nan: bool = False
    ) -> None:
        self._startprob, self._transmat = startprob, transmat
        self._family, self._params = family, params
        self._allow_nan = allow_nan
        self.reset()

    def reset(self) -> None:
        """Forget all observations."""
        self._ahead = self._startprob
        self.state_probs = self._startprob
        self.log_likelihood = 0.0

    def update(self, x: ArrayLike) -> Array:
        """Take one observation (D,) and return the filtered state probabilities (K,)."""
        row = np.asarray(x, dtype=float).reshape(1, -1)
        if row.shape[1] != self._family.n_features:
            raise ValueError(f"x has {row.shape[1]} features, the model has {self._family.n_features}")
        if np.isnan(row).any() and not self._allow_nan:
            raise ValueError(
                "x contains NaN: build the model with allow_nan=True to integrate missing entries out"
            )
        self._family.check_data(row)
        with np.errstate(divide="ignore"):
            logs = self._family.log_prob(self._params, row) + np.log(self._ahead)
        gain, probs = responsibilities(logs)
        if not np.isfinite(gain[0]):
            raise ValueError(f"the observation {row[0]} has zero probability under the model")
        self.log_likelihood += float(gain[0])
        self.state_probs = probs[0]
        self._ahead = self.state_probs @ self._transmat
        return self.state_probs

    def predict(self) -> Forecast:
        """Distribution of the next observation."""
        return forecast(self._family, self._params, self._ahead[None])
