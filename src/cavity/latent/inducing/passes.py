"""Passes over the rows that inducing inputs need: what is added up over them, and what there is of each.

In each a tile of K_fu is evaluated from a block of inputs and whitened to V' = K_fu L^-T (`White`), or V' is at hand
from an earlier pass (`Kept`), whose rows are then the source instead of the inputs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from cavity.kernels.base import Kernel, Rows
from cavity.latent.inducing.blocks import add_weighted_gram, row_products, times_inverse
from cavity.latent.inducing.kinds import Kind
from cavity.numerics.arrays import Array
from cavity.numerics.compiled import compiled_passes
from cavity.rows.base import Arrays, Pass


class Tiles(Protocol):
    """What makes V' of a block of rows."""

    @property
    def keep(self) -> bool:
        """Whether its arrays must not be overwritten."""
        ...

    def white(self, X: Array, rows: slice) -> Array:
        """V' of a block, shape (b, m)."""
        ...


@dataclass(frozen=True)
class Kept:
    """V' is what the blocks hold."""

    keep: bool = True

    def white(self, X: Array, rows: slice) -> Array:
        """As it is."""
        return X


@dataclass(frozen=True)
class Cross:
    """K_fu between blocks of rows and some inputs.

    Attributes
    ----------
    kernel : Kernel
    inducing : prepared inputs
    inducing_width : int
        Number of columns of these inputs.
    compiled : bool
        Whether kernels use compiled passes.
    """

    kernel: Kernel
    inducing: Rows
    inducing_width: int
    compiled: bool

    def tile(self, X: Array, rows: slice) -> tuple[Rows, Array]:
        """Prepared inputs and K_fu of a block, a fresh C-ordered array."""
        a = self.kernel._prepare(X, np.arange(rows.start, rows.stop))
        with compiled_passes(self.compiled):
            return a, self.kernel._block(a, self.inducing)


@dataclass(frozen=True)
class White(Cross):
    """V' is evaluated from inputs.

    Attributes
    ----------
    root : array (m, m)
        L^-T, upper triangular.
    """

    root: Array
    keep: bool = field(default=False, init=False)

    @property
    def cross(self) -> Cross:
        """What evaluates K_fu alone: less to send."""
        return Cross(self.kernel, self.inducing, self.inducing_width, self.compiled)

    def white(self, X: Array, rows: slice) -> Array:
        """V' of a block, a fresh array."""
        return times_inverse(self.root, self.tile(X, rows)[1])

    def white_and_residual(self, X: Array, rows: slice) -> tuple[Array, Array, Array]:
        """V', d, not less than the rounding error of what it is a difference of, and k_ii."""
        a, K = self.tile(X, rows)
        V = times_inverse(self.root, K)
        own = self.kernel._diag(a)
        return V, np.maximum(own - row_products(V, V), np.finfo(float).eps * own), own


def _square(m: int) -> Array:
    return np.zeros((m, m))


@dataclass(frozen=True)
class Residual(Pass):
    """d and k_ii; V' is written to the array that is given, if one is."""

    tiles: White

    def add(self, sums: Arrays, X: Array, rows: slice, *given: Array) -> Arrays:
        """A block."""
        V, d, own = self.tiles.white_and_residual(X, rows)
        for kept in given:
            kept[...] = V
        return d, own


@dataclass(frozen=True)
class FirstGram(Pass):
    """d, k_ii and, with the weights S that follow, V S V' in the lower triangle.

    Given: precisions or variances of the sites and, if V' is to be kept, the array for it.
    """

    tiles: White
    kind: Kind
    observed: bool

    def start(self) -> Arrays:
        """V S V'."""
        return (_square(len(self.tiles.root)),)

    def add(self, sums: Arrays, X: Array, rows: slice, *given: Array) -> Arrays:
        """A block."""
        V, d, own = self.tiles.white_and_residual(X, rows)
        for kept in given[1:]:
            kept[...] = V
        with np.errstate(
            divide="ignore", invalid="ignore"
        ):  # improper sites are refused by who has seen them all
            S = self.kind.weigh(given[0], d, self.observed)[0]
            add_weighted_gram(sums[0], V, S, keep=False)
        return d, own


@dataclass(frozen=True)
class Gram(Pass):
    """V diag(weight) V' in the lower triangle, for the weight given."""

    tiles: Tiles
    m: int

    def start(self) -> Arrays:
        """The matrix."""
        return (_square(self.m),)

    def add(self, sums: Arrays, X: Array, rows: slice, *given: Array) -> Arrays:
        """A block."""
        add_weighted_gram(sums[0], self.tiles.white(X, rows), given[0], self.tiles.keep)
        return ()


@dataclass(frozen=True)
class ProjectIn(Pass):
    """K_uf U, or V U of what is kept, for the U (n, k) given."""

    tiles: Cross | Kept
    m: int
    columns: int

    def start(self) -> Arrays:
        """The product (m, k)."""
        return (np.zeros((self.m, self.columns)),)

    def add(self, sums: Arrays, X: Array, rows: slice, *given: Array) -> Arrays:
        """A block."""
        A = X if isinstance(self.tiles, Kept) else self.tiles.tile(X, rows)[1]
        sums[0][...] += A.T @ given[0]
        return ()


@dataclass(frozen=True)
class ProjectOut(Pass):
    """K_fu W, or V' W of what is kept."""

    tiles: Cross | Kept
    W: Array

    def add(self, sums: Arrays, X: Array, rows: slice, *given: Array) -> Arrays:
        """A block."""
        A = X if isinstance(self.tiles, Kept) else self.tiles.tile(X, rows)[1]
        return (A @ self.W,)


@dataclass(frozen=True)
class Explained(Pass):
    """V_i'B^-1 V_i, for the inverse factor R = L_B^-T."""

    tiles: Tiles
    R: Array

    def add(self, sums: Arrays, X: Array, rows: slice, *given: Array) -> Arrays:
        """A block."""
        V = self.tiles.white(X, rows)
        U = times_inverse(self.R, V.copy() if self.tiles.keep else V)
        return (row_products(U, U),)


@dataclass(frozen=True)
class Sandwiched(Pass):
    """V_i'M V_i."""

    tiles: Tiles
    M: Array

    def add(self, sums: Arrays, X: Array, rows: slice, *given: Array) -> Arrays:
        """A block."""
        V = self.tiles.white(X, rows)
        return (row_products(V @ self.M, V),)


@dataclass(frozen=True)
class Own(Pass):
    """k_ii."""

    kernel: Kernel

    def add(self, sums: Arrays, X: Array, rows: slice, *given: Array) -> Arrays:
        """A block."""
        return (self.kernel._diag(self.kernel._prepare(X, np.arange(rows.start, rows.stop))),)
