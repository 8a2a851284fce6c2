"""Exact inference with the overall scale integrated out: a Student-t process.

Rasmussen and Williams (2006), section 9.9. Kernel and noise are known up to a common factor s, with precision
1/s ~ Gamma(shape a, rate b). With A = K + noise, q = r'A^-1 r, and m = n, less the number of vague basis functions,

    log p(y) = log Gamma(a + m/2) - log Gamma(a) - m/2 log 2 pi b - 1/2 log|A| - (a + m/2) log(1 + q / 2b)

and predictions are t distributions with 2a + m degrees of freedom, whose squared scales are those of the Gaussian
process times (2b + q) / (2a + m). By default a = b = 0 (Jeffreys): the factor s is then integrated over, not learned,
and multiplying kernel and noise variances by a number changes nothing.

Intervals are honest if there are few rows. It is **not robust**: the mean is that of the Gaussian process, outliers or
not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import gammaln

from cavity.inference.base import Approximation, Evidence, UnsupportedPairError
from cavity.inference.exact import Exact, Observed
from cavity.latent.base import LatentPrior
from cavity.likelihoods.observations import Observations
from cavity.numerics.arrays import Array
from cavity.numerics.special import LOG_2PI
from cavity.prediction import StudentTPrediction
from cavity.runtime.checks import is_number


@dataclass(frozen=True)
class UnknownScale:
    """What integrating over the scale makes of Gaussian predictions: t with `df`, squared scales times `factor`."""

    df: float
    factor: float

    def prediction(self, mean: Array, variance: Array) -> StudentTPrediction:
        """Of f or y, from the mean and variance of the Gaussian process."""
        return StudentTPrediction(self.df, mean, np.sqrt(self.factor * variance))

    @property
    def inflation(self) -> float:
        """Variance of predictions over that of the Gaussian process."""
        return self.factor * self.df / (self.df - 2.0) if self.df > 2 else np.inf

    def scales(self, size: int, rng: np.random.Generator) -> Array:
        """Draws of the square root of the factor, shape (size, 1)."""
        return np.sqrt(self.factor * self.df / rng.chisquare(self.df, (size, 1)))


class ExactScale(Exact):
    """Exact inference with the common factor of kernel and noise integrated out.

    Parameters
    ----------
    shape, rate : float
        Of the Gamma prior of 1 / s; both zero (Jeffreys' prior) by default.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP
    >>> from cavity.inference import ExactScale
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import Gaussian
    >>> x = np.arange(7.0)[:, None]
    >>> posterior = GP(1.0 * SE(1.0), Gaussian(0.01), inference=ExactScale(2.5, 2.5)).condition(x, np.sin(x[:, 0]))
    >>> round(posterior.log_evidence, 6), posterior.predict_f([[2.5]]).df
    (-5.638666, 12.0)
    """

    name = "exact-scale"

    def __init__(self, shape: float = 0.0, rate: float = 0.0) -> None:
        for name, value in (("shape", shape), ("rate", rate)):
            if not is_number(value) or not 0 <= value < np.inf:
                raise ValueError(f"{name} must be a finite number >= 0, got {value!r}")
        if (shape == 0) != (rate == 0):
            raise ValueError(
                f"shape and rate must both be zero or both be positive, got {shape!r} and {rate!r}"
            )
        self.shape, self.rate = float(shape), float(rate)

    def _scale(self, c: Observed) -> tuple[float, float]:
        """Degrees of freedom of the targets, m, and q."""
        if c.targets > 1:
            raise UnsupportedPairError(
                "one scale for several targets is not integrated out; fit one model per target"
            )
        vague = c.trend is not None and c.prior.mean_function.vague  # type: ignore[union-attr]
        m = c.n - (c.trend.root.shape[1] if vague and c.trend is not None else 0)
        q = float(np.vdot(c.residual, c.alpha))
        if m + 2 * self.shape <= 0 or q + 2 * self.rate <= 0:
            raise UnsupportedPairError(
                "there are too few rows to integrate over the scale without a prior of it"
            )
        return m, q

    def _value(self, c: Observed) -> float:
        m, q = self._scale(c)
        a, b = self.shape, self.rate
        determinants = c.log_evidence + 0.5 * q + 0.5 * m * LOG_2PI
        if a == 0.0:
            return determinants + float(gammaln(0.5 * m)) - 0.5 * m * float(np.log(np.pi * q))
        constant = gammaln(a + 0.5 * m) - gammaln(a) - 0.5 * m * np.log(2 * np.pi * b)
        return determinants + float(constant - (a + 0.5 * m) * np.log1p(0.5 * q / b))

    def _approximation(self, c: Observed) -> Approximation:
        m, q = self._scale(c)
        df = 2 * self.shape + m
        scale = UnknownScale(df, (2 * self.rate + q) / df)
        return replace(super()._approximation(c), log_evidence=self._value(c), q=None, scale=scale)

    def evidence(self, prior: LatentPrior, observations: Observations, warm: Any = None) -> Evidence:
        """Log evidence, scale integrated out, and its gradient: d log p / dA = 1/2 (w alpha alpha' - A^-1)."""
        c = self._observed(prior, observations, transient=True)
        m, q = self._scale(c)
        weight = (self.shape + 0.5 * m) / (self.rate + 0.5 * q)
        return Evidence(self._value(c), c.evidence_gradient(weight))

    def leave_one_out(  # type: ignore[override]
        self, prior: LatentPrior, observations: Observations
    ) -> StudentTPrediction:
        """Each target given the others, which also say what the scale is."""
        plain = super().leave_one_out(prior, observations)
        c = self._observed(prior, observations)
        m, q = self._scale(c)
        df = 2 * self.shape + m - 1
        if not df > 0:
            raise UnsupportedPairError("without one row there are too few to integrate over the scale")
        without = q - c.alpha[:, 0] ** 2 / c._left[0]
        factor = (2 * self.rate + np.maximum(without, 0.0)) / df
        return StudentTPrediction(df, plain.mean, np.sqrt(factor * plain.variance))

    def leave_one_out_log_prob(
        self, prior: LatentPrior, observations: Observations, averaged: bool = False
    ) -> Any:
        """Not here: the evidence is what it is for."""
        raise UnsupportedPairError(
            "leave-one-out learning is not for inference='exact-scale'; use objective='evidence', or inference='exact'"
        )
