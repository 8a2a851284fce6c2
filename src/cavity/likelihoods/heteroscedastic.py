"""Normal noise whose level is itself a function: two latent values per observation, f and g.

    p(y | f, g) = N(y | f, variance exp(g)).

Given g everything is normal in f, so tilted moments need quadrature over g alone: the density of g given y
and the cavity, integrated over f, is one-dimensional, and f given g is normal. Arrays are (n, 2): f first,
then g.

Notation: s = variance exp(g) is the noise variance, e = y - f.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from cavity.likelihoods.base import (
    ExpectedLogProb,
    LatentDerivatives,
    MultiLatentLikelihood,
    Power,
    Tilted,
)
from cavity.numerics.arrays import Array
from cavity.numerics.quadrature import Index, adaptive_rule, ladder, widen
from cavity.numerics.special import LOG_2PI
from cavity.parameters.param import LOG
from cavity.prediction import MixturePrediction


class HeteroscedasticGaussian(MultiLatentLikelihood):
    """Normal noise with a second latent function for its log variance.

    Parameters
    ----------
    variance : float or Param
        Noise variance where the second latent function is zero, in squared units of y.

    Examples
    --------
    >>> from cavity.likelihoods import HeteroscedasticGaussian
    >>> HeteroscedasticGaussian().n_latent  # the function and its log noise variance
    2
    """

    n_latent = 2
    _transforms: ClassVar = {"variance": LOG}

    def __init__(self, variance: Any = 1.0) -> None:
        self._set_up({"variance": variance})

    def log_prob(self, y: Array, f: Array) -> Array:
        """Normal log density; f is (..., n, 2)."""
        e, g = y - f[..., 0], f[..., 1]
        log_s = np.log(self.variance) + g
        with np.errstate(over="ignore"):
            return np.asarray(-0.5 * (LOG_2PI + log_s + e * e * np.exp(-log_s)))

    def _residual(self, y: Array, f: Array) -> tuple[Array, Array]:
        """e and the noise precision."""
        return y - f[:, 0], np.exp(-f[:, 1]) / self.variance

    def latent_derivatives(self, y: Array, f: Array) -> LatentDerivatives:
        """d/df = e w, d/dg = (e^2 w - 1)/2 with w the precision; Hessian [[-w, -e w], [-e w, -e^2 w/2]]."""
        e, w = self._residual(y, f)
        gradient = np.stack([e * w, 0.5 * (e * e * w - 1)], axis=1)
        hessian = -w[:, None, None] * np.stack(
            [np.stack([np.ones_like(e), e], axis=1), np.stack([e, 0.5 * e * e], axis=1)], axis=1
        )
        return LatentDerivatives(self.log_prob(y, f), gradient, hessian)

    def curvature_gradient(self, y: Array, f: Array, S: Array) -> Array:
        """d/df of tr(S W) = w (S_ff + 2 S_fg e + S_gg e^2/2)."""
        e, w = self._residual(y, f)
        cross = S[:, 0, 1] + S[:, 1, 0]
        by_f = -w * (cross + S[:, 1, 1] * e)
        by_g = -w * (S[:, 0, 0] + cross * e + 0.5 * S[:, 1, 1] * e * e)
        return np.stack([by_f, by_g], axis=1)

    def latent_parameter_derivatives(self, y: Array, f: Array) -> LatentDerivatives:
        """In the variance: as d/dg, divided by it."""
        e, w = self._residual(y, f)
        ew = e * w
        gradient = np.stack([-ew, -0.5 * e * ew], axis=1)
        hessian = w[:, None, None] * np.stack(
            [np.stack([np.ones_like(e), e], axis=1), np.stack([e, 0.5 * e * e], axis=1)], axis=1
        )
        scale = 1 / self.variance
        return LatentDerivatives(
            scale * 0.5 * (e * ew - 1)[None], scale * gradient[None], scale * hessian[None]
        )

    def tilted(self, y: Array, shift: Array, precision: Array, power: Power = 1.0, order: int = 2) -> Tilted:
        """Adaptive panels over g; f is integrated in closed form.

        `shift` is (n, 2), `precision` (n, 2) or (n, 2, 2), positive definite. The result has
        mean (n, 2) and covariance `var` (n, 2, 2); higher moments are not available.
        """
        P = np.asarray(precision, dtype=float)
        if P.ndim == 2:
            P = P[:, :, None] * np.eye(2)
        det = P[:, 0, 0] * P[:, 1, 1] - P[:, 0, 1] ** 2
        if not np.all((P[:, 0, 0] > 0) & (det > 0)):
            raise ValueError("HeteroscedasticGaussian: precision must be positive definite; shorten the step")
        if order > 2:
            raise ValueError(f"HeteroscedasticGaussian: only order 2 is available, got {order!r}")
        mean = np.linalg.solve(P, shift[:, :, None])[:, :, 0]
        eta = np.broadcast_to(np.asarray(power, dtype=float), y.shape)
        # cavity of g alone, and of f given g: mean a + slope (g - mean_g), variance 1/P_ff
        tau_g = det / P[:, 0, 0]
        slope = -P[:, 0, 1] / P[:, 0, 0]
        v = 1 / P[:, 0, 0]
        log_var = float(np.log(self.variance))

        log_eta_v = np.log(eta * v)

        def conditional(t: Array, i: Index) -> tuple[Array, Array, Array]:
            """log noise variance s, cavity residual y - E[f|g], and log(s + eta v), at g = mean_g + t."""
            log_s = log_var + mean[i, 1] + t
            return log_s, y[i] - mean[i, 0] - slope[i] * t, np.logaddexp(log_s, log_eta_v[i])

        def log_density(t: Array, i: Index) -> Array:
            log_s, residual, log_total = conditional(t, i)
            scale = 0.5 * ((1 - eta[i]) * log_s - log_total)
            # residual^2 / total, formed so that neither factor leaves double precision alone
            fit = 0.5 * eta[i] * (residual * np.exp(-0.5 * log_total)) ** 2
            return np.asarray(scale - fit - 0.5 * tau_g[i] * t * t)

        width = 1 / np.sqrt(tau_g)
        residual = y - mean[:, 0]
        typical = np.log(residual**2 + v + 1e-300) - log_var - mean[:, 1]
        edges = np.concatenate(
            [
                ladder(np.zeros_like(width), width, np.array([0.25, 1.0, 3.0, 8.0])),
                ladder(typical, np.ones_like(width), np.array([1.0, 4.0, 16.0])),
            ]
        )
        low, high = widen(log_density, edges.min(axis=0), edges.max(axis=0))
        rule = adaptive_rule(log_density, np.concatenate([edges, low[None], high[None]]))
        w, _ = rule.density()
        t, i = rule.nodes, rule.index
        log_s, residual_t, _ = conditional(t, i)
        noise_share = expit(log_s - log_eta_v[i])  # s / (s + eta v)
        cavity_share = expit(log_eta_v[i] - log_s)
        # f given g and y: precision eta/s + 1/v
        var_f = v[i] * noise_share
        f_offset = residual_t * cavity_share + slope[i] * t
        moment = [rule.sum(w * a) for a in (f_offset, t)]
        df, dt = f_offset - moment[0][i], t - moment[1][i]
        cov = np.empty((len(y), 2, 2))
        cov[:, 0, 0] = rule.sum(w * (var_f + df * df))
        cov[:, 1, 1] = rule.sum(w * dt * dt)
        cov[:, 0, 1] = cov[:, 1, 0] = rule.sum(w * df * dt)
        # E[e^2 | g, y] / s = cavity_share/eta + (e_mean / sd)^2, in which small s divides nothing by zero
        ratio = cavity_share / eta[i] + (residual_t * noise_share * np.exp(-0.5 * log_s)) ** 2
        d_log_z = (0.5 * eta * (rule.sum(w * ratio) - 1) / self.variance)[None]
        # normalizers: of the density's power, of the cavity of g
        normalized = rule.log_integral() - 0.5 * eta * LOG_2PI + 0.5 * (np.log(tau_g) - LOG_2PI)
        quad = (shift * mean).sum(axis=1)
        log_z = normalized + LOG_2PI - 0.5 * np.log(det) + 0.5 * quad
        return Tilted(log_z, normalized, mean + np.stack(moment, axis=1), cov, d_log_z)

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> ExpectedLogProb:
        """Closed form; `var` is (n, 2) for independent f and g, or a covariance (n, 2, 2)."""
        v = np.asarray(var, dtype=float)
        full = v.ndim == 3
        v_f, v_g = (v[:, 0, 0], v[:, 1, 1]) if full else (v[:, 0], v[:, 1])
        c = v[:, 0, 1] if full else np.zeros(len(y))
        # under N tilted by exp(-g) the mean of f is lower by its covariance with g
        e = y - mean[:, 0] + c
        with np.errstate(over="ignore"):
            w = np.exp(-mean[:, 1] + 0.5 * v_g) / self.variance
        second = e * e + v_f
        value = -0.5 * (LOG_2PI + np.log(self.variance) + mean[:, 1] + second * w)
        d_mean = np.stack([e * w, 0.5 * (second * w - 1)], axis=1)
        d_vf, d_vg, d_c = -0.5 * w, -0.25 * second * w, -e * w
        if full:
            d_var = np.stack(
                [np.stack([d_vf, 0.5 * d_c], axis=1), np.stack([0.5 * d_c, d_vg], axis=1)], axis=1
            )
        else:
            d_var = np.stack([d_vf, d_vg], axis=1)
        return ExpectedLogProb(value, d_mean, d_var, (0.5 * (second * w - 1) / self.variance)[None])

    def predictive(self, mean: ArrayLike, var: ArrayLike) -> MixturePrediction:
        """Mixture of normals over the noise level; `var` is (n, 2) or a covariance (n, 2, 2)."""
        m: Array = np.asarray(mean, dtype=float)
        v: Array = np.asarray(var, dtype=float)
        full = v.ndim == 3
        v_f, v_g = (v[:, 0, 0], v[:, 1, 1]) if full else (v[:, 0], v[:, 1])
        c = v[:, 0, 1] if full else np.zeros(len(m))
        sd = np.sqrt(v_g)
        # normal weights in units of sd, with steps that also resolve exp(g)
        count = int(np.ceil(17 / min(0.3, 0.3 / max(float(sd.max(initial=0.0)), 1e-9)))) + 1
        x = np.linspace(-8.5, 8.5, count)[:, None]
        log_w = -0.5 * x * x - 0.5 * LOG_2PI + np.log(17 / (count - 1))
        slope = np.where(v_g > 0, c / np.where(v_g > 0, v_g, 1.0), 0.0)
        with np.errstate(over="ignore"):
            noise = self.variance * np.exp(m[:, 1] + sd * x)
            total = v_f + self.variance * np.exp(m[:, 1] + 0.5 * v_g)
        return MixturePrediction(log_w, m[:, 0] + slope * sd * x, v_f - slope * c + noise, total)

    def sample(self, f: ArrayLike, rng: np.random.Generator) -> Array:
        """f plus noise; f is (..., n, 2)."""
        f = np.asarray(f, dtype=float)
        sd = np.sqrt(self.variance) * np.exp(0.5 * f[..., 1])
        return np.asarray(f[..., 0] + sd * rng.standard_normal(f.shape[:-1]))
