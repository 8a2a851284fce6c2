"""The model of the outcomes: which process, how it is learned, and what it says in a user's units.

Inputs are points of the unit cube, outcomes are centered and scaled, so that priors mean the same everywhere: a squared
exponential process with a length scale for each input, whose prior knows the number of inputs (distances in the cube
grow with its square root), times the covariance of categories. All is learned anew for each suggestion, from the same
starts: what is suggested is a function of the outcomes alone, not of the way they came.

Noise is "none" (a simulation), "gaussian", "student-t" or "auto": Gaussian until some row is far from what the others
predict, then Student-t by expectation propagation if its evidence is higher.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from cavity.design.space import Categorical, Space
from cavity.gp import GP
from cavity.kernels import SE, Kernel
from cavity.kernels import Categorical as CategoricalKernel
from cavity.latent.moments import Moments, moments_of
from cavity.latent.prior_times_sites import Conditioned
from cavity.learning.objective import Objective
from cavity.learning.optimizer import Run, maximize
from cavity.learning.race import optima
from cavity.likelihoods import Gaussian, KnownNoise, StudentT
from cavity.means import Constant
from cavity.numerics.arrays import Array
from cavity.parameters import Param
from cavity.parameters.priors import Beta, LogNormal, Normal
from cavity.posterior import Posterior
from cavity.runtime.errors import InputError

NOISES = ("auto", "none", "gaussian", "student-t")
"""What may be said of the noise."""

NOISE_FREE = 1e-6
"""Noise variance, of that of the outcomes, of a function without noise: what keeps matrices regular."""

LEAST_NOISE = 1e-8
MOST_NOISE = 1.0
"""Bounds of a learned noise variance, in variances of the outcomes."""

LENGTH_PRIOR = (-0.6, 1.0)
"""Of log length scales less half the logarithm of the number of inputs: mean and standard deviation."""

VARIANCE_PRIOR = (1.5, 0.7)
"""Of the logarithm of the signal variance. Its mode is above the variance of the outcomes: what is looked for lies
outside of them, and from few rows a variance is learned too small."""

TWO_STARTS_UP_TO = 20
"""Rows up to which learning starts twice: with more, a second start brought no gain for its time."""

START_LENGTHS = (0.3, 1.0)
"""Length scales, over the square root of the number of inputs, at which learning starts."""

LEVEL_SD = 1.0
"""Prior standard deviation of the constant mean. It is learned: outcomes gather where they are good."""

DEGREES = 2.0
"""Degrees of freedom of robust noise. With four, short length scales that run through outliers won more often."""

SCALE_PRIOR = (-4.0, 1.5)
"""Of the logarithm of the scale of robust noise: mean and standard deviation."""

FEWEST_ROBUST = 8
"""Rows from which robust noise is looked at: fewer cannot tell an outlier from a function."""

WORTH_A_LOOK = 1e-3
"""Learned noise variance, of that of the outcomes, from which robust noise is worth a look. With ten times as much,
suggestions are cheaper by a sixth, but gross errors lead some runs astray."""

SHORT = 0.15
"""Length scale, in sides of the box, below which robust noise is worth a look."""

TRIM_NOISE, TRIM_FIRST, TRIM_AGAIN = 0.01, 3.5, 4.0
"""Rows are far if they are so many standard deviations off, before and after something was learned from the others; at
first with this noise variance."""

MOST_TRIMMED, TRIM_ROUNDS = 0.25, 3
"""Share of the rows that may be left out at first, and how often that is reconsidered."""

START_SCALES = (0.05, 0.5)
"""Least and largest scale of robust noise to start from: from next to none, learning does not find back."""

DIGITS = 10
"""Decimals of scaled outcomes, far below the least noise."""

FAR = 1e-4
"""Two-sided tail probability, given the other rows, from which a row makes robust noise worth a look."""

ENOUGH = 1e-5
ROBUST_ENOUGH = 1e-4
"""A run of the optimizer ends if a step improves the objective by less than this part of it."""


@dataclass(frozen=True)
class Units:
    """y = center + size t, for t of about unit size."""

    center: float
    size: float

    @classmethod
    def of(cls, y: Array, robust: bool = False) -> Units:
        """Read off the outcomes; if robust, their bulk."""
        if not robust:
            top = float(np.max(np.abs(y))) or 1.0  # squares of very large outcomes are no numbers
            size = top * float(np.std(y / top))
            return cls(top * float(np.mean(y / top)), size if size > 0 else 1.0)
        center = float(np.median(y))
        spread = 1.4826 * float(np.median(np.abs(y - center)))
        low, high = np.quantile(y, [0.1, 0.9])
        size = max(spread, float(high - low) / 2.563)
        return cls(center, size) if size > 0 else cls.of(y)

    def to_unit(self, y: Array) -> Array:
        """t, rounded: in other units, outcomes differ by rounding, which an optimizer would magnify."""
        return np.round((y - self.center) / self.size, DIGITS)


@dataclass(frozen=True, eq=False)
class Surrogate:
    """What the outcomes say of the function.

    Attributes
    ----------
    posterior : Posterior
        Of the function in the units `units`, at points of the cube.
    X : array (n, D)
    y : array (n,)
        Outcomes, in the user's units.
    units : Units
    noise : str
        "none", "gaussian" or "student-t".

    Examples
    --------
    >>> from cavity.design import History, Space, Study
    >>> history = History()
    >>> for x in (0.0, 0.2, 0.5, 0.8, 1.0):
    ...     history = history.with_outcome({"x": x}, (x - 0.4) ** 2)
    >>> Study(history, Space({"x": (0.0, 1.0)})).fit.noise
    'gaussian'
    """

    posterior: Posterior
    X: Array
    y: Array
    units: Units
    noise: str

    @cached_property
    def moments(self) -> Moments:
        """Mean and variance with their pullback, in `units`."""
        return moments_of(self.posterior.process)

    @cached_property
    def at_data(self) -> tuple[Array, Array]:
        """Means and standard deviations of f at the rows, in `units`."""
        mean, variance = self.moments(self.X)
        return mean[:, 0], np.sqrt(variance)

    @cached_property
    def outlier_probability(self) -> Array:
        """How likely each row is an outlier, given the others; zeros unless the noise is robust."""
        if self.noise != "student-t":
            return np.zeros(len(self.y))
        q, t = self.posterior.approximation.q, self.units.to_unit(self.y)
        assert isinstance(q, Conditioned)
        return self.posterior.model.likelihood.outlier_probability(t, *q.cavities())

    @cached_property
    def with_doubt(self) -> tuple[Array, Array]:
        """Means and standard deviations of f at the rows if each row's own outcome may be wrong, in `units`.

        With its outlier probability a row knows of itself only what the others say of it. For rows among others this
        changes nothing; a single low outcome that stands alone is no longer sure.
        """
        mean, sd = self.at_data
        if self.noise != "student-t":
            return mean, sd
        q = self.posterior.approximation.q
        assert isinstance(q, Conditioned)
        others, variance = q.cavities()
        p = np.where(np.isfinite(variance), self.outlier_probability, 0.0)
        others, variance = np.where(p > 0, others, mean), np.where(p > 0, variance, 0.0)
        spread = (1.0 - p) * sd**2 + p * variance + p * (1.0 - p) * (mean - others) ** 2
        return mean + p * (others - mean), np.sqrt(spread)

    @property
    def noisy(self) -> bool:
        """Whether a repeated measurement would tell anything new."""
        return self.noise == "student-t" or (self.noise_sd / self.units.size) ** 2 > 10.0 * LEAST_NOISE

    @property
    def noise_sd(self) -> float:
        """Standard deviation (or scale) of the noise, in the user's units."""
        likelihood = self.posterior.model.likelihood
        if isinstance(likelihood, StudentT):
            return float(likelihood.scale) * self.units.size
        variance = float(np.mean(likelihood.noise_variances(len(self.y))[0]))
        return float(np.sqrt(variance)) * self.units.size


