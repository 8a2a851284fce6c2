"""Symbols 0, 1, ... as components or emissions: the discrete hidden Markov model."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from cavity.em.checks import is_number, is_whole
from cavity.em.components import (
    Components,
    Params,
    Stats,
    check_whole,
    keep,
    safe_ratio,
)
from cavity.em.transforms import SIMPLEX, Coordinates
from cavity.numerics.arrays import Array


class Categorical(Components):
    """One symbol 0 ... S-1 per row, parameter `emissionprob` (K, S).

    Parameters
    ----------
    n_symbols : int or None
        Size of the alphabet; None takes one more than the largest symbol in the data.
    concentration : float
        Dirichlet prior of every row; 1 is none.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.em import Categorical, Mixture
    >>> model = Mixture(1, Categorical(n_symbols=3)).fit(np.array([[0], [0], [1], [0]]))
    >>> model.params_["emissionprob"]
    array([[0.75, 0.25, 0.  ]])
    """

    letters: ClassVar[dict[str, tuple[str, ...]]] = {"e": ("emissionprob",)}
    nonnegative: ClassVar[bool] = True

    def __init__(self, n_symbols: int | None = None, concentration: float = 1.0) -> None:
        self.n_symbols = n_symbols
        self.concentration = concentration

    def check_data(self, x: Array) -> None:
        """One column of whole numbers that are not negative."""
        if x.shape[1] != 1:
            raise ValueError(
                f"Categorical components take one column of symbols, X has {x.shape[1]} features; "
                "combine several columns with Product"
            )
        check_whole(x, "Categorical")
        if not (self.n_symbols is None or (is_whole(self.n_symbols) and self.n_symbols >= 1)):
            raise ValueError(f"n_symbols={self.n_symbols!r} must be a whole number, at least 1, or None")
        if self.n_symbols is not None and np.nanmax(x, initial=-1.0) >= self.n_symbols:
            raise ValueError(
                f"X contains the symbol {int(np.nanmax(x))}, but n_symbols={self.n_symbols} allows 0 to "
                f"{self.n_symbols - 1}"
            )

    def _resolve(self, x: Array, weights: Array) -> None:
        if not (is_number(self.concentration) and self.concentration >= 1.0):
            raise ValueError(f"concentration={self.concentration!r} must be at least 1 (1 is no prior)")
        highest = int(np.nanmax(x, initial=0.0))
        self.n_symbols = highest + 1 if self.n_symbols is None else int(self.n_symbols)

    def log_prob(self, params: Params, x: Array, threads: int = 1) -> Array:
        """Table look-up; a missing symbol has log probability 0."""
        with np.errstate(divide="ignore"):
            table = np.log(params["emissionprob"].T)
        symbols, seen = _symbols(x)
        if len(symbols) and symbols.max() >= len(table):
            raise ValueError(f"X contains the symbol {symbols.max()}, the model knows 0 to {len(table) - 1}")
        return np.asarray(np.where(seen[:, None], table[symbols], 0.0))

    def accumulate(self, params: Params, x: Array, resp: Array, threads: int = 1) -> Stats:
        """Expected counts of symbols, (K, S)."""
        symbols, seen = _symbols(x)
        n_symbols = self.n_symbols or 1
        counts = [
            np.bincount(symbols, weights=resp[:, k] * seen, minlength=n_symbols) for k in range(resp.shape[1])
        ]
        return {"symbols": np.array(counts)}

    def maximize(self, stats: Stats, params: Params, update: frozenset[str] | None = None) -> Params:
        """Expected frequencies; a component without data keeps its row."""
        counts = stats["symbols"] + (self.concentration - 1.0)
        if params:  # zeros stay zero
            counts = np.where(params["emissionprob"] > 0, counts, 0.0)
        fallback = params.get("emissionprob", np.full_like(counts, 1.0 / counts.shape[1]))
        return keep({"emissionprob": safe_ratio(counts, counts.sum(axis=1), fallback)}, params, update)

    def expected_log_prob(self, stats: Stats, params: Params) -> float:
        """Sum of counts log p."""
        return float(np.sum(xlogy(stats["symbols"], params["emissionprob"])))

    def log_prior(self, params: Params) -> float:
        """Dirichlet."""
        p = params["emissionprob"]
        return float((self.concentration - 1.0) * np.sum(np.log(p[p > 0])))

    def from_responsibilities(self, x: Array, resp: Array, rng: np.random.Generator) -> Params:
        """Frequencies mixed with a random distribution: zeros of clusters of symbols would stay."""
        counts = self.accumulate({}, x, resp)["symbols"]
        pooled = counts.sum(axis=0) / counts.sum()
        own = safe_ratio(counts, counts.sum(axis=1), pooled[None])
        noise = rng.dirichlet(np.ones(counts.shape[1]), size=len(counts))
        return {"emissionprob": 0.4 * own + 0.3 * pooled + 0.3 * noise}

    def coordinates(self) -> dict[str, Coordinates]:
        """Log ratios."""
        return {"emissionprob": SIMPLEX}

    def mean(self, params: Params) -> Array:
        """Expected symbol number, (K, 1): it gives the canonical order."""
        p = params["emissionprob"]
        return np.asarray(p @ np.arange(p.shape[1]))[:, None]

    def covariance(self, params: Params) -> Array:
        """Variance of the symbol number, (K, 1, 1)."""
        p = params["emissionprob"]
        symbols = np.arange(p.shape[1])
        return np.asarray(p @ symbols**2 - (p @ symbols) ** 2)[:, None, None]

    def sample(self, params: Params, labels: NDArray[np.intp], rng: np.random.Generator) -> Array:
        """Draws by inversion."""
        cdf = np.cumsum(params["emissionprob"], axis=1)[labels]
        u = rng.random(len(labels)) * cdf[:, -1]
        return np.asarray(np.sum(u[:, None] >= cdf, axis=1), dtype=float)[:, None]


def _symbols(x: Array) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    seen = ~np.isnan(x[:, 0])
    return np.where(seen, x[:, 0], 0.0).astype(np.intp), seen
