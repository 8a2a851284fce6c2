"""What pictures ask of a fitted model, whatever it is: an estimator, a posterior, or draws.

`View` gives training data in the order in which they were given, names of columns, predictions of y and of f, and
probabilities of classes if y is one of finitely many values.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cavity.kernels.base import as_inputs
from cavity.likelihoods import GaussianNoise
from cavity.numerics.arrays import Array
from cavity.prediction import CategoricalPrediction, Prediction
from cavity.runtime.checks import require_between

BAND_DRAWS = 64
"""Draws of a `SamplePosterior` that bands are made from; means are of all that predictions use."""


class View:
    """One way to ask all models.

    Parameters
    ----------
    model : GPRegressor, GPClassifier, Posterior or SamplePosterior
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.is_estimator = hasattr(model, "get_params") and hasattr(model, "predict")
        if self.is_estimator:
            if hasattr(model, "estimators_"):
                raise ValueError(
                    f"this {type(model).__name__} is made of several models; plot one of them, as in "
                    "model.estimators_[0].plot()"
                )
            if not hasattr(model, "members_"):
                raise ValueError(f"this {type(model).__name__} is not fitted yet; call fit before plotting")
            self.posteriors: list[Any] = [member.posterior for member in model.members_]
        elif hasattr(model, "predict_y"):
            self.posteriors = [model]
        else:
            raise ValueError(
                "model must be a fitted GPRegressor or GPClassifier, or a posterior of a GP, "
                f"got {type(model).__name__}"
            )

    @property
    def posterior(self) -> Any:
        """The posterior, or the first of several."""
        return self.posteriors[0]

    def the_posterior(self, problem: int = 0) -> Any:
        """One of several models of a classifier."""
        require_between(problem, "problem", 0, len(self.posteriors) - 1)
        return self.posteriors[problem]

    # --- data -----------------------------------------------------------------------------------------------

    @property
    def n_features(self) -> int:
        """Number of input columns."""
        return int(self.posterior.data.X.shape[1])

    @cached_property
    def names(self) -> list[str]:
        """Names of the columns: those of the DataFrame of the fit, or x, or x1, x2, ..."""
        coding = getattr(self.model, "coding_", None)
        named = getattr(self.model, "feature_names_in_", None) if coding is None else coding.features
        if named is not None:
            return [str(n) for n in named]
        return ["x"] if self.n_features == 1 else [f"x{d + 1}" for d in range(self.n_features)]

    @cached_property
    def data(self) -> tuple[Array, NDArray[Any]]:
        """Training inputs (n, D) and targets (n,) or (n, T), or labels; rows that were left out are not there."""
        if hasattr(self.model, "rows_"):
            rows = self.model.rows_
            used = rows.index[rows.index >= 0]
            return rows.X[used], rows.y[used]
        if hasattr(self.model, "classes_"):
            return _labeled_rows(self.model)
        return np.asarray(self.posterior.data.X), np.asarray(self.posterior.data.y)

    def data_or(self, X: ArrayLike | None, y: ArrayLike | None) -> tuple[Array, NDArray[Any] | None]:
        """The data given, checked, or those of the fit."""
        if X is None:
            if y is not None:
                raise ValueError("y was given without X; give both, or neither for the data of the fit")
            return self.data
        coding = getattr(self.model, "coding_", None)
        inputs = as_inputs(X) if coding is None else self.model._checked(X)
        if inputs.shape[1] != self.n_features:
            raise ValueError(
                f"X must have the {self.n_features} columns of the fit, got {inputs.shape[1]}: "
                f"{', '.join(self.names)}"
            )
        if y is None:
            return inputs, None
        targets = np.asarray(y)
        if len(targets) != len(inputs):
            raise ValueError(
                f"X and y must have as many rows as each other, got {len(inputs)} and {len(targets)}"
            )
        return inputs, targets

    def center(self, rows: Array, at: ArrayLike | None) -> Array:
        """The point (D,) that a picture goes through: `at`, or the row nearest to the medians."""
        point = central_row(rows) if at is None else np.asarray(at, dtype=float).ravel()
        if point.shape != (self.n_features,):
            raise ValueError(
                f"at must have one value for each of {self.n_features} inputs, got {point.shape}"
            )
        return point

    def column(self, which: int | str) -> int:
        """Index of a column, given by index or by name."""
        if isinstance(which, str):
            if which not in self.names:
                raise ValueError(f"no column is called {which!r}; there are: {', '.join(self.names)}")
            return self.names.index(which)
        require_between(int(which), "a column", 0, self.n_features - 1)
        return int(which)

    @property
    def outlier_probability(self) -> Array | None:
        """For each row of `data`, if the noise model tells good rows from outliers; None otherwise."""
        likelihood = self.posterior.model.likelihood
        if not self.is_location or isinstance(likelihood, GaussianNoise):
            return None
        if hasattr(self.model, "outlier_probability_"):
            return np.asarray(self.model.outlier_probability_[self.model.rows_.index >= 0])
        return getattr(self.posterior, "outlier_probability", None)

    # --- predictions ----------------------------------------------------------------------------------------

    @cached_property
    def classes(self) -> NDArray[Any] | None:
        """Values that y can have, if there are finitely many; None for numbers and counts."""
        if hasattr(self.model, "classes_"):
            return np.asarray(self.model.classes_)
        likelihood = self.posterior.model.likelihood
        if not likelihood.discrete:
            return None
        found = self.posterior.predict_y(self.posterior.data.X[:1])
        return found.values if isinstance(found, CategoricalPrediction) else None

    @property
    def is_location(self) -> bool:
        """Whether y is f plus noise."""
        likelihood = self.posterior.model.likelihood
        plain = likelihood.noise is likelihood
        return likelihood.n_latent == 1 and not likelihood.discrete and plain

    def probabilities(self, X: ArrayLike) -> Array:
        """Of the classes, shape (m, C)."""
        if hasattr(self.model, "predict_proba"):
            return np.asarray(np.exp(self.model._log_proba(as_inputs(X))))
        return np.asarray(self.posterior.predict_y(X).probabilities)

    @property
    def is_sample(self) -> bool:
        """Whether predictions are averages over draws, whose quantiles are costly."""
        return hasattr(self.posterior, "draws")

    @cached_property
    def for_bands(self) -> Any:
        """The posterior, of draws with fewer of them: bands need quantiles at many places, to the eye's precision."""
        if not self.is_sample or self.posterior.max_draws <= BAND_DRAWS:
            return self.posterior
        return type(self.posterior)(self.posterior.draws, max_draws=BAND_DRAWS, warn=False)

    def predict_y(self, X: ArrayLike) -> Prediction:
        """Distribution of new observations."""
        return cast(Prediction, self.posterior.predict_y(X))

    def predict_f(self, X: ArrayLike) -> Prediction:
        """Distribution of the latent function."""
        return cast(Prediction, self.posterior.predict_f(X))

    def latent_means(self, X: ArrayLike) -> Array:
        """Posterior means of all latent functions, shape (m, L)."""
        rows = len(np.asarray(X))
        return np.column_stack([np.asarray(p.mean(X)).reshape(rows, -1) for p in self.posteriors])


