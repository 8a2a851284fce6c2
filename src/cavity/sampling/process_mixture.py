"""f under all draws of a Markov chain: a mixture of Gaussian processes with equal weights.

Every draw is a set of hyperparameters with a Gaussian process (`process_given_draw`), so that (Kuss 2006, eq. 5.18)

    mean = average of means,    variance = average of variances + variance of means.

The mixture uses at most `max_draws` draws, spread evenly over all chains.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cavity.kernels.base import new_inputs
from cavity.numerics.arrays import Array
from cavity.sampling.draws import Draws
from cavity.sampling.process_given_draw import ProcessGivenDraw, processes_given


class ProcessMixture:
    """A mixture of the processes given each of some draws.

    Parameters
    ----------
    draws : Draws
    max_draws : int
        Draws used, at most.
    """

    def __init__(self, draws: Draws, max_draws: int) -> None:
        self.draws, self.chosen = draws, draws.evenly_spread(max_draws)

    @property
    def X(self) -> Array:
        """Training inputs, shape (n, D)."""
        return self.draws.X

    @property
    def basis(self) -> None:
        """None: basis functions are part of the kernel here."""
        return None

    @cached_property
    def components(self) -> list[ProcessGivenDraw]:
        """The processes given the draws, computed when first needed."""
        return processes_given(self.draws, self.chosen)

    @property
    def count(self) -> int:
        """S, the number of draws used."""
        return sum(c.count for c in self.components)

    def inputs(self, X: ArrayLike) -> Array:
        """New inputs as an array (m, D), checked against the training inputs."""
        return new_inputs(self.draws.model.inputs(X), self.X.shape[1])

    # --- moments --------------------------------------------------------------------------------------------

    def mean(self, X: ArrayLike) -> Array:
        """Posterior mean of f, shape (m,) or (m, L)."""
        X = self.inputs(X)
        return np.asarray(sum(c.means(X).sum(axis=0) for c in self.components) / self.count)

    def variance(self, X: ArrayLike) -> Array:
        """Posterior variance of f, shape (m,) or (m, L): within draws plus between them."""
        return self.moments(X)[1]

    def moments(self, X: ArrayLike) -> tuple[Array, Array]:
        """Mean and variance in one pass; sums of squares are taken around the first draw's mean."""
        X = self.inputs(X)
        origin = self.components[0].means(X)[0]
        first, second, within = np.zeros_like(origin), np.zeros_like(origin), np.zeros_like(origin)
        for c in self.components:
            gap = c.means(X) - origin
            first, second = first + gap.sum(axis=0), second + (gap**2).sum(axis=0)
            within = within + c.count * c.variances(X)
        S = self.count
        between = np.maximum(second / S - (first / S) ** 2, 0.0)  # never negative but for rounding
        return origin + first / S, np.asarray(within / S + between)

    def moments_of_draws(self, X: ArrayLike) -> tuple[Array, Array]:
        """Means and variances of f given every draw, each (S, m) or (S, m, L)."""
        X = self.inputs(X)
        pairs = [(c.means(X), c.variances(X)) for c in self.components]
        return (
            np.concatenate([m for m, _ in pairs]),
            np.concatenate([np.broadcast_to(v, m.shape) for m, v in pairs]),
        )

    def covariance(self, X: ArrayLike) -> Array:
        """Posterior covariance of f among the rows of X, shape (m, m)."""
        X = self.inputs(X)
        self._one_latent("the joint covariance")
        mean = self.mean(X)
        total = np.zeros((len(X), len(X)))
        for c in self.components:
            gap = c.means(X) - mean
            total += c.count * c.processes[0].covariance(X) + gap.T @ gap
        return total / self.count

    def mean_gradient(self, X: ArrayLike) -> Array:
        """d mean / dx, shape (m, D)."""
        X = self.inputs(X)
        self._one_latent("the derivative of the mean")
        return np.asarray(sum(c.mean_gradients(X).sum(axis=-1) for c in self.components) / self.count)

    def variance_gradient(self, X: ArrayLike) -> Array:
        """d variance / dx, shape (m, D)."""
        X = self.inputs(X)
        self._one_latent("the derivative of the variance")
        mean = self.mean(X)
        total = np.zeros(X.shape)
        for c in self.components:  # the mean's own derivative drops out: deviations from it add up to zero
            gap = c.means(X) - mean
            total += c.count * c.processes[0].variance_gradient(X)
            total += 2.0 * np.einsum("gm,mdg->md", gap, c.mean_gradients(X))
        return total / self.count

    def _one_latent(self, what: str) -> None:
        if self.draws.model.likelihood.n_latent > 1:
            raise ValueError(f"{what} is available for one latent function only")

    # --- draws of functions ---------------------------------------------------------------------------------

    def sample(self, X: ArrayLike, size: int = 1, rng: np.random.Generator | int | None = None) -> Array:
        """Joint draws of f, shape (size, m) or (size, m, L): a draw of the chains, then of its process."""
        return self.sample_with_likelihoods(X, size, rng)[0]

    def sample_with_likelihoods(
        self, X: ArrayLike, size: int, rng: np.random.Generator | int | None
    ) -> tuple[Array, list[Any]]:
        """Joint draws of f, and the likelihood that belongs to each."""
        X = self.inputs(X)
        rng = np.random.default_rng(rng)
        members = [(c, k) for c in self.components for k in range(c.count)]
        chosen = rng.choice(len(members), size, replace=size > len(members))
        out, likelihoods = [], []
        for j in chosen:
            component, k = members[j]
            columns = [p.sample(X, 1, rng)[0] for p in component.pick(k)]
            out.append(columns[0] if len(columns) == 1 else np.stack(columns, axis=-1))
            likelihoods.append(component.model.likelihood)
        return np.array(out), likelihoods
