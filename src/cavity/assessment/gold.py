"""The gold standard: evidence by annealed importance sampling, marginals and predictions by Monte Carlo chains.

Both look at the same model at the same hyperparameters as the approximations they judge, and both say whether they can
be believed: the evidence by its certificate, the chains by R-hat and effective sample sizes over all latent values.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from cavity.gp import GP
from cavity.inference.base import InferenceFailedError, UnsupportedPairError
from cavity.likelihoods.observations import Observations
from cavity.numerics.arrays import Array
from cavity.prediction import Prediction, average
from cavity.sampling import diagnostics
from cavity.sampling.annealing.ais import AISResult, annealed_importance_sampling
from cavity.sampling.hmc import hamiltonian
from cavity.sampling.latent_target import LatentTarget

CHAINS = 8
WARMUP = 300
FIRST_DRAWS = 200
ENOUGH_ESS = 800.0
"""Effective draws of every latent value after which sampling longer would change no verdict."""

LEAST_ESS, WORST_RHAT = 200.0, 1.02
"""What the chains must reach to be believed: errors of means below a fourteenth of a posterior sd."""

PREDICTING_DRAWS = 200


@dataclass(frozen=True)
class Chains:
    """Draws of the latent values at the training inputs.

    Attributes
    ----------
    latent : array (C, T, n)
    rhat, ess : float
        The worst over all latent values (the smaller of bulk and tail).
    divergences : int
    seconds : float
    interrupted : bool
        Whether Ctrl-C ended them; the draws made so far are here.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.assessment import Chains
    >>> Chains(np.zeros((4, 100, 3)), rhat=1.02, ess=90.0, divergences=0, seconds=1.0).believed
    False
    """

    latent: Array
    rhat: float
    ess: float
    divergences: int
    seconds: float
    interrupted: bool = False

    @property
    def believed(self) -> bool:
        """Whether the chains agree and are long enough."""
        return self.rhat <= WORST_RHAT and self.ess >= LEAST_ESS

    @property
    def reason(self) -> str:
        """Why they are believed, or not."""
        state = f"worst R-hat {self.rhat:.3f}, fewest effective draws {self.ess:.0f}"
        if self.believed:
            return state
        return f"{state}; R-hat must be at most {WORST_RHAT:g} and effective draws at least {LEAST_ESS:g}"

    @property
    def seconds_needed(self) -> float:
        """Time for enough effective draws, if the chains mix at the present rate."""
        return self.seconds * max(LEAST_ESS / max(self.ess, 1.0), 4.0 if self.rhat > WORST_RHAT else 1.0)

    @property
    def pooled(self) -> Array:
        """All draws, shape (C T, n)."""
        return self.latent.reshape(-1, self.latent.shape[-1])

    def thinned(self, count: int) -> Array:
        """At most `count` draws spread evenly, shape (count, n)."""
        pooled = self.pooled
        chosen = np.linspace(0, len(pooled) - 1, min(count, len(pooled))).astype(int)
        return np.asarray(pooled[chosen])


@dataclass(frozen=True)
class GoldStandard:
    """What approximations are held against.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP, assess
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import Probit
    >>> X, y = np.linspace(0, 3, 6)[:, None], np.array([1.0, 1.0, -1.0, -1.0, 1.0, 1.0])
    >>> model = GP(1.0 * SE(1.0), Probit())
    >>> found = assess(model, X, y, inference=["ep"], max_time=1.0, rng=0, progress=False)
    >>> abs(found.gold.evidence.log_evidence - model.condition(X, y).log_evidence) < 1.0
    True
    """

    evidence: AISResult
    chains: Chains

    @property
    def certified(self) -> bool:
        """Whether both halves can be believed."""
        return self.evidence.certified and self.chains.believed


def sample_latent(
    model: GP,
    X: Array,
    y: Array,
    *,
    max_time: float,
    rng: np.random.Generator,
    enough: float = ENOUGH_ESS,
    progress: Any = None,
) -> Chains:
    """Chains of f at the training inputs: stretch after stretch, until there is enough or the time is up.

    Ctrl-C ends them with the draws made so far, if there are any.
    """
    started = time.perf_counter()
    target = _target(model, X, y)
    spread = 0.5 * target.draw_prior(CHAINS, rng)
    start = spread if target.center is None else target.center + rng.standard_normal(spread.shape)
    start = np.where(np.isfinite(target.log_density(start))[:, None], start, 0.0)
    kept: list[Array] = []
    draws, divergences, quality = FIRST_DRAWS, 0, (np.inf, 0.0)
    while True:
        began = time.perf_counter()
        warmup = WARMUP if not kept else 50
        try:
            trace = hamiltonian(target, start, n_draws=draws, warmup=warmup, rng=rng, progress=progress)
        except KeyboardInterrupt:
            if not kept:
                raise
            seconds_taken = time.perf_counter() - started
            return Chains(
                np.concatenate(kept, axis=1), *quality, divergences, seconds_taken, interrupted=True
            )
        divergences += int(trace.divergences.sum())
        if kept and quality[0] > WORST_RHAT:
            kept = kept[1:]  # the oldest stretch is the one that had not yet forgotten its start
        kept.append(_latent(target, trace.positions))
        F = np.concatenate(kept, axis=1)
        quality = _quality(F)
        start = trace.last
        per_draw = (time.perf_counter() - began) / (warmup + draws)
        left = max_time - (time.perf_counter() - started)
        rhat, ess = quality
        wanted = max(F.shape[1] * enough / max(ess, 1.0) - F.shape[1], 0.0 if rhat <= WORST_RHAT else draws)
        draws = int(min(wanted, 2 * F.shape[1], left / per_draw - 50, _affordable(F) - F.shape[1]))
        if draws < 20 or trace.stopped:
            seconds_taken = time.perf_counter() - started
            return Chains(F, rhat, ess, divergences, seconds_taken, trace.interrupted)


def _target(model: GP, X: Array, y: Array) -> LatentTarget:
    """Coordinates in which the posterior is nearly white, if an approximation for that can be had."""
    seen = Observations(model.likelihood, y)
    for metric in ("ep", "laplace"):
        try:
            return LatentTarget(model.prior(X), seen, metric=metric)
        except (UnsupportedPairError, InferenceFailedError, np.linalg.LinAlgError):
            continue
    return LatentTarget(model.prior(X), seen)


def _latent(target: LatentTarget, positions: Array) -> Array:
    C, T, d = positions.shape
    return target.latent(positions.reshape(C * T, d)).reshape(C, T, -1)


def _quality(F: Array) -> tuple[float, float]:
    ess = min(float(np.min(diagnostics.ess_bulk(F))), float(np.min(diagnostics.ess_tail(F))))
    return float(np.max(diagnostics.rhat(F))), ess


def _affordable(F: Array, bytes_at_most: float = 4e8) -> float:
    """Draws whose latent values fit into memory."""
    return float(bytes_at_most / (8.0 * F.shape[0] * F.shape[2]))


def gold_standard(
    model: GP,
    X: Array,
    y: Array,
    *,
    max_time: float,
    rng: np.random.Generator,
    target_error: float | None = None,
    enough: float = ENOUGH_ESS,
    progress: Any = None,
) -> GoldStandard:
    """Half of the time for the evidence, half for the chains; less if the error and draws wanted are reached.

    Ctrl-C before there are chains goes on to the caller: the evidence alone is no standard.
    """
    evidence = annealed_importance_sampling(
        model, X, y, max_time=0.5 * max_time, target_error=target_error, rng=rng, progress=progress
    )
    if evidence.interrupted:
        raise KeyboardInterrupt
    chains = sample_latent(model, X, y, max_time=0.5 * max_time, rng=rng, enough=enough, progress=progress)
    return GoldStandard(evidence, chains)


def predict(model: GP, X: Array, chains: Chains, X_new: Array) -> tuple[Prediction, Array]:
    """Predictive distribution of y at new inputs, averaged over draws, and the mean of f there.

    Given f at the training inputs, f at a new one is normal with mean m* + k*' K^-1 (f - m) and a variance that is the
    same for all draws.
    """
    prior, F = model.prior(X), chains.thinned(PREDICTING_DRAWS)
    known = prior.given_values(np.ascontiguousarray(F.T))
    if known is not None:
        means, variance = known.mean(X_new).T, known.variance(X_new)
        return average([model.likelihood.predictive(m, variance) for m in means]), means.mean(axis=0)
    cross = model.kernel(X, X_new)
    weights = prior.observe(np.zeros(prior.n)).apply(cross)
    means = model.mean(X_new) + (F - model.mean(X)) @ weights
    variance = model.kernel.diag(X_new) - np.einsum("ij,ij->j", cross, weights)
    variance = np.maximum(variance, 1e-14 * model.kernel.diag(X_new))
    return average([model.likelihood.predictive(m, variance) for m in means]), means.mean(axis=0)
