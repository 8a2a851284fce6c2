"""Predictive distributions: n marginals, each with mean, variance, quantiles, log density, distribution and
draws.

`Prediction` is the protocol; inference rules and likelihoods return one of the concrete classes here.
Arrays have one entry per case, shape (n,); a quantile at several levels and draws have these on the leading
axis, (k, n). A variance that does not exist is infinite (Student-t noise with two degrees of freedom or
fewer), never an error.

Notation: F is a distribution function; Phi, phi those of the standard normal.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, log_ndtr, logsumexp, ndtr, ndtri

from cavity.numerics.arrays import Array

LOG_2PI = float(np.log(2 * np.pi))
Seed = int | np.random.Generator | None


def check_levels(q: ArrayLike) -> Array:
    """Quantile levels, checked."""
    levels: Array = np.asarray(q, dtype=float)
    if not np.all((levels >= 0) & (levels <= 1)):
        raise ValueError(f"quantile levels must lie between 0 and 1, got {q!r}")
    return levels


class Prediction(ABC):
    """A distribution for each of n cases.

    Examples
    --------
    >>> from cavity import GP
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import StudentT
    >>> posterior = GP(1.0 * SE(1.0), StudentT(0.1, 4.0)).condition([[0.0], [1.0]], [0.5, -0.5])
    >>> prediction = posterior.predict_y([[0.0], [5.0]])  # Student-t noise around an uncertain f
    >>> len(prediction), prediction.quantile([0.1, 0.9]).shape
    (2, (2, 2))
    >>> prediction.cdf(prediction.median).round(6)
    array([0.5, 0.5])
    """

    @property
    @abstractmethod
    def mean(self) -> Array:
        """Means, shape (n,)."""

    @property
    @abstractmethod
    def variance(self) -> Array:
        """Variances, shape (n,); inf where there is none."""

    @property
    def sd(self) -> Array:
        """Standard deviations."""
        return np.sqrt(self.variance)

    def __len__(self) -> int:
        return len(self.mean)

    @abstractmethod
    def log_prob(self, y: ArrayLike) -> Array:
        """Log density (log probability for discrete y) of y, case by case."""

    @abstractmethod
    def cdf(self, y: ArrayLike) -> Array:
        """Probability of a value <= y, case by case."""

    def survival(self, y: ArrayLike) -> Array:
        """Probability of a value > y, case by case."""
        return 1.0 - self.cdf(y)

    @abstractmethod
    def quantile(self, q: ArrayLike) -> Array:
        """Smallest value with probability >= q to its left: shape (n,), or (k, n) for k levels."""

    @abstractmethod
    def sample(self, n: int = 1, rng: Seed = None) -> Array:
        """Draws, shape (n, number of cases); `rng` is a Generator or a seed."""

    @property
    def median(self) -> Array:
        """The quantile at one half."""
        return self.quantile(0.5)

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Central interval that holds a fraction `level`: (low, high)."""
        if not 0 < level < 1:
            raise ValueError(f"level must lie strictly between 0 and 1, got {level!r}")
        low, high = self.quantile(np.array([0.5 - level / 2, 0.5 + level / 2]))
        return low, high


