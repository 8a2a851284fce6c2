"""Gaussian components with structured covariances, priors and exact treatment of missing entries.

M-step of component k with responsibilities r_i, N = sum r, and the normal-inverse-Wishart prior (mean m0,
kappa, dof, scale) plus the penalty tr(Psi Sigma^-1)/2 that stands behind `reg_covar`:

    mu    = (kappa m0 + sum r x) / (kappa + N)
    Sigma = (Psi + scale + S) / (N + dof + D + 1 + [kappa > 0])
    S     = sum r (x - mu)(x - mu)' + kappa (mu - m0)(mu - m0)'

Statistics are taken about the means of the E-step, so their cancellation vanishes as EM converges. With
entries missing, x is replaced by its conditional expectation and the conditional covariance is added to the
scatter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve

from cavity.em.checks import is_number
from cavity.em.components import DEAD, Components, Params, Stats, has_nan
from cavity.em.covariances import CovarianceStructure, cholesky, make_structure
from cavity.em.gaussian_passes import gaussian_passes
from cavity.em.parallel import row_ranges, run_parts
from cavity.em.priors import NormalInverseWishart
from cavity.em.transforms import REAL, Coordinates, lower_indices
from cavity.numerics.arrays import Array
from cavity.numerics.special import LOG_2PI

NEARLY_CONSTANT = 1e-13  # standard deviation over magnitude at which a column holds rounding noise only
MOSTLY_PRIOR = (
    10.0  # a direction whose variance is below this multiple of the penalty's share is held by the penalty
)


@dataclass(eq=False, repr=False)
class Gaussian(Components):
    """Gaussian components.

    Parameters
    ----------
    covariance_type : {"full", "tied", "diag", "spherical", "factor"}
    n_factors : int
        Number of factors for "factor".
    reg_covar : float
        Guard against collapse, relative to the variance of each feature: the log-likelihood is penalized by
        tr(Psi Sigma_k^-1) / 2 with Psi = reg_covar (n / K) diag(var(X)), which adds about reg_covar var(X) to
        the diagonal of the covariance of a component of average size, and more for a smaller one. Unlike a
        constant added after the M-step it is a prior, so EM stays monotone. 0 is plain maximum likelihood.
    prior : NormalInverseWishart or None

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.em import Gaussian, Mixture
    >>> X = np.array([[0.0], [2.0], [4.0]])
    >>> model = Mixture(1, Gaussian("spherical", reg_covar=0.0)).fit(X)
    >>> model.means_[0], model.params_["covariances"].round(4)
    (array([2.]), array([2.6667]))
    """

    letters: ClassVar[dict[str, tuple[str, ...]]] = {
        "m": ("means",),
        "c": ("covariances", "loadings", "noise_variances"),
    }

    covariance_type: str = "full"
    n_factors: int = 1
    reg_covar: float = 1e-06
    prior: NormalInverseWishart | None = None

    # -- settings from the data ------------------------------------------------------------------------------
    def _resolve(self, x: Array, weights: Array) -> None:
        d = x.shape[1]
        if not (is_number(self.reg_covar) and 0 <= self.reg_covar < np.inf):
            raise ValueError(f"reg_covar={self.reg_covar!r} must be a finite number and must not be negative")
        if not (self.prior is None or isinstance(self.prior, NormalInverseWishart)):
            raise ValueError(f"prior={self.prior!r} must be a NormalInverseWishart or None")
        self.structure: CovarianceStructure = make_structure(self.covariance_type, d, self.n_factors)
        total = float(weights.sum())
        center, variance = _column_moments(x, weights)
        constant = np.sqrt(variance) <= NEARLY_CONSTANT * np.abs(center)
        variance = np.where(constant, 0.0, variance)
        self._data_variance = variance
        self._psi = self.reg_covar * total / self.n_components * variance
        self._scale = np.zeros((d, d)) if self.prior is None else self.prior.scale_matrix(d)
        self._strength = 0.0 if self.prior is None else float(self.prior.dof) + d + 1
        self._kappa = 0.0 if self.prior is None else float(self.prior.kappa)
        self._prior_mean = center
        if self.prior is not None and self.prior.mean is not None:
            self._prior_mean = np.asarray(self.prior.mean, dtype=float)
            if self._prior_mean.shape != (d,):
                raise ValueError(f"prior.mean has shape {self._prior_mean.shape}, the data have {d} features")
        if np.any(constant) and self.prior is None:
            j = int(np.flatnonzero(constant)[0])
            raise ValueError(
                f"feature {j} of X is constant (value {center[j]:g}): a Gaussian component has no density "
                "there; remove the feature or give a prior (NormalInverseWishart)"
            )

    def _prior_terms(self) -> tuple[Array, Array]:
        """Psi and the Wishart scale in the shape of the structure's scatter: (D,) or (D, D) each."""
        if self.structure.diagonal:
            return self._psi, np.diagonal(self._scale)
        return np.diag(self._psi), self._scale

    # -- E-step ----------------------------------------------------------------------------------------------
    def log_prob(self, params: Params, x: Array, threads: int = 1) -> Array:
        """Log densities (n, K) of the observed entries."""
        if has_nan(x):
            return self._by_pattern(params, x, _pattern_log_density)
        factors, logdet = self.structure.factors(params, self.n_components)
        return self._distances(params, x, factors, -0.5 * (x.shape[1] * LOG_2PI + logdet), threads)

    def _distances(self, params: Params, x: Array, factors: Array, log_norm: Array, threads: int) -> Array:
        """log_norm - squared Mahalanobis distance / 2, (n, K)."""
        n, d = x.shape
        passes = gaussian_passes(n, self.n_components, d)
        out = np.empty((n, self.n_components))
        full = not self.structure.diagonal

        def part(rows: tuple[int, int]) -> None:
            passes.gaussian_log_density(x, params["means"], factors, log_norm, full, *rows, out)

        run_parts(part, row_ranges(n, threads))
        return out

    def accumulate(self, params: Params, x: Array, resp: Array, threads: int = 1) -> Stats:
        """Counts (K,), first and packed second moments about the current means."""
        if has_nan(x):
            return self._missing_moments(params, x, resp, None)
        return self._moments(params, x, resp, threads)

    def _moments(self, params: Params, x: Array, resp: Array, threads: int) -> Stats:
        n, d = x.shape
        passes = gaussian_passes(n, self.n_components, d)
        full = not self.structure.diagonal

        def part(rows: tuple[int, int]) -> Stats:
            stats = self._zero_stats(params)
            passes.gaussian_moments(
                x, resp, params["means"], full, *rows, stats["counts"], stats["first"], stats["second"]
            )
            return stats

        return _total(run_parts(part, row_ranges(n, threads)))

    def mixture_pass(
        self, params: Params, log_weights: Array, x: Array, weights: Array, threads: int
    ) -> tuple[float, Array, Stats]:
        """E-step and sums of the M-step in one pass over the data."""
        if has_nan(x):
            return super().mixture_pass(params, log_weights, x, weights, threads)
        n, d = x.shape
        passes = gaussian_passes(n, self.n_components, d)
        full = not self.structure.diagonal
        factors, logdet = self.structure.factors(params, self.n_components)
        log_norm = log_weights - 0.5 * (d * LOG_2PI + logdet)

        def part(rows: tuple[int, int]) -> tuple[float, Stats]:
            stats = self._zero_stats(params)
            sums = (stats["counts"], stats["first"], stats["second"])
            loglik = passes.gaussian_mixture_pass(
                x, weights, params["means"], factors, log_norm, full, *rows, *sums
            )
            return float(loglik), stats

        results = run_parts(part, row_ranges(n, threads))
        stats = _total([s for _, s in results])
        return sum(value for value, _ in results), stats["counts"], stats

    def _zero_stats(self, params: Params) -> Stats:
        k, d = params["means"].shape
        size = d if self.structure.diagonal else d * (d + 1) // 2
        return {
            "counts": np.zeros(k),
            "first": np.zeros((k, d)),
            "second": np.zeros((k, size)),
            "at_means": params["means"],
        }

    # -- missing entries -------------------------------------------------------------------------------------
    def _by_pattern(self, params: Params, x: Array, function: Any) -> Array:
        """function(rows, observed mask, mean, covariance) -> (n,) for every pattern and component."""
        matrices = self._all_matrices(params)
        out = np.empty((len(x), self.n_components))
        for rows, seen in missing_patterns(x):
            for k, mean in enumerate(params["means"]):
                out[rows, k] = function(x[rows][:, seen], seen, mean, matrices[k])
        return out

    def _all_matrices(self, params: Params) -> Array:
        d = self.n_features
        return np.broadcast_to(self.structure.matrices(params), (self.n_components, d, d))

    def _missing_moments(self, params: Params, x: Array, resp: Array, scale: Array | None) -> Stats:
        """Moments with conditional expectations for missing entries; `scale` multiplies all but C."""
        stats = self._zero_stats(params)
        matrices = self._all_matrices(params)
        d = x.shape[1]
        second = np.zeros((self.n_components, d, d))
        stats["counts"] += resp.sum(axis=0)
        for rows, seen in missing_patterns(x):
            for k, mean in enumerate(params["means"]):
                r = resp[rows, k]
                filled, conditional = _condition(x[rows][:, seen], seen, mean, matrices[k])
                rs = r if scale is None else r * scale[rows, k]
                stats["first"][k] += rs @ filled
                second[k] += (rs[:, None] * filled).T @ filled + r.sum() * conditional
        if self.structure.diagonal:
            stats["second"] += np.diagonal(second, axis1=1, axis2=2)
        else:
            i, j = lower_indices(d)
            stats["second"] += second[:, i, j]
        return stats

    # -- M-step ----------------------------------------------------------------------------------------------
    def maximize(self, stats: Stats, params: Params, update: frozenset[str] | None = None) -> Params:
        """MAP estimates of means and covariances; a component without data keeps its parameters."""
        new_means = self._new_means(stats, params, update, stats["counts"])
        return self._with_covariances(stats, params, new_means, update)

    def _new_means(self, stats: Stats, params: Params, update: frozenset[str] | None, mass: Array) -> Array:
        """(kappa m0 + sum r x) / (kappa + N), written as a step from the old means."""
        means = params["means"]
        if update is not None and "means" not in update:
            return means
        reference = stats["at_means"]
        pull = stats["first"] + self._kappa * (self._prior_mean - reference)
        denominator = (mass + self._kappa)[:, None]
        live = denominator > DEAD
        return np.asarray(np.where(live, reference + pull / np.where(live, denominator, 1.0), means))

    def _with_covariances(
        self,
        stats: Stats,
        params: Params,
        means: Array,
        update: frozenset[str] | None,
        mass: Array | None = None,
    ) -> Params:
        names = self.structure.coordinates
        if update is not None and not any(name in update for name in names):
            return {**params, "means": means}
        counts = stats["counts"]
        scatter = self._scatter_about(stats, means, counts if mass is None else mass)
        psi, scale = self._prior_terms()
        scatter = scatter + psi
        if self._kappa > 0:
            scatter = scatter + self._kappa * self._outer(means - self._prior_mean)
        denominator = counts + (1.0 if self._kappa > 0 else 0.0)
        if self.structure.pooled:
            scatter[0] += scale
            denominator[0] += self._strength
        else:
            scatter = scatter + scale
            denominator = denominator + self._strength
        old = {name: params[name] for name in names if name in params}
        new = self._estimate_live(scatter, denominator, old)
        return {**params, "means": means, **new}

    def _estimate_live(self, scatter: Array, denominator: Array, old: Params) -> Params:
        """Structure's estimate, where components without data keep what they had."""
        live = denominator > DEAD
        if self.structure.pooled or np.all(live) or not old:
            return self.structure.estimate(scatter, denominator, old or None)
        new = self.structure.estimate(
            scatter[live], denominator[live], {name: value[live] for name, value in old.items()}
        )
        merged = {name: value.copy() for name, value in old.items()}
        for name, value in new.items():
            merged[name][live] = value
        return merged

    def _outer(self, v: Array) -> Array:
        return np.asarray(v**2 if self.structure.diagonal else v[:, :, None] * v[:, None, :])

    def _scatter_about(self, stats: Stats, means: Array, mass: Array) -> Array:
        """Scatter about `means` from moments about the reference, (K, D, D) or (K, D)."""
        step = means - stats["at_means"]
        first, second = stats["first"], stats["second"]
        if self.structure.diagonal:
            return np.asarray(second - 2.0 * step * first + mass[:, None] * step**2)
        d = means.shape[1]
        i, j = lower_indices(d)
        full = np.empty((len(means), d, d))
        full[:, i, j] = second
        full[:, j, i] = second
        cross = step[:, :, None] * first[:, None, :]
        moved = (
            full
            - cross
            - np.swapaxes(cross, 1, 2)
            + mass[:, None, None] * step[:, :, None] * step[:, None, :]
        )
        return np.asarray(moved)

    def from_responsibilities(self, x: Array, resp: Array, rng: np.random.Generator) -> Params:
        """Weighted means and scatter, missing entries filled with the weighted mean."""
        seen = ~np.isnan(x)
        mass = resp.T @ seen
        center, _ = _column_moments(x, resp.sum(axis=1))
        sums = resp.T @ np.where(seen, x, 0.0)
        means = np.where(mass > DEAD, sums / np.where(mass > DEAD, mass, 1.0), center)
        filled = np.where(seen, x, center)
        params = {"means": means}
        return self._with_covariances(self._moments(params, filled, resp, 1), params, means, None)

    # -- objective -------------------------------------------------------------------------------------------
    def expected_log_prob(self, stats: Stats, params: Params) -> float:
        """-sum_k (N_k log|Sigma_k| + tr(Sigma_k^-1 scatter about mu_k)) / 2."""
        scatter = self._scatter_about(stats, params["means"], stats["counts"])
        _, logdet = self.structure.factors(params, self.n_components)
        return -0.5 * float(stats["counts"] @ logdet + np.sum(self.structure.trace_inverse(params, scatter)))

    def log_prior(self, params: Params) -> float:
        """Penalty of `reg_covar` and normal-inverse-Wishart prior, up to a constant."""
        if self.prior is None and self.reg_covar == 0:
            return 0.0
        k = self.n_components
        psi, scale = self._prior_terms()
        _, logdet = self.structure.factors(params, k)
        m = np.repeat(psi[None], k, axis=0)
        log_weight = np.zeros(k)
        if self._kappa > 0:
            m = m + self._kappa * self._outer(params["means"] - self._prior_mean)
            log_weight += 1.0
        if self.structure.pooled:
            m[0] += scale
            log_weight[0] += self._strength
        else:
            m = m + scale
            log_weight += self._strength
        return -0.5 * float(log_weight @ logdet + np.sum(self.structure.trace_inverse(params, m)))

    # -- description -----------------------------------------------------------------------------------------
    def coordinates(self) -> dict[str, Coordinates]:
        """Means as they are, and the structure's coordinates."""
        return {"means": REAL, **self.structure.coordinates}

    def n_parameters(self, params: Params) -> int:
        """Means and covariances; loadings count up to rotation."""
        return super().n_parameters(params) - self.n_components * self.structure.redundant(self.n_features)

    def mean(self, params: Params) -> Array:
        """Means."""
        return params["means"]

    def covariance(self, params: Params) -> Array:
        """Covariances as full matrices."""
        return np.array(self._all_matrices(params))

    def sample(self, params: Params, labels: NDArray[np.intp], rng: np.random.Generator) -> Array:
        """mean + L z."""
        lower = cholesky(self._all_matrices(params))
        z = rng.standard_normal((len(labels), self.n_features))
        return np.asarray(params["means"][labels] + np.einsum("nij,nj->ni", lower[labels], z))

    def permute(self, params: Params, order: NDArray[np.intp]) -> Params:
        """Parameters with components in the given order; a tied covariance has no component axis."""
        kept = self.structure.coordinates if self.structure.pooled else ()
        return {name: (v if name in kept else v[order]) for name, v in params.items()}

    def degenerate(self, params: Params, counts: Array) -> list[int]:
        """Components with fewer data than dimensions, or a direction that only the penalty keeps open."""
        sd = np.sqrt(np.where(self._data_variance > 0, self._data_variance, 1.0))
        relative = self._all_matrices(params) / (sd[:, None] * sd)
        lowest = np.linalg.eigvalsh(relative)[:, 0]
        pooled_count = counts.sum() if self.structure.pooled else counts
        share = self._psi / np.where(self._data_variance > 0, self._data_variance, 1.0)
        if self.structure.pooled:
            share = share * self.n_components
        floor = float(np.max(share, initial=0.0)) / np.maximum(pooled_count, DEAD)
        held = lowest < MOSTLY_PRIOR * floor
        few = np.zeros(len(counts), dtype=bool)
        if not self.structure.pooled and self.prior is None:
            few = counts < (self.n_features + 1 if self.covariance_type == "full" else 2) - 1e-6
        return [int(k) for k in np.flatnonzero(held | few)]


