"""Several latent functions that the likelihood keeps apart, in any representation: each is conditioned for itself.

The prior of each function is that of the representation, and so are its conditioning and its process. Functions that
share a kernel share what is made of it. A likelihood that couples functions needs more (`dense_multi_latent`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from cavity.kernels.base import Kernel
from cavity.latent.base import (
    Capability,
    CapabilityError,
    Conditioning,
    Inputs,
    LatentPrior,
    Loss,
    PriorGradient,
    Process,
    Representation,
)
from cavity.latent.multi_latent import IndependentFunctions, SeveralConditioning, SeveralProcess
from cavity.means.functions import Mean
from cavity.numerics.arrays import Array
from cavity.parameters.per_latent import PerLatent

TINY = float(np.finfo(float).tiny)


class SeparateFunctions(IndependentFunctions[LatentPrior]):
    """L independent Gaussian processes at n training inputs, for likelihoods that factorize over them.

    Parameters
    ----------
    representation : Representation
        Of every function.
    kernel : Kernel or PerLatent
        Shared by all functions, or one each.
    inputs : Inputs
    n_latent : int
    mean_function : PerLatent, optional
        One mean function each; zero if none.
    """

    def __init__(
        self,
        representation: Representation,
        kernel: Kernel | PerLatent,
        inputs: Inputs,
        n_latent: int,
        mean_function: PerLatent | None = None,
    ) -> None:
        if isinstance(kernel, PerLatent) and len(kernel) != n_latent:
            raise ValueError(f"the likelihood has {n_latent} latent functions, got {len(kernel)} kernels")
        self.representation, self.kernel, self.mean_function = representation, kernel, mean_function
        self.inputs, self.n, self.n_latent = inputs, len(inputs), n_latent
        self.shared = not isinstance(kernel, PerLatent)
        kernels = [kernel] if self.shared else list(cast(PerLatent, kernel))
        own = [
            representation.prior(cast(Kernel, k), None, part)
            for k, part in zip(kernels, inputs.parts(len(kernels)))
        ]
        self.functions = own * n_latent if self.shared else own
        self.mean = np.zeros((self.n, n_latent))
        if mean_function is not None:
            self.mean = np.column_stack([inputs.source.evaluate(cast(Mean, m)) for m in mean_function])

    @property
    def X(self) -> Array:
        """All inputs (n, D)."""
        return self.inputs.X

    def at(self, kernel: Any, mean_function: Any) -> Self:
        """The same rows with other hyperparameters, in memory of its own."""
        inputs = self.representation.prepare(self.inputs.source)
        return type(self)(self.representation, kernel, inputs, self.n_latent, mean_function)

    def rows(self, index: Any) -> Self:
        """The same processes at some of the rows."""
        inputs = self.representation.prepare(self.inputs.source.take(index))
        return type(self)(self.representation, self.kernel, inputs, self.n_latent, self.mean_function)

    def condition_separately(
        self, precision: Array, known: Sequence[Conditioning] | None = None
    ) -> SeparateConditioning:
        """Given sites of each function alone, of precisions (n, L); `known` is what they make of each function."""
        if known is None:
            known = [p.condition(tau) for p, tau in zip(self.functions, precision.T)]
        return SeparateConditioning(self, precision, known)

    def process(self, weights: Array, conditioning: SeveralConditioning) -> SeveralProcess:
        """The posterior processes anywhere, given weights (n, L)."""
        parts = cast(SeparateConditioning, conditioning).functions
        each = [self.function(c).process(a, part) for c, (a, part) in enumerate(zip(weights.T, parts))]
        return SeparateProcess(each, weights, conditioning)

    def pull_mean(self, G: Array) -> Array:
        """Gradient, in the natural values of the mean functions, of sum_ic G_ic m_c(x_i)."""
        if self.mean_function is None:
            return np.zeros(0)
        return np.concatenate([self.function(c).pull_mean(g) for c, g in enumerate(G.T)])

    # --- what couples the functions -------------------------------------------------------------------------

    def _refused(self, given: Array) -> NoReturn:
        raise CapabilityError(self.representation.name, Capability.SEVERAL_FUNCTIONS)

    condition: Callable[..., Any] = _refused
    condition_softmax: Callable[..., Any] = _refused
    unwhiten: Callable[..., Any] = _refused
    whiten: Callable[..., Any] = _refused
    downward: Callable[..., Any] = _refused


class SeparateConditioning:
    """R for sites of each function alone: that of each function for itself.

    Parameters
    ----------
    precision : array (n, L)
        Of the sites.
    functions : sequence of Conditioning
        What they make of each function.
    """

    def __init__(self, prior: Any, precision: Array, functions: Sequence[Conditioning]) -> None:
        self.prior, self.curvature, self.functions = prior, precision, list(functions)
        self.log_det = float(sum(f.log_det for f in functions))
        self.jitter = max(f.jitter for f in functions)

    @property
    def smallest_curvature(self) -> float:
        """Of the function that has least left."""
        return min(f.smallest_curvature for f in self.functions)

    def project(self, b: Array) -> tuple[Array, Array]:
        """Function by function."""
        pairs = [f.project(x) for f, x in zip(self.functions, b.T)]
        return np.column_stack([a for a, _ in pairs]), np.column_stack([Ka for _, Ka in pairs])

    def training_blocks(self) -> Array:
        """Variances on the diagonal."""
        var = np.column_stack([f.var for f in self.functions])
        return var[:, :, None] * np.eye(len(self.functions))

    marginal_blocks = training_blocks

    def loss(self) -> Loss:
        """Of all functions together: functions count by the precision of their sites."""
        each = [f.loss() for f in self.functions]
        if all(part.kind == "exact" for part in each):
            return Loss()
        total = np.maximum(self.curvature, 0.0).sum(axis=0)
        lost = float(total @ [part.information for part in each]) / max(float(total.sum()), TINY)
        return Loss(np.nan, "none", lost)

    def pull_prior(self, left: Array, right: Array, d_log_det: float) -> PriorGradient:
        """Function by function; a kernel that is shared has the sum."""
        pairs = zip(self.functions, left.T, right.T)
        each = [f.pull_prior(a[:, None], b[:, None], d_log_det) for f, a, b in pairs]
        kernels = [g.kernel for g in each]
        of_kernel = sum(kernels) if self.prior.shared else np.concatenate(kernels)
        return PriorGradient(np.asarray(of_kernel), np.asarray(sum(g.representation for g in each)))

    def reduce(self, cross: Sequence[Array]) -> tuple[list[Array], list[Array]]:
        """U_c = R_c k_c, and nothing between the functions."""
        U = [f.apply(k) for f, k in zip(self.functions, cross)]
        return U, [np.zeros((0, k.shape[1])) for k in cross]


class SeparateProcess:
    """L independent Gaussian processes, after data.

    Parameters
    ----------
    functions : sequence of Process
    weights : array (n, L)
    conditioning : SeveralConditioning
    """

    basis = None
    """Several functions have no basis functions with weights integrated out."""

    def __init__(
        self, functions: Sequence[Process], weights: Array, conditioning: SeveralConditioning
    ) -> None:
        self.functions, self.weights, self.conditioning = list(functions), weights, conditioning

    def mean(self, X: ArrayLike) -> Array:
        """Posterior means, shape (m, L)."""
        return np.column_stack([f.mean(X) for f in self.functions])

    def variance(self, X: ArrayLike) -> Array:
        """Posterior variances, shape (m, L)."""
        return np.column_stack([f.variance(X) for f in self.functions])

    def blocks(self, X: ArrayLike) -> Array:
        """Variances on the diagonal, shape (m, L, L)."""
        return self.variance(X)[:, :, None] * np.eye(len(self.functions))

    def covariance(self, X: ArrayLike) -> Array:
        """Posterior covariance among all functions and rows of X, shape (m, L, m, L)."""
        parts = [f.covariance(X) for f in self.functions]
        m, L = len(parts[0]), len(parts)
        out = np.zeros((m, L, m, L))
        for c, part in enumerate(parts):
            out[:, c, :, c] = part
        return out

    def sample(self, X: ArrayLike, size: int = 1, rng: np.random.Generator | int | None = None) -> Array:
        """Joint draws, shape (size, m, L)."""
        rng = np.random.default_rng(rng)
        return np.stack([f.sample(X, size, rng) for f in self.functions], axis=-1)

    def mean_gradient(self, X: ArrayLike) -> Array:
        """d mean / dx at each row of X, shape (m, D, L)."""
        return np.stack([cast(Any, f).mean_gradient(X) for f in self.functions], axis=-1)

    def variance_gradient(self, X: ArrayLike) -> Array:
        """Not available for several latent functions."""
        raise ValueError("derivatives of the variance are available for one latent function only")
