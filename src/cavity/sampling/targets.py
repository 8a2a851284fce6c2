"""What samplers sample: log densities and their gradients, for all chains at once.

A position is an array (C, d), one row per chain. If a density is not defined at a position, its logarithm is -inf,
never nan, and the gradient is zero: a sampler then rejects the position.

The posteriors of a model are targets in modules of their own: latent values (`latent_target`), hyperparameters with f
integrated out (`hyperparameter_target`), both together (`joint_target`), noise variances and hyperparameters
(`scale_mixture`), the full conditionals of a mixture (`outlier_conditionals`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from cavity.numerics.arrays import Array


class Target(Protocol):
    """A log density over d coordinates, evaluated for C chains at once."""

    dim: int
    names: tuple[str, ...]

    def log_density(self, U: Array) -> Array:
        """Log density up to a constant, (C,) for positions (C, d)."""
        ...

    def value_and_gradient(self, U: Array) -> tuple[Array, Array]:
        """Log density (C,) and its gradient (C, d).

        A target may also have `gradient(U)`, if that alone is cheaper: it need not be zero if undefined.
        """
        ...


class DifferentiableTarget(ABC):
    """A target whose value and gradient come together, so that the value alone costs as much."""

    dim: int
    names: tuple[str, ...]

    def log_density(self, U: Array) -> Array:
        """Log density up to a constant, (C,) for positions (C, d)."""
        return self.value_and_gradient(U)[0]

    @abstractmethod
    def value_and_gradient(self, U: Array) -> tuple[Array, Array]:
        """Log density (C,) and its gradient (C, d)."""


class FunctionTarget(DifferentiableTarget):
    """A target from a function that returns log densities (C,) and gradients (C, d) for positions (C, d).

    Examples
    --------
    >>> import numpy as np
    >>> target = FunctionTarget(lambda U: (-0.5 * np.sum(U**2, axis=1), -U), dim=3)
    >>> target.log_density(np.ones((2, 3)))
    array([-1.5, -1.5])
    """

    def __init__(self, function: Any, dim: int, names: Sequence[str] = ()) -> None:
        self._function, self.dim, self.names = function, dim, tuple(names)

    def value_and_gradient(self, U: Array) -> tuple[Array, Array]:
        """What the function returns, with -inf and zero in place of what is not finite."""
        with np.errstate(all="ignore"):
            value, gradient = self._function(U)
        return defined(np.asarray(value, dtype=float), np.asarray(gradient, dtype=float))


def defined(value: Array, gradient: Array) -> tuple[Array, Array]:
    """Values (C,) and gradients (C, d), with -inf and zero for chains at which either is not finite."""
    # finite exactly if everything is (unless a sum overflows: then each is looked at)
    total = value + gradient.sum(axis=1)
    if np.isfinite(total).all():
        return value, gradient
    bad = ~(np.isfinite(value) & np.isfinite(gradient).all(axis=1))
    return np.where(bad, -np.inf, value), np.where(bad[:, None], 0.0, gradient)


def chain_by_chain(one: Callable[[Array], tuple[float, Array]], U: Array) -> tuple[Array, Array]:
    """Values (C,) and gradients (C, d) of a function of one position (d,): each chain has a matrix of its own."""
    value, gradient = np.full(len(U), -np.inf), np.zeros(U.shape)
    for c, position in enumerate(U):
        value[c], gradient[c] = one(position)
    return defined(value, gradient)


def inside(theta: Array, bounds: Array) -> bool:
    """Whether hyperparameters (p,) are within their bounds (p, 2)."""
    return bool(np.all((theta >= bounds[:, 0]) & (theta <= bounds[:, 1])))
