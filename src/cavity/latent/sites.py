"""Gaussian sites: what an inference rule puts in place of the likelihood factors.

A site is exp(shift * f - precision * f^2 / 2), in natural parameters and without a constant. Precisions may
be negative (a heavy-tailed likelihood widens the posterior where an outlier contradicts it) or zero (no
information).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cavity.numerics.arrays import Array


@dataclass(frozen=True)
class Sites:
    """Natural parameters of n sites.

    Attributes
    ----------
    shift : array (n,)
        nu, the coefficient of f.
    precision : array (n,)
        tau, the coefficient of -f^2 / 2; of any sign.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.inference import Sites
    >>> Sites.of_observations(np.array([2.0, 3.0]), np.array([0.5, 1.0])).shift
    array([4., 3.])
    """

    shift: Array
    precision: Array

    def __post_init__(self) -> None:
        if self.shift.shape != self.precision.shape:
            raise ValueError(
                f"sites need as many shifts as precisions, got {self.shift.shape} and {self.precision.shape}"
            )

    @classmethod
    def zero(cls, n: int) -> Sites:
        """Sites that say nothing."""
        return cls(np.zeros(n), np.zeros(n))

    @classmethod
    def of_observations(cls, y: Array, variance: Array) -> Sites:
        """Sites of Gaussian observations with positive noise variances."""
        precision = 1.0 / np.broadcast_to(variance, y.shape)
        return cls(precision * y, precision)

    def __len__(self) -> int:
        return len(self.precision)
