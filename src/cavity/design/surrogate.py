"""The model of the outcomes: which process, how it is learned, and what it says in a user's units.

Inputs are points of the unit cube, outcomes are centered and scaled, so that priors mean the same everywhere: a Matern
process of nu = 5/2 with a length scale for each input, whose prior knows the number of inputs (distances in the cube
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
from cavity.kernels import SE, Kernel, Matern
from cavity.kernels import Categorical as CategoricalKernel
from cavity.latent.moments import Moments, moments_of
from cavity.latent.prior_times_sites import Conditioned
from cavity.learning.objective import Objective
from cavity.learning.optimizer import Run, maximize
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

SMOOTH = 0
WARP = False
VARIANCE_PRIOR = (0.0, 1.0)

START_LENGTHS = (0.3, 1.0)
"""Length scales, over the square root of the number of inputs, at which learning starts."""

LEVEL_SD = 1.0
"""Prior standard deviation of the constant mean. It is learned: outcomes gather where they are good."""

DEGREES = 2.0
"""Degrees of freedom of robust noise. With four, short length scales that run through outliers won more often."""

SCALE_PRIOR = (-4.0, 1.5)
"""Of the logarithm of the scale of robust noise: mean and standard deviation."""

FAR = 1e-4
"""Two-sided tail probability, given the other rows, from which a row makes robust noise worth a look."""

ENOUGH = 1e-6
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
            size = float(np.std(y))
            return cls(float(np.mean(y)), size if size > 0 else 1.0)
        center = float(np.median(y))
        spread = 1.4826 * float(np.median(np.abs(y - center)))
        low, high = np.quantile(y, [0.1, 0.9])
        size = max(spread, float(high - low) / 2.563)
        return cls(center, size) if size > 0 else cls.of(y)

    def to_unit(self, y: Array) -> Array:
        """t."""
        t = (y - self.center) / self.size
        return np.where(t > 0, np.log1p(np.maximum(t, 0)), t) if WARP else t


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
        kernel = SE(length) if SMOOTH == 0 else Matern(length, nu=SMOOTH)
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
    runs = [
        maximize(Objective(model, X, t, enough=enough), start, box, np.ones(len(start)), "design")
        for start in starts
    ]
    usable = [run for run in runs if np.isfinite(run.value)]
    if not usable:
        raise InputError(f"no model could be learned from the outcomes: {runs[0].message}")
    best = max(usable, key=lambda run: run.value)
    return best, model.replace(best.theta).condition(X, t, warm=best.warm)


def _starts(model: GP, D: int) -> list[Array]:
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
    if noise == "auto" and noise_sd is None:
        plain = _fit(space, X, y, "gaussian", None)
        if not far_rows(plain).any():
            return plain
        return _robust_if_better(space, plain)
    return _fit(space, X, y, "gaussian" if noise == "auto" else noise, noise_sd)


def _fit(space: Space, X: Array, y: Array, noise: str, noise_sd: Array | None) -> Surrogate:
    units = Units.of(y, robust=noise == "student-t")
    t = units.to_unit(y)
    known = None if noise_sd is None or noise == "student-t" else (noise_sd / units.size) ** 2
    level = Constant(Param(0.0, prior=Normal(0.0, LEVEL_SD)))
    model = GP(process_kernel(space), _likelihood(noise, known), level).bind(space.n)
    enough = ROBUST_ENOUGH if noise == "student-t" else ENOUGH
    _, posterior = _learn(model, X, t, _starts(model, space.n), enough)
    return Surrogate(posterior, X, y, units, noise)


def far_rows(fit: Surrogate) -> NDArray[np.bool_]:
    """Rows whose outcomes are far from what the others predict."""
    data = fit.posterior.data
    loo = fit.posterior.model.leave_one_out(data.X, data.y)
    z = np.abs(data.y - loo.mean) / np.sqrt(loo.variance)
    return np.asarray(2.0 * ndtr(-z) < FAR)


def _robust_if_better(space: Space, plain: Surrogate) -> Surrogate:
    """With Student-t noise, if the evidence says so."""
    robust = _fit(space, plain.X, plain.y, "student-t", None)
    # evidences are densities of outcomes in different units
    change = len(plain.y) * np.log(plain.units.size / robust.units.size)
    if robust.posterior.log_evidence + change > plain.posterior.log_evidence:
        return robust
    return plain


def lengths_of(fit: Surrogate, space: Space) -> Array:
    """Learned length scales of the inputs, (D,), in sides of the cube; of categories one."""
    out = np.ones(space.n)
    model = fit.posterior.model
    found = [v for name, v in zip(model.names, model.layout.to_natural(model.theta)) if "lengthscale" in name]
    out[~space.categorical] = found
    return out
