"""What all mixtures share: fitting, choice of the number of components, responsibilities, draws, criteria."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import DensityMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from cavity.em.components import Components
from cavity.em.estimator import EMEstimator
from cavity.em.expectation_maximization import EMResult, Restarts
from cavity.em.mixture_problem import MixtureProblem, MixtureTheta, densities_and_responsibilities
from cavity.em.parallel import resolve_threads
from cavity.em.priors import check_concentration
from cavity.em.selection import (
    Candidate,
    best_size,
    candidate_of,
    candidates,
    criteria,
    entropy_of,
    parameters_counted,
)
from cavity.em.standard_errors import StandardErrors, standard_errors
from cavity.numerics.arrays import Array
from cavity.runtime.storing import Storable


@dataclass(eq=False, repr=False, kw_only=True)
class MixtureBase(Storable, DensityMixin, EMEstimator):  # type: ignore[misc]
    """What all mixtures share. Subclasses add the options of their components and build a family."""

    n_components: Any = field(default=1, kw_only=False)
    weight_concentration: float = 1.0

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
        x = self._check_rows(X, reset=True)
        weights = _check_weights(sample_weight, x)
        used = int(np.count_nonzero(weights))
        sizes, criterion = candidates(self.n_components, self.criterion, used, "n_components")
        check_concentration(self.weight_concentration, "weight_concentration", ())
        starts = self._starts()
        if self.ordering not in ("means", "weights", None):
            raise ValueError(f"ordering={self.ordering!r} is not known; choose 'means', 'weights' or None")
        family = self._family()
        family.check_data(x)

        def fit_size(size: int) -> tuple[Candidate, tuple[MixtureProblem, Restarts[MixtureTheta]]]:
            bound = family.bind(x, weights, size)
            problem = MixtureProblem(bound, x, weights, float(self.weight_concentration))

            def make(kind: str, seed: int) -> MixtureTheta:
                return problem.counted(self._given_start(bound, lambda: problem.start(kind, seed)))

            restarts = self._run(problem, starts, make)
            return self._candidate(problem, restarts.best), (problem, restarts)

        best, self.selection_, self.failed_sizes_ = best_size(sizes, fit_size, criterion, "n_components")
        self._store(*best)
        return self

    def _candidate(self, problem: MixtureProblem, run: EMResult[MixtureTheta]) -> Candidate:
        entropy = np.nan  # needs a pass over the data: only if candidates are compared
        if not isinstance(self.n_components, (int, np.integer)):
            _, resp = densities_and_responsibilities(problem.family, run.theta, problem.x, problem.threads)
            entropy = entropy_of(resp, problem.sample_weight)
        held = bool(self._degenerate(problem, run.theta))
        return candidate_of(problem, run, len(run.theta.weights), entropy, held)

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
        self.weights_, self.params_ = theta.weights, theta.params
        self.n_components_ = len(theta.weights)
        self.lower_bound_ = run.objective / problem.n_data
        degenerate = self._degenerate(problem, theta)
        self._keep(
            problem,
            restarts,
            degenerate,
            f"components {degenerate} rest on the guard reg_covar or the prior rather than on data "
            "(too few points, or a covariance near its floor); use fewer components, a stronger prior or "
            "another covariance structure",
        )

    # -- use -------------------------------------------------------------------------------------------------
    @property
    def theta_(self) -> MixtureTheta:
        """Fitted parameters."""
        return MixtureTheta(self.weights_, self.params_)

    def _predict_rows(self, X: ArrayLike) -> tuple[Array, Array]:
        check_is_fitted(self)
        x = self._check_rows(X, reset=False)
        self.family_.check_data(x)
        return densities_and_responsibilities(self.family_, self.theta_, x, resolve_threads(self.n_jobs))

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
        rng = self._generator(random_state)
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
        x = self._check_rows(X, reset=False)
        weights = _check_weights(sample_weight, x)
        problem = MixtureProblem(
            self.family_, x, weights, float(self.weight_concentration), resolve_threads(self.n_jobs)
        )
        return standard_errors(problem, self.theta_)

    @property
    def means_(self) -> Array:
        """Means of the components, (K, D)."""
        if "params_" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no means_ before fit")
        return self.family_.mean(self.params_)


def _check_weights(sample_weight: ArrayLike | None, x: Array) -> Array:
    weights: Array = _check_sample_weight(sample_weight, x, dtype=np.float64, ensure_non_negative=True)
    return weights
