"""Rows chosen one after the other, each the best of a working set (Rasmussen and Williams 2006, Algorithm 8.1).

`informative_rows` is for a subset of data: the next row says most about f, by 1/2 log(1 + v_j / s) (eq.
8.19, the informative vector machine), so that of the largest variance v_j given the rows before. `regressor_rows` is
for a subset of regressors: the next row is the one whose kernel function raises log N(y | 0, K~ + s I) most (eq. 8.17).
With k a new row of V, K~ = V'V and C = (K~ + s I)^-1, it gains

    1/2 (k'C y)^2 / (1 + k'C k) - 1/2 log(1 + k'C k).

On most data neither predicts better than k-means or random rows with as many of them (the book says so of its own
experiments); they are here to be compared with.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cavity.kernels.base import Kernel
from cavity.numerics.arrays import Array
from cavity.numerics.compiled import COMPILED_FROM, compiled_passes

WORKING_SET = 59
"""Candidates of a step: the best of 59 at random is among the best twentieth of all with a probability of 0.95."""

NOTHING_LEFT = 1e-12
"""Share of its variance below which a row says no more."""


def informative_rows(kernel: Kernel, X: Array, m: int, noise: float) -> NDArray[np.intp]:
    """At most m rows of X (n, D), in the order of their choice; `noise` is the noise variance. O(n m^2).

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.kernels import SE
    >>> from cavity.latent.inducing.greedy import informative_rows
    >>> informative_rows(SE(1.0), np.array([[0.0], [0.1], [3.0], [9.0]]), 3, 0.01)
    array([0, 3, 2])
    """
    rows = kernel._prepare(X, np.full(len(X), -1))
    own = kernel._diag(rows)
    v, M, chosen = own.copy(), np.empty((min(m, len(X)), len(X))), list[int]()
    with compiled_passes(len(X) >= COMPILED_FROM):
        while len(chosen) < len(M):
            open_ = np.ones(len(X), dtype=bool)
            open_[chosen] = False
            i = int(np.argmax(np.where(open_, v, -np.inf)))
            if v[i] <= NOTHING_LEFT * own[i]:
                break
            k, at = len(chosen), kernel._prepare(X[i : i + 1], np.array([-2]))
            row = kernel._block(at, rows)[0] - M[:k, i] @ M[:k]
            M[k] = row / np.sqrt(v[i] + noise)
            v = np.maximum(v - M[k] ** 2, 0.0)
            chosen.append(i)
    return np.array(chosen, dtype=np.intp)


def regressor_rows(
    kernel: Kernel,
    X: Array,
    y: Array,
    m: int,
    noise: float,
    rng: np.random.Generator,
    working_set: int = WORKING_SET,
) -> NDArray[np.intp]:
    """At most m rows of X (n, D), for residuals y (n,), in the order of their choice. O(w n m^2), w candidates each."""
    n = len(X)
    rows = kernel._prepare(X, np.full(n, -1))
    own = kernel._diag(rows)
    left, chosen = list(range(n)), list[int]()
    V, L = np.empty((min(m, n), n)), np.empty((0, 0))  # L L' = s I + V V'
    with compiled_passes(n >= COMPILED_FROM):
        while len(chosen) < len(V) and left:
            some = np.sort(rng.choice(left, min(working_set, len(left)), replace=False))
            known = V[: len(chosen)]
            found = _candidates(kernel, X, rows, some, known, own)
            if found is None:
                left = [i for i in left if i not in set(some.tolist())]
                continue
            usable, K = found
            half = np.linalg.solve(L, known @ K.T) if len(chosen) else np.empty((0, len(K)))
            white = np.linalg.solve(L, known @ y) if len(chosen) else np.empty(0)
            seen = (np.einsum("ij,ij->i", K, K) - np.einsum("ji,ji->i", half, half)) / noise  # k'C k
            fit = (K @ y - half.T @ white) / noise  # k'C y
            best = int(np.argmax(fit**2 / (1.0 + seen) - np.log1p(seen)))
            V[len(chosen)] = K[best]
            chosen.append(int(usable[best]))
            left.remove(chosen[-1])
            L = np.block(
                [
                    [L, np.zeros((len(L), 1))],
                    [half[:, best][None, :], np.sqrt(noise * (1.0 + seen[best]))],
                ]
            )
    return np.array(chosen, dtype=np.intp)


def _candidates(
    kernel: Kernel, X: Array, rows: object, some: NDArray[np.intp], V: Array, own: Array
) -> tuple[NDArray[np.intp], Array] | None:
    """Rows that those before do not determine, and what each would add to V, shape (w, n)."""
    at = kernel._prepare(X[some], np.full(len(some), -2))
    K = kernel._block(at, rows) - V[:, some].T @ V  # type: ignore[arg-type]
    pivot = K[np.arange(len(some)), some]
    good = pivot > NOTHING_LEFT * own[some]
    if not good.any():
        return None
    return some[good], K[good] / np.sqrt(pivot[good])[:, None]
