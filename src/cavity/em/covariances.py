"""Covariance structures of Gaussian and Student-t components: full, tied, diag, spherical, factor analysis.

A structure turns the scatter matrices of an M-step into parameters, and those into Cholesky factors for the
E-step. With M_k the (regularized) scatter of component k and c_k its
(regularized) count, an M-step maximizes sum_k -(c_k log|Sigma_k| + tr(Sigma_k^-1 M_k)) / 2 over the
structure.

Factor analysis, Sigma = W W' + diag(psi), has no closed form. Given psi, W follows from the leading
eigenvectors of psi^-1/2 (M/c) psi^-1/2; given W, one EM step in psi. Alternating the two never lowers the
M-step's objective, so the whole is a generalized EM algorithm.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from cavity.em.checks import is_whole
from cavity.em.expectation_maximization import DegeneracyError
from cavity.em.transforms import POSITIVE, REAL, SPD, Coordinates, lower_indices
from cavity.numerics.arrays import Array

Params = dict[str, Array]

FACTOR_SWEEPS = 5  # alternations of the factor-analysis M-step per EM step


class CovarianceStructure(ABC):
    """One way of constraining K covariance matrices of size D x D."""

    coordinates: ClassVar[dict[str, Coordinates]] = {"covariances": SPD}
    diagonal = False  # only diagonal second moments are needed
    pooled = False  # one matrix for all components

    @abstractmethod
    def estimate(self, scatter: Array, counts: Array, old: Params | None) -> Params:
        """Maximize over the structure; scatter (K, D, D) or (K, D) if diagonal, counts (K,)."""

    @abstractmethod
    def matrices(self, params: Params) -> Array:
        """Covariances as full matrices (K, D, D) ((1, D, D) if pooled)."""

    def redundant(self, n_features: int) -> int:
        """Coordinates of each component that change no covariance."""
        return 0

    def factors(self, params: Params, n_components: int) -> tuple[Array, Array]:
        """Packed factors (K, P) with reciprocal diagonals for the kernels, and log|Sigma_k| (K,)."""
        lower = cholesky(self.matrices(params))
        d = lower.shape[-1]
        i, j = lower_indices(d)
        packed = lower[:, i, j]
        packed[:, i == j] = 1.0 / packed[:, i == j]
        logdet = -2.0 * np.sum(np.log(packed[:, i == j]), axis=1)
        if len(packed) == 1:
            packed, logdet = np.repeat(packed, n_components, axis=0), np.repeat(logdet, n_components)
        return packed, logdet

    def trace_inverse(self, params: Params, m: Array) -> Array:
        """tr(Sigma_k^-1 M_k) for M (K, D, D), as tr(L^-1 M L^-T): never negative for M >= 0."""
        lower = cholesky(self.matrices(params))
        half = np.linalg.solve(lower, m)
        whole = np.linalg.solve(lower, np.swapaxes(half, -1, -2))
        return np.asarray(np.trace(whole, axis1=-2, axis2=-1))


def cholesky(matrices: Array) -> Array:
    """Lower Cholesky factors of (K, D, D), or an error that names the component."""
    try:
        return np.asarray(np.linalg.cholesky(matrices))
    except np.linalg.LinAlgError:
        pass
    lowest = np.linalg.eigvalsh(matrices)[:, 0]
    k = int(np.argmin(lowest))
    raise DegeneracyError(
        f"the covariance of component {k} is not positive definite (smallest eigenvalue {lowest[k]:.3g}): "
        "it has collapsed onto few points or collinear features; set reg_covar > 0, give a prior or use "
        "fewer components"
    )


class FullCovariance(CovarianceStructure):
    """A free matrix for every component, covariances (K, D, D)."""

    def estimate(self, scatter: Array, counts: Array, old: Params | None) -> Params:
        """Scatter over count."""
        return {"covariances": scatter / counts[:, None, None]}

    def matrices(self, params: Params) -> Array:
        """As they are."""
        return params["covariances"]


class TiedCovariance(CovarianceStructure):
    """One matrix shared by all components, covariances (D, D)."""

    pooled = True

    def estimate(self, scatter: Array, counts: Array, old: Params | None) -> Params:
        """Pooled scatter over pooled count."""
        return {"covariances": scatter.sum(axis=0) / counts.sum()}

    def matrices(self, params: Params) -> Array:
        """The one matrix, as (1, D, D)."""
        return params["covariances"][None]


class DiagonalCovariance(CovarianceStructure):
    """Axis-aligned components, covariances (K, D) hold variances."""

    coordinates: ClassVar[dict[str, Coordinates]] = {"covariances": POSITIVE}
    diagonal = True

    def estimate(self, scatter: Array, counts: Array, old: Params | None) -> Params:
        """Variances: sums of squares over count."""
        return {"covariances": scatter / counts[:, None]}

    def _variances(self, params: Params) -> Array:
        return params["covariances"]

    def matrices(self, params: Params) -> Array:
        """Diagonal matrices."""
        v = self._variances(params)
        return np.asarray(v[:, :, None] * np.eye(v.shape[1]))

    def factors(self, params: Params, n_components: int) -> tuple[Array, Array]:
        """Reciprocal standard deviations and log determinants."""
        v = self._variances(params)
        if not np.all(v > 0):
            k = int(np.argmin(v.min(axis=1)))
            raise DegeneracyError(
                f"component {k} has variance {v[k].min():.3g}: it has collapsed; set reg_covar > 0, give "
                "a prior or use fewer components"
            )
        return 1.0 / np.sqrt(v), np.sum(np.log(v), axis=1)

    def trace_inverse(self, params: Params, m: Array) -> Array:
        """Sum of M_kd / v_kd for M (K, D)."""
        return np.asarray(np.sum(m / self._variances(params), axis=-1))


class SphericalCovariance(DiagonalCovariance):
    """One variance per component, covariances (K,)."""

    def __init__(self, n_features: int = 1) -> None:
        self.n_features = n_features

    def estimate(self, scatter: Array, counts: Array, old: Params | None) -> Params:
        """Sum of squares over D times the count."""
        return {"covariances": scatter.sum(axis=1) / (counts * scatter.shape[1])}

    def _variances(self, params: Params) -> Array:
        return np.repeat(params["covariances"][:, None], self.n_features, axis=1)


class FactorCovariance(CovarianceStructure):
    """Factor analysis: loadings (K, D, q) and noise variances (K, D); covariances W W' + diag(noise)."""

    coordinates: ClassVar[dict[str, Coordinates]] = {"loadings": REAL, "noise_variances": POSITIVE}

    def __init__(self, n_factors: int) -> None:
        self.n_factors = n_factors

    def estimate(self, scatter: Array, counts: Array, old: Params | None) -> Params:
        """Alternate exact loadings and an EM step of the noise, from the old parameters if there are any."""
        cov = scatter / counts[:, None, None]
        variances = np.diagonal(cov, axis1=1, axis2=2)
        noise = old["noise_variances"].copy() if old else 0.5 * variances
        loadings = np.zeros((*variances.shape, self.n_factors))
        for _ in range(FACTOR_SWEEPS):
            loadings = _best_loadings(cov, noise, self.n_factors)
            noise = _noise_step(cov, loadings, noise)
        # The last noise step was taken after the loadings: nothing is left stale, both were used to raise Q.
        return {"loadings": loadings, "noise_variances": noise}

    def matrices(self, params: Params) -> Array:
        """W W' + diag(noise)."""
        w, noise = params["loadings"], params["noise_variances"]
        return np.asarray(w @ np.swapaxes(w, 1, 2) + noise[:, :, None] * np.eye(noise.shape[1]))

    def redundant(self, n_features: int) -> int:
        """Rotations of the loadings, and what is more than a full matrix has."""
        d, q = n_features, self.n_factors
        rotations = q * (q - 1) // 2
        return rotations + max(0, d * q + d - rotations - d * (d + 1) // 2)


def _best_loadings(cov: Array, noise: Array, n_factors: int) -> Array:
    """Maximizing loadings given the noise: leading eigenpairs of the covariance in noise units, less one."""
    root = np.sqrt(noise)
    values, vectors = np.linalg.eigh(cov / (root[:, :, None] * root[:, None, :]))
    top, directions = values[:, -n_factors:], vectors[:, :, -n_factors:]
    # Fix the sign of every factor by its largest loading, so that results repeat.
    largest = np.take_along_axis(directions, np.argmax(np.abs(directions), axis=1)[:, None, :], axis=1)
    directions = directions * np.sign(largest)
    return np.asarray(root[:, :, None] * directions * np.sqrt(np.maximum(top - 1.0, 0.0))[:, None, :])


def _noise_step(cov: Array, loadings: Array, noise: Array) -> Array:
    """EM step of the noise with the loadings held: diag E[(x - W z)(x - W z)']."""
    sigma = loadings @ np.swapaxes(loadings, 1, 2) + noise[:, :, None] * np.eye(noise.shape[1])
    residual = noise[:, :, None] * np.linalg.solve(sigma, cov)  # psi Sigma^-1 C
    # E[(x - Wz)(x - Wz)'] = psi - psi Sigma^-1 psi + psi Sigma^-1 C Sigma^-1 psi
    inverse_noise = np.linalg.solve(sigma, noise[:, :, None] * np.eye(noise.shape[1]))
    quadratic = np.einsum("kij,kji->ki", residual, inverse_noise)
    own = noise - noise * np.diagonal(inverse_noise, axis1=1, axis2=2)
    return np.asarray(own + quadratic)


STRUCTURES = ("full", "tied", "diag", "spherical", "factor")


def make_structure(name: str, n_features: int, n_factors: int) -> CovarianceStructure:
    """Structure by name, checked."""
    if name == "factor" and not (is_whole(n_factors) and 1 <= n_factors <= n_features):
        raise ValueError(
            f"n_factors={n_factors!r} must be a whole number between 1 and the number of features, {n_features}"
        )
    match name:
        case "full":
            return FullCovariance()
        case "tied":
            return TiedCovariance()
        case "diag":
            return DiagonalCovariance()
        case "spherical":
            return SphericalCovariance(n_features)
        case "factor":
            return FactorCovariance(int(n_factors))
    raise ValueError(f"covariance_type={name!r} is not known; choose one of {', '.join(STRUCTURES)}")
