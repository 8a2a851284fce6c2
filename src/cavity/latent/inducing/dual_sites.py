"""The bound on the evidence from a batch of rows, with its gradient: what stochastic learning needs of inducing inputs.

What all rows say of u is a site exp(h'u - u'P u / 2), of which batches give estimates, so that none of a row is kept
(dual parameters; Adam, Chang, Khan and Solin 2021). With K_uu = L L', u = L w, V = L^-1 K_uf,

    g = L'h,   A = L'P L,   B = I + A,   C = B^-1,   q(w) = N(w0, C),   w0 = C g,
    mean_i = m_i + V_i'w0,   var_i = k_ii - V_i'(I - C) V_i,
    F = sum_i c_i E[log p(y_i | f_i)] - 1/2 [tr C + w0'w0 - m - log|C|],   c_i = weight_i n / b of a batch of b rows.

A natural-gradient step of length rho goes to (1 - rho) (g, A) + rho (V nu, V T V'), with tau_i = -2 c_i dE / dvar_i and
nu_i = c_i dE / dmean_i + tau_i (mean_i - m_i) of the batch. At a fixed point F is the bound of sparse variational
inference, of Gaussian noise that of Titsias (2009). Hyperparameters move at fixed (h, P): what much is known of stays
where it is, what little is known of follows the prior. Cotangents, with a and s those of mean and var:

    of C:  V s V' + (B - I) / 2 + sym((V a - w0) g'),   of g:  C (V a - w0),   of A:  -C (of C) C
    of V:  w0 a' + 2 (C - I) V s,      of L:  L^-T [2 A (of A) + g (of g)' - (of V) V']
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cavity.latent.base import ImproperPosteriorError, PriorGradient
from cavity.latent.inducing.batches import Knowledge
from cavity.latent.inducing.blocks import row_products, times_inverse
from cavity.latent.inducing.prior import InducingPrior
from cavity.latent.inducing.pullback import of_inducing_inputs
from cavity.likelihoods.base import ExpectedLogProb
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import try_factorize
from cavity.numerics.compiled import compiled_passes


@dataclass(frozen=True)
class DualSites:
    """What all rows say of the inducing values, in their white coordinates at some hyperparameters.

    Attributes
    ----------
    shift : array (m,)
        g.
    precision : array (m, m)
        A.
    """

    shift: Array
    precision: Array

    @classmethod
    def zero(cls, m: int) -> DualSites:
        """Nothing."""
        return cls(np.zeros(m), np.zeros((m, m)))

    def toward(self, other: DualSites, rate: float) -> DualSites:
        """A step of this length, 1 for all the way."""
        return DualSites(
            (1.0 - rate) * self.shift + rate * other.shift,
            (1.0 - rate) * self.precision + rate * other.precision,
        )

    def moved(self, old: InducingPrior, new: InducingPrior) -> DualSites:
        """The same site of u in the white coordinates of other hyperparameters."""
        M = old.root.T @ new.inverse_root.T  # L^-1 of the old ones, L of the new
        return DualSites(M.T @ self.shift, M.T @ self.precision @ M)

    def knowledge(self) -> Knowledge:
        """q(w).

        Raises
        ------
        ImproperPosteriorError
            If B is not positive definite.
        """
        B = 0.5 * (self.precision + self.precision.T)
        B.reshape(-1)[:: len(B) + 1] += 1.0
        factor = try_factorize(np.ascontiguousarray(B))
        if factor is None:
            raise ImproperPosteriorError("negative sites outweigh the prior of the inducing values")
        return Knowledge(factor.solve(self.shift), factor)


class BatchBound:
    """F and its parts, from a batch.

    Parameters
    ----------
    prior : InducingPrior
        Of the rows of the batch.
    dual : DualSites
    expected : callable
        E[log p(y | f)] of each row from means and variances (b,), with derivatives.
    scale : array (b,)
        c.

    Attributes
    ----------
    value : float
        F, an estimate of the bound for all rows.
    d_flat : array (P,)
        Gradient in the natural values of the likelihood.
    """

    def __init__(
        self,
        prior: InducingPrior,
        dual: DualSites,
        expected: Callable[[Array, Array], ExpectedLogProb],
        scale: Array,
    ) -> None:
        self.prior, self.dual = prior, dual
        self._rows, self._K = prior.tiles.tile(prior.X, slice(0, prior.n))
        V = times_inverse(prior.root, self._K.copy())
        known = dual.knowledge()
        self.w0, self.C = known.mean, known.B.solve(np.eye(prior.m))
        self._V, CV = V, V @ self.C
        own = prior.kernel._diag(self._rows)
        left = np.maximum(own - row_products(V, V), np.finfo(float).eps * own)
        moved = V @ self.w0
        found = expected(prior.mean + moved, left + row_products(CV, V))
        self.a, self.s = scale * found.d_mean, scale * found.d_var
        self.d_flat = found.d_flat @ scale
        of_w = float(np.trace(self.C) + self.w0 @ self.w0) - prior.m + known.B.log_det
        self.value = float(scale @ found.value) - 0.5 * of_w
        tau = -2.0 * self.s
        self.sites = DualSites(V.T @ (self.a + tau * moved), V.T @ (tau[:, None] * V))
        """(g, A) as this batch has them."""

    def gradient(self) -> tuple[PriorGradient, Array]:
        """In kernel and representation, and in the mean function, at fixed (h, P)."""
        prior, V, C, root = self.prior, self._V, self.C, self.prior.root
        g, A = self.dual.shift, self.dual.precision
        by_w = V.T @ self.a - self.w0
        mixed = np.multiply.outer(by_w, g)
        of_C = V.T @ (self.s[:, None] * V) + 0.5 * A + 0.5 * (mixed + mixed.T)
        of_A, of_g = -C @ of_C @ C, C @ by_w
        of_V = np.multiply.outer(self.a, self.w0) + 2.0 * self.s[:, None] * (V @ C - V)  # transposed
        inner = np.tril(2.0 * A @ of_A + np.multiply.outer(g, of_g) - of_V.T @ V)
        inner.reshape(-1)[:: prior.m + 1] *= 0.5
        G_uu = root @ (0.5 * (inner + inner.T)) @ root.T
        G = np.ascontiguousarray(of_V @ root.T)
        kernel, learn = prior.kernel, prior.representation.learn
        with compiled_passes(prior.compiled):
            of_kernel = kernel._pull(self._rows, prior.inducing_rows, G, self._K)
            of_kernel = of_kernel + kernel._pull_diag(self._rows, self.s)
            of_inputs = np.zeros((prior.m, prior.Z.shape[1] if learn else 0))
            if learn:
                of_inputs = kernel._pull_inputs(self._rows, prior.inducing_rows, G, self._K)[1]
        return of_inducing_inputs(prior, of_kernel, of_inputs, G_uu), prior.pull_mean(self.a)
