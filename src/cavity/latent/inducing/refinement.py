"""The exact posterior mean after a fit with inducing inputs: conjugate gradients with the low-rank matrix.

A = K + S is never stored: a product with it evaluates tiles of K and throws them away, O(n^2) each. The inducing inputs
that were learned make Q + S a good preconditioner, so that few are needed (3 to 30 at 500 to 1000 inducing inputs of a
robot arm). Variances stay those of the inducing inputs.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from cavity.kernels.base import as_inputs, row_blocks
from cavity.kernels.products import covariance_times
from cavity.latent.inducing.certificate import MOST_PRODUCTS, solve_quadratic
from cavity.latent.inducing.conditioning import InducingConditioning
from cavity.latent.inducing.kinds import KINDS
from cavity.latent.inducing.prior import InducingPrior
from cavity.latent.posterior_process import BLOCK_DOUBLES, PosteriorProcess
from cavity.numerics.arrays import Array
from cavity.runtime.deadlines import Deadline
from cavity.runtime.errors import InputError


class RefinedProcess:
    """Means from all training rows, all else from the inducing inputs.

    Parameters
    ----------
    prior : InducingPrior
    rough : PosteriorProcess
        Of the inducing inputs.
    solution : array (n,) or (n, T)
        A^-1 (y - m).
    products : int
        Products with the covariance matrix that it took.
    """

    basis = None
    """There are no basis functions with weights integrated out."""

    def __init__(self, prior: InducingPrior, rough: PosteriorProcess, solution: Array, products: int) -> None:
        self.prior, self.rough, self.solution, self.products = prior, rough, solution, products
        self.rows = prior.kernel._prepare(prior.X, np.arange(prior.n))

    def mean(self, X: ArrayLike) -> Array:
        """Shape (m,) or (m, T)."""
        new, kernel = as_inputs(X), self.prior.kernel
        out = np.zeros((len(new), *self.solution.shape[1:]))
        for at in row_blocks(len(new), max(1, BLOCK_DOUBLES // self.prior.n)):
            own = kernel._prepare(new[at], np.full(at.stop - at.start, -1))
            out[at] = kernel._block(own, self.rows) @ self.solution
        if self.prior.mean_function is not None:
            out = (out.T + self.prior.mean_function(new)).T
        return out

    def variance(self, X: ArrayLike) -> Array:
        """Shape (m,), of the inducing inputs."""
        return self.rough.variance(X)

    def covariance(self, X: ArrayLike) -> Array:
        """Shape (m, m), of the inducing inputs."""
        return self.rough.covariance(X)

    def sample(self, X: ArrayLike, size: int = 1, rng: np.random.Generator | int | None = None) -> Array:
        """Joint draws of the inducing inputs' process about the exact mean."""
        return np.asarray(self.rough.sample(X, size, rng) - self.rough.mean(X) + self.mean(X))


def refine(
    prior: InducingPrior,
    rough: PosteriorProcess,
    residual: Array,
    variance: Array,
    tolerance: float,
    max_time: float | None,
) -> RefinedProcess:
    """With A^-1 r for residuals r (n, T), until at most `tolerance` nats of the quadratic form are left of each.

    Raises
    ------
    InputError
        If that takes more time, or more products.
    """
    low = InducingConditioning(prior, KINDS["dtc"], None, variance)
    times, time = partial(covariance_times, prior.kernel, prior.X), Deadline(max_time)
    columns, products = [], 0
    for r in residual.T:
        v, _, left, used = solve_quadratic(low, times, variance, r, tolerance, time)
        products += used
        if left > 2.0 * tolerance:
            raise InputError(
                f"the exact mean was not reached: {left:.3g} nats of the quadratic form are left after {used} products "
                f"with the covariance matrix (at most {MOST_PRODUCTS}); more inducing inputs make it fewer",
                parameter="max_time",
                value=max_time,
            )
        columns.append(v)
    solution = np.column_stack(columns) if residual.shape[1] > 1 else columns[0]
    return RefinedProcess(prior, rough, solution, products)
