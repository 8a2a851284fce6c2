"""Conjugate families: priors whose posterior is of the same family, with predictive distribution and evidence.

    Beta, Dirichlet          probability of a success, of each of several categories
    Gamma                    rate of counts (Poisson) or of waiting times (exponential)
    NormalInverseGamma       weights of a linear regression (or one mean) and the noise variance
    NormalInverseWishart     mean and covariance of vectors

`update` gives the posterior, `predictive` the distribution of the next observation, `log_evidence` the log
probability of data before they were seen. A prior that cannot be normalized (`proper` is False; `jeffreys`) may be
updated, and is refused where an evidence or a probability is asked for: its constant, and with it any Bayes
factor, is arbitrary.

Sources: Bernardo and Smith (1994), appendix A; Kuss (2006), section 2.1.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from scipy.special import betaln, gammaln, multigammaln

from cavity.bayes.distributions import ScipyDistribution, student_t
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import try_factorize
from cavity.numerics.special import LOG_2PI
from cavity.prediction.base import Seed
from cavity.runtime.checks import require_one_of
from cavity.runtime.errors import InputError


class ImproperPriorError(ValueError):
    """A prior that cannot be normalized was asked for something that needs its constant.

    Attributes
    ----------
    prior : object
        Or what it is called.
    """

    def __init__(self, prior: Any, what: str) -> None:
        super().__init__(
            f"{prior} cannot be normalized, so {what} is not defined; use a proper prior, or update it with "
            "data first"
        )
        self.prior = prior


def counts_of(values: ArrayLike, name: str) -> Array:
    """Whole numbers >= 0, checked."""
    array: Array = np.asarray(values, dtype=float)
    bad = ~(np.isfinite(array) & (array >= 0) & (array == np.floor(array)))
    if bad.any():
        raise InputError(
            f"must be whole numbers >= 0, got {float(array[bad].ravel()[0])!r}", parameter=name, value=values
        )
    return array


def _some(data: Array, name: str) -> Array:
    """Data, refused if there are none."""
    if not data.size:
        raise InputError("is empty: there is nothing to learn from", parameter=name)
    return data


def _at_least_zero(owner: str, **values: ArrayLike) -> None:
    for name, value in values.items():
        array = np.asarray(value, dtype=float)
        if not np.all(np.isfinite(array) & (array >= 0)):
            raise InputError(
                f"of {owner} must be finite and >= 0, got {value!r}", parameter=name, value=value
            )


class _Conjugate(ScipyDistribution):
    """A family of `scipy.stats` that is refused as a distribution if it is improper."""

    def __init__(self) -> None:
        self.discrete = False

    @property
    def proper(self) -> bool:
        """Whether it can be normalized."""
        return all(np.all(np.asarray(v) > 0) for v in self._parameters())

    @abstractmethod
    def _parameters(self) -> tuple[Any, ...]:
        """All positive if and only if it is proper."""

    def _require_proper(self, what: str) -> None:
        if not self.proper:
            raise ImproperPriorError(self, what)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({', '.join(f'{np.asarray(v).tolist()!r}' for v in self._parameters())})"
        )


class Beta(_Conjugate):
    """Beta(a, b): what is known of the probability of a success; a and b count as successes and failures seen before.

    Examples
    --------
    >>> from cavity.bayes import Beta
    >>> coin = Beta(3, 5).update(7, 1)
    >>> coin, float(coin.mean)
    (Beta(10.0, 6.0), 0.625)
    >>> round(float(np.exp(Beta(3, 5).log_evidence(7, 1))), 6)
    0.027972
    """

    def __init__(self, a: ArrayLike = 1.0, b: ArrayLike = 1.0) -> None:
        super().__init__()
        _at_least_zero("Beta", a=a, b=b)
        self.a, self.b = np.asarray(a, dtype=float)[()], np.asarray(b, dtype=float)[()]

    def _parameters(self) -> tuple[Any, ...]:
        return self.a, self.b

    @cached_property
    def _frozen(self) -> Any:
        self._require_proper("its distribution")
        return stats.beta(self.a, self.b)

    @property
    def mode(self) -> Any:
        """(a - 1) / (a + b - 2) if a and b exceed one; else an edge, the higher one; the middle if all are alike."""
        self._require_proper("its mode")
        a, b = np.broadcast_arrays(np.asarray(self.a), np.asarray(self.b))
        with np.errstate(invalid="ignore", divide="ignore"):
            inner = (a - 1.0) / (a + b - 2.0)
        edge = np.where(a > b, 1.0, 0.0)
        flat = (a == 1.0) & (b == 1.0)
        return np.where(flat, 0.5, np.where((a > 1) & (b > 1), inner, edge))[()]

    def update(self, successes: ArrayLike, failures: ArrayLike) -> Beta:
        """After these counts."""
        s, f = (
            _some(counts_of(values, name), name)
            for values, name in ((successes, "successes"), (failures, "failures"))
        )
        return Beta(self.a + s, self.b + f)

    def predictive(self, trials: int = 1) -> ScipyDistribution:
        """Successes in so many further trials."""
        self._require_proper("a prediction")
        return ScipyDistribution(stats.betabinom(trials, self.a, self.b))

    def log_evidence(self, successes: ArrayLike, failures: ArrayLike, *, ordered: bool = False) -> Any:
        """Log probability of so many successes and failures; of one particular order of them if `ordered`."""
        self._require_proper("an evidence")
        s, f = counts_of(successes, "successes"), counts_of(failures, "failures")
        value = betaln(self.a + s, self.b + f) - betaln(self.a, self.b)
        ways = 0.0 if ordered else gammaln(s + f + 1) - gammaln(s + 1) - gammaln(f + 1)
        return (value + ways)[()]


RATES = ("poisson", "exponential")


class Gamma(_Conjugate):
    """Gamma(shape, rate): what is known of a rate.

    Its data are counts (`likelihood="poisson"`, per unit of exposure) or waiting times ("exponential").

    Examples
    --------
    >>> from cavity.bayes import Gamma
    >>> rate = Gamma(2, 1).update([3, 5, 2])
    >>> rate, round(float(np.exp(rate.predictive().log_prob(4))), 6)
    (Gamma(12.0, 4.0), 0.150083)
    """

    def __init__(self, shape: ArrayLike = 1.0, rate: ArrayLike = 1.0) -> None:
        super().__init__()
        _at_least_zero("Gamma", shape=shape, rate=rate)
        self.shape, self.rate = np.asarray(shape, dtype=float)[()], np.asarray(rate, dtype=float)[()]

    def _parameters(self) -> tuple[Any, ...]:
        return self.shape, self.rate

    @cached_property
    def _frozen(self) -> Any:
        self._require_proper("its distribution")
        return stats.gamma(self.shape, scale=1.0 / np.asarray(self.rate))

    @property
    def mode(self) -> Any:
        """(shape - 1) / rate, or zero."""
        self._require_proper("its mode")
        return np.maximum((self.shape - 1.0) / self.rate, 0.0)[()]

    @staticmethod
    def _totals(data: ArrayLike, likelihood: str, exposure: ArrayLike) -> tuple[float, float, Array]:
        """What data add to shape and rate, and the data."""
        if likelihood == "poisson":
            counts = _some(np.atleast_1d(counts_of(data, "data")), "data")
            given = np.broadcast_to(np.asarray(exposure, dtype=float), counts.shape)
            if not np.all(np.isfinite(given) & (given > 0)):
                raise InputError(
                    f"must be finite and positive, got {exposure!r}", parameter="exposure", value=exposure
                )
            return float(counts.sum()), float(given.sum()), counts
        require_one_of(likelihood, "likelihood", RATES)
        waits = _some(np.atleast_1d(np.asarray(data, dtype=float)), "data")
        bad = ~(np.isfinite(waits) & (waits >= 0))
        if bad.any():
            raise InputError(
                f"must be finite waiting times >= 0, got {float(waits[bad][0])!r}",
                parameter="data",
                value=data,
            )
        return float(len(waits)), float(waits.sum()), waits

    def update(self, data: ArrayLike, likelihood: str = "poisson", exposure: ArrayLike = 1.0) -> Gamma:
        """After these counts or waiting times."""
        shape, rate, _ = self._totals(data, likelihood, exposure)
        return Gamma(self.shape + shape, self.rate + rate)

    def predictive(self, likelihood: str = "poisson", exposure: float = 1.0) -> ScipyDistribution:
        """The next count in so much exposure (negative binomial), or the next waiting time (Lomax)."""
        self._require_proper("a prediction")
        if likelihood == "exponential":
            return ScipyDistribution(stats.lomax(self.shape, scale=self.rate))
        self._totals([0.0], likelihood, exposure)
        return ScipyDistribution(stats.nbinom(self.shape, self.rate / (self.rate + exposure)))

    def log_evidence(self, data: ArrayLike, likelihood: str = "poisson", exposure: ArrayLike = 1.0) -> float:
        """Log probability (density of waiting times) of the data."""
        self._require_proper("an evidence")
        shape, rate, values = self._totals(data, likelihood, exposure)
        a, b = self.shape + shape, self.rate + rate
        value = gammaln(a) - gammaln(self.shape) + self.shape * np.log(self.rate) - a * np.log(b)
        if likelihood == "poisson":
            given = np.broadcast_to(np.asarray(exposure, dtype=float), values.shape)
            value += float(np.sum(values * np.log(given) - gammaln(values + 1.0)))
        return float(value)


@dataclass(frozen=True)
class Dirichlet:
    """What is known of the probabilities of K categories.

    Examples
    --------
    >>> from cavity.bayes import Dirichlet
    >>> Dirichlet([1, 1, 1]).update([3, 5, 2]).mean.round(3)
    array([0.308, 0.462, 0.231])
    """

    counts: Array

    def __post_init__(self) -> None:
        counts = np.array(self.counts, dtype=float)
        if counts.ndim != 1 or len(counts) < 2:
            raise InputError(
                f"must be a vector of two or more numbers, got {self.counts!r}", parameter="counts"
            )
        _at_least_zero("Dirichlet", counts=counts)
        object.__setattr__(self, "counts", counts)

    @property
    def proper(self) -> bool:
        """Whether it can be normalized."""
        return bool(np.all(self.counts > 0))

    def _require_proper(self, what: str) -> None:
        if not self.proper:
            raise ImproperPriorError(self, what)

    @property
    def mean(self) -> Array:
        """Also the predictive probability of each category."""
        return np.asarray(self.counts / self.counts.sum())

    @property
    def variance(self) -> Array:
        """Of each probability."""
        return np.asarray(self.mean * (1.0 - self.mean) / (self.counts.sum() + 1.0))

    def marginal(self, category: int) -> Beta:
        """The probability of one category against all others."""
        return Beta(self.counts[category], self.counts.sum() - self.counts[category])

    def update(self, counts: ArrayLike) -> Dirichlet:
        """After so many of each category."""
        return Dirichlet(self.counts + self._checked(counts))

    def _checked(self, counts: ArrayLike) -> Array:
        found = counts_of(counts, "counts")
        if found.shape != self.counts.shape:
            raise InputError(
                f"must be {len(self.counts)} numbers, one of each category, got shape {found.shape}",
                parameter="counts",
            )
        return found

    def log_evidence(self, counts: ArrayLike, *, ordered: bool = True) -> float:
        """Log probability of a sequence with these counts; of the counts in any order unless `ordered`."""
        self._require_proper("an evidence")
        n = self._checked(counts)
        total = self.counts.sum()
        value = (
            gammaln(total)
            - gammaln(total + n.sum())
            + np.sum(gammaln(self.counts + n) - gammaln(self.counts))
        )
        ways = 0.0 if ordered else gammaln(n.sum() + 1.0) - np.sum(gammaln(n + 1.0))
        return float(value + ways)

    def log_prob(self, probabilities: ArrayLike) -> float:
        """Log density."""
        self._require_proper("a density")
        return float(stats.dirichlet(self.counts).logpdf(np.asarray(probabilities, dtype=float)))

    def sample(self, size: int = 1, rng: Seed = None) -> Array:
        """Draws, shape (size, K)."""
        self._require_proper("a draw")
        return np.asarray(np.random.default_rng(rng).dirichlet(self.counts, size))


@dataclass(frozen=True)
class NormalInverseGamma:
    """Weights w and noise variance v of y = X w + noise:  w given v ~ N(mean, v precision^-1),  v ~ InverseGamma(a, b).

    With a column of ones for X it is the family of one mean. `precision` may be singular, or zero: such a prior is
    improper, and so is one with a <= 0 or b = 0.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.bayes import NormalInverseGamma
    >>> X = np.column_stack([np.ones(4), np.arange(4)])
    >>> posterior = NormalInverseGamma(np.zeros(2), np.eye(2) / 16, 2, 1).update(X, [1, 3, 2, 5])
    >>> posterior.mean.round(4), posterior.predictive([[1.0, 4.0]]).mean.round(4)
    (array([1.0738, 1.1063]), array([5.499]))
    """

    mean: Array
    precision: Array
    a: float
    b: float

    def __post_init__(self) -> None:
        mean, precision = (
            np.atleast_1d(np.array(self.mean, dtype=float)),
            np.array(self.precision, dtype=float),
        )
        precision = np.atleast_2d(precision)
        if precision.shape != (len(mean), len(mean)) or not np.allclose(precision, precision.T):
            raise InputError(
                f"must be a symmetric matrix of shape ({len(mean)}, {len(mean)}), got shape {precision.shape}",
                parameter="precision",
            )
        smallest = float(np.linalg.eigvalsh(precision)[0])
        if smallest < -1e-12 * max(np.trace(precision), 1e-300):
            raise InputError(
                f"must be positive semi-definite, its smallest eigenvalue is {smallest:.3g}",
                parameter="precision",
                value=self.precision,
                remedy="zero says nothing about the weights, a multiple of the identity shrinks them",
            )
        if not self.b >= 0:
            raise InputError(f"must be >= 0, got {self.b!r}", parameter="b", value=self.b)
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "precision", precision)

    @property
    def proper(self) -> bool:
        """Whether it can be normalized."""
        return self.a > 0 and self.b > 0 and try_factorize(self.precision.copy()) is not None

    def _require_proper(self, what: str) -> None:
        if not self.proper:
            raise ImproperPriorError(self, what)

    @property
    def covariance_root(self) -> Array:
        """L^-1 with precision = L L'."""
        self._require_proper("its distribution")
        from scipy.linalg import solve_triangular

        L = np.linalg.cholesky(self.precision)
        return np.asarray(solve_triangular(L, np.eye(len(L)), lower=True))

    def _data(self, X: ArrayLike, y: ArrayLike) -> tuple[Array, Array]:
        inputs, targets = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
        _some(targets, "y")
        if inputs.ndim != 2 or inputs.shape != (len(targets), len(self.mean)):
            raise InputError(
                f"must have shape (n, {len(self.mean)}) with n = {targets.size} targets, got {inputs.shape}",
                parameter="X",
            )
        return inputs, targets

    def update(self, X: ArrayLike, y: ArrayLike) -> NormalInverseGamma:
        """After targets y (n,) at inputs X (n, p)."""
        inputs, targets = self._data(X, y)
        precision = self.precision + inputs.T @ inputs
        # around the prior mean, so that b is a sum of squares: of residuals, and of the way the weights went
        e = targets - inputs @ self.mean
        step = np.linalg.lstsq(precision, inputs.T @ e, rcond=None)[0]
        residual = e - inputs @ step
        squares = residual @ residual + step @ self.precision @ step
        return NormalInverseGamma(
            self.mean + step, precision, self.a + 0.5 * len(targets), self.b + 0.5 * float(squares)
        )

    def predictive(self, X: ArrayLike) -> ScipyDistribution:
        """New targets at X (m, p): t distributions with 2a degrees of freedom, one a row."""
        half = np.asarray(X, dtype=float) @ self.covariance_root.T
        scale2 = self.b / self.a * (1.0 + np.sum(half**2, axis=1))
        return student_t(2.0 * self.a, np.asarray(X, dtype=float) @ self.mean, np.sqrt(scale2))

    def weight(self, index: int) -> ScipyDistribution:
        """The distribution of one weight."""
        scale2 = self.b / self.a * np.sum(self.covariance_root[:, index] ** 2)
        return student_t(2.0 * self.a, float(self.mean[index]), float(np.sqrt(scale2)))

    @property
    def noise_variance(self) -> ScipyDistribution:
        """The distribution of the noise variance."""
        self._require_proper("its distribution")
        return ScipyDistribution(stats.invgamma(self.a, scale=self.b))

    def log_evidence(self, X: ArrayLike, y: ArrayLike) -> float:
        """Log density of the targets, weights and noise variance integrated out."""
        self._require_proper("an evidence")
        after = self.update(X, y)
        log_dets = np.linalg.slogdet(self.precision)[1] - np.linalg.slogdet(after.precision)[1]
        n = 2.0 * (after.a - self.a)
        value = 0.5 * log_dets + self.a * np.log(self.b) - after.a * np.log(after.b)
        return float(value + gammaln(after.a) - gammaln(self.a) - 0.5 * n * LOG_2PI)

    def __repr__(self) -> str:
        return f"NormalInverseGamma({len(self.mean)} weights, a={self.a:g}, b={self.b:g})"


