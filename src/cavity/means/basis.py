"""Explicit basis functions whose weights are integrated out (Rasmussen and Williams, 2006, section 2.7).

`Basis` stands for h(x)' beta with weights beta ~ N(b, B). Exact inference integrates them out, also in the vague
limit B^-1 -> 0 (eq. 2.37 to 2.45). As a mean function it is h(x)' b; `features`, `prior_mean` (b) and `prior_root`
(of B^-1) are what inference needs.

Notation: D input columns, p basis functions, H the matrix of features with rows h(x_i)'.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import block_diag, solve_triangular

from cavity.means.basis_features import Features, as_features
from cavity.means.functions import Mean, cotangent
from cavity.numerics.arrays import Array
from cavity.parameters.param import format_value


class Basis(Mean):
    """Explicit basis functions h(x) whose weights are integrated out: h(x)' beta, beta ~ N(b, B).

    Parameters
    ----------
    functions : str, callable, set of features, or a list of these
        "constant", "linear" (constant and columns), "quadratic", "cubic"; `Powers(degree)`,
        `Monomials(degree)` (products of columns too), `Harmonics(period, order)`; functions from inputs (n, D) to
        (n,) or (n, k).
    prior_mean : float or array (p,), optional
        b; zero unless given.
    prior_covariance : float, array (p,) or array (p, p), optional
        B: one variance for all weights, one for each, or a full matrix.
    vague : bool, optional
        The limit B^-1 -> 0, in which the data alone decide; this is so if no covariance is given. Only exact
        inference can take this limit.

    Examples
    --------
    >>> import numpy as np
    >>> trend = Basis("linear").bind(2)
    >>> trend.features(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[1., 1., 2.],
           [1., 3., 4.]])
    """

    def __init__(
        self,
        functions: Any = "linear",
        prior_mean: ArrayLike | None = None,
        prior_covariance: ArrayLike | None = None,
        *,
        vague: bool | None = None,
    ) -> None:
        given = list(functions) if isinstance(functions, list | tuple) else [functions]
        if not given:
            raise ValueError("Basis needs at least one function")
        self.functions: tuple[Features, ...] = tuple(as_features(f) for f in given)
        self.vague = prior_covariance is None if vague is None else bool(vague)
        if self.vague and (prior_covariance is not None or prior_mean is not None):
            raise ValueError(
                "vague weights have no prior mean or covariance; leave both out or set vague=False"
            )
        if not self.vague and prior_covariance is None:
            raise ValueError("vague=False needs a prior_covariance for the weights")
        self._mean = _checked_mean(0.0 if prior_mean is None else prior_mean)
        self._covariance = None if prior_covariance is None else _checked_covariance(prior_covariance)
        self.n_weights: int | None = None
        self._set_up({})

    @property
    def offset(self) -> Mean | None:
        """A mean function that is added to the basis functions, if any."""
        return cast(Mean, self._parts[0]) if self._parts else None

    def _with_offset(self, offset: Mean | None) -> Basis:
        return self._rebuild({}, () if offset is None else (offset,))

    def with_prior(self, prior_covariance: ArrayLike, prior_mean: ArrayLike = 0.0) -> Basis:
        """The same functions with a finite prior on their weights, for inference rules that need one."""
        new = Basis(list(self.functions), prior_mean, prior_covariance)._with_offset(self.offset)
        return new if self.n_dims is None else new.bind(self.n_dims)

    def _joined(self, other: Basis) -> Basis:
        """Both sets of functions, a priori independent."""
        if self.vague != other.vague:
            raise ValueError("basis functions with vague weights cannot be added to ones with a finite prior")
        functions = [*self.functions, *other.functions]
        if self.vague:
            return Basis(functions)
        for basis in (self, other):
            if basis._known_size() is None:
                raise ValueError("the number of weights must be known to add priors: bind both to data first")
        means = [np.broadcast_to(b._mean, cast(int, b._known_size())) for b in (self, other)]
        blocks = [_full(cast(Array, b._covariance), cast(int, b._known_size())) for b in (self, other)]
        return Basis(functions, np.concatenate(means), block_diag(*blocks))

    def _known_size(self) -> int | None:
        """Number of weights, if it is known."""
        given = [np.shape(v)[0] for v in (self._mean, self._covariance) if v is not None and np.ndim(v)]
        return given[0] if given else self.n_weights

    # --- text -----------------------------------------------------------------------------------------------

    def _arguments(self) -> list[str]:
        functions = repr(self.functions[0]) if len(self.functions) == 1 else repr(list(self.functions))
        if self.vague:
            return [functions]
        mean, covariance = format_value(self._mean), format_value(self._covariance)
        return [functions, f"prior_mean={mean}", f"prior_covariance={covariance}"]

    def __repr__(self) -> str:
        text = super().__repr__()
        return text if self.offset is None else f"{text} + {self.offset!r}"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Basis)
            and self.functions == other.functions
            and self._arguments() == other._arguments()
            and self.offset == other.offset
        )

    def __hash__(self) -> int:
        return hash((self.functions, self.offset))

    # --- weights --------------------------------------------------------------------------------------------

    def bind(self, n_features: int, feature_names: Sequence[str] | None = None) -> Self:
        """Count the basis functions for data with these columns and check the prior of the weights."""
        self._check_width(n_features)
        count = sum(f.width(n_features) for f in self.functions)
        for name, value in (("prior_mean", self._mean), ("prior_covariance", self._covariance)):
            if value is not None and np.ndim(value) and np.shape(value)[0] != count:
                raise ValueError(
                    f"Basis: {name} is for {np.shape(value)[0]} weights, but there are {count} functions of "
                    f"{n_features} input columns"
                )
        new = self._with_offset(None if self.offset is None else self.offset.bind(n_features, feature_names))
        new.n_dims, new.n_weights = n_features, count
        return cast(Self, new)

    def _count(self) -> int:
        size = self._known_size()
        if size is None:
            raise ValueError(
                "the number of weights is not known yet: bind the basis to data, bind(n_features)"
            )
        return size

    @property
    def prior_mean(self) -> Array:
        """b, shape (p,)."""
        return np.array(np.broadcast_to(self._mean, self._count()))

    @property
    def prior_covariance(self) -> Array:
        """B, shape (p, p); there is none for vague weights."""
        if self._covariance is None:
            raise ValueError("vague weights have no prior covariance")
        return _full(self._covariance, self._count())

    @property
    def prior_root(self) -> Array:
        """P, lower triangular with P' P = B^-1, shape (p, p); no rows, (0, p), for vague weights."""
        count = self._count()
        if self._covariance is None:
            return np.zeros((0, count))
        if np.ndim(self._covariance) < 2:
            return np.diag(1.0 / np.sqrt(np.broadcast_to(self._covariance, count)))
        return solve_triangular(np.linalg.cholesky(self._covariance), np.eye(count), lower=True)

    # --- features -------------------------------------------------------------------------------------------

    def features(self, X: ArrayLike) -> Array:
        """H, one row h(x)' per case, shape (n, p)."""
        return self._features(self._checked(X))

    def _features(self, X: Array) -> Array:
        return np.hstack([f(X) for f in self.functions])

    def feature_slopes(self, X: ArrayLike, U: ArrayLike) -> Array:
        """Derivatives of the basis functions along directions U (n, D), shape (n, p)."""
        X = self._checked(X)
        jacobian = np.concatenate([f.jacobian(X) for f in self.functions], axis=1)
        return np.asarray(np.einsum("npd,nd->np", jacobian, np.asarray(U, dtype=float)))

    def pull_features_inputs(self, X: ArrayLike, G: ArrayLike) -> Array:
        """Gradient of sum_ij G_ij h_j(x_i) in the inputs, shape (n, D), for G of shape (n, p)."""
        X = self._checked(X)
        jacobian = np.concatenate([f.jacobian(X) for f in self.functions], axis=1)
        return cast(Array, np.einsum("np,npd->nd", cotangent(G, jacobian.shape[:2]), jacobian))

    # --- as a mean function: h(x)' b + offset ---------------------------------------------------------------

    def _values(self, X: Array) -> Array:
        H = self._features(X)
        values = H @ np.broadcast_to(self._mean, H.shape[1])
        return values if self.offset is None else values + self.offset._values(X)

    def _pull(self, X: Array, g: Array) -> Array:
        return np.zeros(0) if self.offset is None else self.offset._pull(X, g)

    def _pull_inputs(self, X: Array, g: Array) -> Array:
        out = np.zeros_like(X) if self.offset is None else self.offset._pull_inputs(X, g)
        if np.any(self._mean):
            count = sum(f.width(X.shape[1]) for f in self.functions)
            out = out + self.pull_features_inputs(X, np.multiply.outer(g, np.broadcast_to(self._mean, count)))
        return out


