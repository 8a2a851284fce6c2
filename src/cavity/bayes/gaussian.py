"""A normal distribution of a vector, and its algebra: marginals, conditionals, affine maps, products, quotients, sums.

Notation: x ~ N(m, C). Identities as in Rasmussen and Williams (2006), appendix A.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import Cholesky, try_factorize
from cavity.numerics.special import LOG_2PI
from cavity.prediction.base import Seed
from cavity.prediction.gaussian import GaussianPrediction
from cavity.runtime.errors import InputError


class Product(NamedTuple):
    """N(x; m, C) N(x; n, D) = exp(log_scale) N(x; gaussian)."""

    gaussian: Gaussian
    log_scale: float


class Gaussian:
    """N(mean, covariance).

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.bayes import Gaussian
    >>> x = Gaussian([0.0, 0.0], [[1.0, -1.0], [-1.0, 3.0]])
    >>> seen = x.given([1], [2.0])
    >>> seen.mean.round(3), seen.covariance.round(3)
    (array([-0.667]), array([[0.667]]))
    >>> (np.array([[1.0, 1.0]]) @ x).covariance
    array([[2.]])
    """

    __array_ufunc__ = None  # matrix @ gaussian is asked of the Gaussian

    def __init__(self, mean: ArrayLike, covariance: ArrayLike) -> None:
        self.mean: Array = np.atleast_1d(np.array(mean, dtype=float))
        C = np.array(covariance, dtype=float)
        d = len(self.mean)
        if C.ndim == 0:
            C = C * np.eye(d)
        elif C.ndim == 1:
            C = np.diag(C)
        if self.mean.ndim != 1 or C.shape != (d, d):
            raise InputError(
                f"must have shape ({d}, {d}), got {C.shape}", parameter="covariance", value=covariance
            )
        if not (np.isfinite(C).all() and np.isfinite(self.mean).all()):
            raise InputError("mean and covariance must be finite", parameter="covariance")
        if not np.allclose(C, C.T, rtol=1e-10, atol=1e-12 * max(float(np.abs(C).max(initial=0.0)), 1e-300)):
            raise InputError("must be symmetric", parameter="covariance", value=covariance)
        self.covariance: Array = 0.5 * (C + C.T)
        factor = try_factorize(self.covariance.copy())
        if factor is None:
            worst = float(np.linalg.eigvalsh(self.covariance)[0])
            raise InputError(
                f"must be positive definite, its smallest eigenvalue is {worst:.3g}",
                parameter="covariance",
                value=covariance,
                remedy="leave out what follows from the rest, or add a small variance to the diagonal",
            )
        self._factor: Cholesky = factor

    def __len__(self) -> int:
        return len(self.mean)

    # --- what it says ---------------------------------------------------------------------------------------

    @property
    def marginals(self) -> GaussianPrediction:
        """Each coordinate as a prediction: quantiles, intervals, densities; draws are joint."""
        return GaussianPrediction(self.mean, np.diag(self.covariance), self.covariance)

    @property
    def precision(self) -> Array:
        """The inverse of the covariance."""
        return np.asarray(self._solve(np.eye(len(self))))

    def _solve(self, b: Array) -> Array:
        return np.asarray(self._factor.solve(b))

    def mahalanobis(self, x: ArrayLike) -> Array | float:
        """Distance from the mean in units of the covariance; one number for each row of x."""
        e = np.asarray(x, dtype=float) - self.mean
        z = self._factor.half_solve(e.T)
        return np.asarray(np.sqrt(np.sum(z**2, axis=0)))[()]

    def log_prob(self, x: ArrayLike) -> Array | float:
        """Log density at x (d,), or at each row of x (n, d)."""
        distance = self.mahalanobis(x)
        return -0.5 * (len(self) * LOG_2PI + self._factor.log_det + np.asarray(distance) ** 2)[()]

    def sample(self, size: int = 1, rng: Seed = None) -> Array:
        """Draws, shape (size, d)."""
        return self.marginals.sample(size, rng)

    @property
    def entropy(self) -> float:
        """In nats."""
        return 0.5 * (len(self) * (1.0 + LOG_2PI) + self._factor.log_det)

    def kl(self, other: Gaussian) -> float:
        """Kullback-Leibler divergence KL(self || other), in nats."""
        self._same_size(other)
        trace = float(np.trace(other._solve(self.covariance)))
        log_dets = other._factor.log_det - self._factor.log_det
        return 0.5 * (trace - len(self) + float(np.asarray(other.mahalanobis(self.mean)) ** 2) + log_dets)

    def axes(self, level: float = 0.95) -> Array:
        """Half axes of the ellipsoid that holds `level`, as columns (d, d)."""
        from scipy.stats import chi2

        values, vectors = np.linalg.eigh(self.covariance)
        return np.asarray(vectors * np.sqrt(values * chi2(len(self)).ppf(level)))

    # --- what can be made of it -----------------------------------------------------------------------------

    def marginal(self, index: Sequence[int]) -> Gaussian:
        """Some of the coordinates."""
        keep = self._indices(index)
        return Gaussian(self.mean[keep], self.covariance[np.ix_(keep, keep)])

    def given(self, index: Sequence[int], values: ArrayLike) -> Gaussian:
        """The other coordinates, given that these have these values."""
        known = self._indices(index)
        rest = np.setdiff1d(np.arange(len(self)), known)
        if not len(rest):
            raise InputError("names all coordinates, so that none is left", parameter="index", value=index)
        seen = np.asarray(values, dtype=float)
        if seen.shape != known.shape:
            raise InputError(
                f"must be {len(known)} numbers, got shape {seen.shape}", parameter="values", value=values
            )
        part = self.marginal(known.tolist())
        cross = self.covariance[np.ix_(known, rest)]
        half = part._factor.half_solve(cross)
        mean = self.mean[rest] + cross.T @ part._solve(seen - part.mean)
        return Gaussian(mean, self.covariance[np.ix_(rest, rest)] - half.T @ half)

    def affine(self, A: ArrayLike, b: ArrayLike = 0.0) -> Gaussian:
        """A x + b."""
        M = np.asarray(A, dtype=float)
        if M.ndim != 2 or M.shape[1] != len(self):
            raise InputError(f"must have {len(self)} columns, got shape {M.shape}", parameter="A", value=A)
        return Gaussian(M @ self.mean + np.asarray(b, dtype=float), M @ self.covariance @ M.T)

    def __rmatmul__(self, A: ArrayLike) -> Gaussian:
        return self.affine(A)

    def __add__(self, other: Gaussian | ArrayLike) -> Gaussian:
        """The sum with an independent Gaussian, or with a constant."""
        if isinstance(other, Gaussian):
            self._same_size(other)
            return Gaussian(self.mean + other.mean, self.covariance + other.covariance)
        return Gaussian(self.mean + np.asarray(other, dtype=float), self.covariance)

    __radd__ = __add__

    def product(self, other: Gaussian) -> Product:
        """The product of the two densities, normalized, and its scale N(m; n, C + D)."""
        total = Gaussian(other.mean, (self + other).covariance)
        gain = total._solve(self.covariance).T  # C (C + D)^-1
        mean = self.mean + gain @ (other.mean - self.mean)
        half = total._factor.half_solve(self.covariance)
        return Product(
            Gaussian(mean, self.covariance - half.T @ half), float(np.asarray(total.log_prob(self.mean)))
        )

    def __mul__(self, other: Gaussian) -> Gaussian:
        """The normalized product of two densities: what both say together."""
        return self.product(other).gaussian

    def __truediv__(self, other: Gaussian) -> Gaussian:
        """The normalized quotient of two densities (a cavity): what is left without the other."""
        self._same_size(other)
        precision = self.precision - other.precision
        left = try_factorize(0.5 * (precision + precision.T))
        if left is None:
            raise InputError(
                "cannot be divided out: the quotient has a direction without positive precision",
                parameter="other",
                remedy="only what was multiplied in before can always be divided out",
            )
        shift = self._solve(self.mean) - other._solve(other.mean)
        return Gaussian(left.solve(shift), left.solve(np.eye(len(self))))

    def _indices(self, index: Sequence[int]) -> np.ndarray:
        found = np.atleast_1d(np.asarray(index, dtype=int))
        if len(np.unique(found)) != len(found) or np.any((found < 0) | (found >= len(self))):
            raise InputError(
                f"must be different coordinates from 0 to {len(self) - 1}, got {index!r}",
                parameter="index",
                value=index,
            )
        return found

    def _same_size(self, other: Gaussian) -> None:
        if len(other) != len(self):
            raise InputError(f"has {len(other)} coordinates, this one {len(self)}", parameter="other")

    def __repr__(self) -> str:
        return f"Gaussian({self.mean.tolist()!r}, {self.covariance.tolist()!r})"