def _total(parts: list[Stats]) -> Stats:
    """Sum statistics of row ranges in their order: the result depends on the number of ranges only."""
    total = parts[0]
    for more in parts[1:]:
        for name, value in more.items():
            if not name.startswith("at_"):
                total[name] = total[name] + value
    return total


def _column_moments(x: Array, weights: Array) -> tuple[Array, Array]:
    """Weighted mean and variance of every column, over observed entries."""
    seen = ~np.isnan(x)
    mass = weights @ seen
    mass = np.where(mass > 0, mass, 1.0)
    center = (weights @ np.where(seen, x, 0.0)) / mass
    return center, (weights @ np.where(seen, x - center, 0.0) ** 2) / mass


def missing_patterns(x: Array) -> list[tuple[NDArray[np.intp], NDArray[np.bool_]]]:
    """Row indices and mask of observed columns for every pattern of missing entries."""
    seen = ~np.isnan(x)
    patterns, which = np.unique(seen, axis=0, return_inverse=True)
    which = which.ravel()
    order = np.argsort(which, kind="stable")
    ends = np.cumsum(np.bincount(which, minlength=len(patterns)))
    return [(rows, p) for rows, p in zip(np.split(order, ends[:-1]), patterns)]


def _pattern_log_density(values: Array, seen: NDArray[np.bool_], mean: Array, cov: Array) -> Array:
    """Log density of the observed entries; 0 where nothing is observed."""
    distance, logdet = pattern_distance(values, seen, mean, cov)
    return -0.5 * (np.count_nonzero(seen) * LOG_2PI + logdet + distance)


