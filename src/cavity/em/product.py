"""Several kinds of features at once: a product of families, each on its own columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cavity.em.checks import is_whole
from cavity.em.components import Components, Params, Stats
from cavity.em.families import make_components
from cavity.em.transforms import Coordinates
from cavity.numerics.arrays import Array

T = TypeVar("T")


class Product(Components):
    """Several features at once: blocks of columns that are independent given the component.

    Parameters
    ----------
    parts : sequence of (family, columns)
        Family (a `Components` or its name) and the column numbers it describes. Parameters of part i are
        named ``<name>@i``.

    Examples
    --------
    >>> from cavity.em import Product
    >>> mixed = Product([("gaussian", [0, 1]), ("poisson", [2])])
    """

    def __init__(self, parts: Sequence[tuple[Any, Sequence[int]]]) -> None:
        self.parts = parts

    def _families(self) -> list[tuple[Components, list[int]]]:
        for part in self.parts:
            pair = isinstance(part, (list, tuple)) and len(part) == 2
            if not (pair and np.ndim(part[1]) == 1 and all(is_whole(c) for c in part[1])):
                raise ValueError(
                    f"the part {part!r} must be a pair of a family and a list of column numbers, such as "
                    "('gaussian', [0, 1]); columns of data frames are numbered from 0, too"
                )
        return [(make_components(family), [int(c) for c in columns]) for family, columns in self.parts]

    def letter_names(self) -> dict[str, tuple[str, ...]]:
        """Union of the parts' letters."""
        out: dict[str, tuple[str, ...]] = {}
        for i, (family, _) in enumerate(self._families()):
            for letter, names in family.letter_names().items():
                out[letter] = out.get(letter, ()) + tuple(f"{name}@{i}" for name in names)
        return out

    def check_data(self, x: Array) -> None:
        """Columns exist, are used once, and suit their families."""
        used = [c for _, columns in self._families() for c in columns]
        if sorted(used) != list(range(x.shape[1])):
            raise ValueError(
                f"the parts use columns {used}, but X has {x.shape[1]}: each must be used exactly once"
            )
        for family, columns in self._families():
            family.check_data(x[:, columns])

    def _resolve(self, x: Array, weights: Array) -> None:
        self._bound = [(f.bind(x[:, c], weights, self.n_components), c) for f, c in self._families()]

    @staticmethod
    def _part(mapping: dict[str, Array], i: int) -> dict[str, Array]:
        suffix = f"@{i}"
        return {name[: -len(suffix)]: v for name, v in mapping.items() if name.endswith(suffix)}

    def _parts(self, params: Params) -> list[tuple[Components, list[int], Params]]:
        """Family, columns and parameters of every part."""
        return [(family, columns, self._part(params, i)) for i, (family, columns) in enumerate(self._bound)]

    def log_prob(self, params: Params, x: Array, threads: int = 1) -> Array:
        """Sum over the parts."""
        logs = [f.log_prob(own, _columns(x, c), threads) for f, c, own in self._parts(params)]
        return np.asarray(np.sum(logs, axis=0))

    def accumulate(self, params: Params, x: Array, resp: Array, threads: int = 1) -> Stats:
        """The parts' statistics."""
        return _joined(f.accumulate(own, _columns(x, c), resp, threads) for f, c, own in self._parts(params))

    def maximize(self, stats: Stats, params: Params, update: frozenset[str] | None = None) -> Params:
        """Every part by itself."""
        new = []
        for i, (f, _, own) in enumerate(self._parts(params)):
            wanted = update
            if update is not None:
                wanted = frozenset(name[: -len(f"@{i}")] for name in update if name.endswith(f"@{i}"))
            new.append(f.maximize(self._part(stats, i), own, wanted))
        return _joined(new)

    def expected_log_prob(self, stats: Stats, params: Params) -> float:
        """Sum over the parts."""
        parts = enumerate(self._parts(params))
        return sum(f.expected_log_prob(self._part(stats, i), own) for i, (f, _, own) in parts)

    def log_prior(self, params: Params) -> float:
        """Sum over the parts."""
        return sum(f.log_prior(own) for f, _, own in self._parts(params))

    def from_responsibilities(self, x: Array, resp: Array, rng: np.random.Generator) -> Params:
        """Every part by itself."""
        return _joined(f.from_responsibilities(_columns(x, c), resp, rng) for f, c in self._bound)

    def coordinates(self) -> dict[str, Coordinates]:
        """The parts' coordinates, one after the other."""
        return _joined(f.coordinates() for f, _ in self._bound)

    def n_parameters(self, params: Params) -> int:
        """Sum over the parts."""
        return sum(f.n_parameters(own) for f, _, own in self._parts(params))

    def mean(self, params: Params) -> Array:
        """Means in the order of the columns of X."""
        out = np.empty((self.n_components, self.n_features))
        for f, c, own in self._parts(params):
            out[:, c] = f.mean(own)
        return out

    def covariance(self, params: Params) -> Array:
        """Block-diagonal covariances."""
        out = np.zeros((self.n_components, self.n_features, self.n_features))
        for f, c, own in self._parts(params):
            out[:, np.array(c)[:, None], c] = f.covariance(own)
        return out

    def sample(self, params: Params, labels: NDArray[np.intp], rng: np.random.Generator) -> Array:
        """Every part by itself."""
        out = np.empty((len(labels), self.n_features))
        for f, c, own in self._parts(params):
            out[:, c] = f.sample(own, labels, rng)
        return out

    def permute(self, params: Params, order: NDArray[np.intp]) -> Params:
        """Every part by itself."""
        return _joined(f.permute(own, order) for f, _, own in self._parts(params))

    def degenerate(self, params: Params, counts: Array) -> list[int]:
        """Components degenerate in some part."""
        return sorted({k for f, _, own in self._parts(params) for k in f.degenerate(own, counts)})

    def project(self, params: Params) -> Params:
        """Every part within its bounds."""
        return _joined(f.project(own) for f, _, own in self._parts(params))


def _columns(x: Array, columns: list[int]) -> Array:
    return np.ascontiguousarray(x[:, columns])


def _joined(parts: Iterable[dict[str, T]]) -> dict[str, T]:
    """Entries of all parts, under the names that tell them apart."""
    return {f"{name}@{i}": value for i, part in enumerate(parts) for name, value in part.items()}
