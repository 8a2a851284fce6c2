"""Data, likelihoods and truths shared by the tests of variational inference.

Nothing here uses the library's own inference or quadrature: expectations and evidences come from dense
Gauss-Legendre panels, tensor grids and enumeration.
"""

from __future__ import annotations

import itertools

import numpy as np
from scipy import stats

from cavity.likelihoods import (
    Binomial,
    EpsilonInsensitive,
    Gaussian,
    KnownNoise,
    Laplace,
    LapseProbit,
    Likelihood,
    Logit,
    Mixture,
    MixtureOfGaussians,
    NegativeBinomial,
    OrdinalProbit,
    Poisson,
    Probit,
    StudentT,
)

GAUSS_X, GAUSS_W = np.polynomial.legendre.leggauss(12)


class Cauchy(Likelihood):
    """A user's likelihood: nothing but a log density, with one parameter."""

    _transforms = StudentT._transforms

    def __init__(self, scale=1.0):
        self._set_up({"scale": scale})

    def log_prob(self, y, f):
        return -np.log(np.pi * self.scale) - np.log1p(((y - f) / self.scale) ** 2)


def inputs(n: int, seed: int = 0) -> np.ndarray:
    return np.sort(np.random.default_rng(seed).uniform(-3, 3, n))[:, None]


def targets(kind: str, n: int, seed: int = 0) -> np.ndarray:
    """Targets of a kind: "real" with an outlier, "sign", "count", "level" (0, 1, 2), "share" (of 5)."""
    rng = np.random.default_rng(seed + 100)
    f = np.sin(inputs(n, seed)[:, 0])
    if kind == "sign":
        return np.where(f + 0.7 * rng.standard_normal(n) > 0, 1.0, -1.0)
    if kind == "count":
        return rng.poisson(np.exp(f + 0.5)).astype(float)
    if kind == "level":
        return np.clip(np.round(f + 1 + 0.5 * rng.standard_normal(n)), 0, 2)
    if kind == "share":
        return rng.binomial(5, 1 / (1 + np.exp(-f))).astype(float)
    y = f + 0.2 * rng.standard_normal(n)
    y[n // 2] += 2.5
    return y


def likelihoods(n: int) -> dict[str, tuple[Likelihood, str]]:
    """Every likelihood with one latent value and a finite E[log p], and the kind of targets it takes."""
    return {
        "gaussian": (Gaussian(0.3), "real"),
        "known-noise": (KnownNoise(np.linspace(0.1, 0.5, n), 0.2), "real"),
        "student-t": (StudentT(0.3, 3.0), "real"),
        "cauchy-tails": (StudentT(0.2, 1.5), "real"),
        "laplace": (Laplace(0.3), "real"),
        "epsilon-insensitive": (EpsilonInsensitive(0.3, 0.2), "real"),
        "mixture-of-gaussians": (MixtureOfGaussians(0.2, 0.2, 8.0), "real"),
        "mixture": (Mixture([Gaussian(0.1), StudentT(1.0, 4.0)], [0.8, 0.2]), "real"),
        "user": (Cauchy(0.3), "real"),
        "probit": (Probit(), "sign"),
        "logit": (Logit(), "sign"),
        "lapse-probit": (LapseProbit(0.05), "sign"),
        "poisson": (Poisson(), "count"),
        "negative-binomial": (NegativeBinomial(3.0), "count"),
        "binomial": (Binomial(np.full(n, 5.0)), "share"),
        "ordinal": (OrdinalProbit([-0.5, 0.5]), "level"),
    }


def normal_panels(mean: float, var: float, centers=()) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for expectations under N(mean, var): fixed panels, finer around the centers."""
    sd = np.sqrt(var)
    edges = [mean + sd * np.linspace(-12, 12, 97)]
    for c in centers:
        ladder = 10.0 ** np.linspace(-8, 1, 46)
        edges += [c - ladder, [c], c + ladder]
    edges = np.unique(np.clip(np.concatenate(edges), mean - 12 * sd, mean + 12 * sd))
    half = 0.5 * np.diff(edges)
    f = (0.5 * (edges[1:] + edges[:-1]))[:, None] + half[:, None] * GAUSS_X
    w = half[:, None] * GAUSS_W * stats.norm.pdf(f, mean, sd)
    return f.ravel(), w.ravel()


def expected(log_p, mean: float, var: float, centers=()) -> float:
    f, w = normal_panels(mean, var, centers)
    return float(w @ log_p(f))


def mixture_log_evidence(lik: MixtureOfGaussians, K: np.ndarray, y: np.ndarray) -> float:
    """Exact, by enumeration of all assignments of points to components."""
    n = len(y)
    terms = []
    for c in itertools.product((0, 1), repeat=n):
        out = np.array(c, dtype=bool)
        noise = np.where(out, lik.outlier_scale, lik.scale) ** 2
        log_weight = out.sum() * np.log(lik.fraction) + (~out).sum() * np.log1p(-lik.fraction)
        terms.append(log_weight + stats.multivariate_normal(np.zeros(n), K + np.diag(noise)).logpdf(y))
    return float(np.logaddexp.reduce(terms))


def grid_log_evidence(log_p, K: np.ndarray, reach: float = 8.0, count: int = 241) -> float:
    """log of the integral of N(f|0, K) prod_i p(y_i|f_i) for n = 2 or 3, on a tensor grid in whitened f."""
    n = len(K)
    x = np.linspace(-reach, reach, count if n == 2 else 81)
    U = np.stack(np.meshgrid(*[x] * n, indexing="ij"), axis=-1).reshape(-1, n)
    f = U @ np.linalg.cholesky(K).T
    total = -0.5 * (U**2).sum(axis=1) - 0.5 * n * np.log(2 * np.pi) + log_p(f)
    return float(np.logaddexp.reduce(total) + n * np.log(x[1] - x[0]))


def richardson(function, theta: np.ndarray, step: float = 2e-3) -> np.ndarray:
    """Fourth-order central differences."""
    out = np.empty(len(theta))
    for i in range(len(theta)):
        d = np.zeros(len(theta))
        d[i] = step
        near, far = (function(theta + k * d) - function(theta - k * d) for k in (1, 2))
        out[i] = (8 * near - far) / (12 * step)
    return out
