"""A posterior taken apart into Gaussian bumps and polynomials of degree two, if its parts allow it.

With phi(x) = (1, x) the kernels and means handled here are

    k(x, x') = sum_t s_t exp(-(x - x')' Lam_t (x - x') / 2) + phi(x)' C phi(x') + white noise,
    m(x) = beta' phi(x), with weights beta fixed or integrated out (h(x) = A phi(x)),

that is squared exponentials in any metric, sums and products of them, linear and constant kernels; zero, constant and
linear means. The posterior, with the correction R of `latent.dense`, basis weights N(beta, Q^-1) and projection
P = R H, M = R - P Q^-1 P', b_t(x) the bumps of term t at the n training inputs, Phi the rows phi(x_i), is then

    mean      alpha' sum_t b_t + slope' phi,
    variance  sum_t s_t + phi' V phi - sum_tt' b_t' M b_t' - sum_t b_t' U phi,
    U = 2 (M Phi C + P Q^-1 A),   V = C - C Phi' M Phi C - 2 sym(A' Q^-1 P' Phi C) + A' Q^-1 A.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from cavity.kernels.algebra import On, Power, Product, Scaled, Sum
from cavity.kernels.base import Kernel
from cavity.kernels.basis_functions import FeatureKernel
from cavity.kernels.constant import Constant
from cavity.kernels.linear import Linear
from cavity.kernels.polynomial import Polynomial
from cavity.kernels.squared_exponential import SE
from cavity.kernels.white_noise import White
from cavity.latent.posterior_process import PosteriorProcess
from cavity.means.basis import Basis
from cavity.means.basis_features import Powers
from cavity.means.functions import Constant as ConstantMean
from cavity.means.functions import Linear as LinearMean
from cavity.means.functions import Mean, Zero
from cavity.means.functions import Sum as SumMean
from cavity.numerics.arrays import Array
from cavity.posterior import Posterior


class NotAnalyticError(ValueError):
    """A part of a model for which there are no closed-form moments; the message names it."""


@dataclass(frozen=True)
class Decomposition:
    """A kernel as bumps plus a linear part plus white noise.

    Attributes
    ----------
    bumps : tuple of (height, metric (D, D))
    linear : array (D + 1, D + 1)
        C, the covariance of the weights of (1, x).
    white : float
    """

    bumps: tuple[tuple[float, Array], ...]
    linear: Array
    white: float = 0.0

    def scaled(self, factor: float) -> Decomposition:
        """factor * k."""
        bumps = tuple((factor * s, metric) for s, metric in self.bumps)
        return Decomposition(bumps, factor * self.linear, factor * self.white)

    def plus(self, other: Decomposition) -> Decomposition:
        """k + k'."""
        return Decomposition(self.bumps + other.bumps, self.linear + other.linear, self.white + other.white)

    def times(self, other: Decomposition, text: str) -> Decomposition:
        """k * k', if that is of the same form: metrics add up, constants scale."""
        for one, two in ((self, other), (other, self)):
            trend = np.any(one.linear[1:]) or np.any(one.linear[:, 1:])
            if (trend and (two.bumps or np.any(two.linear[1:]))) or one.white:
                raise NotAnalyticError(f"the product {text} has no closed-form moments")
        c, d = float(self.linear[0, 0]), float(other.linear[0, 0])
        bumps = tuple((s * r, L + M) for s, L in self.bumps for r, M in other.bumps)
        bumps += tuple((s * d, L) for s, L in self.bumps if d)
        bumps += tuple((r * c, M) for r, M in other.bumps if c)
        linear = c * other.linear + d * self.linear
        linear[0, 0] = c * d
        return Decomposition(bumps, linear)


def decompose(kernel: Kernel, D: int) -> Decomposition:
    """The kernel on D input columns in parts with closed-form moments.

    Raises
    ------
    NotAnalyticError
        If a part has none.
    """
    nothing = np.zeros((D + 1, D + 1))
    if isinstance(kernel, Scaled):
        return decompose(kernel.kernel, D).scaled(float(kernel.variance))
    if isinstance(kernel, Sum):
        total = Decomposition((), nothing)
        for term in kernel.terms:
            total = total.plus(decompose(term, D))
        return total
    if isinstance(kernel, Product | Power):
        factors = kernel.terms if isinstance(kernel, Product) else (kernel.kernel,) * kernel.exponent
        product = decompose(factors[0], D)
        for factor in factors[1:]:
            product = product.times(decompose(factor, D), repr(kernel))
        return product
    if isinstance(kernel, On):
        return _embedded(decompose(kernel.kernel, len(kernel.dims)), kernel.dims, D)
    if isinstance(kernel, SE):
        return Decomposition(((1.0, _metric(kernel, D)),), nothing)
    if isinstance(kernel, Linear) or (isinstance(kernel, Polynomial) and kernel.degree == 1):
        C = np.diag(np.concatenate([[kernel._offset], np.broadcast_to(kernel.variance, D)]))
        return Decomposition((), C)
    if isinstance(kernel, Constant):
        C = nothing.copy()
        C[0, 0] = kernel.variance
        return Decomposition((), C)
    if isinstance(kernel, White):
        return Decomposition((), nothing, float(kernel.variance))
    if isinstance(kernel, FeatureKernel):
        A = _linear_features(kernel.basis, D)
        return Decomposition((), A.T @ kernel.basis.prior_covariance @ A)
    raise NotAnalyticError(f"the kernel {kernel!r} has no closed-form moments")


def _metric(kernel: SE, D: int) -> Array:
    M = np.diag(np.broadcast_to(1.0 / np.asarray(kernel.lengthscale, dtype=float) ** 2, D)).copy()
    if "loadings" in kernel._params:
        M += kernel.loadings @ kernel.loadings.T
    return M


