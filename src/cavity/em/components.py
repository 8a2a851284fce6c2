"""The contract of a family of K densities: the parts of mixtures and of hidden Markov models.

A `Components` object is a family, not a fit: parameters are dictionaries of arrays with the component on the
first axis, passed in and out. The same families serve as components of a `Mixture` (labels independent) and
as emissions of an `HMM` (labels a Markov chain). Sufficient statistics add over blocks of rows, so no family
ever needs all data at once.

r_ik are responsibilities (times sample weights), N_k = sum_i r_ik. Missing entries (NaN) are integrated out
exactly.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from cavity.em.transforms import Coordinates, pack, unpack
from cavity.numerics.arrays import Array

Params = dict[str, Array]

Stats = dict[str, Array]

ROW_BLOCK = 16384
"""Rows handled at once by families written in NumPy; it bounds their temporary arrays."""

DEAD = 1e-12
"""An effective count below this share of a datum gives no information: parameters are kept."""


class Components(ABC):
    """Base class of component families.

    Attributes
    ----------
    letters : dict
        Letter of each parameter in `params` / `init_params` of the HMM, as hmmlearn's users know them.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.em import Components, Gaussian
    >>> family = Gaussian("diag").bind(np.array([[0.0], [1.0]]), np.ones(2), n_components=1)
    >>> isinstance(family, Components), family.n_features, family.letter_names()["m"]
    (True, 1, ('means',))
    """

    letters: ClassVar[dict[str, tuple[str, ...]]] = {}
    nonnegative: ClassVar[bool] = False  # whether data must not be negative
    robust: ClassVar[bool] = False  # whether starts should not look at far outliers
    n_features: int = 0
    n_components: int = 0

    # -- data ------------------------------------------------------------------------------------------------
    def check_data(self, x: Array) -> None:
        """Raise ValueError where x (n, D) cannot come from this family."""
        return

    def bind(self, x: Array, weights: Array, n_components: int) -> Self:
        """A copy that knows the number of components and features, with data-dependent settings resolved."""
        bound = object.__new__(type(self))
        bound.__dict__.update(self.__dict__)
        bound.n_features = x.shape[1]
        bound.n_components = n_components
        bound._resolve(x, weights)
        return bound

    def _resolve(self, x: Array, weights: Array) -> None:
        """Resolve data-dependent settings; called by `bind`."""
        return

    # -- EM --------------------------------------------------------------------------------------------------
    @abstractmethod
    def log_prob(self, params: Params, x: Array, threads: int = 1) -> Array:
        """Log densities (n, K)."""

    @abstractmethod
    def accumulate(self, params: Params, x: Array, resp: Array, threads: int = 1) -> Stats:
        """Expected statistics of rows x (n, D) under responsibilities (n, K), additive over rows."""

    @abstractmethod
    def maximize(self, stats: Stats, params: Params, update: frozenset[str] | None = None) -> Params:
        """M-step: new parameters; those not named in `update` (None: all) are kept."""

    @abstractmethod
    def expected_log_prob(self, stats: Stats, params: Params) -> float:
        """The components' part of Q at `params`, up to terms without parameters."""

    @abstractmethod
    def from_responsibilities(self, x: Array, resp: Array, rng: np.random.Generator) -> Params:
        """Starting parameters from a first division of the data."""

    def log_prior(self, params: Params) -> float:
        """Log prior density, up to a constant."""
        return 0.0

    def mixture_pass(
        self, params: Params, log_weights: Array, x: Array, weights: Array, threads: int
    ) -> tuple[float, Array, Stats]:
        """E-step of a mixture: log-likelihood, effective counts (K,) and statistics, in blocks of rows."""
        loglik = 0.0
        counts = np.zeros(len(log_weights))
        stats: Stats = {}
        for start in range(0, len(x), ROW_BLOCK):
            rows, w = x[start : start + ROW_BLOCK], weights[start : start + ROW_BLOCK]
            logs, resp = responsibilities(self.log_prob(params, rows, threads) + log_weights)
            loglik += float(w @ logs)
            resp *= w[:, None]
            counts += resp.sum(axis=0)
            add_stats(stats, self.accumulate(params, rows, resp, threads))
        return loglik, counts, stats

    # -- description -----------------------------------------------------------------------------------------
    @abstractmethod
    def coordinates(self) -> dict[str, Coordinates]:
        """Coordinates of every parameter that is estimated, for `pack` and `unpack`."""

    def n_parameters(self, params: Params) -> int:
        """Number of free parameters of all components; zeros of probabilities are structural and do not count."""
        return sum(c.size(params[name]) for name, c in self.coordinates().items())

    @abstractmethod
    def mean(self, params: Params) -> Array:
        """Means of the components, (K, D)."""

    @abstractmethod
    def covariance(self, params: Params) -> Array:
        """Covariances of the components, (K, D, D)."""

    @abstractmethod
    def sample(self, params: Params, labels: NDArray[np.intp], rng: np.random.Generator) -> Array:
        """One draw from component labels[i] for every i, (n, D)."""

    def order(self, params: Params) -> NDArray[np.intp]:
        """Canonical order: by mean, feature after feature."""
        return np.lexsort(self.mean(params).T[::-1])

    def permute(self, params: Params, order: NDArray[np.intp]) -> Params:
        """Parameters with components in the given order."""
        return {name: (v[order] if v.shape[:1] == (len(order),) else v) for name, v in params.items()}

    def degenerate(self, params: Params, counts: Array) -> list[int]:
        """Components held up by their prior (or guard) rather than by data."""
        return [int(k) for k in np.flatnonzero(counts < DEAD)]

    def pack(self, params: Params, like: Params) -> Array:
        """Unconstrained vector of all parameters."""
        return pack(self.coordinates(), params, like)

    def unpack(self, v: Array, like: Params) -> Params:
        """Inverse of `pack`."""
        return unpack(self.coordinates(), v, like)

    def project(self, params: Params) -> Params:
        """Nearest parameters inside their bounds, for points found by extrapolation."""
        return params

    def letter_names(self) -> dict[str, tuple[str, ...]]:
        """Parameters behind every letter of `params` and `init_params`."""
        return self.letters


