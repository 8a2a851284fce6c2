"""Posteriors made of draws in model files.

What the chains drew is stored: hyperparameters, and whatever else was sampled (noise variances, latent values,
indicators). The Gaussian process that each draw leaves is computed from these when predictions are first asked for,
in a fresh posterior and in a loaded one alike; so predictions are repeated to the bit, and a file holds what was
drawn, not an n x n matrix for each draw.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from cavity.gp import GP
from cavity.io.posterior import check_data, require_room
from cavity.io.records import is_array, is_count, is_float, require, store, typed
from cavity.io.registry import RULE, Codec, add, constructor_arguments, field_values
from cavity.sampling.draws import Draws
from cavity.sampling.mcmc import MCMC
from cavity.sampling.posterior import SamplePosterior
from cavity.sampling.trace import JumpCounts, Trace

MAX_DRAWS = 1_000_000
"""Most draws or chains that the settings of a sampler may ask for in a file."""


# --- the rule -----------------------------------------------------------------------------------------------


def _rule_fields(rule: MCMC) -> dict[str, Any]:
    """Its settings; how a run reported its progress does not belong to the model."""
    settings = constructor_arguments(rule)
    if not (settings["progress"] is None or isinstance(settings["progress"], bool)):
        settings["progress"] = None
    return settings


def _rule(**settings: Any) -> MCMC:
    rule = MCMC(**settings)
    longest = rule.n_draws if rule.extend_to is None else rule.extend_to
    counts = (rule.n_draws, longest, rule.warmup, rule.chains, rule.max_draws)
    require(
        all(is_count(n) and n <= MAX_DRAWS for n in counts) and rule.max_draws >= 1, "draws must be counts"
    )
    require(rule.rng is None or is_count(rule.rng), "rng must be a whole number")
    require(rule.max_time is None or is_float(rule.max_time), "max_time must be a number of seconds")
    require(rule.n_jobs is None or isinstance(rule.n_jobs, int), "n_jobs must be a whole number")
    flags = (rule.hyperparameters, rule.warn)
    require(all(isinstance(flag, bool) for flag in flags), "flags must be true or false")
    require(rule.progress is None or isinstance(rule.progress, bool), "progress must be true or false")
    return rule


add(Codec(RULE + "MCMC", MCMC, _rule_fields, _rule))


# --- what was drawn -----------------------------------------------------------------------------------------


def _check_trace(trace: Trace) -> None:
    require(trace.positions.ndim == 3 and trace.chains * trace.draws > 0, "a trace must hold draws")
    require(bool(np.isfinite(trace.positions).all()), "draws must be finite")
    shape = trace.chains, trace.draws
    require(trace.log_density.shape == shape, "every draw must have a density")
    for name in ("acceptance", "divergences"):
        require(getattr(trace, name).shape in ((0,), shape[:1]), f"{name} must be one for each chain")
    require(trace.step_size.ndim == 1, "step sizes must be numbers")
    require(len(trace.names) in (0, trace.dim), "names must be those of the coordinates")


def _check_jumps(jumps: JumpCounts) -> None:
    require(jumps.accepted <= jumps.attempts, "jumps are counted")


def _draws(**stored: Any) -> Draws:
    draws = Draws(**stored)
    check_data(draws.model, draws.X, draws.y, draws.weight)
    draws = replace(draws, model=draws.model._bound(draws.X))
    require(isinstance(draws.trace, Trace) and isinstance(draws.method, str), "draws have a trace")
    model: GP = draws.model
    require(
        isinstance(model.inference, MCMC) and np.ndim(draws.y) == 1,
        "draws are of a model that samples one target",
    )
    require(draws.trace.dim in (0, len(model.names)), "a draw must have every hyperparameter")
    require(is_float(draws.nugget) and 0 <= draws.nugget < 1, "the nugget must be a small number")
    n, latents = len(draws.X), model.likelihood.n_latent
    rows = (draws.trace.chains, draws.trace.draws, n)
    values = rows if latents == 1 else (*rows, latents)
    coordinates = values
    if latents == 1 and draws.white is not None and model.representation.covariance_limit is not None:
        coordinates = (*rows[:2], model.prior(draws.X).white_dim)
    for name, shape in (("noise", rows), ("white", coordinates), ("latent", values)):
        array = getattr(draws, name)
        right = array is None or (is_array(array) and array.shape == shape and bool(np.isfinite(array).all()))
        require(right, f"{name} must be a finite number for each draw and row")
    require((draws.white is None) == (draws.latent is None), "latent values are drawn white")
    require(draws.noise is None or bool((draws.noise > 0).all()), "noise variances must be positive")
    require(draws.noise is None or draws.white is None, "either noise variances or latent values are drawn")
    flags: Any = draws.indicators
    share: Any = draws.probability
    marked = isinstance(flags, np.ndarray) and flags.dtype == bool and flags.shape == rows
    require(flags is None or marked, "indicators must be true or false for each draw and row")
    likely = is_array(share, 1) and len(share) == n and bool(((share >= 0) & (share <= 1)).all())
    require(share is None or likely, "probabilities must be those of the rows")
    return draws


store(JumpCounts, _check_jumps)
store(Trace, _check_trace)
add(Codec("Draws", Draws, field_values, _draws))


# --- posteriors ---------------------------------------------------------------------------------------------


def _posterior_fields(posterior: SamplePosterior) -> dict[str, Any]:
    return {"draws": posterior.draws, "max_draws": posterior.max_draws}


@typed
def _posterior(draws: Draws, max_draws: int) -> SamplePosterior:
    require(max_draws >= 1, "max_draws must be a count")
    require_room(len(draws.X) * draws.model.likelihood.n_latent)
    posterior = SamplePosterior(draws, max_draws, warn=False)
    require(bool(np.isfinite(posterior.natural).all()), "hyperparameters must be finite")
    one = SamplePosterior(draws, 1, warn=False)  # all of them would be as much work as predicting
    finite = np.isfinite(one.mean(draws.X[:1])).all() and np.isfinite(one.variance(draws.X[:1])).all()
    require(bool(finite), "its predictions are not finite")
    return posterior


add(Codec("SamplePosterior", SamplePosterior, _posterior_fields, _posterior))
