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
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from cavity.latent.base import Conditioning, LatentPrior, PriorGradient
from cavity.numerics.arrays import Array
from cavity.sampling.draws import Draws

FACTOR_BYTES = 256_000_000
"""Memory for the factors of all draws together."""


class LazyConditioning(Conditioning):
    """A conditioning on noisy values of f, computed when it is needed; its factor may be dropped."""

    def __init__(self, prior: LatentPrior, variance: Array, keep: bool) -> None:
        self.prior = prior.at(prior.kernel, prior.mean_function)
        self._variance, self._keep = variance, keep
        self._found: Conditioning | None = None

    def get(self) -> Conditioning:
        """The conditioning itself."""
        if self._found is None:
            self._found = self.prior.observe(self._variance)
            self.jitter = self._found.jitter
        return self._found

    def release(self) -> None:
        """Drop the factor unless it is to be kept, and the covariance matrix in any case."""
        if not self._keep:
            self._found = None
        self.prior.inputs.release()

    def __getstate__(self) -> dict[str, Any]:
        """Without the factor."""
        return {**self.__dict__, "_found": None}

    def _used(self, answer: Any) -> Any:
        self.release()
        return answer

    @property
    def var(self) -> Array:
        """Marginal variances."""
        return cast(Array, self._used(self.get().var))

    @property
    def unexplained(self) -> Array:
        """The diagonal of R."""
        return cast(Array, self._used(self.get().unexplained))

    def apply(self, U: Array) -> Array:
        """R U."""
        return cast(Array, self._used(self.get().apply(U)))

    def project(self, b: Array) -> tuple[Array, Array]:
        """((I - R K) b, Sigma b)."""
        return cast("tuple[Array, Array]", self._used(self.get().project(b)))

    def reduce(self, U: Array) -> tuple[Array, Array | None]:
        """(M, P) with U' R U = M'M - P'P."""
        return cast("tuple[Array, Array | None]", self._used(self.get().reduce(U)))

    def matrix(self) -> Array:
        """R."""
        return cast(Array, self._used(self.get().matrix()))

    def pull_prior(self, *arguments: Any, **options: Any) -> PriorGradient:
        """As of the conditioning itself."""
        return cast(PriorGradient, self._used(self.get().pull_prior(*arguments, **options)))

    def for_process(self) -> Conditioning:
        """Itself, or what its conditioning knows of other inputs."""
        found = self.get()
        known = found.for_process()
        return cast(Conditioning, self._used(self if known is found else known))


@dataclass(frozen=True)
class ProcessGivenDraw:
    """The process given one draw of the hyperparameters, and g draws of what else was sampled.

    Attributes
    ----------
    model : GP
        At the hyperparameters of the draw.
    processes : tuple of Process
        One for each latent function, weights (n,) or (n, g).
    count : int
        g.
    """

    model: Any
    processes: tuple[Any, ...]
    count: int = 1

    def means(self, X: Array) -> Array:
        """Mean of f for each of the g draws, shape (g, m) or (g, m, L)."""
        columns = [np.asarray(p.mean(X)).reshape(len(X), self.count).T for p in self.processes]
        return columns[0] if len(columns) == 1 else np.stack(columns, axis=-1)

    def variances(self, X: Array) -> Array:
        """Variance of f, the same for the g draws, shape (m,) or (m, L)."""
        columns = [p.variance(X) for p in self.processes]
        return columns[0] if len(columns) == 1 else np.stack(columns, axis=-1)

    def mean_gradients(self, X: Array) -> Array:
        """d mean / dx of the first latent function for each of the g draws, shape (m, D, g)."""
        return np.asarray(self.processes[0].mean_gradient(X)).reshape(*X.shape, self.count)

    def pick(self, k: int) -> tuple[Any, ...]:
        """The processes of one of the g draws."""
        if self.count == 1 and self.processes[0].weights.ndim == 1:
            return self.processes
        return tuple(p._one_target(k) for p in self.processes)


def given_noise(model: Any, X: Array, y: Array, variance: Array, keep: bool) -> ProcessGivenDraw:
    """The process given hyperparameters and noise variances (n,)."""
    prior = model.prior(X)
    conditioning = LazyConditioning(prior, variance, keep)
    weights = conditioning.apply(y - prior.mean)
    return ProcessGivenDraw(model, (prior.process(weights, conditioning),))


def given_latent(model: Any, X: Array, white: Array, keep: bool, nugget: float = 0.0) -> ProcessGivenDraw:
    """The process given hyperparameters and g draws of white latent values, (g, n) or (g, n, L).

    `nugget` was added to the diagonal of K, relative to its mean, when the draws were made.
    """
    prior = model.prior(X)
    blocks = white if prior.n_latent > 1 else white[:, :, None]
    means = prior.mean_function if prior.n_latent > 1 else [prior.mean_function]
    shared: dict[int, LazyConditioning] = {}
    processes = []
    for c, function in enumerate(prior.functions):
        if id(function) not in shared:
            shared[id(function)] = LazyConditioning(function, nugget_of(function, nugget), keep)
        conditioning = shared[id(function)]
        weights = conditioning.get().half_solve_transposed(np.ascontiguousarray(blocks[:, :, c].T))
        with_mean = function.at(function.kernel, None if means is None else list(means)[c])
        processes.append(with_mean.process(weights, conditioning))
    for conditioning in shared.values():
        conditioning.release()
    return ProcessGivenDraw(model, tuple(processes), len(white))


def nugget_of(prior: LatentPrior, relative: float) -> Array:
    """What a relative nugget adds to the diagonal, shape (n,)."""
    return np.full(prior.n, relative * float(np.mean(prior.diagonal)))


def _factors_to_keep(n: int, latents: int = 1) -> Iterator[bool]:
    """For each draw in turn, whether its factor may be kept."""
    left = FACTOR_BYTES
    while True:
        left -= 8 * n * n * latents
        yield left >= 0


def processes_given(draws: Draws, chosen: NDArray[np.intp]) -> list[ProcessGivenDraw]:
    """The processes given the pooled draws of these indices; one for all of them if they differ in weights only."""
    X, n = draws.X, len(draws.X)
    theta, keep = draws.trace.pooled[chosen], _factors_to_keep(n, draws.model.likelihood.n_latent)
    if draws.latent is not None and draws.trace.dim == 0 and draws.model.likelihood.n_latent == 1:
        values = draws.latent.reshape(-1, n)[chosen]
        known = draws.model.prior(X).given_values(np.ascontiguousarray(values.T))
        if known is not None:
            return [ProcessGivenDraw(draws.model, (known,), len(values))]
    if draws.white is not None:
        white = draws.white.reshape(-1, *draws.white.shape[2:])[chosen]
        if draws.trace.dim == 0:
            return [given_latent(draws.model, X, white, next(keep), draws.nugget)]
        models = [draws.model_at(t) for t in theta]
        return [given_latent(m, X, u[None], next(keep), draws.nugget) for m, u in zip(models, white)]
    if draws.noise is not None:
        noise = draws.noise.reshape(-1, n)[chosen]
        models = [draws.model_at(t) for t in theta]
        return [given_noise(m, X, draws.y, v, next(keep)) for m, v in zip(models, noise)]
    models = [draws.model_at(t) for t in (theta if draws.trace.dim else theta[:1])]
    return [given_noise(m, X, draws.y, draws.likelihood_noise(m), next(keep)) for m in models]
