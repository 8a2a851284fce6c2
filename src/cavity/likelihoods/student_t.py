"""Student-t noise: p(y|f) = Gamma((nu+1)/2) / (Gamma(nu/2) sqrt(nu pi) s) (1 + e^2/(nu s^2))^(-(nu+1)/2), e
= y - f.

Tilted moments to any power eta, without quadrature in f. With a = eta (nu+1)/2 and x = e^2/(nu s^2),

    (1 + x)^-a = 1/Gamma(a) integral u^(a-1) exp(-u (1 + x)) du,

a normal density in f for each u. The trapezoid rule in log u converges geometrically (the integrand is
analytic in a strip of half-width pi/2), so a second, remote mode of the tilted density needs no special
care. Expectations of log p under a normal density use log(1 + x) = integral (1 - exp(-u x)) exp(-u) du/u in
the same way.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaln, digamma, gammaln, ndtr

from cavity.likelihoods.base import (
    Derivatives,
    ExpectedLogProb,
    ParameterDerivatives,
    Power,
    Tilted,
    equal_powers,
    float_rows,
    require_cavity,
)
from cavity.likelihoods.noise_prediction import NoisePrediction
from cavity.likelihoods.scale_mixture import WIDE, ScaleMixture, legendre_nodes
from cavity.numerics.arrays import Array
from cavity.numerics.quadrature import chunks, trapezoid_nodes
from cavity.parameters.param import LOG

STEP = 0.28
"""Trapezoid step in log u: the error of a strip of half-width pi/2 is exp(-pi^2/step) = 5e-16."""

LOG_TINY = 38.0
"""Nats at which the ends of the range are cut."""


STIRLING = 1e3
"""From here on three terms of Stirling's series have all digits."""


def _stirling_rest(a: float) -> float:
    """log Gamma(a) - (a log a - a)."""
    if a < STIRLING:
        return float(gammaln(a) - a * (np.log(a) - 1.0))
    return float(0.5 * np.log(2.0 * np.pi / a) + 1.0 / (12.0 * a) - 1.0 / (360.0 * a**3))


def _step(a: Array | float) -> Any:
    """Step for shape a: a gamma density in log u has width 1/sqrt(a), of which 0.75 suffices."""
    return np.minimum(STEP, 0.75 / np.sqrt(a + 0.5))


def _gamma_range(a: Array | float) -> tuple[Any, Any]:
    """How far log u ~ log Gamma(a, 1) reaches below log a and up to, at LOG_TINY nats."""
    c = LOG_TINY / a
    return c + np.sqrt(2 * c), np.log(a + np.sqrt(2 * LOG_TINY * a) + LOG_TINY)


