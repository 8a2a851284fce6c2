"""Latent values and hyperparameters together, for likelihoods under which f cannot be integrated out.

The position is (v, theta), f = f(v, theta): see `white_coordinates`. Moving theta moves f with it, and v is N(0, I)
whatever theta is: exactly so under the prior, or nearly so under the posterior if sites are given.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from cavity.latent.base import Capability
from cavity.latent.sites import Sites
from cavity.likelihoods.base import MultiLatentLikelihood
from cavity.numerics.arrays import Array
from cavity.numerics.threads import threads_for
from cavity.sampling.default_priors import with_proper_priors
from cavity.sampling.targets import DifferentiableTarget, chain_by_chain, inside
from cavity.sampling.white_coordinates import WhiteCoordinates


class JointTarget(DifferentiableTarget):
    """Log density of (v, theta), d = n L + p, for chains one after the other.

    Parameters
    ----------
    model : GP
        Parameters without a prior get a weak proper one.
    X, y : arrays (n, D), (n,)
    sample_weight : array (n,), optional
        Powers of the likelihood factors.

    v is white under the prior; `given(sites)` has other coordinates.
    """

    def __init__(
        self,
        model: Any,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
    ) -> None:
        bound, data = model.training(X, y, sample_weight, basis_in_kernel=True)
        self.X, self.y, self.weight, self._inputs = data.X, data.y, data.weight, data.inputs
        self.model = with_proper_priors(bound, self.X, self.y, self.weight)
        self.n, self.latents = len(self.y), int(self.model.likelihood.n_latent)
        self.white_dim, self.p = self.n * self.latents, len(self.model.names)
        self._require_white_coordinates()
        self.sites: Sites | None = None
        self.dim = self.white_dim + self.p
        self.names = tuple(f"v[{i}]" for i in range(self.white_dim)) + tuple(self.model.names)
        self._bounds = np.array(self.model.theta_bounds).reshape(-1, 2)

    def given(self, sites: Sites | None) -> Self:
        """The same density in coordinates that are white under the posterior that some sites leave.

        They stand in for the likelihood of one latent function; those without a positive precision are left out.
        """
        other = copy(self)
        other.sites = None if sites is None or self.latents > 1 else _positive(sites)
        return other

    def _require_white_coordinates(self) -> None:
        """Refuse a representation, by name, that cannot take derivatives through them, or not of so many rows."""
        first = self.model.prior(self._inputs).functions[0]
        first.representation.require(Capability.WHITENING)
        first.representation.require(Capability.WHITE_DERIVATIVES)
        first.require_covariance()

    def value_and_gradient(self, U: Array) -> tuple[Array, Array]:
        """Log density (C,) and its gradient (C, d): each chain has a covariance matrix of its own."""
        with threads_for(self.n):
            return chain_by_chain(self._one, U)

    def latent(self, U: Array) -> Array:
        """Latent values of positions (S, d), shape (S, n) or (S, n, L)."""
        return self.prior_white(U)[1]

    def prior_white(self, U: Array) -> tuple[Array, Array]:
        """What is white under the prior, and latent values, of positions (S, d): both (S, n) or (S, n, L)."""
        white, f = np.empty((2, len(U), self.n, self.latents))
        for s, position in enumerate(U):
            prior = self.model.replace(position[self.white_dim :]).prior(self._inputs)
            coordinates = self._coordinates(prior)
            v = position[: self.white_dim].reshape(self.n, self.latents)
            white[s] = _columns(at.from_white(v[:, c]) for c, at in enumerate(coordinates))
            f[s] = _unwhiten(prior, coordinates, white[s])
        return (white, f) if self.latents > 1 else (white[:, :, 0], f[:, :, 0])

    def _one(self, position: Array) -> tuple[float, Array]:
        nothing = -np.inf, np.zeros(self.dim)
        white, theta = position[: self.white_dim], position[self.white_dim :]
        if not inside(theta, self._bounds):
            return nothing
        v = white.reshape(self.n, self.latents)
        try:
            with np.errstate(all="ignore"):
                model = self.model.replace(theta)
                prior = model.prior(self._inputs)
                coordinates = self._coordinates(prior)
                u = _columns(at.from_white(v[:, c]) for c, at in enumerate(coordinates))
                f = _unwhiten(prior, coordinates, u)
                if not np.isfinite(f).all():
                    return nothing
                log_prob, g, d_likelihood = self._likelihood(model.likelihood, f)
                log_prior, d_prior = model.log_prior(jacobian=True)
                kernel, mean, d_white = _pull(prior, coordinates, g, u)
        except (ValueError, ArithmeticError, np.linalg.LinAlgError):  # an overflow, or a singular matrix
            return nothing
        flat = np.concatenate([kernel, mean, d_likelihood])
        gradient = np.concatenate([d_white.ravel(), model.to_theta(flat) + d_prior])
        volume = sum(at.log_volume for at in coordinates)
        return log_prob + log_prior + volume - 0.5 * float(np.vdot(u, u)), gradient

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
        """Positions to begin from: around a posterior mean of f, (n,) or (n, L), and the model's hyperparameters.

        With sites the posterior mean is theirs.
        """
        theta = np.asarray(self.model.theta)
        near = np.clip(theta + spread * rng.standard_normal((chains, self.p)), *self._bounds.T)
        center = np.zeros((self.n, self.latents))
        if mean is not None and self.sites is None:
            prior = self.model.prior(self.X)
            gap = mean.reshape(self.n, self.latents) - np.asarray(prior.mean).reshape(self.n, -1)
            found = self._coordinates(prior)
            center = _columns(at.solve(np.ascontiguousarray(gap[:, c])) for c, at in enumerate(found))
        white = center.ravel() + 0.5 * rng.standard_normal((chains, self.white_dim))
        return np.hstack([white, near])

    def _coordinates(self, prior: Any) -> list[WhiteCoordinates]:
        """Of each latent function; valid until the next evaluation."""
        found = {id(p): WhiteCoordinates(p, self.sites) for p in {id(p): p for p in prior.functions}.values()}
        return [found[id(p)] for p in prior.functions]


def _positive(sites: Sites) -> Sites:
    """Sites of which those without a positive precision say nothing."""
    some = sites.precision > 0
    return Sites(np.where(some, sites.shift, 0.0), np.where(some, sites.precision, 0.0))


def _columns(parts: Iterable[Array]) -> Array:
    """One column for each latent function, (n, L)."""
    return np.column_stack(list(parts))


def _unwhiten(prior: Any, coordinates: list[WhiteCoordinates], u: Array) -> Array:
    """f = m + L u, shapes (n, L)."""
    moved = _columns(at.multiply(np.ascontiguousarray(u[:, c])) for c, at in enumerate(coordinates))
    return np.asarray(prior.mean).reshape(len(u), -1) + moved


def _pull(prior: Any, coordinates: list[WhiteCoordinates], g: Array, u: Array) -> tuple[Array, Array, Array]:
    """Derivatives in natural kernel values, natural mean values and v, for the cotangent g (n, L) of f."""
    parts = [at.pull(g[:, c], u[:, c]) for c, at in enumerate(coordinates)]
    if prior.shared:
        kernel = coordinates[0].pull_kernel(np.sum([part.covariance for part in parts], axis=0))
    else:
        kernel = np.concatenate([at.pull_kernel(part.covariance) for at, part in zip(coordinates, parts)])
    mean = _columns(part.mean for part in parts)
    white = _columns(part.white for part in parts)
    return kernel, prior.pull_mean(mean if prior.n_latent > 1 else mean[:, 0]), white
