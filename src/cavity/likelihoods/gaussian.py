"""Normal noise: one variance for all observations, or known variances with an optional learned addition.

p(y|f) = N(y | f, s), s the noise variance. Everything is closed form, for cavities of either sign with
precision > -eta/s: the tilted density is normal with precision eta/s + tau.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from cavity.likelihoods.base import (
    Derivatives,
    ExpectedLogProb,
    Likelihood,
    ParameterDerivatives,
    Power,
    Tilted,
    log_cavity_mass,
    require_cavity,
)
from cavity.numerics.arrays import Array
from cavity.numerics.special import LOG_2PI
from cavity.parameters.param import LOG
from cavity.prediction import GaussianPrediction
from cavity.runtime.errors import InputError, Setting


class GaussianNoise(Likelihood):
    """What all normal noise models share; a subclass says what the variances are.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.likelihoods import GaussianNoise, KnownNoise
    >>> noise = KnownNoise(np.array([0.1, 0.4]))
    >>> isinstance(noise, GaussianNoise), noise.noise_variances(2)[0]
    (True, array([0.1, 0.4]))
    """

    log_concave = True

    def noise_variances(self, n: int) -> tuple[Array, Array]:
        """Noise variance of each of n observations, (n,), and its derivatives in the flat parameters, (P,
        n)."""
        raise NotImplementedError

    def _noise(self, like: Array) -> tuple[Array, Array]:
        return self.noise_variances(np.shape(like)[-1] if np.ndim(like) else 1)

    @property
    def min_cavity_precision(self) -> float | Array:
        """-1/variance."""
        raise NotImplementedError

    @property
    def finest_width(self) -> float:  # type: ignore[override]
        """The smallest standard deviation."""
        return float(np.sqrt(-1 / np.min(self.min_cavity_precision)))

    def log_prob(self, y: Array, f: Array) -> Array:
        """-(log 2 pi s + (y-f)^2/s)/2."""
        s, _ = self._noise(f)
        return np.asarray(-0.5 * (LOG_2PI + np.log(s) + (y - f) ** 2 / s))

    def derivatives(self, y: Array, f: Array) -> Derivatives:
        """Quadratic in f: d1 = e/s, d2 = -1/s, d3 = 0."""
        s, _ = self._noise(f)
        d1 = np.asarray((y - f) / s)
        return Derivatives(self.log_prob(y, f), d1, np.broadcast_to(-1 / s, d1.shape), np.zeros_like(d1))

    def parameter_derivatives(self, y: Array, f: Array) -> ParameterDerivatives:
        """Through the variance."""
        s, ds = self._noise(f)
        e = np.asarray(y - f)
        ds = ds.reshape(len(ds), *(1,) * (e.ndim - 1), ds.shape[-1])
        d2 = np.broadcast_to(ds / s**2, (len(ds), *e.shape))
        return ParameterDerivatives(ds * 0.5 * (e * e / s - 1) / s, -ds * e / s**2, d2)

    def tilted(self, y: Array, shift: Array, precision: Array, power: Power = 1.0, order: int = 2) -> Tilted:
        """Product of two normals."""
        require_cavity(self, precision, power)
        s, ds = self._noise(y)
        w = power / s
        total = w + precision
        centered = shift - precision * y
        offset = centered / total
        var = 1 / total
        # log integral of the power of the density, centered at y; then the terms that centering took away
        constant = -0.5 * power * (LOG_2PI + np.log(s))
        with np.errstate(divide="ignore", invalid="ignore"):
            tau = np.where(precision > 0, precision, np.nan)
            gap = centered / tau
            normalized = constant + 0.5 * np.log(tau / total) - 0.5 * (w / total) * gap * (tau * gap)
        direct = constant + 0.5 * (LOG_2PI - np.log(total)) + 0.5 * centered * offset
        direct = direct + (shift - 0.5 * precision * y) * y
        log_z = np.where(precision > 0, normalized + log_cavity_mass(shift, precision), direct)
        second = var + offset * offset
        d_log_z = ds * 0.5 * power * (second / s - 1) / s
        c3, c4 = (np.zeros_like(var), 3 * var * var) if order > 2 else (None, None)
        return Tilted(log_z, normalized, y + offset, var, d_log_z, c3, c4)

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> ExpectedLogProb:
        """log N(y|mean, s) - var/(2 s)."""
        s, ds = self._noise(mean)
        e = y - mean
        second = e * e + var
        value = -0.5 * (LOG_2PI + np.log(s) + second / s)
        return ExpectedLogProb(
            value, e / s, np.broadcast_to(-0.5 / s, value.shape), ds * 0.5 * (second / s - 1) / s
        )

    def predictive(self, mean: ArrayLike, var: ArrayLike) -> GaussianPrediction:
        """Normal with the noise added; means may have several columns of targets."""
        m: Array = np.asarray(mean, dtype=float)
        v: Array = np.asarray(var, dtype=float)
        s, _ = self.noise_variances(len(m))
        return GaussianPrediction(m, v + (s if v.ndim < 2 else s[:, None]))

    def sample(self, f: ArrayLike, rng: np.random.Generator) -> Array:
        """f plus noise."""
        f = np.asarray(f, dtype=float)
        s, _ = self._noise(f)
        return np.asarray(f + np.sqrt(s) * rng.standard_normal(f.shape))


class Gaussian(GaussianNoise):
    """Normal noise of one variance, p(y|f) = N(y | f, variance).

    Parameters
    ----------
    variance : float or Param
        Noise variance, in squared units of y.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.likelihoods import Gaussian
    >>> Gaussian(0.25).log_prob(np.array([1.0]), np.array([0.5])).round(3)
    array([-0.726])
    """

    _transforms: ClassVar = {"variance": LOG}

    def __init__(self, variance: Any = 1.0) -> None:
        self._set_up({"variance": variance})
        if np.ndim(self.variance):
            raise ValueError(
                f"Gaussian: variance must be one number, got {self.variance!r}; for known variances of "
                "single observations use KnownNoise"
            )

    def noise_variances(self, n: int) -> tuple[Array, Array]:
        """The same for all."""
        return np.full(n, self.variance), np.ones((1, n))

    @property
    def min_cavity_precision(self) -> float:
        """-1/variance."""
        return -1.0 / float(self.variance)


class KnownNoise(GaussianNoise):
    """Normal noise whose variance is known for each observation, p(y_i|f_i) = N(y_i | f_i, variances_i +
    variance).

    Parameters
    ----------
    variances : array (n,)
        Known noise variances, in squared units of y. They belong to the observations: those of new ones must
        be given where these are predicted (`predict_y(X, noise_variance=...)`) or added (`update`).
    variance : float or Param, optional
        Learned variance added to all of them; none by default.

    Examples
    --------
    >>> noise = KnownNoise([0.1, 0.4])
    >>> noise.at([0.2]), noise.rows([1])
    (KnownNoise([0.2]), KnownNoise([0.4]))
    """

    _transforms: ClassVar = {"variance": LOG}

    def __init__(self, variances: ArrayLike, variance: Any = None) -> None:
        self.variances = self._checked_variances(variances, allow_zero=variance is not None)
        self._set_up({} if variance is None else {"variance": variance})

    @staticmethod
    def _checked_variances(variances: ArrayLike, allow_zero: bool) -> Array:
        known = np.array(variances, dtype=float)
        good = np.isfinite(known) & ((known >= 0) if allow_zero else (known > 0))
        if known.ndim != 1 or not good.all():
            value = known if known.ndim != 1 else known[~good][0]
            raise ValueError(f"KnownNoise: variances must be a vector of positive numbers, got {value!r}")
        known.setflags(write=False)
        return known

    def noise_variances(self, n: int) -> tuple[Array, Array]:
        """Known plus learned."""
        if n != len(self.variances):
            raise ValueError(
                f"KnownNoise has variances for {len(self.variances)} observations, but {n} are asked for; "
                "use likelihood.at(variances_of_these_points)"
            )
        if not self._params:
            return self.variances, np.zeros((0, n))
        return self.variances + self.variance, np.ones((1, n))

    @property
    def min_cavity_precision(self) -> Array:
        """-1/variance, one per observation."""
        return -1.0 / self.noise_variances(len(self.variances))[0]

    def at(self, variances: ArrayLike) -> Self:
        """The same noise model for other observations."""
        new = self._rebuild(self._params, self._parts)
        new.variances = self._checked_variances(variances, allow_zero=bool(self._params))
        return new

    def rows(self, index: Any) -> Self:
        """The noise of some of the observations."""
        return self.at(self.variances[index])

    def of_new(self, X: Array, noise_variance: ArrayLike | None = None) -> Self:
        """New observations with known variances of their own: a number or an array (m,)."""
        count = len(X)
        if noise_variance is None:
            raise ValueError(
                f"KnownNoise holds the noise variances of the {len(self.variances)} observations it was made for: "
                "give those of the new ones as noise_variance (in an estimator noise=...), or ask for f, which "
                "has no noise"
            )
        known = np.asarray(noise_variance, dtype=float)
        if known.ndim and known.shape != (count,):
            raise ValueError(
                f"noise_variance must be a number or have one entry for each of the {count} new observations, "
                f"got shape {known.shape}"
            )
        return self.at(np.broadcast_to(known, count))

    def and_new(self, X: Array, noise_variance: ArrayLike | None = None) -> Self:
        """These observations, then new ones with known variances of their own."""
        new = self.of_new(X, noise_variance).variances
        return self.at(np.concatenate([self.variances, new]))

    def _arguments(self) -> list[str]:
        return [repr(self.variances.tolist()), *super()._arguments()]


class Noiseless(GaussianNoise):
    """Observations of f itself, y = f: no noise, for exact inference only.

    The covariance matrix is then that of the kernel alone. Where that is nearly singular (points close
    together, a long length scale), the jitter policy of `cavity.numerics.cholesky` steps in and reports what it added.

    Examples
    --------
    >>> from cavity import GP
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import Noiseless
    >>> posterior = GP(1.0 * SE(1.0), Noiseless()).condition([[0.0], [1.0]], [0.5, -0.5])
    >>> posterior.mean([[0.0], [1.0]]).round(6)
    array([ 0.5, -0.5])
    """

    smooth = False

    def noise_variances(self, n: int) -> tuple[Array, Array]:
        """Zero."""
        return np.zeros(n), np.zeros((0, n))

    @property
    def min_cavity_precision(self) -> float:
        """None is too negative for a point mass."""
        return -np.inf

    @property
    def finest_width(self) -> float:  # type: ignore[override]
        """A point mass has no width."""
        return 0.0

    def log_prob(self, y: Array, f: Array) -> Array:
        """Log density of a point mass: infinite at y = f, minus infinity elsewhere."""
        return np.where(np.asarray(y) == f, np.inf, -np.inf)

    def _refuse(self, *_: Any, **__: Any) -> Any:
        """Not for a point mass."""
        remedy = ("use ", Setting("inference", "exact"), ", or Gaussian(small variance)")
        raise InputError("Noiseless has no density in f", remedy=remedy)

    derivatives = parameter_derivatives = tilted = expected_log_prob = _refuse
