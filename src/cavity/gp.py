"""`GP`: a kernel, a mean function, a likelihood, an inference rule and a representation, put together.

An immutable value like its parts. `theta` lists the free parameters of kernel, mean, likelihood and representation, in
this order; `evidence` and `leave_one_out_log_prob` return a value with its gradient in `theta`; `condition` returns a
posterior. For many evaluations on the same data, `training` checks them once, and `evidence_of` takes what it returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from cavity.inference.base import InferenceRule, TrainingData, UnsupportedPairError
from cavity.inference.registry import adapted, as_inference
from cavity.kernels.base import Kernel, as_inputs
from cavity.kernels.basis_functions import FeatureKernel
from cavity.kernels.noise_term import with_noise, without_noise
from cavity.latent.base import Inputs, Representation
from cavity.latent.markov import Markov
from cavity.latent.registry import as_representation
from cavity.likelihoods.base import Likelihood
from cavity.likelihoods.gaussian import Gaussian, Noiseless
from cavity.means.basis import Basis
from cavity.means.functions import FunctionMean, Mean, Zero, as_mean
from cavity.numerics.arrays import Array
from cavity.numerics.threads import threads_for
from cavity.parameters.param import Parametrized
from cavity.parameters.per_latent import PerLatent
from cavity.posterior import Posterior
from cavity.prediction import Prediction
from cavity.rows.base import RowSource
from cavity.runtime.errors import InputError, Setting
from cavity.runtime.storing import Storable

if TYPE_CHECKING:
    from cavity.learning import Learned

SAME_VALUE = 1e-10
"""Share of the prior variance that the difference of two values may have by rounding if they are the same."""

VAGUE_SD = 100.0
"""Prior sd, in spreads of the targets, that stands in for vague weights where inference is not exact."""


class GP(Storable, Parametrized):
    """A Gaussian process model.

    Parameters
    ----------
    kernel : Kernel or sequence of Kernel
        Covariance function. Where the likelihood has several latent functions (the classes of `Softmax`,
        the log noise of `HeteroscedasticGaussian`), they share it, or there is one for each.
    likelihood : Likelihood, optional
        Noise model; Gaussian of variance 1 by default.
    mean : Mean or {"zero", "constant", "linear"}, or a sequence of these, optional
        Prior mean function; zero by default. Several latent functions take one each.
    inference : object or {"auto", "exact", "laplace", "ep", "variational", "mcmc"}, optional
        Inference rule; by default ("auto") exact for Gaussian noise, EP or Laplace's method otherwise.
    representation : Representation or str, optional
        How the process is held at the training inputs: exactly, up to some thousand rows ("dense"), by its values at
        inducing inputs ("inducing", `cavity.Inducing`) or given neighbors ("neighbors", "latent_neighbors"), in parts
        ("committee"), or exactly for some kernels of one input ("markov").
    noise_kernel : Kernel, optional
        Noise that is correlated in time or space, beside that of the likelihood: a term of the covariance
        (`cavity.kernels.NoiseTerm`) that predictions of f leave out.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import Gaussian
    >>> X, y = np.array([[0.0], [1.0]]), np.array([0.5, -0.5])
    >>> model = GP(1.0 * SE(1.0), Gaussian(0.1))
    >>> posterior = model.condition(X, y)
    >>> posterior.mean([[0.0]]).round(3), round(posterior.log_evidence, 3)
    (array([0.399]), -2.259)
    >>> value, gradient = model.evidence(X, y)
    >>> gradient.shape
    (3,)
    """

    def __init__(
        self,
        kernel: Kernel | Sequence[Kernel],
        likelihood: Likelihood | None = None,
        mean: Mean | str | Sequence[Mean | str | None] | None = None,
        inference: Any = None,
        representation: Representation | str = "dense",
        noise_kernel: Kernel | None = None,
    ) -> None:
        kernel = with_noise(kernel, noise_kernel)
        noise = Gaussian() if likelihood is None else likelihood
        if not all(isinstance(k, Kernel) for k in (kernel if isinstance(kernel, list | tuple) else [kernel])):
            raise ValueError(f"kernel must be a cavity kernel, for instance 1.0 * SE(1.0), got {kernel!r}")
        covariance = _per_latent(kernel, noise, "kernel")
        trend = _per_latent(mean, noise, "mean")
        if not isinstance(trend, PerLatent):
            trend = as_mean(trend)
            if noise.n_latent > 1 and not isinstance(trend, Zero):
                raise ValueError(
                    f"{type(noise).__name__} has {noise.n_latent} latent functions: give one mean for each, "
                    f"as in mean={['constant'] + ['zero'] * (noise.n_latent - 1)!r}, got {mean!r}"
                )
        self._columns: int | None = None
        self._names: tuple[str, ...] | None = None
        self._note = ""
        self.inference: InferenceRule = as_inference(inference, noise)
        self._set_up({}, (covariance, trend, noise, as_representation(representation)))

    @property
    def kernel(self) -> Kernel:
        """Covariance function; a `PerLatent` of them where the latent functions have one each."""
        return cast(Kernel, self._parts[0])

    @property
    def mean(self) -> Mean:
        """Prior mean function."""
        return cast(Mean, self._parts[1])

    @property
    def likelihood(self) -> Likelihood:
        """Observation model."""
        return cast(Likelihood, self._parts[2])

    @property
    def rule(self) -> InferenceRule:
        """The inference rule as it applies to the likelihood."""
        return adapted(self.inference, self.likelihood)

    @property
    def representation(self) -> Representation:
        """How the process is held at the training inputs."""
        return cast(Representation, self._parts[3])

    def __repr__(self) -> str:
        return f"GP({self.kernel!r}, {self.likelihood!r}, mean={self.mean!r})"

    def bind(self, n_features: int, feature_names: Sequence[str] | None = None) -> Self:
        """The model made definite for data with these columns.

        Data frames that it meets later must have columns of these names, in this order.
        """
        kernel = self.kernel.bind(n_features, feature_names)
        mean = self.mean.bind(n_features, feature_names)
        new = self._rebuild(
            {}, (kernel, mean, self.likelihood, self.representation.bind(n_features, feature_names))
        )
        new._columns = n_features
        new._names = None if feature_names is None else tuple(feature_names)
        return new

    def with_likelihood(self, likelihood: Likelihood) -> Self:
        """The same model with another observation model."""
        return self._rebuild({}, (self.kernel, self.mean, likelihood, self.representation))

    def with_inference(self, inference: Any) -> Self:
        """The same model with another inference rule."""
        new = self._rebuild({}, (self.kernel, self.mean, self.likelihood, self.representation))
        new.inference = as_inference(inference, self.likelihood)
        return new

    def with_representation(self, representation: Representation | str) -> Self:
        """The same model with another representation."""
        chosen = as_representation(representation)
        if self._columns is not None:
            chosen = chosen.bind(self._columns, self._names)
        return self._rebuild({}, (self.kernel, self.mean, self.likelihood, chosen))

    # --- data in --------------------------------------------------------------------------------------------

    def inputs(self, X: ArrayLike) -> Array:
        """Checked inputs (n, D): finite numbers and, where both have names, the columns that the model is bound to."""
        names = _column_names(X)
        if names is not None and self._names is not None and tuple(names) != self._names:
            raise ValueError(
                f"the columns of X are {names}, but those of the data before were {list(self._names)}: give these, in "
                "this order"
            )
        return as_inputs(X)

    def training(
        self,
        X: ArrayLike | RowSource,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        basis_in_kernel: bool = False,
    ) -> tuple[Self, TrainingData]:
        """The model made definite for the columns of X, and the data, checked once for many evaluations.

        Inputs may be rows in blocks (`cavity.rows`), also such as are larger than memory.

        With `basis_in_kernel`, basis functions are in the covariance already if the rule does not integrate them out.
        """
        names, in_memory = _column_names(X), not isinstance(X, RowSource)
        X, y = self._checked_data(X, y)
        model = self._bound(X, names)
        y = model.likelihood.check(y)
        model = model.for_rows(X)
        if in_memory and isinstance(model.likelihood, Noiseless):
            _require_a_function(model.kernel, X, y)
        weight = _checked_weight(sample_weight, len(X))
        data = TrainingData(X, y, weight, model.representation.prepare(X))
        return (model._for_data(data) if basis_in_kernel else model), data

    def _checked_data(self, X: ArrayLike | RowSource, y: ArrayLike) -> tuple[Array, Array]:
        # rows in blocks are checked as they are read; they have the length and the shape of an array
        X, y = cast(Array, X) if isinstance(X, RowSource) else self.inputs(X), self.likelihood.check(y)
        if len(X) == 0:
            raise ValueError("X is empty: a model needs at least one row")
        if len(y) != len(X):
            raise ValueError(f"X and y must have as many rows as each other, got {len(X)} and {len(y)}")
        return X, y

    def prior(self, X: ArrayLike | Inputs) -> Any:
        """The process at the inputs: a `LatentPrior`, or several of them for several latent functions."""
        inputs = X if isinstance(X, Inputs) else self.representation.prepare(as_inputs(X))
        if self.likelihood.n_latent > 1:
            means = self.mean if isinstance(self.mean, PerLatent) else None
            return self.representation.several(self.kernel, means, inputs, self.likelihood.n_latent)
        return self.representation.prior(self.kernel, self.mean, inputs)

    def sample_prior(
        self, X: ArrayLike, size: int = 1, rng: np.random.Generator | int | None = None
    ) -> Array:
        """Joint draws of f at X before seeing data, shape (size, m); (size, m, L) for L latent functions.

        Of one latent function by eigenvectors: prior covariances are often singular to working precision.

        Examples
        --------
        >>> from cavity import GP
        >>> from cavity.kernels import SE
        >>> GP(1.0 * SE(1.0)).sample_prior([[0.0], [1.0]], size=3, rng=0).shape
        (3, 2)
        """
        names = _column_names(X)
        X = self.inputs(X)
        rng = np.random.default_rng(rng)
        model = self._bound(X, names)
        if model.likelihood.n_latent > 1:
            draws = rng.standard_normal((size, len(X), model.likelihood.n_latent))
            return np.asarray(model.prior(X).unwhiten(draws))
        basis = model.mean if isinstance(model.mean, Basis) else None
        if basis is not None and basis.vague:
            raise ValueError(
                "basis functions with vague weights have no prior draws; give the weights a finite variance"
            )
        values, vectors = np.linalg.eigh(model.kernel(X))
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        f = model.mean(X) + rng.standard_normal((size, len(X))) @ root.T
        if basis is not None:  # the prior mean of the weights is in the mean function already
            lower = np.linalg.cholesky(basis.prior_covariance)
            f = f + rng.standard_normal((size, len(lower))) @ (basis.features(X) @ lower).T
        return np.asarray(f)

    def _for_data(self, data: TrainingData) -> Self:
        """The model with the likelihood of these rows; for rules that do not integrate them out, basis functions are in
        the covariance.

        Vague weights get a finite prior here: each basis function's contribution has `VAGUE_SD` times the spread of
        the targets as its standard deviation (of a unit latent function where targets are labels or counts).
        """
        X, y = data.X, data.y
        likelihood = self.likelihood.for_inputs(X)
        if likelihood is not self.likelihood:
            return self.with_likelihood(likelihood)._basis_in_kernel(X, y)
        return self._basis_in_kernel(X, y)

    def _basis_in_kernel(self, X: Array, y: Array) -> Self:
        basis = self.mean
        if not isinstance(basis, Basis) or self.inference.integrates_basis:
            return self
        note = ""
        if basis.vague:
            spread = 1.0 if self.likelihood.discrete else float(np.std(y)) or 1.0
            size = np.sqrt(np.mean(basis.features(X) ** 2, axis=0))
            basis = basis.with_prior((VAGUE_SD * spread / np.where(size > 0, size, 1.0)) ** 2)
            note = (
                f"the weights of the basis functions have a finite prior here, {VAGUE_SD:g} times the spread of the "
                "targets: only exact inference can take the vague limit"
            )
        offset: Mean = basis.offset or Zero()
        if np.any(basis.prior_mean != 0):
            b = basis.prior_mean
            offset = offset + FunctionMean(WeightedFeatures(basis, b))
        new = self._rebuild(
            {}, (self.kernel + FeatureKernel(basis), offset, self.likelihood, self.representation)
        )
        new._note = note
        return new

    def for_rows(self, X: Array, kernel: Kernel | None = None) -> Self:
        """The model made definite for the training rows, if its representation depends on them.

        With the length scales of `kernel`, if they are better known than the model's own.
        """
        if self.representation.definite:
            return self
        known = kernel or self.kernel
        known = cast(Kernel, known[0]) if isinstance(known, PerLatent) else known
        chosen = self.representation.for_rows(known, X)
        return self._rebuild({}, (self.kernel, self.mean, self.likelihood, chosen))

    def _bound(self, X: Array, names: Sequence[str] | None = None) -> Self:
        bound = self if self._columns == X.shape[1] else self.bind(X.shape[1], names)
        likelihood = bound.likelihood.for_inputs(X)
        return bound if likelihood is bound.likelihood else bound.with_likelihood(likelihood)

    # --- objectives -----------------------------------------------------------------------------------------

    def evidence(
        self, X: ArrayLike | RowSource, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> tuple[float, Array]:
        """Log evidence and its gradient in `theta` (of the model bound to the columns of X)."""
        model, data = self.training(X, y, sample_weight)
        return model.evidence_of(data)[:2]

    def evidence_of(self, data: TrainingData, warm: Any = None) -> tuple[float, Array, Any]:
        """Log evidence, its gradient in `theta`, and what the inference rule wants to know at the next evaluation.

        Parameters
        ----------
        data : TrainingData
            Of `training`, by a model that differs in parameter values alone.
        warm : object, optional
            What the last evaluation near by returned; one run of an optimizer follows one solution with it.
        """
        model = self._for_data(data)
        with threads_for(len(data.X)):
            found = model.rule.evidence(model.prior(data.inputs), data.under(model.likelihood), warm)
        return found.value, model.to_theta(found.gradient.flat), found.warm

    def leave_one_out_log_prob(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> tuple[float, Array]:
        """Sum of the log densities of each target given the others, and its gradient in `theta`."""
        model, data = self.training(X, y, sample_weight)
        return model.leave_one_out_log_prob_of(data)

    def leave_one_out_log_prob_of(self, data: TrainingData, averaged: bool = False) -> tuple[float, Array]:
        """As `leave_one_out_log_prob`, for data of `training`.

        `averaged` gives every row the mean leave-one-out precision: generalized cross-validation (objective "gcv").
        """
        model = self._for_data(data)
        with threads_for(len(data.X)):
            value, gradient = model.rule.leave_one_out_log_prob(
                model.prior(data.inputs), data.under(model.likelihood), averaged
            )
        return value, model.to_theta(gradient.flat)

    # --- learning -------------------------------------------------------------------------------------------

    def learn(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        objective: str = "evidence",
        n_restarts: int = 3,
        rng: np.random.Generator | int | None = None,
        n_jobs: int | None = None,
        max_time: float | None = None,
        progress: bool | None = None,
    ) -> Learned:
        """Learn the free parameters, and condition on the data.

        The optimizer runs from values read off the data, from the model's own values, from promising draws, and, if
        the noise is robust, from the solution of an easier model.

        Parameters
        ----------
        X : array or DataFrame (n, D)
        y : array (n,) or (n, T)
        sample_weight : array (n,), optional
            Positive powers of the likelihood factors.
        objective : {"evidence", "loo", "gcv"}
            Log evidence, leave-one-out log density or generalized cross-validation, each plus the log prior of
            parameters that have one.
        n_restarts : int
            Most runs of the optimizer beside the first one; runs that agree end the search. As many again if 3 or more
            were asked for, evaluations are cheap, and runs end in different places.
        n_jobs : int, optional
            Processes for the runs.
        max_time : float, optional
            Seconds after which the best so far is returned.

        Returns
        -------
        Learned
            `model` with learned values, its `posterior`, and every run of the optimizer (`runs`).

        Examples
        --------
        >>> import numpy as np
        >>> from cavity import GP
        >>> from cavity.kernels import SE
        >>> X = np.linspace(0, 6, 30)[:, None]
        >>> learned = GP(1.0 * SE(1.0)).learn(X, np.sin(X[:, 0]) + 0.1 * np.cos(40 * X[:, 0]), rng=0)
        >>> round(learned.model.kernel.get("se.lengthscale"), 1), learned.posterior.mean([[1.5]]).round(1)
        (1.9, array([1.]))
        """
        from cavity.learning.fit import learn

        names = _column_names(X)
        X, y = self._checked_data(X, y)
        return learn(
            self._bound(X, names),
            X,
            y,
            _checked_weight(sample_weight, len(X)),
            objective=objective,
            n_restarts=n_restarts,
            rng=rng,
            n_jobs=n_jobs,
            max_time=max_time,
            progress=progress,
        )

    # --- results --------------------------------------------------------------------------------------------

    def condition(
        self,
        X: ArrayLike | RowSource,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        warm: Any = None,
    ) -> Posterior:
        """The posterior given the data, at these hyperparameters.

        `warm` is what the inference rule knows of a run of the optimizer that ended here (`Run.warm`): if the
        posterior has several approximations, the one that the run followed is found again.

        Under "mcmc" hyperparameters are sampled too, and the result is a `SamplePosterior`: the same questions,
        answered by averages over draws. `warm` may then be a `KnownModes` of hyperparameters where several runs of an
        optimizer ended: chains start at all modes that these lead to, and jump between them.
        """
        if self.inference.samples:
            kernel = self.kernel
            if not isinstance(kernel, PerLatent) and without_noise(kernel) is not kernel:
                raise UnsupportedPairError(
                    "draws do not tell a function from noise terms of the kernel",
                    remedy=("use ", Setting("inference", ("exact", "ep", "laplace", "variational"))),
                )
            return cast(
                Posterior, cast(Any, self.inference).sample_posterior(self, X, y, sample_weight, warm)
            )
        model, data = self.training(X, y, sample_weight)
        # the posterior keeps them, in the order that they have, and the caller's arrays may change
        X = data.X.copy(order="K") if isinstance(data.X, np.ndarray) else data.X
        y = data.y.copy(order="K")
        data = replace(data, X=X, y=y, inputs=model.representation.prepare(X))
        model = model._for_data(data)
        with threads_for(len(X)):
            approximation = model.rule.infer(model.prior(data.inputs), data.under(model.likelihood), warm)
        if model._note:
            message = "; ".join(part for part in (approximation.status.message, model._note) if part)
            approximation = replace(approximation, status=replace(approximation.status, message=message))
        data.inputs.release()
        posterior = Posterior(model, approximation, data)
        measured = isinstance(model.representation, Markov) and model.representation.approximates
        return posterior.with_loss() if measured else posterior

    def leave_one_out(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Prediction:
        """Distribution of each target given all others, at these hyperparameters."""
        model, data = self.training(X, y, sample_weight)
        model = model._for_data(data)
        with threads_for(len(data.X)):
            return model.rule.leave_one_out(model.prior(data.inputs), data.under(model.likelihood))

    def degrees_of_freedom(self, X: ArrayLike, y: ArrayLike) -> float:
        """Effective number of parameters of the fit."""
        model, data = self.training(X, y)
        model = model._for_data(data)
        return float(model.rule.degrees_of_freedom(model.prior(data.inputs), data.under(model.likelihood)))


@dataclass(frozen=True, eq=False)
class WeightedFeatures:
    """h(x)' weights: the prior mean of basis functions, as a function that can be copied and stored."""

    basis: Basis
    weights: Array

    def __call__(self, X: Array) -> Array:
        """Values (n,) at inputs (n, D)."""
        return self.basis.features(X) @ self.weights

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, WeightedFeatures) and self.basis == other.basis
        return same and np.array_equal(self.weights, cast(WeightedFeatures, other).weights)

    def __hash__(self) -> int:
        return hash(self.basis)


