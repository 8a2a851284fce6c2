"""What prediction with an uncertain input returns, the checks of the input distribution, and batches of them.

Shapes: D inputs, E outputs; an optional leading axis B for a batch of input distributions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from cavity.numerics.arrays import Array

Cache = TypeVar("Cache")

NEGATIVE_EIGENVALUE = 1e-8
"""An eigenvalue of a covariance below minus this fraction of the largest one is an error, not rounding."""


@dataclass(frozen=True)
class OutputMoments:
    """First two moments of the outputs for x ~ N(mean, cov).

    Attributes
    ----------
    mean : array (E,) or (B, E)
    covariance : array (E, E) or (B, E, E)
        Full covariance of the outputs, from the uncertain input and the uncertain function together.
    gain : array (D, E) or (B, D, E)
        q with Cov(z, f) = Cov(z, x) q for any z jointly Gaussian with x. It exists for singular covariances too.
    cross : array (D, E) or (B, D, E)
        Input-output covariance Cov(x, f) = S q.
    method : str
        "exact", or the approximation that was used ("gauss-hermite", "unscented", "monte-carlo").

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.control import angle_map
    >>> moments, _ = angle_map(2, [1]).forward([0.5, np.pi / 2], np.diag([0.1, 0.2]))
    >>> moments.mean.shape, moments.covariance.shape
    ((3,), (3, 3))
    """

    mean: Array
    covariance: Array
    gain: Array
    cross: Array
    method: str = "exact"

    @property
    def variance(self) -> Array:
        """Diagonal of the covariance, shape (E,) or (B, E)."""
        return np.diagonal(self.covariance, axis1=-2, axis2=-1).copy()

    @property
    def sd(self) -> Array:
        """Standard deviations of the outputs; a variance that rounding made negative counts as zero."""
        return np.sqrt(np.maximum(self.variance, 0.0))


def checked_gaussian(mean: ArrayLike, cov: ArrayLike, D: int) -> tuple[Array, Array]:
    """Mean (..., D) and covariance (..., D, D) of the input, checked.

    A vector of variances is a diagonal; one covariance may serve a whole batch.

    Raises
    ------
    ValueError
        For wrong shapes, numbers that are not finite, and covariances that are not symmetric or not positive
        semi-definite.
    """
    m, S = np.asarray(mean, dtype=float), np.asarray(cov, dtype=float)
    if m.ndim not in (1, 2) or m.shape[-1] != D:
        raise ValueError(f"mean must have shape ({D},) or (batch, {D}) for {D} input columns, got {m.shape}")
    if m.ndim == 1 and S.shape == (D,):
        S = np.diag(S)
    elif m.ndim == 2 and S.shape == (D, D):
        S = np.broadcast_to(S, (*m.shape, D)).copy()
    if S.shape != (*m.shape, D):
        other = f"({D},), variances" if m.ndim == 1 else f"({D}, {D}) for all"
        raise ValueError(
            f"cov must have shape {(*m.shape, D)} (or {other}) to go with mean, got {np.shape(cov)}"
        )
    for name, value in (("mean", m), ("cov", S)):
        if not np.isfinite(value).all():
            where = tuple(int(i) for i in np.argwhere(~np.isfinite(value))[0])
            raise ValueError(f"{name} must be finite, got {value[where]} at {where}")
    size = np.abs(S).max(axis=(-2, -1), keepdims=True, initial=0.0)
    if np.any(np.abs(S - np.swapaxes(S, -1, -2)) > 1e-10 * size):
        raise ValueError("cov must be symmetric; use (cov + cov.T) / 2 if the difference is rounding")
    values = np.linalg.eigvalsh(S)
    low, high = values[..., 0], np.maximum(values[..., -1], 0.0)
    if np.any(low < -NEGATIVE_EIGENVALUE * high - np.finfo(float).tiny):
        raise ValueError(
            f"cov must be positive semi-definite, its smallest eigenvalue is {float(low.min()):.3g}; "
            "check its off-diagonal entries, or add the missing variance to the diagonal"
        )
    return m, 0.5 * (S + np.swapaxes(S, -1, -2))


class ExactMoments(ABC, Generic[Cache]):
    """Exact moments of E outputs at x ~ N(m, S), with their pullback: one distribution or a batch of them.

    A subclass knows `D`, `E`, and how to do one distribution (`_forward`, `_pull`).
    """

    D: int
    E: int

    @abstractmethod
    def _forward(self, mu: Array, S: Array) -> tuple[OutputMoments, Cache]:
        """Moments at one input distribution, and what `_pull` needs."""

    @abstractmethod
    def _pull(
        self, c: Cache, d_mean: Array | None, d_cov: Array | None, d_cross: Array | None, d_gain: Array | None
    ) -> tuple[Array, Array]:
        """Adjoints of the results pulled back to one input distribution."""

    def forward(
        self, m: ArrayLike, S: ArrayLike, check: bool = True
    ) -> tuple[OutputMoments, Cache | list[Cache]]:
        """Moments at one input distribution, m (D,) and S (D, D), or a batch, (B, D) and (B, D, D).

        Parameters
        ----------
        check : bool
            Whether m and S are checked; leave it out only if they come from another forward pass.

        Returns
        -------
        result : OutputMoments
        cache : for `pull`
        """
        if check:
            m, S = checked_gaussian(m, S, self.D)
        else:
            m, S = np.asarray(m, dtype=float), np.asarray(S, dtype=float)
        if m.ndim == 1:
            return self._forward(m, S)
        done = [self._forward(mi, Si) for mi, Si in zip(m, S)]
        E, D, B = self.E, self.D, len(m)
        results = [result for result, _ in done]
        stacked = OutputMoments(
            np.array([r.mean for r in results]).reshape(B, E),
            np.array([r.covariance for r in results]).reshape(B, E, E),
            np.array([r.gain for r in results]).reshape(B, D, E),
            np.array([r.cross for r in results]).reshape(B, D, E),
        )
        return stacked, [cache for _, cache in done]

    def pull(
        self,
        cache: Cache | list[Cache],
        d_mean: ArrayLike | None = None,
        d_cov: ArrayLike | None = None,
        d_cross: ArrayLike | None = None,
        d_gain: ArrayLike | None = None,
    ) -> tuple[Array, Array]:
        """Adjoints of the results pulled back to the input distribution.

        Parameters
        ----------
        cache : from `forward`
        d_mean, d_cov, d_cross, d_gain : arrays of the shapes of the results, optional
            Derivatives of some scalar in them; zero if not given.

        Returns
        -------
        d_m : array (D,) or (B, D)
        d_S : array (D, D) or (B, D, D)
            Symmetric, with d scalar = sum(d_S * dS) for symmetric dS.
        """
        given = [None if g is None else np.asarray(g, dtype=float) for g in (d_mean, d_cov, d_cross, d_gain)]
        shapes = ((self.E,), (self.E, self.E), (self.D, self.E), (self.D, self.E))
        lead = (len(cache),) if isinstance(cache, list) else ()
        for name, g, shape in zip(("d_mean", "d_cov", "d_cross", "d_gain"), given, shapes):
            if g is not None and g.shape != lead + shape:
                raise ValueError(f"{name} must have shape {lead + shape}, got {g.shape}")
        if not isinstance(cache, list):
            return self._pull(cache, *given)
        d_m, d_S = np.zeros((len(cache), self.D)), np.zeros((len(cache), self.D, self.D))
        for k, one in enumerate(cache):
            d_m[k], d_S[k] = self._pull(one, *(None if g is None else g[k] for g in given))
        return d_m, d_S
