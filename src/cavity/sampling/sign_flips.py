"""Signs that a model does not tell apart: a column of loadings and its negative make the same covariances.

Chains then have a mirror image of every mode. Two things put that right: now and then a chain proposes the other sign
(Metropolis: a prior may prefer one), and draws are shown with the sign that makes the largest loading positive. The
process that a draw leaves does not change with its sign.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cavity.numerics.arrays import Array
from cavity.sampling.targets import Target

LOADINGS = re.compile(r"(.*categorical(?:_\d+)?\.loadings)\[\d+,(\d+)\]")
"""Names of loadings of tables of categories or outputs, and their column."""

SHARE = 0.2
"""Share of the rounds in which a flip is proposed: it costs two evaluations."""


@dataclass(frozen=True)
class SignFlips:
    """Columns of loadings among the coordinates of a target.

    Attributes
    ----------
    groups : tuple of arrays of int
        Coordinates of each column.
    target : Target
    """

    groups: tuple[NDArray[np.intp], ...]
    target: Target

    @classmethod
    def of(cls, names: Sequence[str], target: Target, offset: int = 0) -> SignFlips | None:
        """Of a model with these free parameters, which are coordinates from `offset` on; None if it has none."""
        found: dict[tuple[str, str], list[int]] = {}
        for k, name in enumerate(names):
            match = LOADINGS.fullmatch(name)
            if match is not None:
                found.setdefault((match[1], match[2]), []).append(offset + k)
        return cls(tuple(np.array(at) for at in found.values()), target) if found else None

    def __call__(self, U: Array, rng: np.random.Generator) -> Array:
        """Positions (C, d) after a flip of one column, chosen at random, was proposed to each chain."""
        if rng.random() > SHARE:
            return U
        at = self.groups[rng.integers(len(self.groups))]
        flipped = U.copy()
        flipped[:, at] *= -1.0
        gain = self.target.log_density(flipped) - self.target.log_density(U)
        accepted = np.log(rng.random(len(U))) < gain
        return np.where(accepted[:, None], flipped, U)

    def folded(self, positions: Array) -> Array:
        """Positions (..., d) with the loading of each column that is largest on average positive."""
        out = positions.copy()
        for at in self.groups:
            largest = at[int(np.argmax(np.mean(np.abs(out[..., at]), axis=tuple(range(out.ndim - 1)))))]
            out[..., at] *= np.where(out[..., largest] < 0, -1.0, 1.0)[..., None]
        return out
