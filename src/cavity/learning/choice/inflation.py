"""Variances that fit rows left out: one factor for the variances of kernel and normal noise.

Scaling both by the same factor leaves the posterior mean as it is and scales every predictive variance. Values of
highest evidence make variances too small if there are few rows for many parameters; the residuals of rows that learning
has not seen say by how much (cross-validation of the variance: Currin et al. 1991, Bachoc 2013). The factor is one for
which 90 % of them are where they should be, drawn towards one by a few rows, and never below one. Of n residuals it is
the one of rank 0.9 (n + 1) that a new one exceeds with probability 0.1 (conformal prediction: Vovk et al. 2005).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cavity.gp import GP
from cavity.kernels import Kernel, Linear, On, Scaled, Standardized, Sum
from cavity.likelihoods import Gaussian, MixtureOfGaussians
from cavity.numerics.arrays import Array

LEVEL, QUANTILE = 0.9, 1.6448536269514722
"""Share of normal residuals that are smaller than so many standard deviations."""

PRIOR_ROWS = 10.0
"""Rows that speak for a factor of one."""

LARGEST = 4.0


def inflation(residuals: Array) -> float:
    """The factor, from residuals of rows left out, in standard deviations.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.learning.choice.inflation import inflation
    >>> inflation(1.5 * np.abs(np.random.default_rng(0).standard_normal(10_000))) > 2.0
    True
    """
    n = len(residuals)
    rank = min(int(np.ceil((n + 1) * LEVEL)), n)
    found = (float(np.partition(residuals, rank - 1)[rank - 1]) / QUANTILE) ** 2
    return float(np.clip((n * found + PRIOR_ROWS) / (n + PRIOR_ROWS), 1.0, LARGEST))


def inflated(model: GP, factor: float) -> GP | None:
    """The model with variances of kernel and noise times a factor; None if it is of another kind.

    Noise is Gaussian, or a mixture of two normal densities, regular and wide; residuals are then those of regular rows.
    """
    variances, noise = _variances(model.kernel), model.likelihood.noise
    if variances is None or not isinstance(noise, Gaussian | MixtureOfGaussians):
        return None
    kernel = model.kernel.with_flat(np.where(variances, factor, 1.0) * model.kernel.flat)
    of_noise = np.ones(model.likelihood.flat.size)
    if isinstance(noise, Gaussian):
        of_noise[0] = factor
    else:
        of_noise[1] = np.sqrt(factor)  # the scale; the wide one is a multiple of it
    likelihood = model.likelihood.with_flat(of_noise * model.likelihood.flat)
    return model._rebuild({}, (kernel, model.mean, likelihood, model.representation))


def _variances(kernel: Kernel) -> NDArray[np.bool_] | None:
    """Which flat values multiply a kernel as a whole; None if there are no such."""
    if isinstance(kernel, Linear):
        return np.ones(kernel.flat.size, dtype=bool)
    if isinstance(kernel, Scaled):
        found = np.zeros(kernel.flat.size, dtype=bool)
        found[0] = True
        return found
    if isinstance(kernel, Standardized | On):
        return _variances(kernel.kernel)
    if isinstance(kernel, Sum):
        parts = [_variances(term) for term in kernel.terms]
        known = [part for part in parts if part is not None]
        return np.concatenate(known) if len(known) == len(parts) else None
    return None
