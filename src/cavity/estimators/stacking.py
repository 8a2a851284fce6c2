"""Several models of the same data, averaged with weights that predict rows best which they have not seen.

Evidence chooses one set of hyperparameters, and the one it chooses need not predict best. Predictions of several models
(with and without a prior on length scales, say) are mixed instead, p(y) = sum_k w_k p_k(y), with the weights

    w = argmax  sum_i ln sum_k w_k p_k(y_i | all other rows),    w_k >= 0,  sum_k w_k = 1,

that give left-out rows the highest density: stacking of predictive distributions (Yao, Vehtari, Simpson and Gelman,
2018). Leave-one-out densities come from the models' own cavities, so that nothing is fitted again. The objective is
concave; the weights are found by EM for the weights of a mixture whose components are known.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin, clone
from sklearn.utils import Bunch
from sklearn.utils.metaestimators import _BaseComposition
from sklearn.utils.validation import check_is_fitted, column_or_1d

from cavity.estimators.base import GPEstimator
from cavity.estimators.fitted_regressor import check_noise
from cavity.estimators.inputs import checked_data
from cavity.estimators.leave_one_out import by_given_row, of_used_rows
from cavity.estimators.regressor import GPRegressor
from cavity.frames.notes import TableWarning
from cavity.learning.training_rows import require_numbers
from cavity.likelihoods import KnownNoise, as_likelihood
from cavity.numerics.arrays import Array
from cavity.prediction import Prediction, average
from cavity.runtime.checks import generator, require_integer
from cavity.runtime.errors import InputError
from cavity.runtime.interrupts import not_swallowed
from cavity.runtime.storing import Storable

GAP = 1e-7
"""Nats a row by which the weights may fall short of the best ones."""

EM_STEPS = 20_000

NEGLIGIBLE = 1e-5
"""Weights below are set to zero: such a member need not be asked for predictions."""


WEIGHTS = ("left-out", "evidence")

STACKED, SCORE = "stacked", "leave-one-out log density"
"""The last row of `comparison_`, and its column of mean log densities."""


def stacking_weights(log_density: ArrayLike, row_weight: ArrayLike | None = None) -> Array:
    """Weights of a mixture of known densities that maximize its log density, sum_i c_i ln sum_k w_k p_ik.

    Parameters
    ----------
    log_density : array (K, n)
        ln p_ik.
    row_weight : array (n,), optional
        c_i.

    Returns
    -------
    array (K,), adding up to one

    Raises
    ------
    ValueError
        For a row to which no member gives a positive density: no weights would.
    """
    log_p: Array = np.asarray(log_density, dtype=float)
    impossible = np.flatnonzero(~np.isfinite(log_p.max(axis=0)))
    if len(impossible):
        raise ValueError(
            f"no model gives row {impossible[0]} a positive density when it is left out; check that row, or add a "
            "model with a robust likelihood such as 'student-t'"
        )
    c = np.ones(log_p.shape[1]) if row_weight is None else np.asarray(row_weight, dtype=float)
    c = c / c.sum()
    p = np.exp(log_p - log_p.max(axis=0))
    w = np.full(len(p), 1.0 / len(p))
    for _ in range(EM_STEPS):
        gain = (p / (w @ p)) @ c  # d objective / d w_k; none exceeds one at the maximum
        if gain.max() <= 1.0 + GAP:
            break
        w = w * gain
    w = np.where(w < NEGLIGIBLE, 0.0, w)
    return np.asarray(w / w.sum())


def evidence_weights(log_evidence: ArrayLike) -> Array:
    """Posterior probabilities of models that were equally probable before, from their log evidences."""
    values: Array = np.asarray(log_evidence, dtype=float)
    if not np.all(np.isfinite(values)):
        raise ValueError(
            f"weights by evidence need the log evidence of every model, got {values.tolist()}; models that sample do "
            "not know it: use weights='left-out'"
        )
    w = np.exp(values - values.max())
    return np.asarray(w / w.sum())


class StackedRegressor(Storable, RegressorMixin, _BaseComposition):  # type: ignore[misc]
    """Several `GPRegressor`, averaged as well as they predict left-out rows.

    Parameters
    ----------
    estimators : list of (str, GPRegressor)
        Models with names, all of real numbers or all of counts. They may differ in kernel, priors, noise, inference or
        starts; averages help if they are about as good as each other and yet differ. Their own settings
        (`random_state`, `n_jobs`, `max_time`) count.
    weights : {"left-out", "evidence"}
        What the weights follow: "left-out" maximizes the density of left-out rows, and needs none of the models to be
        right; "evidence" gives each model its posterior probability at its hyperparameters, which is Bayesian model
        averaging, and soon gives all weight to one.

    Attributes
    ----------
    estimators_ : list of GPRegressor
        The fitted models.
    named_estimators_ : Bunch
        The same by name.
    weights_ : array (K,)
        Weight of each model; they add up to one.
    comparison_ : DataFrame
        Weight and mean leave-one-out log density of each model, and the latter of their average.
    n_features_in_, feature_names_in_

    See Also
    --------
    GPRegressor : one model; with `inference="mcmc"` an average over its hyperparameters.

    Notes
    -----
    Leave-one-out densities are those at the learned hyperparameters; of a model that samples, those of the fast rule
    that its chains start from. They favor flexible models a little; with far more hyperparameters than rows can tell,
    average over them instead (`inference="mcmc"`).

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GPRegressor, StackedRegressor
    >>> x = np.linspace(0, 6, 30)[:, None]
    >>> y = np.sin(x).ravel() + 0.1 * np.random.default_rng(0).standard_normal(30)
    >>> smooth, rough = GPRegressor("1.0 * SE(1.0)"), GPRegressor("1.0 * Matern(1.0, 1.5)")
    >>> model = StackedRegressor([("smooth", smooth), ("rough", rough)]).fit(x, y)
    >>> low, high = model.predict_dist([[1.5]]).interval(0.9)
    """

    def __init__(self, estimators: Sequence[tuple[str, GPRegressor]], *, weights: str = "left-out") -> None:
        self.estimators = estimators
        self.weights = weights

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters; if `deep` those of the models too, e.g. `smooth__kernel__se__lengthscale`."""
        return cast("dict[str, Any]", self._get_params("estimators", deep=deep))

    def set_params(self, **params: Any) -> Self:
        """Set parameters; a model by its name, and what belongs to it after its name and two underscores."""
        return cast(Self, self._set_params("estimators", **params))

    # --- fitting --------------------------------------------------------------------------------------------

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit every model, and find the weights.

        Parameters
        ----------
        X : array or DataFrame (n, D)
        y : array (n,)
        sample_weight : array (n,), optional
            As in `GPRegressor`.
        """
        if self.weights not in WEIGHTS:
            problem = f"must be {' or '.join(map(repr, WEIGHTS))}, got {self.weights!r}"
            raise InputError(problem, parameter="weights", value=self.weights)
        members = self._checked_members()
        require_numbers(y, "y")
        checked, targets = checked_data(self, X, y, reset=True, y_numeric=True, multi_output=True)
        targets = np.asarray(column_or_1d(targets, warn=True), dtype=float)
        weight = GPEstimator._checked_weight(sample_weight, checked)
        fitted = []
        for _, member in members:
            with not_swallowed(), warnings.catch_warnings():  # weights need all of them
                warnings.simplefilter("ignore", TableWarning)  # which was heard once
                fitted.append(clone(member).fit(X, targets, sample_weight))
        counted = np.arange(len(targets)) if weight is None else np.flatnonzero(weight > 0)
        densities = np.stack([by_given_row(_learned_from(m), m.rows_)[counted] for m in fitted])
        row_weight = np.ones(len(counted)) if weight is None else weight[counted]
        if self.weights == "evidence":
            weights = evidence_weights([member.log_evidence_ for member in fitted])
        else:
            weights = stacking_weights(densities, row_weight)
        scores = np.average([*densities, _mixed(weights, densities)], weights=row_weight, axis=1)
        self._adopt([name for name, _ in members], fitted, weights, scores)
        return self

    def _checked_members(self) -> list[tuple[str, GPRegressor]]:
        given = self.estimators
        listed = isinstance(given, list | tuple) and len(given) > 0
        if not listed or not all(isinstance(one, list | tuple) and len(one) == 2 for one in given):
            raise ValueError(
                "estimators must be a list of pairs (name, GPRegressor), as in "
                f"[('plain', GPRegressor())], got {given!r}"
            )
        for name, member in given:
            if not isinstance(name, str):
                raise ValueError(f"names of estimators must be texts, got {name!r}")
            if name == STACKED:
                raise ValueError(
                    f"the name {name!r} is that of the average in comparison_; choose another one"
                )
            if not isinstance(member, GPRegressor):
                raise ValueError(
                    f"estimator {name!r} must be a GPRegressor, which says how well it predicts left-out rows, got "
                    f"{member!r}; sklearn.ensemble.StackingRegressor combines point predictions of any regressors"
                )
        self._validate_names([name for name, _ in given])
        if len({as_likelihood(member.likelihood).discrete for _, member in given}) > 1:
            kinds = ", ".join(f"{name!r} of {_kind(member)}" for name, member in given)
            raise ValueError(
                "probabilities of counts and densities of real numbers cannot be compared or mixed, and the estimators "
                f"are {kinds}: stack one kind"
            )
        return [(name, member) for name, member in given]

    def _adopt(self, names: list[str], fitted: list[GPRegressor], weights: Array, scores: Array) -> None:
        import pandas as pd

        self.estimators_, self.weights_ = fitted, weights
        self.named_estimators_ = Bunch(**dict(zip(names, fitted)))
        self.comparison_ = pd.DataFrame(
            {"weight": [*weights, np.nan], SCORE: scores}, index=[*names, STACKED]
        )

    # --- prediction -----------------------------------------------------------------------------------------

    def _mixture(self, says: Callable[[GPRegressor], Prediction]) -> Prediction:
        """The mixture of what the members say that have weight."""
        used = np.flatnonzero(self.weights_)
        return average([says(self.estimators_[k]) for k in used], self.weights_[used])

    def _own_variance(self, member: GPRegressor, noise_variance: ArrayLike | None) -> ArrayLike | None:
        """Noise variances of new observations, for a model that cannot know them itself."""
        needed = any(isinstance(one.likelihood_, KnownNoise) for one in self.estimators_)
        return None if needed and not isinstance(member.likelihood_, KnownNoise) else noise_variance

    def _require_one_latent(self) -> None:
        for member in self.estimators_:
            if member.likelihood_.n_latent > 1:
                raise ValueError(
                    f"{type(member.likelihood_).__name__} has {member.likelihood_.n_latent} latent functions, which "
                    "cannot be mixed with those of other models: ask each of estimators_ for its own, or predict y"
                )

    def predict_dist(
        self, X: ArrayLike, *, noise_variance: ArrayLike | None = None, clean: bool = False
    ) -> Prediction:
        """Predictive distribution of a new observation y at each row: a mixture of those of the models.

        Models with `KnownNoise` need the noise variances of new observations, (m,); others know their own. `clean` as
        in `GPRegressor.predict_dist`, if every model that has weight can tell outliers.
        """
        check_is_fitted(self, "weights_")

        def says(member: GPRegressor) -> Prediction:
            variance = self._own_variance(member, noise_variance)
            return member.predict_dist(X, noise_variance=variance, clean=clean)

        return self._mixture(says)

    def predict_latent(self, X: ArrayLike) -> Prediction:
        """Predictive distribution of the function f at each row: a mixture of those of the models."""
        check_is_fitted(self, "weights_")
        self._require_one_latent()
        return self._mixture(lambda member: member.predict_latent(X))

    def predict(
        self,
        X: ArrayLike,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        noise: bool = True,
        noise_variance: ArrayLike | None = None,
        clean: bool = False,
    ) -> Any:
        """Predictive mean, and on request the standard deviation or the covariance; see `GPRegressor.predict`."""
        check_is_fitted(self, "weights_")
        if return_std and return_cov:
            raise ValueError(
                "return_std and return_cov cannot both be True; the sd is the root of cov's diagonal"
            )
        check_noise(noise, noise_variance, clean)
        if return_std:
            prediction = (
                self.predict_dist(X, noise_variance=noise_variance, clean=clean)
                if noise
                else self.predict_latent(X)
            )
            return prediction.mean, np.sqrt(prediction.variance)
        used = np.flatnonzero(self.weights_)
        w, members = self.weights_[used], [self.estimators_[k] for k in used]
        if not return_cov:
            return np.asarray(w @ np.stack([m.predict(X) for m in members]))
        if not noise:
            self._require_one_latent()
        found = [
            m.predict(
                X,
                return_cov=True,
                noise=noise,
                noise_variance=self._own_variance(m, noise_variance),
                clean=clean,
            )
            for m in members
        ]
        mean = np.asarray(w @ np.stack([m for m, _ in found]))
        cov = sum(v * (C + np.outer(m - mean, m - mean)) for v, (m, C) in zip(w, found))
        return mean, np.asarray(cov)

    def sample_y(
        self,
        X: ArrayLike,
        n_samples: int = 1,
        random_state: Any = 0,
        *,
        noise: bool = True,
        noise_variance: ArrayLike | None = None,
    ) -> Array:
        """Joint draws of new observations (of f with `noise=False`), shape (m, n_samples), each from one model."""
        check_is_fitted(self, "weights_")
        require_integer(n_samples, "n_samples", 0)
        check_noise(noise, noise_variance)
        if not noise:
            self._require_one_latent()
        rng = generator(random_state)
        which = rng.choice(len(self.weights_), size=n_samples, p=self.weights_)
        out = np.empty((np.shape(X)[0], n_samples))
        for k in np.unique(which):
            member, count = self.estimators_[k], int(np.sum(which == k))
            own = self._own_variance(member, noise_variance)
            out[:, which == k] = member.sample_y(X, count, rng, noise=noise, noise_variance=own)
        return out

    def leave_one_out(self) -> Prediction:
        """Predictive distribution of each training target given all others, at these hyperparameters and weights."""
        check_is_fitted(self, "weights_")
        return self._mixture(lambda member: member.leave_one_out())

    @property
    def outlier_probability_(self) -> Array:
        """How likely each training row is an outlier, given all other rows, shape (n,).

        The average of what the models say, each with its share in the density of that row given all others; see
        `GPRegressor.outlier_probability_`.
        """
        check_is_fitted(self, "weights_")
        used = [self.estimators_[k] for k in np.flatnonzero(self.weights_)]
        log_share = np.log(self.weights_[self.weights_ > 0])[:, None] + np.stack(
            [by_given_row(_learned_from(member), member.rows_) for member in used]
        )
        share = np.exp(log_share - log_share.max(axis=0))
        said = np.stack([member.outlier_probability_ for member in used])
        return np.asarray(np.sum(share * said, axis=0) / share.sum(axis=0))


def _kind(member: GPRegressor) -> str:
    return "counts" if as_likelihood(member.likelihood).discrete else "real numbers"


def _learned_from(member: GPRegressor) -> Array:
    """Leave-one-out log density of each row that a member has learned from, in the order of the rows given."""
    loo, y, place = of_used_rows(member.posterior_, member.rows_)
    return np.asarray(loo.log_prob(y)[place])


def _mixed(weights: Array, densities: Array) -> Array:
    """Log density of the mixture, (n,)."""
    some = weights > 0
    terms = np.log(weights[some])[:, None] + densities[some]
    return np.asarray(np.logaddexp.reduce(terms, axis=0))
