"""The model of the outcomes: which process, how it is learned, and what it says in a user's units.

Inputs are points of the unit cube, outcomes are centered and scaled, so that priors mean the same everywhere: a squared
exponential process with a length scale for each input, whose prior knows the number of inputs (distances in the cube
grow with its square root), times the covariance of categories. All is learned anew for each suggestion: with every
tenth row from the prior, in between from what the rows up to the last tenth had taught. So what is suggested is a
function of the rows alone; what they taught is kept for the next call, but found again without that.

Noise is "none" (a simulation), "gaussian", "student-t", "mixture" (regular noise and outliers) or "auto": Gaussian
until some row is far from what the others predict, then the mixture, by expectation propagation, if its evidence is
higher.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
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
from cavity.likelihoods import Gaussian, KnownNoise, MixtureOfGaussians, StudentT
from cavity.likelihoods.scale_mixture import ScaleMixture
from cavity.means import Constant
from cavity.numerics.arrays import Array
from cavity.parameters import Param
from cavity.parameters.priors import Beta, LogNormal, Normal
from cavity.posterior import Posterior
from cavity.runtime.errors import InputError

NOISES = ("auto", "none", "gaussian", "student-t", "mixture")
"""What may be said of the noise."""

ROBUST = ("student-t", "mixture")
"""Those under which a row may be an outlier."""

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

EVERY = 10
"""Rows after which learning begins at the prior again. In between it begins where it ended then, for half the time."""

FEW = 20
"""Rows up to which learning starts also from longer length scales; with more, from next to no noise: what one set of
length scales cannot explain in two basins had been called noise."""

KEPT = 16
"""Fits that are kept because learning from more rows begins where they ended."""

START_LENGTHS = (0.3, 1.0)
"""Length scales, over the square root of the number of inputs, at which learning starts."""

START_NOISES = (1e-3, 1e-6)
"""Noise variances, of that of the outcomes, at which learning starts."""

LEVEL_SD = 1.0
"""Prior standard deviation of the constant mean. It is learned: outcomes gather where they are good."""

DEGREES = 2.0
"""Degrees of freedom of Student-t noise. With four, short length scales that run through outliers won more often."""

FRACTION_PRIOR = Beta(2.0, 18.0)
INFLATION_PRIOR = LogNormal(np.log(100.0), 1.0)
"""Of the share of outliers in a mixture, and of their standard deviation in units of the regular one. A mixture has no
shoulders: under Student-t noise of the same runs, improvements of a few scales were smoothed away as half outliers."""

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

CLEARLY = 5.0
"""Nats by which robust noise wins over Gaussian noise, or loses, without learning from a second start."""

LONE = 0.5
"""A row stands alone if the others leave it this share of the prior's standard deviation."""

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
        "none", "gaussian", "student-t" or "mixture".

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
        if not self.robust:
            return np.zeros(len(self.y))
        q, t = self.posterior.approximation.q, self.units.to_unit(self.y)
        assert isinstance(q, Conditioned)
        return self.posterior.model.likelihood.outlier_probability(t, *q.cavities())

    @property
    def log_density(self) -> float:
        """Log evidence: of the outcomes in the user's units."""
        return self.posterior.log_evidence - len(self.y) * float(np.log(self.units.size))

    @cached_property
    def stands_alone(self) -> NDArray[np.bool_]:
        """Rows of which the others say little; none unless the noise is robust."""
        if not self.robust:
            return np.zeros(len(self.y), dtype=bool)
        q = self.posterior.approximation.q
        assert isinstance(q, Conditioned)
        variance, prior = q.cavities()[1], self.moments.relative(self.X)[2]
        return ~(variance < LONE**2 * prior)  # without a cavity nothing is known

    @cached_property
    def with_doubt(self) -> tuple[Array, Array]:
        """Means and standard deviations of f at the rows if each row's own outcome may be wrong, in `units`.

        With its outlier probability a row knows of itself only what the others say of it. For rows among others this
        changes nothing; a single low outcome that stands alone is no longer sure.
        """
        mean, sd = self.at_data
        if not self.robust:
            return mean, sd
        q = self.posterior.approximation.q
        assert isinstance(q, Conditioned)
        others, variance = q.cavities()
        p = np.where(np.isfinite(variance), self.outlier_probability, 0.0)
        others, variance = np.where(p > 0, others, mean), np.where(p > 0, variance, 0.0)
        spread = (1.0 - p) * sd**2 + p * variance + p * (1.0 - p) * (mean - others) ** 2
        return mean + p * (others - mean), np.sqrt(spread)

    @property
    def robust(self) -> bool:
        """Whether a row may be an outlier."""
        return self.noise in ROBUST

    @property
    def noisy(self) -> bool:
        """Whether a repeated measurement would tell anything new."""
        return self.robust or (self.noise_sd / self.units.size) ** 2 > 10.0 * LEAST_NOISE

    @property
    def has_noise(self) -> bool:
        """Whether there is noise to speak of, or a row may be an outlier."""
        return self.robust or (self.noise_sd / self.units.size) ** 2 > WORTH_A_LOOK

    @property
    def noise_sd(self) -> float:
        """Standard deviation (or scale) of the noise, of outliers apart, in the user's units."""
        likelihood = self.posterior.model.likelihood
        if isinstance(likelihood, ScaleMixture):
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


