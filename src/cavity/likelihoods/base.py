"""The contract of a likelihood p(y | f): what every inference rule may ask of it, and the answers by default.

All questions are vectorized over observations and answered in the log domain. A likelihood with one latent
value per observation (`n_latent == 1`) works element by element: `f` has shape (..., n), so that leading
axes may hold quadrature nodes or samples, and `y` has shape (n,). With several latent values `f` has shape
(..., n, L).

A subclass must write `log_prob` alone. Everything else is then found by adaptive quadrature (`tilted_quadrature`,
`quadrature_prediction`) and numerical differentiation (`numerical_derivatives`). Families with closed forms override
what they know better.

Derivatives in parameters are with respect to `flat`, the natural values, one row per value: shape (P, n).

Notation: the cavity is exp(nu f - tau f^2 / 2), *not normalized*, so that tau <= 0 can be expressed; eta is
the power to which the likelihood is raised; the tilted density is p(y|f)^eta times the cavity, divided by
its integral Z.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cavity.numerics.arrays import Array
from cavity.numerics.special import LOG_2PI, Moments
from cavity.parameters.param import Parametrized
from cavity.parameters.units import Unit
from cavity.prediction import Prediction
from cavity.runtime.checks import require_positive
from cavity.runtime.errors import InputError, Setting, Text

QUADRATURE_NODES = 200.0
"""About the nodes per point of the quadrature for any likelihood."""

Power = float | Array
"""Of a likelihood factor, one for all rows or one for each."""


class Derivatives(NamedTuple):
    """log p(y|f) and its first three derivatives in f, each of the shape of f.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.likelihoods import Gaussian
    >>> found = Gaussian(0.5).derivatives(np.array([1.0]), np.array([0.0]))
    >>> found.d1, found.d2  # (y - f) / variance, -1 / variance
    (array([2.]), array([-2.]))
    """

    log_prob: Array
    d1: Array
    d2: Array
    d3: Array


class ParameterDerivatives(NamedTuple):
    """Derivatives in the flat parameters of log p and of its first two derivatives in f, each (P, n).

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.likelihoods import Gaussian
    >>> found = Gaussian(0.5).parameter_derivatives(np.array([1.0]), np.array([0.0]))
    >>> found.log_prob  # (y - f)^2 / (2 v^2) - 1 / (2 v)
    array([[1.]])
    """

    log_prob: Array
    d1: Array
    d2: Array


class LatentDerivatives(NamedTuple):
    """For several latent values: log p (n,), its gradient (n, L) and Hessian (n, L, L) in f.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.likelihoods import Softmax
    >>> found = Softmax(3).latent_derivatives(np.array([0.0]), np.zeros((1, 3)))
    >>> found.gradient.round(3), found.hessian.shape
    (array([[ 0.667, -0.333, -0.333]]), (1, 3, 3))
    """

    log_prob: Array
    gradient: Array
    hessian: Array


class ExpectedLogProb(NamedTuple):
    """E[log p(y|f)] under f ~ N(mean, var), shape (n,), and its derivatives.

    `d_mean` and `d_var` have the shapes of mean and var, `d_flat` is (P, n).

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.likelihoods import Gaussian
    >>> found = Gaussian(0.5).expected_log_prob(np.array([1.0]), np.array([0.0]), np.array([0.1]))
    >>> found.d_mean, found.d_var  # (y - mean) / variance, -1 / (2 variance)
    (array([2.]), array([-1.]))
    """

    value: Array
    d_mean: Array
    d_var: Array
    d_flat: Array


@dataclass(frozen=True)
class Tilted:
    """Moments of the tilted density p(y|f)^eta exp(nu f - tau f^2/2) / Z, one per observation.

    `log_z` is the log integral with the cavity as it stands; `log_z_normalized` the one with the cavity
    normalized to a density (nan where the cavity is improper): it does not lose the small difference of two
    large numbers. `c3` and `c4` are central moments, present when asked for by `order=4`. `d_log_z` is (P,
    n).

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.likelihoods import Probit
    >>> tilted = Probit().tilted(np.ones(1), np.zeros(1), np.ones(1))  # a cavity N(0, 1) and the label +1
    >>> tilted.mean.round(4), tilted.var.round(4)
    (array([0.5642]), array([0.6817]))
    """

    log_z: Array
    log_z_normalized: Array
    mean: Array
    var: Array
    d_log_z: Array
    c3: Array | None = None
    c4: Array | None = None

    @classmethod
    def of(cls, rows: Array) -> Tilted:
        """From rows log_z, log_z_normalized, mean, var, c3, c4, then d_log_z, as compiled loops fill them."""
        log_z, normalized, mean, var, c3, c4 = rows[:6]
        return cls(log_z, normalized, mean, var, rows[6:], c3, c4)


def log_cavity_mass(shift: Array, precision: Array) -> Array:
    """Log integral of exp(nu f - tau f^2/2): log(2 pi/tau)/2 + nu^2/(2 tau); nan where tau <= 0."""
    tau = precision if np.all(precision > 0) else np.where(precision > 0, precision, np.nan)
    return 0.5 * (LOG_2PI - np.log(tau)) + 0.5 * shift * (shift / tau)


def float_rows(*arrays: Array) -> tuple[Array, ...]:
    """Contiguous float arrays, the one signature of compiled loops."""
    rows = (np.ascontiguousarray(a, dtype=float) for a in arrays)
    return tuple(
        a if a.flags.writeable else a.copy() for a in rows
    )  # to Numba read-only arrays are of another type


def equal_powers(power: Power, n: int) -> list[tuple[float, NDArray[np.intp]]]:
    """Each distinct power with the rows that have it."""
    if np.ndim(power) == 0:
        return [(float(power), np.arange(n))]
    values, group = np.unique(np.asarray(power, dtype=float), return_inverse=True)
    ends = np.cumsum(np.bincount(group, minlength=len(values)))[:-1]
    return [(float(v), rows) for v, rows in zip(values, np.split(np.argsort(group, kind="stable"), ends))]


def as_targets(y: ArrayLike, owner: str) -> Array:
    """Targets as a float array of finite numbers."""
    try:
        array: Array = np.asarray(y, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(
            f"{owner}: y must hold numbers, got {np.asarray(y).dtype} values; encode them first"
        ) from None
    bad = ~np.isfinite(array)
    if bad.any():
        where = np.argwhere(bad)[0]
        raise InputError(
            f"{owner}: y has a value that is not finite ({array[tuple(where)]})",
            value=float(array[tuple(where)]),
            row=int(where[0]),
            remedy="remove or impute it",
        )
    return array


def refuse(y: Array, bad: NDArray[np.bool_], problem: str, remedy: Text = ()) -> None:
    """Refuse targets if some are bad, with the first of them and its row."""
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        value = float(y.ravel()[row])
        raise InputError(f"{problem}, got {value:g}", value=value, row=row, remedy=remedy)


class Likelihood(Parametrized):
    """Observation model p(y | f). Subclass it and write `log_prob`; see `docs/likelihoods.md`.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import Likelihood
    >>> class Cauchy(Likelihood):
    ...     def __init__(self, scale=1.0):
    ...         self._set_up({"scale": scale})
    ...     def log_prob(self, y, f):
    ...         return -np.log(np.pi * self.scale) - np.log1p(((y - f) / self.scale) ** 2)
    >>> posterior = GP(1.0 * SE(1.0), Cauchy(0.5), inference="ep").condition([[0.0], [1.0]], [0.5, 0.4])
    >>> posterior.mean([[0.5]]).round(2)
    array([0.39])
    """

    _units: ClassVar = {"variance": Unit.NOISE_VARIANCE, "scale": Unit.NOISE_SD}
    n_latent: int = 1
    """Latent values per observation."""

    log_concave: bool = False
    """Whether log p(y|f) is concave in f for every y: the posterior then has one mode, site precisions are
    >= 0."""

    smooth: bool = True
    """Whether log p(y|f) has two continuous derivatives in f (Laplace's method needs them)."""

    discrete: bool = False
    """Whether y takes countably many values (`log_prob` is then a log probability)."""

    finest_width: float | None = None
    """For noise around f that is symmetric and falls on both sides: the smallest scale on which log p
    varies."""

    @property
    def noise(self) -> Likelihood:
        """The noise around f of targets in its units: the likelihood itself, unless targets are warped."""
        return self

    def latent_targets(self, y: Array) -> Array:
        """Targets in the units of f: y itself, unless targets are warped."""
        return y

    # --- what a likelihood must provide ---------------------------------------------------------------------

    @abstractmethod
    def log_prob(self, y: Array, f: Array) -> Array:
        """log p(y|f), element by element; f may have leading axes: (..., n) or, for L latent values, (...,
        n, L)."""

    # --- declarations with defaults -------------------------------------------------------------------------

    @property
    def min_cavity_precision(self) -> float | Array:
        """Cavity precisions must exceed this for the tilted density to exist, at power one (it scales with
        power)."""
        return 0.0

    def check(self, y: ArrayLike) -> Array:
        """Targets as a float array, or a ValueError that names the bad value and the remedy."""
        return as_targets(y, type(self).__name__)

    def rows(self, index: Any) -> Self:
        """The likelihood of some of the observations; differs from self only where there are per-point
        constants."""
        return self

    def for_inputs(self, X: Any) -> Self:
        """The likelihood of observations at inputs X (n, D); differs from self only if it depends on the inputs."""
        return self

    def of_new(self, X: Array, noise_variance: ArrayLike | None = None) -> Self:
        """The likelihood of new observations at inputs X (m, D).

        Differs from self only where each observation has a noise variance of its own, which is then needed:
        `noise_variance`, a number or an array (m,); or if it depends on the inputs.
        """
        if noise_variance is not None:
            raise ValueError(
                f"noise_variance is for KnownNoise; {type(self).__name__} says itself how new observations "
                f"scatter, got {noise_variance!r}"
            )
        return self

    def and_new(self, X: Array, noise_variance: ArrayLike | None = None) -> Self:
        """The likelihood of the present observations followed by new ones, as in `of_new`."""
        return self.of_new(X, noise_variance)

    def break_points(self, y: Array) -> Array:
        """Places in f where log p has kinks or its own center, shape (k, n); guides the quadrature.

        The default, the value of y itself, is right for noise around f.
        """
        return np.asarray(y, dtype=float)[None]

    # --- the four questions ---------------------------------------------------------------------------------

    def derivatives(self, y: Array, f: Array) -> Derivatives:
        """log p and its first three derivatives in f."""
        from cavity.likelihoods import numerical_derivatives

        return numerical_derivatives.derivatives(self, y, f)

    def slope(self, y: Array, f: Array) -> Array:
        """d log p / df alone, of the shape of f, for samplers: overridden where higher derivatives are costly."""
        return self.derivatives(y, f).d1

    def parameter_derivatives(self, y: Array, f: Array) -> ParameterDerivatives:
        """Derivatives in the flat parameters of log p, d log p/df and d^2 log p/df^2, each (P, n)."""
        if not self.flat.size:
            none = np.zeros((0, *np.shape(f)))
            return ParameterDerivatives(none, none, none)
        from cavity.likelihoods import numerical_derivatives

        return numerical_derivatives.parameter_derivatives(self, y, f)

    def parameter_slopes(self, y: Array, f: Array) -> Array:
        """d log p / d flat alone, shape (P, ...) for f (..., n)."""
        if not self.flat.size:
            return np.zeros((0, *np.shape(f)))
        if type(self).parameter_derivatives is not Likelihood.parameter_derivatives:
            return self.parameter_derivatives(np.broadcast_to(y, np.shape(f)), f).log_prob
        from cavity.likelihoods import numerical_derivatives

        return numerical_derivatives.d_log_prob(self, y, f)

    def tilted(self, y: Array, shift: Array, precision: Array, power: Power = 1.0, order: int = 2) -> Tilted:
        """Log integral and moments of p(y|f)^power exp(shift f - precision f^2/2).

        Parameters
        ----------
        y, shift, precision : arrays (n,)
            Precisions must exceed `power * min_cavity_precision`.
        power : float or array (n,)
            Power of the likelihood (power EP, case weights).
        order : 2 or 4
            With 4, third and fourth central moments too.
        """
        from cavity.likelihoods import tilted_quadrature

        return tilted_quadrature.tilted(self, y, shift, precision, power, order)

    def tilted_nodes(self, power: Power = 1.0) -> float | Array:
        """About how many nodes the quadrature of `tilted` takes for a point: what its time is counted by."""
        return QUADRATURE_NODES

    def tilted_moments(self, y: Array, shift: Array, precision: Array, power: Power = 1.0) -> Moments:
        """The four moments of `tilted` alone, for iterations; overridden where the integral costs extra."""
        t = self.tilted(y, shift, precision, power, 4)
        assert t.c3 is not None
        assert t.c4 is not None
        return Moments(t.mean, t.var, t.c3, t.c4)

    def tilted_normalized(
        self, y: ArrayLike, cavity_mean: ArrayLike, cavity_var: ArrayLike, power: Power = 1.0, order: int = 2
    ) -> Tilted:
        """The same for a proper cavity given by mean and variance; its log_z is that of the normalized
        cavity."""
        y, mean, var = np.broadcast_arrays(
            *(np.asarray(a, dtype=float) for a in (y, cavity_mean, cavity_var))
        )
        require_positive(var, "cavity_var")
        t = self.tilted(np.atleast_1d(y), np.atleast_1d(mean / var), np.atleast_1d(1.0 / var), power, order)
        return Tilted(t.log_z_normalized, t.log_z_normalized, t.mean, t.var, t.d_log_z, t.c3, t.c4)

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> ExpectedLogProb:
        """E[log p(y|f)] under f ~ N(mean, var) with derivatives in mean, var and the flat parameters."""
        from cavity.likelihoods import tilted_quadrature

        return tilted_quadrature.expected_log_prob(self, y, mean, var)

    def predictive(self, mean: ArrayLike, var: ArrayLike) -> Prediction:
        """Distribution of a new y where f ~ N(mean, var)."""
        from cavity.likelihoods import quadrature_prediction

        return quadrature_prediction.predictive(self, mean, var)

    def clean_predictive(self, mean: ArrayLike, var: ArrayLike) -> Prediction:
        """Distribution of a new y that is no outlier, in the sense of `outlier_probability`, where f ~ N(mean, var).

        For noise that knows what an outlier is: mixtures and scale mixtures.
        """
        raise InputError(
            f"needs noise that tells outliers from other observations, which {type(self).__name__} does not",
            parameter="clean",
            value=True,
            remedy=("use ", Setting("likelihood", ("student-t", "mixture", "laplace"))),
        )

    # --- further answers ------------------------------------------------------------------------------------

    def sample(self, f: ArrayLike, rng: np.random.Generator) -> Array:
        """One draw of y for each latent value."""
        f = np.asarray(f, dtype=float)
        return np.asarray(self.predictive(f.ravel(), np.zeros(f.size)).sample(1, rng)[0].reshape(f.shape))

    def outlier_probability(self, y: Array, mean: Array, var: Array) -> Array:
        """How surprising y is, between 0 and 1, given everything else: f ~ N(mean, var) should not have
        seen y.

        By default the tail-based analogue: 1 - 2 min(P(Y <= y), P(Y >= y)) under the predictive distribution,
        so that 0.99 means that y lies outside the central 99 % of what was expected. Mixtures override it with
        the posterior probability of an outlier component, scale mixtures (Student-t, Laplace) with that of a
        noise far wider than usual.
        """
        return self.predictive(mean, var).surprise(y, discrete=self.discrete)


class MultiLatentLikelihood(Likelihood):
    """Base of likelihoods with several latent values per observation: f has shape (..., n, L).

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.likelihoods import MultiLatentLikelihood, Softmax
    >>> likelihood = Softmax(3)
    >>> isinstance(likelihood, MultiLatentLikelihood), likelihood.n_latent
    (True, 3)
    >>> np.exp(likelihood.log_prob(np.array([2.0]), np.zeros((1, 3)))).round(4)
    array([0.3333])
    """

    @abstractmethod
    def latent_derivatives(self, y: Array, f: Array) -> LatentDerivatives:
        """log p (n,), gradient (n, L) and Hessian (n, L, L) in f, shape (n, L)."""

    @abstractmethod
    def curvature_gradient(self, y: Array, f: Array, S: Array) -> Array:
        """d/df of sum_i tr(S_i W_i), W = -Hessian and S (n, L, L) symmetric: shape (n, L).

        The third derivatives as Laplace's evidence gradient needs them, without an array of L^3 numbers per
        point.
        """

    def latent_parameter_derivatives(self, y: Array, f: Array) -> LatentDerivatives:
        """Derivatives in the flat parameters of log p (P, n), gradient (P, n, L) and Hessian (P, n, L, L)."""
        n, P = len(y), self.flat.size
        if P:
            raise NotImplementedError(f"{type(self).__name__} has parameters but not their derivatives")
        L = self.n_latent
        return LatentDerivatives(np.zeros((0, n)), np.zeros((0, n, L)), np.zeros((0, n, L, L)))

    def derivatives(self, y: Array, f: Array) -> Derivatives:
        """Not for several latent values."""
        raise ValueError(f"{type(self).__name__} has {self.n_latent} latent values: use latent_derivatives")

    def parameter_derivatives(self, y: Array, f: Array) -> ParameterDerivatives:
        """Not for several latent values."""
        raise ValueError(
            f"{type(self).__name__} has {self.n_latent} latent values: use latent_parameter_derivatives"
        )


def require_cavity(owner: Likelihood, precision: Array, power: Power) -> None:
    """Refuse cavities for which the tilted density does not exist."""
    limit = power * owner.min_cavity_precision
    if not (precision > limit).all():
        limits = np.broadcast_to(limit, precision.shape)
        bad = int(np.flatnonzero(~(precision > limits))[0])
        raise ValueError(
            f"{type(owner).__name__}: cavity_precision must exceed {limits[bad]:g} "
            f"(power * min_cavity_precision), got {precision[bad]!r} at point {bad}; shorten the step"
        )
