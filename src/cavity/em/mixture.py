"""Mixture models in the manner of scikit-learn: `Mixture`, `GaussianMixture`, `StudentTMixture`.

p(x) = sum_k w_k p_k(x). E-step: r_ik = w_k p_k(x_i) / sum_l w_l p_l(x_i); M-step: w_k = sum_i r_ik / n (plus
a Dirichlet prior), and every component's weighted maximum-likelihood or MAP estimate (Bilmes, TR-97-021,
equations 5 to 7).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, check_random_state, validate_data

from cavity.em.components import ROW_BLOCK, Components, Params, responsibilities
from cavity.em.emissions import make_components, nonnegative
from cavity.em.engine import DegeneracyError, DegeneracyWarning, EMResult, Restarts, run_restarts
from cavity.em.gaussian import Gaussian
from cavity.em.initialization import start_kinds, start_responsibilities
from cavity.em.parallel import resolve_threads
from cavity.em.priors import NormalInverseWishart, check_concentration, dirichlet_log_prior
from cavity.em.selection import Candidate, best_size, candidates, criteria, entropy_of, parameters_counted
from cavity.em.standard_errors import StandardErrors, standard_errors
from cavity.em.student import StudentT
from cavity.em.transforms import simplex_from_free, simplex_size, simplex_to_free
from cavity.numerics.arrays import Array


@dataclass(frozen=True)
class MixtureTheta:
    """Parameters of a mixture: mixing weights (K,) and the components' parameters."""

    weights: Array
    params: Params


class MixtureProblem:
    """A mixture as an EM problem (see `cavity.em.engine.Problem`).

    Parameters
    ----------
    family : Components bound to the data
    x : (n, D)
    sample_weight : (n,)
    concentration : float
        Dirichlet prior of the mixing weights, >= 1.
    threads : int
        Threads for passes over rows.
    """

    def __init__(
        self, family: Components, x: Array, sample_weight: Array, concentration: float = 1.0, threads: int = 1
    ) -> None:
        self.family = family
        self.x = x
        self.sample_weight = sample_weight
        self.concentration = concentration
        self.threads = threads
        self.n_data = float(sample_weight.sum())
        self.n_parameters = 0  # known from the first start on

    def e_step(self, theta: MixtureTheta) -> tuple[float, Any]:
        """Objective at theta, and counts with the family's statistics."""
        with np.errstate(divide="ignore"):
            log_weights = np.log(theta.weights)
        loglik, counts, stats = self.family.mixture_pass(
            theta.params, log_weights, self.x, self.sample_weight, self.threads
        )
        return loglik + self.log_prior(theta), (counts, stats)

    def m_step(self, statistics: Any, theta: MixtureTheta) -> MixtureTheta:
        """Mixing weights and components from the statistics."""
        counts, stats = statistics
        raised = counts + (self.concentration - 1.0)
        return MixtureTheta(raised / raised.sum(), self.family.maximize(stats, theta.params))

    def log_prior(self, theta: MixtureTheta) -> float:
        """Log prior of weights and components."""
        concentration = np.full(len(theta.weights), self.concentration)
        return dirichlet_log_prior(theta.weights, concentration) + self.family.log_prior(theta.params)

    def q_value(self, statistics: Any, theta: MixtureTheta) -> float:
        """Q(theta, theta of the statistics) plus log prior, up to terms without parameters."""
        counts, stats = statistics
        live = theta.weights > 0
        of_weights = float(counts[live] @ np.log(theta.weights[live]))
        return of_weights + self.family.expected_log_prob(stats, theta.params) + self.log_prior(theta)

    def pack(self, theta: MixtureTheta, like: MixtureTheta) -> Array:
        """Unconstrained vector."""
        weights = simplex_to_free(theta.weights, like.weights)
        return np.concatenate([weights, self.family.pack(theta.params, like.params)])

    def unpack(self, vector: Array, like: MixtureTheta) -> MixtureTheta:
        """Inverse of `pack`."""
        n = simplex_size(like.weights)
        return MixtureTheta(
            simplex_from_free(vector[:n], like.weights), self.family.unpack(vector[n:], like.params)
        )

    def project(self, theta: MixtureTheta) -> MixtureTheta:
        """Component parameters within their bounds."""
        return MixtureTheta(theta.weights, self.family.project(theta.params))

    def natural(self, theta: MixtureTheta) -> dict[str, Array]:
        """Natural parameters by name."""
        return {"weights": theta.weights, **theta.params}

    def counted(self, start: MixtureTheta) -> MixtureTheta:
        """Note the number of free parameters at a start: probabilities that EM drives to zero still count."""
        self.n_parameters = len(start.weights) - 1 + self.family.n_parameters(start.params)
        return start

    def start(self, kind: str, seed: int) -> MixtureTheta:
        """Starting parameters of the given kind."""
        rng = np.random.default_rng(seed)
        resp = start_responsibilities(
            self.x, self.sample_weight, self.family.n_components, rng, kind, robust=self.family.robust
        )
        weights = resp.sum(axis=0)
        return MixtureTheta(weights / weights.sum(), self.family.from_responsibilities(self.x, resp, rng))