def has_nan(x: Array) -> bool:
    """Whether any entry is missing: a sum tells most arrays at the cost of one pass without temporaries."""
    with np.errstate(over="ignore", invalid="ignore"):
        suspicious = bool(np.isnan(np.sum(x)))
    return suspicious and bool(np.isnan(x).any())


def responsibilities(logs: Array) -> tuple[Array, Array]:
    """Row-wise log-sum-exp (n,) and softmax (n, K); rows of -inf give -inf and zeros."""
    highest = logs.max(axis=1)
    safe = np.where(np.isfinite(highest), highest, 0.0)
    r = np.exp(logs - safe[:, None])
    total = r.sum(axis=1)
    with np.errstate(divide="ignore"):
        log_total = safe + np.log(total)
    r /= np.where(total > 0, total, 1.0)[:, None]
    return log_total, r


def mixed(p: Array, values: Array) -> Array:
    """sum_k p_sk values_kij, (S, D, D); what has probability zero does not count, even if it is infinite."""
    if np.all(np.isfinite(values)):
        return np.asarray(np.einsum("sk,kij->sij", p, values))
    use = p > 0
    return np.stack([np.tensordot(row[on], values[on], axes=1) for row, on in zip(p, use)])


def add_stats(into: Stats, more: Stats) -> None:
    """Add statistics in place; entries whose name starts with `at_` are reference points, not sums."""
    for name, value in more.items():
        if name not in into:
            into[name] = value
        elif not name.startswith("at_"):
            into[name] = into[name] + value


def keep(new: Params, old: Params, update: frozenset[str] | None) -> Params:
    """New parameters where an update is wanted, old ones elsewhere."""
    if update is None:
        return new
    return {name: (value if name in update else old[name]) for name, value in new.items()}


def safe_ratio(numerator: Array, denominator: Array, fallback: Array) -> Array:
    """numerator / denominator along the first axis, and `fallback` where the denominator holds no data."""
    shape = (-1,) + (1,) * (numerator.ndim - 1)
    live = (denominator > DEAD).reshape(shape)
    ratio = numerator / np.where(denominator > DEAD, denominator, 1.0).reshape(shape)
    return np.asarray(np.where(live, ratio, fallback))


def check_sign(x: Array, family: str) -> None:
    """Refuse negative values."""
    if np.nanmin(x, initial=0.0) < 0:
        i, j = np.argwhere(x < 0)[0]
        raise ValueError(
            f"Negative values in data: X[{i}, {j}] is {x[i, j]:g}, {family} components need values >= 0"
        )


def check_whole(x: Array, family: str) -> None:
    """Refuse negative values and fractions."""
    check_sign(x, family)
    broken = ~np.isnan(x) & (x != np.floor(x))
    if np.any(broken):
        i, j = np.argwhere(broken)[0]
        raise ValueError(f"{family} components need whole numbers: X[{i}, {j}] is {x[i, j]:g}")