class StudentT(ScaleMixture):
    """Student-t noise around f.

    Parameters
    ----------
    scale : float or Param
        Scale s, in units of y. The noise variance is s^2 nu/(nu-2) where nu > 2.
    df : float or Param
        Degrees of freedom nu > 0; the variance is infinite for nu <= 2.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.likelihoods import StudentT
    >>> noise = StudentT(scale=0.5, df=4.0)
    >>> noise.log_prob(np.array([0.0, 10.0]), np.zeros(2)).round(2)
    array([ -0.29, -11.83])
    >>> noise.predictive(np.zeros(1), np.ones(1)).interval(0.9)[1].round(2)
    array([1.98])
    """

    _transforms: ClassVar = {"scale": LOG, "df": LOG}

    def __init__(self, scale: Any = 1.0, df: Any = 4.0) -> None:
        self._set_up({"scale": scale, "df": df})

    @property
    def finest_width(self) -> float:  # type: ignore[override]
        """Its scale, less for few degrees of freedom (poles at a distance of sqrt(nu) scales)."""
        return float(self.scale * min(1.0, np.sqrt(self.df)) * 0.5)

    def _log_constant(self) -> float:
        nu = self.df
        # Gamma((nu + 1)/2) / (sqrt(pi) Gamma(nu/2)) = 1 / B(nu/2, 1/2), which keeps its digits as nu grows
        return float(-betaln(0.5 * nu, 0.5) - 0.5 * np.log(nu) - np.log(self.scale))

    def _d_log_constant(self) -> float:
        """d/d nu of the log constant."""
        nu = self.df
        return float(0.5 * (digamma(0.5 * (nu + 1)) - digamma(0.5 * nu) - 1 / nu))

    def log_prob(self, y: Array, f: Array) -> Array:
        """Log density."""
        z = (y - f) / self.scale
        # log1p(z^2/nu), without squaring a z beyond 1e154
        z = np.abs(z) / np.sqrt(self.df)
        big = z > 1e8
        log1p = np.where(big, 2 * np.log(np.maximum(z, 1.0)), np.log1p(np.minimum(z, 1e8) ** 2))
        return np.asarray(self._log_constant() - 0.5 * (self.df + 1) * log1p)

    def derivatives(self, y: Array, f: Array) -> Derivatives:
        """With D = nu s^2 + e^2: (nu+1) e/D, (nu+1)(e^2 - nu s^2)/D^2, 2(nu+1) e (e^2 - 3 nu s^2)/D^3."""
        e, q = y - f, self.df * self.scale**2
        D = q + e * e
        n1 = self.df + 1
        return Derivatives(
            self.log_prob(y, f),
            n1 * e / D,
            n1 * ((e * e - q) / D) / D,
            2 * n1 * (e / D) * ((e * e - 3 * q) / D) / D,
        )

    def parameter_derivatives(self, y: Array, f: Array) -> ParameterDerivatives:
        """In scale and degrees of freedom, through q = nu s^2 and nu + 1."""
        s, nu = self.scale, self.df
        e, q = y - f, nu * s * s
        e2 = e * e
        D, n1 = q + e2, nu + 1
        # by q at fixed nu
        d1_q, d2_q = -n1 * e / D**2, -n1 * (3 * e2 - q) / D**3
        tail = e2 / D
        by_scale = (-1 / s + n1 * tail / s, 2 * nu * s * d1_q, 2 * nu * s * d2_q)
        log_nu = self._d_log_constant() - 0.5 * np.log1p(e2 / q) + 0.5 * n1 * tail / nu
        by_df = (log_nu, e / D + s * s * d1_q, (e2 - q) / D**2 + s * s * d2_q)
        rows = [np.stack([u, v]) for u, v in zip(by_scale, by_df)]
        return ParameterDerivatives(*rows)

    def tilted(self, y: Array, shift: Array, precision: Array, power: Power = 1.0, order: int = 2) -> Tilted:
        """Trapezoid rule over the latent precision, see `scale_mixture_loops`; rows of equal power together."""
        from cavity.likelihoods.scale_mixture_loops import student_t

        require_cavity(self, precision, power)
        s, nu = self.scale, self.df
        cavity = float_rows(y, shift, precision)
        out = np.empty((8, len(y)))
        for eta, rows in equal_powers(power, len(y)):
            a = 0.5 * eta * (nu + 1)
            known = (
                eta * self._log_constant() - _stirling_rest(a),
                eta,
                eta * self._d_log_constant(),
                digamma(a),
            )
            student_t(rows, *cavity, a, nu * s * s, s, nu, known, out)
        return Tilted.of(out)

    def tilted_nodes(self, power: Power = 1.0) -> float | Array:
        """The range of log u in steps: long for few degrees of freedom and for small powers."""
        a = 0.5 * np.asarray(power) * (self.df + 1)
        below, upper = _gamma_range(a)
        return np.asarray((below + upper - np.log(a)) / _step(a))

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> ExpectedLogProb:
        """From E[log(1 + e^2/q)] with e ~ N(y - mean, var), see `scale_mixture_loops`."""
        from cavity.likelihoods.scale_mixture_loops import expected_log1p

        s, nu = self.scale, self.df
        q = nu * s * s
        e = y - mean
        d2, v = float_rows(e * e / q, np.broadcast_to(var / q, e.shape))
        out = np.empty((3, len(e)))
        expected_log1p(d2, v, out)
        log1p, by_d2, by_v = out
        half = 0.5 * (nu + 1)
        by_q = d2 * by_d2 + v * by_v  # -q d/dq of E log(1 + e^2/q)
        d_scale = -1 / s + 2 * half * by_q / s
        d_df = self._d_log_constant() - 0.5 * log1p + half * by_q / nu
        value = self._log_constant() - half * log1p
        return ExpectedLogProb(value, 2 * half * by_d2 * e / q, -half * by_v / q, np.stack([d_scale, d_df]))

    def scale_mixture(self) -> tuple[Array, Array]:
        """Trapezoid nodes in log u, wide enough for residuals of 1e12 scales."""
        nu = self.df
        a = 0.5 * (nu + 1)
        below, upper = _gamma_range(a)
        low = np.log(a) - np.log1p(1e24 / nu) - below
        count = int(np.ceil((upper - low) / _step(a))) + 1
        x, h = trapezoid_nodes(np.array([low]), np.array([upper]), count)
        u = np.exp(x[:, 0])
        log_c = a * x[:, 0] - u + np.log(h[0]) - gammaln(a) + self._log_constant()
        return 2 * u / (nu * self.scale**2), log_c

    def expected_precision(self, squared_residual: Array) -> Array:
        """(nu+1) / (nu s^2 + e^2)."""
        return np.asarray((self.df + 1) / (self.df * self.scale**2 + squared_residual))

    def sample_precision(self, residual: Array, rng: np.random.Generator) -> Array:
        """Gamma with shape (nu+1)/2 and rate (nu s^2 + e^2)/2."""
        rate = 0.5 * (self.df * self.scale**2 + residual**2)
        return np.asarray(rng.gamma(0.5 * (self.df + 1), 1 / rate))

    def clean_variances(self) -> tuple[Array, Array]:
        """Of the variance nu s^2 / (2 u), u ~ Gamma(nu / 2, 1), given that it is at most (WIDE s)^2."""
        a = 0.5 * self.df
        least = np.log(a / WIDE**2)
        below, upper = _gamma_range(a)
        x, h = legendre_nodes(max(least, np.log(a) - below), upper)  # x = log u
        log_weight = a * x - np.exp(x)
        weights = h * np.exp(log_weight - log_weight.max())
        return self.scale**2 * a * np.exp(-x), weights / weights.sum()

    def predictive(self, mean: ArrayLike, var: ArrayLike) -> NoisePrediction:
        """Student-t convolved with a normal density."""
        s, nu = self.scale, self.df
        noise = s * s * nu / (nu - 2) if nu > 2 else np.inf
        return NoisePrediction(self, mean, var, noise, s)

    def noise_cdf(self, x: Array, var: Array) -> Array:
        """P(noise + N(0, var) <= x): normal distribution functions averaged over the mixing gamma density."""
        nu = self.df
        a = 0.5 * nu
        below, upper = _gamma_range(a)
        low = np.log(a) - below
        count = int(np.ceil((upper - low) / _step(a))) + 1
        u_log, h = trapezoid_nodes(np.array([low]), np.array([upper]), count)
        log_weight = a * u_log - np.exp(u_log) + np.log(h) - gammaln(a)
        noise_var = 0.5 * nu * self.scale**2 * np.exp(-u_log)
        out = np.empty(x.shape)
        for block in chunks(x.size, count):
            z = x.ravel()[block] / np.sqrt(noise_var + var.ravel()[block])
            out.ravel()[block] = (np.exp(log_weight) * ndtr(z)).sum(axis=0)
        return out

    def sample(self, f: ArrayLike, rng: np.random.Generator) -> Array:
        """f plus scaled Student-t noise."""
        f = np.asarray(f, dtype=float)
        return np.asarray(f + self.scale * rng.standard_t(self.df, f.shape))
