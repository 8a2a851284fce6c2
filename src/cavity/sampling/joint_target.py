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

from cavity.latent.base import Capability, Conditioning, LatentPrior
from cavity.likelihoods.base import MultiLatentLikelihood
from cavity.numerics.arrays import Array
from cavity.numerics.threads import threads_for
from cavity.sampling.default_priors import with_proper_priors
from cavity.sampling.process_given_draw import nugget_of
from cavity.sampling.targets import chain_by_chain, inside

NUGGET = 1e-8
"""Added to the diagonal of the covariance, relative to its mean."""


class WhiteCoordinates:
    """f = m + L u of one latent function, with L L' = K + nugget.

    Said in the latent protocol: `observe` gives products with L^-1 and L^-T, and L u = (K + nugget) L^-T u.
    """

    def __init__(self, prior: LatentPrior) -> None:
        self.prior, self.nugget = prior, nugget_of(prior, NUGGET)
        self._given: Conditioning = prior.observe(self.nugget, transient=True)

    def _times(self, U: Array) -> Array:
        return self.prior.times(U) + (self.nugget * U.T).T

    def multiply(self, u: Array) -> Array:
        """L u, shape (n,)."""
        return self._times(self._given.half_solve_transposed(u))

    def adjoint(self, G: Array) -> Array:
        """L' G, shape (n,) or (n, m)."""
        found = self._given.half_solve(self._times(G))
        assert found is not None
        return found

    def solve(self, f: Array) -> Array:
        """L^-1 f, shape (n,)."""
        found = self._given.half_solve(f)
        assert found is not None
        return found

    def pull(self, g: Array, u: Array) -> Array:
        """d/dK of g' L u, symmetric, shape (n, n); the nugget follows the mean of the diagonal."""
        S = np.tril(self.adjoint(np.tril(np.multiply.outer(g, u))))
        S.reshape(-1)[:: len(S) + 1] *= 0.5
        half = self._given.half_solve_transposed(S)
        M = self._given.half_solve_transposed(np.ascontiguousarray(half.T)).T
        M = np.asarray(0.5 * (M + M.T))
        M.reshape(-1)[:: len(M) + 1] += NUGGET * np.trace(M) / len(M)
        return M

    def pull_kernel(self, G: Array) -> Array:
        """Gradient, in the kernel's natural values, of sum(G * K)."""
        return self._given.pull_prior(G, np.eye(len(G)), 0.0).kernel


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
        bound, data = model.training(X, y, sample_weight, basis_in_kernel=True)
        self.X, self.y, self.weight, self._inputs = data.X, data.y, data.weight, data.inputs
        self.model = with_proper_priors(bound, self.X, self.y, self.weight)
        self.n, self.latents = len(self.y), int(self.model.likelihood.n_latent)
        self.white_dim, self.p = self.n * self.latents, len(self.model.names)
        self.dim = self.white_dim + self.p
        self.names = tuple(f"u[{i}]" for i in range(self.white_dim)) + tuple(self.model.names)
        self._bounds = np.array(self.model.theta_bounds).reshape(-1, 2)

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
            prior = self.model.replace(position[self.white_dim :]).prior(self._inputs)
            out[s] = _unwhiten(
                prior, _coordinates(prior), position[: self.white_dim].reshape(self.n, self.latents)
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
                prior = model.prior(self._inputs)
                coordinates = _coordinates(prior)
                f = _unwhiten(prior, coordinates, u)
                if not np.isfinite(f).all():
                    return nothing
                log_prob, g, d_likelihood = self._likelihood(model.likelihood, f)
                log_prior, d_prior = model.log_prior(jacobian=True)
                kernel, mean, d_white = _pull(prior, coordinates, g, u)
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
            found = _coordinates(prior)
            center = np.column_stack(
                [at.solve(np.ascontiguousarray(gap[:, c])) for c, at in enumerate(found)]
            )
        white = center.ravel() + 0.5 * rng.standard_normal((chains, self.white_dim))
        return np.hstack([white, near])


def _coordinates(prior: Any) -> list[WhiteCoordinates]:
    """Of each latent function; valid until the next evaluation."""
    prior.functions[0].representation.require(Capability.WHITENING)
    prior.functions[0].representation.require(Capability.WHITE_DERIVATIVES)
    prior.functions[0].require_covariance()
    found = {id(p): WhiteCoordinates(p) for p in {id(p): p for p in prior.functions}.values()}
    return [found[id(p)] for p in prior.functions]


def _unwhiten(prior: Any, coordinates: list[WhiteCoordinates], u: Array) -> Array:
    """f = m + L u, shapes (n, L)."""
    moved = [at.multiply(np.ascontiguousarray(u[:, c])) for c, at in enumerate(coordinates)]
    return np.asarray(prior.mean).reshape(len(u), -1) + np.column_stack(moved)


def _pull(prior: Any, coordinates: list[WhiteCoordinates], g: Array, u: Array) -> tuple[Array, Array, Array]:
    """Derivatives in natural kernel values, natural mean values and u, for the cotangent g (n, L) of f."""
    white = np.column_stack([at.adjoint(np.ascontiguousarray(g[:, c])) for c, at in enumerate(coordinates)])
    G = [at.pull(g[:, c], u[:, c]) for c, at in enumerate(coordinates)]
    if prior.shared:
        kernel = coordinates[0].pull_kernel(np.sum(G, axis=0))
    else:
        kernel = np.concatenate([at.pull_kernel(one) for at, one in zip(coordinates, G)])
    return kernel, prior.pull_mean(g if prior.n_latent > 1 else g[:, 0]), white
