"""Several kinds of features at once: a product of families, each on its own columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cavity.em.checks import is_whole
from cavity.em.components import Components, Params, Stats
from cavity.em.families import make_components
from cavity.numerics.arrays import Array


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

    def _part(self, mapping: dict[str, Array], i: int) -> dict[str, Array]:
        suffix = f"@{i}"
        return {name[: -len(suffix)]: v for name, v in mapping.items() if name.endswith(suffix)}

    @staticmethod
    def _name(mapping: dict[str, Array], i: int) -> dict[str, Array]:
        return {f"{name}@{i}": v for name, v in mapping.items()}

    def log_prob(self, params: Params, x: Array, threads: int = 1) -> Array:
        """Sum over the parts."""
        logs = [
            f.log_prob(self._part(params, i), np.ascontiguousarray(x[:, c]), threads)
            for i, (f, c) in enumerate(self._bound)
        ]
        return np.asarray(np.sum(logs, axis=0))

    def accumulate(self, params: Params, x: Array, resp: Array, threads: int = 1) -> Stats:
        """The parts' statistics."""
        out: Stats = {}
        for i, (f, c) in enumerate(self._bound):
            part = f.accumulate(self._part(params, i), np.ascontiguousarray(x[:, c]), resp, threads)
            out.update(self._name(part, i))
        return out

    def maximize(self, stats: Stats, params: Params, update: frozenset[str] | None = None) -> Params:
        """Every part by itself."""
        out: Params = {}
        for i, (f, _) in enumerate(self._bound):
            wanted = None
            if update is not None:
                wanted = frozenset(name[: -len(f"@{i}")] for name in update if name.endswith(f"@{i}"))
            out.update(self._name(f.maximize(self._part(stats, i), self._part(params, i), wanted), i))
        return out

    def expected_log_prob(self, stats: Stats, params: Params) -> float:
        """Sum over the parts."""
        parts = enumerate(self._bound)
        return sum(f.expected_log_prob(self._part(stats, i), self._part(params, i)) for i, (f, _) in parts)

    def log_prior(self, params: Params) -> float:
        """Sum over the parts."""
        return sum(f.log_prior(self._part(params, i)) for i, (f, _) in enumerate(self._bound))

    def from_responsibilities(self, x: Array, resp: Array, rng: np.random.Generator) -> Params:
        """Every part by itself."""
        out: Params = {}
        for i, (f, c) in enumerate(self._bound):
            out.update(self._name(f.from_responsibilities(np.ascontiguousarray(x[:, c]), resp, rng), i))
        return out

    def n_parameters(self, params: Params) -> int:
        """Sum over the parts."""
        return sum(f.n_parameters(self._part(params, i)) for i, (f, _) in enumerate(self._bound))

    def mean(self, params: Params) -> Array:
        """Means in the order of the columns of X."""
        out = np.empty((self.n_components, self.n_features))
        for i, (f, c) in enumerate(self._bound):
            out[:, c] = f.mean(self._part(params, i))
        return out

    def covariance(self, params: Params) -> Array:
        """Block-diagonal covariances."""
        out = np.zeros((self.n_components, self.n_features, self.n_features))
        for i, (f, c) in enumerate(self._bound):
            block = f.covariance(self._part(params, i))
            for k in range(self.n_components):
                out[k][np.ix_(c, c)] = block[k]
        return out

    def sample(self, params: Params, labels: NDArray[np.intp], rng: np.random.Generator) -> Array:
        """Every part by itself."""
        out = np.empty((len(labels), self.n_features))
        for i, (f, c) in enumerate(self._bound):
            out[:, c] = f.sample(self._part(params, i), labels, rng)
        return out

    def permute(self, params: Params, order: NDArray[np.intp]) -> Params:
        """Every part by itself."""
        out: Params = {}
        for i, (f, _) in enumerate(self._bound):
            out.update(self._name(f.permute(self._part(params, i), order), i))
        return out

    def degenerate(self, params: Params, counts: Array) -> list[int]:
        """Components degenerate in some part."""
        found: set[int] = set()
        for i, (f, _) in enumerate(self._bound):
            found.update(f.degenerate(self._part(params, i), counts))
        return sorted(found)

    def project(self, params: Params) -> Params:
        """Every part within its bounds."""
        out: Params = {}
        for i, (f, _) in enumerate(self._bound):
            out.update(self._name(f.project(self._part(params, i)), i))
        return out

    def pack(self, params: Params, like: Params) -> Array:
        """The parts' coordinates, one after the other."""
        parts = enumerate(self._bound)
        return np.concatenate([f.pack(self._part(params, i), self._part(like, i)) for i, (f, _) in parts])

    def unpack(self, v: Array, like: Params) -> Params:
        """Inverse of `pack`."""
        out: Params = {}
        at = 0
        for i, (f, _) in enumerate(self._bound):
            part = self._part(like, i)
            size = len(f.pack(part, part))
            out.update(self._name(f.unpack(v[at : at + size], part), i))
            at += size
        return out
