"""One inversion that gives a gradient both things it needs: R in full and the marginal variances.

With B = I + S K S over the sites of positive precision, the diagonal of Sigma = K - K R K is (1 - (B^-1)_ii)
/ precision_i. Sites of negative precision add R+ - R = F C^-1 F' (`latent.dense.SiteCorrection`) and K F C^-1
F' K to the variances: products of n x |N| matrices only.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsymm

from cavity.latent.dense import DensePrior, SiteCorrection
from cavity.numerics.arrays import Array

INFORMATION = 1e-6
"""Precision times posterior variance below which a variance is not taken from 1 - (B^-1)_ii, which has ten
digits there."""


def into_matrix_and_variances(
    correction: SiteCorrection, prior: DensePrior, needed: NDArray[np.bool_] | None = None
) -> tuple[Array, Array]:
    """(R in the lower triangle (n, n), posterior variances (n,)); the factor is overwritten and gone.

    The variance of a point whose site says next to nothing costs a product with R; `needed` (n,) marks the
    points for which that is worth while. The others get a value between zero and the prior variance.
    """
    c, K, diagonal = correction, prior.covariance, prior.diagonal
    F = None if c._C is None else c._C.half_solve(c._columns().T)
    inverse = c.factor.into_inverse()
    information = np.zeros(c.n)
    information[c.positive] = 1.0 - np.diagonal(inverse)
    var = np.zeros(c.n)
    var[c.positive] = information[c.positive] / c.root**2
    inverse *= c.root
    inverse *= c.root[:, None]
    R = inverse
    if not c._all:
        R = np.zeros((c.n, c.n))
        R[np.ix_(c.positive, c.positive)] = inverse
    if F is not None:
        R -= F.T @ F
        moved = F @ K
        var += np.einsum("ij,ij->j", moved, moved)
    vague = information <= INFORMATION
    if needed is not None:
        vague &= needed
    rows = np.flatnonzero(vague)
    if rows.size:
        cross = np.asfortranarray(K[:, rows])
        var[rows] = diagonal[rows] - np.einsum("ij,ij->j", cross, dsymm(1.0, R.T, cross, lower=0))
    return R, np.clip(var, np.finfo(float).eps * diagonal, None)
