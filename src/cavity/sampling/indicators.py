"""Indicators of a two-component noise model, moved one at a time with the function integrated out.

Point i has noise variance s_r^2 (indicator 0) or s_o^2 (indicator 1), A = K + diag(v), R = A^-1, b = R r with the
residual r = y - m. Changing v_i by delta changes the log evidence by

    -1/2 log(1 + delta R_ii) + 1/2 delta b_i^2 / (1 + delta R_ii),

which needs one number of R, and R itself by a matrix of rank one: O(1) for an indicator that stays, O(n^2) for one that
flips (Kuss 2006, eq. 5.15). With p the probability of an outlier given all other indicators, a plain Gibbs update draws
from it; an over-relaxed one flips with probability min(1, odds of the other value) (Neal 1998; Kuss eq. 5.17), which
leaves the same distribution invariant and moves more often. If p is exactly one half, over-relaxation always flips,
so that both kinds of sweep are mixed to keep the chain irreducible.

Rank-one updates add up rounding errors: R is computed afresh after `refresh` flips (O(n^3) for O(n) flips, so no more
than the flips themselves cost) and whenever a pivot 1 + delta R_ii is not positive.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import factorize
from cavity.numerics.tiles import mirror_lower

Flags = NDArray[np.bool_]

PLAIN_SHARE = 0.1
"""Share of sweeps that draw indicators afresh instead of over-relaxed."""

LEAST_REFRESH = 50
"""Flips before R is computed afresh, at least; n of them if there are more points."""


class Indicators:
    """The state of one chain: indicators, and the inverse that their moves need.

    Parameters
    ----------
    covariance : array (n, n)
        K, full; kept, not changed.
    residual : array (n,)
        y - m.
    indicators : array of bool (n,)
        True for outliers; copied.
    regular, outlier : float
        Noise variances, 0 < regular < outlier.
    refresh : int, optional
        Flips after which R is computed afresh.
    """

    def __init__(
        self,
        covariance: Array,
        residual: Array,
        indicators: ArrayLike,
        regular: float,
        outlier: float,
        refresh: int | None = None,
    ) -> None:
        if not 0 < regular < outlier:
            raise ValueError(
                f"noise variances must satisfy 0 < regular < outlier, got {regular!r} and {outlier!r}"
            )
        n = len(residual)
        self.c: Flags = np.array(indicators, dtype=bool)
        self.probability: Array = np.zeros(n)
        """p(c_i = 1 | all other indicators), as of the last visit."""
        self.refresh_after = max(LEAST_REFRESH, n) if refresh is None else refresh
        self._column = np.empty(n)
        self.replace(covariance, residual, regular, outlier)

    def replace(self, covariance: Array, residual: Array, regular: float, outlier: float) -> None:
        """Other hyperparameters, the same indicators."""
        self._K, self._r = covariance, residual
        self.regular, self.outlier = regular, outlier
        self.refresh()

    @property
    def variances(self) -> Array:
        """Noise variance of each point, shape (n,)."""
        return np.where(self.c, self.outlier, self.regular)

    def refresh(self) -> None:
        """R and b from the indicators as they are."""

        def build() -> Array:
            A = self._K.copy()
            A.reshape(-1)[:: len(A) + 1] += self.variances
            return A

        factor = factorize(build)
        self.b = factor.solve(self._r)
        self.R = mirror_lower(factor.into_inverse())
        self.since_refresh = 0

    def draw_function(self, rng: np.random.Generator, y: Array) -> Array:
        """A draw of f at the points given the indicators, shape (n,)."""
        prior = factorize(self._K.copy).multiply(rng.standard_normal(len(y)))
        noise = np.sqrt(self.variances) * rng.standard_normal(len(y))
        return np.asarray(y - self._r + prior + self._K @ (self.R @ (self._r - prior - noise)))

    def update(self, rng: np.random.Generator, fraction: float, sweeps: int = 1) -> int:
        """Visit every point `sweeps` times in random order; the number of flips."""
        from cavity.sampling._indicators_compiled import sweep  # loads Numba, most of a second

        logit = float(np.log(fraction) - np.log1p(-fraction))
        total = 0
        for _ in range(sweeps):
            relaxed = bool(rng.random() >= PLAIN_SHARE)
            order = rng.permutation(len(self.c))
            log_u = np.log1p(-rng.random(len(order)))
            at, sound = 0, True
            while at < len(order):
                fresh = self.since_refresh == 0
                if self.since_refresh >= self.refresh_after or not sound:
                    if not sound and fresh:
                        raise np.linalg.LinAlgError(
                            "the covariance matrix is too nearly singular for moves of the indicators; give the "
                            "regular noise a lower bound"
                        )
                    self.refresh()
                most = self.refresh_after - self.since_refresh
                at, flips, sound = sweep(
                    self.R,
                    self.b,
                    self.c,
                    self.probability,
                    order,
                    log_u,
                    at,
                    most,
                    logit,
                    self.outlier - self.regular,
                    relaxed,
                    self._column,
                )
                self.since_refresh += flips
                total += flips
        return total
