"""Two or more classes as one or several Gaussian process models, and back to probabilities of classes.

- `Binary`: one latent function, labels -1 and +1.
- `Softmax`, `OneVsRest`: one model with a latent function for each class, which share a kernel; coupled by the softmax,
  or each told from all others (`cavity.likelihoods.OneVsRest`). O(C n^3).
- `OneVsOne`: C (C - 1) / 2 binary models on the rows of two classes each. From the pairwise r_cd = P(c | c or d) the
  probabilities p minimize sum_{c != d} (r_dc p_c - r_cd p_d)^2 subject to sum p = 1 (Wu, Lin and Weng 2004, second
  method): one linear system per point.

A strategy says which models there are and combines what they predict; `fit_member` learns one of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cavity import likelihoods
from cavity.estimators.members import Member
from cavity.gp import GP
from cavity.learning.large_data import learn_any_size
from cavity.learning.training_rows import TrainingRows, contains_white
from cavity.likelihoods import Likelihood
from cavity.numerics.arrays import Array

Indices = NDArray[np.intp]


@dataclass(frozen=True)
class Problem:
    """One model's share of the data: some rows, with targets of its own."""

    rows: Indices
    targets: Array
    name: str


class Strategy(ABC):
    """How classes become problems, and predictions of these become probabilities of classes."""

    name: str
    several = True
    """Whether there may be more than one model."""

    @abstractmethod
    def problems(self, codes: Indices, classes: NDArray[Any]) -> list[Problem]:
        """The models to learn, for class codes (n,) 0..C-1."""

    @abstractmethod
    def combine(self, members: Sequence[Array], n_classes: int) -> Array:
        """Log probabilities of the classes (m, C) from those of each member's labels, (m, 2) or (m, C)."""


def _signs(positive: NDArray[np.bool_]) -> Array:
    return np.where(positive, 1.0, -1.0)


class Binary(Strategy):
    """Two classes, one model."""

    name = "binary"
    several = False

    def problems(self, codes: Indices, classes: NDArray[Any]) -> list[Problem]:
        """One: the second class is +1."""
        return [Problem(np.arange(len(codes)), _signs(codes == 1), "")]

    def combine(self, members: Sequence[Array], n_classes: int) -> Array:
        """They are the classes' already."""
        return members[0]


class OneModel(Strategy):
    """A latent function for each class."""

    several = False

    def problems(self, codes: Indices, classes: NDArray[Any]) -> list[Problem]:
        """One, with the codes as targets."""
        return [Problem(np.arange(len(codes)), codes.astype(float), "")]

    def combine(self, members: Sequence[Array], n_classes: int) -> Array:
        """They are the classes' already."""
        return members[0]

    @abstractmethod
    def likelihood(self, answer: Likelihood, n_classes: int) -> Likelihood:
        """Of all classes, from that of two."""

    def rule(self, given: Any) -> Any:
        """The inference rule, from what was asked for."""
        return given


class OneVsRest(OneModel):
    """Each class against all others."""

    name = "one_vs_rest"

    def likelihood(self, answer: Likelihood, n_classes: int) -> Likelihood:
        """Made of that of two classes."""
        return likelihoods.OneVsRest(n_classes, answer)


class Softmax(OneModel):
    """Functions coupled by the softmax."""

    name = "softmax"

    def likelihood(self, answer: Likelihood, n_classes: int) -> Likelihood:
        """The softmax, whatever that of two classes."""
        return likelihoods.Softmax(n_classes)

    def rule(self, given: Any) -> Any:
        """Laplace's method in place of EP."""
        return "laplace" if isinstance(given, str) and given in ("auto", "ep") else given


class OneVsOne(Strategy):
    """Each pair of classes."""

    name = "one_vs_one"

    def problems(self, codes: Indices, classes: NDArray[Any]) -> list[Problem]:
        """C (C - 1) / 2, each on the rows of two classes; the first of the pair is +1."""
        found = []
        for c, d in combinations(range(len(classes)), 2):
            rows = np.flatnonzero((codes == c) | (codes == d))
            found.append(Problem(rows, _signs(codes[rows] == c), f"{classes[c]} against {classes[d]}"))
        return found

    def combine(self, members: Sequence[Array], n_classes: int) -> Array:
        """By coupling."""
        r = np.full((len(members[0]), n_classes, n_classes), 0.5)
        for (c, d), member in zip(combinations(range(n_classes), 2), members):
            r[:, c, d], r[:, d, c] = np.exp(member[:, 1]), np.exp(member[:, 0])
        with np.errstate(divide="ignore"):
            return np.log(couple(r))


def couple(r: Array) -> Array:
    """Class probabilities (m, C) from pairwise ones, r[:, c, d] = P(c | c or d), shape (m, C, C).

    Minimizes p' Q p subject to sum p = 1, Q_cc = sum_{d != c} r_dc^2 and Q_cd = -r_dc r_cd.
    """
    m, C, _ = r.shape
    other = ~np.eye(C, dtype=bool)
    Q = np.where(other, -r * r.transpose(0, 2, 1), 0.0)
    diagonal = np.arange(C)
    Q[:, diagonal, diagonal] = np.sum(np.where(other, r**2, 0.0), axis=1)
    # Where some r are 0 or 1 the matrix may be singular: what is added changes nothing else at this precision.
    Q[:, diagonal, diagonal] += 1e-14
    p = np.linalg.solve(Q, np.ones((m, C, 1)))[:, :, 0]
    p = np.maximum(p, 0.0)  # the exact solution is not negative
    return np.asarray(p / p.sum(axis=1, keepdims=True))


STRATEGIES: dict[str, type[Strategy]] = {s.name: s for s in (OneVsRest, Softmax, OneVsOne)}
"""Strategies for more than two classes, by name."""


# --- one model ----------------------------------------------------------------------------------------------


def fit_member(
    model: GP,
    problem: Problem,
    X: Array,
    weight: Array | None,
    objective: str | None,
    rng: np.random.Generator,
    options: dict[str, Any],
    *,
    max_time: float | None,
) -> Member:
    """Learn the hyperparameters of one model, and condition it on its rows."""
    own = None if weight is None else weight[problem.rows]
    rows = TrainingRows.of(X[problem.rows], problem.targets, own, merge=not contains_white(model.kernel))
    learned = learn_any_size(
        model,
        rows.X,
        rows.y,
        rows.weight,
        objective=objective,
        rng=rng,
        max_time=max_time,
        warn=False,  # a fit reports for itself
        **options,
    )
    return Member(problem.name, learned.search, learned.posterior, rows)
