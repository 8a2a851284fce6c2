"""Shared by the tests of expectation propagation: brute-force posteriors and an independent certification.

Nothing here uses the library's inference or its moments; log densities come from scipy where it has them.
"""

from __future__ import annotations

import itertools

import numpy as np
from scipy import stats

GAUSS_X, GAUSS_W = np.polynomial.legendre.leggauss(16)


def panels(low: float, high: float, breaks=(), width: float = 0.25) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes and weights on fixed panels, graded towards the breaks (kinks, narrow peaks)."""
    edges = [np.arange(low, high, width), [high]]
    for b in breaks:
        ladder = 10.0 ** np.linspace(-9, 1, 41)
        edges += [b - ladder, [b], b + ladder]
    edges = np.unique(np.clip(np.concatenate(edges), low, high))
    half = 0.5 * np.diff(edges)
    x = (0.5 * (edges[1:] + edges[:-1]))[:, None] + half[:, None] * GAUSS_X
    return x.ravel(), (half[:, None] * GAUSS_W).ravel()


def one_point(log_p, prior_mean: float, prior_var: float, breaks=()) -> tuple[float, float, float]:
    """(log evidence, mean, variance) for one observation, by fixed panels over 15 prior sd."""
    sd = np.sqrt(prior_var)
    x, w = panels(-15.0, 15.0, [(b - prior_mean) / sd for b in breaks])
    f = prior_mean + sd * x
    log_values = log_p(f) + stats.norm.logpdf(x)
    top = log_values.max()
    mass = w * np.exp(log_values - top)
    total = mass.sum()
    mean = mass @ f / total
    return float(top + np.log(total)), float(mean), float(mass @ (f - mean) ** 2 / total)


def tensor_posterior(log_p, K: np.ndarray, reach: float = 8.0, count: int = 121):
    """(log evidence, means, variances) for n <= 3 points on a tensor grid in whitened f; log_p maps (m, n) to (m,)."""
    n = len(K)
    x = np.linspace(-reach, reach, count)
    U = np.stack(np.meshgrid(*[x] * n, indexing="ij"), axis=-1).reshape(-1, n)
    f = U @ np.linalg.cholesky(K).T
    log_values = log_p(f) + stats.norm.logpdf(U).sum(axis=1)
    top = log_values.max()
    mass = np.exp(log_values - top)
    total = mass.sum()
    mean = mass @ f / total
    var = mass @ (f - mean) ** 2 / total
    return float(top + np.log(total) + n * np.log(x[1] - x[0])), mean, var


def enumerate_mixture(K, y, fraction, scale, wide):
    """(log evidence, means, variances) under two-component noise, over all 2^n assignments."""
    n = len(y)
    logs, means, variances = [], [], []
    for bits in itertools.product((False, True), repeat=n):
        out = np.array(bits)
        noise = np.where(out, wide, scale) ** 2
        A = K + np.diag(noise)
        weight = out.sum() * np.log(fraction) + (~out).sum() * np.log1p(-fraction)
        logs.append(weight + stats.multivariate_normal(np.zeros(n), A).logpdf(y))
        G = np.linalg.solve(A, K)
        means.append(G.T @ y)
        variances.append(np.diagonal(K - K @ G))
    logs, means, variances = np.array(logs), np.array(means), np.array(variances)
    log_evidence = np.logaddexp.reduce(logs)
    r = np.exp(logs - log_evidence)
    mean = r @ means
    return float(log_evidence), mean, r @ (variances + (means - mean) ** 2)


def posterior_from_sites(K, sites, prior_mean=0.0):
    """Mean, variances and log normalizer of N(prior_mean, K) times the sites, by plain linear algebra."""
    n = len(K)
    m = np.broadcast_to(prior_mean, n)
    tau, nu = sites.precision, sites.shift
    A = np.eye(n) + K * tau
    S = np.linalg.solve(A, K)
    shift = nu - tau * m
    mean = m + S @ shift
    log_z = -0.5 * np.linalg.slogdet(A)[1] + 0.5 * shift @ S @ shift + nu @ m - 0.5 * m @ (tau * m)
    return mean, np.diagonal(S).copy(), log_z


def mismatch_and_evidence(log_p, K, sites, y, breaks=(), power=1.0, prior_mean=0.0):
    """Largest mismatch of moments and EP log evidence, from the sites; `log_p(i, f)`, `breaks(i)` per point.

    For proper cavities only. Each tilted density is integrated by fixed panels over 14 cavity sd.
    """
    mean, var, log_q = posterior_from_sites(K, sites, prior_mean)
    worst, total = 0.0, log_q
    for i in range(len(y)):
        tau = 1 / var[i] - power * sites.precision[i]
        nu = mean[i] / var[i] - power * sites.shift[i]
        assert tau > 0
        found, m, v = one_point(
            lambda f, i=i: power * log_p(i, f), nu / tau, 1 / tau, breaks(i) if breaks else ()
        )
        worst = max(worst, abs(m - mean[i]) / np.sqrt(var[i]), abs(v / var[i] - 1))
        log_t = found + 0.5 * np.log(2 * np.pi / tau) + 0.5 * nu**2 / tau
        log_s = 0.5 * np.log(2 * np.pi * var[i]) + 0.5 * mean[i] ** 2 / var[i]
        total += (log_t - log_s) / power
    return worst, float(total)
