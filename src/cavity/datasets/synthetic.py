"""Synthetic data sets of the literature, each drawn from a seed.

Where a publication shows points without giving their coordinates (the two arcs, the step function) the recipe
here follows its description; the figures will look alike, the points are not the published ones.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cavity.datasets.dataset import Dataset
from cavity.numerics.arrays import Array
from cavity.runtime.checks import require_between, require_integer

_LICENSE = "synthetic, no restriction"
_THESIS = "M. Kuss, Gaussian Process Models for Robust Regression and Classification, PhD thesis, 2006"
_REPORT = "M. Kuss et al., Approximate Inference for Robust Gaussian Process Regression, report 136, 2005"
_BOOK = "C. E. Rasmussen, C. K. I. Williams, Gaussian Processes for Machine Learning, 2006"
_FRIEDMAN = "J. H. Friedman, Multivariate adaptive regression splines, Annals of Statistics 19, 1991"
_NEAL = "R. M. Neal, Monte Carlo implementation of Gaussian process models, Toronto, 1997"


def _pick(rng: np.random.Generator, n: int, count: int, name: str) -> NDArray[np.bool_]:
    """A mask with `count` of n entries set."""
    if not 0 <= count <= n:
        raise ValueError(f"{name} must lie between 0 and n = {n}, got {count}")
    mask = np.zeros(n, dtype=bool)
    mask[rng.permutation(n)[:count]] = True
    return mask


def _regression(name: str, X: Array, y: Array, description: str, citation: str, **rest: Any) -> Dataset:
    names = ("x",) if X.shape[1] == 1 else tuple(f"x{d + 1}" for d in range(X.shape[1]))
    extra = MappingProxyType(rest.pop("extra", {}))
    return Dataset(name, "regression", X, y, names, "y", description, _LICENSE, citation, extra=extra, **rest)


def make_sinc(
    n: int = 25,
    *,
    n_outliers: int = 5,
    noise_sd: float = 0.01,
    outlier_sd: float = 1.0,
    n_test: int = 500,
    rng: int | np.random.Generator | None = None,
) -> Dataset:
    """sin(x)/x on U[-10, 10] with normal noise, a few points of which have much more of it.

    The defaults are those of the technical report (25 points, 5 of them with unit noise). The regression
    example of Kuss (2006, figure 3.2) is `make_sinc(15, n_outliers=0, noise_sd=0.1)`. The noisy points
    are marked in `extra["outlier"]`.

    Examples
    --------
    >>> from cavity.datasets import make_sinc
    >>> data = make_sinc(rng=0)
    >>> data.X.shape, data.y.shape
    ((25, 1), (25,))
    """
    require_integer(n, "n", 1)
    rng = np.random.default_rng(rng)
    x, x_test = rng.uniform(-10, 10, n), rng.uniform(-10, 10, n_test)
    outlier = _pick(rng, n, n_outliers, "n_outliers")
    # numpy's sinc has pi in it
    y = np.sinc(x / np.pi) + np.where(outlier, outlier_sd, noise_sd) * rng.standard_normal(n)
    return _regression(
        "sinc",
        x[:, None],
        y,
        "sin(x)/x with normal noise; some points carry much larger noise",
        _REPORT,
        X_test=x_test[:, None],
        y_test=np.sinc(x_test / np.pi),
        extra={"outlier": outlier},
    )


def friedman_function(X: Array) -> Array:
    """10 sin(pi x1 x2) + 20 (x3 - 1/2)^2 + 10 x4 + 5 x5, shape (n,), for X of shape (n, >= 5)."""
    wave = 10 * np.sin(np.pi * X[:, 0] * X[:, 1])
    return np.asarray(wave + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4])


def make_friedman(
    n: int = 100,
    *,
    n_outliers: int = 10,
    n_test: int = 10_000,
    n_features: int = 10,
    noise_sd: float = 1.0,
    rng: int | np.random.Generator | None = None,
) -> Dataset:
    """Friedman's function of five inputs among ten, with some outputs replaced by N(15, 9) (Kuss, 2006, 5.6.1).

    `extra["outlier"]` marks the replaced outputs. The test targets are free of noise.

    Examples
    --------
    >>> from cavity.datasets import make_friedman
    >>> make_friedman(rng=0).X.shape
    (100, 10)
    """
    require_integer(n, "n", 1)
    require_integer(n_features, "n_features", 5)
    rng = np.random.default_rng(rng)
    X, X_test = rng.uniform(size=(n, n_features)), rng.uniform(size=(n_test, n_features))
    y = friedman_function(X) + noise_sd * rng.standard_normal(n)
    outlier = _pick(rng, n, n_outliers, "n_outliers")
    y = np.where(outlier, 15 + 3 * rng.standard_normal(n), y)
    return _regression(
        "friedman",
        X,
        y,
        "Friedman's function of five of its inputs; some outputs are replaced by unrelated values",
        f"{_FRIEDMAN}; outliers as in {_THESIS}",
        X_test=X_test,
        y_test=friedman_function(X_test),
        extra={"outlier": outlier},
    )


def make_two_arcs(
    n_arc: int = 7, n_end: int = 7, *, noise_sd: float = 0.05, rng: int | np.random.Generator | None = None
) -> Dataset:
    """Points that two functions explain equally well: either arc may be the outliers (Kuss, 2006, figure 5.3).

    The ends, |x| in [2, 5], lie on the zero line; between them there are `n_arc` points on the arc
    +cos(pi x / 4) and as many on -cos(pi x / 4). `extra["arc"]` is +1, -1 or 0 (ends).

    Examples
    --------
    >>> from cavity.datasets import make_two_arcs
    >>> make_two_arcs(rng=0).X.shape
    (28, 1)
    """
    require_integer(n_arc, "n_arc", 1)
    require_integer(n_end, "n_end", 1)
    rng = np.random.default_rng(rng)
    middle = np.linspace(-1.5, 1.5, n_arc) if n_arc > 1 else np.zeros(1)
    end = np.linspace(2.0, 5.0, n_end)
    x = np.concatenate([-end[::-1], middle, middle, end])
    arc = np.repeat([0, 1, -1, 0], [n_end, n_arc, n_arc, n_end])
    x = x + 0.05 * rng.standard_normal(len(x))
    y = arc * np.cos(np.pi * x / 4) + noise_sd * rng.standard_normal(len(x))
    return _regression(
        "two_arcs",
        x[:, None],
        y,
        "two arcs between flat ends: the posterior under heavy-tailed noise has several modes",
        f"after the description of figure 5.3 in {_THESIS}",
        extra={"arc": arc},
    )


def make_step(
    n: int = 64, *, noise_sd: float = 0.1, n_test: int = 200, rng: int | np.random.Generator | None = None
) -> Dataset:
    """A step from -1 to 1 at x = 0 with normal noise, x in U[-1, 1].

    Rasmussen and Williams (2006), figures 5.9 and 5.10.

    Examples
    --------
    >>> from cavity.datasets import make_step
    >>> make_step(rng=0).y.shape
    (64,)
    """
    require_integer(n, "n", 1)
    rng = np.random.default_rng(rng)
    x = rng.uniform(-1, 1, n)
    x_test = np.linspace(-1, 1, n_test)
    return _regression(
        "step",
        x[:, None],
        np.where(x < 0, -1.0, 1.0) + noise_sd * rng.standard_normal(n),
        "a noisy step function: no stationary covariance function describes it well",
        f"after figure 5.9 of {_BOOK}",
        X_test=x_test[:, None],
        y_test=np.where(x_test < 0, -1.0, 1.0),
    )


def make_book_1d(
    n: int = 20,
    *,
    lengthscale: float = 1.0,
    signal_sd: float = 1.0,
    noise_sd: float = 0.1,
    extent: float = 7.5,
    rng: int | np.random.Generator | None = None,
) -> Dataset:
    """A draw from a process with squared exponential covariance, x in U[-extent, extent].

    Rasmussen and Williams (2006), figure 2.5.

    `extra["f"]` has the function values without noise.

    Examples
    --------
    >>> from cavity.datasets import make_book_1d
    >>> make_book_1d(rng=0).X.shape
    (20, 1)
    """
    require_integer(n, "n", 1)
    rng = np.random.default_rng(rng)
    x = np.sort(rng.uniform(-extent, extent, n))
    K = signal_sd**2 * np.exp(-0.5 * np.subtract.outer(x, x) ** 2 / lengthscale**2)
    # Eigenvectors, not Cholesky: K may be singular to working precision if points lie close together.
    values, vectors = np.linalg.eigh(K)
    f = vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.standard_normal(n))
    y = f + noise_sd * rng.standard_normal(n)
    return _regression(
        "book_1d",
        x[:, None],
        y,
        "a function drawn from a Gaussian process with squared exponential covariance, observed with noise",
        f"after figure 2.5 of {_BOOK}",
        extra={"f": f},
    )


def neal_function(x: Array) -> Array:
    """0.3 + 0.4 x + 0.5 sin(2.7 x) + 1.1 / (1 + x^2)."""
    return np.asarray(0.3 + 0.4 * x + 0.5 * np.sin(2.7 * x) + 1.1 / (1 + x**2))


def make_neal(
    n: int = 100,
    *,
    noise_sd: float = 0.1,
    outlier_sd: float = 1.0,
    outlier_probability: float = 0.05,
    n_test: int = 1000,
    rng: int | np.random.Generator | None = None,
) -> Dataset:
    """Neal's curve with x ~ N(0, 1) and occasional large noise; more sets like `load("neal_outliers")`.

    Test targets are free of noise; `extra["outlier"]` marks the points with large noise.

    Examples
    --------
    >>> from cavity.datasets import make_neal
    >>> make_neal(rng=0).X.shape
    (100, 1)
    """
    require_integer(n, "n", 1)
    require_between(outlier_probability, "outlier_probability")
    rng = np.random.default_rng(rng)
    x, x_test = rng.standard_normal(n), rng.standard_normal(n_test)
    outlier = rng.uniform(size=n) < outlier_probability
    y = neal_function(x) + np.where(outlier, outlier_sd, noise_sd) * rng.standard_normal(n)
    return _regression(
        "neal",
        x[:, None],
        y,
        "a smooth curve with normal noise, one point in twenty with ten times its standard deviation",
        _NEAL,
        X_test=x_test[:, None],
        y_test=neal_function(x_test),
        extra={"outlier": outlier},
    )


CLUSTERS_1D = ((-6.0, 1, 20), (0.0, -1, 30), (2.0, 1, 10))
"""Center, label and number of points of each cluster of `make_clusters_1d`."""


def make_clusters_1d(*, sd: float = 0.8, rng: int | np.random.Generator | None = None) -> Dataset:
    """Sixty points in three clusters on a line, labels +1, -1, +1.

    Rasmussen and Williams (2006), figure 3.6; Kuss (2006), section 6.3.1.

    `extra["probability"]` is p(y = +1 | x) of the generating process at each point.

    Examples
    --------
    >>> from cavity.datasets import make_clusters_1d
    >>> sorted(set(make_clusters_1d(rng=0).y.tolist()))
    [-1, 1]
    """
    rng = np.random.default_rng(rng)
    centers, labels, counts = (np.array(column) for column in zip(*CLUSTERS_1D))
    x = np.repeat(centers, counts) + sd * rng.standard_normal(int(counts.sum()))
    y = np.repeat(labels, counts)
    # counts are the mixing weights; the common factor of the normal densities cancels
    log_weight = np.log(counts) - 0.5 * ((x[:, None] - centers) / sd) ** 2
    weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    probability = weight @ (labels > 0) / weight.sum(axis=1)
    return Dataset(
        "clusters_1d",
        "classification",
        x[:, None],
        y,
        ("x",),
        "y",
        "three clusters on a line, the middle one of the other class: Laplace's method and EP differ visibly",
        _LICENSE,
        f"after figure 3.6 of {_BOOK} and section 6.3.1 of {_THESIS}",
        extra=MappingProxyType({"probability": probability}),
    )
