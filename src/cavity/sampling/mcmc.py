"""The inference rule "mcmc": hyperparameters and latent values sampled, predictions averaged over the draws.

What is sampled depends on the likelihood, so that as much as possible is integrated out:

- Gaussian noise, "integrated": Hamiltonian Monte Carlo on the hyperparameters, f integrated out;
- a mixture of two normals, "gibbs": indicators, fraction and hyperparameters in turn, f integrated out;
- Student-t and Laplace noise, "scale-mixture": noise variances and hyperparameters, f integrated out;
- anything else (classes, counts, sample weights on noise that is not Gaussian), "joint": white latent values and
  hyperparameters together.

At fixed hyperparameters "joint" is Hamiltonian Monte Carlo on f alone, and "elliptical" elliptical slice sampling.

Learning: chains need a good place to start, so an optimizer that asks this rule for an evidence gets that of a fast
rule (exact, EP or Laplace's method). `GPRegressor(inference="mcmc")` therefore first maximizes that, then samples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from cavity.inference.base import Approximation, Evidence, Gradient, InferenceRule, UnsupportedPairError
from cavity.inference.exact import Exact
from cavity.likelihoods.base import Likelihood
from cavity.likelihoods.gaussian import GaussianNoise
from cavity.likelihoods.mixture_of_gaussians import MixtureOfGaussians
from cavity.numerics.arrays import Array
from cavity.runtime.deadlines import time_limit
from cavity.runtime.interrupts import Postponed
from cavity.runtime.progress import ProgressLike
from cavity.sampling.posterior import Draws, SamplePosterior
from cavity.sampling.trace import Trace, Until, check_counts

if TYPE_CHECKING:
    from cavity.sampling.mode_jumping import Modes


METHODS = ("auto", "integrated", "gibbs", "scale-mixture", "joint", "elliptical")

JUMPING = ("integrated", "gibbs", "scale-mixture")
"""Methods whose chains jump between modes of the hyperparameters that are known beforehand."""

START_SPREAD = 0.2
"""Standard deviation of the chains' starting hyperparameters around those of the model, in unconstrained units."""


