"""Coordinates without constraints for parameters with them, for extrapolation and standard errors.

Probabilities use log ratios to the largest entry of their row (entries that are exactly zero are structural
and take no coordinate), covariances the Cholesky factor with the logarithm of its diagonal, positive numbers
their logarithm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from cavity.numerics.arrays import Array


@lru_cache(maxsize=64)
def lower_indices(d: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Row and column numbers of a lower triangle; asked for in every EM step, so remembered."""
    return np.tril_indices(d)


def simplex_to_free(p: Array, like: Array) -> Array:
    """Log ratios within rows of p (R, K); `like` tells the zeros and the reference (its largest entry)."""
    pieces = []
    for row, guide in zip(np.atleast_2d(p), np.atleast_2d(like)):
        pieces.append(np.log(row[_free_entries(guide)]) - np.log(row[np.argmax(guide)]))
    return np.concatenate(pieces)


def simplex_from_free(v: Array, like: Array) -> Array:
    """Inverse of `simplex_to_free`; `like` gives the shape, the zeros and the reference entries."""
    rows = np.atleast_2d(like)
    out = np.zeros_like(rows)
    at = 0
    for row, target in zip(rows, out):
        free = _free_entries(row)
        count = int(np.count_nonzero(free))
        logits = np.zeros(row.shape)
        logits[free] = v[at : at + count]
        at += count
        support = row > 0
        e = np.exp(logits[support] - np.max(logits[support]))
        target[support] = e / np.sum(e)
    return out.reshape(like.shape)


def simplex_size(p: Array) -> int:
    """Number of free coordinates of the rows of p."""
    rows = np.atleast_2d(p)
    return sum(int(np.count_nonzero(row)) - 1 for row in rows)


def _free_entries(row: Array) -> NDArray[np.bool_]:
    free = np.asarray(row > 0)
    free[np.argmax(row)] = False
    return free


def spd_to_free(matrices: Array) -> Array:
    """Cholesky factors of matrices (..., D, D) as a vector, logarithms on the diagonal."""
    lower = np.linalg.cholesky(matrices)
    d = lower.shape[-1]
    i, j = lower_indices(d)
    v = lower[..., i, j].copy()
    v[..., i == j] = np.log(v[..., i == j])
    return np.asarray(v).ravel()


def spd_from_free(v: Array, shape: tuple[int, ...]) -> Array:
    """Inverse of `spd_to_free` for matrices of the given shape (..., D, D)."""
    d = shape[-1]
    i, j = lower_indices(d)
    packed = v.reshape(*shape[:-2], len(i)).copy()
    packed[..., i == j] = np.exp(packed[..., i == j])
    lower = np.zeros(shape)
    lower[..., i, j] = packed
    return np.asarray(lower @ np.swapaxes(lower, -1, -2))


@dataclass(frozen=True)
class Coordinates:
    """Maps of a parameter to a vector and back; `like` tells shapes, structural zeros and reference entries."""

    to_free: Callable[[Array, Array], Array]
    from_free: Callable[[Array, Array], Array]
    size: Callable[[Array], int] = np.size


REAL = Coordinates(lambda value, like: value.ravel(), lambda v, like: v.reshape(like.shape))
POSITIVE = Coordinates(
    lambda value, like: np.log(value).ravel(), lambda v, like: np.exp(v).reshape(like.shape)
)
UNIT_INTERVAL = Coordinates(
    lambda value, like: (np.log(value) - np.log1p(-value)).ravel(),
    lambda v, like: 0.5 * (1.0 + np.tanh(0.5 * v)).reshape(like.shape),
)
EQUAL = Coordinates(
    lambda value, like: np.log(value[:1]), lambda v, like: np.full(like.shape, np.exp(v)), lambda like: 1
)
"""Positive numbers that are all the same."""
SIMPLEX = Coordinates(simplex_to_free, simplex_from_free, simplex_size)
SPD = Coordinates(
    lambda value, like: spd_to_free(value),
    lambda v, like: spd_from_free(v, like.shape),
    lambda like: like.size * (like.shape[-1] + 1) // (2 * like.shape[-1]),
)


def pack(
    coordinates: Mapping[str, Coordinates], params: Mapping[str, Array], like: Mapping[str, Array]
) -> Array:
    """All parameters that have coordinates as one vector."""
    return np.concatenate([c.to_free(params[name], like[name]) for name, c in coordinates.items()])


def unpack(coordinates: Mapping[str, Coordinates], v: Array, like: Mapping[str, Array]) -> dict[str, Array]:
    """Inverse of `pack`; parameters without coordinates are those of `like`."""
    found = dict(like)
    at = 0
    for name, c in coordinates.items():
        size = c.size(like[name])
        found[name] = np.asarray(c.from_free(v[at : at + size], like[name]))
        at += size
    return found
