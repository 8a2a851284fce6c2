"""Training times in order, and the steps between them."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cavity.kernels.base import Kernel
from cavity.kernels.state_space import NoStateSpaceError
from cavity.latent.base import Inputs
from cavity.numerics.arrays import Array
from cavity.rows.base import RowSource

SAMPLE = 1000
"""Gaps that say whether times are regular."""


def has_exact_markov_form(kernel: Kernel, X: ArrayLike) -> bool:
    """Whether the kernel is a Gaussian Markov process of the one column of X (n, 1).

    `kernel.state_space().size` is the number of its states.
    """
    if np.ndim(X) != 2 or np.shape(X)[1] != 1:
        return False
    try:
        kernel.state_space()
    except NoStateSpaceError:
        return False
    return True


ROUNDED, GRID = 4.0, 1e-6
"""Units of rounding of the times by which gaps of a regular grid may differ, and what share of a gap that may be."""


class TimeInputs(Inputs):
    """Times of one fit, sorted once.

    Attributes
    ----------
    t : array (n,)
        Times in order.
    in_order : bool
        Whether the rows are in order of time.
    """

    def __init__(self, X: ArrayLike | RowSource) -> None:
        super().__init__(X)
        if self.X.ndim != 2 or self.X.shape[1] != 1:
            raise ValueError(
                f"the representation 'markov' is for one input column, got X of shape {self.X.shape}; use "
                "representation='dense'"
            )
        x = self.X[:, 0]
        self.in_order = bool(np.all(x[:-1] <= x[1:]))
        self._order = None if self.in_order else np.argsort(x, kind="stable")
        self.t = np.ascontiguousarray(x if self.in_order else x[self._order])

    @property
    def order(self) -> NDArray[np.intp]:
        """Row of each time."""
        return np.arange(len(self.t)) if self._order is None else self._order

    @cached_property
    def _distinct(self) -> tuple[Array, NDArray[np.intp]]:
        """Gaps between different times, each once if times are regular, and which of them follows each time, or -1."""
        gaps = self._gaps
        moves = np.flatnonzero(gaps > 0)
        some = gaps[moves[:SAMPLE]]
        if (
            len(moves) > SAMPLE and 2 * len(np.unique(some)) > SAMPLE
        ):  # irregular: in order of time, for the cache
            distinct, found = gaps[moves], np.arange(len(moves))
        else:
            distinct, found = np.unique(gaps[moves], return_inverse=True)
        which = np.full(len(self.t), -1, dtype=np.intp)
        which[moves] = found
        return distinct, which

    @cached_property
    def _gaps(self) -> Array:
        """Gaps between neighbors; those of a regular grid are one and the same, if rounding alone tells them apart."""
        gaps = np.diff(self.t)
        usual = float(np.median(gaps[gaps > 0][:SAMPLE])) if np.any(gaps > 0) else 0.0
        rounding = ROUNDED * float(np.finfo(float).eps) * float(np.max(np.abs(self.t), initial=0.0))
        if 0 < rounding < GRID * usual:
            np.copyto(gaps, usual, where=np.abs(gaps - usual) <= rounding)
        return gaps

    def stretches(self, moving: bool, longest: int) -> list[Stretch]:
        """All time steps; those of one stretch have at most so many different transitions.

        A transition depends on the gap alone, unless the noise of the state is `moving` with time.
        """
        distinct, which = self._distinct
        if not moving and len(distinct) <= longest:
            return [Stretch(0, which, distinct, np.zeros(len(distinct)))]
        gaps, found = np.append(self._gaps, 0.0), []
        for first in range(0, len(self.t), longest):
            part = slice(first, min(first + longest, len(self.t)))
            moves = np.flatnonzero(gaps[part] > 0)
            own = np.full(part.stop - first, -1, dtype=np.intp)
            own[moves] = np.arange(len(moves))
            found.append(Stretch(first, own, gaps[part][moves], self.t[part][moves]))
        return found


class Stretch(NamedTuple):
    """Consecutive time steps: the first of them, which transition follows each, and gap and time of the transitions."""

    first: int
    which: NDArray[np.intp]
    gaps: Array
    times: Array

    @property
    def steps(self) -> slice:
        """Which of all time steps."""
        return slice(self.first, self.first + len(self.which))