def _checked_mean(given: ArrayLike) -> Array:
    mean = np.array(given, dtype=float)
    if mean.ndim > 1 or not np.isfinite(mean).all():
        raise ValueError(f"Basis: prior_mean must be a finite number or vector, got {given!r}")
    mean.setflags(write=False)
    return mean


def _checked_covariance(given: ArrayLike) -> Array:
    """A variance, a vector of variances or a positive definite matrix."""
    B = np.array(given, dtype=float)
    if B.ndim > 2 or not np.isfinite(B).all() or (B.ndim == 2 and B.shape[0] != B.shape[1]):
        raise ValueError(
            f"Basis: prior_covariance must be a number, a vector or a square matrix, got {given!r}"
        )
    if B.ndim < 2 and np.any(B <= 0):
        raise ValueError(f"Basis: the variances in prior_covariance must be positive, got {given!r}")
    if B.ndim == 2:
        if not np.allclose(B, B.T, rtol=1e-10, atol=0.0):
            raise ValueError(f"Basis: prior_covariance must be symmetric, got {given!r}")
        try:
            np.linalg.cholesky(B)
        except np.linalg.LinAlgError:
            raise ValueError(f"Basis: prior_covariance must be positive definite, got {given!r}") from None
    B.setflags(write=False)
    return B


def _full(covariance: Array, count: int) -> Array:
    """A covariance matrix from a variance, variances or the matrix itself."""
    return np.array(covariance) if np.ndim(covariance) == 2 else np.diag(np.broadcast_to(covariance, count))
