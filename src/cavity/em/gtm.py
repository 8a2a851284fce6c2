"""Generative topographic mapping: a mixture whose means lie on a smooth sheet, so that its index is a map.

    x given u ~ N(W' phi(u), I / b),    u uniform on a grid of K nodes in [-1, 1]^q,    W ~ N(0, I / l)

(Bishop, Svensen and Williams, 1998; Rasmussen and Williams, 2006, section 9.11), with phi bumps on a coarser grid and a
constant. E-step: responsibilities r_ik of the nodes. M-step, with R (n, K) and G = diag(sum_i r_ik),

    (Phi' G Phi + l / b I) W = Phi' R' X,      1 / b = sum_ik r_ik |x_i - W' phi_k|^2 / (n D).

The objective is the log-likelihood less l/2 |W|^2. Missing entries are left out of sums, column by column.
"""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from itertools import product
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from cavity.em.estimator import check_missing, check_observed
from cavity.em.expectation_maximization import run_em
from cavity.numerics.arrays import Array
from cavity.numerics.special import LOG_2PI
from cavity.runtime.checks import generator, require_integer, require_positive
from cavity.runtime.errors import InputError

MOST_NODES = 20_000
"""A grid of more is refused: nodes multiply with every component."""


def grid(per_axis: int, axes: int) -> Array:
    """A regular grid of [-1, 1]^axes, shape (per_axis^axes, axes); its middle if there is one node per axis."""
    line = np.linspace(-1.0, 1.0, per_axis) if per_axis > 1 else np.zeros(1)
    return np.array(list(product(line, repeat=axes)))


def bumps(at: Array, centers: Array, width: float) -> Array:
    """exp(-|u - c|^2 / 2 width^2) and a constant, shape (n, centers + 1)."""
    squares = np.sum((at[:, None, :] - centers) ** 2, axis=2)
    return np.column_stack([np.exp(-0.5 * squares / width**2), np.ones(len(at))])


@dataclass(frozen=True)
class Sheet:
    """Parameters: weights W (M, D) of the sheet and precision b of the noise."""

    weights: Array
    precision: float


class SheetProblem:
    """A mapping as an EM problem (see `cavity.em.expectation_maximization.EMProblem`).

    Parameters
    ----------
    features : (K, M)
        phi at the nodes.
    x : (n, D)
        NaN where an entry is missing.
    weight_precision : float
        l of the prior of the weights.
    largest_precision : float
        b is not made larger than this.
    """

    def __init__(
        self, features: Array, x: Array, weight_precision: float, largest_precision: float = np.inf
    ) -> None:
        self.features, self.weight_precision, self.largest = features, weight_precision, largest_precision
        self.seen = None if np.isfinite(x).all() else (~np.isnan(x)).astype(float)
        self.x = np.nan_to_num(x)
        self.squares = np.sum(self.x**2, axis=1)
        self.n_data = float(len(x))
        self.count = float(x.size if self.seen is None else self.seen.sum())

    def distances(self, theta: Sheet) -> Array:
        """|x_i - W' phi_k|^2 over what was seen, shape (n, K)."""
        means = self.features @ theta.weights
        out = self.x @ (-2.0 * means.T)
        out += self.squares[:, None]
        out += np.sum(means**2, axis=1) if self.seen is None else self.seen @ (means**2).T
        return np.maximum(out, 0.0, out=out)

    def densities(self, theta: Sheet) -> tuple[Array, Array]:
        """Log density of each row (n,) and responsibilities (n, K)."""
        logs = self.distances(theta)
        logs *= -0.5 * theta.precision
        total = np.asarray(logsumexp(logs, axis=1))
        logs -= total[:, None]
        np.exp(logs, out=logs)
        sizes = self.x.shape[1] if self.seen is None else self.seen.sum(axis=1)
        constant = 0.5 * sizes * (np.log(theta.precision) - LOG_2PI) - np.log(len(self.features))
        return total + constant, logs

    def e_step(self, theta: Sheet) -> tuple[float, Array]:
        """Objective, and responsibilities."""
        log_p, resp = self.densities(theta)
        return float(log_p.sum() - 0.5 * self.weight_precision * np.sum(theta.weights**2)), resp

    def m_step(self, statistics: Array, theta: Sheet) -> Sheet:
        """The sheet given responsibilities, then the noise given the sheet; each raises Q."""
        ridge = self.weight_precision / theta.precision * np.eye(self.features.shape[1])
        right = self.features.T @ (statistics.T @ self.x)

        def solve(counts: Array, b: Array) -> Array:
            left = self.features.T @ (counts[:, None] * self.features) + ridge
            return np.asarray(cho_solve(cho_factor(left, lower=True), b))

        if self.seen is None:
            weights = solve(statistics.sum(axis=0), right)
        else:
            counts = statistics.T @ self.seen  # of each node and column
            weights = np.stack([solve(c, b) for c, b in zip(counts.T, right.T)], axis=1)
        new = Sheet(weights, theta.precision)
        spread = float(np.vdot(statistics, self.distances(new)))
        return Sheet(weights, min(self.count / max(spread, 1e-300), self.largest))

    def pack(self, theta: Sheet, like: Sheet) -> Array:
        """Unconstrained vector."""
        return np.append(theta.weights.ravel(), np.log(theta.precision))

    def unpack(self, vector: Array, like: Sheet) -> Sheet:
        """Inverse of `pack`."""
        precision = min(float(np.exp(vector[-1])), self.largest)
        return Sheet(vector[:-1].reshape(like.weights.shape), precision)


