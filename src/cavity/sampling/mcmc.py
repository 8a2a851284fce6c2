"""The inference rule "mcmc": hyperparameters and latent values sampled, predictions averaged over the draws.

What is sampled depends on the likelihood, so that as much as possible is integrated out:

- Gaussian noise, "integrated": Hamiltonian Monte Carlo on the hyperparameters, f integrated out;
- a mixture of two normals, "gibbs": indicators, fraction and hyperparameters in turn, f integrated out;
- Student-t and Laplace noise, "scale-mixture": noise variances and hyperparameters, f integrated out;
- anything else (classes, counts, sample weights on noise that is not Gaussian), "joint": white latent values and
  hyperparameters together.

At fixed hyperparameters "joint" is Hamiltonian Monte Carlo on f alone, and "elliptical" elliptical slice sampling.

Learning: chains need a good place to start, so the evidence of this rule is that of a fast rule (exact, EP or Laplace's
method). `GPRegressor(inference="mcmc")` first maximizes that, then samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cavity.inference.base import Approximation, Evidence, Gradient, InferenceRule
from cavity.inference.registry import adapted, as_inference
from cavity.likelihoods.base import Likelihood
from cavity.likelihoods.observations import Observations
from cavity.numerics.arrays import Array
from cavity.runtime.checks import require_integer, require_one_of
from cavity.runtime.deadlines import time_limit
from cavity.runtime.interrupts import Postponed
from cavity.runtime.progress import ProgressLike
from cavity.sampling.draws import Draws
from cavity.sampling.posterior import SamplePosterior
from cavity.sampling.samplers import METHODS, SamplingTask, modes_of, sampler_for
from cavity.sampling.trace import check_counts

DRAWS = 500
"""Draws of each chain, unless a number is given."""

MOST_DRAWS = 2000
"""Where chains stop that are not given a number of draws: four chains of 500 with 600 effective draws among them have
an R-hat above 1.01 by chance in one of five quantities, with 1500 hardly ever."""


class MCMC(InferenceRule):
    """Markov chain Monte Carlo.

    Parameters
    ----------
    n_draws : int, optional
        Draws of each chain that are kept. By default 500, and if these fail a check (R-hat, effective sample sizes)
        chains go on up to 2000; the status says if those do not suffice.
        A number that is given is kept to, see `extend_to`.
    warmup : int
        Transitions before them, in which the sampler adapts.
    chains : int
    rng : int, Generator or None
        Everything random follows from it.
    method : {"auto", "integrated", "gibbs", "scale-mixture", "joint", "elliptical"}
        What is sampled; "auto" chooses by the likelihood.
    hyperparameters : bool
        Whether hyperparameters are sampled or keep their values.
    start : str or rule
        The rule whose evidence an optimizer maximizes before chains start.
    extend_to : int, optional
        Draws of each chain, at most: if those made fail a check (R-hat, effective sample sizes), chains go on until
        they pass, twice as long each time. Otherwise they stop after the `n_draws` given whatever the checks say.
    max_time : float, optional
        Seconds after which chains end with the draws that were made; the status says so. If warm-up is not over by
        then there are none, and a TimeoutError is raised. Ctrl-C keeps the draws that were made, too.
    max_draws : int
        Draws used in predictions, at most, spread evenly over the chains.
    n_jobs : int, optional
        Processes for the chains of "gibbs"; other methods run all chains in step.
    warn : bool
        Whether to warn if chains have not converged.
    progress : see `cavity.runtime.progress`

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP
    >>> from cavity.kernels import SE
    >>> X = np.linspace(0, 6, 12)[:, None]
    >>> rule = MCMC(n_draws=100, warmup=100, chains=2, rng=0, warn=False, progress=False)
    >>> posterior = GP(1.0 * SE(1.0), inference=rule).condition(X, np.sin(X[:, 0]))
    >>> posterior.diagnostics().index.tolist()
    ['se.variance', 'se.lengthscale', 'gaussian.variance', 'log_density']
    """

    name = "mcmc"
    samples = True

    def __init__(
        self,
        n_draws: int | None = None,
        warmup: int = 300,
        chains: int = 4,
        rng: np.random.Generator | int | None = None,
        method: str = "auto",
        hyperparameters: bool = True,
        *,
        start: Any = "auto",
        extend_to: int | None = None,
        max_time: float | None = None,
        max_draws: int = 256,
        n_jobs: int | None = None,
        warn: bool = True,
        progress: ProgressLike = None,
    ) -> None:
        if n_draws is None:
            n_draws, extend_to = DRAWS, MOST_DRAWS if extend_to is None else extend_to
        check_counts(n_draws, warmup)
        if extend_to is not None and not (
            isinstance(extend_to, (int, np.integer))
            and not isinstance(extend_to, bool)
            and extend_to >= n_draws
        ):
            raise ValueError(
                f"extend_to must be an integer >= n_draws, {n_draws}, or None, got {extend_to!r}"
            )
        if max_time is not None and not max_time >= 0:
            raise ValueError(f"max_time must be a number of seconds >= 0 or None, got {max_time!r}")
        require_one_of(method, "method", METHODS)
        require_integer(chains, "chains", 1)
        if start == "mcmc" or isinstance(start, MCMC):
            raise ValueError("start must be a fast rule, for instance 'ep' or 'laplace', got 'mcmc'")
        self.n_draws, self.warmup, self.chains, self.rng = n_draws, warmup, chains, rng
        self.method, self.hyperparameters, self.start = method, hyperparameters, start
        self.extend_to, self.max_time, self.max_draws = extend_to, max_time, max_draws
        self.n_jobs, self.warn, self.progress = n_jobs, warn, progress

    def _options(self) -> dict[str, Any]:
        names = (
            "n_draws warmup chains rng method hyperparameters start extend_to max_time max_draws n_jobs warn"
        )
        return {name: getattr(self, name) for name in (*names.split(), "progress")}

    def __repr__(self) -> str:
        default = MCMC()._options()
        if not self.by_default:
            default |= {"n_draws": None, "extend_to": None}
        own = [f"{k}={v!r}" for k, v in self._options().items() if v is not default[k] and v != default[k]]
        return f"MCMC({', '.join(own)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MCMC) and self._options() == other._options()

    def __hash__(self) -> int:
        return hash(repr(self))

    @property
    def by_default(self) -> bool:
        """Whether draws are as many as the checks ask for, up to the usual number, since none was given."""
        return (self.n_draws, self.extend_to) == (DRAWS, MOST_DRAWS)

    def with_options(self, **changes: Any) -> MCMC:
        """A copy with some options changed."""
        return MCMC(**{**self._options(), **changes})

    def for_fit(self, rng: np.random.Generator, learns: bool = True, warn: bool = True) -> MCMC:
        """A copy for one fit of an estimator: seeded from its generator unless it has a seed of its own."""
        seed = int(rng.integers(2**63)) if self.rng is None else self.rng
        return self.with_options(
            rng=seed, hyperparameters=self.hyperparameters and learns, warn=self.warn and warn
        )

    # --- what every rule answers ----------------------------------------------------------------------------

    def supports(self, likelihood: Likelihood) -> bool:
        """Whether this is a likelihood: every one has a sampler."""
        return isinstance(likelihood, Likelihood)

    def _fast(self, likelihood: Likelihood) -> InferenceRule:
        return adapted(as_inference(self.start, likelihood), likelihood)

    def infer(self, prior: Any, observations: Observations, warm: Any = None) -> Approximation:
        """Refused: chains need a model, and `GP.condition` gives the draws."""
        raise ValueError("MCMC samples a whole model: use GP(..., inference='mcmc').condition(X, y)")

    def evidence(self, prior: Any, observations: Observations, warm: Any = None) -> Evidence:
        """Evidence and gradient of the fast rule `start`, to find where chains should begin."""
        return self._fast(observations.likelihood).evidence(prior, observations, warm)

    def leave_one_out(self, prior: Any, observations: Observations) -> Any:
        """Leave-one-out predictions of the fast rule `start`, at fixed hyperparameters."""
        return self._fast(observations.likelihood).leave_one_out(prior, observations)

    def leave_one_out_log_prob(
        self, prior: Any, observations: Observations, averaged: bool = False
    ) -> tuple[float, Gradient]:
        """That of the fast rule `start`."""
        return self._fast(observations.likelihood).leave_one_out_log_prob(prior, observations, averaged)

    def degrees_of_freedom(self, prior: Any, observations: Observations) -> float:
        """That of the fast rule `start`."""
        return float(self._fast(observations.likelihood).degrees_of_freedom(prior, observations))

    # --- sampling -------------------------------------------------------------------------------------------

    def sample_posterior(
        self,
        model: Any,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        ends: Sequence[Array] | None = None,
    ) -> SamplePosterior:
        """The posterior of a model given data, as draws: what `GP.condition` returns under this rule.

        `ends` are hyperparameters (p,) where runs of an optimizer ended, the best first: if they lead to several modes,
        chains start at all of these and jump between them.

        Raises
        ------
        TimeoutError
            If `max_time`, or a limit around this call (`runtime.deadlines`), is reached before anything was drawn.
        """
        with time_limit(self.max_time):
            draws = self._sampled(model, X, y, sample_weight, ends or ())
        with Postponed():  # Ctrl-C while chains are checked does not lose the draws
            return SamplePosterior(draws, self.max_draws, self.warn)

    def _sampled(
        self,
        model: Any,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        ends: Sequence[Array],
    ) -> Draws:
        """Draws of the sampler that suits the likelihood."""
        model, training = model.training(X, y, sample_weight, basis_in_kernel=True)
        data, targets, weight = training.X, training.y, training.weight
        if targets.ndim > 1:
            raise ValueError(
                f"MCMC takes one target, got y of shape {targets.shape}; fit one model per target"
            )
        if weight is not None and np.all(weight == 1.0):
            weight = None
        sampler = sampler_for(self.method, model.likelihood, weight is not None)
        task = SamplingTask(model, data, targets, weight, self, np.random.default_rng(self.rng))
        if sampler.jumps:
            task = replace(task, modes=modes_of(task, ends))
        return sampler.sample(task)