def _likelihood(noise: str, known: Array | None, scale: float) -> Any:
    if noise in ROBUST:
        regular = Param(scale, prior=LogNormal(*SCALE_PRIOR), bounds=(1e-4, 1.0))
        if noise == "student-t":
            return StudentT(regular, Param(DEGREES, fixed=True))
        inflation = Param(50.0, prior=INFLATION_PRIOR, bounds=(5.0, 1e5))
        return MixtureOfGaussians(Param(0.1, prior=FRACTION_PRIOR), regular, inflation)
    fixed = noise == "none"
    start = NOISE_FREE if fixed else START_NOISES[0]
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


def _starts(model: GP, rows: int) -> list[Array]:
    """Theta as it is expected, and with longer length scales or next to no noise."""
    longer = np.array(["lengthscale" in name for name in model.names])
    quiet = np.array([name in ("gaussian.variance", "knownnoise.variance") for name in model.names])
    ratio, changed = (START_LENGTHS, longer) if rows <= FEW else (START_NOISES, quiet)
    second = model.theta + np.log(ratio[1] / ratio[0]) * changed
    return [model.theta, second] if changed.any() else [model.theta]


def fit_surrogate(
    space: Space, X: Array, y: Array, *, noise: str = "auto", noise_sd: Array | None = None
) -> Surrogate:
    """Learn the model of outcomes y (n,) at points X (n, D) of the cube.

    Parameters
    ----------
    noise : {"auto", "none", "gaussian", "student-t", "mixture"}
    noise_sd : array (n,), optional
        Known standard deviations of the outcomes, in their units; zeros if they are not known. Noise is then Gaussian,
        and what is learned is what they leave out.
    """
    if noise not in NOISES:
        raise InputError(f"must be one of {', '.join(map(repr, NOISES))}, got {noise!r}", parameter="noise")
    if noise in ROBUST:
        robust = _fit_robust(space, X, y, noise)
        assert robust is not None
        return robust
    if noise != "auto" or noise_sd is not None:
        return _fit(space, X, y, "gaussian" if noise == "auto" else noise, noise_sd)
    plain = _fit(space, X, y, "gaussian", None)
    if len(y) < FEWEST_ROBUST or not is_doubtful(plain, space):
        return plain
    robust = _fit_robust(space, X, y, "mixture", rival=plain)
    return robust if robust is not None and robust.log_density > plain.log_density else plain


def _model(space: Space, noise: str, known: Array | None = None, scale: float = 0.05) -> GP:
    level = Constant(Param(0.0, prior=Normal(0.0, LEVEL_SD)))
    return GP(process_kernel(space), _likelihood(noise, known, scale), level).bind(space.n)


@dataclass(frozen=True, eq=False)
class _Rows:
    """What a fit with Gaussian noise is a function of; equal if all of it is."""

    space: Space
    X: Array
    y: Array
    noise: str
    noise_sd: Array | None

    @property
    def _key(self) -> tuple[Any, ...]:
        arrays = self.space.categorical, self.space.high, self.X, self.y, self.noise_sd
        return self.noise, *(None if a is None else (a.shape, a.tobytes()) for a in arrays)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Rows) and self._key == other._key

    def first(self, count: int) -> _Rows:
        """The first of them."""
        sd = None if self.noise_sd is None else self.noise_sd[:count]
        return _Rows(self.space, self.X[:count], self.y[:count], self.noise, sd)

    def learn(self, start: Array | None = None) -> Surrogate:
        """From a theta, or from the prior."""
        units = Units.of(self.y)
        t = units.to_unit(self.y)
        known = None if self.noise_sd is None else (self.noise_sd / units.size) ** 2
        model = _model(self.space, self.noise, known)
        starts = [start] if start is not None else _starts(model, len(t))
        _, posterior = _learn(model, self.X, t, starts, ENOUGH)
        return Surrogate(posterior, self.X, self.y, units, self.noise)