class _MixtureBase(DensityMixin, BaseEstimator):  # type: ignore[misc]
    """What all mixtures share. Subclasses store their constructor's arguments and build a family."""

    n_components: Any
    criterion: str
    weight_concentration: float
    init: str
    n_init: int
    max_iter: int
    tol: float
    accelerate: bool
    ordering: str | None
    allow_nan: bool
    n_jobs: int | None
    random_state: Any
    progress: bool

    def _family(self) -> Components:
        raise NotImplementedError

    def _given_start(self, family: Components, make: Callable[[], MixtureTheta]) -> MixtureTheta:
        """Replace parts of a start by what the user gave; a start given in full needs no other."""
        return make()

    def _has_given_start(self) -> bool:
        return False

    # -- fitting ---------------------------------------------------------------------------------------------
    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit by EM.

        Parameters
        ----------
        X : (n, D)
            Data; NaN marks missing entries if `allow_nan` is set.
        y : ignored
        sample_weight : (n,) or None
            Non-negative weights: a weight of two is the same as giving the row twice.
        """
        x = self._check_x(X, reset=True)
        weights = _check_weights(sample_weight, x)
        used = int(np.count_nonzero(weights))
        sizes, criterion = candidates(self.n_components, self.criterion, used, "n_components")
        check_concentration(self.weight_concentration, "weight_concentration", ())
        kinds = start_kinds(self.init, self.n_init)
        if self.ordering not in ("means", "weights", None):
            raise ValueError(f"ordering={self.ordering!r} is not known; choose 'means', 'weights' or None")
        family = self._family()
        family.check_data(x)
        seeds = check_random_state(self.random_state).randint(np.iinfo(np.int32).max, size=len(kinds))

        def fit_size(size: int) -> tuple[Candidate, tuple[MixtureProblem, Restarts[MixtureTheta]]]:
            problem, restarts = self._fit_size(family, x, weights, size, kinds, seeds)
            return self._candidate(problem, restarts.best), (problem, restarts)

        best, self.selection_, self.failed_sizes_ = best_size(sizes, fit_size, criterion, "n_components")
        self._store(*best)
        return self

    def _fit_size(
        self, family: Components, x: Array, weights: Array, size: int, kinds: list[str], seeds: Any
    ) -> tuple[MixtureProblem, Restarts[MixtureTheta]]:
        threads = resolve_threads(self.n_jobs)
        inner_threads = threads if len(kinds) == 1 else 1
        bound = family.bind(x, weights, size)
        problem = MixtureProblem(bound, x, weights, float(self.weight_concentration), inner_threads)

        def make(kind: str, seed: int) -> Callable[[], MixtureTheta]:
            return lambda: problem.counted(self._given_start(bound, lambda: problem.start(kind, seed)))

        starts = [(kind, make(kind, int(seed))) for kind, seed in zip(kinds, seeds)]
        restarts = run_restarts(
            problem,
            starts,
            n_jobs=threads,
            max_iter=self.max_iter,
            tol=self.tol,
            accelerate=self.accelerate,
            progress=self.progress,
        )
        problem.threads = threads
        return problem, restarts

    def _candidate(self, problem: MixtureProblem, run: EMResult[MixtureTheta]) -> Candidate:
        loglik = run.objective - problem.log_prior(run.theta)
        p = problem.n_parameters
        entropy = np.nan  # needs a pass over the data: only where candidates are compared
        if not isinstance(self.n_components, (int, np.integer)):
            _, resp = _rows(problem.family, run.theta, problem.x, problem.threads)
            entropy = entropy_of(resp, problem.sample_weight)
        values = criteria(loglik, p, problem.n_data, entropy)
        held = bool(self._degenerate(problem, run.theta))
        return Candidate(
            len(run.theta.weights), loglik, p, converged=run.converged, degenerate=held, **values
        )

    @staticmethod
    def _degenerate(problem: MixtureProblem, theta: MixtureTheta) -> list[int]:
        return problem.family.degenerate(theta.params, theta.weights * problem.n_data)

    def _store(self, problem: MixtureProblem, restarts: Restarts[MixtureTheta]) -> None:
        run, family = restarts.best, problem.family
        theta = run.theta
        if self.ordering is not None and not self._has_given_start():
            order = (
                family.order(theta.params)
                if self.ordering == "means"
                else np.argsort(-theta.weights, kind="stable")
            )
            theta = MixtureTheta(theta.weights[order], family.permute(theta.params, order))
        self.family_ = family
        self.weights_ = theta.weights
        self.params_ = theta.params
        self.n_components_ = len(theta.weights)
        self.converged_ = run.converged
        self.n_iter_ = run.n_iter
        self.status_ = run.status
        self.history_ = np.array(run.trace)
        self.log_likelihood_ = run.objective - problem.log_prior(run.theta)
        self.lower_bound_ = run.objective / problem.n_data
        self.runs_ = [replace(r, statistics=None) for r in restarts.runs]
        self.failed_starts_ = restarts.failures
        self.degenerate_ = self._degenerate(problem, theta)
        if not run.converged and self.tol >= 0:
            warnings.warn(
                f"EM {run.status}; raise max_iter, set accelerate=True or relax tol",
                ConvergenceWarning,
                stacklevel=3,
            )
        if self.degenerate_:
            warnings.warn(
                f"components {self.degenerate_} rest on the guard reg_covar or the prior rather than on data "
                "(too few points, or a covariance near its floor); use fewer components, a stronger prior or "
                "another covariance structure",
                DegeneracyWarning,
                stacklevel=3,
            )

    # -- use -------------------------------------------------------------------------------------------------
    def _check_x(self, X: ArrayLike, reset: bool) -> Array:
        x: Array = validate_data(
            self,
            X,
            reset=reset,
            dtype=np.float64,
            order="C",
            ensure_all_finite="allow-nan",
            ensure_min_samples=2 if reset else 1,
        )
        check_missing(x, self.allow_nan)
        if reset:
            check_observed(x)
        return x

    @property
    def theta_(self) -> MixtureTheta:
        """Fitted parameters."""
        return MixtureTheta(self.weights_, self.params_)

    def _predict_rows(self, X: ArrayLike) -> tuple[Array, Array]:
        check_is_fitted(self)
        x = self._check_x(X, reset=False)
        self.family_.check_data(x)
        return _rows(self.family_, self.theta_, x, resolve_threads(self.n_jobs))

    def score_samples(self, X: ArrayLike) -> Array:
        """Log density of every row, (n,)."""
        return self._predict_rows(X)[0]

    def score(self, X: ArrayLike, y: Any = None) -> float:
        """Mean log density."""
        return float(np.mean(self.score_samples(X)))

    def predict_proba(self, X: ArrayLike) -> Array:
        """Responsibilities (n, K)."""
        logs, resp = self._predict_rows(X)
        impossible = np.flatnonzero(~np.isfinite(logs))
        if len(impossible):
            raise ValueError(
                f"row {int(impossible[0])} of X has zero probability under every component (its log density is "
                f"{logs[impossible[0]]}): it has no responsibilities; remove it, or give the components a prior"
            )
        return resp

    def predict(self, X: ArrayLike) -> NDArray[np.intp]:
        """Most probable component of every row, (n,)."""
        return np.asarray(np.argmax(self.predict_proba(X), axis=1))

    def fit_predict(
        self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None
    ) -> NDArray[np.intp]:
        """Fit, then the most probable component of every row."""
        return self.fit(X, y, sample_weight=sample_weight).predict(X)

    def sample(self, n_samples: int = 1, random_state: Any = None) -> tuple[Array, NDArray[np.intp]]:
        """Draw rows (n, D) and the components they came from (n,)."""
        check_is_fitted(self)
        if n_samples < 1:
            raise ValueError(f"n_samples={n_samples!r} must be at least 1")
        rng = _generator(self.random_state if random_state is None else random_state)
        labels = rng.choice(self.n_components_, size=n_samples, p=self.weights_)
        return self.family_.sample(self.params_, labels, rng), labels

    def _criteria(self, X: ArrayLike) -> dict[str, float]:
        logs, resp = self._predict_rows(X)
        return criteria(float(logs.sum()), self.n_parameters_, len(logs), entropy_of(resp))

    @property
    def n_parameters_(self) -> int:
        """Number of free parameters; probabilities that the fit drove to zero are among them."""
        check_is_fitted(self)
        counted = parameters_counted(getattr(self, "selection_", ()), self.n_components_)
        if counted is not None:
            return counted
        return self.n_components_ - 1 + self.family_.n_parameters(self.params_)

    def bic(self, X: ArrayLike) -> float:
        """Bayesian information criterion on X; smaller is better."""
        return self._criteria(X)["bic"]

    def aic(self, X: ArrayLike) -> float:
        """Akaike information criterion on X; smaller is better."""
        return self._criteria(X)["aic"]

    def icl(self, X: ArrayLike) -> float:
        """Integrated completed likelihood on X; smaller is better."""
        return self._criteria(X)["icl"]

    def standard_errors(self, X: ArrayLike, sample_weight: ArrayLike | None = None) -> StandardErrors:
        """Standard errors of all parameters from the observed information on the training data X."""
        check_is_fitted(self)
        x = self._check_x(X, reset=False)
        weights = _check_weights(sample_weight, x)
        problem = MixtureProblem(
            self.family_, x, weights, float(self.weight_concentration), resolve_threads(self.n_jobs)
        )
        return standard_errors(problem, self.theta_)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted mixture to a file that `cavity.load` reads."""
        from cavity.io import save

        check_is_fitted(self)
        save(self, path)

    @property
    def means_(self) -> Array:
        """Means of the components, (K, D)."""
        if "params_" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no means_ before fit")
        return self.family_.mean(self.params_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = bool(self.allow_nan)
        return tags


class Mixture(_MixtureBase):
    """Mixture of components of any family with a weighted maximum-likelihood step.

    Parameters
    ----------
    n_components : int, "bic" | "icl" | "aic", or an iterable of ints
        Number of components, or how to choose it (a string tries 1 to 10).
    components : str, Components, or list of (family, columns)
        "gaussian", "student-t", "poisson", "categorical", "bernoulli", "exponential"; a family object with
        its settings; `Plugin` for components of your own; a list for several kinds of features at once.
    criterion : {"bic", "icl", "aic"}
        Criterion when `n_components` is an iterable.
    weight_concentration : float
        Dirichlet prior of the mixing weights, >= 1; 1 is none.
    init : {"auto", "k-means++", "random"}
        Starting points; "auto" alternates, k-means++ first.
    n_init : int
        Number of starts; the best is kept, all are reported in `runs_`.
    max_iter, tol : EM steps at most, and the gain in log-likelihood per datum at which to stop.
    accelerate : bool
        SQUAREM extrapolation.
    ordering : {"means", "weights", None}
        Canonical order of the components: by increasing mean (first feature first), by decreasing weight, or
        as EM left them.
    allow_nan : bool
        Integrate missing entries (NaN) out.
    n_jobs : int or None
        Threads: over starts if there are several, else over rows.
    random_state : int, RandomState or None
    progress : bool
        Show a progress bar.

    Attributes
    ----------
    weights_, params_, means_ : parameters
    n_components_ : int
    converged_, status_, n_iter_, history_ : how EM went
    log_likelihood_ : float, of the training data
    runs_ : list of EMResult, one per start
    selection_ : list of Candidate, one per number of components that could be fitted; degenerate ones are
        chosen only if there are no others
    failed_sizes_ : list of str, numbers of components left out because every start collapsed, and why
    degenerate_ : list of int, components that rest on a guard rather than on data

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.em import Mixture
    >>> rng = np.random.default_rng(0)
    >>> counts = np.concatenate([rng.poisson(2, 300), rng.poisson(20, 100)])[:, None]
    >>> model = Mixture(2, components="poisson", random_state=0).fit(counts)
    >>> np.round(model.means_.ravel(), 0)
    array([ 2., 21.])
    """

    def __init__(
        self,
        n_components: Any = 1,
        components: Any = "gaussian",
        *,
        criterion: str = "bic",
        weight_concentration: float = 1.0,
        init: str = "auto",
        n_init: int = 1,
        max_iter: int = 500,
        tol: float = 1e-6,
        accelerate: bool = False,
        ordering: str | None = "means",
        allow_nan: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        progress: bool = False,
    ) -> None:
        self.n_components = n_components
        self.components = components
        self.criterion = criterion
        self.weight_concentration = weight_concentration
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.accelerate = accelerate
        self.ordering = ordering
        self.allow_nan = allow_nan
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress

    def _family(self) -> Components:
        return make_components(self.components)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = nonnegative(self.components)
        return tags


class GaussianMixture(_MixtureBase):
    """Gaussian mixture with full, tied, diagonal, spherical or factor-analysis covariances.

    Parameters
    ----------
    n_components : int, "bic" | "icl" | "aic", or an iterable of ints
    covariance_type : {"full", "tied", "diag", "spherical", "factor"}
    n_factors : int
        Factors for "factor": covariances W W' + diag(noise).
    reg_covar : float
        Guard against collapse relative to the variance of each feature; a penalty, not a constant added
        afterwards, so EM stays monotone and no component can drive the likelihood to infinity. See
        `cavity.em.Gaussian`.
    prior : NormalInverseWishart or None
        Prior of means and covariances (MAP).
    weights_init, means_init, covariances_init : arrays or None
        Starting values; what is not given follows from the data.
    criterion, weight_concentration, init, n_init, max_iter, tol, accelerate, ordering, allow_nan : as for `Mixture`
    n_jobs, random_state, progress : as for `Mixture`

    Attributes
    ----------
    weights_ : (K,)
    means_ : (K, D)
    covariances_ : (K, D, D) for full and factor, (D, D) tied, (K, D) diag, (K,) spherical
        Further attributes are those of `Mixture`.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.em import GaussianMixture
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(-3, 1, (200, 2)), rng.normal(3, 1, (100, 2))])
    >>> model = GaussianMixture("bic", random_state=0).fit(X)
    >>> model.n_components_, np.round(model.weights_, 2)
    (2, array([0.67, 0.33]))
    """

    def __init__(
        self,
        n_components: Any = 1,
        covariance_type: str = "full",
        *,
        n_factors: int = 1,
        reg_covar: float = 1e-6,
        prior: NormalInverseWishart | None = None,
        criterion: str = "bic",
        weight_concentration: float = 1.0,
        weights_init: ArrayLike | None = None,
        means_init: ArrayLike | None = None,
        covariances_init: ArrayLike | None = None,
        init: str = "auto",
        n_init: int = 1,
        max_iter: int = 500,
        tol: float = 1e-6,
        accelerate: bool = False,
        ordering: str | None = "means",
        allow_nan: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        progress: bool = False,
    ) -> None:
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.n_factors = n_factors
        self.reg_covar = reg_covar
        self.prior = prior
        self.criterion = criterion
        self.weight_concentration = weight_concentration
        self.weights_init = weights_init
        self.means_init = means_init
        self.covariances_init = covariances_init
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.accelerate = accelerate
        self.ordering = ordering
        self.allow_nan = allow_nan
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress

    def _family(self) -> Components:
        return Gaussian(self.covariance_type, self.n_factors, self.reg_covar, self.prior)

    def _has_given_start(self) -> bool:
        return any(v is not None for v in (self.weights_init, self.means_init, self.covariances_init))

    def _given_start(self, family: Components, make: Callable[[], MixtureTheta]) -> MixtureTheta:
        """Starting values given by the user replace those from the data, after a check of their shapes."""
        given = (self.weights_init, self.means_init, self.covariances_init)
        if all(v is not None for v in given) and type(family) is Gaussian:
            k, d = family.n_components, family.n_features
            shape = {"full": (k, d, d), "tied": (d, d), "diag": (k, d), "spherical": (k,)}
            zeros = np.zeros(shape.get(self.covariance_type, (0,)))
            start = MixtureTheta(np.zeros(k), {"means": np.zeros((k, d)), "covariances": zeros})
        else:
            start = make()
        weights, params = start.weights, dict(start.params)
        if self.weights_init is not None:
            weights = _given(self.weights_init, "weights_init", weights.shape)
            if np.any(weights < 0) or not np.isclose(weights.sum(), 1.0):
                raise ValueError(f"weights_init={self.weights_init!r} must be non-negative and sum to one")
        if self.means_init is not None:
            params["means"] = _given(self.means_init, "means_init", params["means"].shape)
        if self.covariances_init is not None:
            if self.covariance_type == "factor":
                raise ValueError("covariances_init does not apply to covariance_type='factor'")
            params["covariances"] = _given(
                self.covariances_init, "covariances_init", params["covariances"].shape
            )
        return MixtureTheta(weights, params)

    @property
    def covariances_(self) -> Array:
        """Covariances in the shape of their type."""
        if "params_" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no covariances_ before fit")
        if "covariances" in self.params_:
            return self.params_["covariances"]
        assert isinstance(self.family_, Gaussian)
        return np.array(self.family_._all_matrices(self.params_))


class StudentTMixture(GaussianMixture):
    """Mixture of multivariate Student-t components: robust against outliers.

    Parameters
    ----------
    dof : float, "estimate" or "shared"
        Degrees of freedom: fixed, estimated per component, or one estimate for all.
    dof_bounds : (float, float)
        Range of the estimates.
    accelerate : bool
        SQUAREM, on by default here: plain EM is slow in the degrees of freedom.
    n_components, covariance_type, ... : as for `GaussianMixture`; `covariances_` hold the scale matrices.

    Attributes
    ----------
    dofs_ : (K,)

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.em import StudentTMixture
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.standard_normal((100, 1)), 8 + rng.standard_normal((100, 1)), [[60.0]]])
    >>> model = StudentTMixture(2, dof=4.0, random_state=0).fit(X)
    >>> model.means_.round(0)
    array([[0.],
           [8.]])
    """

    def __init__(
        self,
        n_components: Any = 1,
        covariance_type: str = "full",
        *,
        dof: float | str = "estimate",
        dof_bounds: tuple[float, float] = (0.5, 500.0),
        n_factors: int = 1,
        reg_covar: float = 1e-6,
        prior: NormalInverseWishart | None = None,
        criterion: str = "bic",
        weight_concentration: float = 1.0,
        weights_init: ArrayLike | None = None,
        means_init: ArrayLike | None = None,
        covariances_init: ArrayLike | None = None,
        init: str = "auto",
        n_init: int = 1,
        max_iter: int = 500,
        tol: float = 1e-6,
        accelerate: bool = True,
        ordering: str | None = "means",
        allow_nan: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        progress: bool = False,
    ) -> None:
        super().__init__(
            n_components,
            covariance_type,
            n_factors=n_factors,
            reg_covar=reg_covar,
            prior=prior,
            criterion=criterion,
            weight_concentration=weight_concentration,
            weights_init=weights_init,
            means_init=means_init,
            covariances_init=covariances_init,
            init=init,
            n_init=n_init,
            max_iter=max_iter,
            tol=tol,
            accelerate=accelerate,
            ordering=ordering,
            allow_nan=allow_nan,
            n_jobs=n_jobs,
            random_state=random_state,
            progress=progress,
        )
        self.dof = dof
        self.dof_bounds = dof_bounds

    def _family(self) -> Components:
        return StudentT(
            self.covariance_type, self.n_factors, self.reg_covar, self.prior, self.dof, self.dof_bounds
        )

    @property
    def dofs_(self) -> Array:
        """Degrees of freedom, (K,)."""
        if "params_" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no dofs_ before fit")
        return self.params_["dofs"]


def _rows(family: Components, theta: MixtureTheta, x: Array, threads: int) -> tuple[Array, Array]:
    """Log density (n,) and responsibilities (n, K), in blocks of rows."""
    with np.errstate(divide="ignore"):
        log_weights = np.log(theta.weights)
    logs = np.empty(len(x))
    resp = np.empty((len(x), len(theta.weights)))
    step = ROW_BLOCK * max(1, threads)
    for start in range(0, len(x), step):
        rows = slice(start, start + step)
        logs[rows], resp[rows] = responsibilities(
            family.log_prob(theta.params, x[rows], threads) + log_weights
        )
    return logs, resp


def _given(value: ArrayLike, name: str, shape: tuple[int, ...]) -> Array:
    array = np.asarray(value, dtype=float)
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}, expected {shape}")
    return array


