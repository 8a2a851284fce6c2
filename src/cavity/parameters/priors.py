"""Prior densities over natural parameter values, for MAP estimation, random starts and samplers.

Every prior is an immutable value that answers element by element: `log_density(x)`, `gradient(x)` (its
derivative), `sample(rng, shape)`, and `support`, the interval where the density is positive. Outside it the
log density is -inf and the gradient zero. Densities are normalised; everything is computed in the log domain.

Many have a constructor from what people know about a quantity: `LogNormal.between(0.1, 10)` puts 90 % of the
mass there, 5 % on either side; `HalfNormal.below(3)` puts 95 % below 3.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaln, exp1, gammaincinv, gammaln, ndtri, stdtrit, xlog1py, xlogy

from cavity.numerics.arrays import Array
from cavity.runtime.checks import require_inside

__all__ = [
    "Beta",
    "Density",
    "Gamma",
    "HalfCauchy",
    "HalfNormal",
    "HalfStudentT",
    "Horseshoe",
    "InverseGamma",
    "LogNormal",
    "Normal",
    "SmoothedBox",
    "Uniform",
]

LOG_2 = float(np.log(2.0))
LOG_ROOT_2PI = float(0.5 * np.log(2.0 * np.pi))
REAL_LINE = (-np.inf, np.inf)
POSITIVE = (0.0, np.inf)


class Density:
    """What all priors share: the edges of the support, shapes, and checks of their own parameters.

    Examples
    --------
    >>> from cavity.parameters.priors import Density, LogNormal
    >>> prior = LogNormal(0.0, 1.0)
    >>> isinstance(prior, Density), round(float(prior.log_density(1.0)), 4)
    (True, -0.9189)
    """

    support: ClassVar[tuple[float, float]] = REAL_LINE
    _positive: ClassVar[tuple[str, ...]] = ()
    _takes_arrays: ClassVar[bool] = False
    """Whether its formulas hold element by element for arrays in place of its own numbers."""

    def __post_init__(self) -> None:
        """Make every field a finite float, positive if it must be."""
        for entry in fields(self):  # type: ignore[arg-type]
            given = getattr(self, entry.name)
            if isinstance(entry.default, bool):
                if not isinstance(given, bool):
                    raise ValueError(
                        f"{type(self).__name__}: {entry.name} must be True or False, got {given!r}"
                    )
                continue
            value = float(given) if not isinstance(given, bool) and isinstance(given, Real) else np.nan
            wanted = "positive and finite" if entry.name in self._positive else "finite"
            if not np.isfinite(value) or (entry.name in self._positive and value <= 0):
                raise ValueError(f"{type(self).__name__}: {entry.name} must be {wanted}, got {given!r}")
            object.__setattr__(self, entry.name, value)

    @abstractmethod
    def _log_density(self, x: Array) -> Array:
        """Log density inside the support."""

    @abstractmethod
    def _gradient(self, x: Array) -> Array:
        """Its derivative inside the support."""

    @abstractmethod
    def _sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> ArrayLike:
        """Independent draws of the given shape."""

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...] = ()) -> Array:
        """Independent draws of the given shape."""
        return np.asarray(self._sample(rng, shape))

    def log_density(self, x: ArrayLike) -> Array:
        """Log density of each element; -inf outside the support."""
        return self._inside(x, self._log_density, -np.inf)

    def gradient(self, x: ArrayLike) -> Array:
        """Derivative of the log density of each element; zero outside the support."""
        return self._inside(x, self._gradient, 0.0)

    def _inside(self, x: ArrayLike, function: object, outside: float) -> Array:
        x = np.asarray(x, dtype=float)
        low, high = self.support
        inside = (x > low) & (x < high)
        if x.ndim and inside.all():  # nearly always: samplers ask a hundred thousand times
            with np.errstate(over="ignore"):
                return cast(Array, function(x))  # type: ignore[operator]
        out = np.where(np.isnan(x), np.nan, outside)
        # Densities that fall faster than any double can tell are zero: log density -inf, no overflow warning.
        with np.errstate(over="ignore"):
            out[inside] = function(x[inside])  # type: ignore[operator]
        return cast(Array, out[()])


class Elementwise:
    """Densities of one class, the i-th for the i-th element of a vector, evaluated together."""

    def __init__(self, priors: Sequence[Density]) -> None:
        self._each, self._all = tuple(priors), object.__new__(type(priors[0]))
        for entry in fields(self._all):  # type: ignore[arg-type]
            object.__setattr__(self._all, entry.name, np.array([getattr(p, entry.name) for p in priors]))

    def log_density(self, x: Array) -> Array:
        """Log density of each element; -inf outside the support."""
        if self._within(x):
            with np.errstate(over="ignore"):
                return self._all._log_density(x)
        return np.array([prior.log_density(v) for prior, v in zip(self._each, x)])

    def gradient(self, x: Array) -> Array:
        """Derivative of the log density of each element; zero outside the support."""
        if self._within(x):
            with np.errstate(over="ignore"):
                return self._all._gradient(x)
        return np.array([prior.gradient(v) for prior, v in zip(self._each, x)])

    def _within(self, x: Array) -> bool:
        low, high = self._all.support
        return bool(((x > low) & (x < high)).all())


def by_kind(priors: Sequence[Any]) -> list[tuple[Any, list[int]]]:
    """Densities for the elements of a vector with these priors (None: no prior), and which elements each is for."""
    groups: dict[Any, list[int]] = {}
    for i, prior in enumerate(priors):
        if prior is not None:
            kind = type(prior) if getattr(prior, "_takes_arrays", False) else id(prior)
            groups.setdefault(kind, []).append(i)
    found = []
    for at in groups.values():
        first = priors[at[0]]
        same = all(priors[i] is first for i in at)
        found.append((first if same else Elementwise([priors[i] for i in at]), at))
    return found


def _tails(mass: float, name: str) -> float:
    """Probability on either side of an interval of the given mass."""
    require_inside(mass, f"{name}: mass")
    return 0.5 * (1.0 - mass)


def _check_interval(low: float, high: float, name: str, above: float = -np.inf) -> None:
    if not (above < low < high < np.inf):
        kind = "0 < low < high" if above == 0.0 else "low < high"
        raise ValueError(f"{name}: the interval must be finite with {kind}, got low={low!r}, high={high!r}")


# --- on the whole line --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Normal(Density):
    """p(x) = exp(-(x - mean)^2 / (2 sd^2)) / (sqrt(2 pi) sd).

    Examples
    --------
    >>> from cavity.parameters.priors import Normal
    >>> round(float(Normal(0.0, 2.0).log_density(1.0)), 3)
    -1.737
    """

    mean: float = 0.0
    sd: float = 1.0
    _positive = ("sd",)
    _takes_arrays = True

    @classmethod
    def between(cls, low: float, high: float, mass: float = 0.9) -> Self:
        """The normal density with this mass between two values and equal tails."""
        _check_interval(low, high, "Normal.between")
        return cls(
            0.5 * low + 0.5 * high, (0.5 * high - 0.5 * low) / -float(ndtri(_tails(mass, "Normal.between")))
        )

    def _log_density(self, x: Array) -> Array:
        return cast(Array, -0.5 * ((x - self.mean) / self.sd) ** 2 - np.log(self.sd) - LOG_ROOT_2PI)

    def _gradient(self, x: Array) -> Array:
        return (self.mean - x) / self.sd / self.sd

    def _sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> ArrayLike:
        return rng.normal(self.mean, self.sd, shape)


@dataclass(frozen=True)
class Uniform(Density):
    """p(x) = 1 / (high - low) for low < x < high.

    Examples
    --------
    >>> from cavity.parameters.priors import Uniform
    >>> float(Uniform(0.0, 1.0).log_density(2.0))
    -inf
    """

    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        """Check the interval."""
        super().__post_init__()
        _check_interval(self.low, self.high, "Uniform")

    @property
    def support(self) -> tuple[float, float]:  # type: ignore[override]
        """(low, high)."""
        return self.low, self.high

    def _log_density(self, x: Array) -> Array:
        return np.full(x.shape, -np.log(self.high - self.low))

    def _gradient(self, x: Array) -> Array:
        return np.zeros(x.shape)

    def _sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> ArrayLike:
        return rng.uniform(self.low, self.high, shape)


@dataclass(frozen=True)
class SmoothedBox(Density):
    """Flat between two values, with Gaussian tails outside instead of hard edges.

    p(x) = exp(-d(x)^2 / (2 sd^2)) / (high - low + sqrt(2 pi) sd), where d(x) is the distance to [low, high].

    Examples
    --------
    >>> from cavity.parameters.priors import SmoothedBox
    >>> SmoothedBox(0.0, 1.0, 0.1).log_density([0.2, 0.8, 1.5]).round(2)
    array([ -0.22,  -0.22, -12.72])
    """

    low: float = 0.0
    high: float = 1.0
    sd: float = 0.1
    _positive = ("sd",)

    def __post_init__(self) -> None:
        """Check the interval."""
        super().__post_init__()
        _check_interval(self.low, self.high, "SmoothedBox")

    def _beyond(self, x: Array) -> Array:
        """Signed distance from the box, zero inside."""
        return cast(Array, np.maximum(x - self.high, 0.0) + np.minimum(x - self.low, 0.0))

    def _log_density(self, x: Array) -> Array:
        total = self.high - self.low + np.sqrt(2 * np.pi) * self.sd
        return cast(Array, -0.5 * (self._beyond(x) / self.sd) ** 2 - np.log(total))

    def _gradient(self, x: Array) -> Array:
        return -self._beyond(x) / self.sd / self.sd

    def _sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> ArrayLike:
        # in the box with its share of the mass, else a half-normal step out of it
        tails = np.sqrt(2 * np.pi) * self.sd
        step = rng.normal(0.0, self.sd, shape)
        out = np.where(step > 0, self.high + step, self.low + step)
        flat = rng.uniform(size=shape) * (self.high - self.low + tails) > tails
        return np.where(flat, rng.uniform(self.low, self.high, shape), out)


# --- positive values ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LogNormal(Density):
    """log x ~ N(mu, sigma^2): p(x) = exp(-(log x - mu)^2 / (2 sigma^2)) / (sqrt(2 pi) sigma x).

    Examples
    --------
    >>> from cavity.parameters.priors import LogNormal
    >>> prior = LogNormal.between(0.1, 10.0)  # 90 % of the mass in there
    >>> prior.log_density([0.1, 1.0]).round(2)
    array([-0.31, -1.26])
    """

    mu: float = 0.0
    sigma: float = 1.0
    support = POSITIVE
    _positive = ("sigma",)
    _takes_arrays = True

    @classmethod
    def between(cls, low: float, high: float, mass: float = 0.9) -> Self:
        """The log-normal density with this mass between two values and equal tails."""
        _check_interval(low, high, "LogNormal.between", above=0.0)
        normal = Normal.between(np.log(low), np.log(high), mass)
        return cls(normal.mean, normal.sd)

    def _log_density(self, x: Array) -> Array:
        u = np.log(x)
        return cast(Array, -0.5 * ((u - self.mu) / self.sigma) ** 2 - np.log(self.sigma) - LOG_ROOT_2PI - u)

    def _gradient(self, x: Array) -> Array:
        return ((self.mu - np.log(x)) / self.sigma / self.sigma - 1.0) / x

    def _sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> ArrayLike:
        return rng.lognormal(self.mu, self.sigma, shape)


@dataclass(frozen=True)
class Gamma(Density):
    """p(x) = rate^shape x^(shape - 1) exp(-rate x) / Gamma(shape): mean shape / rate.

    Examples
    --------
    >>> from cavity.parameters.priors import Gamma
    >>> Gamma(2.0, 1.0).log_density([0.5, 1.0, 5.0]).round(2)
    array([-1.19, -1.  , -3.39])
    """

    shape: float = 1.0
    rate: float = 1.0
    support = POSITIVE
    _positive = ("shape", "rate")

    @classmethod
    def between(cls, low: float, high: float, mass: float = 0.9) -> Self:
        """The gamma density with this mass between two values and equal tails."""
        _check_interval(low, high, "Gamma.between", above=0.0)
        return cls(*_gamma_between(low, high, _tails(mass, "Gamma.between")))

    def _log_density(self, x: Array) -> Array:
        a, b = self.shape, self.rate
        return cast(Array, a * np.log(b) - gammaln(a) + xlogy(a - 1.0, x) - b * x)

    def _gradient(self, x: Array) -> Array:
        return (self.shape - 1.0) / x - self.rate

    def _sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> ArrayLike:
        return rng.gamma(self.shape, 1.0 / self.rate, shape)


@dataclass(frozen=True)
class InverseGamma(Density):
    """p(x) = scale^shape x^(-shape - 1) exp(-scale / x) / Gamma(shape): 1 / x has a gamma density.

    It falls off very fast towards zero and slowly towards infinity: a usual choice for length scales, which
    data cannot tell apart below the spacing of the inputs.

    Examples
    --------
    >>> from cavity.parameters.priors import InverseGamma
    >>> InverseGamma(3.0, 1.0).log_density([0.01, 0.25, 5.0]).round(2)
    array([-82.27,   0.85,  -7.33])
    """

    shape: float = 1.0
    scale: float = 1.0
    support = POSITIVE
    _positive = ("shape", "scale")

    @classmethod
    def between(cls, low: float, high: float, mass: float = 0.9) -> Self:
        """The inverse gamma density with this mass between two values and equal tails."""
        _check_interval(low, high, "InverseGamma.between", above=0.0)
        return cls(*_gamma_between(1.0 / high, 1.0 / low, _tails(mass, "InverseGamma.between")))

    def _log_density(self, x: Array) -> Array:
        a, b = self.shape, self.scale
        return cast(Array, a * np.log(b) - gammaln(a) - (a + 1.0) * np.log(x) - b / x)

    def _gradient(self, x: Array) -> Array:
        return (self.scale / x - (self.shape + 1.0)) / x

    def _sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> ArrayLike:
        return self.scale / rng.gamma(self.shape, 1.0, shape)


def _gamma_between(low: float, high: float, tail: float) -> tuple[float, float]:
    """Shape and rate of the gamma density with quantiles low and high at probabilities tail and 1 - tail.

    The ratio of the two quantiles does not depend on the rate and falls with the shape, so one root does.
    """
    from scipy.optimize import brentq  # slow to import, seldom needed

    target = np.log(high) - np.log(low)

    def excess(log_shape: float) -> float:
        quantiles = np.maximum(gammaincinv(np.exp(log_shape), [tail, 1.0 - tail]), np.finfo(float).tiny)
        return float(np.diff(np.log(quantiles))[0] - target)

    # For a large shape the logarithm is nearly normal with variance 1 / shape, which tells where the root is.
    guess = 2.0 * float(np.log(2.0 * -ndtri(tail) / target))
    left = next((v for v in guess - np.arange(2.0, 40.0) if excess(v) > 0), None)
    right = next((v for v in guess + np.arange(2.0, 40.0) if excess(v) < 0), None)
    if left is None or right is None:
        raise ValueError(
            f"no gamma density has that mass between {low!r} and {high!r}; choose another interval"
        )
    shape = float(np.exp(brentq(excess, left, right, xtol=1e-13)))
    return shape, float(gammaincinv(shape, tail) / low)


@dataclass(frozen=True)
class HalfNormal(Density):
    """p(x) = sqrt(2 / pi) exp(-x^2 / (2 scale^2)) / scale for x > 0.

    Examples
    --------
    >>> from cavity.parameters.priors import HalfNormal
    >>> prior = HalfNormal.below(3.0)  # 95 % of the mass below
    >>> round(prior.scale, 3)
    1.531
    """

    scale: float = 1.0
    support = POSITIVE
    _positive = ("scale",)

    @classmethod
    def below(cls, value: float, mass: float = 0.95) -> Self:
        """The half-normal density with this mass below a value."""
        return cls(value / float(ndtri(1.0 - _tails(mass, "HalfNormal.below"))))

    def _log_density(self, x: Array) -> Array:
        return cast(Array, LOG_2 - LOG_ROOT_2PI - np.log(self.scale) - 0.5 * (x / self.scale) ** 2)

    def _gradient(self, x: Array) -> Array:
        return -x / self.scale / self.scale

    def _sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> ArrayLike:
        return np.abs(rng.normal(0.0, self.scale, shape))


@dataclass(frozen=True)
class HalfStudentT(Density):
    """Student's t folded at zero, x > 0: heavy tails that let the data overrule it.

    p(x) = 2 / (scale sqrt(dof) B(1/2, dof/2)) (1 + (x / scale)^2 / dof)^(-(dof + 1) / 2)

    Examples
    --------
    >>> from cavity.parameters.priors import HalfStudentT
    >>> HalfStudentT(3.0, 1.0).log_density([0.1, 10.0]).round(2)
    array([-0.31, -7.38])
    """

    dof: float = 4.0
    scale: float = 1.0
    support = POSITIVE
    _positive = ("dof", "scale")

    @classmethod
    def below(cls, value: float, mass: float = 0.95, dof: float = 4.0) -> Self:
        """The half-Student-t density with this mass below a value."""
        return cls(dof, value / float(stdtrit(dof, 1.0 - _tails(mass, "HalfStudentT.below"))))

    def _log_density(self, x: Array) -> Array:
        log_width = np.log(self.scale) + 0.5 * np.log(self.dof)
        # (1 + z^2) = max(1, z^2) (1 + min(z, 1/z)^2), which neither overflows nor loses a small z
        log_z = np.log(x) - log_width
        log_kernel = 2.0 * np.maximum(log_z, 0.0) + np.log1p(np.exp(-2.0 * np.abs(log_z)))
        log_norm = LOG_2 - log_width - betaln(0.5, 0.5 * self.dof)
        return cast(Array, log_norm - 0.5 * (self.dof + 1.0) * log_kernel)

    def _gradient(self, x: Array) -> Array:
        width = float(self.scale * np.sqrt(self.dof))
        z = x / width
        return -(self.dof + 1.0) / width / (z + 1.0 / z)

    def _sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> ArrayLike:
        return self.scale * np.abs(rng.standard_t(self.dof, shape))


@dataclass(frozen=True)
class HalfCauchy(Density):
    """p(x) = 2 / (pi scale (1 + (x / scale)^2)) for x > 0: half-Student-t with one degree of freedom.

    Examples
    --------
    >>> from cavity.parameters.priors import HalfCauchy
    >>> HalfCauchy(1.0).log_density([0.1, 10.0]).round(2)
    array([-0.46, -5.07])
    """

    scale: float = 1.0
    support = POSITIVE
    _positive = ("scale",)

    @classmethod
    def below(cls, value: float, mass: float = 0.95) -> Self:
        """The half-Cauchy density with this mass below a value."""
        return cls(HalfStudentT.below(value, mass, dof=1.0).scale)

    def _log_density(self, x: Array) -> Array:
        return HalfStudentT(1.0, self.scale)._log_density(x)

    def _gradient(self, x: Array) -> Array:
        return HalfStudentT(1.0, self.scale)._gradient(x)

    def _sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> ArrayLike:
        return self.scale * np.abs(rng.standard_cauchy(shape))


@dataclass(frozen=True)
class Beta(Density):
    """p(x) = x^(a - 1) (1 - x)^(b - 1) / B(a, b) for 0 < x < 1.

    Examples
    --------
    >>> from cavity.parameters.priors import Beta
    >>> Beta(2.0, 2.0).log_density([0.1, 0.5]).round(2)
    array([-0.62,  0.41])
    """

    a: float = 1.0
    b: float = 1.0
    support = (0.0, 1.0)
    _positive = ("a", "b")

    def _log_density(self, x: Array) -> Array:
        return cast(Array, xlogy(self.a - 1.0, x) + xlog1py(self.b - 1.0, -x) - betaln(self.a, self.b))

    def _gradient(self, x: Array) -> Array:
        return (self.a - 1.0) / x - (self.b - 1.0) / (1.0 - x)

    def _sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> ArrayLike:
        return rng.beta(self.a, self.b, shape)


# --- sparsity -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Horseshoe(Density):
    """Horseshoe prior on the relevance of an input column, for ARD length scales (Carvalho, Polson and Scott
    2010).

    A relevance r > 0 is the absolute value of a normal number with standard deviation lambda scale, where
    lambda is half-Cauchy: most columns are irrelevant (the density has a pole at r = 0), a few matter as much
    as they like (its tail falls like 1 / r^2). With lambda integrated out,

        p(r) = sqrt(2 / pi^3) / scale  e^q E1(q),   q = r^2 / (2 scale^2),   E1 the exponential integral.

    The relevance of a column is its *inverse* length scale: with `inverse` (the default) the prior is over
    the length scale l = 1 / r, with density p(1 / l) / l^2. `inverse=False` is the prior over r itself, for
    parameters such as the standard deviation of a linear weight.

    `scale` is the global relevance, in units of one over those of the inputs: half of the mass has a
    relevance below 0.59 scale, that is, a length scale above 1.7 / scale.

    Notes
    -----
    A mode depends on the coordinates in which it is sought. Over l the density falls with l everywhere, so
    that its mode shrinks nothing; over r it has a pole at zero. Shrinkage is a property of the mass, not of a
    mode: use this prior with samplers, or with a MAP estimate that counts the Jacobian (the density over log
    l has one maximum, near l = 1.4 / scale, and falls on both sides as slowly as a power of l).

    Examples
    --------
    >>> from cavity.parameters.priors import Horseshoe
    >>> Horseshoe(1.0).log_density([0.1, 1.0]).round(2)
    array([-0.7 , -1.45])
    """

    scale: float = 1.0
    inverse: bool = True
    support = POSITIVE
    _positive = ("scale",)

    def _log_density(self, x: Array) -> Array:
        log_x = np.log(x)
        log_r = -log_x if self.inverse else log_x
        log_f, _ = _scaled_exponential_integral(self._log_q(log_r))
        value = 0.5 * (LOG_2 - 3.0 * np.log(np.pi)) - np.log(self.scale) + log_f
        return cast(Array, value - 2.0 * log_x if self.inverse else value)

    def _gradient(self, x: Array) -> Array:
        log_x = np.log(x)
        log_r = -log_x if self.inverse else log_x
        _, elasticity = _scaled_exponential_integral(self._log_q(log_r))
        # d/dx of log f(q) with q proportional to x^2 or x^-2
        return (-2.0 * elasticity - 2.0) / x if self.inverse else 2.0 * elasticity / x

    def _log_q(self, log_r: Array) -> Array:
        return 2.0 * (log_r - float(np.log(self.scale))) - LOG_2

    def _sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> ArrayLike:
        r = self.scale * np.abs(rng.standard_cauchy(shape) * rng.standard_normal(shape))
        return 1.0 / r if self.inverse else r


SERIES_FROM = 50.0
"""From here on e^q E1(q) is summed as its asymptotic series, whose terms k! / q^k first fall below 1e-16."""

SERIES_TERMS = 20

TINY_LOG_Q = -36.0
"""Below this log q, E1(q) = -gamma - log q to machine precision."""


def _scaled_exponential_integral(log_q: Array) -> tuple[Array, Array]:
    """log f and d log f / d log q for f(q) = e^q E1(q), from log q, without overflow or cancellation.

    f' = f - 1/q, so that d log f / d log q = q - 1 / f. For large q, where that cancels, f = S / q with the
    asymptotic series S = sum_k k! (-1/q)^k, and q - 1/f = -T / S with 1 - S = T / q.
    """
    log_f, elasticity = np.empty(log_q.shape), np.empty(log_q.shape)
    small, large = log_q < TINY_LOG_Q, log_q > np.log(SERIES_FROM)
    middle = ~(small | large)

    log_f[small] = np.log(-np.euler_gamma - log_q[small])
    elasticity[small] = -np.exp(-log_f[small])

    q = np.exp(log_q[middle])
    f = np.exp(q) * exp1(q)
    log_f[middle] = np.log(f)
    elasticity[middle] = q - 1.0 / f

    step = -np.exp(-log_q[large])
    T, term = np.zeros(step.shape), np.ones(step.shape)
    for k in range(1, SERIES_TERMS + 1):
        T += term  # T = 1 - 2!/q + 3!/q^2 - ...
        term = term * step * (k + 1)
    S = 1.0 + step * T
    log_f[large] = np.log(S) - log_q[large]
    elasticity[large] = -T / S
    return log_f, elasticity
