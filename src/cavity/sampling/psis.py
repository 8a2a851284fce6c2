"""Pareto-smoothed importance sampling, and the evidence from a Gaussian approximation by it.

The largest importance ratios decide whether an estimate can be believed. Their upper tail is fitted by a generalized
Pareto distribution (Zhang and Stephens 2009), replaced by that distribution's quantiles, and the fitted shape k-hat
is the diagnosis (Vehtari, Simpson, Gelman, Yao and Gabry 2024): below 0.5 the variance of the ratios is finite, up to
0.7 the smoothed estimate is practical, above it nothing can be said from any affordable number of draws.

    density of exceedances   (1/sigma) (1 + k x / sigma)^(-1/k - 1),   quantiles   sigma ((1 - p)^(-k) - 1) / k
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import logsumexp

from cavity.numerics.arrays import Array
from cavity.numerics.threads import threads_for
from cavity.runtime.checks import require_integer
from cavity.sampling.annealing.path import Bridge

USABLE_K = 0.7
"""Shape beyond which an estimate is refused."""

FEWEST_TAIL = 5
"""Exceedances below which no tail is fitted."""

PRIOR_SHAPE, PRIOR_DRAWS = 0.5, 10.0
"""Weak prior of k-hat: a shape of 0.5 with the weight of ten exceedances steadies small tails."""


def fit_generalized_pareto(exceedances: Array) -> tuple[float, float]:
    """Shape k and scale sigma of positive exceedances, by Zhang and Stephens' quasi-posterior mean.

    With b = k / sigma (their theta is -b), the profile likelihood of b is averaged over a grid that depends on the
    sample's first quartile; k then follows as the mean of ln(1 + b x). The weak prior of `PRIOR_SHAPE` is included.

    Examples
    --------
    >>> import numpy as np
    >>> p = (np.arange(1000) + 0.5) / 1000
    >>> k, sigma = fit_generalized_pareto(2.0 * ((1 - p) ** -0.4 - 1) / 0.4)
    >>> bool(abs(k - 0.4) < 0.02), bool(abs(sigma - 2.0) < 0.05)
    (True, True)
    """
    x: Array = np.sort(np.asarray(exceedances, dtype=float))
    N = len(x)
    if N < 2 or not (x[0] > 0 and np.isfinite(x[-1])):
        raise ValueError(f"exceedances must be at least two positive finite numbers, got {exceedances!r}")
    m = 30 + int(np.sqrt(N))
    quartile = x[int(N / 4 + 0.5) - 1]
    grid = np.arange(1, m + 1)
    theta = 1.0 / x[-1] + (1.0 - np.sqrt(m / (grid - 0.5))) / (3.0 * quartile)
    shape = np.mean(np.log1p(-theta[:, None] * x), axis=1)  # k of each theta
    profile = N * (np.log(-theta / shape) - shape - 1.0)
    weights = np.exp(profile - logsumexp(profile))
    mean_theta = float(weights @ theta)
    k = float(np.mean(np.log1p(-mean_theta * x)))
    sigma = -k / mean_theta
    return (k * N + PRIOR_SHAPE * PRIOR_DRAWS) / (N + PRIOR_DRAWS), sigma


def pareto_quantiles(p: Array, k: float, sigma: float) -> Array:
    """Quantiles of the generalized Pareto distribution."""
    if abs(k) < 1e-12:
        return np.asarray(-sigma * np.log1p(-p))
    return np.asarray(sigma * np.expm1(-k * np.log1p(-p)) / k)


def tail_length(draws: int, relative_efficiency: float = 1.0) -> int:
    """How many of the largest ratios make the tail: min(S/5, 3 sqrt(S / relative efficiency))."""
    return int(np.ceil(min(0.2 * draws, 3.0 * np.sqrt(draws / relative_efficiency))))


def pareto_smoothed(log_weights: Array, relative_efficiency: float = 1.0) -> tuple[Array, float]:
    """Log weights with their upper tail smoothed, and k-hat.

    Parameters
    ----------
    log_weights : array (S,)
        Log importance ratios, not normalized; -inf is allowed.
    relative_efficiency : float
        Of the draws, if they are correlated.

    Returns
    -------
    smoothed : array (S,)
        In the order given and on the scale of the input; no weight exceeds the largest ratio.
    k_hat : float
        inf if the tail cannot be fitted, -inf if all weights are equal.
    """
    given: Array = np.asarray(log_weights, dtype=float)
    if given.ndim != 1 or len(given) == 0 or np.isnan(given).any() or np.any(given == np.inf):
        raise ValueError(
            f"log_weights must be a vector of numbers below infinity, got shape {given.shape}"
            + (" with nan or +inf" if given.size else "")
        )
    top = float(np.max(given))
    if top == -np.inf:
        return given.copy(), np.inf
    log_w = given - top
    if np.ptp(log_w) <= 1e-12 * max(1.0, abs(top)):
        return given.copy(), -np.inf
    count = tail_length(len(log_w), relative_efficiency)
    if len(log_w) <= count or count < FEWEST_TAIL:
        return given.copy(), np.inf
    order = np.argsort(log_w, kind="stable")
    cutoff = max(log_w[order[-count - 1]], np.log(np.finfo(float).tiny))
    tail = order[log_w[order] > cutoff]
    if len(tail) < FEWEST_TAIL:
        return given.copy(), np.inf
    base = np.exp(cutoff)
    k, sigma = fit_generalized_pareto(np.exp(log_w[tail]) - base)
    smoothed = log_w.copy()
    if np.isfinite(k):
        p = (np.arange(len(tail)) + 0.5) / len(tail)
        smoothed[tail] = np.minimum(np.log(base + pareto_quantiles(p, k, sigma)), 0.0)
    return smoothed + top, k


@dataclass(frozen=True)
class ImportanceEvidence:
    """Log evidence by importance sampling from a Gaussian approximation.

    Attributes
    ----------
    log_evidence : float
        From smoothed weights.
    standard_error : float
        By the smoothed weights; meaningless if k-hat is above 0.7.
    k_hat : float
        Shape of the upper tail of the weights.
    effective_size : float
        (sum w)^2 / sum w^2 of the smoothed weights.
    draws : int
    certified : bool
        Whether k-hat is at most 0.7.
    reason : str
    log_weights : array (S,)
        Smoothed, including the mass of the Gaussian: ln Z = ln mean exp.
    time : float
    """

    log_evidence: float
    standard_error: float
    k_hat: float
    effective_size: float
    draws: int
    certified: bool
    reason: str
    log_weights: Array = field(repr=False)
    time: float = 0.0


def importance_evidence(
    posterior: Any,
    size: int = 10_000,
    *,
    also: Sequence[Any] = (),
    rng: int | np.random.Generator | None = None,
    rows: int = 2000,
) -> ImportanceEvidence:
    """Log evidence by importance sampling from the Gaussian of an approximation at the training inputs.

    With several Gaussians draws are shared among them, and weighted by their mixture: together they may know all modes.

    Parameters
    ----------
    posterior : Posterior
        What `GP.condition` returns under Laplace's method, EP or the variational rule (anything with sites).
    size : int
        S; tails of weights need a few hundred.
    also : sequence of Posterior
        Other approximations of the same model, given the same data.
    rows : int
        Draws held in memory at a time.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import Probit
    >>> X = np.linspace(-2, 2, 12)[:, None]
    >>> y = np.where(X[:, 0] > 0.3, 1.0, -1.0)
    >>> found = importance_evidence(GP(4.0 * SE(1.0), Probit(), inference="ep").condition(X, y), rng=0)
    >>> found.certified, round(found.log_evidence, 1)
    (True, -4.6)
    """
    require_integer(size, "size", 100)
    began = time.perf_counter()
    model = posterior.model
    rows = min(rows, -(-size // (1 + len(also))))
    if any(one.approximation.sites is None for one in (posterior, *also)):
        raise ValueError(
            "this posterior has no sites: importance sampling starts from Laplace's method, EP or the variational "
            "rule; exact inference needs none"
        )
    if model.likelihood.n_latent != 1:
        raise ValueError(
            f"importance sampling needs one latent value per observation, {type(model.likelihood).__name__} has "
            f"{model.likelihood.n_latent}"
        )
    rng = np.random.default_rng(rng)
    prior = model.prior(posterior.data.X)
    with threads_for(prior.n):
        given = posterior.data.under(model.likelihood)
        bridges = [Bridge(prior, given, sites=one.approximation.sites) for one in (posterior, *also)]
        pieces = []
        for i in range(0, size, rows):
            bridge = bridges[(i // rows) % len(bridges)]
            F = bridge.latent(rng.standard_normal((min(rows, size - i), bridge.dim)))
            pieces.append(_log_weights(bridges, F))
    smoothed, k = pareto_smoothed(np.concatenate(pieces))
    log_z = float(logsumexp(smoothed) - np.log(size))
    w = np.exp(smoothed - logsumexp(smoothed)) if np.isfinite(log_z) else np.full(size, np.nan)
    effective = float(1.0 / np.sum(w * w)) if np.isfinite(log_z) else 0.0
    error = float(np.sqrt(max(1.0 / effective - 1.0 / size, 0.0))) if effective > 0 else np.inf
    certified = bool(k <= USABLE_K)
    reason = (
        f"k-hat is {k:.2f}: the weights of {size} draws can be averaged"
        if certified
        else f"k-hat is {k:.2f}, above {USABLE_K}: the Gaussian misses the posterior, and more draws will "
        "not help; use annealed importance sampling"
    )
    seconds = time.perf_counter() - began
    return ImportanceEvidence(log_z, error, k, effective, size, certified, reason, smoothed, seconds)


def _log_weights(bridges: Sequence[Bridge], F: Array) -> Array:
    """ln p(y, f) - ln of the mean density of the Gaussians, in which the prior cancels."""
    ratios = np.stack([bridge.log_ratio(F) + bridge.log_mass for bridge in bridges])
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(len(bridges)) - logsumexp(-ratios, axis=0))
