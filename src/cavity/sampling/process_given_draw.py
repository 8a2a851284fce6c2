"""The Gaussian process given one draw of a Markov chain, for predictions.

Given hyperparameters and either noise variances v or latent values f = m + L u, K = L L', the posterior of the function
is Gaussian: a `PosteriorProcess` with R = (K + diag v)^-1 and weights R (y - m), or with R = K^-1 and weights L^-T u.
Draws of latent values at the same hyperparameters share R: they are one process with several columns of weights.
Weights are kept for all draws, n x n factors up to `FACTOR_BYTES` in total; the others are computed again when
variances are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from cavity.latent.dense import DensePrior, ObservedCorrection
from cavity.latent.process import PosteriorProcess
from cavity.latent.several import BlockPrior
from cavity.numerics.arrays import Array

FACTOR_BYTES = 256_000_000
"""Memory for the factors of all draws together."""


class LazyCorrection:
    """R = (K + diag(variance))^-1, with a factor that is computed when it is needed and may be dropped."""

    def __init__(self, prior: DensePrior, variance: Array, keep: bool) -> None:
        self._kernel, self._X, self._variance, self._keep = prior.kernel, prior.X, variance, keep
        found = prior.observe(variance)
        self.jitter = found.jitter
        self._found: ObservedCorrection | None = found

    def get(self) -> ObservedCorrection:
        """The correction itself."""
        found = self._found
        if found is None:
            found = DensePrior(self._kernel, self._X).observe(self._variance)
            if self._keep:
                self._found = found
        return found

    def release(self) -> None:
        """Drop the factor unless it is to be kept."""
        if not self._keep:
            self._found = None

    def __getstate__(self) -> dict[str, Any]:
        """Without the n x n factor."""
        return {**self.__dict__, "_found": None}

    def apply(self, U: Array) -> Array:
        """R U."""
        return self.get().apply(U)

    def reductions(self, cross: Array) -> tuple[Array, Array | None]:
        """(M, None) with cross' R cross = M'M."""
        return self.get().reductions(cross)

    def lower_matrix(self) -> Array:
        """R in the lower triangle of an array of its own."""
        return self.get().lower_matrix()


@dataclass(frozen=True)
class ProcessGivenDraw:
    """The process given one draw of the hyperparameters, and g draws of what else was sampled.

    Attributes
    ----------
    model : GP
        At the hyperparameters of the draw.
    processes : tuple of PosteriorProcess
        One for each latent function, weights (n,) or (n, g).
    count : int
        g.
    """

    model: Any
    processes: tuple[PosteriorProcess, ...]
    count: int = 1

    def means(self, X: Array) -> Array:
        """Mean of f for each of the g draws, shape (g, m) or (g, m, L)."""
        columns = [np.asarray(p.mean(X)).reshape(len(X), self.count).T for p in self.processes]
        return columns[0] if len(columns) == 1 else np.stack(columns, axis=-1)

    def variances(self, X: Array) -> Array:
        """Variance of f, the same for the g draws, shape (m,) or (m, L)."""
        columns = [p.variance(X) for p in self.processes]
        return columns[0] if len(columns) == 1 else np.stack(columns, axis=-1)

    def pick(self, k: int) -> tuple[PosteriorProcess, ...]:
        """The processes of one of the g draws."""
        if self.count == 1 and self.processes[0].weights.ndim == 1:
            return self.processes
        return tuple(p._one_target(k) for p in self.processes)


def given_noise(model: Any, X: Array, y: Array, variance: Array, keep: bool) -> ProcessGivenDraw:
    """The process given hyperparameters and noise variances (n,)."""
    prior = model.prior(X)
    correction = LazyCorrection(prior, variance, keep)
    weights = correction.apply(y - prior.mean)
    correction.release()
    process = PosteriorProcess(prior.kernel, prior.rows, prior.X, prior.mean_function, weights, correction)
    return ProcessGivenDraw(model, (process,))


def given_latent(model: Any, X: Array, white: Array, keep: bool, nugget: float = 0.0) -> ProcessGivenDraw:
    """The process given hyperparameters and g draws of white latent values, (g, n) or (g, n, L).

    `nugget` was added to the diagonal of K, relative to its mean, when the draws were made.
    """
    prior = model.prior(X)
    several = isinstance(prior, BlockPrior)
    functions = list(prior.functions) if several else [prior]
    blocks = white if several else white[:, :, None]
    means = (
        list(prior.mean_function) if several and prior.mean_function is not None else [None] * len(functions)
    )
    if not several:
        means = [prior.mean_function]
    shared: dict[int, LazyCorrection] = {}
    processes = []
    for c, function in enumerate(functions):
        if id(function) not in shared:
            shared[id(function)] = LazyCorrection(function, nugget_of(function, nugget), keep)
        correction = shared[id(function)]
        weights = correction.get().factor.half_solve_transposed(np.ascontiguousarray(blocks[:, :, c].T))
        processes.append(
            PosteriorProcess(function.kernel, function.rows, function.X, means[c], weights, correction)
        )
    for correction in shared.values():
        correction.release()
    return ProcessGivenDraw(model, tuple(processes), len(white))


def nugget_of(prior: DensePrior, relative: float) -> Array:
    """What a relative nugget adds to the diagonal, shape (n,)."""
    return np.full(prior.n, relative * float(np.mean(prior.diagonal)))


def kept(n: int, latents: int = 1) -> Iterator[bool]:
    """For each draw in turn, whether its factor may be kept."""
    left = FACTOR_BYTES
    while True:
        left -= 8 * n * n * latents
        yield left >= 0