@lru_cache(maxsize=KEPT)
def _from_prior(rows: _Rows) -> Surrogate:
    return rows.learn()


def _fit(space: Space, X: Array, y: Array, noise: str, noise_sd: Array | None) -> Surrogate:
    rows = _Rows(space, X, y, noise, noise_sd)
    before = len(y) // EVERY * EVERY
    if before in (0, len(y)) or not np.ptp(y[:before]) > 0:
        return _from_prior(rows)
    return rows.learn(_from_prior(rows.first(before)).posterior.model.theta)


def is_doubtful(fit: Surrogate, space: Space) -> bool:
    """Whether robust noise is worth a look.

    It is if there is noise to speak of, if a row is far from what the others predict, or if the function seems to
    change within a small part of the box: a Gaussian model may run through outliers instead of calling them noise.
    """
    if fit.has_noise or lengths_of(fit, space).min() < SHORT:
        return True
    data = fit.posterior.data
    loo = fit.posterior.model.leave_one_out(data.X, data.y)
    z = np.abs(data.y - loo.mean) / np.sqrt(loo.variance)
    return bool(np.any(2.0 * ndtr(-z) < FAR))


def _fit_robust(
    space: Space, X: Array, y: Array, noise: str, rival: Surrogate | None = None
) -> Surrogate | None:
    """With robust noise by expectation propagation, from the solution of a Gaussian model without its far rows.

    Where that begins decides: from the solution for all rows, learning often stays with short length scales that run
    through outliers. A rival with Gaussian noise has won if no row is far (None); if it is about as good, learning
    begins again from the prior.
    """
    units = Units.of(y, robust=True)
    t = units.to_unit(y)
    trimmed, scale, keep = _trimmed(space, X, t)
    if rival is not None and keep.all():
        return None
    model = _model(space, noise, scale=float(np.clip(scale, *START_SCALES)))
    process = trimmed.theta[:-1]
    start = np.concatenate([process, model.theta[len(process) :]])
    best: Surrogate | None = None
    for begin in (start, model.theta):
        try:
            found = Surrogate(_learn(model, X, t, [begin], ROBUST_ENOUGH)[1], X, y, units, noise)
        except InputError:  # no fixed point there
            continue
        best = found if best is None or found.log_density > best.log_density else best
        if rival is None or abs(best.log_density - rival.log_density) > CLEARLY:
            break
    if best is None:
        raise InputError(
            "no model with robust noise could be learned from the outcomes; use noise='gaussian'"
        )
    return best


def _before_learning(space: Space) -> GP:
    """A Gaussian model with the prior's own length scales, which no outlier has bent."""
    model = _model(space, "gaussian")
    noise = np.array(["variance" in name and "gaussian" in name for name in model.names])
    return model.replace(np.where(noise, np.log(TRIM_NOISE), model.theta))


def _near_others(model: GP, X: Array, t: Array) -> NDArray[np.bool_]:
    """Rows that are left if those that are far from what the others predict are put aside, one after the other."""
    keep = np.ones(len(t), dtype=bool)
    for _ in range(int(MOST_TRIMMED * len(t))):
        loo = model.leave_one_out(X[keep], t[keep])
        z = np.abs(t[keep] - loo.mean) / np.sqrt(loo.variance)
        if z.max() < TRIM_FIRST:
            break
        keep[np.flatnonzero(keep)[np.argmax(z)]] = False
    return keep


def _trimmed(space: Space, X: Array, t: Array) -> tuple[GP, float, NDArray[np.bool_]]:
    """A Gaussian model learned without the rows that are far from what the others predict, its noise, and who is left.

    Far is first judged by the prior's own length scales, then by what was learned; rows come back if they fit.
    """
    model = _before_learning(space)
    keep = _near_others(model, X, t)
    for _ in range(TRIM_ROUNDS):
        run, posterior = _learn(model, X[keep], t[keep], [model.theta], ROBUST_ENOUGH)
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
