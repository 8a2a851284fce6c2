"""Moments at a Gaussian input by evaluating the models at points: for what has no closed form.

Points x_k = m + A z_k with S = A A' and weights w_k; with mean a(x) and variance v_a(x) of output a given x,

    m_a = sum w a(x),   V_ab = sum w (a(x) - m_a)(b(x) - m_b) + [a = b] sum w v_a(x),   Cov(x, a) = sum w (x - m) a(x).

Three choices of points: "gauss-hermite" (a product rule, exact for polynomials up to degree 2 x order - 1 in each
direction; directions without variance cost nothing), "unscented" (2 D + 1 points, exact to second order; Julier and
Uhlmann 1997), and "monte-carlo" (antithetic draws). With noise, a(x) and v_a(x) are moments of a new observation: the
probability of the class labeled 1 for classification, the mean and variance of the noisy target otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cavity.control.uncertain_inputs.output_moments import OutputMoments
from cavity.numerics.arrays import Array

METHODS = ("gauss-hermite", "unscented", "monte-carlo")
GRID_LIMIT = 20_000
"""Points of a product rule above which "auto" turns to draws."""

POINTS = 2000
"""Points of a product rule in few directions: an input that is uncertain over many length scales takes that many."""

LARGEST_ORDER = 256
"""Points per direction, at most."""

ORDER, SMALLEST_ORDER = 9, 4
"""Points per direction in more directions: the first number if the limit allows it, at least the second."""

SAMPLES = 20_000
NO_VARIANCE = 1e-14
"""Directions with less than this fraction of the largest variance count as having none."""


def root_of(S: Array) -> Array:
    """A (D, r) with S = A A', r the number of directions with variance."""
    values, vectors = np.linalg.eigh(S)
    keep = values > NO_VARIANCE * max(float(values[-1]), np.finfo(float).tiny)
    return np.asarray(vectors[:, keep] * np.sqrt(values[keep]))


def order_for(r: int) -> int | None:
    """Points per direction of a product rule that stays below the limit; None if there is none."""
    if ORDER**r < POINTS:
        return min(int(POINTS ** (1.0 / max(r, 1))), LARGEST_ORDER)
    for order in range(ORDER, SMALLEST_ORDER - 1, -1):
        if order**r <= GRID_LIMIT:
            return order
    return None


def choose_method(r: int) -> str:
    """The most accurate affordable choice for r uncertain directions."""
    return "monte-carlo" if order_for(r) is None else "gauss-hermite"


def standard_points(method: str, r: int, size: int | None, rng: np.random.Generator) -> tuple[Array, Array]:
    """Points z (k, r) and weights (k,) for a standard normal in r dimensions."""
    if r == 0:
        return np.zeros((1, 0)), np.ones(1)
    if method == "unscented":
        kappa = max(3.0 - r, 1.0)  # 3 - r matches fourth moments; kept positive so that weights are
        step = np.sqrt(r + kappa) * np.eye(r)
        weights = np.full(2 * r + 1, 0.5 / (r + kappa))
        weights[0] = kappa / (r + kappa)
        return np.vstack([np.zeros((1, r)), step, -step]), weights
    if method == "monte-carlo":
        half = rng.standard_normal((max((size or SAMPLES) // 2, 1), r))
        return np.vstack([half, -half]), np.full(2 * len(half), 0.5 / len(half))
    order = order_for(r)
    if order is None:
        raise ValueError(
            f"method='gauss-hermite' would need {SMALLEST_ORDER}^{r} points; use 'unscented' or 'monte-carlo'"
        )
    nodes, weights = np.polynomial.hermite_e.hermegauss(order)
    grid = np.stack(np.meshgrid(*[nodes] * r, indexing="ij"), axis=-1).reshape(-1, r)
    product = np.prod(np.stack(np.meshgrid(*[weights] * r, indexing="ij"), axis=-1), axis=-1).ravel()
    return grid, product / product.sum()


def given_x(posterior: Any, x: Array, noise: bool) -> tuple[Array, Array]:
    """Means (k, T) and covariances (k, T, T) of the T outputs of one posterior at x (k, D)."""
    likelihood = posterior.model.likelihood
    several = likelihood.n_latent > 1
    if noise and not several:
        prediction = posterior.predict_y(x)
        mean, variance = np.asarray(prediction.mean), np.asarray(prediction.variance)
    elif noise:
        raise ValueError(
            f"{type(likelihood).__name__} has {likelihood.n_latent} latent functions: predict these with noise=False"
        )
    elif several:
        return posterior.mean(x), posterior.process.blocks(x)
    else:
        mean, variance = posterior.mean(x), posterior.variance(x)
    if not np.all(np.isfinite(variance)):
        raise ValueError(
            f"{type(likelihood).__name__} has no finite variance: predict f itself with noise=False"
        )
    mean = mean.reshape(len(x), -1)
    spread = np.broadcast_to(variance.reshape(len(x), -1), mean.shape)
    return mean, spread[:, :, None] * np.eye(mean.shape[1])


def approximate_moments(
    posteriors: Sequence[Any],
    m: Array,
    S: Array,
    noise: bool,
    method: str,
    size: int | None,
    rng: np.random.Generator,
) -> OutputMoments:
    """Moments at one input distribution, m (D,) and S (D, D)."""
    A = root_of(S)
    r = A.shape[1]
    if method == "auto":
        method = choose_method(r)
    z, w = standard_points(method, r, size, rng)
    x = m + z @ A.T
    parts = [given_x(p, x, noise) for p in posteriors]
    means = np.hstack([f for f, _ in parts])
    E = means.shape[1]
    inner, start = np.zeros((E, E)), 0
    for f, blocks in parts:
        own = slice(start, start + f.shape[1])
        inner[own, own] = np.tensordot(w, blocks, 1)
        start = own.stop
    mean = w @ means
    d = means - mean
    covariance = (d * w[:, None]).T @ d + inner
    along = (z * w[:, None]).T @ d  # Cov(z, f), shape (r, E); Cov(x, f) = A Cov(z, f) = S gain
    gain = np.linalg.pinv(A).T @ along if r else np.zeros((len(m), E))
    return OutputMoments(mean, 0.5 * (covariance + covariance.T), gain, A @ along, method)
