"""What a fitted regression answers: predictions of y and f, draws, left-out rows, outliers, its learning curve."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from cavity.estimators.base import GPEstimator
from cavity.estimators.leave_one_out import Cavities, cavities, leave_one_out
from cavity.estimators.outlier_probability import outlier_probability
from cavity.estimators.uncertain_inputs import exact_rows
from cavity.kernels import values
from cavity.learning.training_rows import TrainingRows
from cavity.likelihoods import Likelihood
from cavity.numerics.arrays import Array
from cavity.numerics.memory import require_memory
from cavity.posterior import Posterior
from cavity.prediction import Prediction
from cavity.runtime.checks import generator, require_integer
from cavity.runtime.errors import InputError

if TYPE_CHECKING:
    from cavity.theory import RegressionCurve


ROW_FORMS: dict[str, Callable[[Array], Array]] = {
    "inputs": lambda X: X,
    "slopes": values,
    "uncertain": exact_rows,
}
"""Rows of a model at given inputs, by what its training rows observe: values alone, slopes too, inputs with errors."""


class FittedRegressor(GPEstimator):
    """The part of a regressor that asks its only member; `GPRegressor` adds how it is fitted."""

    _cavities: Cavities | None
    """Found when first asked for."""

    _form = "inputs"
    """What rows of the model hold (`ROW_FORMS`)."""

    def _checked(self, X: ArrayLike) -> Array:
        return ROW_FORMS[self._form](super()._checked(X))

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
            posterior = self.posterior_.observed if noise else self.posterior_
            cov, mean = posterior.covariance(X), posterior.mean(X)
            if noise and self.model_.inference.samples:  # averaged over the noise levels drawn
                cov[np.diag_indices_from(cov)] = self.posterior_.predict_y(X, variances, clean=clean).variance
            elif noise:
                cov[np.diag_indices_from(cov)] += self._noise_variance(X, mean, variances, clean)
            return mean, cov
        if not return_std:
            return self._mean(X, noise)
        posterior = self.posterior_
        prediction = posterior.predict_y(X, variances, clean=clean) if noise else posterior.predict_f(X)
        return prediction.mean, np.sqrt(prediction.variance)

    def _mean(self, X: Array, noise: bool) -> Array:
        if self._is_location:
            return (self.posterior_.observed if noise else self.posterior_).mean(X)
        return self.posterior_.predict_y(X).mean

    @property
    def _is_location(self) -> bool:
        """Whether y is f plus noise, so that their means agree (whether or not the noise has one)."""
        noise = self.likelihood_
        return noise.n_latent == 1 and not noise.discrete and noise.noise is noise

    def _noise_variance(self, X: Array, mean: Array, variances: Array | None, clean: bool) -> Array:
        flat = mean if mean.ndim == 1 else mean[:, 0]
        likelihood = self.likelihood_.of_new(X, variances)
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
        D = super()._checked(X).shape[1]
        X = self._checked(X)
        return self.posterior_.mean_gradient(X)[:, :D], self.posterior_.variance_gradient(X)[:, :D]

    def predict_slope(self, X: ArrayLike, direction: Any = None) -> Prediction:
        """Predictive distribution of the slope of f: of one for each column (m, D), or along a direction (m,).

        Parameters
        ----------
        X : array (m, D)
        direction : int, array (D,) or array (m, D), optional
            A column, or a vector u for u . grad f.
        """
        X = self._checked(X)
        if not isinstance(self.posterior_, Posterior):
            raise InputError(
                f"slopes are not known of draws ({self.inference!r})",
                parameter="inference",
                remedy="use another inference rule",
            )
        return self.posterior_.predict_slope(X, direction)

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
        require_integer(n_samples, "n_samples", 0)
        require_memory(len(X), "predict")
        rng = generator(random_state)
        variances = check_noise(noise, noise_variance)
        likelihood = self.likelihood_.of_new(X, variances) if noise else None
        if (
            noise and variances is None and self.model_.inference.samples
        ):  # each draw has a noise level of its own
            return np.moveaxis(cast(Any, self.posterior_).sample_y(X, n_samples, rng), 0, -1)
        f = (self.posterior_.observed if noise else self.posterior_).sample(X, n_samples, rng)
        if likelihood is not None:
            f = _add_noise(likelihood, f, rng)
        return np.moveaxis(f, 0, -1)

    def leave_one_out(self) -> Prediction:
        """Predictive distribution of each training target given all others, at the learned
        hyperparameters."""
        check_is_fitted(self, "members_")
        self._require_rows()
        rows = self.rows_
        if np.any(rows.index < 0):
            raise ValueError(
                f"leave-one-out is for rows that were learned from, but {int(np.sum(rows.index < 0))} were "
                "left out (weight zero)"
            )
        return leave_one_out(self.posterior_, rows, self._without_own_row())

    def _require_rows(self) -> None:
        """Refuse what is about single training rows, if they were not kept."""
        if isinstance(self.posterior_, Posterior):
            self.posterior_.require_rows()

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
        that were left out of the fit (weight zero) have nan. Computed when first asked for.
        """
        check_is_fitted(self, "members_")
        self._require_rows()
        return outlier_probability(self.posterior_, self.rows_, self._without_own_row)

    def learning_curve(self, n: ArrayLike | None = None, **options: Any) -> RegressionCurve:
        """How the error falls with the number of rows, and how many are needed for half of it (`rows_for`).

        At the learned hyperparameters: measured on subsets of the rows there are, predicted beyond
        (`cavity.theory.regression_curve`).
        """
        from cavity.theory import regression_curve

        check_is_fitted(self, "members_")
        return regression_curve(self, n, **options)


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
