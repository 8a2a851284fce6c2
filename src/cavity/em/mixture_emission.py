"""A mixture within each state of a hidden Markov model, or within each component of a mixture."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cavity.em.checks import is_number
from cavity.em.components import Components, Params, Stats, mixed, responsibilities
from cavity.em.gaussian import Gaussian
from cavity.em.initialization import cluster
from cavity.em.transforms import SIMPLEX, Coordinates, simplex_size
from cavity.numerics.arrays import Array


@dataclass(eq=False, repr=False)
class MixtureEmission(Components):
    """A mixture of M densities for every state: `weights` (K, M) and the inner family's K M components.

    Parameters
    ----------
    n_mix : int
        Densities per state.
    components : Components
        Family of the densities; a tied covariance is shared by all densities of all states.
    concentration : float
        Dirichlet prior of the weights within each state; 1 is none.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.em import HMM, MixtureEmission, Poisson
    >>> X = np.random.default_rng(0).poisson(np.repeat([[1.0], [20.0]], 50, axis=0))
    >>> HMM(2, MixtureEmission(2, Poisson()), random_state=0, max_iter=20, tol=-1.0).fit(X).weights_.shape
    (2, 2)
    """

    n_mix: int = 2
    components: Components | None = None
    concentration: float = 1.0

    def letter_names(self) -> dict[str, tuple[str, ...]]:
        """`w` for the weights, and the inner family's letters."""
        inner = self.components if self.components is not None else Gaussian()
        return {"w": ("weights",), **inner.letter_names()}

    def check_data(self, x: Array) -> None:
        """As for the inner family."""
        if self.components is not None:
            self.components.check_data(x)

    def _resolve(self, x: Array, weights: Array) -> None:
        if not (isinstance(self.n_mix, (int, np.integer)) and self.n_mix >= 1):
            raise ValueError(f"n_mix={self.n_mix!r} must be a whole number, at least 1")
        if not (is_number(self.concentration) and self.concentration >= 1):
            raise ValueError(f"concentration={self.concentration!r} must be at least 1 (1 is no prior)")
        family = self.components if self.components is not None else Gaussian()
        self._inner = family.bind(x, weights, self.n_components * self.n_mix)

    def _split(self, params: Params) -> tuple[Array, Params]:
        return params["weights"], {name: v for name, v in params.items() if name != "weights"}

    def _joint(self, params: Params, x: Array, threads: int) -> Array:
        """log c_kl + log p_kl(x), (n, K, M)."""
        weights, inner = self._split(params)
        logs = self._inner.log_prob(inner, x, threads).reshape(len(x), *weights.shape)
        with np.errstate(divide="ignore"):
            return np.asarray(logs + np.log(weights))

    def log_prob(self, params: Params, x: Array, threads: int = 1) -> Array:
        """Log densities (n, K)."""
        joint = self._joint(params, x, threads)
        n, k, m = joint.shape
        return responsibilities(joint.reshape(n * k, m))[0].reshape(n, k)

    def accumulate(self, params: Params, x: Array, resp: Array, threads: int = 1) -> Stats:
        """gamma_kl = gamma_k c_kl p_kl / p_k, its sums (K, M) and the inner statistics."""
        joint = self._joint(params, x, threads)
        n, k, m = joint.shape
        share = responsibilities(joint.reshape(n * k, m))[1].reshape(n, k, m) * resp[:, :, None]
        _, inner = self._split(params)
        stats = self._inner.accumulate(inner, x, np.ascontiguousarray(share.reshape(n, k * m)), threads)
        return {**stats, "mix_counts": share.sum(axis=0)}

    def maximize(self, stats: Stats, params: Params, update: frozenset[str] | None = None) -> Params:
        """Weights by expected counts, the rest by the inner family."""
        weights, inner = self._split(params)
        if update is None or "weights" in update:
            counts = np.where(weights > 0, stats["mix_counts"] + self.concentration - 1.0, 0.0)
            total = counts.sum(axis=1, keepdims=True)
            weights = np.where(total > 0, counts / np.where(total > 0, total, 1.0), weights)
        return {"weights": weights, **self._inner.maximize(stats, inner, update)}

    def expected_log_prob(self, stats: Stats, params: Params) -> float:
        """Weights' and inner family's parts of Q."""
        weights, inner = self._split(params)
        live = weights > 0
        of_weights = float(np.sum(stats["mix_counts"][live] * np.log(weights[live])))
        return of_weights + self._inner.expected_log_prob(stats, inner)

    def log_prior(self, params: Params) -> float:
        """Dirichlet and inner prior."""
        weights, inner = self._split(params)
        own = (self.concentration - 1.0) * float(np.sum(np.log(weights[weights > 0])))
        return own + self._inner.log_prior(inner)

    def from_responsibilities(self, x: Array, resp: Array, rng: np.random.Generator) -> Params:
        """Cluster every state's share of the data."""
        n, k = resp.shape
        m = self.n_mix
        fine = np.zeros((n, k, m))
        owner = np.argmax(resp, axis=1)
        for state in range(k):
            rows = np.flatnonzero(owner == state)
            if len(rows) >= m:
                labels = cluster(x[rows], np.maximum(resp[rows, state], 0.0), m, rng)
                fine[rows, state, labels] = 1.0
        fine = resp[:, :, None] * (0.98 * fine + 0.02 / m)
        inner = self._inner.from_responsibilities(x, fine.reshape(n, k * m), rng)
        return {"weights": np.full((k, m), 1.0 / m), **inner}

    def coordinates(self) -> dict[str, Coordinates]:
        """Log ratios of the weights and inner coordinates."""
        return {"weights": SIMPLEX, **self._inner.coordinates()}

    def n_parameters(self, params: Params) -> int:
        """Weights and inner parameters."""
        weights, inner = self._split(params)
        return simplex_size(weights) + self._inner.n_parameters(inner)

    def mean(self, params: Params) -> Array:
        """Mean of each state's mixture."""
        weights, inner = self._split(params)
        means = self._inner.mean(inner).reshape(*weights.shape, -1)
        return np.asarray(np.einsum("km,kmd->kd", weights, means))

    def covariance(self, params: Params) -> Array:
        """Covariance of each state's mixture: within plus between."""
        weights, inner = self._split(params)
        means = self._inner.mean(inner).reshape(*weights.shape, -1)
        d = means.shape[2]
        within = self._inner.covariance(inner).reshape(*weights.shape, d, d)
        dev = means - self.mean(params)[:, None, :]
        between = dev[:, :, :, None] * dev[:, :, None, :]
        pairs = zip(weights, within + between)
        return np.concatenate([mixed(w[None], of_densities) for w, of_densities in pairs])

    def sample(self, params: Params, labels: NDArray[np.intp], rng: np.random.Generator) -> Array:
        """Draw the density, then from it."""
        weights, inner = self._split(params)
        cdf = np.cumsum(weights, axis=1)[labels]
        which = np.sum(rng.random(len(labels))[:, None] * cdf[:, -1:] >= cdf, axis=1)
        return self._inner.sample(inner, labels * self.n_mix + which, rng)

    def permute(self, params: Params, order: NDArray[np.intp]) -> Params:
        """States in the given order."""
        weights, inner = self._split(params)
        blocks = (order[:, None] * self.n_mix + np.arange(self.n_mix)).ravel()
        return {"weights": weights[order], **self._inner.permute(inner, blocks)}

    def degenerate(self, params: Params, counts: Array) -> list[int]:
        """States with a degenerate density."""
        weights, inner = self._split(params)
        found = self._inner.degenerate(inner, (counts[:, None] * weights).ravel())
        return sorted({k // self.n_mix for k in found})

    def project(self, params: Params) -> Params:
        """Inner parameters within their bounds."""
        weights, inner = self._split(params)
        return {"weights": weights, **self._inner.project(inner)}