def _embedded(part: Decomposition, dims: Sequence[int], D: int) -> Decomposition:
    """A decomposition on some columns as one on all of them."""
    where = np.asarray(dims, dtype=int)
    bumps = []
    for height, metric in part.bumps:
        wide = np.zeros((D, D))
        wide[np.ix_(where, where)] = metric
        bumps.append((height, wide))
    C = np.zeros((D + 1, D + 1))
    rows = np.concatenate([[0], where + 1])
    C[np.ix_(rows, rows)] = part.linear
    return Decomposition(tuple(bumps), C, part.white)


def _linear_features(basis: Basis, D: int) -> Array:
    """A with h(x) = A (1, x), shape (p, D + 1)."""
    rows = []
    for f in basis.functions:
        if not isinstance(f, Powers) or f.degree > 1:
            raise NotAnalyticError(f"the basis functions {f!r} have no closed-form moments here")
        rows.append(np.eye(D + 1)[: f.width(D)])
    return np.vstack(rows)


def linear_mean(mean: Mean | None, D: int) -> Array:
    """beta with m(x) = beta' (1, x), shape (D + 1,)."""
    out = np.zeros(D + 1)
    if mean is None or isinstance(mean, Zero):
        return out
    if isinstance(mean, ConstantMean):
        out[0] = mean.value
        return out
    if isinstance(mean, LinearMean):
        out[0], out[1:] = mean.intercept, mean.slopes
        return out
    if isinstance(mean, SumMean):
        return cast(Array, sum(linear_mean(m, D) for m in mean.terms))
    if isinstance(mean, Basis):
        return linear_mean(mean.offset, D) + mean.prior_mean @ _linear_features(mean, D)
    raise NotAnalyticError(f"the mean {mean!r} has no closed-form moments")


@dataclass(frozen=True)
class AnalyticOutput:
    """One output: bumps with weights, a linear trend, and the variance given x.

    Attributes
    ----------
    X : array (n, D)
    bumps : tuple of (height, metric)
    alpha : array (n,)
        Weights of the bumps in the mean, the same for every term.
    reduction : array (n, n)
        M.
    trend : array (D + 1,)
        Weights of (1, x) in the mean.
    constant : float
        Variance that does not depend on x: heights of the bumps and white noise.
    quadratic : array (D + 1, D + 1)
        V.
    coupling : array (n, D + 1) or None
        U; None if it is zero.
    """

    X: Array
    bumps: tuple[tuple[float, Array], ...]
    alpha: Array
    reduction: Array
    trend: Array
    constant: float
    quadratic: Array
    coupling: Array | None = field(default=None)

    @property
    def D(self) -> int:
        """Number of inputs."""
        return int(self.X.shape[1])


def analytic_outputs(process: PosteriorProcess) -> list[AnalyticOutput]:
    """The outputs of a posterior process (one for each target).

    Raises
    ------
    NotAnalyticError
        If kernel or mean have no closed-form moments.
    """
    if type(process) is not PosteriorProcess:
        raise NotAnalyticError(
            f"{type(process).__name__} (several latent functions) has no closed-form moments"
        )
    X = process.X
    n, D = X.shape
    parts = decompose(process.kernel, D)
    beta = linear_mean(process.mean_function, D)
    C, Phi = parts.linear, np.column_stack([np.ones(n), X])
    M = process.conditioning.matrix()
    basis, A, solved = process.basis, np.zeros((0, D + 1)), np.zeros((0, n))
    V = C.copy()
    if basis is not None:
        A = _linear_features(cast(Basis, process.mean_function), D)
        solved = basis.precision.solve(basis.projection.T)  # Q^-1 P'
        M -= basis.projection @ solved
        cross = A.T @ (solved @ Phi @ C)
        V += A.T @ basis.precision.solve(A) - cross - cross.T
    MPC = M @ (Phi @ C)
    V -= C @ Phi.T @ MPC
    U = 2.0 * (MPC + solved.T @ A)
    weights = process.weights.reshape(n, -1)
    shifts = np.zeros((A.shape[0], weights.shape[1])) if basis is None else basis.shift.reshape(len(A), -1)
    return [
        AnalyticOutput(
            X,
            parts.bumps,
            np.ascontiguousarray(weights[:, k]),
            M,
            beta + A.T @ shifts[:, k] + C @ (Phi.T @ weights[:, k]),
            sum(s for s, _ in parts.bumps) + parts.white,
            0.5 * (V + V.T),
            U if np.any(U) else None,
        )
        for k in range(weights.shape[1])
    ]


def noise_variances(posterior: Posterior) -> float:
    """Variance that noise adds to f.

    Raises
    ------
    NotAnalyticError
        If observations are not f plus noise of one variance (labels, counts, known noise of single cases).
    ValueError
        If the noise has no variance.
    """
    likelihood = posterior.model.likelihood
    name = type(likelihood).__name__
    if likelihood.n_latent > 1 or likelihood.discrete:
        raise NotAnalyticError(f"observations with {name} are not a function plus noise")
    try:
        low, high = (likelihood.predictive(np.array([f]), np.zeros(1)) for f in (0.0, 1.0))
        additive = abs(high.mean[0] - low.mean[0] - 1.0) < 1e-6 and abs(low.mean[0]) < 1e-6
        values = float(low.variance[0]), float(high.variance[0])
    except ValueError as error:
        raise NotAnalyticError(f"the noise of {name} is not the same everywhere: {error}") from None
    if not additive or abs(values[0] - values[1]) > 1e-6 * max(values):
        raise NotAnalyticError(f"observations with {name} are not a function plus noise of one variance")
    if not np.isfinite(values[0]):
        raise ValueError(f"{name} has no finite noise variance: predict f itself with noise=False")
    return values[0]
