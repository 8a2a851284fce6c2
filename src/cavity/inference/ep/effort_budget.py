"""Work that a search for a fixed point may do: counted, not timed.

A limit in seconds would make results depend on the machine and on what else it does. Costs are those of one core of a
usual processor, so that a limit still reads as seconds there.
"""

from __future__ import annotations

import numpy as np

FIXED, PER_PAIR, PER_TRIPLE = 1.5e-3, 1e-7, 3e-10
"""Seconds of a Newton step on n points: of any, and for each pair and each triple of points (a 2n x 2n system, the
posterior covariance and tilted moments; measured from n = 10 to 800)."""

SWEEPS_PER_STEP = 4.0
"""Parallel sweeps that cost as much as a Newton step."""


class Effort:
    """What is left of the work allowed, in nominal seconds."""

    def __init__(self, seconds: float = np.inf) -> None:
        self.left = seconds

    @property
    def spent(self) -> bool:
        """Whether nothing is left."""
        return self.left <= 0.0

    def newton_step(self, n: int) -> None:
        """Charge for solving the equations of all n points once, linearized."""
        self.left -= _newton_step(n)

    def sweep(self, n: int) -> None:
        """Charge for a parallel update of n sites."""
        self.left -= _newton_step(n) / SWEEPS_PER_STEP


def _newton_step(n: int) -> float:
    return FIXED + PER_PAIR * n**2 + PER_TRIPLE * n**3