def _column_names(X: Any) -> list[str] | None:
    """Names of the columns of a data frame; None where there are none, or only numbers."""
    names = list(getattr(X, "columns", ()))
    return names if names and all(isinstance(name, str) for name in names) else None


def _per_latent(given: Any, likelihood: Likelihood, name: str) -> Any:
    """A sequence of kernels or means, one for each latent function, as one part; anything else as it is."""
    if not isinstance(given, list | tuple):
        return given
    if len(given) != likelihood.n_latent:
        raise ValueError(
            f"{name} must be one for each of the {likelihood.n_latent} latent functions of "
            f"{type(likelihood).__name__}, got {len(given)}"
        )
    if len(given) == 1:
        return given[0]
    return PerLatent([as_mean(g) for g in given] if name == "mean" else given)


def _checked_weight(sample_weight: ArrayLike | None, n: int) -> Array | None:
    if sample_weight is None:
        return None
    weight: Array = np.array(sample_weight, dtype=float)
    if weight.shape != (n,) or not (np.isfinite(weight) & (weight > 0)).all():
        wrong = weight if weight.shape != (n,) else weight[~(np.isfinite(weight) & (weight > 0))][0]
        raise ValueError(
            f"sample_weight must be {n} positive numbers (leave out rows of weight zero), got {wrong!r}"
        )
    return weight


def _require_a_function(kernel: Kernel, X: Array, y: Array) -> None:
    """Refuse noiseless targets that differ at equal inputs, unless the kernel tells such rows apart."""
    order = np.lexsort(X.T)
    equal = np.all(X[order[1:]] == X[order[:-1]], axis=1)
    differ = np.any((y[order[1:]] != y[order[:-1]]).reshape(len(equal), -1), axis=1)
    for k in np.flatnonzero(equal & differ):
        pair = np.sort(order[k : k + 2])
        K = kernel(X[pair])
        if K[0, 0] + K[1, 1] - 2 * K[0, 1] > SAME_VALUE * K[0, 0]:
            return
        raise InputError(
            f"differs between rows {pair[0]} and {pair[1]}, {y[pair[0]]} and {y[pair[1]]}, whose inputs are equal: "
            "a function without noise has one value there",
            parameter="y",
            remedy="leave one of the rows out, or use Gaussian noise",
        )