@dataclass(frozen=True)
class NormalInverseWishart:
    """Mean and covariance C of vectors:  mean given C ~ N(mean, C / confidence),  C ~ InverseWishart(dof, scale).

    Examples
    --------
    >>> from cavity.bayes import NormalInverseWishart
    >>> prior = NormalInverseWishart([0.0, 0.0], 1.0, 4.0, [[1.0, 0.0], [0.0, 1.0]])
    >>> prior.update([[1.0, 2.0], [3.0, 2.0]]).mean.round(3)
    array([1.333, 1.333])
    """

    mean: Array
    confidence: float
    dof: float
    scale: Array = field(repr=False)

    def __post_init__(self) -> None:
        mean, scale = (
            np.atleast_1d(np.array(self.mean, dtype=float)),
            np.atleast_2d(np.array(self.scale, dtype=float)),
        )
        d = len(mean)
        if scale.shape != (d, d) or not np.allclose(scale, scale.T):
            raise InputError(f"must be a symmetric matrix of shape ({d}, {d})", parameter="scale")
        if try_factorize(scale.copy()) is None:
            smallest = float(np.linalg.eigvalsh(scale)[0])
            raise InputError(
                f"must be positive definite, its smallest eigenvalue is {smallest:.3g}",
                parameter="scale",
                value=self.scale,
                remedy="a small multiple of the identity says little and is enough",
            )
        if not self.confidence > 0 or not self.dof > d - 1:
            raise ImproperPriorError(
                f"NormalInverseWishart(confidence={self.confidence!r}, dof={self.dof!r}) of {d} columns",
                "anything",
            )
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "scale", scale)

    def update(self, X: ArrayLike) -> Self:
        """After rows X (n, d)."""
        rows = np.asarray(X, dtype=float)
        if rows.ndim != 2 or rows.shape[1] != len(self.mean) or len(rows) == 0:
            raise InputError(
                f"must have shape (n, {len(self.mean)}) with n > 0, got {rows.shape}", parameter="X"
            )
        n, center = len(rows), rows.mean(axis=0)
        deviations, way = rows - center, center - self.mean
        total = self.confidence + n
        scale = self.scale + deviations.T @ deviations + (self.confidence * n / total) * np.outer(way, way)
        return type(self)(self.mean + (n / total) * way, total, self.dof + n, scale)

    def predictive(self) -> Any:
        """The next row: SciPy's multivariate t distribution."""
        df = self.dof - len(self.mean) + 1.0
        shape = self.scale * (self.confidence + 1.0) / (self.confidence * df)
        return stats.multivariate_t(self.mean, shape, df=cast(Any, df))

    def log_evidence(self, X: ArrayLike) -> float:
        """Log density of the rows, mean and covariance integrated out."""
        after = self.update(X)
        d, n = len(self.mean), after.confidence - self.confidence
        value = multigammaln(0.5 * after.dof, d) - multigammaln(0.5 * self.dof, d)
        value += 0.5 * self.dof * np.linalg.slogdet(self.scale)[1]
        value -= 0.5 * after.dof * np.linalg.slogdet(after.scale)[1]
        value += 0.5 * d * (np.log(self.confidence) - np.log(after.confidence)) - 0.5 * n * d * np.log(np.pi)
        return float(value)
