"""Ordered categories, K neighboring whole numbers: a noisy latent value falls between thresholds.

    p(y = k | f) = Phi(b_k - f) - Phi(b_{k-1} - f),   b_{-1} = -inf, b_{K-1} = inf.

With g = f + standard normal noise, an observation cuts g to an interval. So derivatives in f are cumulants
of a normal density cut to that interval, and tilted moments follow from those of g as for the probit. The
noise variance is one: a scale would only rescale f and the thresholds.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr

from cavity.likelihoods import tilted_quadrature
from cavity.likelihoods.base import (
    Derivatives,
    Likelihood,
    ParameterDerivatives,
    Power,
    Tilted,
    as_targets,
    log_cavity_mass,
    refuse,
    require_cavity,
)
from cavity.numerics.arrays import Array
from cavity.numerics.special import (
    LOG_2PI,
    Moments,
    half_line,
    inverse_mills,
    log_normal_interval,
    normal_interval,
)
from cavity.parameters.param import IDENTITY, LOG, Param
from cavity.prediction import CategoricalPrediction


def cut_normal(low: Array, high: Array) -> tuple[Array, Array, Moments]:
    """A standard normal x cut to (low, high), either end possibly infinite: log mass, E[x], moments of x -
    anchor.

    The anchor is `low` where it is finite, else `high`.
    """
    low, high = np.broadcast_arrays(np.asarray(low, dtype=float), np.asarray(high, dtype=float))
    up, down = np.isinf(high), np.isinf(low)
    both = ~(up | down)
    # one-sided: x > low is t = x - low; x < high is t = high - x
    edge = np.where(down, -high, np.where(up, low, 0.0))
    t = half_line(edge)
    sign = np.where(down, -1.0, 1.0)
    log_mass = np.asarray(log_ndtr(-edge))
    mean = np.asarray(sign * inverse_mills(-edge))
    parts = [np.asarray(a) for a in (sign * t.mean, t.var, sign * t.c3, t.c4)]
    if both.any():
        log_mass[both], m = normal_interval(low[both], high[both])
        mean[both] = low[both] + m.mean
        for full, piece in zip(parts, m):
            full[both] = piece
    return log_mass, mean, Moments(*parts)


class OrdinalProbit(Likelihood):
    """Ordered categories by thresholds on a noisy latent value.

    What is stored and learned is the first threshold and the positive gaps between neighbors, so that
    thresholds cannot cross.

    Parameters
    ----------
    thresholds : array (K - 1,), optional
        Increasing; K categories.
    first, gaps : float and array (K - 2,), or Param, optional
        The same as first threshold and gaps.
    lowest : int
        The first category: they are lowest, lowest + 1, ..., lowest + K - 1.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.likelihoods import OrdinalProbit
    >>> grades = OrdinalProbit([-1.0, 1.0])
    >>> np.exp(grades.log_prob(np.array([0, 1, 2]), np.zeros(3))).round(3)
    array([0.159, 0.683, 0.159])
    """

    log_concave = True
    discrete = True
    _transforms: ClassVar = {"first": IDENTITY, "gaps": LOG}

    def __init__(
        self, thresholds: ArrayLike | None = None, *, first: Any = None, gaps: Any = None, lowest: int = 0
    ) -> None:
        self.lowest = int(lowest)
        if thresholds is not None:
            b = np.asarray(thresholds, dtype=float)
            if b.ndim != 1 or len(b) < 1 or not np.all(np.diff(b) > 0):
                raise ValueError(
                    f"OrdinalProbit: thresholds must be an increasing vector, got {thresholds!r}"
                )
            first, gaps = float(b[0]), np.diff(b)
        elif first is None:
            raise ValueError("OrdinalProbit: give thresholds, or first and gaps")
        values = {"first": first}
        if gaps is not None and np.size(gaps.value if isinstance(gaps, Param) else gaps):
            values["gaps"] = gaps
        self._set_up(values)

    def _arguments(self) -> list[str]:
        return [*super()._arguments(), *([f"lowest={self.lowest}"] if self.lowest else [])]

    @property
    def thresholds(self) -> Array:
        """All thresholds, increasing, shape (K - 1,)."""
        gaps = self.gaps if "gaps" in self._params else np.zeros(0)
        return np.asarray(self.first + np.concatenate([[0.0], np.cumsum(gaps)]))

    @property
    def n_categories(self) -> int:
        """K."""
        return len(self.thresholds) + 1

    def check(self, y: ArrayLike) -> Array:
        """Categories must be K neighboring whole numbers."""
        labels = as_targets(y, type(self).__name__)
        highest = self.lowest + self.n_categories - 1
        bad = (labels < self.lowest) | (labels > highest) | (labels != np.floor(labels))
        problem = f"OrdinalProbit: categories must be {self.lowest}..{highest}"
        refuse(labels, bad, problem, "recode them or give more thresholds")
        return labels

    def _ends(self, y: Array) -> tuple[Array, Array]:
        """Thresholds below and above each observation."""
        b = np.concatenate([[-np.inf], self.thresholds, [np.inf]])
        k = np.asarray(y).astype(int) - self.lowest
        return b[k], b[k + 1]

    def break_points(self, y: Array) -> Array:
        """The middle of the observed interval, or its finite end."""
        low, high = self._ends(y)
        middle = np.where(np.isinf(low), high, np.where(np.isinf(high), low, 0.5 * (low + high)))
        return np.asarray(middle)[None]

    def log_prob(self, y: Array, f: Array) -> Array:
        """log(Phi(b_k - f) - Phi(b_{k-1} - f))."""
        low, high = self._ends(y)
        return log_normal_interval(low - f, high - f)

    def derivatives(self, y: Array, f: Array) -> Derivatives:
        """Mean, variance minus one and third moment of the cut normal."""
        low, high = self._ends(y)
        log_p, mean, m = cut_normal(low - f, high - f)
        return Derivatives(log_p, mean, m.var - 1, m.c3)

    def _by_thresholds(self, y: Array, rows_low: Array, rows_high: Array) -> Array:
        """From derivatives in the lower and upper end (shape of f) to (first, gaps): shape (P, ...).

        Threshold j is first plus the gaps before it, so d/d gap_i sums over the thresholds after it.
        """
        k = np.broadcast_to(np.asarray(y).astype(int) - self.lowest, rows_low.shape)
        P = self.n_categories - 1
        at_least = np.arange(P).reshape(-1, *(1,) * rows_low.ndim)
        # low end of category k is threshold k - 1, its high end threshold k
        return np.where(k - 1 >= at_least, rows_low, 0.0) + np.where(
            (k >= at_least) & (k < P), rows_high, 0.0
        )

    def _end_slopes(self, low: Array, high: Array, log_mass: Array) -> tuple[Array, Array]:
        """phi(end)/mass at both ends, zero at infinite ones."""
        return tuple(
            np.exp(-0.5 * np.where(np.isinf(b), np.inf, b * b) - 0.5 * LOG_2PI - log_mass)
            for b in (low, high)
        )  # type: ignore[return-value]

    def parameter_derivatives(self, y: Array, f: Array) -> ParameterDerivatives:
        """With h = phi(end)/p at an end b: h, h (b - d1), h ((b - d1)^2 - 1 - d2), negative at the lower
        end."""
        low, high = self._ends(y)
        a, b = low - f, high - f
        log_p, d1, m = cut_normal(a, b)
        rows = []
        for end, h, sign in zip((a, b), self._end_slopes(a, b, log_p), (-1.0, 1.0)):
            gap = np.where(np.isinf(end), 0.0, end - d1)
            rows.append((sign * h, sign * h * gap, sign * h * (gap * gap - m.var)))
        return ParameterDerivatives(*(self._by_thresholds(y, lo, hi) for lo, hi in zip(*rows)))

    def tilted(self, y: Array, shift: Array, precision: Array, power: Power = 1.0, order: int = 2) -> Tilted:
        """A cut normal density for g = f + noise, pulled back to f; panels where the power is not one."""
        if np.any(np.asarray(power) != 1.0):
            return tilted_quadrature.tilted(self, y, shift, precision, power, order)
        require_cavity(self, precision, power)
        low, high = self._ends(y)
        v = 1 / precision
        m = shift * v
        S = np.sqrt(1 + v)
        a, b = (low - m) / S, (high - m) / S
        log_z, _, t = cut_normal(a, b)
        anchor = np.where(np.isinf(low), high, low)
        # f = (m + v g)/(1 + v) + independent normal of variance v/(1 + v); 1/(1+v) = tau/(1+tau)
        rest = 1 / (1 + precision)
        spread = rest * S
        mean = rest * (shift + anchor) + spread * t.mean
        var = spread**2 * t.var + rest
        c3 = spread**3 * t.c3
        c4 = spread**4 * t.c4 + 6 * spread**2 * t.var * rest + 3 * rest**2
        h_low, h_high = self._end_slopes(a, b, log_z)
        d_log_z = self._by_thresholds(y, -h_low / S, h_high / S)
        total = log_z + log_cavity_mass(shift, precision)
        return Tilted(total, log_z, mean, var, d_log_z, c3, c4)

    def predictive(self, mean: ArrayLike, var: ArrayLike) -> CategoricalPrediction:
        """Probabilities of all categories."""
        m: Array = np.asarray(mean, dtype=float)
        S = np.sqrt(1 + np.broadcast_to(np.asarray(var, dtype=float), m.shape))[:, None]
        b = np.concatenate([[-np.inf], self.thresholds, [np.inf]])
        log_p = log_normal_interval((b[:-1] - m[:, None]) / S, (b[1:] - m[:, None]) / S)
        return CategoricalPrediction(np.exp(log_p), self.lowest + np.arange(self.n_categories), log_p)

    def sample(self, f: ArrayLike, rng: np.random.Generator) -> Array:
        """Add noise and look up the interval."""
        f = np.asarray(f, dtype=float)
        category = np.searchsorted(self.thresholds, f + rng.standard_normal(f.shape))
        return np.asarray(self.lowest + category, dtype=float)
