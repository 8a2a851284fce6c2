"""White latent values and hyperparameters together, for likelihoods under which f cannot be integrated out.

The position is (u, theta) with f = m + L u, K = L L': under the prior u ~ N(0, I) whatever theta, so that moving theta
moves f with it. With g = d log p(y|f) / df the gradient in u is L'g - u, and that in K goes through the Cholesky factor
(Murray 2016): with S = L' tril(g u') and F(S) its lower triangle with the diagonal halved,

    d log p / dK = (M + M') / 2,     M = L^-T F(S) L^-1.

Smooth kernels have covariance matrices that are singular to rounding, and the derivative of their factors is then
nothing but rounding. So K stands for the covariance plus `NUGGET` times its mean diagonal: f has that much white noise
of its own, whose sd is a ten-thousandth of the signal's.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from cavity.latent.several import BlockPrior
from cavity.likelihoods.base import MultiLatentLikelihood
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import Cholesky
from cavity.numerics.threads import threads_for
from cavity.numerics.tiles import Workspace
from cavity.sampling.default_priors import with_proper_priors
from cavity.sampling.process_given_draw import nugget_of
from cavity.sampling.targets import chain_by_chain, inside

NUGGET = 1e-8
"""Added to the diagonal of the covariance, relative to its mean."""


def pull_factor(factor: Cholesky, g: Array, u: Array) -> Array:
    """d/dK of g' L u, symmetric, shape (n, n)."""
    L = np.tril(factor.lower)
    S = np.tril(L.T @ np.tril(np.multiply.outer(g, u)))
    S.reshape(-1)[:: len(S) + 1] *= 0.5
    half = factor.half_solve_transposed(S)
    M = factor.half_solve_transposed(np.ascontiguousarray(half.T)).T
    return np.asarray(0.5 * (M + M.T))


