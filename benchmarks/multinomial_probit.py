"""The multinomial probit by nested EP (Riihimäki, Jylänki and Vehtari 2013), as a rival: small and plain, not fast.

    p(y = c | f) = P(f_c + e_c is the largest),    e standard normal.

With s the largest utility, s = f_y + e_y, the factors are N(s | f_y, 1) and Phi(s - f_k) for k != y. EP replaces each
Phi by a Gaussian site in s - f_k of precision a_k; with a_y = 1, integrating s out leaves a precision of f of
diag(a) - a a' / sum(a), so that the posterior has the structure of the softmax's curvature.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.optimize import minimize
from scipy.special import log_ndtr, ndtri
from scipy.stats import qmc

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

SWEEPS, INNER, DAMPING, TOLERANCE = 40, 3, 0.8, 1e-3
POINTS = 512
"""Quasi-random points for a prediction."""

SIGNAL = 400.0
"""Scale of the half-Cauchy prior of the signal variance: the default of `GPClassifier`."""


@dataclass
class Solution:
    """Sites, and what they make of the functions."""

    log_evidence: float
    cotangent: Array
    sites: tuple[Array, Array]
    E: list[Array]
    M: Array
    weights: Array


def _tilted(shift: Array, precision: Array) -> tuple[Array, Array, Array]:
    """Log normalizer, mean and variance of Phi(t) times a cavity."""
    m, v = shift / precision, 1.0 / precision
    s = np.sqrt(1.0 + v)
    z = m / s
    log_z = log_ndtr(z)
    r = np.exp(-0.5 * z * z - 0.5 * np.log(2 * np.pi) - log_z)
    return log_z, m + v * r / s, v - v * v * r * (z + r) / s**2


def _difference(a: Array, b: Array, mean: Array, cov: Array) -> tuple[Array, Array]:
    """Mean and variance of s - f_k for each k, given those of f."""
    total = a.sum(axis=1, keepdims=True)
    A = (a / total)[:, None, :] - np.eye(a.shape[1])
    centered = np.einsum("njc,nc->nj", A, mean) + b.sum(axis=1, keepdims=True) / total
    return centered, 1.0 / total + np.einsum("njc,ncd,njd->nj", A, cov, A)


def _precision(a: Array) -> Array:
    T = -a[:, :, None] * a[:, None, :] / a.sum(axis=1)[:, None, None]
    diagonal = np.arange(a.shape[1])
    T[:, diagonal, diagonal] += a
    return T


def _shift(a: Array, b: Array) -> Array:
    return a * (b.sum(axis=1) / a.sum(axis=1))[:, None] - b


def solve(K: Array, y: Codes, C: int, start: tuple[Array, Array] | None = None) -> Solution:
    """EP's fixed point, by damped sweeps over all rows with an inner EP in each."""
    n = len(K)
    other = np.arange(C) != y[:, None]
    a, b = (np.where(other, 0.05, 1.0), np.where(other, 0.1, 0.0)) if start is None else start
    for sweep in range(SWEEPS):
        nu = _shift(a, b)
        E, log_det = [], -float(np.log(a.sum(axis=1)).sum())
        for root in np.sqrt(a).T:
            L = cholesky(np.eye(n) + root[:, None] * K * root, lower=True)
            log_det += 2 * float(np.log(np.diagonal(L)).sum())
            E.append(root[:, None] * cho_solve((L, True), np.eye(n)) * root)
        M = cholesky(sum(E), lower=True)
        log_det += 2 * float(np.log(np.diagonal(M)).sum())
        Q = [solve_triangular(M, e, lower=True) for e in E]
        QK = np.array([q @ K for q in Q])
        S = np.einsum("cij,dij->jcd", QK, QK, optimize=True)
        for c in range(C):
            S[:, c, c] += np.diagonal(K) - np.einsum("ij,ij->j", K, E[c] @ K)
        Kn = K @ nu
        EKn = np.column_stack([e @ k for e, k in zip(E, Kn.T)])
        z = cho_solve((M, True), EKn.sum(axis=1))
        weights = nu - EKn + np.column_stack([e @ z for e in E])
        mean = K @ weights
        t_mean, t_var = _difference(a, b, mean, S)
        shift, precision = np.where(other, t_mean / t_var - b, 0.0), np.where(other, 1 / t_var - a, 1.0)
        log_z, new_mean, new_var = _tilted(shift, precision)
        gap = np.maximum(np.abs(new_mean - t_mean) / np.sqrt(t_var), np.abs(new_var / t_var - 1))
        if np.max(gap[other]) < TOLERANCE or sweep == SWEEPS - 1:
            break
        inverse = np.linalg.inv(S)
        cavity = inverse - _precision(a)
        cavity_shift = np.einsum("ncd,nd->nc", inverse, mean) - nu
        p, q = a, b
        for _ in range(INNER):
            V = np.linalg.inv(cavity + _precision(p))
            at = np.einsum("ncd,nd->nc", V, cavity_shift + _shift(p, q))
            m, v = _difference(p, q, at, V)
            rest, moved = np.where(other, 1 / v - p, 1.0), np.where(other, m / v - q, 0.0)
            _, tm, tv = _tilted(moved, rest)
            p = np.where(other, p + 0.9 * (np.maximum(1 / tv - rest, 1e-10) - p), 1.0)
            q = np.where(other, q + 0.9 * (tm / tv - moved - q), 0.0)
        a, b = a + DAMPING * (p - a), b + DAMPING * (q - b)
    total = a.sum(axis=1)
    value = -0.5 * log_det + 0.5 * float(np.sum(nu * mean))
    value += float(np.sum(b.sum(axis=1) ** 2 / (2 * total) - 0.5 * np.log(total)))
    overlap = 0.5 * ((b + shift) ** 2 / (a + precision) - shift**2 / precision - np.log1p(a / precision))
    value += float(np.sum((log_z - overlap)[other]))
    G = 0.5 * (weights @ weights.T - sum(E) + sum(q.T @ q for q in Q))
    return Solution(value, G, (a, b), E, M, weights)


