"""`SamplePosterior`: predictions that average over draws of Markov chains.

Predictions of f are mixtures of Gaussian processes (`process_mixture`), those of y mixtures of the likelihood's
predictions given each draw. They use at most `max_draws` draws; diagnostics (`convergence`) use all of them.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cavity.inference.base import Approximation, ConvergenceWarning, Status, TrainingData
from cavity.latent.base import Inputs
from cavity.numerics.arrays import Array
from cavity.prediction import (
    CategoricalPrediction,
    GaussianPrediction,
    MixturePrediction,
    Prediction,
    Slices,
    average,
)
from cavity.runtime.checks import require_integer
from cavity.runtime.errors import Message
from cavity.runtime.storing import Storable
from cavity.sampling.checks_of_draws import Convergence
from cavity.sampling.draws import Draws
from cavity.sampling.process_mixture import ProcessMixture


class SamplePosterior(Storable):
    """The posterior of a Gaussian process as draws, with the interface of `cavity.gp.Posterior`.

    Parameters
    ----------
    draws : Draws
    max_draws : int
        Draws used in predictions, at most.
    warn : bool
        Whether to warn (`ConvergenceWarning`) if the chains have not converged.

    Attributes
    ----------
    model : GP
        With the posterior mean of `theta` as its hyperparameters.
    trace : Trace
        Draws of `theta`, unconstrained.
    process : ProcessMixture
        The posterior of f.
    convergence : Convergence
        Checks of the chains.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP
    >>> from cavity.kernels import SE
    >>> from cavity.inference import MCMC
    >>> X = np.linspace(0, 5, 15)[:, None]
    >>> rule = MCMC(n_draws=40, warmup=40, chains=2, rng=0, warn=False, progress=False)
    >>> posterior = GP(1.0 * SE(1.0), inference=rule).condition(X, np.sin(X[:, 0]))
    >>> posterior.predict_y([[2.5]]).interval(0.9)[0].shape
    (1,)
    """

    def __init__(self, draws: Draws, max_draws: int = 256, warn: bool = True) -> None:
        require_integer(max_draws, "max_draws", 1)
        self.draws, self.trace, self.max_draws = draws, draws.trace, max_draws
        self.model = draws.model
        if self.trace.dim:
            self.model = draws.model.replace(self.trace.pooled.mean(axis=0))
        self.process = ProcessMixture(draws, max_draws)
        self.convergence = Convergence(draws)
        if warn and self.problem is not None:
            warnings.warn(ConvergenceWarning.of(self.problem), stacklevel=3)

    def __repr__(self) -> str:
        t = self.trace
        return f"SamplePosterior({t.chains} chains of {t.draws} draws, {self.draws.method})"

    @property
    def function(self) -> ProcessMixture:
        """The process of the function: there are no noise terms here."""
        return self.process

    @property
    def observed(self) -> SamplePosterior:
        """What observations are made of: the same."""
        return self

    # --- what every posterior has ---------------------------------------------------------------------------

    @property
    def X(self) -> Array:
        """Training inputs, shape (n, D)."""
        return self.draws.X

    @property
    def data(self) -> TrainingData:
        """The data that were conditioned on."""
        return TrainingData(self.draws.X, self.draws.y, self.draws.weight, Inputs(self.draws.X))

    @property
    def approximation(self) -> Approximation:
        """Process and status; there are no sites."""
        return Approximation(self.process, self.log_evidence, self.status)

    @property
    def log_evidence(self) -> float:
        """Not a number: chains do not give the evidence. Use annealed importance sampling."""
        return float("nan")

    @property
    def basis(self) -> None:
        """None: basis functions are part of the kernel here."""
        return None

    @property
    def outlier_probability(self) -> Array | None:
        """Posterior probability that each training row is an outlier, shape (n,); see `Draws`."""
        return self.draws.outlier_probability

    # --- convergence ----------------------------------------------------------------------------------------

    @property
    def status(self) -> Status:
        """Whether the chains have converged."""
        return self.convergence.status

    @property
    def problem(self) -> Message | None:
        """Why the draws should not be believed yet, with the remedy; None if they may."""
        return self.convergence.problem

    @property
    def notice(self) -> Message | None:
        """What a user should know about the draws: the `problem`, or that there are fewer than were asked for."""
        return self.convergence.notice

    @property
    def natural(self) -> Array:
        """Draws of the hyperparameters in natural units, shape (C, T, p)."""
        return self.draws.natural

    def diagnostics(self, latent: bool = False) -> Any:
        """Table of mean, sd, R-hat, effective sample sizes and Monte Carlo standard error.

        Parameters
        ----------
        latent : bool
            Whether to list the latent values at the training inputs too, if they were sampled.

        Returns
        -------
        DataFrame
            One row per hyperparameter in natural units, then the log density (and the number of outliers).
        """
        return self.convergence.frame(latent)

    # --- f --------------------------------------------------------------------------------------------------

    def mean(self, X: ArrayLike) -> Array:
        """Posterior mean of f, shape (m,) or (m, L)."""
        return self.process.mean(X)

    def variance(self, X: ArrayLike) -> Array:
        """Posterior variance of f, shape (m,) or (m, L)."""
        return self.process.variance(X)

    def covariance(self, X: ArrayLike) -> Array:
        """Posterior covariance of f among the rows of X, shape (m, m)."""
        return self.process.covariance(X)

    def mean_gradient(self, X: ArrayLike) -> Array:
        """d mean / dx, shape (m, D)."""
        return self.process.mean_gradient(X)

    def variance_gradient(self, X: ArrayLike) -> Array:
        """d variance / dx, shape (m, D)."""
        return self.process.variance_gradient(X)

    def sample(self, X: ArrayLike, size: int = 1, rng: np.random.Generator | int | None = None) -> Array:
        """Joint draws of f at X, shape (size, m) or (size, m, L): a draw of the chains, then of its process."""
        return self.process.sample(X, size, rng)

    def predict_f(self, X: ArrayLike, *, joint: bool = False) -> Prediction:
        """Distribution of f at X, a mixture of normals.

        With `joint` (and for several latent functions) the normal distribution with the same means and covariances.
        """
        if joint:
            cov = self.process.covariance(X)
            return GaussianPrediction(self.process.mean(X), np.diagonal(cov).copy(), cov)
        if self.model.likelihood.n_latent > 1:
            return GaussianPrediction(*self.process.moments(X))
        means, variances = self.process.moments_of_draws(X)
        return MixturePrediction(np.full(len(means), -np.log(len(means))), means, variances)

    # --- y --------------------------------------------------------------------------------------------------

    def sample_y(self, X: ArrayLike, size: int = 1, rng: np.random.Generator | int | None = None) -> Array:
        """Joint draws of new observations at X, shape (size, m), each with the noise of its own draw."""
        rng = np.random.default_rng(rng)
        f, likelihoods = self.process.sample_with_likelihoods(X, size, rng)
        return np.stack([likelihood.sample(one, rng) for likelihood, one in zip(likelihoods, f)])

    def predict_y(
        self, X: ArrayLike, noise_variance: ArrayLike | None = None, *, clean: bool = False
    ) -> Prediction:
        """Distribution of new observations at X, averaged over the draws.

        `noise_variance` (m,) is that of the new observations, for noise with known variances. With `clean`, of
        observations that are no outliers.
        """
        X = self.process.inputs(X)
        components = self.process.components
        likelihood = components[0].model.likelihood.of_new(X, noise_variance)
        if likelihood.discrete and likelihood.n_latent == 1 and not clean and not self._likelihood_varies:
            means, variances = self.process.moments_of_draws(X)
            whole = likelihood.predictive(means.ravel(), variances.ravel())
            if not isinstance(whole, CategoricalPrediction):
                return Slices(whole, len(means))
        parts = []
        for c in components:
            variance = c.variances(X)
            likelihood = c.model.likelihood.of_new(X, noise_variance)
            predictive = likelihood.clean_predictive if clean else likelihood.predictive
            parts += [predictive(mean, variance) for mean in c.means(X)]
        return average(parts)

    @property
    def _likelihood_varies(self) -> bool:
        """Whether draws differ in the likelihood, or cases do (known numbers of trials)."""
        likelihood = self.model.likelihood
        return any(not e.fixed for e in likelihood.entries) or likelihood.rows(np.arange(1)) is not likelihood

    # --- more data, files, pictures ---------------------------------------------------------------------------

    def update(self, X: ArrayLike, y: ArrayLike, noise_variance: ArrayLike | None = None) -> SamplePosterior:
        """The posterior given these observations too: the chains are run again, from the present mean of theta.

        Under `KnownNoise` their noise variances must be given, a number or an array (m,).
        """
        new_X, new_y = self.model._checked_data(X, y)
        model = self.model.with_likelihood(self.model.likelihood.and_new(new_X, noise_variance))
        weight = self.draws.weight
        if weight is not None:
            weight = np.concatenate([weight, np.ones(len(new_X))])
        found: SamplePosterior = model.condition(
            np.vstack([self.X, self.process.inputs(new_X)]), np.concatenate([self.draws.y, new_y]), weight
        )
        return found

    def plot(self, X: ArrayLike | None = None, y: ArrayLike | None = None, **options: Any) -> Any:
        """Traces of the hyperparameters, or the fit if there are none; see `cavity.plots.plot`."""
        from cavity.plots import plot

        return plot(self, X, y, **options)

    def to_arviz(self, log_likelihood: bool = True) -> Any:
        """The draws as ArviZ InferenceData, for `arviz.loo` and others; see `Draws.to_arviz`."""
        return self.draws.to_arviz(log_likelihood)