class GaussianPrediction(Prediction):
    """Normal marginals, with their joint covariance where it was asked for.

    Parameters
    ----------
    mean : array (n,) or (n, T)
        T targets may share a variance.
    variance : array (n,) or (n, T)
    covariance : array (n, n), optional
        Joint covariance of the cases (shared by all targets); `sample` then draws jointly.

    Examples
    --------
    >>> from cavity import GP
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import Gaussian
    >>> posterior = GP(1.0 * SE(1.0), Gaussian(0.1)).condition([[0.0], [1.0]], [0.5, -0.5])
    >>> prediction = posterior.predict_f([[0.0], [5.0]])
    >>> prediction.sd.round(2), prediction.interval(0.9)[1].round(2)
    (array([0.29, 1.  ]), array([0.88, 1.64]))
    """

    def __init__(self, mean: ArrayLike, variance: ArrayLike, covariance: ArrayLike | None = None) -> None:
        self._mean: Array = np.asarray(mean, dtype=float)
        var: Array = np.asarray(variance, dtype=float)
        self._target_variance = var
        if self._mean.ndim > 1 and var.ndim == self._mean.ndim - 1:
            var = var[..., None]
        self._variance: Array = np.broadcast_to(var, self._mean.shape)
        if np.any(self._variance < 0):
            raise ValueError(f"variance must not be negative, got {float(np.min(self._variance))!r}")
        self.covariance: Array | None = None if covariance is None else np.asarray(covariance, dtype=float)
        n = len(self._mean)
        if self.covariance is not None and self.covariance.shape != (n, n):
            raise ValueError(f"covariance must have shape ({n}, {n}), got {self.covariance.shape}")

    @property
    def mean(self) -> Array:
        """Means, shape (n,) or (n, T)."""
        return self._mean

    @property
    def variance(self) -> Array:
        """Variances, of the shape of the mean."""
        return self._variance

    def log_prob(self, y: ArrayLike) -> Array:
        """Log density; +inf or -inf where the variance is zero."""
        with np.errstate(divide="ignore", invalid="ignore"):
            e = np.asarray(y, dtype=float) - self._mean
            quad = np.where(e == 0, 0.0, e * e / self._variance)
            out: Array = -0.5 * (LOG_2PI + np.log(self._variance) + quad)
            return np.where((self._variance == 0) & (e != 0), -np.inf, out)

    def _standardized(self, y: ArrayLike) -> Array:
        e = np.asarray(y, dtype=float) - self._mean
        with np.errstate(divide="ignore", invalid="ignore"):
            # A point mass at the mean: everything from there on lies to its right.
            return np.where(self._variance > 0, e / self.sd, np.where(e >= 0, np.inf, -np.inf))

    def cdf(self, y: ArrayLike) -> Array:
        """Phi((y - mean) / sd)."""
        return np.asarray(ndtr(self._standardized(y)))

    def survival(self, y: ArrayLike) -> Array:
        """Phi((mean - y) / sd), accurate far in the tail."""
        return np.asarray(ndtr(-self._standardized(y)))

    def log_cdf(self, y: ArrayLike) -> Array:
        """log Phi((y - mean) / sd), accurate far in the tail."""
        return np.asarray(log_ndtr(self._standardized(y)))

    def quantile(self, q: ArrayLike) -> Array:
        """Mean + sd Phi^-1(q)."""
        levels = check_levels(q)
        z = np.asarray(ndtri(levels)).reshape(levels.shape + (1,) * self._mean.ndim)
        with np.errstate(invalid="ignore"):
            return np.asarray(self._mean + np.where(self.sd > 0, self.sd * z, 0.0))

    def _root(self) -> Array:
        """A matrix square root of the covariance; eigenvalues below zero by rounding count as zero."""
        assert self.covariance is not None
        values, vectors = np.linalg.eigh(self.covariance)
        worst = float(values.min(initial=0.0))
        if worst < -1e-6 * max(float(values.max(initial=0.0)), np.finfo(float).tiny):
            raise ValueError(
                f"covariance must be positive semi-definite, its smallest eigenvalue is {worst!r}"
            )
        return np.asarray(vectors * np.sqrt(np.clip(values, 0.0, None)))

    def sample(self, n: int = 1, rng: Seed = None) -> Array:
        """Draws (n, cases[, T]): joint when the covariance is known, else independent."""
        generator = np.random.default_rng(rng)
        z = generator.standard_normal((n, *self._mean.shape))
        if self.covariance is None:
            return np.asarray(self._mean + self.sd * z)
        return np.asarray(self._mean + np.einsum("ij,sj...->si...", self._root(), z))

    def log_prob_joint(self, y: ArrayLike) -> float | Array:
        """Joint log density of all cases, one number (or one per target); needs the covariance."""
        if self.covariance is None:
            raise ValueError("log_prob_joint needs the joint covariance; predict with the full covariance")
        from scipy.linalg import cho_factor, cho_solve

        e = np.asarray(y, dtype=float) - self._mean
        try:
            factor = cho_factor(self.covariance, lower=True)
        except np.linalg.LinAlgError:
            raise ValueError(
                "the joint covariance is singular, so there is no joint density; add noise"
            ) from None
        log_det = 2 * np.log(np.diag(factor[0])).sum()
        quad = np.sum(e * cho_solve(factor, e), axis=0)
        out = -0.5 * (len(e) * LOG_2PI + log_det + quad)
        return float(out) if np.ndim(out) == 0 else np.asarray(out)

    def __repr__(self) -> str:
        joint = "" if self.covariance is None else ", joint covariance"
        return f"GaussianPrediction({len(self)} cases{joint})"


