"""Distributions of one number: everything that a `Prediction` answers, and modes, highest-density regions, decisions.

Parameters may be arrays: a `Distribution` then stands for one case each, and results have their shape. With plain
numbers results are plain numbers too. Families are those of `scipy.stats`, and any other of its distributions is one by
`from_scipy`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from scipy.special import logsumexp

from cavity.bayes.regions import Region, centered_interval, highest_density
from cavity.numerics.arrays import Array
from cavity.prediction.base import Prediction, Seed, check_levels
from cavity.prediction.continuous import invert_cdf
from cavity.runtime.errors import InputError


class Distribution(Prediction):
    """A distribution of one number, or of one number in each of several cases.

    Examples
    --------
    >>> from cavity.bayes import Beta, Distribution
    >>> isinstance(Beta(3, 5), Distribution), round(float(Beta(10, 6).probability(0.5, 0.75)), 3)
    (True, 0.701)
    """

    discrete: bool = False
    """Whether values are whole numbers."""

    @property
    @abstractmethod
    def support(self) -> tuple[Any, Any]:
        """Smallest and largest possible value."""

    @abstractmethod
    def cases(self) -> Iterator[Distribution]:
        """The distribution of each case."""

    def probability(self, low: ArrayLike = -np.inf, high: ArrayLike = np.inf) -> Any:
        """Probability of a value between `low` and `high`; of discrete values both ends count.

        An interval of no length has no probability under a density, whatever the data: that is refused.
        """
        a, b = np.asarray(low, dtype=float), np.asarray(high, dtype=float)
        if np.any(a > b):
            raise InputError(f"must not exceed high, got {low!r} and {high!r}", parameter="low", value=low)
        if self.discrete:
            return self.cdf(b) - self.cdf(np.ceil(a) - 1.0)
        if np.any(a == b):
            raise InputError(
                f"and high are equal ({low!r}): under a density every single value has probability zero",
                parameter="low",
                value=low,
                remedy="give an interval, or compare two models by their evidence",
            )
        left, right = self.cdf(b) - self.cdf(a), self.survival(a) - self.survival(b)
        return np.where(np.asarray(self.cdf(a)) < 0.5, left, right)[()]

    @property
    def mode(self) -> Any:
        """The most probable value; the middle of a region of equal density."""
        found = np.array([_mode(case) for case in self.cases()])
        return found.reshape(np.shape(self.mean))[()]

    def highest_density(self, level: float = 0.95) -> Region:
        """The smallest region that holds a fraction `level`: a union of intervals, if there are several modes.

        Found from densities, not from draws. A region of whole numbers holds at least `level`, and says how much.
        """
        return highest_density(self._only_case("highest_density"), level)

    def centered(self, level: float = 0.95, around: str | float = "mean") -> tuple[float, float]:
        """The interval around mean, median, mode or a given value, equally far on both sides, that holds `level`."""
        one = self._only_case("centered")
        center = getattr(one, around) if isinstance(around, str) else around
        return centered_interval(one, level, float(center))

    def decide(self, loss: str | Callable[[Array, float], Array] = "squared", width: float = 0.0) -> float:
        """The action with the least expected loss (`cavity.bayes.best_action`)."""
        from cavity.bayes.decisions import best_action

        return best_action(self._only_case("decide"), loss, width).action

    def _only_case(self, what: str) -> Distribution:
        if np.ndim(self.mean):
            raise InputError(
                f"{what} is for one distribution, this one has {np.size(self.mean)} cases; use cases()"
            )
        return self


def _mode(one: Distribution) -> float:
    from cavity.bayes.regions import log_density_grid

    x, log_p = log_density_grid(one)
    top = int(np.argmax(log_p))
    flat = np.flatnonzero(log_p >= log_p[top] - 1e-12)
    if one.discrete or len(flat) > 2:
        return float(x[flat].mean()) if not one.discrete else float(x[top])
    from scipy.optimize import minimize_scalar

    a, b = x[max(top - 1, 0)], x[min(top + 1, len(x) - 1)]
    low, high = one.support
    for end in (low, high):  # a density that rises to the edge of its support
        if np.isfinite(end) and x[top] in (x[0], x[-1]) and float(one.log_prob(end)) >= log_p[top]:
            return float(end)
    found = minimize_scalar(
        lambda t: -float(one.log_prob(t)), bounds=(a, b), method="bounded", options={"xatol": 1e-12}
    )
    return float(found.x)


class ScipyDistribution(Distribution):
    """A distribution of `scipy.stats`.

    Examples
    --------
    >>> from scipy import stats
    >>> from cavity.bayes import from_scipy
    >>> wait = from_scipy(stats.expon(scale=2.0))
    >>> round(float(wait.mean), 3), wait.highest_density(0.5).intervals[0][0]
    (2.0, 0.0)
    """

    def __init__(self, frozen: Any) -> None:
        self._frozen = frozen
        self.discrete = hasattr(frozen.dist, "pmf")

    def cases(self) -> Iterator[Distribution]:
        """Each with its own parameters."""
        shape = np.shape(self.mean)
        if not shape:
            yield self
            return
        names = dict(self._frozen.kwds)
        for index in np.ndindex(shape):
            args = [np.broadcast_to(a, shape)[index] for a in self._frozen.args]
            keywords = {k: np.broadcast_to(v, shape)[index] for k, v in names.items()}
            yield ScipyDistribution(self._frozen.dist(*args, **keywords))

    @property
    def support(self) -> tuple[Any, Any]:
        """Smallest and largest possible value."""
        low, high = self._frozen.support()
        return low, high

    @property
    def mean(self) -> Any:
        """Mean; nan or inf if there is none."""
        return np.asarray(self._frozen.mean())[()]

    @property
    def variance(self) -> Any:
        """Variance; inf if there is none."""
        return np.asarray(self._frozen.var())[()]

    def log_prob(self, y: ArrayLike) -> Any:
        """Log density, or log probability of a whole number."""
        y = np.asarray(y, dtype=float)
        log = self._frozen.logpmf if self.discrete else self._frozen.logpdf
        return np.asarray(log(y))[()]

    def cdf(self, y: ArrayLike) -> Any:
        """Probability of a value <= y."""
        return np.asarray(self._frozen.cdf(np.asarray(y, dtype=float)))[()]

    def survival(self, y: ArrayLike) -> Any:
        """Probability of a value > y."""
        return np.asarray(self._frozen.sf(np.asarray(y, dtype=float)))[()]

    def quantile(self, q: ArrayLike) -> Any:
        """Shape of q, then that of the cases."""
        levels = check_levels(q)
        shape = np.shape(self.mean)
        return np.asarray(self._frozen.ppf(levels.reshape(levels.shape + (1,) * len(shape))))[()]

    def sample(self, size: int = 1, rng: Seed = None) -> Array:
        """Draws, shape (size,) and then that of the cases."""
        shape = (size, *np.shape(self.mean))
        return np.asarray(self._frozen.rvs(size=shape, random_state=np.random.default_rng(rng)), dtype=float)

    def __repr__(self) -> str:
        given = [f"{np.asarray(a).tolist()!r}" for a in self._frozen.args]
        given += [f"{k}={np.asarray(v).tolist()!r}" for k, v in self._frozen.kwds.items()]
        return f"{self._frozen.dist.name}({', '.join(given)})"


def from_scipy(frozen: Any) -> ScipyDistribution:
    """A frozen distribution of `scipy.stats`, such as `stats.norm(0.0, 2.0)`, as a `Distribution`.

    Examples
    --------
    >>> from scipy import stats
    >>> from cavity.bayes import from_scipy
    >>> round(float(from_scipy(stats.weibull_min(1.5)).mode), 3)
    0.481
    """
    if not hasattr(frozen, "dist") or not hasattr(frozen, "ppf"):
        raise InputError(
            f"must be a frozen distribution of scipy.stats, got {frozen!r}",
            parameter="frozen",
            value=frozen,
            remedy="give its parameters, as in stats.norm(0.0, 2.0)",
        )
    return ScipyDistribution(frozen)


class Mixture(Distribution):
    """A weighted average of distributions, all discrete or all continuous.

    Examples
    --------
    >>> from scipy import stats
    >>> from cavity.bayes import Mixture, from_scipy
    >>> two = Mixture([from_scipy(stats.norm(-2.0, 0.5)), from_scipy(stats.norm(2.0, 0.5))], [0.5, 0.5])
    >>> [(round(a, 3), round(b, 3)) for a, b in two.highest_density(0.95).intervals]
    [(-2.98, -1.02), (1.02, 2.98)]
    """

    def __init__(self, parts: Sequence[Distribution], weights: ArrayLike) -> None:
        w: Array = np.asarray(weights, dtype=float)
        if len(parts) != len(w) or len(w) == 0 or np.any(w < 0) or not np.isclose(w.sum(), 1.0):
            raise InputError(
                f"must be {len(parts)} numbers >= 0 that add up to one, got {weights!r}",
                parameter="weights",
                value=weights,
            )
        if len({part.discrete for part in parts}) > 1:
            raise InputError("must be all discrete or all continuous", parameter="parts", value=parts)
        self.parts, self.weights, self.discrete = list(parts), w, parts[0].discrete

    def _average(self, values: Sequence[Any]) -> Any:
        return np.tensordot(self.weights, np.stack([np.asarray(v, dtype=float) for v in values]), axes=1)[()]

    def cases(self) -> Iterator[Distribution]:
        """Itself: mixtures are of one number."""
        yield self

    @property
    def support(self) -> tuple[Any, Any]:
        """From the smallest value of any part to the largest."""
        return min(p.support[0] for p in self.parts), max(p.support[1] for p in self.parts)

    @property
    def mean(self) -> Any:
        """Weighted mean."""
        return self._average([p.mean for p in self.parts])

    @property
    def variance(self) -> Any:
        """Within and between the parts."""
        mean = self.mean
        return self._average([p.variance + (p.mean - mean) ** 2 for p in self.parts])

    def log_prob(self, y: ArrayLike) -> Any:
        """Log of the weighted density."""
        with np.errstate(divide="ignore"):
            log_w = np.log(self.weights)
        terms = np.stack([lw + np.asarray(p.log_prob(y)) for lw, p in zip(log_w, self.parts)])
        return np.asarray(logsumexp(terms, axis=0))[()]

    def cdf(self, y: ArrayLike) -> Any:
        """Weighted distribution function."""
        return self._average([p.cdf(y) for p in self.parts])

    def survival(self, y: ArrayLike) -> Any:
        """Weighted survival function."""
        return self._average([p.survival(y) for p in self.parts])

    def quantile(self, q: ArrayLike) -> Any:
        """Between the quantiles of the parts, by inverting the distribution function."""
        levels = check_levels(q)
        ends = np.stack([np.asarray(p.quantile(levels), dtype=float) for p in self.parts])
        low, high = ends.min(axis=0), ends.max(axis=0)
        out = np.array(low, dtype=float)
        inner = (high > low) & np.isfinite(low) & np.isfinite(high)
        if inner.any():
            if self.discrete:
                out[inner] = [self._count(p, a, b) for p, a, b in zip(levels[inner], low[inner], high[inner])]
            else:
                middle, half = 0.5 * (low[inner] + high[inner]), 0.5 * (high[inner] - low[inner])
                out[inner] = invert_cdf(self.cdf, levels[inner], middle, half)
        return out[()]

    def _count(self, p: float, low: float, high: float) -> float:
        counts = np.arange(low, high + 1.0)
        return float(counts[int(np.argmax(np.asarray(self.cdf(counts)) >= p - 1e-14))])

    def sample(self, size: int = 1, rng: Seed = None) -> Array:
        """A part by its weight, then a draw of it."""
        generator = np.random.default_rng(rng)
        which = generator.choice(len(self.parts), size=size, p=self.weights)
        draws = np.stack([p.sample(size, generator) for p in self.parts])
        return np.asarray(draws[which, np.arange(size)])


class Reflected(Distribution):
    """The distribution of `total - x`."""

    def __init__(self, of: Distribution, total: float) -> None:
        self.of, self.total, self.discrete = of, total, of.discrete

    def cases(self) -> Iterator[Distribution]:
        """Each reflected."""
        for case in self.of.cases():
            yield Reflected(case, self.total)

    @property
    def support(self) -> tuple[Any, Any]:
        """Reflected ends."""
        low, high = self.of.support
        return self.total - high, self.total - low

    @property
    def mean(self) -> Any:
        """Reflected mean."""
        return self.total - self.of.mean

    @property
    def variance(self) -> Any:
        """The same."""
        return self.of.variance

    def log_prob(self, y: ArrayLike) -> Any:
        """At the reflected value."""
        return self.of.log_prob(self.total - np.asarray(y, dtype=float))

    def cdf(self, y: ArrayLike) -> Any:
        """Probability above the reflected value; of a density."""
        return self.of.survival(self.total - np.asarray(y, dtype=float))

    def quantile(self, q: ArrayLike) -> Any:
        """The reflected quantile from the other side."""
        return self.total - self.of.quantile(1.0 - np.asarray(q, dtype=float))

    def sample(self, size: int = 1, rng: Seed = None) -> Array:
        """Reflected draws."""
        return np.asarray(self.total - self.of.sample(size, rng))


def _positive(name: str, value: ArrayLike) -> Any:
    """A spread or a number of degrees of freedom, checked."""
    array = np.asarray(value, dtype=float)
    if not np.all(array > 0):
        raise InputError(f"must be positive, got {value!r}", parameter=name, value=value)
    return array[()]


def normal(mean: ArrayLike, sd: ArrayLike) -> ScipyDistribution:
    """The normal distribution.

    Examples
    --------
    >>> from cavity.bayes import normal
    >>> round(float(normal(1.0, 2.0).quantile(0.975)), 3)
    4.92
    """
    return ScipyDistribution(stats.norm(np.asarray(mean, dtype=float)[()], _positive("sd", sd)))


def student_t(df: ArrayLike, location: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> ScipyDistribution:
    """The t distribution with a location and a scale.

    Examples
    --------
    >>> from cavity.bayes import student_t
    >>> round(float(student_t(4.0).quantile(0.975)), 3)
    2.776
    """
    center = np.asarray(location, dtype=float)[()]
    return ScipyDistribution(stats.t(_positive("df", df), center, _positive("scale", scale)))


def binomial(n: ArrayLike, probability: ArrayLike) -> ScipyDistribution:
    """Successes of n independent trials.

    Examples
    --------
    >>> from cavity.bayes import binomial
    >>> binomial(10, 0.3).highest_density(0.5).intervals
    ((2.0, 3.0),)
    """
    trials, share = (np.asarray(value, dtype=float) for value in (n, probability))
    if not np.all((trials >= 0) & (trials == np.floor(trials))):
        raise InputError(f"must be a whole number >= 0, got {n!r}", parameter="n", value=n)
    if not np.all((share >= 0) & (share <= 1)):
        raise InputError(
            f"must lie between 0 and 1, got {probability!r}", parameter="probability", value=probability
        )
    return ScipyDistribution(stats.binom(trials[()], share[()]))
