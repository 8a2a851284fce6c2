"""Plain importance sampling: draws from one density, weights for another.

For small problems and for teaching: in many dimensions a few draws carry all the weight, which the effective number
of draws 1 / sum w^2 shows only if some draw has found the mass of the target.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from cavity.numerics.arrays import Array
from cavity.runtime.checks import require_integer
from cavity.sampling.targets import Target


@dataclass(frozen=True)
class WeightedDraws:
    """Weighted draws.

    Attributes
    ----------
    positions : array (S, d)
    log_weights : array (S,)
        log p - log q, not normalized.
    """

    positions: Array
    log_weights: Array

    @property
    def weights(self) -> Array:
        """Normalized weights, (S,)."""
        return np.asarray(np.exp(self.log_weights - logsumexp(self.log_weights)))

    @property
    def log_evidence(self) -> float:
        """Log of the integral of the target, with the constants that target and proposal have."""
        return float(logsumexp(self.log_weights) - np.log(len(self.log_weights)))

    @property
    def log_evidence_error(self) -> float:
        """Its standard error by the weights, sd(w) / (mean(w) sqrt(S)); never more than 1, however wrong."""
        return float(np.std(self.weights * len(self.weights)) / np.sqrt(len(self.weights)))

    @property
    def effective_draws(self) -> float:
        """1 / sum w^2."""
        return float(1.0 / np.sum(self.weights**2))

    def mean(self, function: Callable[[Array], ArrayLike] | None = None) -> Array:
        """Weighted mean of the position, or of a function (S, d) -> (S, ...) of it."""
        values = self.positions if function is None else np.asarray(function(self.positions), dtype=float)
        return np.asarray(np.tensordot(self.weights, values, axes=1))


def importance(
    target: Target | Callable[[Array], Array],
    draw: Callable[[np.random.Generator, int], Array],
    log_proposal: Callable[[Array], Array],
    *,
    size: int = 1000,
    rng: np.random.Generator | int | None = None,
    block: int = 1024,
) -> WeightedDraws:
    """Draws from a proposal density with weights for the target.

    Parameters
    ----------
    target : Target or callable
        Log density (S, d) -> (S,).
    draw : callable
        `draw(rng, size)` gives independent draws (size, d).
    log_proposal : callable
        Log density of the proposal, (S, d) -> (S,).

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.parameters.priors import Normal
    >>> q = Normal(0.0, 2.0)
    >>> found = importance(lambda x: -0.5 * x[:, 0] ** 2, lambda rng, size: q.sample(rng, (size, 1)),
    ...                    lambda x: q.log_density(x[:, 0]), size=20000, rng=0)
    >>> bool(abs(found.log_evidence - 0.5 * np.log(2 * np.pi)) < 0.02)
    True
    """
    require_integer(size, "size", 1)
    rng = np.random.default_rng(rng)
    log_density = target if callable(target) else target.log_density
    positions, log_weights = [], []
    for start in range(0, size, block):
        x = draw(rng, min(block, size - start))
        with np.errstate(invalid="ignore"):
            w = log_density(x) - log_proposal(x)
        positions.append(x)
        log_weights.append(np.where(np.isnan(w), -np.inf, w))
    found = WeightedDraws(np.concatenate(positions), np.concatenate(log_weights))
    if not np.isfinite(logsumexp(found.log_weights)):
        raise ValueError(
            "no draw of the proposal has positive density under the target: choose another proposal"
        )
    return found
