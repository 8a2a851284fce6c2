"""Finite mixtures of likelihoods with one latent value.

For p(y|f) = sum_k pi_k p_k(y|f) with responsibilities r_k and a_k = d1_k - d1, derivatives in f are

    d1 = sum r d1_k,  d2 = sum r (d2_k + a_k^2),  d3 = sum r (d3_k + 3 a_k d2_k + a_k^3).

At power one the tilted density is the mixture of the components' tilted densities. A power of a mixture is not a
mixture; it goes through quadrature.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_softmax

from cavity.likelihoods import tilted_quadrature
from cavity.likelihoods.base import (
    Derivatives,
    Likelihood,
    ParameterDerivatives,
    Power,
    Tilted,
    log_cavity_mass,
    require_cavity,
)
from cavity.numerics.arrays import Array
from cavity.numerics.special import Moments, mix_moments, softmax_columns
from cavity.parameters.param import LOG
from cavity.prediction import MixedPrediction, Prediction


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
        return softmax_columns(np.stack([w + c.log_prob(y, f) for w, c in zip(log_w, self.components)]))

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

    def tilted(self, y: Array, shift: Array, precision: Array, power: Power = 1.0, order: int = 2) -> Tilted:
        """Mixture of the components' tilted densities; panels where the power is not one."""
        if np.any(np.asarray(power) != 1.0):
            return tilted_quadrature.tilted(self, y, shift, precision, power, order)
        require_cavity(self, precision, power)
        parts = [c.tilted(y, shift, precision, 1.0, 4) for c in self.components]
        proper = precision > 0
        log_w = np.log(self.weights)
        terms = np.stack([w + np.where(proper, t.log_z_normalized, t.log_z) for w, t in zip(log_w, parts)])
        log_sum, r = softmax_columns(terms)
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
        log_z = np.where(proper, normalized + log_cavity_mass(shift, precision), log_sum)
        return Tilted(log_z, normalized, origin + m.mean, m.var, d_log_z, m.c3, m.c4)

    def predictive(self, mean: ArrayLike, var: ArrayLike) -> Prediction:
        """Mixture of the components' predictions."""
        return MixedPrediction(self.weights, [c.predictive(mean, var) for c in self.components])

    def clean_predictive(self, mean: ArrayLike, var: ArrayLike) -> Prediction:
        """The prediction of the first component, the regular one."""
        return self.components[0].predictive(mean, var)

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