class JointTarget:
    """Log density of (u, theta), d = n L + p, for chains one after the other.

    Parameters
    ----------
    model : GP
        Parameters without a prior get a weak proper one.
    X, y : arrays (n, D), (n,)
    sample_weight : array (n,), optional
        Powers of the likelihood factors.
    """

    def __init__(
        self, model: Any, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> None:
        bound, self.X, self.y, self.weight = model._given(X, y, sample_weight)
        self.model = with_proper_priors(bound, self.X, self.y, self.weight)
        self.n, self.latents = len(self.y), int(self.model.likelihood.n_latent)
        self.white_dim, self.p = self.n * self.latents, len(self.model.names)
        self.dim = self.white_dim + self.p
        self.names = tuple(f"u[{i}]" for i in range(self.white_dim)) + tuple(self.model.names)
        self._bounds = np.array(self.model.theta_bounds).reshape(-1, 2)
        self._workspace = Workspace()

    def log_density(self, U: Array) -> Array:
        """Log density (C,)."""
        return self.value_and_gradient(U)[0]

    def value_and_gradient(self, U: Array) -> tuple[Array, Array]:
        """Log density (C,) and its gradient (C, d): each chain has a covariance matrix of its own."""
        with threads_for(self.n):
            return chain_by_chain(self._one, U)

    def latent(self, U: Array) -> Array:
        """Latent values of positions (S, d), shape (S, n) or (S, n, L)."""
        out = np.empty((len(U), self.n, self.latents))
        for s, position in enumerate(U):
            prior = self.model.replace(position[self.white_dim :]).prior(self.X, self._workspace)
            out[s] = _unwhiten(
                prior, _factors(prior), position[: self.white_dim].reshape(self.n, self.latents)
            )
        return out if self.latents > 1 else out[:, :, 0]

    def _one(self, position: Array) -> tuple[float, Array]:
        nothing = -np.inf, np.zeros(self.dim)
        white, theta = position[: self.white_dim], position[self.white_dim :]
        if not inside(theta, self._bounds):
            return nothing
        u = white.reshape(self.n, self.latents)
        try:
            with np.errstate(all="ignore"):
                model = self.model.replace(theta)
                prior = model.prior(self.X, self._workspace)
                factors = _factors(prior)
                f = _unwhiten(prior, factors, u)
                if not np.isfinite(f).all():
                    return nothing
                log_prob, g, d_likelihood = self._likelihood(model.likelihood, f)
                log_prior, d_prior = model.log_prior(jacobian=True)
                kernel, mean, d_white = _pull(prior, factors, g, u)
        except (ValueError, ArithmeticError, np.linalg.LinAlgError):  # an overflow, or a singular matrix
            return nothing
        flat = np.concatenate([kernel, mean, d_likelihood])
        gradient = np.concatenate([d_white.ravel() - white, model.to_theta(flat) + d_prior])
        return log_prob + log_prior - 0.5 * float(white @ white), gradient

    def _likelihood(self, likelihood: Any, f: Array) -> tuple[float, Array, Array]:
        """Sum of log p, its derivative in f (n, L) and in the natural values (P,)."""
        w = np.ones(self.n) if self.weight is None else self.weight
        if self.latents == 1:
            found = likelihood.derivatives(self.y, f[:, 0])
            slopes = (
                likelihood.parameter_slopes(self.y, f[:, 0])
                if likelihood.flat.size
                else np.zeros((0, self.n))
            )
            return float(w @ found.log_prob), (w * found.d1)[:, None], slopes @ w
        many = cast(MultiLatentLikelihood, likelihood)
        at = many.latent_derivatives(self.y, f)
        by_flat = many.latent_parameter_derivatives(self.y, f).log_prob
        return float(w @ at.log_prob), w[:, None] * at.gradient, by_flat @ w

    def start(self, chains: int, rng: np.random.Generator, mean: Array | None, spread: float) -> Array:
        """Positions to begin from: around a posterior mean of f, (n,) or (n, L), and the model's hyperparameters."""
        theta = np.asarray(self.model.theta)
        near = np.clip(theta + spread * rng.standard_normal((chains, self.p)), *self._bounds.T)
        center = np.zeros((self.n, self.latents))
        if mean is not None:
            prior = self.model.prior(self.X)
            gap = mean.reshape(self.n, self.latents) - np.asarray(prior.mean).reshape(self.n, -1)
            center = np.column_stack([F.half_solve(gap[:, c]) for c, F in enumerate(_factors(prior))])
        white = center.ravel() + 0.5 * rng.standard_normal((chains, self.white_dim))
        return np.hstack([white, near])


def _factors(prior: Any) -> list[Cholesky]:
    """Factor of K with its nugget for each latent function; valid until the next evaluation."""
    functions = prior.functions if isinstance(prior, BlockPrior) else [prior]
    found = {id(p): p.observe(nugget_of(p, NUGGET)).factor for p in {id(p): p for p in functions}.values()}
    return [found[id(p)] for p in functions]


def _unwhiten(prior: Any, factors: list[Cholesky], u: Array) -> Array:
    """f = m + L u, shapes (n, L)."""
    moved = [factor.multiply(np.ascontiguousarray(u[:, c])) for c, factor in enumerate(factors)]
    return np.asarray(prior.mean).reshape(len(u), -1) + np.column_stack(moved)


def _pull(prior: Any, factors: list[Cholesky], g: Array, u: Array) -> tuple[Array, Array, Array]:
    """Derivatives in natural kernel values, natural mean values and u, for the cotangent g (n, L) of f."""
    G = [pull_factor(factor, g[:, c], u[:, c]) for c, factor in enumerate(factors)]
    for one in G:  # the nugget follows the mean of the diagonal
        one.reshape(-1)[:: len(one) + 1] += NUGGET * np.trace(one) / len(one)
    white = np.column_stack([np.tril(factor.lower).T @ g[:, c] for c, factor in enumerate(factors)])
    if isinstance(prior, BlockPrior):
        kernel = prior.pull(lambda c, rows, columns: G[c][rows, columns].copy())
        return kernel, prior.pull_mean(g), white
    kernel = prior.pull(lambda rows, columns: G[0][rows, columns].copy())
    return kernel, prior.pull_mean(g[:, 0]), white
