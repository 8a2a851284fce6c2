"""Probit likelihoods of labels -1 and +1: probit, probit with a lapse rate, and the Heaviside limit.

Phi(y f) = P(g > 0) for g = y f + standard normal noise. With a normal cavity g is normal too, cut at zero by the
observation, and f given g is normal. So tilted moments are those of a cut normal density
(`cavity.numerics.special`) pushed through a linear map, plus an independent normal part. Nothing is subtracted, so
no variance can come out negative. A power other than one goes through quadrature.

Notation (Rasmussen and Williams, 2006, chapter 3): z = y f; r = phi(z) / Phi(z).
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.special import log_ndtr

from cavity.likelihoods import tilted_quadrature
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
from cavity.likelihoods.binary import BinaryLikelihood
from cavity.numerics.arrays import Array
from cavity.numerics.special import Moments, half_line, inverse_mills
from cavity.parameters.transforms import Logit as LogitTransform


def _probit_moments(y: Array, shift: Array, precision: Array, noise: float = 1.0) -> tuple[Array, Moments]:
    """The boundary in sd of the noisy function, and the tilted moments, for P(f + noise sd N(0,1) has the sign of y).

    noise is a variance: 1 for the probit, 0 for the Heaviside step.
    """
    # In units v = 1/precision; g = y f + noise has variance v + noise, i.e. (1 + noise precision)/precision.
    total = 1.0 + noise * precision
    root = np.sqrt(precision * total)  # precision times sd of g
    side = -y / root
    z = side * shift  # zero in standard units of g
    t = half_line(z)
    # f = E[f|g] + independent part: E[f|g] = (m noise + v g)/(v + noise), of sd 1/root
    rest = noise / total
    mean = rest * shift - side * t.mean
    spread2 = side * side
    known = spread2 * t.var
    c3 = -(spread2 * side) * t.c3
    c4 = spread2 * spread2 * t.c4 + 3.0 * rest * (2.0 * known + rest)
    return z, Moments(mean, known + rest, c3, c4)


def _probit_tilted(
    y: Array, shift: Array, precision: Array, order: int, noise: float = 1.0
) -> tuple[Array, Array, Array, Array | None, Array | None]:
    """log Z (normalized), mean, variance, c3, c4, as in `_probit_moments`."""
    z, t = _probit_moments(y, shift, precision, noise)
    log_z = np.asarray(log_ndtr(-z))
    return (log_z, t.mean, t.var, None, None) if order <= 2 else (log_z, *t)


def _is_one(power: Power) -> bool:
    return power == 1.0 if isinstance(power, float) else not np.any(np.asarray(power) != 1.0)


def _closed_if_one(
    likelihood: Likelihood, y: Array, shift: Array, precision: Array, power: Power, order: int
) -> Tilted:
    """Closed forms where the power is one, panels elsewhere."""
    powers = np.broadcast_to(np.asarray(power, dtype=float), y.shape)
    return tilted_quadrature.closed_or_panels(
        likelihood, likelihood.tilted, powers == 1.0, y, shift, precision, powers, order
    )


class Probit(BinaryLikelihood):
    """p(y|f) = Phi(y f), the standard normal distribution function.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.likelihoods import Probit
    >>> np.exp(Probit().log_prob(np.array([1.0, -1.0]), np.array([1.0, 1.0]))).round(3)
    array([0.841, 0.159])
    """

    log_concave = True

    def log_prob(self, y: Array, f: Array) -> Array:
        """log Phi(y f)."""
        return np.asarray(log_ndtr(y * f))

    def derivatives(self, y: Array, f: Array) -> Derivatives:
        """With the cut normal's moments at -z: d1 = y r, d2 = -r (z + r), d3 = y r ((2 r + z)(z + r) - 1)."""
        z = y * f
        r = inverse_mills(z)
        # z + r is the mean excess of a normal beyond -z: positive, and accurate where z and r nearly cancel
        t = half_line(-z)
        # 1 - r (z + r) is that cut normal's variance and r ((2r + z)(z + r) - 1) its third moment
        return Derivatives(self.log_prob(y, f), y * r, -r * t.mean, y * t.c3)

    def slope(self, y: Array, f: Array) -> Array:
        """y phi(z) / Phi(z)."""
        return y * inverse_mills(y * f)

    def tilted(self, y: Array, shift: Array, precision: Array, power: Power = 1.0, order: int = 2) -> Tilted:
        """A cut normal density; panels where the power is not one."""
        if not _is_one(power):
            return _closed_if_one(self, y, shift, precision, power, order)
        require_cavity(self, precision, power)
        log_z, mean, var, c3, c4 = _probit_tilted(y, shift, precision, order)
        empty = np.zeros((0, len(mean)))
        return Tilted(log_z + log_cavity_mass(shift, precision), log_z, mean, var, empty, c3, c4)

    def tilted_moments(self, y: Array, shift: Array, precision: Array, power: Power = 1.0) -> Moments:
        """Of the cut normal density."""
        if not _is_one(power):
            return super().tilted_moments(y, shift, precision, power)
        require_cavity(self, precision, power)
        return _probit_moments(y, shift, precision)[1]


