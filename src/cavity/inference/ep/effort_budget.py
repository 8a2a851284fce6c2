"""Work that a search for a fixed point may do: counted, not timed.

A limit in seconds would make results depend on the machine and on what else it does. Costs are those of one core of a
usual processor, so that a limit still reads as seconds there. An `EPProblem` charges for what is computed of it; who
solves linear systems beside that charges for those.
"""

from __future__ import annotations

import numpy as np

FIXED, PER_PAIR, PER_TRIPLE = 3.5e-4, 2.5e-8, 7.5e-11
"""Seconds of the Gaussian that n sites make: of any, and for each pair and each triple of points (measured from n = 10
to 800)."""

JACOBIAN = 3.0
"""Such Gaussians that cost as much as the posterior covariance and a 2n x 2n system."""

PER_NODE = 2e-8
"""Seconds of the tilted moments of a point, for each node of the quadrature."""


class Effort:
    """What is left of the work allowed, in nominal seconds."""

    def __init__(self, seconds: float = np.inf) -> None:
        self.left = seconds

    @property
    def spent(self) -> bool:
        """Whether nothing is left."""
        return self.left <= 0.0

    def gaussian(self, n: int) -> None:
        """Charge for conditioning on n sites."""
        self.left -= _gaussian(n)

    def jacobian(self, n: int) -> None:
        """Charge for solving the equations of all n points once, linearized."""
        self.left -= JACOBIAN * _gaussian(n)

    def moments(self, n: int, nodes: float) -> None:
        """Charge for the tilted moments of n points with so many nodes each."""
        self.left -= PER_NODE * n * nodes


def _gaussian(n: int) -> float:
    return FIXED + PER_PAIR * n**2 + PER_TRIPLE * n**3