def process_kernel(space: Space) -> Kernel:
    """The prior covariance for a space, with priors that know the number of inputs."""
    numeric = np.flatnonzero(~space.categorical)
    D = max(space.n, 1)
    mu, sigma = LENGTH_PRIOR
    prior = LogNormal(mu + 0.5 * np.log(D), sigma)
    kernel: Any = None
    if numeric.size:
        start = np.full(numeric.size, START_LENGTHS[0] * np.sqrt(D))
        length = Param(start, prior=prior, bounds=(5e-3, 1e3))
        kernel = SE(length)
        if numeric.size < space.n:
            kernel = kernel.on(numeric.tolist())
    for i, one in enumerate(space.inputs.values()):
        if isinstance(one, Categorical):
            correlation = Param(0.5, prior=Beta(2.0, 2.0))
            part = CategoricalKernel(len(one.choices), correlation=correlation).on([i])
            kernel = part if kernel is None else kernel * part
    return Param(1.0, prior=LogNormal(*VARIANCE_PRIOR), bounds=(1e-4, 1e4)) * kernel  # type: ignore[no-any-return]


def _likelihood(noise: str, known: Array | None) -> Any:
    if noise == "student-t":
        mu, sigma = SCALE_PRIOR
        scale = Param(0.05, prior=LogNormal(mu, sigma), bounds=(1e-4, 1.0))
        return StudentT(scale, Param(DEGREES, fixed=True))
    fixed = noise == "none"
    start = NOISE_FREE if fixed else 1e-3
    variance = Param(start, fixed=fixed, bounds=None if fixed else (LEAST_NOISE, MOST_NOISE))
    return Gaussian(variance) if known is None else KnownNoise(known, variance)


