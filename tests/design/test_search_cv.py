"""scikit-learn's hyperparameters: results as scikit-learn has them, failures, several scores."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import loguniform
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import Ridge
from sklearn.svm import SVC

from cavity.design import GPSearchCV
from cavity.runtime.errors import InputError

X, Y = make_classification(120, 5, random_state=0)
SPACE = {"C": loguniform(1e-3, 1e3), "kernel": ["rbf", "linear"]}


def test_it_finds_a_good_setting_and_keeps_the_contract():
    search = GPSearchCV(SVC(), SPACE, n_iter=9, cv=3).fit(X, Y)
    assert search.best_score_ == pytest.approx(np.max(search.cv_results_["mean_test_score"]))
    assert len(search.cv_results_["params"]) == len(search.history_) == 9
    assert set(search.best_params_) == {"C", "kernel"}
    assert search.predict(X).shape == (120,)
    sd = search.cv_results_["std_test_score"][0] / np.sqrt(3)
    assert search.history_[1].noise_sd == pytest.approx(sd)
    again = clone(search).fit(X, Y)
    assert again.cv_results_["params"] == search.cv_results_["params"]


def test_failures_are_failures():
    class Moody(SVC):
        def fit(self, X, y, sample_weight=None):
            if self.C > 1.0:
                raise ValueError("too large")
            return super().fit(X, y)

    with pytest.warns(FitFailedWarning, match="fits failed"):
        search = GPSearchCV(Moody(), {"C": loguniform(1e-3, 1e3)}, n_iter=7, cv=3).fit(X, Y)
    status = {trial.x["C"] > 1.0: str(trial.status) for trial in search.history_}
    assert status == {True: "failed", False: "done"}


def test_several_scores_need_one_to_optimize():
    scoring = {"acc": "accuracy", "f1": "f1"}
    search = GPSearchCV(SVC(), SPACE, n_iter=6, cv=3, scoring=scoring, refit="f1").fit(X, Y)
    assert search.history_[1].y == pytest.approx(search.cv_results_["mean_test_f1"][0])
    with pytest.raises(InputError, match="refit must name"):
        GPSearchCV(SVC(), SPACE, n_iter=6, cv=3, scoring=scoring, refit=False).fit(X, Y)


def test_several_at_a_time_and_bad_numbers():
    search = GPSearchCV(Ridge(), {"alpha": loguniform(1e-3, 1e3)}, n_iter=7, n_points=3, cv=3).fit(X, Y)
    assert len(search.history_) == 7
    with pytest.raises(InputError, match="n_points must be"):
        GPSearchCV(Ridge(), {"alpha": loguniform(1e-3, 1e3)}, n_points=0).fit(X, Y)
    with pytest.raises(ValueError, match="n_iter"):
        GPSearchCV(Ridge(), {"alpha": loguniform(1e-3, 1e3)}, n_iter=0).fit(X, Y)
