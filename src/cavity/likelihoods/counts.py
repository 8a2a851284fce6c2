"""Counts: Poisson and negative binomial with mean exp(f), binomial with success probability 1/(1 + exp(-f)).

All are log-concave and smooth in f. Tilted moments go through adaptive panels (a lognormal rate has no
closed form); Poisson's expected log density is closed form, E[exp(f)] = exp(m + v/2).

Notation: s = f - log r for the negative binomial with shape r, whose variance is mu + mu^2/r.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, betaln, digamma, expit, gammaln, pdtr

from cavity.likelihoods.base import (
    Derivatives,
    ExpectedLogProb,
    Likelihood,
    ParameterDerivatives,
    as_targets,
    first_bad,
)
from cavity.likelihoods.predictive import CountPrediction
from cavity.numerics.arrays import Array
from cavity.numerics.special import log1p_minus, log_sigmoid
from cavity.parameters.param import LOG
from cavity.prediction.distributions import Prediction


class CountLikelihood(Likelihood):
    """What models of non-negative integers share.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.likelihoods import CountLikelihood, Poisson
    >>> isinstance(Poisson(), CountLikelihood)
    True
    >>> prediction = Poisson().predictive(np.log([3.0]), [0.0])
    >>> prediction.mean.round(6), prediction.quantile(0.9)
    (array([3.]), array([5.]))
    """

    log_concave = True
    discrete = True

    def check(self, y: ArrayLike) -> Array:
        """Counts must be non-negative integers."""
        counts = as_targets(y, type(self).__name__)
        bad = (counts < 0) | (counts != np.floor(counts))
        if bad.any():
            value, row = first_bad(counts, bad)
            raise ValueError(
                f"{type(self).__name__}: y must hold non-negative integers (counts), got {value:g} "
                f"at row {row}; for measurements use Gaussian or StudentT"
            )
        return counts

    def break_points(self, y: Array) -> Array:
        """Where the mean equals the count, roughly."""
        return np.log(np.asarray(y, dtype=float) + 0.5)[None]

    @property
    def largest_count(self) -> Array | float:
        """The largest count that can occur: there is none."""
        return np.inf

    def conditional_cdf(self, y: Array, f: Array) -> Array:
        """P(Y <= y | f)."""
        raise NotImplementedError

    def conditional_mean(self, f: Array) -> Array:
        """E[Y | f]."""
        with np.errstate(over="ignore"):
            return np.exp(f)

    def _moments(self, mean: Array, var: Array) -> tuple[Array, Array]:
        """Mean and variance of Y for f ~ N(mean, var)."""
        raise NotImplementedError

    def predictive(self, mean: ArrayLike, var: ArrayLike) -> Prediction:
        """Distribution of a new count, averaged over f ~ N(mean, var)."""
        m: Array = np.asarray(mean, dtype=float)
        v: Array = np.broadcast_to(np.asarray(var, dtype=float), m.shape)
        return CountPrediction(self, m, v, *self._moments(m, v))


def _lognormal_moments(mean: Array, var: Array) -> tuple[Array, Array]:
    """E[exp(f)] and Var[exp(f)]; inf where they exceed double precision."""
    with np.errstate(over="ignore", invalid="ignore"):
        first = np.exp(mean + 0.5 * var)
        second = np.where(var > 0, np.expm1(var) * first * first, 0.0)
    return first, second


class Poisson(CountLikelihood):
    """Counts with mean exp(f): log p = y f - exp(f) - log y!.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.likelihoods import Poisson
    >>> np.exp(Poisson().log_prob(np.array([0, 1, 2]), np.zeros(3))).round(3)
    array([0.368, 0.368, 0.184])
    """

    def __init__(self) -> None:
        self._set_up({})

    def log_prob(self, y: Array, f: Array) -> Array:
        """Log probability; -inf where exp(f) overflows."""
        with np.errstate(over="ignore"):
            return np.asarray(y * f - np.exp(f) - gammaln(y + 1))

    def derivatives(self, y: Array, f: Array) -> Derivatives:
        """y - exp(f), then -exp(f) twice."""
        with np.errstate(over="ignore"):
            rate = np.exp(f)
        return Derivatives(self.log_prob(y, f), y - rate, -rate, -rate)

    def parameter_derivatives(self, y: Array, f: Array) -> ParameterDerivatives:
        """There are no parameters."""
        empty = np.zeros((0, *np.shape(f)))
        return ParameterDerivatives(empty, empty, empty)

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> ExpectedLogProb:
        """y m - exp(m + v/2) - log y!."""
        with np.errstate(over="ignore"):
            rate = np.exp(mean + 0.5 * var)
        value = y * mean - rate - gammaln(y + 1)
        return ExpectedLogProb(value, y - rate, -0.5 * rate, np.zeros((0, len(value))))

    def conditional_cdf(self, y: Array, f: Array) -> Array:
        """Regularized incomplete gamma function."""
        return np.asarray(pdtr(y, self.conditional_mean(f)))

    def _moments(self, mean: Array, var: Array) -> tuple[Array, Array]:
        first, spread = _lognormal_moments(mean, var)
        return first, first + spread

    def sample(self, f: ArrayLike, rng: np.random.Generator) -> Array:
        """Poisson draws; a rate beyond 1e18, which the generator refuses, is returned as it is."""
        rate = self.conditional_mean(np.asarray(f, dtype=float))
        return np.asarray(np.where(rate < 1e18, rng.poisson(np.minimum(rate, 1e18)), rate))


STIRLING_FROM = 30.0
"""From this argument on four terms of Stirling's series give the digamma function to rounding."""