# --- continuous distributions known through their distribution function -------------------------------------


def invert_cdf(cdf: Callable[[Array], Array], level: Array, start: Array, width: Array) -> Array:
    """Solve cdf(x) = level for every entry by bracketing, then Chandrupatla's (1997) method on the log of cdf / level.

    Each step is one of inverse quadratic interpolation where the last three points promise that it helps, else one of
    bisection; the bracket shrinks from both sides, so that ten evaluations are usual.

    Parameters
    ----------
    cdf : callable
        Element-wise, non-decreasing; called with arrays of the shape of `start`.
    level, start, width : arrays of one shape
        Levels strictly between 0 and 1, a first guess and a first step.
    """
    low, high = start - width, start + width
    step: Array = np.array(width, dtype=float)
    for _ in range(1100):  # doubling spans all of double precision
        f_low, f_high = cdf(low), cdf(high)
        too_high, too_low = f_low > level, f_high < level
        if not (too_high.any() or too_low.any()):
            break
        step = np.where(too_high | too_low, 2 * step, step)
        low, high = np.where(too_high, low - step, low), np.where(too_low, high + step, high)
    log_level = np.log(level)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return _chandrupatla(
            lambda x: np.log(cdf(x)) - log_level,
            low,
            high,
            np.log(f_low) - log_level,
            np.log(f_high) - log_level,
        )


def _chandrupatla(f: Callable[[Array], Array], a: Array, b: Array, f_a: Array, f_b: Array) -> Array:
    """Roots of increasing functions between a and b; f may be -inf or 0 at the ends.

    a is the newest point, b the one across the root, c the one before.
    """
    t: Array = np.full(a.shape, 0.5)
    for _ in range(200):
        x = a + t * (b - a)
        f_x = f(x)
        same = np.sign(f_x) == np.sign(f_a)
        c, f_c = np.where(same, a, b), np.where(same, f_a, f_b)
        b, f_b = np.where(same, b, a), np.where(same, f_b, f_a)
        a, f_a = x, f_x
        best = np.where(np.abs(f_a) < np.abs(f_b), a, b)
        # half of the tolerance as a share of the bracket: the root is passed by so much, and the bracket closes
        least = 0.5 * (4e-15 * np.abs(best) + 1e-300) / np.abs(b - a)
        if np.all((least > 0.5) | (f_a == 0) | (f_b == 0) | (a == b)):
            break
        xi, phi = (a - b) / (c - b), (f_a - f_b) / (f_c - f_b)
        smooth = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
        quadratic = f_a / (f_b - f_a) * f_c / (f_b - f_c) + (c - a) / (b - a) * f_a / (f_c - f_a) * f_b / (
            f_c - f_b
        )
        t = np.where(smooth & np.isfinite(quadratic), np.clip(quadratic, least, 1 - least), 0.5)
    return np.where(f_a == 0, a, np.where(f_b == 0, b, best))


class ContinuousPrediction(Prediction):
    """Base of continuous predictions that know log density and distribution function; quantiles by inversion.

    The left and the right half are inverted in the tail they belong to, so that extreme quantiles keep
    their digits.
    """

    @abstractmethod
    def _location_and_width(self) -> tuple[Array, Array]:
        """A central value and a finite positive width for each case, to start searches from."""

    def quantile(self, q: ArrayLike) -> Array:
        """By bracketing and bisection on the distribution function."""
        levels = check_levels(q)
        return np.stack([self._quantile(float(p)) for p in levels.ravel()]).reshape(
            levels.shape + (len(self),)
        )

    def _quantile(self, p: float) -> Array:
        if p in (0.0, 1.0):
            return np.full(len(self), -np.inf if p == 0.0 else np.inf)
        start, width = self._location_and_width()
        if p <= 0.5:
            return invert_cdf(self.cdf, np.full(len(self), p), start, width)
        mirrored = invert_cdf(lambda x: self.survival(-x), np.full(len(self), 1 - p), -start, width)
        return -mirrored

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} cases)"