class LapseProbit(BinaryLikelihood):
    """Probit with a lapse rate: with probability `lapse` the label is a fair coin, p = lapse/2 + (1-lapse)
    Phi(y f).

    Parameters
    ----------
    lapse : float or Param
        Rate of random labels, between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.likelihoods import LapseProbit
    >>> np.exp(LapseProbit(0.1).log_prob(np.array([1.0]), np.array([-8.0]))).round(3)
    array([0.05])
    """

    _transforms: ClassVar = {"lapse": LogitTransform(0.0, 1.0)}

    def __init__(self, lapse: Any = 0.02) -> None:
        self._set_up({"lapse": lapse})

    def _log_parts(self) -> tuple[float, float]:
        return float(np.log(0.5 * self.lapse)), float(np.log1p(-self.lapse))

    def log_prob(self, y: Array, f: Array) -> Array:
        """Log of the mixture of a coin and a probit."""
        coin, signal = self._log_parts()
        return np.logaddexp(coin, signal + log_ndtr(y * f))

    def _share(self, y: Array, f: Array) -> tuple[Array, Array, Derivatives]:
        """log p, the probit's responsibility and its derivatives."""
        log_p = self.log_prob(y, f)
        probit = Probit().derivatives(y, f)
        return log_p, np.exp(self._log_parts()[1] + probit.log_prob - log_p), probit

    def derivatives(self, y: Array, f: Array) -> Derivatives:
        """Mixture of a constant and the probit."""
        log_p, s, p = self._share(y, f)
        a, b = (1 - s) * p.d1, -s * p.d1  # deviations of the two slopes from their mean s d1
        d2 = s * (p.d2 + a * a) + (1 - s) * b * b
        d3 = s * (p.d3 + 3 * a * p.d2 + a**3) + (1 - s) * b**3
        return Derivatives(log_p, s * p.d1, d2, d3)

    def parameter_derivatives(self, y: Array, f: Array) -> ParameterDerivatives:
        """In the lapse rate."""
        _, s, p = self._share(y, f)
        slope = (1 - s) / self.lapse - s / (1 - self.lapse)
        # ds/dlapse = -s (1-s) (1/lapse + 1/(1-lapse))
        ds = -s * (1 - s) / (self.lapse * (1 - self.lapse))
        d_d2 = ds * (p.d2 + (1 - 2 * s) * p.d1**2)
        return ParameterDerivatives(slope[None], (ds * p.d1)[None], d_d2[None])

    def tilted(self, y: Array, shift: Array, precision: Array, power: Power = 1.0, order: int = 2) -> Tilted:
        """Mixture of the cavity itself and a cut normal density; panels where the power is not one."""
        from cavity.numerics.special import mix_moments, softmax_columns

        if np.any(np.asarray(power) != 1.0):
            return _closed_if_one(self, y, shift, precision, power, order)
        require_cavity(self, precision, power)
        log_probit, mean, var, c3, c4 = _probit_tilted(y, shift, precision, 4)
        coin, signal = self._log_parts()
        log_z, r = softmax_columns(np.stack([np.full_like(log_probit, coin), signal + log_probit]))
        v = 1 / precision
        cavity_mean = shift * v
        zero = np.zeros_like(v)
        pairs = [(cavity_mean - mean, zero), (v, var), (zero, c3), (3 * v * v, c4)]
        m = mix_moments(r, Moments(*(np.stack([np.asarray(a), np.asarray(b)]) for a, b in pairs)))
        slope = r[0] / self.lapse - r[1] / (1 - self.lapse)
        total = log_z + log_cavity_mass(shift, precision)
        return Tilted(total, log_z, mean + m.mean, m.var, slope[None], m.c3, m.c4)

    def outlier_probability(self, y: Array, mean: Array, var: Array) -> Array:
        """Posterior probability that the label was a lapse, where f ~ N(mean, var) has not seen y."""
        t = Probit().tilted_normalized(y, mean, var)
        coin, signal = self._log_parts()
        return np.exp(coin - np.logaddexp(coin, signal + t.log_z))


class Heaviside(BinaryLikelihood):
    """p(y|f) = 1 where f has the sign of y: the limit of the probit for large signals.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.likelihoods import Heaviside
    >>> Heaviside().tilted_normalized(np.ones(1), np.zeros(1), np.ones(1)).mean.round(3)
    array([0.798])
    """

    log_concave = True
    smooth = False

    def log_prob(self, y: Array, f: Array) -> Array:
        """0 or -inf; log 1/2 at f = 0."""
        z = y * f
        return np.where(z > 0, 0.0, np.where(z < 0, -np.inf, -np.log(2.0)))

    def derivatives(self, y: Array, f: Array) -> Derivatives:
        """Zero almost everywhere."""
        zero = np.zeros_like(y * f)
        return Derivatives(self.log_prob(y, f), zero, zero, zero)

    def tilted(self, y: Array, shift: Array, precision: Array, power: Power = 1.0, order: int = 2) -> Tilted:
        """A cut normal density, whatever the power."""
        require_cavity(self, precision, power)
        log_z, mean, var, c3, c4 = _probit_tilted(y, shift, precision, order, noise=0.0)
        empty = np.zeros((0, len(mean)))
        return Tilted(log_z + log_cavity_mass(shift, precision), log_z, mean, var, empty, c3, c4)

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> ExpectedLogProb:
        """Minus infinity: a normal density always reaches the impossible side."""
        raise ValueError("Heaviside: E[log p] is minus infinity under any normal density; use EP, or Probit")
