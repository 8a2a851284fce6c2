"""Laplace's method for several latent functions: softmax and any other with few functions (Rasmussen and
Williams 2006, section 3.5).

As for one function (`cavity.inference.laplace.rule`), with an L x L curvature W_i = -w_i Hessian at each point.
With Sigma_i the posterior covariance block of point i, u_i = -1/2 d/df_i sum_j tr(Sigma_j W_j) at fixed Sigma
(third derivatives of log p), v = (I - R K) u and a = gradient of log p at the mode,

    d log q / dK_c   = 1/2 (a_c a_c' - R_cc) + 1/2 (v_c a_c' + a_c v_c')
    d log q / dm_c   = a_c + v_c
    d log q / dtheta = sum_i w_i (dlog p_i + 1/2 tr(Sigma_i dHessian_i) + (K v)_i' dgradient_i) / dtheta

For softmax the curvature is D - D R1 (R1'D R1)^-1 R1'D, which keeps time at O(L n^3) and memory at O(L n^2).
For others it may be indefinite (it always is for a normal density whose log noise is latent, except where the
residual is zero): where K^-1 + W is not positive definite, the blocks' eigenvalues are replaced by their
absolute values until it is. The evidence is that of the true W at the mode.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from cavity.inference.base import Gradient, InferenceRule, refit_without
from cavity.inference.laplace.mode_search import LatentPoint, LogPosterior, Mode
from cavity.latent.multi_latent import SeveralConditioning, SeveralPrior
from cavity.likelihoods.base import LatentDerivatives, MultiLatentLikelihood
from cavity.likelihoods.observations import Observations
from cavity.likelihoods.softmax import Softmax
from cavity.numerics.arrays import Array


class SeveralLatents(LogPosterior):
    """The log posterior density of L latent values per observation."""

    prior: SeveralPrior
    likelihood: MultiLatentLikelihood

    def __init__(self, prior: SeveralPrior, observations: Observations, dense: bool | None = None) -> None:
        super().__init__(prior, observations)
        self.dense = not isinstance(self.likelihood, Softmax) if dense is None else dense

    def derivatives(self, f: Array) -> LatentDerivatives:
        """Of log p, times the sample weights."""
        with np.errstate(over="ignore", invalid="ignore"):
            d = self.likelihood.latent_derivatives(self.y, f)
        if self.observations.weight is None:
            return d
        w = self.observations.weight
        return LatentDerivatives(w * d.log_prob, w[:, None] * d.gradient, w[:, None, None] * d.hessian)

    def slope(self, derivatives: LatentDerivatives) -> Array:
        """Gradient, shape (n, L)."""
        return derivatives.gradient

    def W(self, derivatives: LatentDerivatives, safe: bool) -> Array:
        """Minus the Hessian, shape (n, L, L); with `safe` with the absolute values of its eigenvalues."""
        W = -derivatives.hessian
        if not safe or self.likelihood.log_concave:
            return W
        values, vectors = np.linalg.eigh(W)
        return np.asarray((vectors * np.abs(values)[:, None, :]) @ vectors.transpose(0, 2, 1))

    def times_W(self, f: Array, derivatives: LatentDerivatives, x: Array, safe: bool) -> Array:
        """W x."""
        return np.asarray(np.einsum("nij,nj->ni", self.W(derivatives, safe), x))

    def curvature(self, f: Array, derivatives: LatentDerivatives, safe: bool = False) -> SeveralConditioning:
        """The conditioning on W."""
        if self.dense:
            return self.prior.condition(self.W(derivatives, safe))
        D = cast(Softmax, self.likelihood).probabilities(f)
        D = np.maximum(D, np.finfo(float).tiny)  # classes of probability zero: keeps D^-1 representable
        return self.prior.condition_softmax(self.observations.weighted(D.T).T)

    def downward(self, f: Array, derivatives: LatentDerivatives) -> tuple[Array, Array]:
        """Along the direction of most negative curvature."""
        return self.prior.downward(self.W(derivatives, safe=False))

    def starts(self) -> Iterator[LatentPoint]:
        """The prior mean, and one step from it of the first function alone (a level, before its noise)."""
        yield self.prior_mean()
        d = self.derivatives(self.m)
        W, b = np.zeros_like(d.hessian), np.zeros_like(self.m)
        W[:, 0, 0], b[:, 0] = np.maximum(-d.hessian[:, 0, 0], 0.0), d.gradient[:, 0]
        yield self.point(*self.prior.condition(W).project(b))

    def at(self, kernel: Any, mean_function: Any, likelihood: Any) -> SeveralLatents:
        """The same problem with other hyperparameters."""
        prior = self.prior.at(kernel, mean_function)
        return SeveralLatents(prior, self.observations.under(likelihood), self.dense)


def gradient(problem: SeveralLatents, mode: Mode) -> tuple[Array, Gradient]:
    """dlog q/df at the mode, and the gradient in the parameters; overwrites the mode's factorization."""
    prior, likelihood, y = problem.prior, problem.likelihood, problem.y
    weight = problem.observations.weights
    conditioning = mode.curvature
    a, S = mode.a, conditioning.training_blocks()
    u = -0.5 * weight[:, None] * likelihood.curvature_gradient(y, mode.f, S)
    v, Kv = conditioning.project(u)
    d_prior = conditioning.pull_prior(0.5 * a + v, a, -0.5)
    p = likelihood.latent_parameter_derivatives(y, mode.f)
    d_likelihood = p.log_prob @ weight
    d_likelihood += 0.5 * np.einsum("pnij,nij,n->p", p.hessian, S, weight)
    d_likelihood += np.einsum("pni,ni,n->p", p.gradient, Kv, weight)
    return u, Gradient.of(prior, d_prior, a + v, d_likelihood)


def cavities(rule: InferenceRule, problem: SeveralLatents, mode: Mode) -> tuple[Array, Array]:
    """Mean (n, L) and covariance (n, L, L) of each f_i given the sites of the others.

    If a cavity is improper, the rule is run without the point.
    """
    prior = problem.prior
    S = mode.curvature.marginal_blocks()
    W = problem.W(mode.derivatives, safe=False)
    # (Sigma^-1 - W)^-1 = (I - Sigma W)^-1 Sigma
    V = np.linalg.solve(np.eye(prior.n_latent) - S @ W, S)
    V = 0.5 * (V + V.transpose(0, 2, 1))
    mean = mode.f - np.einsum("nij,nj->ni", V, mode.derivatives.gradient)
    for i in np.flatnonzero(np.linalg.eigvalsh(V)[:, 0] <= 0):
        mean[i], V[i] = refit_without(rule, prior, problem.observations, int(i))
    return mean, V