def _learn(model: GP, X: Array, t: Array, starts: list[Array], enough: float) -> tuple[Run, Posterior]:
    """The best of runs from several starts, and its posterior."""
    box = np.array(model.layout.bounds, dtype=float).reshape(-1, 2)
    box = np.where(np.isfinite(box), box, np.array([-20.0, 20.0]))
    goal = Objective(model, X, t, enough=enough)
    runs: list[Run] = []
    for start in starts:  # a run that heads for the optimum of an earlier one is stopped
        runs.append(maximize(goal, start, box, np.ones(len(start)), "design", known=optima(runs)))
    usable = [run for run in runs if np.isfinite(run.value)]
    if not usable:
        raise InputError(f"no model could be learned from the outcomes: {runs[0].message}")
    best = max(usable, key=lambda run: run.value)
    return best, model.replace(best.theta).condition(X, t, warm=best.warm)


def _starts(model: GP) -> list[Array]:
    """Theta with length scales as they are expected, and longer."""
    lengths = np.array(["lengthscale" in name for name in model.names])
    first = model.theta
    longer = np.where(lengths, first + np.log(START_LENGTHS[1] / START_LENGTHS[0]), first)
    return [first, longer]


def fit_surrogate(
    space: Space, X: Array, y: Array, *, noise: str = "auto", noise_sd: Array | None = None
) -> Surrogate:
    """Learn the model of outcomes y (n,) at points X (n, D) of the cube.

    Parameters
    ----------
    noise : {"auto", "none", "gaussian", "student-t"}
    noise_sd : array (n,), optional
        Known standard deviations of the outcomes, in their units; zeros if they are not known. Noise is then Gaussian,
        and what is learned is what they leave out.
    """
    if noise not in NOISES:
        raise InputError(f"must be one of {', '.join(map(repr, NOISES))}, got {noise!r}", parameter="noise")
    if noise == "student-t":
        robust = _fit_robust(space, X, y)
        assert robust is not None
        return robust
    if noise != "auto" or noise_sd is not None:
        return _fit(space, X, y, "gaussian" if noise == "auto" else noise, noise_sd)
    plain = _fit(space, X, y, "gaussian", None)
    if len(y) < FEWEST_ROBUST or not is_doubtful(plain, space):
        return plain
    robust = _fit_robust(space, X, y, only_if_far=True)
    if robust is None:
        return plain
    # evidences are densities of outcomes in different units
    change = len(y) * np.log(plain.units.size / robust.units.size)
    return robust if robust.posterior.log_evidence + change > plain.posterior.log_evidence else plain


def _model(space: Space, noise: str, known: Array | None = None) -> GP:
    level = Constant(Param(0.0, prior=Normal(0.0, LEVEL_SD)))
    return GP(process_kernel(space), _likelihood(noise, known), level).bind(space.n)


