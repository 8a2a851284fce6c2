"""Banks of K densities with a weighted maximum-likelihood step: the parts of mixtures and of hidden Markov
models.

A `Components` object is a family, not a fit: parameters are dictionaries of arrays with the component on the
first axis, passed in and out. The same families serve as components of a `Mixture` (labels independent) and
as emissions of an `HMM` (labels a Markov chain). Sufficient statistics add over blocks of rows, so no family
ever needs all data at once.

r_ik are responsibilities (times sample weights), N_k = sum_i r_ik. Missing entries (NaN) are integrated out
exactly.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlog1py, xlogy

from cavity.em.engine import DegeneracyError
from cavity.em.options import is_number, is_whole
from cavity.em.transforms import simplex_from_free, simplex_size, simplex_to_free
from cavity.numerics.arrays import Array

Params = dict[str, Array]
Stats = dict[str, Array]

ROW_BLOCK = 16384  # rows handled at once by families written in NumPy: bounds their temporaries
DEAD = 1e-12  # an effective count below this share of a datum gives no information: parameters are kept


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
    def n_parameters(self, params: Params) -> int:
        """Number of free parameters of all components."""

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

    @abstractmethod
    def pack(self, params: Params, like: Params) -> Array:
        """Unconstrained vector of all parameters."""

    @abstractmethod
    def unpack(self, v: Array, like: Params) -> Params:
        """Inverse of `pack`."""

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


class IndependentFeatures(Components):
    """Families whose features are independent given the component: missing entries simply drop out."""

    def _observed(self, x: Array) -> tuple[Array, Array]:
        """x with zeros for NaN, and the mask of observed entries."""
        seen = ~np.isnan(x)
        return np.where(seen, x, 0.0), seen.astype(float)

    def covariance(self, params: Params) -> Array:
        """Diagonal covariances."""
        v = self._variance(params)
        return np.asarray(v[:, :, None] * np.eye(v.shape[1]))

    @abstractmethod
    def _variance(self, params: Params) -> Array: ...


class _OneRate(IndependentFeatures):
    """One positive or unit-interval parameter per component and feature, estimated by a weighted mean.

    Parameters
    ----------
    pseudo_count : float
        Observations at the pooled mean added to every estimate (a conjugate prior). They keep a component of
        nothing but zeros inside the parameter space; 0 is maximum likelihood.
    """

    parameter: ClassVar[str]
    nonnegative: ClassVar[bool] = True

    def __init__(self, pseudo_count: float = 1e-3) -> None:
        self.pseudo_count = pseudo_count

    def _resolve(self, x: Array, weights: Array) -> None:
        if not (is_number(self.pseudo_count) and 0 <= self.pseudo_count < np.inf):
            raise ValueError(
                f"pseudo_count={self.pseudo_count!r} must be a finite number and must not be negative"
            )
        values, seen = self._observed(x)
        self._pooled = self._pooled_mean(weights @ values, weights @ seen)

    def _pooled_mean(self, sums: Array, counts: Array) -> Array:
        """Half a success in one trial more than seen: inside the parameter space whatever the data."""
        return np.asarray((sums + 0.5) / (counts + 1.0))

    def _inside(self, values: Array) -> NDArray[np.bool_]:
        return np.asarray(values > 0)

    def accumulate(self, params: Params, x: Array, resp: Array, threads: int = 1) -> Stats:
        """Weighted sums and counts of observed entries, (K, D) each."""
        values, seen = self._observed(x)
        return {"sums": resp.T @ values, "counts": resp.T @ seen}

    def maximize(self, stats: Stats, params: Params, update: frozenset[str] | None = None) -> Params:
        """Weighted means, with `pseudo_count` observations at the pooled mean."""
        c = self.pseudo_count
        sums, counts = stats["sums"] + c * self._pooled, stats["counts"] + c
        live = counts > DEAD
        fallback = params.get(self.parameter, np.broadcast_to(self._pooled, sums.shape))
        value = np.where(live, sums / np.where(live, counts, 1.0), fallback)
        if not np.all(self._inside(value)):
            k, j = np.argwhere(~self._inside(value))[0]
            raise DegeneracyError(
                f"{self.parameter}[{k}, {j}] is {value[k, j]:g}, on the edge of its "
                "range; set pseudo_count > 0"
            )
        return keep({self.parameter: value}, params, update)

    def from_responsibilities(self, x: Array, resp: Array, rng: np.random.Generator) -> Params:
        """Weighted means."""
        stats = self.accumulate({}, x, resp)
        return self.maximize(stats, {})

    def n_parameters(self, params: Params) -> int:
        """K D."""
        return int(params[self.parameter].size)

    def pack(self, params: Params, like: Params) -> Array:
        """Log parameters."""
        return np.log(params[self.parameter]).ravel()

    def unpack(self, v: Array, like: Params) -> Params:
        """Inverse of `pack`."""
        return {self.parameter: np.exp(v).reshape(like[self.parameter].shape)}

    def mean(self, params: Params) -> Array:
        """The parameter is the mean."""
        return params[self.parameter]


def _times_log(values: Array, p: Array) -> Array:
    """Sum over j of x_ij log p_kj, (n, K), with 0 log 0 = 0."""
    if np.all(p > 0):
        return np.asarray(values @ np.log(p).T)
    return np.stack([xlogy(values, row).sum(axis=1) for row in p], axis=1)


def _times_log_rest(values: Array, p: Array) -> Array:
    """Sum over j of x_ij log(1 - p_kj), (n, K), with 0 log 0 = 0."""
    if np.all(p < 1):
        return np.asarray(values @ np.log1p(-p).T)
    return np.stack([xlog1py(values, -row).sum(axis=1) for row in p], axis=1)


class Poisson(_OneRate):
    """Independent Poisson counts, parameter `rates` (K, D).

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.em import Mixture, Poisson
    >>> Mixture(1, Poisson(pseudo_count=0.0)).fit(np.array([[1], [2], [6]])).params_["rates"]
    array([[3.]])
    """

    parameter = "rates"
    letters: ClassVar[dict[str, tuple[str, ...]]] = {"l": ("rates",)}

    def check_data(self, x: Array) -> None:
        """Counts: whole and not negative."""
        _check_whole(x, "Poisson")

    def log_prob(self, params: Params, x: Array, threads: int = 1) -> Array:
        """x log rate - rate - log x!."""
        values, seen = self._observed(x)
        rates = params["rates"]
        of_factorials = gammaln(values + 1.0).sum(axis=1)[:, None]
        return np.asarray(_times_log(values, rates) - seen @ rates.T - of_factorials)

    def expected_log_prob(self, stats: Stats, params: Params) -> float:
        """Sum of sums log rate - counts rate."""
        rates = params["rates"]
        return float(np.sum(xlogy(stats["sums"], rates) - stats["counts"] * rates))

    def log_prior(self, params: Params) -> float:
        """Gamma prior worth `pseudo_count` observations."""
        rates = params["rates"]
        c = self.pseudo_count
        return float(np.sum(xlogy(c * self._pooled, rates) - c * rates))

    def _variance(self, params: Params) -> Array:
        return params["rates"]

    def sample(self, params: Params, labels: NDArray[np.intp], rng: np.random.Generator) -> Array:
        """Poisson draws."""
        return rng.poisson(params["rates"][labels]).astype(float)


class Exponential(_OneRate):
    """Independent exponential waiting times, parameter `scales` (K, D), the means.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.em import Exponential, Mixture
    >>> waits = np.array([[1.0], [2.0], [3.0]])
    >>> Mixture(1, Exponential(pseudo_count=0.0)).fit(waits).params_["scales"]
    array([[2.]])
    """

    parameter = "scales"
    letters: ClassVar[dict[str, tuple[str, ...]]] = {"l": ("scales",)}

    def check_data(self, x: Array) -> None:
        """Not negative."""
        _check_sign(x, "Exponential")

    def _pooled_mean(self, sums: Array, counts: Array) -> Array:
        """The observed mean, which moves with the units of the times; 1 where all times are zero."""
        return np.asarray(np.where(sums > 0, sums / np.where(counts > 0, counts, 1.0), 1.0))

    def log_prob(self, params: Params, x: Array, threads: int = 1) -> Array:
        """-log scale - x / scale."""
        values, seen = self._observed(x)
        scales = params["scales"]
        return np.asarray(-values @ (1.0 / scales).T - seen @ np.log(scales).T)

    def expected_log_prob(self, stats: Stats, params: Params) -> float:
        """Sum of -counts log scale - sums / scale."""
        scales = params["scales"]
        return -float(np.sum(stats["counts"] * np.log(scales) + stats["sums"] / scales))

    def log_prior(self, params: Params) -> float:
        """Inverse-gamma prior worth `pseudo_count` observations."""
        scales = params["scales"]
        return -float(self.pseudo_count * np.sum(np.log(scales) + self._pooled / scales))

    def _variance(self, params: Params) -> Array:
        return np.asarray(params["scales"] ** 2)

    def sample(self, params: Params, labels: NDArray[np.intp], rng: np.random.Generator) -> Array:
        """Exponential draws."""
        return rng.exponential(params["scales"][labels])


class Bernoulli(_OneRate):
    """Independent binary features, parameter `probabilities` (K, D) of a one.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.em import Bernoulli, Mixture
    >>> X = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1], [0, 0, 1]])
    >>> Mixture(2, Bernoulli(pseudo_count=0.1), random_state=0).fit(X).predict(X)
    array([1, 1, 0, 0])
    """

    parameter = "probabilities"
    letters: ClassVar[dict[str, tuple[str, ...]]] = {"e": ("probabilities",)}

    def check_data(self, x: Array) -> None:
        """Zeros and ones."""
        seen = x[~np.isnan(x)]
        if not np.all((seen == 0) | (seen == 1)):
            bad = seen[(seen != 0) & (seen != 1)][0]
            raise ValueError(f"Bernoulli components need zeros and ones, X contains {bad:g}")

    def log_prob(self, params: Params, x: Array, threads: int = 1) -> Array:
        """x log p + (1 - x) log(1 - p)."""
        values, seen = self._observed(x)
        p = params["probabilities"]
        return np.asarray(_times_log(values, p) + _times_log_rest(seen - values, p))

    def expected_log_prob(self, stats: Stats, params: Params) -> float:
        """Sum of sums log p + (counts - sums) log(1 - p)."""
        p = params["probabilities"]
        zeros = stats["counts"] - stats["sums"]
        return float(np.sum(xlogy(stats["sums"], p) + xlog1py(zeros, -p)))

    def log_prior(self, params: Params) -> float:
        """Beta prior worth `pseudo_count` observations."""
        p = params["probabilities"]
        ones, zeros = self.pseudo_count * self._pooled, self.pseudo_count * (1.0 - self._pooled)
        return float(np.sum(xlogy(ones, p) + xlog1py(zeros, -p)))

    def _inside(self, values: Array) -> NDArray[np.bool_]:
        return np.asarray((values > 0) & (values < 1))

    def pack(self, params: Params, like: Params) -> Array:
        """Log odds."""
        p = params["probabilities"]
        return np.asarray(np.log(p) - np.log1p(-p)).ravel()

    def unpack(self, v: Array, like: Params) -> Params:
        """Inverse of `pack`."""
        p = 0.5 * (1.0 + np.tanh(0.5 * v))
        return {"probabilities": p.reshape(like["probabilities"].shape)}

    def _variance(self, params: Params) -> Array:
        p = params["probabilities"]
        return np.asarray(p * (1.0 - p))

    def sample(self, params: Params, labels: NDArray[np.intp], rng: np.random.Generator) -> Array:
        """Bernoulli draws."""
        p = params["probabilities"][labels]
        return (rng.random(p.shape) < p).astype(float)


class Categorical(Components):
    """One symbol 0 ... S-1 per row, parameter `emissionprob` (K, S).

    Parameters
    ----------
    n_symbols : int or None
        Size of the alphabet; None takes one more than the largest symbol in the data.
    concentration : float
        Dirichlet prior of every row; 1 is none.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.em import Categorical, Mixture
    >>> model = Mixture(1, Categorical(n_symbols=3)).fit(np.array([[0], [0], [1], [0]]))
    >>> model.params_["emissionprob"]
    array([[0.75, 0.25, 0.  ]])
    """

    letters: ClassVar[dict[str, tuple[str, ...]]] = {"e": ("emissionprob",)}
    nonnegative: ClassVar[bool] = True

    def __init__(self, n_symbols: int | None = None, concentration: float = 1.0) -> None:
        self.n_symbols = n_symbols
        self.concentration = concentration

    def check_data(self, x: Array) -> None:
        """One column of whole numbers that are not negative."""
        if x.shape[1] != 1:
            raise ValueError(
                f"Categorical components take one column of symbols, X has {x.shape[1]} features; "
                "combine several columns with Product"
            )
        _check_whole(x, "Categorical")
        if not (self.n_symbols is None or (is_whole(self.n_symbols) and self.n_symbols >= 1)):
            raise ValueError(f"n_symbols={self.n_symbols!r} must be a whole number, at least 1, or None")
        if self.n_symbols is not None and np.nanmax(x, initial=-1.0) >= self.n_symbols:
            raise ValueError(
                f"X contains the symbol {int(np.nanmax(x))}, but n_symbols={self.n_symbols} allows 0 to "
                f"{self.n_symbols - 1}"
            )

    def _resolve(self, x: Array, weights: Array) -> None:
        if not (is_number(self.concentration) and self.concentration >= 1.0):
            raise ValueError(f"concentration={self.concentration!r} must be at least 1 (1 is no prior)")
        highest = int(np.nanmax(x, initial=0.0))
        self.n_symbols = highest + 1 if self.n_symbols is None else int(self.n_symbols)

    def log_prob(self, params: Params, x: Array, threads: int = 1) -> Array:
        """Table look-up; a missing symbol has log probability 0."""
        with np.errstate(divide="ignore"):
            table = np.log(params["emissionprob"].T)
        symbols, seen = _symbols(x)
        if len(symbols) and symbols.max() >= len(table):
            raise ValueError(f"X contains the symbol {symbols.max()}, the model knows 0 to {len(table) - 1}")
        return np.asarray(np.where(seen[:, None], table[symbols], 0.0))

    def accumulate(self, params: Params, x: Array, resp: Array, threads: int = 1) -> Stats:
        """Expected counts of symbols, (K, S)."""
        symbols, seen = _symbols(x)
        n_symbols = self.n_symbols or 1
        counts = [
            np.bincount(symbols, weights=resp[:, k] * seen, minlength=n_symbols) for k in range(resp.shape[1])
        ]
        return {"symbols": np.array(counts)}

    def maximize(self, stats: Stats, params: Params, update: frozenset[str] | None = None) -> Params:
        """Expected frequencies; a component without data keeps its row."""
        counts = stats["symbols"] + (self.concentration - 1.0)
        if params:  # zeros stay zero
            counts = np.where(params["emissionprob"] > 0, counts, 0.0)
        fallback = params.get("emissionprob", np.full_like(counts, 1.0 / counts.shape[1]))
        return keep({"emissionprob": safe_ratio(counts, counts.sum(axis=1), fallback)}, params, update)

    def expected_log_prob(self, stats: Stats, params: Params) -> float:
        """Sum of counts log p."""
        return float(np.sum(xlogy(stats["symbols"], params["emissionprob"])))

    def log_prior(self, params: Params) -> float:
        """Dirichlet."""
        p = params["emissionprob"]
        return float((self.concentration - 1.0) * np.sum(np.log(p[p > 0])))

    def from_responsibilities(self, x: Array, resp: Array, rng: np.random.Generator) -> Params:
        """Frequencies mixed with a random distribution: zeros of clusters of symbols would stay."""
        counts = self.accumulate({}, x, resp)["symbols"]
        pooled = counts.sum(axis=0) / counts.sum()
        own = safe_ratio(counts, counts.sum(axis=1), pooled[None])
        noise = rng.dirichlet(np.ones(counts.shape[1]), size=len(counts))
        return {"emissionprob": 0.4 * own + 0.3 * pooled + 0.3 * noise}

    def n_parameters(self, params: Params) -> int:
        """K (S - 1), not counting zeros of `params`: those of a start are structural."""
        return simplex_size(params["emissionprob"])

    def mean(self, params: Params) -> Array:
        """Expected symbol number, (K, 1): it gives the canonical order."""
        p = params["emissionprob"]
        return np.asarray(p @ np.arange(p.shape[1]))[:, None]

    def covariance(self, params: Params) -> Array:
        """Variance of the symbol number, (K, 1, 1)."""
        p = params["emissionprob"]
        symbols = np.arange(p.shape[1])
        return np.asarray(p @ symbols**2 - (p @ symbols) ** 2)[:, None, None]

    def sample(self, params: Params, labels: NDArray[np.intp], rng: np.random.Generator) -> Array:
        """Draws by inversion."""
        cdf = np.cumsum(params["emissionprob"], axis=1)[labels]
        u = rng.random(len(labels)) * cdf[:, -1]
        return np.asarray(np.sum(u[:, None] >= cdf, axis=1), dtype=float)[:, None]

    def pack(self, params: Params, like: Params) -> Array:
        """Log ratios."""
        return simplex_to_free(params["emissionprob"], like["emissionprob"])

    def unpack(self, v: Array, like: Params) -> Params:
        """Inverse of `pack`."""
        return {"emissionprob": simplex_from_free(v, like["emissionprob"])}


def _symbols(x: Array) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    seen = ~np.isnan(x[:, 0])
    return np.where(seen, x[:, 0], 0.0).astype(np.intp), seen


def _check_sign(x: Array, family: str) -> None:
    if np.nanmin(x, initial=0.0) < 0:
        i, j = np.argwhere(x < 0)[0]
        raise ValueError(
            f"Negative values in data: X[{i}, {j}] is {x[i, j]:g}, {family} components need values >= 0"
        )


def _check_whole(x: Array, family: str) -> None:
    _check_sign(x, family)
    broken = ~np.isnan(x) & (x != np.floor(x))
    if np.any(broken):
        i, j = np.argwhere(broken)[0]
        raise ValueError(f"{family} components need whole numbers: X[{i}, {j}] is {x[i, j]:g}")


class Plugin(Components):
    """Any component with a weighted maximum-likelihood step, one object per component.

    Parameters
    ----------
    components : sequence of objects with
        ``log_prob(x) -> (n,)`` and ``fit_weighted(x, w) -> object`` (a new component; for generalized EM it
        only has to raise the weighted log-likelihood), and for the methods that need them ``sample(n, rng) ->
        (n, D)``, ``mean() -> (D,)``, ``n_parameters`` (int).

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.em import Mixture, Plugin
    >>> class Uniform:
    ...     n_parameters = 1
    ...     def __init__(self, end):
    ...         self.end = end
    ...     def log_prob(self, x):
    ...         return np.where(x[:, 0] <= self.end, -np.log(self.end), -np.inf)
    ...     def fit_weighted(self, x, w):
    ...         return Uniform(float(x[w > 0, 0].max()))
    >>> model = Mixture(1, Plugin([Uniform(9.0)])).fit(np.array([[1.0], [2.0]]))
    >>> model.params_["components"][0].end
    2.0
    """

    def __init__(self, components: Any) -> None:
        self.components = tuple(components)

    def _resolve(self, x: Array, weights: Array) -> None:
        if len(self.components) != self.n_components:
            raise ValueError(
                f"n_components={self.n_components} but {len(self.components)} component objects were given"
            )

    def log_prob(self, params: Params, x: Array, threads: int = 1) -> Array:
        """The components' own log densities."""
        return np.stack([np.asarray(c.log_prob(x), dtype=float) for c in params["components"]], axis=1)

    def accumulate(self, params: Params, x: Array, resp: Array, threads: int = 1) -> Stats:
        """Data and responsibilities themselves: nothing is known about sufficient statistics."""
        return {"x": x, "resp": resp}

    def mixture_pass(
        self, params: Params, log_weights: Array, x: Array, weights: Array, threads: int
    ) -> tuple[float, Array, Stats]:
        """E-step on all rows at once."""
        logs, resp = responsibilities(self.log_prob(params, x) + log_weights)
        resp *= weights[:, None]
        return float(weights @ logs), resp.sum(axis=0), {"x": x, "resp": resp}

    def maximize(self, stats: Stats, params: Params, update: frozenset[str] | None = None) -> Params:
        """`fit_weighted` of every component that has data."""
        new = np.empty(len(params["components"]), dtype=object)
        for k, component in enumerate(params["components"]):
            w = stats["resp"][:, k]
            new[k] = component.fit_weighted(stats["x"], w) if w.sum() > DEAD else component
        return {"components": new}

    def expected_log_prob(self, stats: Stats, params: Params) -> float:
        """Sum of r log p."""
        return float(np.sum(stats["resp"] * self.log_prob(params, stats["x"])))

    def from_responsibilities(self, x: Array, resp: Array, rng: np.random.Generator) -> Params:
        """Fit every component to its share."""
        start = np.empty(len(self.components), dtype=object)
        start[:] = self.components
        return self.maximize({"x": x, "resp": resp}, {"components": start})

    def n_parameters(self, params: Params) -> int:
        """Sum of the components' `n_parameters`."""
        return int(sum(c.n_parameters for c in params["components"]))

    def mean(self, params: Params) -> Array:
        """The components' own means."""
        return np.stack([np.atleast_1d(c.mean()) for c in params["components"]])

    def covariance(self, params: Params) -> Array:
        """Not known for plug-in components."""
        raise NotImplementedError("plug-in components do not tell their covariances")

    def order(self, params: Params) -> NDArray[np.intp]:
        """By mean where the components tell it, else as given."""
        if all(hasattr(c, "mean") for c in params["components"]):
            return super().order(params)
        return np.arange(len(params["components"]))

    def sample(self, params: Params, labels: NDArray[np.intp], rng: np.random.Generator) -> Array:
        """The components' own draws, in the order of the labels."""
        out: Array | None = None
        for k, component in enumerate(params["components"]):
            where = np.flatnonzero(labels == k)
            draws = np.asarray(component.sample(len(where), rng), dtype=float).reshape(len(where), -1)
            if out is None:
                out = np.empty((len(labels), draws.shape[1]))
            out[where] = draws
        assert out is not None
        return out

    def pack(self, params: Params, like: Params) -> Array:
        """Plug-in components have no known coordinates."""
        raise NotImplementedError("acceleration and standard errors need components with known coordinates")

    def unpack(self, v: Array, like: Params) -> Params:
        """Plug-in components have no known coordinates."""
        raise NotImplementedError("acceleration and standard errors need components with known coordinates")
