"""A season of finitely many harmonics: the Markov counterpart of the periodic squared-exponential kernel.

    k = sum_{j=1}^J w_j cos(2 pi j (x - x') / period),    w_j = I_j(1 / l^2) / sum_i I_i(1 / l^2)

These are the first Fourier coefficients of `Periodic(SE(l))` (Solin and Sarkka 2014), made to add up to one. The mean
over a period is left out: a season has none, the level belongs to the trend.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import ive

from cavity.kernels.base import Correlation, Rows
from cavity.kernels.cosine import TURN, phase
from cavity.kernels.distances import mean_shift
from cavity.kernels.state_space import Block, Factor, FactorKind, Quantity
from cavity.numerics.arrays import Array
from cavity.parameters.param import LOG, Transform
from cavity.parameters.units import Unit
from cavity.runtime.checks import require_integer


def periodic_spectrum(lengthscale: float, harmonics: int) -> tuple[Array, Array]:
    """Variances of the harmonics 0, ..., J of the periodic SE kernel, and their slopes in the length scale.

    exp(x (cos t - 1)) = exp(-x) (I_0(x) + 2 sum_j I_j(x) cos(j t)) with x = 1 / l^2 and I_j' = (I_{j-1} + I_{j+1}) / 2.
    """
    x = 1.0 / lengthscale**2
    bessel = ive(np.arange(harmonics + 2), x)
    before = np.concatenate([bessel[1:2], bessel[:-2]])
    slope = 0.5 * (before + bessel[1:]) - bessel[:-1]
    twice = np.where(np.arange(harmonics + 1) > 0, 2.0, 1.0)
    return twice * bessel[:-1], twice * slope * (-2.0 * x / lengthscale)


class Seasonal(Correlation):
    """A season of `harmonics` waves, k = sum_j w_j cos(2 pi j (x - x') / period), of variance one and mean zero.

    It tends to `Periodic(SE(lengthscale))` without its constant part as harmonics are added, and has an exact
    state-space form of two states for each. `Matern(...) * Seasonal(...)` is a season that changes with time.

    Parameters
    ----------
    period : float or Param
        In units of the input.
    lengthscale : float or Param
        Of the season's shape, on a circle of radius 1, as in `Periodic(SE(lengthscale))`: long is one smooth wave.
    harmonics : int
        The number of waves; at most half of the observations in a period can be told apart.

    Examples
    --------
    >>> from cavity.kernels import Seasonal
    >>> Seasonal(period=12.0, harmonics=3)([[0.0], [6.0], [24.0]]).round(3)[0]
    array([ 1.   , -0.625,  1.   ])
    """

    _transforms: ClassVar[dict[str, Transform]] = {"period": LOG, "lengthscale": LOG}
    _units: ClassVar = {"lengthscale": Unit.GIVEN}
    _single = ("period", "lengthscale")
    _input_columns = 1
    _widenable = False

    def __init__(self, period: Any = 1.0, lengthscale: Any = 1.0, harmonics: int = 4) -> None:
        self.harmonics = require_integer(harmonics, "Seasonal: harmonics", 1)
        self._set_up({"period": period, "lengthscale": lengthscale})

    def _arguments(self) -> list[str]:
        return [*super()._arguments(), f"harmonics={self.harmonics}"]

    @property
    def weights(self) -> tuple[Array, Array]:
        """Variances of the harmonics 1, ..., J, and their slopes in the length scale."""
        variance, slope = (part[1:] for part in periodic_spectrum(self.lengthscale, self.harmonics))
        share = variance / variance.sum()
        return share, (slope - share * slope.sum()) / variance.sum()

    def _prepare(self, X: Array, ids: NDArray[np.intp]) -> Rows:
        self._check_width(X.shape[1])
        angles = np.multiply.outer(phase(X[:, 0], self.period), np.arange(1, self.harmonics + 1))
        return X, np.hstack([np.cos(angles), np.sin(angles)])

    def _block(self, a: Rows, b: Rows) -> Array:
        return cast(Array, (a[1] * np.tile(self.weights[0], 2)) @ b[1].T)

    def _state_space(self, states: int | None) -> tuple[Block, ...]:
        period, length = self._quantity("period"), self._quantity("lengthscale")
        blocks = []
        for j, (weight, slope) in enumerate(zip(*self.weights), start=1):
            omega = Quantity(j * TURN / period.value, -j * TURN / period.value**2 * period.slope)
            wave = Factor(FactorKind.ROTATION, 0, omega)
            blocks.append(Block(Quantity(float(weight), slope * length.slope), (wave,)))
        return tuple(blocks)

    def _sines(self, a: Rows, b: Rows, G: Array) -> Array:
        """G times -dk/df_a = sum_j j w_j sin(j (f_a - f_b)), f the phase."""
        J = self.harmonics
        rate = self.weights[0] * np.arange(1, J + 1)
        turned = np.hstack([a[1][:, J:] * rate, -a[1][:, :J] * rate])
        S = turned @ b[1].T
        S *= G
        return cast(Array, S)

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        d_weights = np.einsum("ij,ij->j", a[1], G @ b[1]).reshape(2, -1).sum(axis=0)
        d_period = TURN * mean_shift(a[0], b[0], self._sines(a, b, G)) / self.period**2
        return np.array([d_period.sum(), d_weights @ self.weights[1]])

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        S = (TURN / self.period) * self._sines(a, b, G)
        return -S.sum(axis=1)[:, None], S.sum(axis=0)[:, None]
