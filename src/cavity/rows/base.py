"""The protocol of row blocks.

What a model of many rows asks of its inputs are passes: each adds up arrays over the rows and finds a few numbers for
each row. Vectors with one number for each row (targets, sites, weights) are in memory, 8 MB for a million rows. They
travel with a pass, block by block. The inputs, which may be larger than memory or elsewhere, stay where they are.

Rows come in parts, of which the source decides. A part is summed block by block, and parts are added up in their order,
so that results depend neither on the number of workers nor on which of them was faster.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from cavity.numerics.arrays import Array
from cavity.runtime.errors import InputError, Setting

BLOCK = 512
"""Rows of a block: products with m columns are fast from about this size on, and a block of m = 1000 is 4 MB."""

Arrays = tuple[Array, ...]


class Pass(ABC):
    """One pass over the rows. A value: it may be sent to other processes, and to several of them."""

    def start(self) -> Arrays:
        """What is summed over the rows, before the first of them: zeros, in memory of their own; nothing by default."""
        return ()

    @abstractmethod
    def add(self, sums: Arrays, X: Array, rows: slice, *given: Array) -> Arrays:
        """Add a block to the sums, in place, and return what there is of each of its rows.

        Parameters
        ----------
        X : array (b, D)
            Inputs of the block, not to be written to.
        rows : slice
            Which rows they are of all.
        given : arrays (b, ...)
            What was given of each row.
        """


def run(task: Pass, X: Array, first: int, given: Sequence[Array]) -> tuple[Arrays, Arrays]:
    """A pass over one part, whose first row has this number of all."""
    sums, n = task.start(), len(X)
    found: list[Array] = []
    for start in range(0, n, BLOCK):
        here = slice(start, min(start + BLOCK, n))
        block = np.asarray(X[here], dtype=float)
        each = task.add(sums, block, slice(first + here.start, first + here.stop), *[v[here] for v in given])
        if not found:
            found = [np.empty((n, *piece.shape[1:])) for piece in each]
        for whole, piece in zip(found, each):
            whole[here] = piece
    return sums, tuple(found)


class RowSource(ABC):
    """Inputs (n, D) of n rows, in blocks.

    Attributes
    ----------
    shape : (int, int)
    """

    shape: tuple[int, int]
    ndim = 2

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def array(self) -> Array:
        """All inputs, if they are in memory; else they are refused."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise InputError(
            f"the {len(self)} rows of {type(self).__name__} are not in memory",
            remedy=("use ", Setting("representation", "inducing"), ", which takes them in blocks"),
        )

    @property
    def in_memory(self) -> bool:
        """Whether `array` is there."""
        return False

    @abstractmethod
    def map_sum(self, task: Pass, *given: Array) -> tuple[Arrays, Arrays]:
        """(sums over all rows, values of each row), for arrays (n, ...) given."""

    @abstractmethod
    def take(self, index: NDArray[np.intp]) -> Array:
        """Inputs of some rows, in increasing order of their numbers."""

    def batches(self, size: int) -> Iterator[tuple[slice, Array]]:
        """At most so many rows at a time, nearly equally many: which they are, and their inputs."""
        ends = np.linspace(0, len(self), -(-len(self) // size) + 1).astype(int)
        for start, stop in pairwise(ends):
            yield slice(int(start), int(stop)), self.take(np.arange(start, stop))

    def evaluate(self, function: Callable[[Array], Array]) -> Array:
        """function(X), shape (n,) or (n, k), of a function that treats rows one by one."""
        return self.map_sum(Evaluate(function))[1][0]


class ArrayRows(RowSource):
    """An array (n, D), also one that is mapped from a file."""

    def __init__(self, X: Array) -> None:
        self._X = X
        self.shape = (X.shape[0], X.shape[1])

    @property
    def array(self) -> Array:
        """The array."""
        return self._X

    @property
    def in_memory(self) -> bool:
        """Whether `array` is there."""
        return True

    def map_sum(self, task: Pass, *given: Array) -> tuple[Arrays, Arrays]:
        """One part."""
        return run(task, self._X, 0, given)

    def take(self, index: NDArray[np.intp]) -> Array:
        """Some rows."""
        return np.asarray(self._X[index])

    def evaluate(self, function: Callable[[Array], Array]) -> Array:
        """All at once."""
        return function(self._X)


class PartedRows(RowSource):
    """Parts that are read one after the other in every pass; one of them is in memory at a time."""

    def __init__(self, sizes: Sequence[int], columns: int) -> None:
        self.sizes = tuple(sizes)
        self.shape = (sum(self.sizes), columns)

    @abstractmethod
    def parts(self) -> Iterator[Array]:
        """Inputs (n_k, D) of each part."""

    def map_sum(self, task: Pass, *given: Array) -> tuple[Arrays, Arrays]:
        """Part by part."""
        return added(self._results(task, given), self.sizes)

    def _results(self, task: Pass, given: Sequence[Array]) -> Iterator[tuple[Arrays, Arrays]]:
        first = 0
        for size, X in zip(self.sizes, self.parts()):
            yield run(task, X, first, [v[first : first + size] for v in given])
            first += size

    def batches(self, size: int) -> Iterator[tuple[slice, Array]]:
        """Parts, in pieces if they are larger: every part is read once."""
        first = 0
        for part in self.parts():
            ends = np.linspace(0, len(part), -(-len(part) // size) + 1).astype(int)
            for start, stop in pairwise(ends):
                yield slice(first + int(start), first + int(stop)), part[start:stop]
            first += len(part)

    def take(self, index: NDArray[np.intp]) -> Array:
        """Some rows, by reading all parts up to the last of them."""
        found, first = [], 0
        for size, X in zip(self.sizes, self.parts()):
            here = index[(index >= first) & (index < first + size)]
            found.append(X[here - first])
            first += size
            if index.size == 0 or index[-1] < first:
                break
        return np.concatenate(found)


def added(results: Iterator[tuple[Arrays, Arrays]], sizes: Sequence[int]) -> tuple[Arrays, Arrays]:
    """Sums of parts added up in their order, and what there is of each row put together."""
    total: Arrays = ()
    whole: Arrays = ()
    first = 0
    for k, (size, (sums, each)) in enumerate(zip(sizes, results)):
        if k == 0:
            total = tuple(np.array(s) for s in sums)
            whole = tuple(np.empty((sum(sizes), *piece.shape[1:])) for piece in each)
        else:
            for so_far, more in zip(total, sums):
                so_far += more
        for column, piece in zip(whole, each):
            column[first : first + size] = piece
        first += size
    return total, whole


class Evaluate(Pass):
    """A function of each row."""

    def __init__(self, function: Callable[[Array], Array]) -> None:
        self.function = function

    def add(self, sums: Arrays, X: Array, rows: slice, *given: Array) -> Arrays:
        """Its values."""
        return (self.function(X),)


class Pull(Pass):
    """The sum over rows of a pullback, pull(X, g), of one value for each row."""

    def __init__(self, pull: Callable[[Array, Array], Array], size: int) -> None:
        self.pull, self.size = pull, size

    def start(self) -> Arrays:
        """The sum."""
        return (np.zeros(self.size),)

    def add(self, sums: Arrays, X: Array, rows: slice, *given: Array) -> Arrays:
        """More of it."""
        sums[0][...] += self.pull(X, given[0])
        return ()


def as_rows(X: Any) -> RowSource:
    """A source of rows: what is one already, or an array (n, D)."""
    return X if isinstance(X, RowSource) else ArrayRows(np.asarray(X, dtype=float))
