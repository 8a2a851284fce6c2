"""Inputs that are known with an error, sampled: the standard for `GPRegressor.fit(X, y, input_sd=...)`.

The true inputs are x + s z with z ~ N(0, 1), one for each entry. Given z and noise variances w of the rows f is
Gaussian and integrated out, so that Hamiltonian trajectories move z alone on

    log p(z | y, w) = -1/2 |z|^2 + log N(y | m, K(x + s z) + diag(w)) + constant.

Under Student-t and Laplace noise each row has a noise variance of its own: between trajectories f is drawn, and the
variances given its residuals. Hyperparameters are those of the model given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from cavity.gp import GP
from cavity.kernels import SE, Blurred, Kernel
from cavity.kernels.algebra import On, Scaled, Sum
from cavity.likelihoods import GaussianNoise, ScaleMixture
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import Cholesky, factorize
from cavity.numerics.special import LOG_2PI
from cavity.prediction import GaussianPrediction, MixturePrediction
from cavity.runtime.checks import require_deviations
from cavity.runtime.errors import InputError
from cavity.sampling.diagnostics import ess_bulk, rhat
from cavity.sampling.hmc import hamiltonian
from cavity.sampling.targets import DifferentiableTarget, chain_by_chain

MIXED = 400
"""Draws that predictions average over."""


@dataclass(frozen=True)
class LatentInputs:
    """Draws of the true inputs given the data.

    Attributes
    ----------
    inputs : array (S, n, D)
    variances : array (S, n)
        Noise variances of the rows, of which robust noise draws one for each.
    rhat, ess : float
        The worst over all inputs.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP
    >>> from cavity.assessment import LatentInputs
    >>> from cavity.kernels import SE
    >>> x = np.zeros((2, 1))
    >>> draws = LatentInputs(GP(1.0 * SE(1.0)), np.array([1.0, 1.0]), x[None], np.ones((1, 2)), rhat=1.0, ess=1.0)
    >>> draws.predict_f([[0.0]]).mean.round(3)
    array([0.667])
    """

    model: GP
    y: Array
    inputs: Array
    variances: Array
    rhat: float
    ess: float

    def predict_f(self, X: ArrayLike) -> MixturePrediction:
        """Distribution of f at known inputs, averaged over the draws."""
        new = self.model.inputs(X)
        parts = [self._given(x, w, new) for x, w in zip(self.inputs, self.variances)]
        return MixturePrediction(
            np.full(len(parts), -np.log(len(parts))),
            np.stack([part.mean for part in parts]),
            np.stack([part.variance for part in parts]),
        )

    def _given(self, x: Array, w: Array, new: Array) -> GaussianPrediction:
        m, kernel = self.model.mean, self.model.kernel
        factor = _factor(kernel(x), w)
        half = factor.half_solve(kernel(x, new))
        seen = factor.half_solve(self.y - m(x))
        variance = kernel.diag(new) - np.sum(half**2, axis=0)
        return GaussianPrediction(m(new) + half.T @ seen, np.maximum(variance, 0.0))


def latent_inputs(
    model: GP,
    X: ArrayLike,
    y: ArrayLike,
    input_sd: ArrayLike,
    *,
    n_draws: int = 500,
    warmup: int = 300,
    chains: int = 4,
    rng: int | np.random.Generator | None = None,
) -> LatentInputs:
    """Sample the true inputs of rows whose inputs are known with an error.

    Parameters
    ----------
    model : GP
        With its hyperparameters; normal, Student-t or Laplace noise. That of a fitted regressor is
        `of_known_inputs(regressor)`.
    X : array (n, D)
        As they were measured.
    input_sd : float, array (D,) or array (n, D)

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP
    >>> from cavity.assessment import latent_inputs
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import Gaussian
    >>> x = np.linspace(0, 3, 8)[:, None]
    >>> found = latent_inputs(GP(1.0 * SE(1.0), Gaussian(0.01)), x, np.sin(x[:, 0]), 0.2, n_draws=50, warmup=50, rng=0)
    >>> found.inputs.shape, found.predict_f([[1.5]]).mean.shape
    ((200, 8, 1), (1,))
    """
    x = np.asarray(X, dtype=float)
    bound = model.bind(x.shape[1])
    x, targets = bound.inputs(x), np.asarray(y, dtype=float)
    target = _TrueInputs(bound, x, targets, np.broadcast_to(np.asarray(input_sd, dtype=float), x.shape))
    rng = np.random.default_rng(rng)
    start = 0.5 * rng.standard_normal((chains, target.dim))
    target.variances = np.tile(target.first_variances(), (chains, 1))
    history: list[Array] = []

    def between(Z: Array, rng: np.random.Generator) -> Array:
        target.draw_variances(Z, rng)
        history.append(target.variances.copy())
        return Z

    trace = hamiltonian(
        target, start, n_draws=n_draws, warmup=warmup, rng=rng, between=between, progress=False
    )
    draws = trace.positions  # (C, S, d)
    noise = np.stack(history[-n_draws:], axis=1)
    flat = draws.reshape(-1, target.dim)
    keep = np.linspace(0, len(flat) - 1, min(MIXED, len(flat))).astype(int)
    return LatentInputs(
        bound,
        targets,
        np.stack([target.inputs(z) for z in flat[keep]]),
        noise.reshape(-1, len(x))[keep],
        float(np.max(rhat(draws))),
        float(np.min(ess_bulk(draws))),
    )


class _TrueInputs(DifferentiableTarget):
    """z given data and noise variances, and these given z."""

    def __init__(self, model: GP, X: Array, y: Array, sd: Array) -> None:
        likelihood = model.likelihood
        if not isinstance(likelihood, GaussianNoise | ScaleMixture):
            raise InputError(
                "must be normal, Student-t or Laplace noise", parameter="likelihood", value=likelihood
            )
        self.model, self.X, self.y, self.sd = model, X, y, require_deviations(np.array(sd), "input_sd")
        self.dim, self.names = X.size, ()
        self.variances = np.zeros((0, len(y)))

    def inputs(self, z: Array) -> Array:
        """The true inputs."""
        return np.asarray(self.X + self.sd * z.reshape(self.X.shape))

    def first_variances(self) -> Array:
        """Of the noise, before anything was drawn."""
        noise, n = self.model.likelihood, len(self.y)
        if isinstance(noise, GaussianNoise):
            return noise.noise_variances(n)[0]
        return np.asarray(1.0 / cast(ScaleMixture, noise).expected_precision(np.zeros(n)))

    def value_and_gradient(self, U: Array) -> tuple[Array, Array]:
        """Of each chain, given its noise variances."""
        chain = iter(self.variances)
        return chain_by_chain(lambda z: self._one(z, next(chain)), U)

    def _one(self, z: Array, variances: Array) -> tuple[float, Array]:
        x = self.inputs(z)
        K, pullback = self.model.kernel.forward(x)
        factor = _factor(K, variances)
        residual = self.y - self.model.mean(x)
        weights = factor.solve(residual)
        value = -0.5 * (residual @ weights + factor.log_det + len(z) * LOG_2PI + z @ z)
        G = 0.5 * (np.outer(weights, weights) - factor.solve(np.eye(len(x))))
        d_inputs = pullback(G, inputs=True)[1] + self.model.mean.pull_inputs(x, weights)
        return float(value), (d_inputs * self.sd).ravel() - z

    def draw_variances(self, Z: Array, rng: np.random.Generator) -> None:
        """Of each chain, given f, which is drawn for it."""
        noise = self.model.likelihood
        if not isinstance(noise, ScaleMixture):
            return
        for c, z in enumerate(Z):
            x = self.inputs(z)
            K, m = self.model.kernel(x), self.model.mean(x)
            prior = np.linalg.cholesky(K + 1e-10 * np.mean(np.diag(K)) * np.eye(len(x)))
            f = prior @ rng.standard_normal(len(x))
            seen = f + np.sqrt(self.variances[c]) * rng.standard_normal(len(x))
            f = m + f + K @ _factor(K, self.variances[c]).solve(self.y - m - seen)  # Matheron's rule
            self.variances[c] = 1.0 / noise.sample_precision(self.y - f, rng)


def _factor(K: Array, variances: Array) -> Cholesky:
    return factorize(lambda: K + np.diag(variances))


def of_known_inputs(model: Any) -> GP:
    """What a `GPRegressor` fitted with `input_sd` has learned, as a model of known inputs: for `latent_inputs`.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GPRegressor
    >>> from cavity.assessment import of_known_inputs
    >>> x = np.linspace(0, 3, 8)[:, None]
    >>> fitted = GPRegressor(objective=None).fit(x, np.sin(x[:, 0]), input_sd=0.1)
    >>> of_known_inputs(fitted).kernel
    1.0 * SE(lengthscale=[1.0]).on([0])
    """
    D = (model.rows_.X.shape[1] - 1) // 2
    kernel = _without_errors(model.kernel_, D)
    if kernel is None:
        raise InputError("has no term of the inputs", parameter="kernel", value=model.kernel_)
    return GP(kernel, model.likelihood_, model.model_.mean)


def _without_errors(kernel: Kernel, D: int) -> Kernel | None:
    """What `with_input_errors` was made of; None for what rows have of their own."""
    if isinstance(kernel, Sum):
        kept = [one for part in kernel.parts if (one := _without_errors(cast(Kernel, part), D)) is not None]
        return Sum(*kept) if len(kept) > 1 else kept[0]
    if isinstance(kernel, Scaled):
        inner = _without_errors(kernel.kernel, D)
        return None if inner is None else Scaled(kernel._params["variance"], inner)
    if isinstance(kernel, On) and isinstance(kernel.kernel, Blurred):
        return SE(kernel.kernel._params["lengthscale"]).on(list(kernel.dims[: len(kernel.dims) // 2]))
    return None if isinstance(kernel, On) and kernel.dims == (2 * D,) else kernel