def _labeled_rows(classifier: Any) -> tuple[Array, NDArray[Any]]:
    """Rows of all members with their labels; a row of several members once."""
    from itertools import combinations

    C = len(classifier.classes_)
    pairs = list(combinations(range(C), 2))
    found = []
    for i, member in enumerate(classifier.members_):
        X, y = member.rows.X, member.rows.y
        if member.likelihood.n_latent > 1:
            codes = y.astype(int)
        elif classifier.multi_class_ == "binary":
            codes = (y > 0).astype(int)
        else:
            codes = np.where(y > 0, pairs[i][0], pairs[i][1])
        found.append(np.column_stack([X, codes]))
    rows = np.vstack(found)
    if classifier.multi_class_ == "one_vs_one":
        rows = np.unique(rows, axis=0)
    return rows[:, :-1], classifier.classes_[rows[:, -1].astype(int)]


def pick(values: Array, target: int) -> Array:
    """One of several targets (or latent functions) of an array (m,) or (m, T)."""
    if values.ndim == 1:
        return values
    require_between(target, "target", 0, values.shape[1] - 1)
    return values[:, target]


FEW_VALUES = 8
"""A column with at most this many different values, in many rows, is drawn at these values only."""

MARGIN = 0.04
"""Part of the range by which a grid goes beyond the data."""


def grid_of(values: Array, count: int) -> tuple[Array, bool]:
    """Places along a column, and whether they are its own few values (codes of categories must stay what they are).

    >>> import numpy as np
    >>> grid_of(np.repeat([0.0, 1.0, 2.0], 20), 50)
    (array([0., 1., 2.]), True)
    """
    own = np.unique(values)
    if len(own) <= FEW_VALUES and len(values) >= 3 * len(own):
        return own, True
    pad = MARGIN * (own[-1] - own[0]) or 0.5
    return np.linspace(own[0] - pad, own[-1] + pad, count), False


def central_row(X: Array) -> Array:
    """The row of X nearest to the medians of the columns, in units of their spreads: values that occur together."""
    spread = X.std(axis=0)
    z = (X - np.median(X, axis=0)) / np.where(spread > 0, spread, 1.0)
    return np.array(X[np.argmin(np.einsum("ij,ij->i", z, z))])


def slice_rows(center: Array, column: int, grid: Array) -> Array:
    """Rows equal to the center but for one column."""
    rows = np.repeat(center[None], len(grid), axis=0)
    rows[:, column] = grid
    return rows
