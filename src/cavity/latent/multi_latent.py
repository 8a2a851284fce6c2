"""Several independent latent functions at the same inputs, as rules and samplers see them.

The prior of f_1..f_L is block-diagonal, K = diag(K_1, .., K_L). A likelihood may couple the functions at each input, so
that the curvature W and the posterior covariance of (f_1(x), .., f_L(x)) are L x L blocks, one for every row; or it may
factorize over them, and the functions stay independent.

Shapes: latent values (n, L), blocks (n, L, L).
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from cavity.latent.base import Conditioning, LatentPrior, Loss, PriorGradient, Process
from cavity.numerics.arrays import Array

P = TypeVar("P", bound=LatentPrior)


class SeveralConditioning(Protocol):
    """R = (K + W^-1)^-1 for a curvature W of L x L blocks.

    Attributes
    ----------
    log_det : float
        log |I + K W|.
    jitter : float
    curvature : array (n, L) or (n, L, L)
        What it was made of.
    """

    log_det: float
    jitter: float
    curvature: Array

    @property
    def smallest_curvature(self) -> float:
        """Precision left in the flattest direction, as a share of the prior's; at most one."""
        ...

    def project(self, b: Array) -> tuple[Array, Array]:
        """((I - R K) b, K (I - R K) b), shapes (n, L)."""
        ...

    def training_blocks(self) -> Array:
        """Posterior covariance blocks at the training inputs, shape (n, L, L), for gradients."""
        ...

    def marginal_blocks(self) -> Array:
        """The same with all their digits, for cavities."""
        ...

    def pull_prior(self, left: Array, right: Array, d_log_det: float) -> PriorGradient:
        """Gradient, in the natural values of kernels and representation, of sum_c sum_ij G^c_ij K^c_ij, where

            G^c = left_c right_c' + d_log_det R_cc,

        symmetrized, is held fixed. Shapes (n, L). The conditioning may be gone afterwards.
        """
        ...

    def loss(self) -> Loss:
        """What the representation loses."""
        ...

    def reduce(self, cross: Sequence[Array]) -> tuple[list[Array], list[Array]]:
        """(U, V), one array per function, with k_c' R_cd k_d = [c = d] k_c' U_c - V_c' V_d for
        cross-covariances k_c = K_c(X, X*) of shape (n, m)."""
        ...


class SeveralProcess(Process, Protocol):
    """Several Gaussian processes anywhere, after data: means (m, L), variances (m, L)."""

    def blocks(self, X: ArrayLike) -> Array:
        """Posterior covariance among the functions at each row of X, shape (m, L, L)."""
        ...


class IndependentFunctions(Generic[P]):
    """The prior of each function, and what follows from these alone, whatever the representation."""

    functions: list[P]
    """The prior of each latent function, without its mean."""
    shared: bool
    mean: Array
    mean_function: Any

    def function(self, c: int) -> P:
        """The prior of one function, with its mean, on the same memory."""
        alone = copy(self.functions[c])
        alone.mean = self.mean[:, c]
        alone.mean_function = None if self.mean_function is None else self.mean_function[c]
        return alone

    def times(self, A: Array) -> Array:
        """K a, shapes (n, L)."""
        if self.shared:
            return self.functions[0].times(A)
        return np.column_stack([p.times(a) for p, a in zip(self.functions, A.T)])

    @cached_property
    def diagonal(self) -> Array:
        """Prior variances, shape (n, L)."""
        return np.column_stack([p.diagonal for p in self.functions])


class SeveralPrior(Protocol):
    """L independent Gaussian processes at n training inputs.

    Attributes
    ----------
    n, n_latent : int
    shared : bool
        Whether all functions have one covariance.
    mean : array (n, L)
    mean_function : PerLatent or None
    """

    n: int
    n_latent: int
    shared: bool
    mean: Array
    mean_function: Any

    @property
    def X(self) -> Array:
        """All inputs (n, D)."""
        ...

    @property
    def diagonal(self) -> Array:
        """Prior variances, shape (n, L)."""
        ...

    def times(self, A: Array) -> Array:
        """K a, shapes (n, L)."""
        ...

    def function(self, c: int) -> LatentPrior:
        """The prior of one function, with its mean."""
        ...

    def at(self, kernel: Any, mean_function: Any) -> Self:
        """The same rows with other hyperparameters, in memory of its own."""
        ...

    def rows(self, index: Any) -> Self:
        """The same processes at some of the rows."""
        ...

    def condition(self, W: Array) -> SeveralConditioning:
        """Given a curvature of any symmetric blocks, shape (n, L, L)."""
        ...

    def condition_softmax(self, D: Array) -> SeveralConditioning:
        """Given the curvature D - D R1 (R1'D R1)^-1 R1'D of a softmax, shape (n, L)."""
        ...

    def condition_separately(
        self, precision: Array, known: Sequence[Conditioning] | None = None
    ) -> SeveralConditioning:
        """Given sites of each function alone, of precisions (n, L); `known` is what they make of each function."""
        ...

    def downward(self, W: Array) -> tuple[Array, Array]:
        """(da, K da), shapes (n, L), for the direction of most negative curvature."""
        ...

    def process(self, weights: Array, conditioning: SeveralConditioning) -> SeveralProcess:
        """The posterior processes anywhere, given weights (n, L)."""
        ...

    def pull_mean(self, G: Array) -> Array:
        """Gradient, in the natural values of the mean functions, of sum_ic G_ic m_c(x_i)."""
        ...
