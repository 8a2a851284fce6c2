"""Two normal components, regular noise and outliers.

The tilted density is the mixture of the components' tilted densities, in closed form. A whole power, of equal rows that
were merged, is a mixture of a few more; any other power goes through quadrature. Cavities may have precisions down to
-1 / (largest variance).
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from cavity.likelihoods import tilted_quadrature
from cavity.likelihoods.base import (
    Derivatives,
    ParameterDerivatives,
    Power,
    Tilted,
    float_rows,
    require_cavity,
)
from cavity.likelihoods.scale_mixture import ScaleMixture
from cavity.numerics.arrays import Array
from cavity.numerics.special import LOG_2PI, softmax_columns
from cavity.parameters.param import LOG, UNIT, Param
from cavity.parameters.transforms import Log
from cavity.parameters.units import Unit
from cavity.prediction import MixturePrediction

LARGEST_POWER = 64
"""Largest whole power whose components are summed one by one."""


class MixtureOfGaussians(ScaleMixture):
    """Regular noise with occasional outliers: (1 - fraction) N(y|f, scale^2) + fraction N(y|f,
    outlier_scale^2).

    The outlier component is always the wider one: what is stored and learned is `inflation` = outlier_scale
    / scale > 1.

    Parameters
    ----------
    fraction : float or Param
        Probability of an outlier, between 0 and 1.
    scale : float or Param
        Standard deviation of the regular noise, in units of y.
    inflation : float or Param, optional
        Outlier standard deviation in units of the regular one, above 1; 10 by default.
    outlier_scale : float, optional
        The outlier standard deviation itself, instead of `inflation`.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.likelihoods import MixtureOfGaussians
    >>> noise = MixtureOfGaussians(fraction=0.05, scale=0.2, outlier_scale=2.0)
    >>> noise.outlier_probability(np.array([0.1, 3.0]), np.zeros(2), np.full(2, 0.01)).round(3)
    array([0.006, 1.   ])
    """

    _transforms: ClassVar = {"fraction": UNIT, "scale": LOG, "inflation": Log(low=1.0)}
    _units: ClassVar = {"inflation": Unit.NOISE_RATIO}

    def __init__(
        self,
        fraction: Any = 0.1,
        scale: Any = 1.0,
        inflation: Any = None,
        *,
        outlier_scale: float | None = None,
    ) -> None:
        if inflation is not None and outlier_scale is not None:
            raise ValueError(
                f"give inflation or outlier_scale, not both: got {inflation!r} and {outlier_scale!r}"
            )
        if outlier_scale is not None:
            regular = float(scale.value if isinstance(scale, Param) else scale)
            if not outlier_scale > regular:
                raise ValueError(f"outlier_scale must exceed scale = {regular!r}, got {outlier_scale!r}")
            inflation = outlier_scale / regular
        inflation = 10.0 if inflation is None else inflation
        self._set_up({"fraction": fraction, "scale": scale, "inflation": inflation})

    @property
    def outlier_scale(self) -> float:
        """Standard deviation of the outlier component, in units of y."""
        return float(self.scale * self.inflation)

    @property
    def min_cavity_precision(self) -> float:
        """-1/outlier variance."""
        return -(self.outlier_scale**-2)

    @property
    def finest_width(self) -> float:  # type: ignore[override]
        """The regular standard deviation."""
        return float(self.scale)

    def scale_mixture(self) -> tuple[Array, Array]:
        """Two nodes."""
        w = np.array([self.scale, self.outlier_scale]) ** -2
        return w, np.array([np.log1p(-self.fraction), np.log(self.fraction)]) + 0.5 * (np.log(w) - LOG_2PI)

    def _responsibilities(self, squared: Array) -> tuple[Array, Array, Array]:
        """log p, responsibilities (2, ...) and precisions (2, 1, ...)."""
        w, log_c = (a.reshape(2, *(1,) * np.ndim(squared)) for a in self.scale_mixture())
        log_p, r = softmax_columns(log_c - 0.5 * w * squared)
        return log_p, r, w

    def log_prob(self, y: Array, f: Array) -> Array:
        """Log of the sum of two normal densities."""
        return self._responsibilities((y - f) ** 2)[0]

    def derivatives(self, y: Array, f: Array) -> Derivatives:
        """With k1, k2, k3 the cumulants of w under r: k1 e, k2 e^2 - k1, k3 e^3 - 3 k2 e."""
        e = y - f
        log_p, r, w = self._responsibilities(e * e)
        k1 = (r * w).sum(axis=0)
        d = w - k1
        k2, k3 = (r * d**2).sum(axis=0), (r * d**3).sum(axis=0)
        return Derivatives(log_p, k1 * e, k2 * e**2 - k1, k3 * e**3 - 3 * k2 * e)

    def _component_slopes(self, scaled_square: Array) -> tuple[Array, Array]:
        """d log(pi_j N_j)/d flat, (3, 2, ...), where w_j E[e^2] is given, and d log w_j / d flat (3, 2)."""
        pi, s, k = self.fraction, self.scale, self.inflation
        out = np.zeros((3, *scaled_square.shape))
        out[0, 0], out[0, 1] = -1 / (1 - pi), 1 / pi
        out[1] = (scaled_square - 1) / s
        out[2, 1] = (scaled_square[1] - 1) / k
        return out, np.array([[0.0, 0.0], [-2 / s, -2 / s], [0.0, -2 / k]])

    def parameter_derivatives(self, y: Array, f: Array) -> ParameterDerivatives:
        """Through the responsibilities and the precisions."""
        e = y - f
        e2 = e * e
        _, r, w = self._responsibilities(e2)
        A, dlog_w = self._component_slopes(w * e2)
        dlog_w = dlog_w.reshape(3, 2, *(1,) * e.ndim)
        k1 = (r * w).sum(axis=0)
        d = w - k1
        log_p = (r * A).sum(axis=1)
        dr = r * (A - log_p[:, None])
        dk1 = (dr * w + r * w * dlog_w).sum(axis=1)
        dk2 = (dr * d**2 + 2 * r * d * w * dlog_w).sum(axis=1)
        return ParameterDerivatives(log_p, dk1 * e, dk2 * e2 - dk1)

    def parameter_slopes(self, y: Array, f: Array) -> Array:
        """d log p / d flat alone."""
        e2 = (y - f) ** 2
        _, r, w = self._responsibilities(e2)
        return np.asarray((r * self._component_slopes(w * e2)[0]).sum(axis=1))

    def tilted_nodes(self, power: Power = 1.0) -> float | Array:
        """Two, one for each component; a power other than one goes through quadrature."""
        return np.where(np.asarray(power) == 1.0, 2.0, super().tilted_nodes(power))

    def tilted(self, y: Array, shift: Array, precision: Array, power: Power = 1.0, order: int = 2) -> Tilted:
        """A few normal densities if the power is a small whole number, see `scale_mixture_loops`; else panels."""
        require_cavity(self, precision, power)
        powers = np.broadcast_to(np.asarray(power, dtype=float), y.shape)
        closed = (powers == np.floor(powers)) & (powers >= 1) & (powers <= LARGEST_POWER)
        return tilted_quadrature.closed_or_panels(
            self, self._tilted_closed, closed, y, shift, precision, powers, order
        )

    def _tilted_closed(self, y: Array, shift: Array, precision: Array, power: Array, order: int) -> Tilted:
        from cavity.likelihoods.scale_mixture_loops import two_normals

        out = np.empty((9, len(y)))
        rows = float_rows(y, shift, precision, power)
        two_normals(*rows, self.fraction, self.scale, self.inflation, out)
        return Tilted.of(out)

    def clean_variances(self) -> tuple[Array, Array]:
        """That of the regular component."""
        return np.array([self.scale**2]), np.ones(1)

    def expected_precision(self, squared_residual: Array) -> Array:
        """Responsibility-weighted precision."""
        _, r, w = self._responsibilities(squared_residual)
        return np.asarray((r * w).sum(axis=0))

    def sample_precision(self, residual: Array, rng: np.random.Generator) -> Array:
        """The precision of a component drawn from the responsibilities."""
        _, r, w = self._responsibilities(residual**2)
        return np.asarray(np.where(rng.random(residual.shape) < r[1], w[1], w[0]))

    def predictive(self, mean: ArrayLike, var: ArrayLike) -> MixturePrediction:
        """Mixture of two normals."""
        m: Array = np.asarray(mean, dtype=float)
        s2 = np.array([[self.scale], [self.outlier_scale]]) ** 2
        weights = np.log(np.array([1 - self.fraction, self.fraction]))
        return MixturePrediction(weights, m, np.asarray(var, dtype=float) + s2)

    def sample(self, f: ArrayLike, rng: np.random.Generator) -> Array:
        """f plus noise of a randomly chosen component."""
        f = np.asarray(f, dtype=float)
        sd = np.where(rng.random(f.shape) < self.fraction, self.outlier_scale, self.scale)
        return np.asarray(f + sd * rng.standard_normal(f.shape))

    def outlier_probability(self, y: Array, mean: Array, var: Array) -> Array:
        """Posterior probability of the outlier component, where f ~ N(mean, var) has not seen y."""
        s2 = np.array([[self.scale], [self.outlier_scale]]) ** 2 + np.asarray(var)
        log_w = np.log(np.array([[1 - self.fraction], [self.fraction]]))
        return np.asarray(softmax_columns(log_w - 0.5 * (np.log(s2) + (y - mean) ** 2 / s2))[1][1])
