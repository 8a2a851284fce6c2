"""How different two processes are: symmetric divergence at given inputs, alignment of a kernel with targets."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cavity.kernels import Kernel
from cavity.kernels.base import as_inputs
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import try_factorize
from cavity.runtime.errors import InputError


def symmetric_divergence(
    one: Kernel, other: Kernel, X: ArrayLike, mean_difference: ArrayLike | None = None
) -> float:
    """KL(one || other) + KL(other || one) of two processes at inputs X, in nats (eq. 7.18 of the book).

    Two processes are equivalent, so that no amount of data tells them apart for sure, if it stays bounded however
    densely the inputs fill an interval.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.kernels import Matern
    >>> from cavity.theory import symmetric_divergence
    >>> x = np.linspace(0, 1, 160)[:, None]
    >>> round(symmetric_divergence(Matern(1.0, 0.5), 0.5 * Matern(0.5, 0.5), x), 3)  # Stein's pair: tends to 5/8
    0.625
    """
    x = as_inputs(X)
    K0, K1 = one(x), other(x)
    first, second = try_factorize(K0.copy()), try_factorize(K1.copy())
    if first is None or second is None:
        raise InputError(
            "makes a covariance matrix that is singular to rounding",
            parameter="X",
            value=X,
            remedy="leave out equal inputs, use fewer of them, or add White noise to both kernels",
        )
    value = 0.5 * float(np.trace(second.solve(K0)) + np.trace(first.solve(K1))) - len(x)
    if mean_difference is not None:
        d: Array = np.asarray(mean_difference, dtype=float)
        value += 0.5 * float(d @ first.solve(d) + d @ second.solve(d))
    return value


def alignment(kernel: Kernel, X: ArrayLike, y: ArrayLike) -> float:
    """y'K y / (n ||K||): how well a kernel matches labels -1 and +1, between -1 and 1 (Cristianini et al., 2002).

    Examples
    --------
    >>> from cavity.kernels import Linear
    >>> from cavity.theory import alignment
    >>> round(alignment(Linear(1.0, 0.0), [[-1.0], [1.0], [2.0]], [-1, 1, 1]), 4)
    0.8889
    """
    K, t = kernel(as_inputs(X)), np.asarray(y, dtype=float)
    if t.shape != (len(K),) or not np.any(t) or not np.any(K):
        raise InputError(
            f"must be {len(K)} labels, not all zero, and so must be the kernel", parameter="y", value=y
        )
    return float(t @ K @ t / (float(t @ t) * np.linalg.norm(K)))
