"""The samplers behind `MCMC`: one function for each method, and a table of them.

A sampler takes a `SamplingTask` (model, data, options) and returns `Draws`. Those that integrate f out can jump between
modes of the hyperparameters that are known beforehand (`mode_jumping`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cavity.inference.base import UnsupportedPairError
from cavity.inference.exact import Exact
from cavity.inference.registry import as_inference
from cavity.latent.sites import Sites
from cavity.likelihoods.base import Likelihood
from cavity.likelihoods.gaussian import GaussianNoise
from cavity.likelihoods.mixture_of_gaussians import MixtureOfGaussians
from cavity.likelihoods.observations import Observations
from cavity.numerics.arrays import Array
from cavity.runtime.interrupts import Postponed
from cavity.sampling.affine import AffineTarget, sample_whitened, whitened_at_mode
from cavity.sampling.checks_of_draws import Convergence
from cavity.sampling.default_priors import unit_steps
from cavity.sampling.draws import Draws
from cavity.sampling.elliptical_slice import elliptical_slice_sampling
from cavity.sampling.hmc import HMCOptions, hamiltonian
from cavity.sampling.hyperparameter_target import HyperparameterTarget
from cavity.sampling.joint_target import JointTarget
from cavity.sampling.latent_target import LatentTarget
from cavity.sampling.mode_jumping import HyperparameterJumps, Modes, find_modes, jump_counts
from cavity.sampling.outlier_gibbs import gibbs
from cavity.sampling.scale_mixture import is_scale_mixture, sample_noise_variances
from cavity.sampling.sign_flips import SignFlips
from cavity.sampling.trace import Trace, Until
from cavity.sampling.white_coordinates import NUGGET

if TYPE_CHECKING:
    from cavity.sampling.mcmc import MCMC

NEARLY_NORMAL = HMCOptions(center=0.0)
"""Trajectories follow N(0, I): nearly the density of latent values and hyperparameters in their white coordinates."""

WHITE_SPREAD = 0.5
"""The same for white latent values around their approximate posterior mean."""


@dataclass(frozen=True)
class SamplingTask:
    """What is to be sampled, and how.

    Attributes
    ----------
    model : GP
        Bound to the data.
    X, y : arrays (n, D), (n,)
    weight : array (n,) or None
        Powers of the likelihood factors.
    rule : MCMC
        Its options.
    rng : Generator
    modes : Modes or None
        Modes of the hyperparameters to jump between.
    """

    model: Any
    X: Array
    y: Array
    weight: Array | None
    rule: MCMC
    rng: np.random.Generator
    modes: Modes | None = None

    @property
    def moves_hyperparameters(self) -> bool:
        """Whether there are hyperparameters to be sampled."""
        return self.rule.hyperparameters and len(self.model.names) > 0

    @property
    def counts(self) -> dict[str, Any]:
        """Options that every sampler takes."""
        return {"n_draws": self.rule.n_draws, "warmup": self.rule.warmup, "progress": self.rule.progress}

    @property
    def with_noise_of_rows(self) -> dict[str, Any]:
        """Options of the samplers that integrate f out given what kind of noise each row has."""
        rule = self.rule
        own = {"chains": rule.chains, "rng": self.rng, "hyperparameters": rule.hyperparameters}
        return {**own, "modes": self.modes, "until": self.until, **self.counts}

    @property
    def until(self) -> Until[Draws] | None:
        """When to stop, if chains go on until their checks pass."""
        if self.rule.extend_to is None:
            return None
        return Until(self.rule.extend_to, lambda draws: Convergence(draws).problem is None)

    def approximate_mean(self, model: Any) -> Array | None:
        """Posterior mean of f at the training inputs, (n,) or (n, L), by a fast rule; None if that fails."""
        try:
            fast = with_rule(model, as_inference(self.rule.start, model.likelihood))
            return np.asarray(fast.condition(self.X, self.y, self.weight).mean(self.X))
        except (np.linalg.LinAlgError, UnsupportedPairError):
            return None


def with_rule(model: Any, rule: Any) -> Any:
    """The same model under another inference rule."""
    new = model._rebuild({}, model._parts)
    new.inference = rule
    return new


def fast_model(task: SamplingTask) -> Any:
    """The model under the fast rule by which chains are started."""
    return with_rule(task.model, as_inference(task.rule.start, task.model.likelihood))


def modes_of(task: SamplingTask, ends: Sequence[Array]) -> Modes | None:
    """The modes uphill from where runs of an optimizer ended; None if there is one, or nothing to move."""
    if len(ends) < 2 or not task.rule.hyperparameters:
        return None
    target = HyperparameterTarget(fast_model(task), task.X, task.y, task.weight)
    return find_modes(target, ends, unit_steps(target.model, task.X, task.y, task.weight))


def _converted(trace: Trace, as_draws: Callable[[Trace], Draws]) -> Draws:
    """The draws of a trace. Latent values take a while to compute: Ctrl-C then does not lose the draws."""
    with Postponed():
        return as_draws(trace)


# --- f integrated out -------------------------------------------------------------------------------------------


def sample_integrated(task: SamplingTask) -> Draws:
    """Gaussian noise: Hamiltonian Monte Carlo on the hyperparameters, f integrated out."""
    exact = with_rule(task.model, Exact())
    X, y, weight, chains, rng = task.X, task.y, task.weight, task.rule.chains, task.rng
    if not task.moves_hyperparameters:
        shape = chains, task.rule.n_draws
        trace = Trace(np.zeros((*shape, 0)), np.full(shape, exact.evidence(X, y, weight)[0]))
        return Draws(task.model.freeze(), X, y, trace, weight, method="exact")
    target = HyperparameterTarget(exact, X, y, weight)
    bounds = np.array(target.model.theta_bounds).reshape(-1, 2)
    unit = unit_steps(target.model, X, y, weight)
    white = whitened_at_mode(target, np.asarray(target.model.theta), unit, bounds)
    if task.modes is None:
        jumps, start = None, white.start(np.zeros((chains, target.dim)), rng, bounds)
    else:
        jumps = HyperparameterJumps(task.modes, target)
        start = task.modes.starts(white, lambda mode: mode, chains, rng, bounds)
    model = with_rule(target.model, task.rule)

    def as_draws(trace: Trace) -> Draws:
        return Draws(model, X, y, replace(trace, jumps=jump_counts([jumps])), weight, method="integrated")

    until = None if task.until is None else task.until.of(as_draws)
    trace = sample_whitened(white, start, rng=rng, between=jumps, until=until, **task.counts)
    return _converted(trace, as_draws)


def sample_gibbs(task: SamplingTask) -> Draws:
    """A mixture of two normals: indicators, fraction and hyperparameters in turn, f integrated out."""
    return gibbs(task.model, task.X, task.y, n_jobs=task.rule.n_jobs, **task.with_noise_of_rows)


def sample_scale_mixture(task: SamplingTask) -> Draws:
    """Student-t and Laplace noise: noise variances and hyperparameters, f integrated out."""
    return sample_noise_variances(task.model, task.X, task.y, **task.with_noise_of_rows)


# --- f sampled --------------------------------------------------------------------------------------------------


def sample_joint(task: SamplingTask) -> Draws:
    """White latent values and hyperparameters together; f alone if there are no hyperparameters to move."""
    if not task.moves_hyperparameters:
        return sample_latent(task)
    target = JointTarget(task.model, task.X, task.y, task.weight)
    guide = HyperparameterTarget(fast_model(task), task.X, task.y, task.weight)
    white = _whitened_by_evidence(task, guide)
    found = _fast_posterior(guide.model.replace(white.origin), task)
    target = target.given(_sites_of(found))
    moved = slice(target.white_dim, None)
    white = AffineTarget(target, white.origin, white.factor, moved)
    mean = None if found is None else np.asarray(found.mean(task.X))
    base = target.start(task.rule.chains, task.rng, mean, 0.0)
    start = white.start(base, task.rng, np.array(target.model.theta_bounds).reshape(-1, 2))
    shape = (target.n,) if target.latents == 1 else (target.n, target.latents)
    signs = SignFlips.of(target.model.names, target, target.white_dim)

    def as_draws(trace: Trace) -> Draws:
        rows = trace.positions.shape[:2]
        positions = trace.positions if signs is None else signs.folded(trace.positions)
        prior_white, latent = target.prior_white(trace.pooled)
        theta = positions[:, :, target.white_dim :]
        return Draws(
            target.model,
            task.X,
            task.y,
            replace(trace, positions=theta, names=tuple(target.model.names)),
            task.weight,
            white=prior_white.reshape(*rows, *shape),
            latent=latent.reshape(*rows, *shape),
            method="joint",
            nugget=NUGGET,
        )

    until = None if task.until is None else task.until.of(as_draws)
    trace = sample_whitened(
        white, start, NEARLY_NORMAL, rng=task.rng, between=signs, until=until, **task.counts
    )
    return _converted(trace, as_draws)


def _whitened_by_evidence(task: SamplingTask, guide: HyperparameterTarget) -> AffineTarget:
    """Coordinates in which hyperparameters are about white under the evidence of a fast rule."""
    bounds = np.array(guide.model.theta_bounds).reshape(-1, 2)
    unit = unit_steps(guide.model, task.X, task.y, task.weight)
    return whitened_at_mode(guide, np.asarray(guide.model.theta), unit, bounds)


def _fast_posterior(model: Any, task: SamplingTask) -> Any:
    """What a fast rule makes of these hyperparameters; None if it fails there."""
    try:
        return model.condition(task.X, task.y, task.weight)
    except np.linalg.LinAlgError:
        return None


def _sites_of(posterior: Any) -> Sites | None:
    """The Gaussian factors by which a fast rule replaced the likelihood of one latent function, if it did."""
    sites = None if posterior is None else posterior.approximation.sites
    return sites if isinstance(sites, Sites) else None


class _LatentSampling(NamedTuple):
    """Sampling of f alone: the target, starting positions (C, d), and how a trace becomes draws."""

    target: LatentTarget
    start: Array
    as_draws: Callable[[Trace], Draws]
    until: Until[Trace] | None


def _latent_sampling(task: SamplingTask, method: str) -> _LatentSampling:
    model = task.model.freeze()
    target = LatentTarget(model.prior(task.X), Observations(model.likelihood, task.y, task.weight))
    start = WHITE_SPREAD * task.rng.standard_normal((task.rule.chains, target.dim))
    mean = task.approximate_mean(model)
    if mean is not None:
        start = start + target.whiten(mean[None])
    n, latents = len(task.y), model.likelihood.n_latent
    shape = (n,) if latents == 1 else (n, latents)

    def as_draws(trace: Trace) -> Draws:
        rows = trace.positions.shape[:2]
        return Draws(
            model,
            task.X,
            task.y,
            replace(trace, positions=np.zeros((*rows, 0)), names=()),
            task.weight,
            white=trace.positions.reshape(*rows, *(shape if latents > 1 else (target.dim,))),
            latent=target.latent(trace.pooled).reshape(*rows, *shape),
            method=method,
        )

    return _LatentSampling(target, start, as_draws, None if task.until is None else task.until.of(as_draws))


def sample_latent(task: SamplingTask) -> Draws:
    """Hamiltonian Monte Carlo on f at fixed hyperparameters."""
    given = _latent_sampling(task, "latent")
    trace = hamiltonian(given.target, given.start, rng=task.rng, until=given.until, **task.counts)
    return _converted(trace, given.as_draws)


def sample_elliptical(task: SamplingTask) -> Draws:
    """Elliptical slice sampling of f at fixed hyperparameters."""
    if task.moves_hyperparameters:
        raise ValueError(
            "method 'elliptical' samples f at fixed hyperparameters: set hyperparameters=False, or use 'joint'"
        )
    given = _latent_sampling(task, "elliptical")
    trace = elliptical_slice_sampling(
        lambda U: given.target.log_likelihood(given.target.latent(U)),
        given.start,
        rng=task.rng,
        until=given.until,
        **task.counts,
    )
    return _converted(trace, given.as_draws)


# --- the table --------------------------------------------------------------------------------------------------


class Sampler(NamedTuple):
    """A method of `MCMC`: its name, its function, the likelihoods it fits, and whether it can jump between modes.

    `fits` takes the likelihood and whether there are sample weights.
    """

    name: str
    sample: Callable[[SamplingTask], Draws]
    fits: Callable[[Likelihood, bool], bool]
    jumps: bool


SAMPLERS = (
    Sampler("integrated", sample_integrated, lambda noise, _: isinstance(noise, GaussianNoise), True),
    Sampler(
        "gibbs",
        sample_gibbs,
        lambda noise, weighted: isinstance(noise, MixtureOfGaussians) and not weighted,
        True,
    ),
    Sampler(
        "scale-mixture",
        sample_scale_mixture,
        lambda noise, weighted: is_scale_mixture(noise) and not weighted,
        True,
    ),
    Sampler("joint", sample_joint, lambda *_: True, False),
    Sampler("elliptical", sample_elliptical, lambda *_: True, False),
)
"""All samplers; "auto" takes the first that fits."""

METHODS = ("auto", *(sampler.name for sampler in SAMPLERS))


def sampler_for(method: str, likelihood: Likelihood, weighted: bool) -> Sampler:
    """The sampler of this method, or for "auto" the first that fits the likelihood.

    Raises
    ------
    UnsupportedPairError
        If the sampler does not fit.
    """
    fitting = {sampler.name: sampler for sampler in SAMPLERS if sampler.fits(likelihood, weighted)}
    if method == "auto":
        return next(iter(fitting.values()))
    if method not in fitting:
        with_weights = " with sample weights" if weighted else ""
        raise UnsupportedPairError(
            f"method {method!r} does not fit {type(likelihood).__name__}{with_weights}; "
            f"use one of {', '.join(map(repr, fitting))}, or 'auto'"
        )
    return fitting[method]
