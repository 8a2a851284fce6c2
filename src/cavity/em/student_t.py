"""Student-t components: robust mixtures and emissions.

x = mu + Sigma^1/2 z / sqrt(u) with u ~ Gamma(nu/2, nu/2) hidden (Peel and McLachlan, Statistics and Computing
10, 2000). E-step: E[u | x] = (nu + d) / (nu + delta) and E[log u | x] = digamma((nu + d)/2) - log((nu +
delta)/2), with delta the squared Mahalanobis distance and d the number of observed features. The degrees of
freedom solve a one-dimensional equation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import digamma, gammaln

from cavity.em.checks import is_number
from cavity.em.components import DEAD, Params, Stats, has_nan
from cavity.em.gaussian import Gaussian, missing_patterns, pattern_distance
from cavity.em.transforms import EQUAL, POSITIVE, Coordinates
from cavity.numerics.arrays import Array

START_DOF = 2.0  # heavy tails first: a start near Gaussian tails would let outliers capture a component


@dataclass(eq=False, repr=False)
class StudentT(Gaussian):
    """Student-t components with `means`, scale matrices in `covariances`, and `dofs` (K,).

    Parameters
    ----------
    dof : float, "estimate" or "shared"
        Degrees of freedom: fixed, estimated per component, or one estimate for all.
    dof_bounds : (float, float)
        Range of the estimates. At the upper end a component is Gaussian for all practical purposes.
    covariance_type, n_factors, reg_covar, prior : as for `Gaussian`, here for the scale matrices.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.em import Mixture, StudentT
    >>> X = np.array([[-1.0], [0.0], [1.0], [100.0]])
    >>> Mixture(1, StudentT(dof=2.0, reg_covar=0.0)).fit(X).means_.round(0)  # the outlier hardly counts
    array([[0.]])
    """

    letters: ClassVar[dict[str, tuple[str, ...]]] = {**Gaussian.letters, "d": ("dofs",)}
    robust: ClassVar[bool] = True

    dof: float | str = "estimate"
    dof_bounds: tuple[float, float] = (0.5, 500.0)

    def _resolve(self, x: Array, weights: Array) -> None:
        super()._resolve(x, weights)
        bounds = self.dof_bounds
        pair = np.ndim(bounds) == 1 and len(bounds) == 2 and all(is_number(bound) for bound in bounds)
        if not (pair and 0 < bounds[0] < bounds[1] < np.inf):
            raise ValueError(f"dof_bounds={bounds!r} must be two increasing positive numbers")
        if isinstance(self.dof, str):
            if self.dof not in ("estimate", "shared"):
                raise ValueError(f"dof={self.dof!r} is not known: give a number, 'estimate' or 'shared'")
        elif not (is_number(self.dof) and 0 < self.dof < np.inf):
            raise ValueError(f"dof={self.dof!r} must be positive: give a number, 'estimate' or 'shared'")

    # -- E-step ----------------------------------------------------------------------------------------------
    def log_prob(self, params: Params, x: Array, threads: int = 1) -> Array:
        """Log densities (n, K) of the observed entries."""
        nu = params["dofs"]
        distance, logdet, d = self._t_distances(params, x, threads)
        constant = gammaln(0.5 * (nu + d)) - gammaln(0.5 * nu) - 0.5 * (d * np.log(nu * np.pi) + logdet)
        log_tail = np.log1p(distance / nu)
        if not np.all(np.isfinite(distance)):
            far = ~np.isfinite(distance)
            log_tail = np.where(far, self._log_distances(params, x, far) - np.log(nu), log_tail)
        return np.asarray(constant - 0.5 * (nu + d) * log_tail)

    def _log_distances(self, params: Params, x: Array, far: NDArray[np.bool_]) -> Array:
        """Logarithms of squared distances (n, K) that overflow: log delta(x) = 2 log s + log delta(x / s)."""
        out = np.zeros(far.shape)
        matrices = self._all_matrices(params)
        for k, mean in enumerate(params["means"]):
            deviation = x[far[:, k]] - mean
            size = np.nanmax(np.abs(deviation), axis=1, initial=0.0)
            scaled = deviation / size[:, None]
            logs = np.empty(len(scaled))
            for rows, seen in missing_patterns(scaled):
                here = scaled[rows][:, seen]
                logs[rows] = np.log(pattern_distance(here, seen, np.zeros_like(mean), matrices[k])[0])
            out[far[:, k], k] = 2.0 * np.log(size) + logs
        return out

    def _t_distances(self, params: Params, x: Array, threads: int) -> tuple[Array, Array, Array]:
        """Squared distances (n, K), log determinants (n | 1, K), numbers of observed features (n | 1, 1)."""
        if not has_nan(x):
            factors, logdet = self.structure.factors(params, self.n_components)
            with np.errstate(over="ignore", invalid="ignore"):  # rows too far away are seen to by `log_prob`
                distance = self._distances(params, x, factors, np.zeros(self.n_components), threads)
                distance *= -2.0
            return distance, logdet[None], np.full((1, 1), float(x.shape[1]))
        distance = np.empty((len(x), self.n_components))
        logdets = np.empty_like(distance)
        observed = np.empty((len(x), 1))
        matrices = self._all_matrices(params)
        for rows, seen in missing_patterns(x):
            observed[rows] = np.count_nonzero(seen)
            for k, mean in enumerate(params["means"]):
                with np.errstate(over="ignore", invalid="ignore"):
                    distance[rows, k], logdets[rows, k] = pattern_distance(
                        x[rows][:, seen], seen, mean, matrices[k]
                    )
        return distance, logdets, observed

    def accumulate(self, params: Params, x: Array, resp: Array, threads: int = 1) -> Stats:
        """Moments weighted by r E[u], counts by r, and the sum of r (E log u - E u)."""
        nu = params["dofs"]
        distance, _, d = self._t_distances(params, x, threads)
        u = (nu + d) / (nu + distance)
        log_u = digamma(0.5 * (nu + d)) - np.log(0.5 * (nu + distance))
        if has_nan(x):
            stats = self._missing_moments(params, x, resp, u)
        else:
            stats = self._moments(params, x, resp * u, threads)
        stats["mass"] = np.sum(resp * u, axis=0)
        stats["counts"] = resp.sum(axis=0)
        stats["log_u"] = np.sum(resp * (log_u - u), axis=0)
        return stats

    def mixture_pass(
        self, params: Params, log_weights: Array, x: Array, weights: Array, threads: int
    ) -> tuple[float, Array, Stats]:
        """E-step in blocks of rows (the fused Gaussian pass does not apply)."""
        return super(Gaussian, self).mixture_pass(params, log_weights, x, weights, threads)

    # -- M-step ----------------------------------------------------------------------------------------------
    def maximize(self, stats: Stats, params: Params, update: frozenset[str] | None = None) -> Params:
        """Means weighted by r E[u], scale matrices, degrees of freedom."""
        means = self._new_means(stats, params, update, stats["mass"])
        new = self._with_covariances(stats, params, means, update, stats["mass"])
        if isinstance(self.dof, str) and (update is None or "dofs" in update):
            new["dofs"] = self._new_dofs(stats, params["dofs"])
        return new

    def _new_dofs(self, stats: Stats, old: Array) -> Array:
        counts, sums = stats["counts"], stats["log_u"]
        if self.dof == "shared":
            return np.full(len(old), _solve_dof(float(sums.sum() / counts.sum()), self.dof_bounds))
        return np.array(
            [
                _solve_dof(float(s / n), self.dof_bounds) if n > DEAD else float(o)
                for s, n, o in zip(sums, counts, old)
            ]
        )

    def from_responsibilities(self, x: Array, resp: Array, rng: np.random.Generator) -> Params:
        """As for Gaussian components, with moderate degrees of freedom."""
        params = super().from_responsibilities(x, resp, rng)
        low, high = self.dof_bounds
        start = float(np.clip(START_DOF, low, high)) if isinstance(self.dof, str) else float(self.dof)
        params["dofs"] = np.full(self.n_components, start)
        return params

    # -- objective -------------------------------------------------------------------------------------------
    def expected_log_prob(self, stats: Stats, params: Params) -> float:
        """Complete-data terms of x given u, and of u."""
        nu = params["dofs"]
        scatter = self._scatter_about(stats, params["means"], stats["mass"])
        _, logdet = self.structure.factors(params, self.n_components)
        of_x = -0.5 * float(stats["counts"] @ logdet + np.sum(self.structure.trace_inverse(params, scatter)))
        normalizer = 0.5 * nu * np.log(0.5 * nu) - gammaln(0.5 * nu)
        return of_x + float(stats["counts"] @ normalizer + 0.5 * nu @ stats["log_u"])

    # -- description -----------------------------------------------------------------------------------------
    def coordinates(self) -> dict[str, Coordinates]:
        """Gaussian coordinates, and log degrees of freedom if they are estimated."""
        of_dofs = {"estimate": {"dofs": POSITIVE}, "shared": {"dofs": EQUAL}}
        return {**super().coordinates(), **of_dofs.get(str(self.dof), {})}

    def covariance(self, params: Params) -> Array:
        """nu / (nu - 2) times the scale matrices.

        Where nu <= 2 variances are infinite, and covariances of different features do not exist: NaN.
        """
        nu = params["dofs"]
        heavy = nu <= 2
        found = (nu / np.where(heavy, 1.0, nu - 2))[:, None, None] * self._all_matrices(params)
        found[heavy] = np.where(np.eye(self.n_features, dtype=bool), np.inf, np.nan)
        return np.asarray(found)

    def sample(self, params: Params, labels: NDArray[np.intp], rng: np.random.Generator) -> Array:
        """Gaussian draws divided by sqrt(u)."""
        draws = super().sample(params, labels, rng)
        u = rng.chisquare(params["dofs"][labels]) / params["dofs"][labels]
        centers = params["means"][labels]
        return np.asarray(centers + (draws - centers) / np.sqrt(u)[:, None])

    def project(self, params: Params) -> Params:
        """Degrees of freedom within their bounds."""
        if not isinstance(self.dof, str):
            return params
        return {**params, "dofs": np.clip(params["dofs"], *self.dof_bounds)}


def _solve_dof(mean_log_u: float, bounds: tuple[float, float]) -> float:
    """Root of log(nu/2) - digamma(nu/2) + 1 + mean(E log u - E u); the left side falls with nu."""

    def score(log_nu: float) -> float:
        half = 0.5 * float(np.exp(log_nu))
        return float(np.log(half) - digamma(half)) + 1.0 + mean_log_u

    low, high = float(np.log(bounds[0])), float(np.log(bounds[1]))
    if score(low) <= 0:
        return bounds[0]
    if score(high) >= 0:
        return bounds[1]
    return float(np.exp(brentq(score, low, high, xtol=1e-12)))
