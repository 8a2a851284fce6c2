"""Targets of another range than the real line: y = T^-1(z) with z = f + noise, T a monotone function that is learned.

    p(y | f) = p(z | f) dz/dy,    z = T(y).

The process, its prior and the noise live in the units of z; evidence, densities and predictions are those of y. Noise
around f depends on z - f alone, so that derivatives in z are minus those in f; with the cavity exp(nu f - tau f^2/2)
the log integral has the derivative nu - tau E[f] in z.

Inference rules are given z and the noise itself (`cavity.inference.warped_targets`): exact inference stays exact.
"""

from __future__ import annotations

from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from cavity.likelihoods.base import (
    Derivatives,
    ExpectedLogProb,
    Likelihood,
    ParameterDerivatives,
    Power,
    Tilted,
    as_targets,
)
from cavity.likelihoods.gaussian import Gaussian
from cavity.likelihoods.warps import Warp
from cavity.numerics.arrays import Array
from cavity.numerics.special import Moments
from cavity.prediction import WarpedPrediction


class WarpedTarget(Likelihood):
    """Noise around f of warped targets.

    Parameters
    ----------
    noise : Likelihood
        Noise around f of z: Gaussian by default, or one for outliers.
    warp : Warp
        z = T(y): `PositiveWarp`, `IntervalWarp` or `Clipped`.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import Gaussian, PositiveWarp, WarpedTarget
    >>> prices = WarpedTarget(Gaussian(0.01), PositiveWarp())
    >>> posterior = GP(1.0 * SE(1.0), prices).condition([[0.0], [1.0]], [0.5, 2.0])
    >>> posterior.predict_y([[0.0], [9.0]]).quantile(0.01) > 0
    array([ True,  True])
    """

    def __init__(self, noise: Likelihood | None = None, warp: Warp | None = None) -> None:
        noise = Gaussian() if noise is None else noise
        if (
            not isinstance(noise, Likelihood)
            or noise.n_latent > 1
            or noise.discrete
            or noise.noise is not noise
        ):
            raise ValueError(f"WarpedTarget: noise must be noise around one function, got {noise!r}")
        if not isinstance(warp, Warp):
            raise ValueError(f"WarpedTarget: warp must be a Warp, such as PositiveWarp(), got {warp!r}")
        self._set_up({}, (noise, warp))

    @property
    def noise(self) -> Likelihood:
        """Of z around f."""
        return cast(Likelihood, self._parts[0])

    @property
    def warp(self) -> Warp:
        """z = T(y)."""
        return cast(Warp, self._parts[1])

    def _arguments(self) -> list[str]:
        return [repr(self.noise), repr(self.warp)]

    def _with_noise(self, noise: Likelihood) -> Self:
        return self if noise is self.noise else self._rebuild({}, (noise, self.warp))

    def latent_targets(self, y: Array) -> Array:
        """z."""
        return self.warp.forward(y)

    def in_units_of_targets(self, prediction: Any) -> WarpedPrediction:
        """A prediction of y from that of z."""
        return WarpedPrediction(prediction, self.warp)

    # --- declarations ---------------------------------------------------------------------------------------

    @property
    def log_concave(self) -> bool:  # type: ignore[override]
        """Of the noise."""
        return self.noise.log_concave

    @property
    def smooth(self) -> bool:  # type: ignore[override]
        """Of the noise."""
        return self.noise.smooth

    @property
    def finest_width(self) -> float | None:  # type: ignore[override]
        """Of the noise."""
        return self.noise.finest_width

    @property
    def min_cavity_precision(self) -> float | Array:
        """Of the noise."""
        return self.noise.min_cavity_precision

    def check(self, y: ArrayLike) -> Array:
        """Targets must lie in the range of the warp."""
        found = as_targets(y, "WarpedTarget")
        if found.ndim != 1:
            raise ValueError(f"WarpedTarget: y must be a vector, got shape {found.shape}")
        self.warp.check(found)
        return found

    def rows(self, index: Any) -> Self:
        """The noise of some of the observations."""
        return self._with_noise(self.noise.rows(index))

    def of_new(self, X: Array, noise_variance: ArrayLike | None = None) -> Self:
        """The noise of new observations."""
        return self._with_noise(self.noise.of_new(X, noise_variance))

    def and_new(self, X: Array, noise_variance: ArrayLike | None = None) -> Self:
        """The noise of these and of new observations."""
        return self._with_noise(self.noise.and_new(X, noise_variance))

    def break_points(self, y: Array) -> Array:
        """Of the noise."""
        return self.noise.break_points(self.warp.forward(y))

    # --- the four questions ---------------------------------------------------------------------------------

    def log_prob(self, y: Array, f: Array) -> Array:
        """log p(z | f) + log dz/dy; minus infinity outside the range."""
        y = np.asarray(y, dtype=float)
        with np.errstate(invalid="ignore", divide="ignore"):
            inside = self.warp._inside(y) & np.isfinite(self.warp.forward(y))
        known = np.where(inside, y, self.warp.inverse(np.zeros(np.shape(y))))
        found = self.noise.log_prob(self.warp.forward(known), f) + self.warp.log_slope(known)
        return np.where(inside, found, -np.inf)

    def derivatives(self, y: Array, f: Array) -> Derivatives:
        """Those of the noise."""
        found = self.noise.derivatives(self.warp.forward(y), f)
        return found._replace(log_prob=found.log_prob + self.warp.log_slope(y))

    def slope(self, y: Array, f: Array) -> Array:
        """That of the noise."""
        return self.noise.slope(self.warp.forward(y), f)

    def parameter_derivatives(self, y: Array, f: Array) -> ParameterDerivatives:
        """Those of the noise, then those of the warp: d/dz = -d/df."""
        z = self.warp.forward(y)
        of_noise = self.noise.parameter_derivatives(z, f)
        d_z, d_log = self.warp.parameter_slopes(np.broadcast_to(y, np.shape(f)))
        _, d1, d2, d3 = self.noise.derivatives(z, f) if len(d_z) else (0.0, 0.0, 0.0, 0.0)
        of_warp = d_log - d1 * d_z, -d2 * d_z, -d3 * d_z
        return ParameterDerivatives(*(np.concatenate(pair) for pair in zip(of_noise, of_warp)))

    def tilted(self, y: Array, shift: Array, precision: Array, power: Power = 1.0, order: int = 2) -> Tilted:
        """Those of the noise; the slope adds to the integral."""
        found = self.noise.tilted(self.warp.forward(y), shift, precision, power, order)
        d_z, d_log = self.warp.parameter_slopes(y)
        of_warp = (shift - precision * found.mean) * d_z + power * d_log
        slope = power * self.warp.log_slope(y)
        return Tilted(
            found.log_z + slope,
            found.log_z_normalized + slope,
            found.mean,
            found.var,
            np.concatenate([found.d_log_z, of_warp]),
            found.c3,
            found.c4,
        )

    def tilted_nodes(self, power: Power = 1.0) -> float | Array:
        """Those of the noise."""
        return self.noise.tilted_nodes(power)

    def tilted_moments(self, y: Array, shift: Array, precision: Array, power: Power = 1.0) -> Moments:
        """Those of the noise."""
        return self.noise.tilted_moments(self.warp.forward(y), shift, precision, power)

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> ExpectedLogProb:
        """That of the noise, and the slope."""
        found = self.noise.expected_log_prob(self.warp.forward(y), mean, var)
        d_z, d_log = self.warp.parameter_slopes(y)
        d_flat = np.concatenate([found.d_flat, d_log - found.d_mean * d_z])
        return ExpectedLogProb(found.value + self.warp.log_slope(y), found.d_mean, found.d_var, d_flat)

    def predictive(self, mean: ArrayLike, var: ArrayLike) -> WarpedPrediction:
        """Of y, from that of z."""
        return WarpedPrediction(self.noise.predictive(mean, var), self.warp)

    def clean_predictive(self, mean: ArrayLike, var: ArrayLike) -> WarpedPrediction:
        """Of y, from that of z."""
        return WarpedPrediction(self.noise.clean_predictive(mean, var), self.warp)

    def sample(self, f: ArrayLike, rng: np.random.Generator) -> Array:
        """y of f plus noise."""
        return self.warp.inverse(self.noise.sample(f, rng))

    def outlier_probability(self, y: Array, mean: Array, var: Array) -> Array:
        """That of the noise."""
        return self.noise.outlier_probability(self.warp.forward(y), mean, var)
