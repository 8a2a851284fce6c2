"""Exact moments of polynomial models at a Gaussian input.

A polynomial kernel is k(x, x') = sum_j c_j x^j x'^j over multi-indices j (products and sums of linear, constant and
polynomial kernels keep this form), so the posterior mean and variance are polynomials p(x), v(x), and

    E p = sum_j p_j M_j,    M_j = E x^j.

Moments follow from Stein's lemma, E[x_d x^j] = m_d M_j + sum_e S_de j_e M_(j - e_e), up to degree twice that of the
kernel. Their derivatives are moments again (Price's theorem): with dx^j/dx_d = j_d x^(j - e_d),

    dM_j/dm_d = j_d M_(j - e_d),      dM_j/dS_de = (second derivative of x^j in x_d, x_e) / 2.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cavity.control.uncertain_inputs.decomposition import NotAnalyticError, linear_mean, noise_variances
from cavity.control.uncertain_inputs.output_moments import ExactMoments, OutputMoments
from cavity.kernels.algebra import On, Power, Product, Scaled, Sum
from cavity.kernels.base import Kernel
from cavity.kernels.constant import Constant
from cavity.kernels.linear import Linear
from cavity.kernels.polynomial import Polynomial
from cavity.kernels.white_noise import White
from cavity.latent.posterior_process import PosteriorProcess
from cavity.numerics.arrays import Array

Index = tuple[int, ...]
Terms = dict[Index, float]

MOST_MOMENTS = 50_000
"""Moments of a Gaussian beyond which the closed form is not worth its memory."""


def _times(a: Terms, b: Terms) -> Terms:
    """Product of two polynomials."""
    out: Terms = {}
    for i, x in a.items():
        for j, y in b.items():
            key = tuple(p + q for p, q in zip(i, j))
            out[key] = out.get(key, 0.0) + x * y
    return out


def _plus(a: Terms, b: Terms) -> Terms:
    out = dict(a)
    for j, y in b.items():
        out[j] = out.get(j, 0.0) + y
    return out


def kernel_terms(kernel: Kernel, D: int) -> tuple[Terms, float]:
    """c_j of k(x, x') = sum_j c_j x^j x'^j, and the variance of white noise.

    Raises
    ------
    NotAnalyticError
        If the kernel is not polynomial.
    """
    one: Index = (0,) * D
    if isinstance(kernel, Scaled):
        terms, white = kernel_terms(kernel.kernel, D)
        return {j: kernel.variance * c for j, c in terms.items()}, kernel.variance * white
    if isinstance(kernel, Sum):
        total: Terms = {}
        noise = 0.0
        for part in kernel.terms:
            terms, white = kernel_terms(part, D)
            total, noise = _plus(total, terms), noise + white
        return total, noise
    if isinstance(kernel, Product | Power):
        factors = kernel.terms if isinstance(kernel, Product) else (kernel.kernel,) * kernel.exponent
        total = {one: 1.0}
        for part in factors:
            terms, white = kernel_terms(part, D)
            if white:
                raise NotAnalyticError(f"the product {kernel!r} has no closed-form moments")
            total = _times(total, terms)
        return total, 0.0
    if isinstance(kernel, On):
        terms, white = kernel_terms(kernel.kernel, len(kernel.dims))
        wide: Terms = {}
        for j, c in terms.items():
            index = [0] * D
            for d, power in zip(kernel.dims, j):
                index[d] = power
            wide[tuple(index)] = c
        return wide, white
    if isinstance(kernel, Linear | Polynomial):
        variance = np.broadcast_to(kernel.variance, D)
        base: Terms = {tuple(int(d == e) for e in range(D)): float(variance[d]) for d in range(D)}
        if kernel._offset:
            base[one] = kernel._offset
        total = {one: 1.0}
        for _ in range(kernel.degree if isinstance(kernel, Polynomial) else 1):
            total = _times(total, base)
        return total, 0.0
    if isinstance(kernel, Constant):
        return {one: float(kernel.variance)}, 0.0
    if isinstance(kernel, White):
        return {}, float(kernel.variance)
    raise NotAnalyticError(f"the kernel {kernel!r} has no closed-form moments")


def _monomials(X: Array, indices: list[Index]) -> Array:
    return np.column_stack([np.prod(X ** np.array(j), axis=1) for j in indices])


def _posterior_terms(process: PosteriorProcess) -> tuple[list[Terms], Terms]:
    """Mean polynomials (one for each target) and the variance polynomial."""
    if type(process) is not PosteriorProcess or process.basis is not None:
        raise NotAnalyticError("basis functions with polynomial kernels have no closed-form moments here")
    D = process.X.shape[1]
    terms, white = kernel_terms(process.kernel, D)
    indices = list(terms)
    c = np.array([terms[j] for j in indices])
    Phi = _monomials(process.X, indices) * c
    weights = process.weights.reshape(len(process.X), -1)
    units: list[Index] = [(0,) * D, *(tuple(int(d == e) for e in range(D)) for d in range(D))]
    trend = dict(zip(units, map(float, linear_mean(process.mean_function, D))))
    means = [_plus(dict(zip(indices, map(float, Phi.T @ w))), trend) for w in weights.T]
    reduced = np.diag(c) - Phi.T @ process.conditioning.matrix() @ Phi
    variance: Terms = {units[0]: white}
    for i, row in zip(indices, reduced):
        variance = _plus(variance, _times({i: 1.0}, dict(zip(indices, map(float, row)))))
    return means, variance


def _derivative(terms: Terms, d: int) -> Terms:
    out: Terms = {}
    for j, c in terms.items():
        if j[d]:
            key = j[:d] + (j[d] - 1,) + j[d + 1 :]
            out[key] = out.get(key, 0.0) + j[d] * c
    return out


@dataclass(frozen=True)
class PolynomialCache:
    """Input distribution, moments of it, and the results."""

    m: Array
    S: Array
    moments: Array
    mean: Array
    gain: Array


class PolynomialMoments(ExactMoments[PolynomialCache]):
    """Moments of outputs that are polynomials with random coefficients; same use as `GaussianMoments`.

    Parameters
    ----------
    means : list of polynomials
    variances : list of polynomials
        Variance of each output given x.
    D : int
    """

    def __init__(self, means: list[Terms], variances: list[Terms], D: int) -> None:
        self.D, self.E = D, len(means)
        products = [[_times(means[a], means[b]) for b in range(a + 1)] for a in range(self.E)]
        for a in range(self.E):
            products[a][a] = _plus(products[a][a], variances[a])
        flat = [p for row in products for p in row]
        self._first = np.array([a for a in range(self.E) for _ in range(a + 1)])
        self._second = np.array([b for a in range(self.E) for b in range(a + 1)])
        self._make_table([*means, *flat])
        self.mean_rows = self._rows(means)
        self.product_rows = self._rows(flat)
        self.gain_rows = np.stack([self._rows([_derivative(p, d) for p in means]) for d in range(D)])

    @classmethod
    def of(cls, posteriors: Any, noise: bool = False) -> PolynomialMoments:
        """From fitted models with polynomial kernels and zero, constant or linear means."""
        listed = list(posteriors) if isinstance(posteriors, list | tuple) else [posteriors]
        means: list[Terms] = []
        variances: list[Terms] = []
        for posterior in listed:
            made, variance = _posterior_terms(posterior.process)
            D = posterior.process.X.shape[1]
            added: Terms = {(0,) * D: noise_variances(posterior)} if noise else {}
            means += made
            variances += [_plus(variance, added)] * len(made)
        return cls(means, variances, listed[0].process.X.shape[1])

    def _make_table(self, polynomials: Iterable[Terms]) -> None:
        """All multi-indices that occur and those their recursion needs, by degree."""
        needed = {(0,) * self.D}
        stack = [j for p in polynomials for j in p]
        while stack:
            j = stack.pop()
            if j in needed:
                continue
            needed.add(j)
            if len(needed) > MOST_MOMENTS:
                raise NotAnalyticError(f"polynomials in {self.D} inputs of this degree have too many moments")
            stack += [j[:d] + (j[d] - 1,) + j[d + 1 :] for d in range(self.D) if j[d]]
        self.indices = sorted(needed, key=lambda j: (sum(j), j))
        self.where = {j: k for k, j in enumerate(self.indices)}
        powers = np.array(self.indices)
        # down[k, d]: position of j - e_d, 0 (with a factor of zero) if there is none
        self.down = np.zeros((len(powers), self.D), dtype=int)
        for k, j in enumerate(self.indices):
            for d in range(self.D):
                if j[d]:
                    self.down[k, d] = self.where[j[:d] + (j[d] - 1,) + j[d + 1 :]]
        self.powers = powers

    def _rows(self, polynomials: list[Terms]) -> Array:
        """Coefficients over the table, one row for each polynomial."""
        out = np.zeros((len(polynomials), len(self.indices)))
        for row, p in zip(out, polynomials):
            for j, c in p.items():
                row[self.where[j]] += c
        return out

    def _moments(self, m: Array, S: Array) -> Array:
        M = np.zeros(len(self.indices))
        M[0] = 1.0
        for k in range(1, len(M)):
            d = int(np.argmax(self.powers[k] > 0))
            lower = self.down[k, d]
            M[k] = m[d] * M[lower] + S[d] @ (self.powers[lower] * M[self.down[lower]])
        return M

    def _forward(self, mu: Array, S: Array) -> tuple[OutputMoments, PolynomialCache]:
        M = self._moments(mu, S)
        mean, gain = self.mean_rows @ M, self.gain_rows @ M
        V = np.zeros((self.E, self.E))
        V[self._first, self._second] = self.product_rows @ M - mean[self._first] * mean[self._second]
        V = V + np.tril(V, -1).T
        return OutputMoments(mean, V, gain, S @ gain), PolynomialCache(mu, S, M, mean, gain)

    def _pull(
        self,
        c: PolynomialCache,
        d_mean: Array | None,
        d_cov: Array | None,
        d_cross: Array | None,
        d_gain: Array | None,
    ) -> tuple[Array, Array]:
        mb = np.zeros(self.E) if d_mean is None else d_mean.copy()
        qb = np.zeros((self.D, self.E)) if d_gain is None else d_gain.copy()
        d_S = np.zeros((self.D, self.D))
        M_bar = np.zeros(len(c.moments))
        if d_cross is not None:
            qb += c.S @ d_cross
            d_S += d_cross @ c.gain.T
        if d_cov is not None:
            Vb = 0.5 * (d_cov + d_cov.T)
            mb -= 2.0 * Vb @ c.mean
            weight = Vb[self._first, self._second] * np.where(self._first == self._second, 1.0, 2.0)
            M_bar += weight @ self.product_rows
        M_bar += mb @ self.mean_rows + np.tensordot(qb, self.gain_rows, 2)
        M = c.moments
        d_m = M_bar @ (self.powers * M[self.down])
        for d in range(self.D):
            # second derivatives in x_d and x_e: j_d (j - e_d)_e M_(j - e_d - e_e)
            lower = self.down[:, d]
            d_S[d] += 0.5 * (M_bar * self.powers[:, d]) @ (self.powers[lower] * M[self.down[lower]])
        return d_m, 0.5 * (d_S + d_S.T)
