"""`GPRegressor`: Gaussian process regression with scikit-learn's contract."""

from __future__ import annotations

import warnings
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from cavity.estimators.base import NestedParameters, TrainingRows, contains_white, require_memory
from cavity.gp import GP, Posterior
from cavity.hyper import Array
from cavity.inference.base import ConvergenceWarning
from cavity.kernels import SE, Kernel, ard
from cavity.kernels import parse as parse_kernel
from cavity.learning import Learned, learn
from cavity.likelihoods import as_likelihood
from cavity.linalg import JITTER_LADDER
from cavity.means import Basis, as_mean
from cavity.prediction import GaussianPrediction, Prediction


class GPRegressor(RegressorMixin, MultiOutputMixin, NestedParameters):  # type: ignore[misc]
    """Gaussian process regression.

    Parameters
    ----------
    kernel : Kernel or str, optional
        Covariance function, in the units of the data, or its text; `1.0 * SE(ard)` by default. Its values are
        one of the starting points of learning, and its priors, bounds and fixed flags are respected.
    mean : Mean or {"zero", "constant", "linear"}
        Prior mean function. With several targets "constant" means a constant per target, integrated out.
    likelihood : Likelihood or str
        Noise model.
    inference : {"auto", "exact"} or an inference rule
    objective : {"evidence", "loo"} or None
        What hyperparameters maximize: log evidence or leave-one-out log density, each plus the log prior of
        those parameters that have one. None keeps all values as given.
    n_restarts : int
        Runs of the optimizer beside the first, data-driven one.
    standardize : bool
        Whether starting values and the scale of the optimizer are read off the data. It never changes the
        model: kernel values, `log_evidence_` and predictions are always in the units of the data.
    random_state : int, Generator or RandomState, optional
    n_jobs : int, optional
        Processes for the runs of the optimizer.
    warm_start : bool
        Start learning from the values of the last fit.
    max_time : float, optional
        Seconds after which learning returns the best so far.
    max_rows : int, optional
        Use a random subset of at most so many rows, for data too large for an exact fit.

    Attributes
    ----------
    kernel_, mean_, likelihood_ : the parts with learned values
    model_ : GP
    posterior_ : Posterior
    log_evidence_ : float
        For y in the user's units.
    starts_ : tuple of Run
        Every run of the optimizer: start, end, objective, so that local optima can be seen.
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GPRegressor
    >>> x = np.linspace(0, 6, 30)[:, None]
    >>> y = np.sin(x).ravel() + 0.1 * np.random.default_rng(0).standard_normal(30)
    >>> model = GPRegressor(random_state=0).fit(x, y)
    >>> mean, sd = model.predict([[1.5]], return_std=True)
    """

    def __init__(
        self,
        kernel: Kernel | str | None = None,
        *,
        mean: Any = "constant",
        likelihood: Any = "gaussian",
        inference: Any = "auto",
        objective: str | None = "evidence",
        n_restarts: int = 3,
        standardize: bool = True,
        random_state: Any = None,
        n_jobs: int | None = None,
        warm_start: bool = False,
        max_time: float | None = None,
        max_rows: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.mean = mean
        self.likelihood = likelihood
        self.inference = inference
        self.objective = objective
        self.n_restarts = n_restarts
        self.standardize = standardize
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.max_time = max_time
        self.max_rows = max_rows

    # --- fitting --------------------------------------------------------------------------------------------

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn hyperparameters and condition on the data.

        Parameters
        ----------
        X : array or DataFrame (n, D)
        y : array (n,) or (n, T)
        sample_weight : array (n,), optional
            Power of each row's likelihood factor; rows of weight zero are left out before anything else.
        """
        X, y = validate_data(self, X, y, multi_output=True, y_numeric=True, dtype=np.float64)
        y = np.asarray(y, dtype=float)
        if y.ndim == 2 and y.shape[1] == 1:
            y = y[:, 0]
        weight = self._checked_weight(sample_weight, X)
        rng = np.random.default_rng(_seed(self.random_state))
        X, y, weight = self._subset(X, y, weight, rng)
        model = self._initial_model(X, y)
        rows = TrainingRows.of(X, y, weight, merge=not contains_white(model.kernel))
        if len(rows.X) == 0:
            raise ValueError("sample_weight is zero for every row: nothing is left to fit")
        require_memory(len(rows.X))
        learned = self._learn(model, rows, rng)
        self.model_ = learned.model
        self.starts_ = learned.runs
        self.rows_ = rows
        self._condition(self.model_, rows)
        self._warn(learned)
        return self

    def _checked_weight(self, sample_weight: ArrayLike | None, X: Array) -> Array | None:
        if sample_weight is None:
            return None
        return cast(Array, _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))

    def _subset(
        self, X: Array, y: Array, weight: Array | None, rng: np.random.Generator
    ) -> tuple[Array, Array, Array | None]:
        if self.max_rows is None or len(X) <= self.max_rows:
            return X, y, weight
        pick = np.sort(rng.choice(len(X), self.max_rows, replace=False))
        return X[pick], y[pick], None if weight is None else weight[pick]

    def _initial_model(self, X: Array, y: Array) -> GP:
        if self.warm_start and hasattr(self, "model_") and self.model_.kernel.n_dims in (None, X.shape[1]):
            return self.model_
        kernel: Any = 1.0 * SE(ard) if self.kernel is None else self.kernel
        if isinstance(kernel, str):
            kernel = parse_kernel(kernel)
        mean = self.mean
        if y.ndim == 2 and isinstance(mean, str) and mean == "constant":
            mean = Basis("constant")
        likelihood = as_likelihood(self.likelihood)
        inference = (
            None
            if isinstance(self.inference, str) and self.inference in ("auto", "exact")
            else self.inference
        )
        names = getattr(self, "feature_names_in_", None)
        model = GP(kernel, likelihood, as_mean(mean), inference)
        return model.bind(X.shape[1], None if names is None else [str(n) for n in names])

    def _learn(self, model: GP, rows: TrainingRows, rng: np.random.Generator) -> Learned:
        if self.objective is None:
            return Learned(model, np.nan, ())
        return learn(
            model,
            rows.X,
            rows.y,
            objective=self.objective,
            n_restarts=self.n_restarts,
            sample_weight=rows.weight,
            given=self.kernel is not None or self.warm_start,
            data_driven=self.standardize,
            random_state=rng,
            n_jobs=self.n_jobs,
            max_time=self.max_time,
        )

    def _condition(self, model: GP, rows: TrainingRows) -> None:
        self.posterior_: Posterior = model.condition(rows.X, rows.y, rows.weight)
        self.model_ = self.posterior_.model
        self.kernel_, self.mean_ = self.model_.kernel, self.model_.mean
        self.likelihood_ = self.model_.likelihood
        self.log_evidence_ = self.posterior_.log_evidence

    def _warn(self, learned: Learned) -> None:
        if learned.stopped:
            warnings.warn(
                f"learning was stopped early ({learned.stopped}); the best hyperparameters so far are kept",
                ConvergenceWarning,
                stacklevel=3,
            )
        elif learned.runs and not learned.converged:
            best = max(learned.runs, key=lambda run: run.value)
            warnings.warn(
                f"the optimizer of the hyperparameters stopped early: {best.message}; see starts_, and fit again with "
                "warm_start=True or more n_restarts",
                ConvergenceWarning,
                stacklevel=3,
            )
        status = self.posterior_.status
        scale = float(np.mean(self.model_.kernel.diag(self.rows_.X)))
        if status.jitter > JITTER_LADDER[3] * scale:
            warnings.warn(
                f"the covariance matrix is nearly singular: {status.message}; give the noise variance a lower bound, or "
                "look for repeated rows",
                ConvergenceWarning,
                stacklevel=3,
            )

    # --- prediction -----------------------------------------------------------------------------------------

    def _checked(self, X: ArrayLike) -> Array:
        check_is_fitted(self, "posterior_")
        return cast(Array, validate_data(self, X, reset=False, dtype=np.float64))

    def predict(
        self, X: ArrayLike, return_std: bool = False, return_cov: bool = False, *, noise: bool = True
    ) -> Any:
        """Predictive mean, and on request the standard deviation or the covariance.

        Parameters
        ----------
        X : array (m, D)
        return_std, return_cov : bool
            At most one of them.
        noise : bool
            Whether they refer to new observations y (the default) or to the function f.

        Returns
        -------
        mean : array (m,) or (m, T)
        sd : array like mean; infinite where the noise has no variance
        cov : array (m, m)
        """
        if return_std and return_cov:
            raise ValueError(
                "return_std and return_cov cannot both be True; the sd is the root of cov's diagonal"
            )
        X = self._checked(X)
        if return_cov:
            cov = self.posterior_.covariance(X)
            mean = self.posterior_.mean(X)
            if noise:
                cov[np.diag_indices_from(cov)] += self._noise_variance(mean)
            return mean, cov
        if not return_std:
            return self._mean(X)
        prediction = self.predict_dist(X, noise=noise)
        return prediction.mean, np.sqrt(prediction.variance)

    def _mean(self, X: Array) -> Array:
        return self.posterior_.mean(X)

    def _noise_variance(self, mean: Array) -> Array:
        flat = mean if mean.ndim == 1 else mean[:, 0]
        return self.likelihood_.predictive(flat, np.zeros(len(flat))).variance

    def predict_dist(self, X: ArrayLike, *, noise: bool = True) -> Prediction:
        """Predictive distribution of y at each row (of f with `noise=False`): quantiles, intervals, log
        densities."""
        X = self._checked(X)
        return self.posterior_.predict_y(X) if noise else self.posterior_.predict_f(X)

    def predict_gradient(self, X: ArrayLike) -> tuple[Array, Array]:
        """Derivatives of the predictive mean and of the variance of f in the inputs, each (m, D)."""
        X = self._checked(X)
        return self.posterior_.mean_gradient(X), self.posterior_.variance_gradient(X)

    def sample_y(
        self, X: ArrayLike, n_samples: int = 1, random_state: Any = 0, *, noise: bool = True
    ) -> Array:
        """Joint draws of new observations (of f with `noise=False`) at X.

        Returns
        -------
        array (m, n_samples) or (m, T, n_samples), as in scikit-learn
        """
        X = self._checked(X)
        rng = np.random.default_rng(_seed(random_state))
        f = self.posterior_.sample(X, n_samples, rng)
        if noise:
            f = self._add_noise(f, rng)
        return np.moveaxis(f, 0, -1)

    def _add_noise(self, f: Array, rng: np.random.Generator) -> Array:
        if f.ndim == 2:
            return self.likelihood_.sample(f, rng)
        return np.stack([self.likelihood_.sample(f[:, :, t], rng) for t in range(f.shape[2])], axis=2)

    def leave_one_out(self) -> Prediction:
        """Predictive distribution of each training target given all others, at the learned
        hyperparameters."""
        check_is_fitted(self, "posterior_")
        loo = self.model_.leave_one_out(self.rows_.X, self.rows_.y, self.rows_.weight)
        if np.array_equal(self.rows_.index, np.arange(len(loo))):
            return loo
        if not isinstance(loo, GaussianPrediction) or np.any(self.rows_.index < 0):
            raise ValueError("leave-one-out needs every training row to have a weight above zero")
        return GaussianPrediction(loo.mean[self.rows_.index], loo.variance[self.rows_.index])

    # --- more data ------------------------------------------------------------------------------------------

    def update(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Condition on more data, keeping the hyperparameters."""
        check_is_fitted(self, "posterior_")
        X, y = validate_data(self, X, y, multi_output=True, y_numeric=True, dtype=np.float64, reset=False)
        old = self.rows_
        y = np.asarray(y, dtype=float)
        y = y.reshape(len(y), *old.y.shape[1:])
        weight = None
        if old.weight is not None:
            weight = np.concatenate([old.weight, np.ones(len(X))])
        index = np.concatenate([old.index, len(old.X) + np.arange(len(X))])
        rows = TrainingRows(np.vstack([old.X, X]), np.concatenate([old.y, y]), weight, index)
        require_memory(len(rows.X))
        self.rows_ = rows
        self._condition(self.model_, rows)
        return self


def _seed(random_state: Any) -> Any:
    """Anything scikit-learn accepts as a random state, as a seed for NumPy's generators."""
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    return random_state
