"""Starting points: k-means++ (with a few Lloyd steps) and random centers.

Clustering works on distinct rows with their total weight, in standardized units: a row given twice and a row
of weight two lead to the same start, whatever the order of the rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cavity.em.checks import is_whole
from cavity.numerics.arrays import Array

MAX_ROWS = 20_000  # clustering a random subset of this size is enough for a start
LLOYD_STEPS = 30
CUT = 2.0  # interquartile ranges beyond which a robust start does not look
SMOOTHING = 0.01  # share of a hard assignment spread over all components, so that none starts empty


def start_kinds(init: str, n_init: int) -> list[str]:
    """Kind of every start: "auto" begins with k-means++ and alternates with random centers."""
    if not (is_whole(n_init) and n_init >= 1):
        raise ValueError(f"n_init={n_init!r} must be a positive integer")
    n_init = int(n_init)
    if init == "auto":
        return ["k-means++" if i % 2 == 0 else "random" for i in range(n_init)]
    if init in ("k-means++", "random"):
        return [init] * n_init
    raise ValueError(f"init={init!r} is not known; choose 'auto', 'k-means++' or 'random'")


def start_responsibilities(
    x: Array, weights: Array, n_components: int, rng: np.random.Generator, kind: str, robust: bool = False
) -> Array:
    """Smoothed hard assignment (n, K), times the sample weights."""
    labels = cluster(x, weights, n_components, rng, lloyd=kind == "k-means++", robust=robust)
    resp = np.full((len(x), n_components), SMOOTHING / n_components)
    resp[np.arange(len(x)), labels] += 1.0 - SMOOTHING
    return np.asarray(resp * weights[:, None])


def cluster(
    x: Array,
    weights: Array,
    n_clusters: int,
    rng: np.random.Generator,
    lloyd: bool = True,
    robust: bool = False,
) -> NDArray[np.intp]:
    """Labels of rows (n,) by k-means++ and Lloyd steps, or by the nearest of random rows.

    `robust` measures in quartiles and cuts distances off, so that far outliers do not attract centers.
    """
    z = _robust_units(x, weights) if robust else _standardize(x, weights)
    chosen = z if len(z) <= MAX_ROWS else z[rng.choice(len(z), MAX_ROWS, replace=False)]
    mass = weights if len(z) <= MAX_ROWS else np.ones(MAX_ROWS)
    points, mass = _distinct(chosen, mass)
    if lloyd:
        centers = _lloyd(points, mass, _plus_plus(points, mass, n_clusters, rng))
    else:
        centers = points[_draw_distinct(mass, n_clusters, rng)]
    return _nearest(z, centers)[0]


def _standardize(x: Array, weights: Array) -> Array:
    """Zero mean and unit variance by column, missing entries at the mean."""
    seen = ~np.isnan(x)
    mass = np.maximum(weights @ seen, np.finfo(float).tiny)
    center = (weights @ np.where(seen, x, 0.0)) / mass
    z = np.where(seen, x - center, 0.0)
    sd = np.sqrt((weights @ z**2) / mass)
    # Rounded so that copies of a row stay copies, whatever the order in which the moments were summed.
    return np.asarray(np.round(z / np.where(sd > 0, sd, 1.0), 10))


def _robust_units(x: Array, weights: Array) -> Array:
    """Zero median and unit interquartile range by column, cut off at `CUT`, missing entries at the median."""
    z = np.zeros_like(x)
    for j in range(x.shape[1]):
        use = ~np.isnan(x[:, j]) & (weights > 0)
        if not use.any():
            continue
        order = np.argsort(x[use, j], kind="stable")
        values, cdf = x[use, j][order], np.cumsum(weights[use][order])
        low, middle, high = (values[np.searchsorted(cdf, q * cdf[-1])] for q in (0.25, 0.5, 0.75))
        z[use, j] = (x[use, j] - middle) / (high - low if high > low else 1.0)
    return np.asarray(np.round(np.clip(z, -CUT, CUT), 10))


def _distinct(points: Array, mass: Array) -> tuple[Array, Array]:
    """Distinct rows of positive weight, in lexicographic order, with their total weight."""
    used = mass > 0
    rows, which = np.unique(points[used], axis=0, return_inverse=True)
    return rows, np.bincount(which.ravel(), weights=mass[used], minlength=len(rows)).astype(float)


def _draw(mass: Array, rng: np.random.Generator) -> int:
    """Index with probability proportional to mass, by inversion."""
    cdf = np.cumsum(mass)
    return int(min(np.searchsorted(cdf, rng.random() * cdf[-1], side="right"), len(mass) - 1))


def _draw_distinct(mass: Array, count: int, rng: np.random.Generator) -> list[int]:
    """`count` indices without replacement (with repetition only if there are fewer points)."""
    left = mass.copy()
    chosen = []
    for _ in range(count):
        if not left.sum() > 0:
            left = mass.copy()
        chosen.append(_draw(left, rng))
        left[chosen[-1]] = 0.0
    return chosen


def _plus_plus(points: Array, mass: Array, count: int, rng: np.random.Generator) -> Array:
    """k-means++ seeds: each next one with probability proportional to mass times squared distance."""
    centers = [points[_draw(mass, rng)]]
    distance = np.sum((points - centers[0]) ** 2, axis=1)
    for _ in range(count - 1):
        potential = mass * distance
        centers.append(points[_draw(potential if potential.sum() > 0 else mass, rng)])
        distance = np.minimum(distance, np.sum((points - centers[-1]) ** 2, axis=1))
    return np.array(centers)


def _nearest(points: Array, centers: Array) -> tuple[NDArray[np.intp], Array]:
    """Nearest center of every point, and the squared distance to it."""
    best = np.full(len(points), np.inf)
    label = np.zeros(len(points), dtype=np.intp)
    for k, center in enumerate(centers):
        distance = np.sum((points - center) ** 2, axis=1)
        closer = distance < best
        label[closer] = k
        best = np.where(closer, distance, best)
    return label, best


def _lloyd(points: Array, mass: Array, centers: Array) -> Array:
    """Lloyd's iterations; an empty cluster keeps its center."""
    label = np.full(len(points), -1)
    for _ in range(LLOYD_STEPS):
        new, _ = _nearest(points, centers)
        if np.array_equal(new, label):
            break
        label = new
        total = np.bincount(label, weights=mass, minlength=len(centers))
        for j in range(points.shape[1]):
            sums = np.bincount(label, weights=mass * points[:, j], minlength=len(centers))
            centers[:, j] = np.where(total > 0, sums / np.where(total > 0, total, 1.0), centers[:, j])
    return centers