def _fit(space: Space, X: Array, y: Array, noise: str, noise_sd: Array | None) -> Surrogate:
    units = Units.of(y)
    t = units.to_unit(y)
    known = None if noise_sd is None else (noise_sd / units.size) ** 2
    model = _model(space, noise, known)
    starts = _starts(model)[: 2 if len(t) <= TWO_STARTS_UP_TO else 1]
    _, posterior = _learn(model, X, t, starts, ENOUGH)
    return Surrogate(posterior, X, y, units, noise)


def is_doubtful(fit: Surrogate, space: Space) -> bool:
    """Whether robust noise is worth a look.

    It is if there is noise to speak of, if a row is far from what the others predict, or if the function seems to
    change within a small part of the box: a Gaussian model may run through outliers instead of calling them noise.
    """
    if (fit.noise_sd / fit.units.size) ** 2 > WORTH_A_LOOK or lengths_of(fit, space).min() < SHORT:
        return True
    data = fit.posterior.data
    loo = fit.posterior.model.leave_one_out(data.X, data.y)
    z = np.abs(data.y - loo.mean) / np.sqrt(loo.variance)
    return bool(np.any(2.0 * ndtr(-z) < FAR))


def _fit_robust(space: Space, X: Array, y: Array, only_if_far: bool = False) -> Surrogate | None:
    """With Student-t noise by expectation propagation, from the solution of a Gaussian model without its far rows.

    Where that begins decides: from the solution for all rows, learning often stays with short length scales that run
    through outliers. If no row is far, there may be nothing to be robust against (`only_if_far`: None).
    """
    units = Units.of(y, robust=True)
    t = units.to_unit(y)
    trimmed, scale, keep = _trimmed(space, X, t)
    if only_if_far and keep.all():
        return None
    model = _model(space, "student-t")
    start = np.concatenate([trimmed.theta[:-1], [np.log(np.clip(scale, *START_SCALES))]])
    best: tuple[Run, Posterior] | None = None
    for begin in (start, model.theta):
        try:
            best = _learn(model, X, t, [begin], ROBUST_ENOUGH)
            break
        except InputError:  # no fixed point there
            continue
    if best is None:
        raise InputError(
            "no model with robust noise could be learned from the outcomes; use noise='gaussian'"
        )
    return Surrogate(best[1], X, y, units, "student-t")


def _trimmed(space: Space, X: Array, t: Array) -> tuple[GP, float, NDArray[np.bool_]]:
    """A Gaussian model learned without the rows that are far from what the others predict, its noise, and who is left.

    Far is first judged by the prior's own length scales, which no outlier has bent, one row after the other, then by
    what was learned; rows come back if they fit.
    """
    model = _model(space, "gaussian")
    noise = np.array(["variance" in name and "gaussian" in name for name in model.names])
    first = model.replace(np.where(noise, np.log(TRIM_NOISE), model.theta))
    keep = np.ones(len(t), dtype=bool)
    most = int(MOST_TRIMMED * len(t))
    for _ in range(most):
        loo = first.leave_one_out(X[keep], t[keep])
        z = np.abs(t[keep] - loo.mean) / np.sqrt(loo.variance)
        if z.max() < TRIM_FIRST:
            break
        keep[np.flatnonzero(keep)[np.argmax(z)]] = False
    for _ in range(TRIM_ROUNDS):
        run, posterior = _learn(model, X[keep], t[keep], [first.theta], ROBUST_ENOUGH)
        fitted = model.replace(run.theta)
        sd = float(np.sqrt(fitted.likelihood.noise_variances(1)[0][0]))
        mean, variance = posterior.mean(X), posterior.variance(X) + sd**2
        loo = fitted.leave_one_out(X[keep], t[keep])
        mean[keep], variance[keep] = loo.mean, loo.variance
        z = np.abs(t - mean) / np.sqrt(variance)
        fits = z < max(TRIM_AGAIN, float(np.quantile(z, 1.0 - MOST_TRIMMED)))
        if np.array_equal(fits, keep):
            break
        keep = fits
    return fitted, sd, keep


def lengths_of(fit: Surrogate, space: Space) -> Array:
    """Learned length scales of the inputs, (D,), in sides of the cube; of categories one."""
    out = np.ones(space.n)
    model = fit.posterior.model
    found = [v for name, v in zip(model.names, model.layout.to_natural(model.theta)) if "lengthscale" in name]
    out[~space.categorical] = found
    return out