def pattern_distance(values: Array, seen: NDArray[np.bool_], mean: Array, cov: Array) -> tuple[Array, float]:
    """Squared Mahalanobis distance of the observed entries and log determinant of their covariance."""
    if not seen.any():
        return np.zeros(len(values)), 0.0
    lower = cholesky(cov[np.ix_(seen, seen)][None])[0]
    z = np.linalg.solve(lower, (values - mean[seen]).T)
    return np.asarray(np.einsum("ij,ij->j", z, z)), float(2.0 * np.sum(np.log(np.diagonal(lower))))


def _condition(values: Array, seen: NDArray[np.bool_], mean: Array, cov: Array) -> tuple[Array, Array]:
    """E[x | observed] - mean for rows (n, D), and the conditional covariance padded with zeros (D, D)."""
    hidden = ~seen
    filled = np.zeros((len(values), len(mean)))
    conditional = np.zeros_like(cov)
    if not seen.any():
        conditional[:] = cov
        return filled, conditional
    deviation = values - mean[seen]
    filled[:, seen] = deviation
    if hidden.any():
        lower = cholesky(cov[np.ix_(seen, seen)][None])[0]
        cross = cov[np.ix_(seen, hidden)]
        gain = cho_solve((lower, True), cross)
        filled[:, hidden] = deviation @ gain
        conditional[np.ix_(hidden, hidden)] = cov[np.ix_(hidden, hidden)] - cross.T @ gain
    return filled, conditional