BLOCK_NUMBERS = 1_000_000
"""Numbers (components times cases) that are inverted at a time."""


def _log_cdf_and_slope(x: Array, m: Array, sd: Array, w: Array) -> tuple[Array, Array]:
    """log F and its derivative at x (n,), for mixtures of normals (J, n); a component without width is a step."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        gap = x - m
        step = np.where(gap >= 0, np.inf, -np.inf)
        z = np.where(sd > 0, gap / sd, step)
        F = np.einsum("ij,ij->j", w, ndtr(z))
        f = np.einsum("ij,ij->j", w, np.where(sd > 0, np.exp(-0.5 * z * z) / sd, 0.0)) / np.sqrt(2 * np.pi)
        return np.log(F), f / F


class MixturePrediction(ContinuousPrediction):
    """Mixtures of normals.

    Parameters
    ----------
    log_weights : array (J,) or (J, n)
        Log weights; they should add up to one.
    means, variances : arrays broadcastable to (J, n)
    variance : array (n,), optional
        The variance where it is known otherwise (infinite for a heavy-tailed mixture cut into finitely many
        pieces).
    """

    def __init__(
        self,
        log_weights: ArrayLike,
        means: ArrayLike,
        variances: ArrayLike,
        variance: ArrayLike | None = None,
    ) -> None:
        log_w: Array = np.asarray(log_weights, dtype=float)
        if log_w.ndim == 1:
            log_w = log_w[:, None]
        m, v, lw = np.broadcast_arrays(
            np.asarray(means, dtype=float), np.asarray(variances, dtype=float), log_w
        )
        self._log_w, self._m, self._sd = lw, m, np.sqrt(v)
        w = np.exp(lw)
        self._mean: Array = np.asarray(np.sum(w * m, axis=0) / np.sum(w, axis=0))
        if variance is None:
            self._variance: Array = np.asarray(
                np.sum(w * (v + (m - self._mean) ** 2), axis=0) / np.sum(w, axis=0)
            )
        else:
            self._variance = np.broadcast_to(np.asarray(variance, dtype=float), self._mean.shape)

    @property
    def mean(self) -> Array:
        """Weighted average of the component means."""
        return self._mean

    @property
    def variance(self) -> Array:
        """Average of the variances plus variance of the means."""
        return self._variance

    def _z(self, y: ArrayLike) -> Array:
        e = np.asarray(y, dtype=float) - self._m
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self._sd > 0, e / self._sd, np.where(e >= 0, np.inf, -np.inf))

    def log_prob(self, y: ArrayLike) -> Array:
        """Log of the weighted sum of normal densities."""
        z = self._z(y)
        return np.asarray(logsumexp(self._log_w - 0.5 * z * z - np.log(self._sd) - 0.5 * LOG_2PI, axis=0))

    def cdf(self, y: ArrayLike) -> Array:
        """Weighted sum of normal distribution functions."""
        return np.asarray(np.sum(np.exp(self._log_w) * ndtr(self._z(y)), axis=0))

    def survival(self, y: ArrayLike) -> Array:
        """Weighted sum of upper tails."""
        return np.asarray(np.sum(np.exp(self._log_w) * ndtr(-self._z(y)), axis=0))

    def _location_and_width(self) -> tuple[Array, Array]:
        spread = self._sd + np.abs(self._m - self._mean)
        best = np.argmax(self._log_w, axis=0)[None]
        return self._mean, np.maximum(np.take_along_axis(spread, best, axis=0)[0], 1e-300)

    def quantile(self, q: ArrayLike) -> Array:
        """By Newton's method on log F, all levels and cases at once, in blocks.

        Where all components are below their quantile F is below the level, and where all are above it F is above;
        so the smallest and the largest of the components' quantiles are a bracket. Steps that leave it are bisections.
        """
        levels = check_levels(q)
        J, n = self._m.shape
        out = np.empty((levels.size, n))
        block = max(1, BLOCK_NUMBERS // J)
        for k, p in enumerate(levels.ravel()):
            if p in (0.0, 1.0):
                out[k] = -np.inf if p == 0.0 else np.inf
        inner = np.flatnonzero((levels.ravel() > 0) & (levels.ravel() < 1))
        case = np.tile(np.arange(n), len(inner))
        level = np.repeat(levels.ravel()[inner], n)
        found = np.empty(len(case))
        for start in range(0, len(case), block):
            some = slice(start, start + block)
            found[some] = self._newton(case[some], level[some])
        out[inner] = found.reshape(len(inner), n)
        return out.reshape(levels.shape + (n,))

    def _newton(self, case: NDArray[np.intp], level: Array) -> Array:
        """Quantiles of some cases, each at a level of its own; above one half by the mirrored mixture."""
        sign = np.where(level <= 0.5, 1.0, -1.0)
        tail = np.where(level <= 0.5, level, 1.0 - level)
        m, sd, w = sign * self._m[:, case], self._sd[:, case], np.exp(self._log_w[:, case])
        ends = np.where(w > 0, m + sd * ndtri(tail), np.nan)
        low, high = np.nanmin(ends, axis=0), np.nanmax(ends, axis=0)
        x = 0.5 * (low + high)
        left = np.arange(len(case))  # those not found yet
        for _ in range(200):
            log_F, slope = _log_cdf_and_slope(x[left], m[:, left], sd[:, left], w[:, left])
            gap = log_F - np.log(tail[left])
            low[left] = np.where(gap < 0, x[left], low[left])
            high[left] = np.where(gap < 0, high[left], x[left])
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                new = x[left] - gap / slope
            inside = (new > low[left]) & (new < high[left])
            new = np.where(inside, new, 0.5 * (low[left] + high[left]))
            moved = np.abs(new - x[left])
            x[left] = np.where(gap == 0, x[left], new)
            smallest = 4e-15 * np.abs(new) + 1e-300
            done = (gap == 0) | (moved <= smallest) | (high[left] - low[left] <= smallest)
            left = left[~done]
            if not len(left):
                break
        return np.asarray(sign * x)

    def sample(self, n: int = 1, rng: Seed = None) -> Array:
        """Choose a component, then draw from it."""
        generator = np.random.default_rng(rng)
        cumulative = np.cumsum(np.exp(self._log_w), axis=0)
        u = generator.random((n, len(self))) * cumulative[-1]
        which = np.empty((n, len(self)), dtype=np.intp)
        for i, (c, u_col) in enumerate(zip(cumulative.T, u.T)):
            which[:, i] = (c[:, None] < u_col[None]).sum(axis=0)
        columns = np.arange(len(self))
        z = generator.standard_normal((n, len(self)))
        return np.asarray(self._m[which, columns] + self._sd[which, columns] * z)


class MixedPrediction(ContinuousPrediction):
    """A mixture of predictions, weights shared by all cases.

    Parameters
    ----------
    weights : array (K,)
        They add up to one.
    parts : sequence of Prediction
    """

    def __init__(self, weights: ArrayLike, parts: Sequence[Prediction]) -> None:
        self._w: Array = np.asarray(weights, dtype=float)
        self._parts = tuple(parts)

    @property
    def mean(self) -> Array:
        """Weighted average of the means."""
        return np.asarray(sum(w * p.mean for w, p in zip(self._w, self._parts)))

    @property
    def variance(self) -> Array:
        """Average of the variances plus variance of the means."""
        mean = self.mean
        return np.asarray(sum(w * (p.variance + (p.mean - mean) ** 2) for w, p in zip(self._w, self._parts)))

    def log_prob(self, y: ArrayLike) -> Array:
        """Log of the weighted sum of densities."""
        terms = np.stack([np.log(w) + p.log_prob(y) for w, p in zip(self._w, self._parts)])
        return np.asarray(logsumexp(terms, axis=0))

    def cdf(self, y: ArrayLike) -> Array:
        """Weighted sum of distribution functions."""
        return np.asarray(sum(w * p.cdf(y) for w, p in zip(self._w, self._parts)))

    def survival(self, y: ArrayLike) -> Array:
        """Weighted sum of upper tails."""
        return np.asarray(sum(w * p.survival(y) for w, p in zip(self._w, self._parts)))

    def _location_and_width(self) -> tuple[Array, Array]:
        low, high = self._parts[0].interval(0.5)
        return 0.5 * (low + high), np.maximum(high - low, 1e-300)

    def sample(self, n: int = 1, rng: Seed = None) -> Array:
        """Choose a part, then draw from it."""
        generator = np.random.default_rng(rng)
        which = generator.choice(len(self._w), size=(n, len(self)), p=self._w / self._w.sum())
        out = np.empty((n, len(self)))
        for k, part in enumerate(self._parts):
            chosen = which == k
            if chosen.any():
                out[chosen] = part.sample(n, generator)[chosen]
        return out


# --- discrete distributions ---------------------------------------------------------------------------------


class CategoricalPrediction(Prediction):
    """Finitely many values with probabilities: classes, ordered categories, labels -1 and +1.

    Parameters
    ----------
    probabilities : array (n, C)
    values : array (C,)
        The values of y, increasing.
    log_probabilities : array (n, C), optional
        Where small probabilities are known more accurately than their difference from one.
    """

    def __init__(
        self, probabilities: ArrayLike, values: ArrayLike, log_probabilities: ArrayLike | None = None
    ) -> None:
        self.probabilities: Array = np.asarray(probabilities, dtype=float)
        self.values: Array = np.asarray(values, dtype=float)
        if self.probabilities.ndim != 2 or self.probabilities.shape[1] != len(self.values):
            raise ValueError(
                f"probabilities must have shape (n, {len(self.values)}), one column per value, "
                f"got {self.probabilities.shape}"
            )
        if log_probabilities is None:
            with np.errstate(divide="ignore"):
                self._log_p: Array = np.log(self.probabilities)
        else:
            self._log_p = np.asarray(log_probabilities, dtype=float)

    @property
    def mean(self) -> Array:
        """Expected value of y."""
        return np.asarray(self.probabilities @ self.values)

    @property
    def variance(self) -> Array:
        """Variance of y."""
        return np.asarray(np.sum(self.probabilities * (self.values - self.mean[:, None]) ** 2, axis=1))

    @property
    def mode(self) -> Array:
        """Most probable value."""
        return np.asarray(self.values[np.argmax(self.probabilities, axis=1)])

    def log_prob(self, y: ArrayLike) -> Array:
        """Log probability of y; -inf for a value that cannot occur."""
        y = np.broadcast_to(np.asarray(y, dtype=float), (len(self),))
        index = np.clip(np.searchsorted(self.values, y), 0, len(self.values) - 1)
        found = self.values[index] == y
        return np.where(found, self._log_p[np.arange(len(self)), index], -np.inf)

    def cdf(self, y: ArrayLike) -> Array:
        """Sum of the probabilities of values <= y."""
        y = np.broadcast_to(np.asarray(y, dtype=float), (len(self),))
        return np.asarray(
            np.minimum(np.sum(self.probabilities * (self.values[None] <= y[:, None]), axis=1), 1.0)
        )

    def quantile(self, q: ArrayLike) -> Array:
        """Smallest value whose cumulative probability reaches q."""
        levels = check_levels(q)
        cumulative = np.cumsum(self.probabilities, axis=1)
        short = cumulative[None] < (levels.ravel()[:, None, None] - 1e-15)
        index = np.minimum(short.sum(axis=2), len(self.values) - 1)
        return np.asarray(self.values[index]).reshape(levels.shape + (len(self),))

    def sample(self, n: int = 1, rng: Seed = None) -> Array:
        """Independent draws."""
        generator = np.random.default_rng(rng)
        u = generator.random((n, len(self)))
        cumulative = np.cumsum(self.probabilities, axis=1)
        index = np.sum(cumulative[None, :, :-1] < u[:, :, None], axis=2)
        return np.asarray(self.values[index])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} cases, {len(self.values)} values)"


def log_choose(n: Array, k: Array) -> Array:
    """log of the binomial coefficient."""
    return np.asarray(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))