def _check_weights(sample_weight: ArrayLike | None, x: Array) -> Array:
    weights: Array = _check_sample_weight(sample_weight, x, dtype=np.float64, ensure_non_negative=True)
    return weights


def check_missing(x: Array, allow_nan: bool) -> None:
    """Refuse NaN unless missing entries are announced."""
    if allow_nan:
        return
    where = np.isnan(x)
    if where.any():
        i, j = np.argwhere(where)[0]
        raise ValueError(
            f"X contains NaN, first at row {i}, feature {j}: set allow_nan=True to integrate missing entries "
            "out, or remove them"
        )


def check_observed(x: Array) -> None:
    """Refuse training data with a feature that is missing in every row."""
    empty = np.flatnonzero(np.isnan(x).all(axis=0))
    if len(empty):
        raise ValueError(f"feature {int(empty[0])} of X is missing (NaN) in every row: remove it")


def _generator(random_state: Any) -> np.random.Generator:
    """NumPy generator from an int, None, Generator or RandomState."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is None or isinstance(random_state, (int, np.integer)):
        return np.random.default_rng(random_state)
    return np.random.default_rng(check_random_state(random_state).randint(np.iinfo(np.int32).max))


__all__ = [
    "DegeneracyError",
    "GaussianMixture",
    "Mixture",
    "MixtureProblem",
    "MixtureTheta",
    "StudentTMixture",
]
