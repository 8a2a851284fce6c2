"""What a kernel says about slopes of its functions, and which kernels can.

`jets_of(kernel)` is a rule for each class of kernels; a new class registers its own (`jets_of.register`). A kernel
without one refuses rows that ask for a slope in a column it sees, by name; other rows it serves as ever. So
`Matern(nu=0.5).on([0]) * SE().on([1])` has slopes in column 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from cavity.kernels.base import Kernel, Rows
from cavity.kernels.jets.numbers import Jet, Node, Part
from cavity.numerics.arrays import Array
from cavity.runtime.errors import InputError

Back = Callable[[Part, Part, Part, Part], None]
"""Takes cotangents of inputs and directions of the left rows, then of the right rows; None is zero."""


class NoSlopeError(InputError):
    """A slope is asked of a kernel whose functions have none."""


@dataclass(frozen=True)
class Pairing:
    """Which pairs of rows: all of left and right, or each with its own; and on which sides there are directions."""

    paired: bool = False
    left: bool = True
    right: bool = True

    def dot(self, A: Array, B: Array) -> Array:
        """Inner products of the rows of A and B."""
        return np.asarray(np.einsum("ij,ij->i", A, B) if self.paired else A @ B.T)

    def column(self, x: Array) -> Array:
        """A number of each left row."""
        return x if self.paired else x[:, None]

    def towards_left(self, H: Array, B: Array) -> Array:
        """sum_j H_ij b_j."""
        return H[:, None] * B if self.paired else np.asarray(H @ B)

    def towards_right(self, H: Array, A: Array) -> Array:
        """sum_i H_ij a_i."""
        return H[:, None] * A if self.paired else np.asarray(H.T @ A)

    def of_left(self, H: Array) -> Array:
        """sum_j H_ij."""
        return H if self.paired else np.asarray(H.sum(axis=1))

    def of_right(self, H: Array) -> Array:
        """sum_i H_ij."""
        return H if self.paired else np.asarray(H.sum(axis=0))


class Jets(ABC):
    """Slopes of one kernel's functions. Rows are prepared with a direction each."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def prepare(self, X: Array, U: Array, ids: NDArray[np.intp]) -> Rows:
        """Per-row quantities of inputs X and directions U, both (n, D); these two by default."""
        return X, U

    @abstractmethod
    def node(self, a: Rows, b: Rows, pairing: Pairing, flat: Array | None, back: Back | None) -> Node:
        """The jets of k(a, b).

        On the way back derivatives in the parameters are added to `flat`, and those in the inputs are handed to
        `back`, unless they are None.
        """


class WithoutSlopes(Jets):
    """A kernel whose functions have no slopes, or none that is written down: for rows that ask for none of it."""

    def prepare(self, X: Array, U: Array, ids: NDArray[np.intp]) -> Rows:
        """As the kernel does."""
        if U.any():
            row = int(np.argmax(U.any(axis=1)))
            raise NoSlopeError(
                f"row {row} asks for a slope of {self.kernel!r}, {why_not(self.kernel)}",
                parameter="slopes",
                remedy="use SE, RationalQuadratic or Matern with nu > 1 on the columns that have slopes, and put "
                "noise in the likelihood",
            )
        return (self.kernel._prepare(X, ids),)

    def node(self, a: Rows, b: Rows, pairing: Pairing, flat: Array | None, back: Back | None) -> Node:
        """Values alone."""
        k = self.kernel
        value = k._diag(a[0]) if pairing.paired else k._block(a[0], b[0])

        def sink(G: Jet) -> None:
            g = G.value
            if g is None:
                return
            if flat is not None:
                flat[:] += k._pull_diag(a[0], g) if pairing.paired else k._pull(a[0], b[0], g, value)
            if back is not None:
                if pairing.paired:  # half of it on each side
                    half = 0.5 * k._pull_diag_inputs(a[0], g)
                    back(half, None, half, None)
                else:
                    dA, dB = k._pull_inputs(a[0], b[0], g, value)
                    back(dA, None, dB, None)

        return Node(Jet(value), sink=sink)


def why_not(kernel: Kernel) -> str:
    """Why the functions of a kernel have no slope, as the end of a sentence."""
    reasons = {
        "Matern": "whose functions have no slope for nu <= 1, and none that is learned together with nu",
        "GammaExponential": "whose functions have no slope for gamma < 2",
        "PiecewisePolynomial": "whose functions have no slope for q = 0",
        "Wiener": "which is nowhere differentiable",
        "OnCircle": "which is nowhere differentiable",
        "Autoregressive": "which is a process at whole times",
        "White": "which is independent from point to point",
        "Categorical": "whose levels have no direction",
    }
    return reasons.get(type(kernel).__name__, "for which slopes are not known")


@singledispatch
def jets_of(kernel: Kernel) -> Jets:
    """The rule for slopes of a kernel's functions."""
    return WithoutSlopes(kernel)