def squares(X: Array, Z: Array) -> Array:
    """Squared distances."""
    return np.maximum(np.sum(X**2, axis=1)[:, None] + np.sum(Z**2, axis=1) - 2 * X @ Z.T, 0.0)


def fit_predict(X: Array, y: Codes, X_test: Array) -> Array:
    """Log probabilities of the classes at X_test; one length scale and one signal variance, learned by evidence."""
    C, D2 = int(y.max()) + 1, squares(X, X)
    log_l = 0.5 * np.log(np.median(D2[np.triu_indices(len(X), 1)]))
    last: dict[str, Any] = {"sites": None}

    def kernel(theta: Array, squared: Array) -> Array:
        return np.asarray(np.exp(theta[0] - 0.5 * squared * np.exp(-2 * theta[1])))

    def objective(theta: Array) -> tuple[float, Array]:
        K = kernel(theta, D2)
        try:
            found = solve(K + 1e-8 * np.exp(theta[0]) * np.eye(len(X)), y, C, last["sites"])
        except np.linalg.LinAlgError:
            return 1e10, np.zeros(2)
        last["sites"] = found.sites
        GK, u = found.cotangent * K, (np.exp(theta[0]) / SIGNAL) ** 2
        gradient = np.array([GK.sum() - 2 * u / (1 + u), np.sum(GK * D2) * np.exp(-2 * theta[1])])
        return -found.log_evidence + float(np.log1p(u)), -gradient

    box = [(-5.0, 12.0), (log_l - 5, log_l + 5)]
    best = minimize(
        objective, [np.log(4.0), log_l], jac=True, bounds=box, options={"maxiter": 25, "ftol": 1e-5}
    )
    K = kernel(best.x, D2) + 1e-8 * np.exp(best.x[0]) * np.eye(len(X))
    found = solve(K, y, C, last["sites"])
    return _log_probabilities(found, kernel(best.x, squares(X, X_test)), float(np.exp(best.x[0])))


def _log_probabilities(found: Solution, cross: Array, variance: float) -> Array:
    """Averages over the posterior, by quasi-random points."""
    C = len(found.E)
    mean = cross.T @ found.weights
    U = [e @ cross for e in found.E]
    V = np.array([solve_triangular(found.M, u, lower=True) for u in U])
    cov = np.einsum("cij,dij->jcd", V, V, optimize=True)
    for c in range(C):
        cov[:, c, c] += variance - np.einsum("ij,ij->j", cross, U[c])
    values, vectors = np.linalg.eigh(cov)
    root = vectors * np.sqrt(np.clip(values, 0.0, None))[:, None, :]
    z = ndtri(np.clip(qmc.Sobol(C + 1, seed=0).random(POINTS), 1e-12, 1 - 1e-12))
    p = np.empty(mean.shape)
    for i, m in enumerate(mean):
        f = m + z[:, :C] @ root[i].T
        for c in range(C):
            log_p = log_ndtr(z[:, C:] + f[:, [c]] - f)
            log_p[:, c] = 0.0
            p[i, c] = np.mean(np.exp(log_p.sum(axis=1)))
    p = np.maximum(p, 1e-12)
    return np.asarray(np.log(p / p.sum(axis=1, keepdims=True)))