def _digamma_beyond_log(y: Array, r: float) -> Array:
    """digamma(r + y) - digamma(r) - log(1 + y/r), of order y / r^2 for large r, where all three are nearly equal."""
    if r < STIRLING_FROM:
        return np.asarray(digamma(y + r) - digamma(r) - np.log1p(y / r))
    a, b = 1.0 / r**2, 1.0 / (r + y) ** 2
    gap = y * (2.0 * r + y) * a * b  # a - b
    powers = (
        1.0 / 12.0 - (a + b) / 120.0 + (a * a + a * b + b * b) / 252.0 - (a + b) * (a * a + b * b) / 240.0
    )
    return np.asarray(0.5 * y / (r * (r + y)) + gap * powers)


class NegativeBinomial(CountLikelihood):
    """Over-dispersed counts with mean mu = exp(f) and variance mu + mu^2/shape.

    Parameters
    ----------
    shape : float or Param
        r > 0; the Poisson model is the limit of large r.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.likelihoods import NegativeBinomial
    >>> np.exp(NegativeBinomial(1.0).log_prob(np.array([0, 1, 2]), np.zeros(3))).round(3)
    array([0.5  , 0.25 , 0.125])
    """

    _transforms: ClassVar = {"shape": LOG}

    def __init__(self, shape: Any = 1.0) -> None:
        self._set_up({"shape": shape})

    def _constant(self, y: Array) -> Array:
        """log Gamma(y + r) / (Gamma(r) y!), through the beta function so that large r loses nothing."""
        r = self.shape
        positive = np.maximum(y, 1.0)
        return np.where(y > 0, -betaln(r, positive) - np.log(positive), 0.0)

    def log_prob(self, y: Array, f: Array) -> Array:
        """Log probability: constant + y log sigma(s) + r log sigma(-s)."""
        s = f - np.log(self.shape)
        return np.asarray(self._constant(y) + y * log_sigmoid(s) + self.shape * log_sigmoid(-s))

    def derivatives(self, y: Array, f: Array) -> Derivatives:
        """With p = sigma(s): y - (y+r) p, -(y+r) p (1-p), -(y+r) p (1-p)(1-2p)."""
        r = self.shape
        s = f - np.log(r)
        p, q = expit(s), expit(-s)
        d2 = -(y + r) * p * q
        return Derivatives(self.log_prob(y, f), y * q - r * p, d2, d2 * (q - p))

    def parameter_derivatives(self, y: Array, f: Array) -> ParameterDerivatives:
        """In the shape: directly and through s."""
        r = self.shape
        s = f - np.log(r)
        p, q = expit(s), expit(-s)
        pq = p * q
        # log(1 + y/r) + log sigma(-s) = log(1 + u): what is large in digammas and logarithms has canceled by hand
        u = (y * q - r * p) / r
        log_p = _digamma_beyond_log(y, r) + log1p_minus(u, np.log1p(y / r) + log_sigmoid(-s))
        d1 = -p + (y + r) * pq / r
        d2 = -pq + (y + r) * pq * (q - p) / r
        return ParameterDerivatives(log_p[None], d1[None], d2[None])

    def conditional_cdf(self, y: Array, f: Array) -> Array:
        """Regularized incomplete beta function."""
        return np.asarray(betainc(self.shape, y + 1, expit(np.log(self.shape) - f)))

    def _moments(self, mean: Array, var: Array) -> tuple[Array, Array]:
        first, spread = _lognormal_moments(mean, var)
        with np.errstate(over="ignore"):
            return first, first + spread + (spread + first**2) / self.shape

    def sample(self, f: ArrayLike, rng: np.random.Generator) -> Array:
        """A Poisson draw with a gamma-distributed rate."""
        with np.errstate(over="ignore"):
            rate = rng.gamma(self.shape, np.exp(np.asarray(f, dtype=float)) / self.shape)
        return np.asarray(np.where(rate < 1e18, rng.poisson(np.minimum(rate, 1e18)), rate))


class Binomial(CountLikelihood):
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
            value, row = first_bad(counts, bad)
            most = np.broadcast_to(self.trials, counts.shape)[row]
            raise ValueError(f"Binomial: y must not exceed the trials ({most:g}), got {value:g} at row {row}")
        return counts

    def break_points(self, y: Array) -> Array:
        """Where the expected count equals the count, roughly."""
        return (np.log(y + 0.5) - np.log(np.maximum(self.trials - y, 0.0) + 0.5))[None]

    def log_prob(self, y: Array, f: Array) -> Array:
        """log C(N, y) + y log sigma(f) + (N - y) log sigma(-f)."""
        N = self.trials
        choose = -betaln(N - y + 1, y + 1) - np.log(N + 1)
        return np.asarray(choose + y * log_sigmoid(f) + (N - y) * log_sigmoid(-f))

    def derivatives(self, y: Array, f: Array) -> Derivatives:
        """y - N p, -N p (1-p), -N p (1-p)(1-2p)."""
        N = self.trials
        p, q = expit(f), expit(-f)
        d2 = -N * p * q
        return Derivatives(self.log_prob(y, f), y * q - (N - y) * p, d2, d2 * (q - p))

    def parameter_derivatives(self, y: Array, f: Array) -> ParameterDerivatives:
        """There are no parameters."""
        empty = np.zeros((0, *np.shape(f)))
        return ParameterDerivatives(empty, empty, empty)

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
