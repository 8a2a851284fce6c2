"""Mixtures: two normal components (regular and outlier), and finite mixtures of any likelihoods with one
latent value.

For p(y|f) = sum_k pi_k p_k(y|f) with responsibilities r_k and a_k = d1_k - d1, derivatives in f are

    d1 = sum r d1_k,  d2 = sum r (d2_k + a_k^2),  d3 = sum r (d3_k + 3 a_k d2_k + a_k^3).

At power one the tilted density is the mixture of the components' tilted densities: closed form where theirs
are. A power of a mixture is not a mixture; then adaptive panels are used. Cavities of mixtures of normals
may have precisions down to -1/(largest variance).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_softmax

from cavity.likelihoods import by_quadrature as fallback
from cavity.likelihoods.base import (
    LOG_2PI,
    Derivatives,
    Likelihood,
    ParameterDerivatives,
    Tilted,
    log_cavity_mass,
    require_cavity,
)
from cavity.likelihoods.scale_mixture import ScaleMixture, tilted_from_nodes
from cavity.numerics.arrays import Array
from cavity.numerics.special import Moments, mix_moments
from cavity.parameters.param import LOG, UNIT, Param, Transform
from cavity.prediction.distributions import MixedPrediction, MixturePrediction, Prediction


class AboveOne(Transform):
    """Values above one, u = log(x - 1): keeps an outlier component wider than the regular one."""

    name = "above_one"
    support = (1.0, np.inf)

    def to_natural(self, u: Array) -> Array:
        """x = 1 + exp(u)."""
        return 1 + np.exp(u)

    def to_unconstrained(self, x: Array) -> Array:
        """u = log(x - 1)."""
        return np.log(x - 1)

    def slope(self, x: Array) -> Array:
        """dx/du = x - 1."""
        return x - 1

    def log_slope_derivative(self, x: Array) -> Array:
        """d/du log(x - 1) = 1."""
        return np.ones_like(x)


ABOVE_ONE = AboveOne()


def _softmax_columns(terms: Array) -> tuple[Array, Array]:
    """Log sum exp over the first axis and the normalized weights."""
    top = terms.max(axis=0)
    r = np.exp(terms - top)
    mass = r.sum(axis=0)
    return top + np.log(mass), r / mass


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

    _transforms: ClassVar = {"fraction": UNIT, "scale": LOG, "inflation": ABOVE_ONE}

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
        log_p, r = _softmax_columns(log_c - 0.5 * w * squared)
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

    def tilted(
        self,
        y: Array,
        cavity_shift: Array,
        cavity_precision: Array,
        power: float | Array = 1.0,
        order: int = 2,
    ) -> Tilted:
        """Two normal densities; panels where the power is not one."""
        if np.any(np.asarray(power) != 1.0):
            return fallback.tilted(self, y, cavity_shift, cavity_precision, power, order)
        require_cavity(self, cavity_precision, power)
        w, log_c = (a[:, None] for a in self.scale_mixture())
        nodes = tilted_from_nodes(y, cavity_shift, cavity_precision, w, log_c)
        second = 1 / nodes.precisions + nodes.node_means**2
        A, _ = self._component_slopes(w * second)
        d_log_z = (nodes.responsibilities * A).sum(axis=1)
        m = nodes.moments
        return Tilted(nodes.log_z, nodes.log_z_normalized, y + m.mean, m.var, d_log_z, m.c3, m.c4)

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
        return np.asarray(_softmax_columns(log_w - 0.5 * (np.log(s2) + (y - mean) ** 2 / s2))[1][1])


class Mixture(Likelihood):
    """A finite mixture of likelihoods, for example three normals or a Student-t with a broad normal.

    What is stored and learned is `odds`, the weights of the second and later components relative to the
    first.

    Parameters
    ----------
    components : sequence of Likelihood
        Two or more, with one latent value each; the first is the regular one for `outlier_probability`.
    weights : array (K,), optional
        Mixture weights; they are normalized. Equal by default.
    odds : array (K - 1,) or Param, optional
        The weights as odds against the first component, instead of `weights`.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.likelihoods import Gaussian, Laplace, Mixture
    >>> noise = Mixture([Gaussian(0.1), Laplace(2.0)], [0.9, 0.1])
    >>> noise.log_prob(np.array([0.0, 5.0]), np.zeros(2)).round(2)
    array([ 0.15, -6.19])
    """

    _transforms: ClassVar = {"odds": LOG}

    def __init__(
        self, components: Sequence[Likelihood], weights: ArrayLike | None = None, *, odds: Any = None
    ) -> None:
        K = len(components)
        if K < 2 or any(c.n_latent != 1 for c in components):
            raise ValueError(
                f"Mixture: components must be two or more likelihoods with one latent value, "
                f"got {components!r}"
            )
        if len({c.discrete for c in components}) > 1:
            raise ValueError(
                f"Mixture: discrete and continuous components cannot be mixed, got {components!r}"
            )
        if weights is not None and odds is not None:
            raise ValueError("Mixture: give weights or odds, not both")
        if odds is None:
            w = np.ones(K) if weights is None else np.asarray(weights, dtype=float)
            if w.shape != (K,) or not np.all(w > 0):
                raise ValueError(f"Mixture: weights must be {K} positive numbers, got {weights!r}")
            odds = w[1:] / w[0]
        self._set_up({"odds": odds}, components)
        if np.shape(self.odds) != (K - 1,):
            raise ValueError(f"Mixture: odds must be a vector of {K - 1} numbers, got {self.odds!r}")

    @property
    def components(self) -> tuple[Likelihood, ...]:
        """The mixed likelihoods."""
        return self._parts  # type: ignore[return-value]

    @property
    def weights(self) -> Array:
        """Mixture weights, adding up to one."""
        full = np.concatenate([[1.0], self.odds])
        return np.asarray(full / full.sum())

    @property
    def log_concave(self) -> bool:  # type: ignore[override]
        """A mixture is not log-concave, even where its components are."""
        return False

    @property
    def smooth(self) -> bool:  # type: ignore[override]
        """Smooth where all components are."""
        return all(c.smooth for c in self.components)

    @property
    def discrete(self) -> bool:  # type: ignore[override]
        """As the components are."""
        return self.components[0].discrete

    @property
    def min_cavity_precision(self) -> float | Array:
        """The tightest limit among the components."""
        limit = np.max(np.broadcast_arrays(*(c.min_cavity_precision for c in self.components)), axis=0)
        return float(limit) if np.ndim(limit) == 0 else np.asarray(limit)

    @property
    def finest_width(self) -> float | None:  # type: ignore[override]
        """The narrowest component's, where all declare one."""
        widths = [c.finest_width for c in self.components]
        return min(widths) if all(w is not None for w in widths) else None  # type: ignore[type-var]

    def check(self, y: ArrayLike) -> Array:
        """Targets must suit every component."""
        for c in self.components:
            checked = c.check(y)
        return checked

    def rows(self, index: Any) -> Mixture:
        """Of some observations."""
        return self._rebuild(self._params, tuple(c.rows(index) for c in self.components))

    def break_points(self, y: Array) -> Array:
        """Those of all components."""
        return np.concatenate([np.atleast_2d(c.break_points(y)) for c in self.components])

    def _mix(self, y: Array, f: Array) -> tuple[Array, Array]:
        log_w = np.log(self.weights)
        return _softmax_columns(np.stack([w + c.log_prob(y, f) for w, c in zip(log_w, self.components)]))

    def log_prob(self, y: Array, f: Array) -> Array:
        """Log of the weighted sum."""
        return self._mix(y, f)[0]

    def derivatives(self, y: Array, f: Array) -> Derivatives:
        """From those of the components."""
        log_p, r = self._mix(y, f)
        d1, d2, d3 = (np.stack(d) for d in zip(*(c.derivatives(y, f)[1:] for c in self.components)))
        first = (r * d1).sum(axis=0)
        a = d1 - first
        return Derivatives(
            log_p, first, (r * (d2 + a * a)).sum(axis=0), (r * (d3 + 3 * a * d2 + a**3)).sum(axis=0)
        )

    def _weight_slopes(self) -> Array:
        """d log weight_k / d odds_j, shape (K - 1, K)."""
        K, total = len(self.components), 1 + float(np.sum(self.odds))
        slopes = np.full((K - 1, K), -1 / total)
        slopes[np.arange(K - 1), np.arange(1, K)] += 1 / self.odds
        return slopes

    def parameter_derivatives(self, y: Array, f: Array) -> ParameterDerivatives:
        """Of the odds, then of each component."""
        _, r = self._mix(y, f)
        known = [c.derivatives(y, f) for c in self.components]
        d1, d2 = np.stack([k.d1 for k in known]), np.stack([k.d2 for k in known])
        a = d1 - (r * d1).sum(axis=0)
        b = d2 + a * a
        b = b - (r * b).sum(axis=0)
        A = np.tensordot(
            self._weight_slopes(), r, axes=0
        )  # (K-1, K, K, ...) outer product; keep the diagonal
        A = np.moveaxis(np.diagonal(A, axis1=1, axis2=2), -1, 1)
        rows = [(A.sum(axis=1), (A * a).sum(axis=1), (A * b).sum(axis=1))]
        for k, c in enumerate(self.components):
            p = c.parameter_derivatives(y, f)
            log_p = r[k] * p.log_prob
            rows.append((log_p, log_p * a[k] + r[k] * p.d1, log_p * b[k] + r[k] * (p.d2 + 2 * a[k] * p.d1)))
        return ParameterDerivatives(*(np.concatenate(piece) for piece in zip(*rows)))

    def parameter_slopes(self, y: Array, f: Array) -> Array:
        """d log p / d flat alone."""
        _, r = self._mix(y, f)
        rows = [np.tensordot(self._weight_slopes(), r, axes=1)]
        rows += [r[k] * c.parameter_slopes(y, f) for k, c in enumerate(self.components)]
        return np.concatenate(rows)

    def tilted(
        self,
        y: Array,
        cavity_shift: Array,
        cavity_precision: Array,
        power: float | Array = 1.0,
        order: int = 2,
    ) -> Tilted:
        """Mixture of the components' tilted densities; panels where the power is not one."""
        if np.any(np.asarray(power) != 1.0):
            return fallback.tilted(self, y, cavity_shift, cavity_precision, power, order)
        require_cavity(self, cavity_precision, power)
        parts = [c.tilted(y, cavity_shift, cavity_precision, 1.0, 4) for c in self.components]
        proper = cavity_precision > 0
        log_w = np.log(self.weights)
        terms = np.stack([w + np.where(proper, t.log_z_normalized, t.log_z) for w, t in zip(log_w, parts)])
        log_sum, r = _softmax_columns(terms)
        # around y (noise) or the first component's mean, whichever; differences of means are what matters
        origin = parts[0].mean
        stacked = Moments(
            np.stack([t.mean - origin for t in parts]),
            np.stack([t.var for t in parts]),
            np.stack([np.asarray(t.c3) for t in parts]),
            np.stack([np.asarray(t.c4) for t in parts]),
        )
        m = mix_moments(r, stacked)
        d_log_z = np.concatenate([self._weight_slopes() @ r] + [q * t.d_log_z for q, t in zip(r, parts)])
        normalized = np.where(proper, log_sum, np.nan)
        log_z = np.where(proper, normalized + log_cavity_mass(cavity_shift, cavity_precision), log_sum)
        return Tilted(log_z, normalized, origin + m.mean, m.var, d_log_z, m.c3, m.c4)

    def predictive(self, mean: ArrayLike, var: ArrayLike) -> Prediction:
        """Mixture of the components' predictions."""
        return MixedPrediction(self.weights, [c.predictive(mean, var) for c in self.components])

    def sample(self, f: ArrayLike, rng: np.random.Generator) -> Array:
        """Draw a component, then from it."""
        f = np.asarray(f, dtype=float)
        which = rng.choice(len(self.components), size=f.shape, p=self.weights)
        return np.choose(which, [c.sample(f, rng) for c in self.components])

    def outlier_probability(self, y: Array, mean: Array, var: Array) -> Array:
        """Posterior probability of any component but the first, where f ~ N(mean, var) has not seen y."""
        terms = np.stack([c.predictive(mean, var).log_prob(y) for c in self.components])
        log_r = log_softmax(terms + np.log(self.weights)[:, None], axis=0)
        return np.asarray(np.exp(log_r[1:]).sum(axis=0))

    def _arguments(self) -> list[str]:
        return [f"[{', '.join(map(repr, self.components))}]", *super()._arguments()]
