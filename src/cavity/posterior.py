"""`Posterior`: a Gaussian process after seeing data."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike

from cavity.inference.base import Approximation, Status, TrainingData, UnsupportedPairError
from cavity.inference.exact import Exact, weight_constant
from cavity.kernels.noise_term import without_noise
from cavity.kernels.with_slopes import WithSlopes, slopes
from cavity.latent.base import Conditioning, Inputs, Loss
from cavity.latent.inducing import EvidenceInterval, Inducing
from cavity.latent.markov import WINDOW, Markov
from cavity.latent.posterior_process import PosteriorProcess
from cavity.likelihoods.gaussian import GaussianNoise
from cavity.likelihoods.observations import Observations
from cavity.means.basis import Basis
from cavity.numerics.arrays import Array
from cavity.numerics.threads import threads_for
from cavity.parameters.per_latent import PerLatent
from cavity.prediction import GaussianPrediction, Prediction
from cavity.runtime.errors import InputError, Setting
from cavity.runtime.storing import Storable

if TYPE_CHECKING:
    from cavity.control.uncertain_inputs.output_moments import OutputMoments
    from cavity.gp import GP
    from cavity.latent.integrated_basis import BasisWeights


class Posterior(Storable):
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

    def __init__(
        self, model: GP, approximation: Approximation, data: TrainingData, *, complete: bool = True
    ) -> None:
        self.model, self.approximation, self.data = model, approximation, data
        self.complete = complete
        """Whether `data` are all training rows, not just some of them."""
        self.learned = False
        """Whether hyperparameters were learned from `data`; a bound that holds for any data needs to know."""

    @property
    def process(self) -> Any:
        """The latent posterior process."""
        return self.approximation.process

    @cached_property
    def function(self) -> Any:
        """The process of the function f: without terms of the kernel that are noise (`NoiseTerm`), if there are any."""
        kernel = self.model.kernel
        part = kernel if isinstance(kernel, PerLatent) else without_noise(kernel)
        if part is kernel:
            return self.process
        if not hasattr(self.process, "of_part"):
            raise UnsupportedPairError(
                f"the representation {self.model.representation.name!r} cannot tell a function from noise terms",
                remedy=("use ", Setting("representation", "dense")),
            )
        return self.process.of_part(part)

    @property
    def observed(self) -> Posterior:
        """The same with noise terms of the kernel as a part of f: what observations are made of."""
        if self.function is self.process:
            return self
        whole = copy(self)
        whole.__dict__["function"] = self.process
        return whole

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
        return np.asarray(self.function.mean(self.model.inputs(X)))

    def variance(self, X: ArrayLike) -> Array:
        """Posterior variance of f, shape (m,)."""
        return np.asarray(self._inflation * self.function.variance(self.model.inputs(X)))

    @property
    def _inflation(self) -> float:
        """Of variances, if the overall scale was integrated out."""
        return 1.0 if self.approximation.scale is None else self.approximation.scale.inflation

    def covariance(self, X: ArrayLike) -> Array:
        """Posterior covariance of f among the rows of X, shape (m, m)."""
        return np.asarray(self._inflation * self.function.covariance(self.model.inputs(X)))

    def mean_gradient(self, X: ArrayLike) -> Array:
        """d mean / dx, shape (m, D)."""
        return cast(Array, self._capable("mean_gradient")(self.model.inputs(X)))

    def predict_slope(self, X: ArrayLike, direction: Any = None) -> GaussianPrediction:
        """Distribution of the slope of f at X: of one for each column (m, D), or along a direction (m,).

        Parameters
        ----------
        X : array (m, D)
            Of a model with `WithSlopes` its wide rows, of which the inputs count.
        direction : int, array (D,) or array (m, D), optional
            A column, or a vector u for u . grad f, of any length.

        Examples
        --------
        >>> import numpy as np
        >>> from cavity import GP
        >>> from cavity.kernels import SE
        >>> from cavity.likelihoods import Gaussian
        >>> x = np.linspace(0, 6, 20)[:, None]
        >>> posterior = GP(1.0 * SE(1.5), Gaussian(1e-4)).condition(x, np.sin(x[:, 0]))
        >>> slope = posterior.predict_slope([[3.0]])  # of the sine
        >>> slope.mean.round(2), slope.sd.round(2)
        (array([[-0.99]]), array([[0.01]]))
        """
        process, inputs = self._capable("with_slopes")(), self.model.inputs(X)
        if isinstance(self.model.kernel, WithSlopes):
            inputs = inputs[:, : inputs.shape[1] // 2 - 1]
        if direction is not None:
            rows = slopes(inputs, direction)
            mean = process.mean(rows)
            return GaussianPrediction(mean, self._per_target(self._inflation * process.variance(rows), mean))
        each = [self.predict_slope(X, d) for d in range(inputs.shape[1])]
        return GaussianPrediction(
            np.stack([one.mean for one in each], axis=1), np.stack([one.variance for one in each], axis=1)
        )

    def integrate(self, measure: Any) -> GaussianPrediction:
        """Distribution of the integral of f under a measure (`cavity.integrals.NormalMeasure`, `BoxMeasure`)."""
        from cavity.integrals import integrate

        return integrate(self, measure)

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

        self.require_rows()
        self._require_exact("an interval for the evidence")
        representation, data = self.model.representation, self.data
        if not representation.approximates:
            return EvidenceInterval(self.log_evidence, self.log_evidence, data.y.size)
        if not isinstance(representation, Inducing):
            raise UnsupportedPairError(
                f"the representation {representation.name!r} gives no bounds on the evidence",
                remedy=("use ", Setting("representation", "inducing")),
            )
        prior, residual, noise, weight = self._observations()
        with threads_for(len(data.X)):
            found = certify(prior, residual, noise / weight, max_time)
        data.inputs.release()
        powers = 0.5 * residual.shape[1] * weight_constant(noise, weight)
        return replace(found, lower=found.lower + powers, upper=found.upper + powers)

    def refine(self, tolerance: float = 1e-3, max_time: float | None = None) -> Posterior:
        """The posterior with the exact mean, however few inducing inputs there are; variances stay as they are.

        For inducing inputs and Gaussian noise. It takes products with the covariance matrix of all rows, O(n^2) each,
        and no memory to speak of. Predictions then cost O(n) a row.

        Parameters
        ----------
        tolerance : float
            Nats of the quadratic form of the evidence that may be left.
        max_time : float, optional
            Seconds after which it gives up.

        Examples
        --------
        >>> import numpy as np
        >>> from cavity import GP, Inducing
        >>> from cavity.kernels import SE
        >>> from cavity.likelihoods import Gaussian
        >>> X = np.linspace(0, 10, 300)[:, None]
        >>> y = np.sin(2 * X[:, 0])
        >>> rough = GP(1.0 * SE(1.0), Gaussian(0.01), representation=Inducing(8)).condition(X, y)
        >>> exact = GP(1.0 * SE(1.0), Gaussian(0.01)).condition(X, y)
        >>> bool(abs(rough.refine().mean([[5.0]]) - exact.mean([[5.0]]))[0] < 1e-4)
        True
        """
        from cavity.latent.inducing.refinement import refine

        self.require_rows()
        self._require_exact("the exact mean")
        if not isinstance(self.model.representation, Inducing):
            raise UnsupportedPairError(
                f"the exact mean is found from inducing inputs, got the representation "
                f"{self.model.representation.name!r}",
                remedy=("use ", Setting("representation", "inducing")),
            )
        prior, residual, noise, weight = self._observations()
        with threads_for(len(self.data.X)):
            process = refine(prior, self.process, residual, noise / weight, tolerance, max_time)
        self.data.inputs.release()
        return Posterior(self.model, replace(self.approximation, process=process), self.data)

    def _require_exact(self, what: str) -> None:
        warped = self.model.likelihood.noise is not self.model.likelihood
        if warped or not isinstance(self.model.inference, Exact) or isinstance(self.model.mean, Basis):
            raise UnsupportedPairError(
                f"{what} needs Gaussian noise, exact inference and a mean without basis functions whose weights are "
                "integrated out"
            )

    def _observations(self) -> tuple[Any, Array, Array, Array]:
        """The prior, residuals (n, T), noise variances and weights of the rows."""
        model, data = self.model, self.data
        prior = model.prior(data.inputs)
        noise = cast(GaussianNoise, model.likelihood).noise_variances(len(data.X))[0]
        weight = np.ones(len(data.X)) if data.weight is None else data.weight
        return prior, (data.y.T - prior.mean).T.reshape(len(data.X), -1), noise, weight

    def loss(self) -> Loss:
        """What the representation of the process loses of the model, in nats a row and in information.

        Cheaper than `certify`, and wider: one product with the covariance matrix, or with some rows of it if there are
        more than 10,000.
        """
        model, data = self.model, self.data
        conditioning = getattr(self.process, "conditioning", None)
        if not model.representation.approximates:
            return Loss()
        if not isinstance(conditioning, Conditioning):  # several functions, or no process at all
            return Loss(np.nan, "none") if conditioning is None else cast(Loss, conditioning.loss())
        weights = None
        if isinstance(model.representation, Markov):
            return conditioning.loss(self.process.weights)
        if isinstance(model.inference, Exact) and not isinstance(model.mean, Basis):
            residual = (data.y.T - conditioning.prior.mean).T.reshape(len(data.y), -1)
            weights = conditioning.for_rows().apply(residual)
        with threads_for(len(data.y)):
            return conditioning.loss(weights)

    def with_loss(self, trials: tuple[tuple[str, float], ...] = ()) -> Posterior:
        """The same with what the representation loses, and what else was tried, in the status."""
        lost, status = self.loss(), self.approximation.status
        message = status.message
        if lost.kind == "window" and status.gap_kind != "window":
            rows = min(WINDOW, len(self.data.y))
            told = (
                f"the state-space form changes the log evidence of {rows} rows by {lost.gap * rows:.2g} nats"
            )
            message = "; ".join(part for part in (message, told) if part)
        status = replace(
            status,
            approximation_gap=lost.gap,
            gap_kind=lost.kind,
            lost_information=lost.information,
            trials=trials,
            message=message,
        )
        return Posterior(
            self.model, replace(self.approximation, status=status), self.data, complete=self.complete
        )

    def without_rows(self, X: Array, y: Array) -> Posterior:
        """The same predictions from inducing inputs alone, with some rows in the place of all.

        Rows that are not in memory cannot be kept. What is about each of them (leave-one-out, outliers, certificates,
        updates) is then refused.
        """
        from cavity.latent.inducing.conditioning import AtInducingInputs

        process = copy(self.process)
        assert isinstance(process.conditioning, AtInducingInputs)
        process.conditioning = process.conditioning.without_rows()
        approximation = replace(self.approximation, process=process, q=None)
        kept = TrainingData(X, y, None, self.model.representation.prepare(X))
        return Posterior(self.model, approximation, kept, complete=False)

    def _streamed(self, X: Array, y: Array) -> Posterior:
        """Given a batch of rows that are not kept: its sites, given what the inducing inputs know."""
        from cavity.latent.inducing.batches import GivenOthers, Knowledge
        from cavity.latent.inducing.conditioning import InducingConditioning

        model, before = self.model, cast(PosteriorProcess, self.process)
        if before.basis is not None or before.weights.ndim > 1:
            raise InputError(
                "rows can follow that are not kept if there is one target and no basis functions"
            )
        batch = GivenOthers(model.prior(Inputs(X)), Knowledge.of(before))
        with threads_for(len(X)):
            found = model.rule.infer(batch, Observations(model.likelihood, y))
        new = cast(PosteriorProcess, found.process)
        given = cast(InducingConditioning, new.conditioning.for_rows())
        process = copy(before)
        process.weights = before.weights + new.weights
        process.conditioning = Knowledge.of(before).joined(given, before.conditioning)
        value = self.log_evidence + found.log_evidence
        return Posterior(model, Approximation(process, value, found.status), self.data, complete=False)

    def require_rows(self) -> None:
        """Refuse what is about single training rows, if they were not kept."""
        if not self.complete:
            raise InputError(
                "the training rows of this posterior were not kept, because they were not in memory: it makes "
                "predictions only"
            )

    def _capable(self, method: str) -> Any:
        """A method that processes of some representations have."""
        found = getattr(self.function, method, None)
        if found is None:
            raise ValueError(
                f"the representation {self.model.representation.name!r} has no {method}; use representation='dense'"
            )
        return found

    def sample(self, X: ArrayLike, size: int = 1, rng: np.random.Generator | int | None = None) -> Array:
        """Joint draws of f at X, shape (size, m)."""
        generator = np.random.default_rng(rng)
        draws = np.asarray(self.function.sample(self.model.inputs(X), size, generator))
        if self.approximation.scale is None:
            return draws
        mean = self.mean(X)
        return np.asarray(mean + self.approximation.scale.scales(size, generator) * (draws - mean))

    def predict_f(self, X: ArrayLike, *, joint: bool = False) -> GaussianPrediction:
        """Distribution of f at X; with `joint` including the covariance among the rows.

        It is a `StudentTPrediction`, never joint, under "exact-scale".
        """
        if joint and self.model.likelihood.n_latent > 1:
            raise ValueError(
                f"joint=True is for one latent function, {type(self.model.likelihood).__name__} has "
                f"{self.model.likelihood.n_latent}: use covariance(X), of shape (m, L, m, L), or sample(X)"
            )
        mean = self.mean(X)
        scale = self.approximation.scale
        if scale is not None:
            if joint:
                raise ValueError(
                    "joint=True is not for inference='exact-scale': use covariance(X) or sample(X)"
                )
            plain = np.asarray(self.function.variance(self.model.inputs(X)))
            return scale.prediction(mean, plain)  # type: ignore[return-value]
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
        if self.observed is not self:
            return self.observed.predict_y(X, noise_variance, clean=clean)
        mean = self.mean(X)
        likelihood = self.model.likelihood.of_new(self.model.inputs(X), noise_variance)
        scale = self.approximation.scale
        if scale is not None and not clean:
            plain = np.asarray(self.process.variance(self.model.inputs(X)))
            return scale.prediction(mean, likelihood.predictive(mean, plain).variance)
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

    def plot(self, X: ArrayLike | None = None, y: ArrayLike | None = None, **options: Any) -> Any:
        """Draw what says most about the posterior; see `cavity.plots.plot`."""
        from cavity.plots import plot

        return plot(self, X, y, **options)

    def update(self, X: ArrayLike, y: ArrayLike, noise_variance: ArrayLike | None = None) -> Posterior:
        """The posterior given these observations too, at the same hyperparameters.

        With exact inference the Cholesky factor is extended: O(n^2 m) for m new observations. Under `KnownNoise`
        their noise variances must be given, a number or an array (m,). A posterior on inducing inputs whose rows were
        not kept (`without_rows`) does not keep these either, so that a stream of any length may follow: O(m M^2) for M
        inducing inputs.
        """
        if not self.complete and noise_variance is None:
            return self._streamed(*self.model._checked_data(X, y))
        self.require_rows()
        model, data = self.model, self.data
        X_new, y_new = model._checked_data(X, y)
        if X_new.shape[1] != data.X.shape[1] or y_new.shape[1:] != data.y.shape[1:]:
            raise ValueError(
                f"X and y must have the columns of the data before, {data.X.shape[1]} and "
                f"{data.y.shape[1:]}, got {X_new.shape[1]} and {y_new.shape[1:]}"
            )
        model = model.with_likelihood(model.likelihood.and_new(X_new, noise_variance))
        X_all, y_all = np.vstack([data.X, X_new]), np.concatenate([data.y, y_new])
        weight = data.weight
        if weight is not None:
            weight = np.concatenate([weight, np.ones(len(X_new))])
        known = getattr(self.process, "conditioning", None)
        if known is None or not isinstance(model.inference, Exact):
            return model.condition(X_all, y_all, sample_weight=weight)
        both = TrainingData(X_all, y_all, weight, model.representation.prepare(X_all))
        approximation = cast(Any, model.rule).extend(
            known, model.prior(both.inputs), both.under(model.likelihood)
        )
        both.inputs.release()
        return Posterior(model, approximation, both)
