"""`GPSearchCV`: hyperparameters of scikit-learn's estimators, by Bayesian optimization instead of a grid.

It is a `RandomizedSearchCV` whose documented hook, `_run_search`, asks for settings one after the other. The spread of
the folds' scores goes in as known noise, sd / sqrt(folds); a fit that fails (`error_score=nan`) is a failure, never a
bad score. The initial design is tried in one call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.model_selection import RandomizedSearchCV

from cavity.design.history import History, Status
from cavity.design.space import Space
from cavity.design.suggestion import Options, suggest
from cavity.runtime.errors import InputError


class GPSearchCV(RandomizedSearchCV):  # type: ignore[misc]
    """Search of hyperparameters by cross-validation, guided by a Gaussian process.

    Parameters
    ----------
    estimator : estimator
    search_space : mapping
        Names of parameters to inputs: `Real`, `Integer`, `Categorical`, (low, high), lists, or distributions of SciPy
        such as `loguniform(1e-3, 1e2)` and `randint(1, 9)`.
    n_iter : int
        Settings tried.
    n_points : int
        Settings tried at the same time, after the initial design.
    random_state : int
    scoring, n_jobs, refit, cv, verbose, pre_dispatch, error_score, return_train_score
        As in `sklearn.model_selection.RandomizedSearchCV`.

    Attributes
    ----------
    history_ : History
        Settings with their mean scores.
    best_params_, best_score_, best_estimator_, cv_results_
        As in scikit-learn: of the best mean score.

    Examples
    --------
    >>> from scipy.stats import loguniform
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> from cavity.design import GPSearchCV
    >>> X, y = load_iris(return_X_y=True)
    >>> search = GPSearchCV(SVC(), {"C": loguniform(1e-2, 1e3), "gamma": loguniform(1e-4, 1e1)}, n_iter=8, cv=3)
    >>> bool(search.fit(X, y).best_score_ > 0.9)
    True
    """

    def __init__(
        self,
        estimator: Any,
        search_space: Mapping[str, Any],
        *,
        n_iter: int = 30,
        n_points: int = 1,
        random_state: int = 0,
        scoring: Any = None,
        n_jobs: int | None = None,
        refit: bool | str | Callable[..., Any] = True,
        cv: Any = None,
        verbose: int = 0,
        pre_dispatch: int | str = "2*n_jobs",
        error_score: Any = np.nan,
        return_train_score: bool = False,
    ) -> None:
        self.search_space, self.n_iter, self.n_points = search_space, n_iter, n_points
        self.random_state = random_state
        super().__init__(
            estimator,
            search_space,
            n_iter=n_iter,
            random_state=random_state,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            pre_dispatch=pre_dispatch,
            error_score=error_score,
            return_train_score=return_train_score,
        )

    def _run_search(self, evaluate_candidates: Callable[..., Any]) -> None:
        if not self.n_points >= 1:
            raise InputError(f"must be a whole number >= 1, got {self.n_points!r}", parameter="n_points")
        space, options = Space(self.search_space), Options(goal="maximize")
        history, first = History(), min(options.initial(space), self.n_iter)
        while len(history) < self.n_iter:
            count = first if not len(history) else min(self.n_points, self.n_iter - len(history))
            chosen = [one.x for one in suggest(history, space, options, self.random_state, count)]
            for x, score, sd in self._scores(evaluate_candidates, chosen, history):
                history = history.with_outcome(x, score, noise_sd=sd)
        self.history_ = history

    def _scores(
        self, evaluate_candidates: Callable[..., Any], chosen: list[dict[str, Any]], history: History
    ) -> list[tuple[dict[str, Any], float, float | None]]:
        """Settings with their mean scores and the standard errors of these."""
        try:
            results = evaluate_candidates(chosen)
        except ValueError:
            # scikit-learn raises if all fits of a call fail: an error at first, later the failure of some settings
            if self.error_score == "raise" or not history.of(Status.DONE):
                raise
            return [(x, np.nan, None) for x in chosen]
        key = self.refit if isinstance(self.refit, str) else "score"
        if f"mean_test_{key}" not in results:
            raise InputError(
                "with several scores, refit must name the one to be optimized",
                parameter="refit",
                value=self.refit,
            )
        mean = np.asarray(results[f"mean_test_{key}"])[-len(chosen) :]
        spread = np.asarray(results[f"std_test_{key}"])[-len(chosen) :] / np.sqrt(self._folds(results, key))
        return [(x, m, float(sd) if np.isfinite(sd) else None) for x, m, sd in zip(chosen, mean, spread)]

    @staticmethod
    def _folds(results: Mapping[str, Any], key: str) -> int:
        return sum(name.startswith("split") and name.endswith(f"_test_{key}") for name in results)
