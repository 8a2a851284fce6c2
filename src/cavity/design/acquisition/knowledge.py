"""Knowledge gradient: how much the best posterior mean is expected to improve by one more observation.

On a finite set it is exact (Frazier et al., 2009): an observation at x moves the means along m + b Z, Z standard
normal, b = k(., x) / sqrt(k(x, x) + noise), and E max_i (m_i + b_i Z) is a sum over the upper envelope of these lines,

    KG = sum_i (b_{i+1} - b_i) h(-|c_i|),    c_i the breakpoints, h(z) = phi(z) + z Phi(z).

Slopes that differ by rounding only (at points that are known already) would give wrong breakpoints: they are rounded
before lines are compared. Everything minimizes.
"""

from __future__ import annotations

import numpy as np

from cavity.design.acquisition.improvement import log_h
from cavity.latent.moments import Moments
from cavity.numerics.arrays import Array

SAME_SLOPE = 1e-10
"""Share of the largest slope to which slopes are rounded."""


def expected_maximum_gain(intercepts: Array, slopes: Array) -> float:
    """E max_i (a_i + b_i Z) - max_i a_i for standard normal Z.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.design.acquisition import expected_maximum_gain
    >>> round(expected_maximum_gain(np.array([0.0, 0.0]), np.array([-1.0, 1.0])), 6)  # E |Z|
    0.797885
    """
    size = float(np.max(np.abs(slopes), initial=0.0))
    if size == 0.0:
        return 0.0
    b = np.round(slopes / (SAME_SLOPE * size)) * (SAME_SLOPE * size)
    order = np.lexsort((intercepts, b))
    a, b = intercepts[order], b[order]
    last = np.append(b[1:] != b[:-1], True)  # of equal slopes the highest line
    a, b = a[last], b[last]
    kept, breaks = [0], [-np.inf]
    for i in range(1, len(b)):
        while True:
            j = kept[-1]
            c = (a[j] - a[i]) / (b[i] - b[j])  # line i is above line j from here on
            if c > breaks[-1] or len(kept) == 1:
                break
            kept.pop()
            breaks.pop()
        kept.append(i)
        breaks.append(c)
    c = np.array(breaks[1:])
    return float(np.sum(np.diff(b[kept]) * np.exp(log_h(-np.abs(c)))))


def knowledge_gradient(moments: Moments, X: Array, points: Array, noise: float = 0.0) -> Array:
    """Of an observation at each row of X (m,), for the smallest mean over some points (k, D).

    Parameters
    ----------
    noise : float
        Variance of the observation's noise, in the units of the moments.
    """
    mean = moments(points)[0][:, 0]
    variance, prior = moments.relative(X)[1:]
    cross = moments.covariance(X, points)
    total = variance + noise
    out = np.zeros(len(X))
    for i in range(len(X)):
        if total[i] > 1e-12 * prior[i]:
            out[i] = expected_maximum_gain(-mean, cross[i] / np.sqrt(total[i]))
    return out