class MCMC(InferenceRule):
    """Markov chain Monte Carlo.

    Parameters
    ----------
    n_draws, warmup : int
        Draws of each chain that are kept, and transitions before them in which the sampler adapts.
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
        Draws of each chain, at most: where those made fail a check (R-hat, effective sample sizes), chains go on until
        they pass, twice as long each time. By default they stop after `n_draws` whatever the checks say.
    max_time : float, optional
        Seconds after which chains end with the draws that were made; the status says so. If warm-up is not over by
        then there are none, and a TimeoutError is raised. Ctrl-C keeps the draws that were made, too.
    max_draws : int
        Draws used in predictions, at most, spread evenly over the chains.
    n_jobs : int, optional
        Processes for the chains of "gibbs"; other methods run all chains in step.
    warn : bool
        Whether to warn where chains have not converged.
    progress : see `cavity.sampling.trace`

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
        n_draws: int = 500,
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
        if method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(map(repr, METHODS))}, got {method!r}")
        if isinstance(chains, bool) or int(chains) != chains or chains < 1:
            raise ValueError(f"chains must be an integer >= 1, got {chains!r}")
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
        own = [f"{k}={v!r}" for k, v in self._options().items() if v is not default[k] and v != default[k]]
        return f"MCMC({', '.join(own)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MCMC) and self._options() == other._options()

    def __hash__(self) -> int:
        return hash(repr(self))

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
        """Any likelihood with a density in f, and exact observations too where f is integrated out."""
        return isinstance(likelihood, Likelihood)

    def _fast(self, likelihood: Likelihood) -> InferenceRule:
        from cavity.inference.registry import as_inference

        return as_inference(self.start, likelihood)

    def infer(
        self,
        prior: Any,
        likelihood: Likelihood,
        y: Array,
        sample_weight: Array | None = None,
        warm: Any = None,
    ) -> Approximation:
        """Not without a model: `GP.condition` gives the draws."""
        raise ValueError("MCMC samples a whole model: use GP(..., inference='mcmc').condition(X, y)")

    def evidence(
        self,
        prior: Any,
        likelihood: Likelihood,
        y: Array,
        sample_weight: Array | None = None,
        warm: Any = None,
    ) -> Evidence:
        """That of the fast rule `start`, to find where chains should begin."""
        return self._fast(likelihood).evidence(prior, likelihood, y, sample_weight, warm)

    def leave_one_out(
        self, prior: Any, likelihood: Likelihood, y: Array, sample_weight: Array | None = None
    ) -> Any:
        """That of the fast rule `start`, at fixed hyperparameters."""
        return self._fast(likelihood).leave_one_out(prior, likelihood, y, sample_weight)

    def leave_one_out_log_prob(
        self, prior: Any, likelihood: Likelihood, y: Array, sample_weight: Array | None = None
    ) -> tuple[float, Gradient]:
        """That of the fast rule `start`."""
        return self._fast(likelihood).leave_one_out_log_prob(prior, likelihood, y, sample_weight)

    def degrees_of_freedom(self, prior: Any, likelihood: Likelihood, y: Array) -> float:
        """That of the fast rule `start`."""
        return float(self._fast(likelihood).degrees_of_freedom(prior, likelihood, y))

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

        `ends` are hyperparameters (p,) where runs of an optimizer ended, the best first: where they lead to several
        modes, chains start at all of these and jump between them.

        Raises
        ------
        TimeoutError
            If `max_time`, or a limit around this call (`runtime.deadlines`), is reached before anything was drawn.
        """
        with time_limit(self.max_time):
            draws = self._sampled(model, X, y, sample_weight, ends or ())
        with Postponed():  # Ctrl-C while chains are checked does not cost the draws
            return SamplePosterior(draws, self.max_draws, self.warn)

    def _sampled(
        self,
        model: Any,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        ends: Sequence[Array],
    ) -> Draws:
        """By the method that suits the likelihood."""
        model, training = model.training(X, y, sample_weight, basis_in_kernel=True)
        data, targets, weight = training.X, training.y, training.weight
        if targets.ndim > 1:
            raise ValueError(
                f"MCMC takes one target, got y of shape {targets.shape}; fit one model per target"
            )
        if weight is not None and np.all(weight == 1.0):
            weight = None
        method = self._method(model.likelihood, weight)
        rng = np.random.default_rng(self.rng)
        if method in JUMPING:
            modes = self._modes(model, data, targets, weight, ends)
            jumping = {
                "integrated": self._integrated,
                "gibbs": self._gibbs,
                "scale-mixture": self._scale_mixture,
            }[method]
            return jumping(model, data, targets, weight, rng, modes)
        staying = {"joint": self._joint, "elliptical": self._elliptical}[method]
        return staying(model, data, targets, weight, rng)

    def _modes(
        self, model: Any, X: Array, y: Array, weight: Array | None, ends: Sequence[Array]
    ) -> Modes | None:
        """The modes that these ends lead to, where there are several and hyperparameters move at all."""
        from cavity.sampling.default_priors import unit_steps
        from cavity.sampling.hyperparameter_target import HyperparameterTarget
        from cavity.sampling.mode_jumping import find_modes

        if len(ends) < 2 or not self.hyperparameters:
            return None
        target = HyperparameterTarget(_with_rule(model, self._fast(model.likelihood)), X, y, weight)
        return find_modes(target, ends, unit_steps(target.model, X, y, weight))

    def _method(self, likelihood: Likelihood, weight: Array | None) -> str:
        from cavity.sampling.scale_mixture import is_scale_mixture

        fitting = ["joint", "elliptical"]
        if isinstance(likelihood, GaussianNoise):
            fitting.insert(0, "integrated")
        elif weight is None and isinstance(likelihood, MixtureOfGaussians):
            fitting.insert(0, "gibbs")
        elif weight is None and is_scale_mixture(likelihood):
            fitting.insert(0, "scale-mixture")
        if self.method == "auto":
            return fitting[0]
        if self.method not in fitting:
            weighted = " with sample weights" if weight is not None else ""
            raise UnsupportedPairError(
                f"method {self.method!r} does not fit {type(likelihood).__name__}{weighted}; "
                f"use one of {', '.join(map(repr, fitting))}, or 'auto'"
            )
        return self.method

    def _counts(self, as_draws: Callable[[Trace], Draws]) -> dict[str, Any]:
        """What all samplers are told; `as_draws` says what a trace of theirs means."""

        def enough(trace: Trace) -> bool:
            return SamplePosterior(as_draws(trace), warn=False).problem is None

        until = None if self.extend_to is None else Until(self.extend_to, enough)
        return {"n_draws": self.n_draws, "warmup": self.warmup, "progress": self.progress, "until": until}

    def _integrated(
        self,
        model: Any,
        X: Array,
        y: Array,
        weight: Array | None,
        rng: np.random.Generator,
        modes: Modes | None,
    ) -> Draws:
        from cavity.sampling.affine import sample_whitened, whitened_at_mode
        from cavity.sampling.default_priors import unit_steps
        from cavity.sampling.hyperparameter_target import HyperparameterTarget
        from cavity.sampling.mode_jumping import HyperparameterJumps, told

        exact = _with_rule(model, Exact())
        if not self.hyperparameters or len(model.names) == 0:
            value = exact.evidence(X, y, weight)[0]
            shape = self.chains, self.n_draws
            trace = Trace(np.zeros((*shape, 0)), np.full(shape, value))
            return Draws(model.freeze(), X, y, trace, weight, method="exact")
        target = HyperparameterTarget(exact, X, y, weight)
        bounds = np.array(target.model.theta_bounds).reshape(-1, 2)
        unit = unit_steps(target.model, X, y, weight)
        white = whitened_at_mode(target, np.asarray(target.model.theta), unit, bounds)
        if modes is None:
            start = white.start(np.zeros((self.chains, target.dim)), rng, bounds)
        else:
            start = modes.starts(white, lambda place: place, self.chains, rng, bounds)
        jumps = None if modes is None else HyperparameterJumps(modes, target)
        sampled = _with_rule(target.model, self)

        def as_draws(trace: Trace) -> Draws:
            trace = replace(trace, info={**trace.info, **told([jumps])})
            return Draws(sampled, X, y, trace, weight, method="integrated")

        found = sample_whitened(white, start, rng=rng, between=jumps, **self._counts(as_draws))
        return _kept(found, as_draws)

    def _gibbs(
        self,
        model: Any,
        X: Array,
        y: Array,
        _: Array | None,
        rng: np.random.Generator,
        modes: Modes | None,
    ) -> Draws:
        from cavity.sampling.outlier_conditionals import noise_variances
        from cavity.sampling.outlier_gibbs import gibbs

        def as_draws(trace: Trace) -> Draws:
            used, c = trace.info["model"], trace.info["indicators"]
            flags = c.reshape(-1, c.shape[2])
            models = (used.replace(t) if trace.dim else used for t in trace.pooled)
            noise = np.array([noise_variances(m.likelihood, one) for m, one in zip(models, flags)]).reshape(
                c.shape
            )
            return Draws(used, X, y, trace, None, noise, None, None, c, trace.info["probability"], "gibbs")

        found = gibbs(
            model,
            X,
            y,
            chains=self.chains,
            rng=rng,
            hyperparameters=self.hyperparameters,
            n_jobs=self.n_jobs,
            modes=modes,
            **self._counts(as_draws),
        )
        return _kept(found, as_draws)

    def _scale_mixture(
        self,
        model: Any,
        X: Array,
        y: Array,
        _: Array | None,
        rng: np.random.Generator,
        modes: Modes | None,
    ) -> Draws:
        from cavity.sampling.scale_mixture import sample_noise_variances

        def as_draws(trace: Trace) -> Draws:
            used, variances = trace.info["model"], trace.info["variances"]
            return Draws(used, X, y, trace, None, variances, method="scale-mixture")

        found = sample_noise_variances(
            model,
            X,
            y,
            chains=self.chains,
            rng=rng,
            hyperparameters=self.hyperparameters,
            modes=modes,
            **self._counts(as_draws),
        )
        return _kept(found, as_draws)

    def _joint(self, model: Any, X: Array, y: Array, weight: Array | None, rng: np.random.Generator) -> Draws:
        from cavity.sampling.hmc import hamiltonian
        from cavity.sampling.joint_target import NUGGET, JointTarget

        if not self.hyperparameters or len(model.names) == 0:
            return self._latent(model, X, y, weight, rng, elliptical=False)
        target = JointTarget(model, X, y, weight)
        mean = self._guess(model, X, y, weight)
        start = target.start(self.chains, rng, mean, START_SPREAD)
        latents = (target.n,) if target.latents == 1 else (target.n, target.latents)

        def as_draws(found: Trace) -> Draws:
            shape = found.positions.shape[:2]
            latent = target.latent(found.pooled).reshape(*shape, *latents)
            white = found.positions[:, :, : target.white_dim].reshape(*shape, *latents)
            trace = _part(found, found.positions[:, :, target.white_dim :], tuple(target.model.names))
            return Draws(
                target.model, X, y, trace, weight, None, white, latent, method="joint", nugget=NUGGET
            )

        return _kept(hamiltonian(target, start, rng=rng, **self._counts(as_draws)), as_draws)

    def _elliptical(
        self, model: Any, X: Array, y: Array, weight: Array | None, rng: np.random.Generator
    ) -> Draws:
        if self.hyperparameters and len(model.names):
            raise ValueError(
                "method 'elliptical' samples f at fixed hyperparameters: set hyperparameters=False, or use 'joint'"
            )
        return self._latent(model, X, y, weight, rng, elliptical=True)

    def _latent(
        self,
        model: Any,
        X: Array,
        y: Array,
        weight: Array | None,
        rng: np.random.Generator,
        elliptical: bool,
    ) -> Draws:
        """Latent values at fixed hyperparameters."""
        from cavity.sampling.elliptical_slice import elliptical_slice_sampling
        from cavity.sampling.hmc import hamiltonian
        from cavity.sampling.latent_target import LatentTarget

        model = model.freeze()
        target = LatentTarget(model.prior(X), model.likelihood, y, weight)
        start = 0.5 * rng.standard_normal((self.chains, target.dim))
        mean = self._guess(model, X, y, weight)
        if mean is not None:
            start = start + target.whiten(mean[None])
        latents = (len(y),) if model.likelihood.n_latent == 1 else (len(y), model.likelihood.n_latent)

        def as_draws(found: Trace) -> Draws:
            shape = found.positions.shape[:2]
            white = found.positions.reshape(*shape, *latents)
            latent = target.latent(found.pooled).reshape(*shape, *latents)
            trace = _part(found, np.zeros((*shape, 0)), ())
            method = "elliptical" if elliptical else "latent"
            return Draws(model, X, y, trace, weight, None, white, latent, method=method)

        options = {"rng": rng, **self._counts(as_draws)}
        if not elliptical:
            return _kept(hamiltonian(target, start, **options), as_draws)
        found = elliptical_slice_sampling(lambda U: target.log_likelihood(target.latent(U)), start, **options)
        return _kept(found, as_draws)

    def _guess(self, model: Any, X: Array, y: Array, weight: Array | None) -> Array | None:
        """Posterior mean of f at the training inputs by the fast rule, where it works."""
        try:
            fast = _with_rule(model, self._fast(model.likelihood))
            return np.asarray(fast.condition(X, y, weight).mean(X))
        except (np.linalg.LinAlgError, UnsupportedPairError):
            return None


def _kept(found: Trace, as_draws: Callable[[Trace], Draws]) -> Draws:
    """What was drawn. Latent values take a while, and Ctrl-C then does not cost the draws."""
    with Postponed():
        return as_draws(found)


def _with_rule(model: Any, rule: Any) -> Any:
    """The same model under another inference rule."""
    new = model._rebuild({}, model._parts)
    new.inference = rule
    return new


def _part(found: Trace, positions: Array, names: tuple[str, ...]) -> Trace:
    """A trace of some coordinates."""
    return replace(found, positions=positions, names=names)