def principal_start(features: Array, nodes: Array, x: Array) -> Sheet:
    """The sheet that comes closest to the plane of the leading principal components, and what it leaves as noise.

    A step of one in the map is one standard deviation along each component; `x` has no missing entries.
    """
    mean = x.mean(axis=0)
    _, s, V = np.linalg.svd(x - mean, full_matrices=False)
    q = min(nodes.shape[1], len(s))
    scaled = s / np.sqrt(len(x))
    plane = mean + (nodes[:, :q] * scaled[:q]) @ V[:q]
    weights = np.linalg.lstsq(features, plane, rcond=None)[0]
    left = float(np.sum(scaled[q:] ** 2)) / x.shape[1]
    between = float(np.mean(scaled[:q] ** 2)) / x.shape[1]  # noise that covers the gaps of a coarse grid
    return Sheet(np.asarray(weights), 1.0 / max(left, 0.01 * between, 1e-300))


@dataclass(eq=False, repr=False)
class GTM(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A smooth map of rows to a few coordinates, by EM: a nonlinear, probabilistic relative of principal components.

    Parameters
    ----------
    n_components : int
        Coordinates of the map.
    n_nodes : int
        Nodes along each coordinate.
    n_basis : int
        Bumps along each coordinate; the more, the more the sheet may bend.
    width : float
        Standard deviation of a bump, in units of their distance.
    regularization : float
        Prior precision of the weights, if the mean variance of the columns is one.
    noise_floor : float
        Smallest noise variance, in units of the mean variance of the columns.
    max_iter, tol : EM steps at most, and the gain in log-likelihood per datum at which to stop.
    accelerate : bool
        SQUAREM extrapolation.
    allow_nan : bool
        Leave missing entries (NaN) out instead of refusing them.
    random_state : int, RandomState or None
        For `sample`.

    Attributes
    ----------
    nodes_ : (K, n_components)
    means_ : (K, D)
        The sheet at the nodes, in units of the data.
    noise_variance_ : float
    log_likelihood_ : float
    converged_, n_iter_, status_, history_ : how EM went, on centered columns of mean variance one
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.em import GTM
    >>> t = np.linspace(-1, 1, 100)
    >>> X = np.column_stack([t, t**2]) + 0.01 * np.random.default_rng(0).standard_normal((100, 2))
    >>> place = GTM(n_components=1, n_basis=5).fit_transform(X)[:, 0]
    >>> bool(abs(np.corrcoef(place, t)[0, 1]) > 0.99)
    True
    """

    n_components: int = 2
    _: KW_ONLY
    n_nodes: int = 16
    n_basis: int = 4
    width: float = 1.0
    regularization: float = 0.1
    noise_floor: float = 1e-06
    max_iter: int = 500
    tol: float = 1e-06
    accelerate: bool = True
    allow_nan: bool = False
    random_state: Any = None

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Fit by EM, from the plane of the principal components."""
        self._check_settings()
        x = self._rows(X, reset=True)
        self._offset = np.asarray(np.nanmean(x, axis=0))
        self._unit = float(np.sqrt(np.mean(np.nanvar(x, axis=0)))) or 1.0
        scaled = (x - self._offset) / self._unit
        nodes = grid(self.n_nodes, self.n_components)
        self._centers = grid(self.n_basis, self.n_components)
        self._width = self.width * (2.0 / (self.n_basis - 1) if self.n_basis > 1 else 1.0)
        features = self._features(nodes)
        problem = SheetProblem(features, scaled, self.regularization, 1.0 / self.noise_floor)
        start = principal_start(features, nodes, np.nan_to_num(scaled))
        start = Sheet(start.weights, min(start.precision, problem.largest))
        run = run_em(problem, start, max_iter=self.max_iter, tol=self.tol, accelerate=self.accelerate)
        self.nodes_, self._sheet = nodes, run.theta
        self.means_ = self._offset + self._unit * (features @ run.theta.weights)
        self.noise_variance_ = self._unit**2 / run.theta.precision
        self.log_likelihood_ = float(np.sum(self.score_samples(x)))
        self.converged_, self.n_iter_, self.status_ = run.converged, run.n_iter, run.status
        self.history_ = np.array(run.trace)
        if not run.converged and self.tol >= 0:
            warnings.warn(
                f"EM {run.status}; raise max_iter, set accelerate=True or relax tol",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _check_settings(self) -> None:
        for name, least in (("n_components", 1), ("n_nodes", 2), ("n_basis", 1)):
            require_integer(getattr(self, name), name, least)
        for name in ("width", "regularization", "noise_floor"):
            value = getattr(self, name)
            require_positive(value, name)
        for name in ("n_nodes", "n_basis"):
            size = getattr(self, name) ** self.n_components
            if size > MOST_NODES:
                raise InputError(
                    f"makes a grid of {size} points in {self.n_components} coordinates, at most {MOST_NODES} are "
                    "allowed",
                    parameter=name,
                    value=getattr(self, name),
                    remedy="use fewer coordinates or a coarser grid",
                )

    def _features(self, U: Array) -> Array:
        return bumps(U, self._centers, self._width)

    def _rows(self, X: ArrayLike, reset: bool) -> Array:
        least = 2 if reset else 1
        x = validate_data(
            self, X, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan", ensure_min_samples=least
        )
        check_missing(x, self.allow_nan)
        if reset:
            check_observed(x)
        return np.asarray(x)

    def _densities(self, X: ArrayLike) -> tuple[Array, Array]:
        check_is_fitted(self, "nodes_")
        x = self._rows(X, reset=False)
        scaled = (x - self._offset) / self._unit
        log_p, resp = SheetProblem(self._features(self.nodes_), scaled, 0.0).densities(self._sheet)
        return log_p - np.sum(~np.isnan(x), axis=1) * np.log(self._unit), resp

    def predict_proba(self, X: ArrayLike) -> Array:
        """Responsibilities: the posterior probability of each node, (n, K)."""
        return self._densities(X)[1]

    def score_samples(self, X: ArrayLike) -> Array:
        """Log density of every row, (n,)."""
        return self._densities(X)[0]

    def score(self, X: ArrayLike, y: Any = None) -> float:
        """Mean log density."""
        return float(np.mean(self.score_samples(X)))

    def transform(self, X: ArrayLike, return_cov: bool = False) -> Any:
        """Posterior means of the coordinates (n, q), and on request their covariances (n, q, q)."""
        resp = self.predict_proba(X)
        mean = resp @ self.nodes_
        if not return_cov:
            return mean
        second = np.einsum("nk,ki,kj->nij", resp, self.nodes_, self.nodes_, optimize=True)
        return mean, second - mean[:, :, None] * mean[:, None, :]

    def inverse_transform(self, U: ArrayLike) -> Array:
        """The sheet at coordinates (n, q): means of the data there."""
        check_is_fitted(self, "nodes_")
        at: Array = np.asarray(U, dtype=float)
        if at.ndim != 2 or at.shape[1] != self.n_components or not np.isfinite(at).all():
            raise InputError(
                f"must be finite numbers of shape (n, {self.n_components}), got shape {at.shape}",
                parameter="U",
            )
        return np.asarray(self._offset + self._unit * (self._features(at) @ self._sheet.weights))

    def sample(self, n_samples: int = 1, random_state: Any = None) -> tuple[Array, Array]:
        """Draw rows (n, D) and the coordinates they came from (n, q)."""
        check_is_fitted(self, "nodes_")
        require_integer(n_samples, "n_samples", 1)
        rng = generator(self.random_state if random_state is None else random_state)
        nodes = rng.integers(len(self.nodes_), size=n_samples)
        noise = rng.standard_normal((n_samples, self.means_.shape[1])) * np.sqrt(self.noise_variance_)
        return self.means_[nodes] + noise, self.nodes_[nodes]

    @property
    def _n_features_out(self) -> int:
        return int(self.nodes_.shape[1])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = bool(self.allow_nan)
        return tags
