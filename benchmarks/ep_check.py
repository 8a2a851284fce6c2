"""A second opinion on fixed points of EP, sharing no code with the library.

From the sites alone: the posterior by plain linear algebra on the whitened prior, cavities, tilted moments by
Gauss-Legendre panels in f (the library integrates over the latent noise precision, or in closed form), and the
log evidence. `exact_log_evidence` enumerates all assignments of points to the components of a mixture.

    K = L L',  B = I + L' T L,  Sigma = L B^-1 L',  log Zq = -1/2 log|B| + 1/2 nu' Sigma nu     (zero prior mean)

The log evidence is summed with f measured from the posterior mean m, where with alpha = K^-1 m = nu - T m

    log Zq -> -1/2 log|B| - 1/2 alpha' m,   cavities -> (-alpha_i, tau_c),   marginals -> (0, 1/v_i):

about zero the terms of sharp sites would be of size tau m^2 each, and nothing would be left of their sum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.ep_problems import JITTER, StressProblem

Array = NDArray[np.float64]

NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)

LOST = 45.0
"""Nats below the largest integrand at which a panel no longer matters."""

TAME = 6.0
"""Nats by which a log integrand may vary over a panel; 16 nodes then give 12 digits and more."""

REFINEMENTS = 40


@dataclass(frozen=True)
class Opinion:
    """What the sites amount to, by independent means."""

    residual: float
    """Largest mismatch of tilted and marginal moments, in posterior standard deviations; inf where improper."""
    smallest_cavity: float
    """Smallest cavity precision relative to that of the marginal."""
    log_evidence: float


def covariance(problem: StressProblem) -> Array:
    """K of a stress problem from its settings: squared exponential with relative jitter."""
    s = problem.settings
    z = problem.X / s["length"]
    r2 = ((z[:, None] - z[None]) ** 2).sum(axis=2)
    jitter = s.get("jitter", JITTER * s["variance"])
    return np.asarray(s["variance"] * np.exp(-0.5 * r2) + jitter * np.eye(len(z)))


def log_noise(problem: StressProblem) -> Callable[[Array], Array]:
    """log p(y | f) as a function of f - y."""
    from scipy.special import gammaln

    s = problem.settings
    if problem.family == "mixture":
        logs = np.log1p(-s["fraction"]), np.log(s["fraction"])
        return lambda x: np.logaddexp(
            *(
                log - 0.5 * (x / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi)
                for log, sd in zip(logs, (s["noise"], s["wide"]))
            )
        )
    nu, scale = s["df"], s["noise"]
    constant = gammaln(0.5 * nu + 0.5) - gammaln(0.5 * nu) - 0.5 * np.log(nu * np.pi) - np.log(scale)
    return lambda x: constant - 0.5 * (nu + 1) * np.log1p((x / scale) ** 2 / nu)


def tilted(log_t: Callable[[Array], Array], slope: float, precision: float, edges: Array) -> Array:
    """(log integral, mean, variance) of t(x) exp(slope x - precision x^2 / 2) between the outermost edges.

    Panels are halved until the log integrand varies by little over each that matters.
    """

    def log_function(x: Array) -> Array:
        return log_t(x) + slope * x - 0.5 * precision * x * x

    left, right = edges[:-1], edges[1:]
    for _ in range(REFINEMENTS):
        probes = log_function(np.stack([left, 0.5 * (left + right), right]))
        high = probes.max(axis=0)
        wild = (np.ptp(probes, axis=0) > TAME) & (high > probes.max() - LOST - TAME)
        if not wild.any():
            break
        middle = 0.5 * (left + right)
        left = np.concatenate([left, middle[wild]])
        right = np.concatenate([np.where(wild, middle, right[: len(wild)]), right[wild]])
    half = 0.5 * (right - left)
    x = (0.5 * (left + right))[:, None] + half[:, None] * NODES
    values = log_function(x)
    top = values.max()
    mass = np.exp(values - top) * half[:, None] * WEIGHTS
    total = mass.sum()
    mean = (mass * x).sum() / total
    return np.array([top + np.log(total), mean, (mass * (x - mean) ** 2).sum() / total])


def _edges(problem: StressProblem, slope: float, precision: float) -> Array:
    """Where panels begin: fine around y (x = 0) and around the places where tilted components may sit."""
    s = problem.settings
    scales = [s["noise"]] + ([s["wide"]] if problem.family == "mixture" else [])
    centers = [(0.0, scales[0])]
    for sd in scales:
        p = precision + 1.0 / sd**2
        centers.append((slope / p, p**-0.5))
    if precision > 0:
        centers.append((slope / precision, precision**-0.5))
    reach = max(abs(c) + 45.0 * width for c, width in centers)
    parts = [np.array([-reach, 0.0, reach])]
    for c, width in centers:
        ladder = width * 10.0 ** np.linspace(-2, 2, 25)
        parts += [c - ladder, [c], c + ladder]
    grid = np.geomspace(1e-3 * scales[0], reach, 60)
    return np.unique(np.clip(np.concatenate([*parts, grid, -grid]), -reach, reach))


def opinion(problem: StressProblem, shift: Array, site_precision: Array) -> Opinion:
    """Recompute everything from the sites."""
    from scipy.linalg import solve_triangular

    n, y = len(problem.y), problem.y
    L = np.linalg.cholesky(covariance(problem))
    try:
        C = np.linalg.cholesky(np.eye(n) + L.T @ (site_precision[:, None] * L))
    except np.linalg.LinAlgError:
        return Opinion(np.inf, -np.inf, np.nan)
    V = solve_triangular(C, L.T, lower=True)
    half = V @ shift
    mean, var = V.T @ half, np.einsum("ij,ij->j", V, V)
    alpha = solve_triangular(L.T, solve_triangular(C.T, half))
    log_q = -np.log(np.diagonal(C)).sum() - 0.5 * float(alpha @ mean)
    cavity_shift, cavity_precision = mean / var - shift, 1.0 / var - site_precision
    limit = -1.0 / problem.settings["wide"] ** 2 if problem.family == "mixture" else 0.0
    smallest = float(np.min(cavity_precision * var))
    if not np.all(cavity_precision > limit):
        return Opinion(np.inf, smallest, np.nan)
    log_t = log_noise(problem)
    moments, log_z = np.empty((3, n)), np.empty(n)
    for i in range(n):
        slope = cavity_shift[i] - cavity_precision[i] * y[i]
        edges = _edges(problem, slope, cavity_precision[i])
        moments[:, i] = tilted(log_t, slope, cavity_precision[i], edges)
        # the integral again with the slope that has all its digits
        away = y[i] - mean[i]
        about = tilted(log_t, -alpha[i] - cavity_precision[i] * away, cavity_precision[i], edges)[0]
        log_z[i] = about - (alpha[i] + 0.5 * cavity_precision[i] * away) * away
    log_s = 0.5 * np.log(2 * np.pi * var)
    off_mean, off_var = (moments[1] + y - mean) / np.sqrt(var), moments[2] / var - 1.0
    residual = float(np.max(np.abs([off_mean, off_var])))
    log_evidence = log_q + float(np.sum(log_z - log_s))
    return Opinion(residual if np.isfinite(residual) else np.inf, smallest, log_evidence)


def exact_log_evidence(problem: StressProblem) -> float:
    """Of a mixture, by enumeration of the 2^n assignments of points to components."""
    s, y = problem.settings, problem.y
    n = len(y)
    outlier = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    A = covariance(problem) + np.where(outlier, s["wide"], s["noise"])[:, :, None] ** 2 * np.eye(n)
    L = np.linalg.cholesky(A)
    z = np.linalg.solve(L, np.broadcast_to(y[:, None], (len(L), n, 1)))[..., 0]
    log_density = -0.5 * (z**2).sum(axis=1) - np.log(np.diagonal(L, axis1=1, axis2=2)).sum(axis=1)
    count = outlier.sum(axis=1)
    log_prior = count * np.log(s["fraction"]) + (n - count) * np.log1p(-s["fraction"])
    return float(np.logaddexp.reduce(log_density + log_prior) - 0.5 * n * np.log(2 * np.pi))
