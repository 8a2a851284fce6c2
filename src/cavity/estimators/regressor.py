"""`GPRegressor`: Gaussian process regression with scikit-learn's contract."""

from __future__ import annotations

import numbers
from dataclasses import replace
from typing import Any, Self, cast

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from cavity.estimators.base import GPEstimator
from cavity.estimators.fit_warnings import issue, warnings_of
from cavity.estimators.leave_one_out import Cavities, cavities, leave_one_out
from cavity.estimators.members import Member
from cavity.estimators.outlier_probability import outlier_probability
from cavity.gp import GP
from cavity.kernels import Kernel
from cavity.learning.fit import learn
from cavity.learning.objective import OBJECTIVES
from cavity.learning.robust_starts import is_robust
from cavity.learning.training_rows import TrainingRows, contains_white, require_numbers, require_usual_units
from cavity.likelihoods import GaussianNoise, Likelihood, Noiseless, as_likelihood
from cavity.means.basis import Basis
from cavity.numerics.arrays import Array
from cavity.numerics.memory import require_memory
from cavity.prediction import Prediction
from cavity.runtime.checks import generator, is_number
from cavity.runtime.deadlines import Deadline


class GPRegressor(RegressorMixin, MultiOutputMixin, GPEstimator):  # type: ignore[misc]
    """Gaussian process regression.

    Parameters
    ----------
    kernel : Kernel or str, optional
        Covariance function, in the units of the data, or its text; `1.0 * SE(ard)` by default. Its values are
        one of the starting points of learning, and its priors, bounds and fixed flags are respected.
    mean : Mean or {"zero", "constant", "linear"}
        Prior mean function. With several targets "constant" means a constant per target, integrated out.
    likelihood : Likelihood or str
        Noise model: "gaussian", or for data with outliers "student-t", "laplace", "mixture" (regular noise and
        occasional outliers) or "epsilon-insensitive"; for counts "poisson" or "negative-binomial", where
        predictions are of the rate; or a `Likelihood`. See docs/robust_regression.md.
    inference : {"auto", "exact", "laplace", "ep", "variational", "scale-mixture-em", "mcmc"} or an inference rule
        "auto" is exact for Gaussian noise and EP for other noise.
    objective : {"evidence", "loo"} or None
        What hyperparameters maximize: log evidence or leave-one-out log density, each plus the log prior of
        those parameters that have one. None keeps all values as given.
    n_restarts : int
        Most runs of the optimizer beside the first, data-driven one; runs that head for an optimum already found are
        stopped, and runs that agree end the search. One is from the kernel's own values if a kernel
        was given, the others from the most promising of many draws. With robust noise there is one more, from
        the solution for Gaussian noise, or from that for Laplace noise where tails are heavier and it is the
        more promising of the two.
    standardize : bool
        Whether the first start is read off the data. Otherwise it is the values given, with `n_restarts=0` the only
        one. It never changes the model: kernel values, `log_evidence_` and predictions are always in the units of the
        data.
    random_state : int, Generator or RandomState, optional
    n_jobs : int, optional
        Processes for the runs of the optimizer.
    warm_start : bool
        Start learning from the values of the last fit, if that was of the same model.
    max_time : float, optional
        Seconds after which learning returns the best so far; one evaluation is always made. Under "mcmc" learning has a
        quarter of them, chains end at the limit with the draws they have, and a TimeoutError says so if there are none.
    max_rows : int, optional
        Use a random subset of at most so many rows, for data too large for an exact fit.
    representation : {"dense", "inducing"} or Representation
        How the process is held: exactly, up to some thousand rows, or by its values at inducing inputs, in time
        proportional to the number of rows (`cavity.Inducing`).
    n_inducing : int
        Number of inducing inputs for "inducing". They are chosen by k-means; exact inference learns them as well.

    Attributes
    ----------
    kernel_, mean_, likelihood_ : the parts with learned values
    model_ : GP
    posterior_ : Posterior
    members_ : list of Member
        The fitted model, as the only entry of a list (a classifier may have several).
    log_evidence_ : float
        For y in the user's units.
    runs_ : tuple of Run
        Every run of the optimizer: start, end, objective, so that local optima can be seen. Under EP the
        messages name the stage at which a run ended; one that ends where plain EP converges is preferred to
        others unless their evidence is higher by more than 10 nats, because those overestimate it.
    outlier_probability_ : array (n,)
        How likely each training row is an outlier, given all other rows.
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

    _objectives = (*OBJECTIVES, None)

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
        representation: Any = "dense",
        n_inducing: int = 500,
    ) -> None:
        super().__init__(
            kernel=kernel,
            mean=mean,
            likelihood=likelihood,
            inference=inference,
            objective=objective,
            n_restarts=n_restarts,
            random_state=random_state,
            n_jobs=n_jobs,
            warm_start=warm_start,
            max_time=max_time,
            max_rows=max_rows,
            representation=representation,
            n_inducing=n_inducing,
        )
        self.standardize = standardize

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn wants to know: several targets at once need Gaussian noise."""
        tags = super().__sklearn_tags__()
        noise = self.likelihood
        by_name = isinstance(noise, str) and noise in ("gaussian", "noiseless")
        tags.target_tags.multi_output = by_name or isinstance(noise, GaussianNoise)
        return tags

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
        self._check_options()
        time = Deadline(self.max_time)
        X, y = self._checked_data(X, y, reset=True)
        if y.ndim == 2 and y.shape[1] == 1:
            y = cast(Array, column_or_1d(y, warn=not self.__sklearn_tags__().target_tags.multi_output))
        weight = self._checked_weight(sample_weight, X)
        rng = self._rng()
        model, model_key = self._initial_model(X, y)
        warm = self.warm_start and getattr(self, "_model_key", None) == model_key
        if warm:
            model = self.model_.with_likelihood(model.likelihood.with_flat(self.likelihood_.flat))
        rows = TrainingRows.of(X, y, weight, merge=self._may_merge(model), max_rows=self.max_rows, rng=rng)
        if rows.source is not None:
            model = model.with_likelihood(model.likelihood.rows(rows.source))
        copies = 1 if self.objective is None else effective_n_jobs(self.n_jobs or 1)
        if model.representation.covariance_limit is None:
            require_memory(len(rows.X), self.objective or "evidence", min(copies, self.n_restarts + 1))
        learned = learn(
            model,
            rows.X,
            rows.y,
            rows.weight,
            objective=self.objective,
            n_restarts=self.n_restarts,
            given=self._given_parts(),
            data_driven=self.standardize,
            warm=warm,
            rng=rng,
            n_jobs=self.n_jobs,
            max_time=time.left,
            warn=False,  # a fit reports for itself
        )
        self._model_key = model_key
        self._adopt(Member("", learned.search, learned.posterior, rows))
        issue(warnings_of(learned.search, learned.posterior, rows.X, rows.y))
        return self

    def _checked_data(self, X: ArrayLike, y: ArrayLike, *, reset: bool) -> tuple[Array, Array]:
        require_numbers(X, "X")
        require_numbers(y, "y")
        checked = validate_data(self, X, y, multi_output=True, y_numeric=True, dtype=np.float64, reset=reset)
        return cast(Array, checked[0]), np.asarray(checked[1], dtype=float)

    def _may_merge(self, model: GP) -> bool:
        """Whether equal rows may be one row with their total weight: not if something belongs to each row."""
        likelihood = model.likelihood
        by_row = likelihood.rows(np.arange(1)) is not likelihood
        exact = isinstance(likelihood, Noiseless)
        # chains give each row a noise variance of its own
        own_noise = model.inference.samples and is_robust(likelihood)
        return not (by_row or exact or own_noise or self.objective == "loo" or contains_white(model.kernel))

    def _initial_model(self, X: Array, y: Array) -> tuple[GP, tuple[Any, ...]]:
        """The model before learning, and what tells it from others."""
        mean, likelihood = self.mean, as_likelihood(self.likelihood)
        if y.ndim == 2 and isinstance(mean, str) and mean == "constant":
            mean = Basis("constant")
        if likelihood.n_latent > 1 and isinstance(mean, str):  # a mean for y, none for the noise level
            mean = [mean] + ["zero"] * (likelihood.n_latent - 1)
        if y.ndim == 2 and not isinstance(likelihood, GaussianNoise):
            raise ValueError(
                f"several targets at once need Gaussian noise, got likelihood={self.likelihood!r} and y of shape "
                f"{y.shape}; fit one model per target, for instance with sklearn.multioutput.MultiOutputRegressor"
            )
        likelihood.check(y)
        if not likelihood.discrete:
            require_usual_units(y)
        model = self._bound(self._unbound_model(likelihood, mean, self.inference))
        parts = repr(model), repr(model.representation), type(model.inference).__name__
        model_key = (*parts, X.shape[1], model._names, y.shape[1:])
        return model, model_key

    def _adopt(self, member: Member) -> None:
        self.members_ = [member]
        self.log_evidence_ = member.posterior.log_evidence
        self._cavities: Cavities | None = None

    @property
    def rows_(self) -> TrainingRows:
        """The rows that were learned from."""
        return self._only_member("rows_").rows

    # --- prediction -----------------------------------------------------------------------------------------

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
        """Predictive mean, and on request the standard deviation or the covariance.

        Parameters
        ----------
        X : array (m, D)
        return_std, return_cov : bool
            At most one of them.
        noise : bool
            Whether they refer to new observations y (the default) or to the function f.
        noise_variance : array (m,), optional
            Noise variances of new observations, needed under `KnownNoise`, which knows those of the training
            observations only.
        clean : bool
            Whether they refer to new observations that are no outliers, as in `predict_dist`.

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
        variances = check_noise(noise, noise_variance, clean)
        if return_cov:
            if noise and not self._is_location:
                raise ValueError(
                    f"{type(self.likelihood_).__name__} has no joint covariance of observations; use "
                    "return_std=True, or noise=False for that of f"
                )
            require_memory(len(X), "predict")
            cov = self.posterior_.covariance(X)
            mean = self.posterior_.mean(X)
            if noise and self.model_.inference.samples:  # averaged over the noise levels drawn
                cov[np.diag_indices_from(cov)] = self.posterior_.predict_y(X, variances, clean=clean).variance
            elif noise:
                cov[np.diag_indices_from(cov)] += self._noise_variance(mean, variances, clean)
            return mean, cov
        if not return_std:
            return self._mean(X)
        posterior = self.posterior_
        prediction = posterior.predict_y(X, variances, clean=clean) if noise else posterior.predict_f(X)
        return prediction.mean, np.sqrt(prediction.variance)

    def _mean(self, X: Array) -> Array:
        if self._is_location:
            return self.posterior_.mean(X)
        return self.posterior_.predict_y(X).mean

    @property
    def _is_location(self) -> bool:
        """Whether y is f plus noise, so that their means agree (whether or not the noise has one)."""
        return self.likelihood_.n_latent == 1 and not self.likelihood_.discrete

    def _noise_variance(self, mean: Array, variances: Array | None, clean: bool) -> Array:
        flat = mean if mean.ndim == 1 else mean[:, 0]
        likelihood = self.likelihood_.of_new(len(flat), variances)
        predictive = likelihood.clean_predictive if clean else likelihood.predictive
        return predictive(flat, np.zeros(len(flat))).variance

    def predict_dist(
        self, X: ArrayLike, *, noise_variance: ArrayLike | None = None, clean: bool = False
    ) -> Prediction:
        """Predictive distribution of a new observation y at each row: quantiles, intervals, log densities.

        Parameters
        ----------
        X : array (m, D)
        noise_variance : array (m,), optional
            As in `predict`.
        clean : bool
            Of an observation that is no outlier, in the sense of `outlier_probability_`: under a mixture one of the
            regular component, under Student-t and Laplace noise one whose own noise has a sd of at most three scales.
            Other noise does not tell outliers from other observations, and refuses. If data have gross errors, plain
            intervals are honest about them and wide; clean ones are those of the process without them.

        See Also
        --------
        predict_latent : of the function f
        """
        X = self._checked(X)
        return self.posterior_.predict_y(X, check_noise(True, noise_variance, clean), clean=clean)

    def predict_latent(self, X: ArrayLike) -> Prediction:
        """Predictive distribution of the function f at each row; `predict_dist` is that of observations y."""
        return self.posterior_.predict_f(self._checked(X))

    def predict_gradient(self, X: ArrayLike) -> tuple[Array, Array]:
        """Derivatives of the predictive mean and of the variance of f in the inputs, each (m, D)."""
        X = self._checked(X)
        return self.posterior_.mean_gradient(X), self.posterior_.variance_gradient(X)

    def sample_y(
        self,
        X: ArrayLike,
        n_samples: int = 1,
        random_state: Any = 0,
        *,
        noise: bool = True,
        noise_variance: ArrayLike | None = None,
    ) -> Array:
        """Joint draws of new observations (of f with `noise=False`) at X; `noise_variance` as in `predict`.

        Returns
        -------
        array (m, n_samples) or (m, T, n_samples), as in scikit-learn
        """
        X = self._checked(X)
        if not is_number(n_samples, numbers.Integral) or n_samples < 0:
            raise ValueError(f"n_samples must be an integer >= 0, got {n_samples!r}")
        require_memory(len(X), "predict")
        rng = generator(random_state)
        variances = check_noise(noise, noise_variance)
        likelihood = self.likelihood_.of_new(len(X), variances) if noise else None
        if (
            noise and variances is None and self.model_.inference.samples
        ):  # each draw has a noise level of its own
            return np.moveaxis(cast(Any, self.posterior_).sample_y(X, n_samples, rng), 0, -1)
        f = self.posterior_.sample(X, n_samples, rng)
        if likelihood is not None:
            f = _add_noise(likelihood, f, rng)
        return np.moveaxis(f, 0, -1)

    def leave_one_out(self) -> Prediction:
        """Predictive distribution of each training target given all others, at the learned
        hyperparameters."""
        check_is_fitted(self, "members_")
        rows = self.rows_
        if np.any(rows.index < 0):
            raise ValueError(
                f"leave-one-out is for rows that were learned from, but {int(np.sum(rows.index < 0))} were "
                "left out (weight zero, or beyond max_rows)"
            )
        return leave_one_out(self.posterior_, rows, self._without_own_row())

    def _without_own_row(self) -> Cavities | None:
        """Mean and variance of f at each row given the others, found once, where there are sites to take away."""
        if self._cavities is None and self.posterior_.approximation.sites is not None:
            self._cavities = cavities(self.posterior_, self.rows_)
        return self._cavities

    @property
    def outlier_probability_(self) -> Array:
        """How likely each training row is an outlier, given all other rows, shape (n,) or (n, T).

        Under a mixture it is the posterior probability of the outlier component, under Student-t and Laplace
        noise that the row's own noise is wide (sd above three times the scale). Under other noise it is the
        tail-based analogue, 1 - 2 min(F, 1 - F) at the row's target: 0.99 means outside the central 99 % of
        what was expected there, so that even good rows are spread evenly over 0 to 1. All are computed from the
        distribution of f without the row itself (the cavity), so that a point does not vouch for itself. Rows
        that were left out of the fit (weight zero, beyond `max_rows`) have nan. Computed when first asked for.
        """
        check_is_fitted(self, "members_")
        return outlier_probability(self.posterior_, self.rows_, self._without_own_row)

    # --- more data ------------------------------------------------------------------------------------------

    def update(self, X: ArrayLike, y: ArrayLike, noise_variance: ArrayLike | None = None) -> Self:
        """Condition on more data, keeping the hyperparameters: O(n^2 m) for m new rows.

        Under `KnownNoise` their noise variances must be given, a number or an array (m,).
        """
        check_is_fitted(self, "members_")
        X, y = self._checked_data(X, y, reset=False)
        wanted = self.rows_.y.shape[1:]
        if y.shape[1:] not in (wanted, (*wanted, 1)):
            raise ValueError(f"y must have the columns of the fit, {wanted}, got {y.shape[1:]}")
        rows = self.rows_.and_more(X, y.reshape(len(y), *wanted))
        if self.model_.representation.covariance_limit is None:
            require_memory(len(rows.X))
        posterior = self.posterior_.update(X, y.reshape(len(y), *wanted), noise_variance)
        self._adopt(replace(self.members_[0], posterior=posterior, rows=rows))
        return self


def check_noise(noise: Any, noise_variance: ArrayLike | None, clean: Any = False) -> Array | None:
    """Noise variances of new observations, as an array; None if none were given."""
    if not isinstance(noise, bool | np.bool_):
        raise ValueError(f"noise must be True or False, got {noise!r}; variances are given by noise_variance")
    if not isinstance(clean, bool | np.bool_):
        raise ValueError(f"clean must be True or False, got {clean!r}")
    if clean and not noise:
        raise ValueError(
            "clean=True is about observations y, but noise=False asks for the function f: leave one out"
        )
    if noise_variance is None:
        return None
    if not noise:
        raise ValueError(
            "noise_variance is of observations y, but noise=False asks for the function f: leave one out"
        )
    try:
        return np.asarray(noise_variance, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"noise_variance must be numbers (m,), got {noise_variance!r}") from None


def _add_noise(likelihood: Likelihood, f: Array, rng: np.random.Generator) -> Array:
    """A draw of y for each draw of f, (size, m) or (size, m, T)."""
    if f.ndim == 2 or likelihood.n_latent > 1:
        return likelihood.sample(f, rng)
    return np.stack([likelihood.sample(f[:, :, t], rng) for t in range(f.shape[2])], axis=2)
