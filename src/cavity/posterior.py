"""`Posterior`: a Gaussian process after seeing data."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike

from cavity.inference.base import Approximation, Status, TrainingData, UnsupportedPairError
from cavity.inference.exact import Exact, weight_constant
from cavity.latent.inducing import EvidenceInterval
from cavity.likelihoods.gaussian import GaussianNoise
from cavity.means.basis import Basis
from cavity.numerics.arrays import Array
from cavity.numerics.threads import threads_for
from cavity.prediction import GaussianPrediction, Prediction

if TYPE_CHECKING:
    from cavity.control.uncertain_inputs.output_moments import OutputMoments
    from cavity.gp import GP
    from cavity.latent.integrated_basis import BasisWeights


class Posterior:
    """A Gaussian process after seeing data: predictions of the function f and of new observations y.

    Examples
    --------
    >>> from cavity import GP
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import Gaussian
    >>> posterior = GP(1.0 * SE(1.0), Gaussian(0.1)).condition([[0.0], [1.0]], [0.5, -0.5])
    >>> posterior.predict_y([[0.0], [5.0]]).variance.round(3)
    array([0.187, 1.1  ])
    >>> posterior.status.converged
    True
    """

    def __init__(self, model: GP, approximation: Approximation, data: TrainingData) -> None:
        self.model, self.approximation, self.data = model, approximation, data

    @property
    def process(self) -> Any:
        """The latent posterior process."""
        return self.approximation.process

    @property
    def log_evidence(self) -> float:
        """Log marginal likelihood of the data, or its approximation."""
        return self.approximation.log_evidence

    @property
    def status(self) -> Status:
        """How inference ended."""
        return self.approximation.status

    @property
    def basis(self) -> BasisWeights | None:
        """Posterior of the weights of explicit basis functions, where the mean has them."""
        return cast("BasisWeights | None", self.process.basis)

    def mean(self, X: ArrayLike) -> Array:
        """Posterior mean of f, shape (m,) or (m, T)."""
        return np.asarray(self.process.mean(self.model.inputs(X)))

    def variance(self, X: ArrayLike) -> Array:
        """Posterior variance of f, shape (m,)."""
        return np.asarray(self.process.variance(self.model.inputs(X)))

    def covariance(self, X: ArrayLike) -> Array:
        """Posterior covariance of f among the rows of X, shape (m, m)."""
        return np.asarray(self.process.covariance(self.model.inputs(X)))

    def mean_gradient(self, X: ArrayLike) -> Array:
        """d mean / dx, shape (m, D)."""
        return cast(Array, self._capable("mean_gradient")(self.model.inputs(X)))

    def variance_gradient(self, X: ArrayLike) -> Array:
        """d variance / dx, shape (m, D)."""
        return cast(Array, self._capable("variance_gradient")(self.model.inputs(X)))

    def certify(self, max_time: float | None = None) -> EvidenceInterval:
        """Two ends between which the log evidence of the model lies, however its process is represented.

        For Gaussian noise. The exact evidence of a dense representation is both ends; inducing inputs take products
        with the covariance matrix, O(n^2) each, and no memory to speak of. When `max_time` seconds are over, the
        interval is wider.

        Examples
        --------
        >>> import numpy as np
        >>> from cavity import GP, Inducing
        >>> from cavity.kernels import SE
        >>> from cavity.likelihoods import Gaussian
        >>> X = np.linspace(0, 10, 200)[:, None]
        >>> exact = GP(1.0 * SE(1.0), Gaussian(0.1)).condition(X, np.sin(X[:, 0]))
        >>> sparse = GP(1.0 * SE(1.0), Gaussian(0.1), representation=Inducing(12)).condition(X, np.sin(X[:, 0]))
        >>> interval = sparse.certify()
        >>> interval.lower < exact.log_evidence < interval.upper, interval.gap < 0.02
        (True, True)
        """
        from cavity.latent.inducing.certificate import certify
        from cavity.latent.inducing.prior import InducingPrior

        model, data = self.model, self.data
        if not isinstance(model.inference, Exact) or isinstance(model.mean, Basis):
            raise UnsupportedPairError(
                "an interval for the evidence needs Gaussian noise, exact inference and a mean without basis functions "
                "whose weights are integrated out"
            )
        prior = model.prior(data.inputs)
        if not isinstance(prior, InducingPrior):
            return EvidenceInterval(self.log_evidence, self.log_evidence, data.y.size)
        noise = cast(GaussianNoise, model.likelihood).noise_variances(len(data.X))[0]
        weight = np.ones(len(data.X)) if data.weight is None else data.weight
        residual = (data.y.T - prior.mean).T.reshape(len(data.X), -1)
        with threads_for(len(data.X)):
            found = certify(prior, residual, noise / weight, max_time)
        data.inputs.release()
        powers = 0.5 * residual.shape[1] * weight_constant(noise, weight)
        return replace(found, lower=found.lower + powers, upper=found.upper + powers)

    def _capable(self, method: str) -> Any:
        """A method that processes of some representations have."""
        found = getattr(self.process, method, None)
        if found is None:
            raise ValueError(
                f"the representation {self.model.representation.name!r} has no {method}; use representation='dense'"
            )
        return found

    def sample(self, X: ArrayLike, size: int = 1, rng: np.random.Generator | int | None = None) -> Array:
        """Joint draws of f at X, shape (size, m)."""
        return np.asarray(self.process.sample(self.model.inputs(X), size, rng))

    def predict_f(self, X: ArrayLike, *, joint: bool = False) -> GaussianPrediction:
        """Distribution of f at X; with `joint` including the covariance among the rows."""
        if joint and self.model.likelihood.n_latent > 1:
            raise ValueError(
                f"joint=True is for one latent function, {type(self.model.likelihood).__name__} has "
                f"{self.model.likelihood.n_latent}: use covariance(X), of shape (m, L, m, L), or sample(X)"
            )
        mean = self.mean(X)
        if joint:
            cov = self.covariance(X)
            return GaussianPrediction(mean, np.diagonal(cov).copy(), cov)
        return GaussianPrediction(mean, self._per_target(self.variance(X), mean))

    def predict_y(
        self, X: ArrayLike, noise_variance: ArrayLike | None = None, *, clean: bool = False
    ) -> Prediction:
        """Distribution of new observations at X.

        `noise_variance`, a number or an array (m,), says how noisy they are where the likelihood knows the noise
        of single observations (`KnownNoise`) and so cannot know that of new ones. With `clean`, of observations that
        are no outliers, for noise that knows what an outlier is.
        """
        mean = self.mean(X)
        likelihood = self.model.likelihood.of_new(len(mean), noise_variance)
        if clean:
            return likelihood.clean_predictive(mean, self._per_target(self.variance(X), mean))
        if likelihood.n_latent > 1:
            return likelihood.predictive(mean, cast(Any, self.process).blocks(self.model.inputs(X)))
        return likelihood.predictive(mean, self._per_target(self.variance(X), mean))

    def predict_gaussian(self, mean: ArrayLike, cov: ArrayLike, **options: Any) -> OutputMoments:
        """Moments of the outputs at an uncertain input x ~ N(mean, cov), one or a batch.

        See `cavity.control.predict_gaussian` for the options (`noise`, `method`, ...) and the result.
        """
        from cavity.control.uncertain_inputs.predict import predict_gaussian

        return predict_gaussian(self, mean, cov, **options)

    @staticmethod
    def _per_target(variance: Array, mean: Array) -> Array:
        if variance.ndim == mean.ndim:
            return variance
        return np.repeat(variance[:, None], mean.shape[1], axis=1)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the posterior, with its model and data, to a file that `cavity.load` reads."""
        from cavity.io import save

        save(self, path)

    def plot(self, X: ArrayLike | None = None, y: ArrayLike | None = None, **options: Any) -> Any:
        """Draw what says most about the posterior; see `cavity.plots.plot`."""
        from cavity.plots import plot

        return plot(self, X, y, **options)

    def update(self, X: ArrayLike, y: ArrayLike, noise_variance: ArrayLike | None = None) -> Posterior:
        """The posterior given these observations too, at the same hyperparameters.

        With exact inference the Cholesky factor is extended: O(n^2 m) for m new observations. Under `KnownNoise`
        their noise variances must be given, a number or an array (m,).
        """
        model, data = self.model, self.data
        X_new, y_new = model._checked_data(X, y)
        if X_new.shape[1] != data.X.shape[1] or y_new.shape[1:] != data.y.shape[1:]:
            raise ValueError(
                f"X and y must have the columns of the data before, {data.X.shape[1]} and "
                f"{data.y.shape[1:]}, got {X_new.shape[1]} and {y_new.shape[1:]}"
            )
        model = model.with_likelihood(model.likelihood.and_new(len(X_new), noise_variance))
        X_all, y_all = np.vstack([data.X, X_new]), np.concatenate([data.y, y_new])
        weight = data.weight
        if weight is not None:
            weight = np.concatenate([weight, np.ones(len(X_new))])
        known = getattr(self.process, "conditioning", None)
        if known is None or not isinstance(model.inference, Exact):
            return model.condition(X_all, y_all, sample_weight=weight)
        both = TrainingData(X_all, y_all, weight, model.representation.prepare(X_all))
        approximation = model.inference.extend(
            known, model.prior(both.inputs), model.likelihood, y_all, weight
        )
        both.inputs.release()
        return Posterior(model, approximation, both)
