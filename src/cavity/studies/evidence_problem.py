"""What the studies `ionosphere` and `usps` look at: data, model, grid of hyperparameters (thesis 6.3.2 and 6.3.3).

Probit, isotropic squared exponential of length scale l and signal standard deviation s, zero mean; inputs standardized
(Ionosphere) or as they are (USPS). The ranges are chosen to hold the maxima of both approximations; those of the
thesis' figures are not in its text. So is the subgrid of the gold standard: every third row and column.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import log_ndtr, logsumexp

from cavity.assessment.gold import Chains
from cavity.datasets import load
from cavity.gp import GP
from cavity.kernels import SE
from cavity.likelihoods import Probit
from cavity.numerics.arrays import Array
from cavity.posterior import Posterior
from cavity.studies.base import Results
from cavity.studies.folds import standardized
from cavity.studies.synthetic_classification import given_draws

POINTS = 21
COARSE = tuple(range(1, POINTS, 3))
"""Rows and columns of the subgrid of the gold standard, chosen before anything was run."""

GOLD = "gold standard"
"""Label of the cells of the subgrid."""

DRAWS = 4000
"""Number of draws to which chains are thinned for predictions."""


@dataclass(frozen=True)
class Range:
    """Of ln l and ln s."""

    length: tuple[float, float]
    signal: tuple[float, float]

    def axes(self) -> tuple[Array, Array]:
        """Values of ln l and ln s on the grid."""
        return np.linspace(*self.length, POINTS), np.linspace(*self.signal, POINTS)


RANGES = {"ionosphere": Range((0.0, 5.0), (-1.0, 6.0)), "usps": Range((2.0, 5.0), (0.0, 5.0))}

CLOSELY = {"ionosphere": (1.5, 2.0), "usps": (2.85, 3.35)}
"""(ln l, ln s) at which posterior and predictions are compared: for USPS that of the thesis, between both maxima."""


@lru_cache(maxsize=2)
def problem(name: str) -> tuple[Array, Array, Array, Array]:
    """Training inputs and labels, test inputs and labels; labels are -1 and +1."""
    if name == "usps":
        data = load("usps_3v5")
        assert data.X_test is not None
        positive = np.unique(data.y)[1]
        y, y_test = (np.where(a == positive, 1.0, -1.0) for a in (data.y, np.asarray(data.y_test)))
        return data.X, y, data.X_test, y_test
    data = load("ionosphere")
    y = np.where(data.y == np.unique(data.y)[1], 1.0, -1.0)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:200], order[200:]
    (X,) = standardized(data.X)
    return X[train], y[train], X[test], y[test]


def model_at(ln_l: float, ln_s: float, rule: str) -> GP:
    """The model at one pair of hyperparameters."""
    return GP(float(np.exp(2 * ln_s)) * SE(float(np.exp(ln_l))), Probit(), inference=rule)


def log_p(posterior: Posterior, at: Array) -> Array:
    """Log probabilities of -1 and +1 at new inputs, shape (m, 2)."""
    prediction = posterior.predict_y(at)
    return np.stack([prediction.log_prob(np.full(len(at), y)) for y in (-1.0, 1.0)], axis=1)


def sampled_log_p(model: GP, X: Array, chains: Chains, at: Array) -> Array:
    """Log probabilities of -1 and +1 at new inputs, averaged over draws of f at the training inputs, shape (m, 2).

    Given f, the latent value at a new input is normal, and p(y | f) = Phi(y mean / sqrt(1 + variance)).
    """
    mean, sd = given_draws(model, X, Chains(chains.thinned(DRAWS)[None], np.nan, np.nan, 0, np.nan), at)
    z = mean / np.sqrt(1 + sd**2)
    return np.stack([logsumexp(log_ndtr(y * z), axis=0) - np.log(len(z)) for y in (-1.0, 1.0)], axis=1)


def surface(results: Results, method: str, what: str) -> Array:
    """Values over the grid, rows are ln s; nan if a column was not run."""
    out = np.full((POINTS, POINTS), np.nan)
    for column in range(POINTS):
        stored = results.arrays(method=method, column=column)
        if stored:
            out[:, column] = stored[what]
    return out


def coarse_surface(results: Results, measure: str) -> Array:
    """A measure of the gold standard on its subgrid, rows are ln s; nan if a point was not run."""
    out = np.full((len(COARSE), len(COARSE)), np.nan)
    for record in results.records:
        labels = record["labels"]
        if labels["method"] == GOLD and labels["column"] in COARSE and labels["row"] in COARSE:
            place = COARSE.index(labels["row"]), COARSE.index(labels["column"])
            out[place] = record["measures"].get(measure, np.nan)
    return out
