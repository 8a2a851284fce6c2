"""What annealing needs before it runs: the model and its data, the possible starts, and a pilot for each.

A `Start` is the prior, or the Gaussian of EP or of Laplace's method, with its path to the posterior, the curvatures
that scale the moves, and the pilot that chose temperatures and steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cavity.inference.registry import as_inference
from cavity.latent.base import ImproperPosteriorError, LatentPrior
from cavity.latent.prior_times_sites import Conditioned
from cavity.latent.sites import Sites
from cavity.likelihoods.observations import Observations
from cavity.numerics.arrays import Array
from cavity.runtime.checks import require_integer, require_one_of
from cavity.sampling.annealing.moves import Moves
from cavity.sampling.annealing.path import Bridge, largest_curvature
from cavity.sampling.annealing.runs import Pilot, run_pilot
from cavity.sampling.annealing.schedule import as_schedule, power_schedule, resampled

STARTS = ("auto", "prior", "ep", "laplace")
MOVES = ("hmc", "elliptical")
METRICS = ("auto", "none", "sites", "middle", "bound")

SPREADS = np.linspace(-4.0, 4.0, 17)
"""Places, in standard deviations, at which the curvature of the likelihood is evaluated."""


@dataclass
class Start:
    """A start with its bridge and pilot."""

    name: str
    metric: str
    bridge: Bridge
    pilot: Pilot


class AnnealingSetup:
    """The model and the data, with the starts whose pilots were run so far."""

    def __init__(
        self,
        model: Any,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        moves: Moves,
        metric: str,
    ) -> None:
        model = _without_vague_basis(model)
        bound, data = model.training(X, y, sample_weight, basis_in_kernel=True)
        self.observations: Observations = data.under(bound.likelihood)
        self.likelihood = bound.likelihood
        if self.likelihood.n_latent != 1:
            raise ValueError(
                f"annealing needs one latent value per observation, {type(self.likelihood).__name__} has "
                f"{self.likelihood.n_latent}; sample it with HMC instead"
            )
        if data.y.ndim != 1:
            raise ValueError(f"y must have one column, got shape {data.y.shape}; anneal the targets in turn")
        self.prior: LatentPrior = bound.prior(data.X)
        self.moves, self.metric = moves, metric
        self.starts: dict[str, Start] = {}
        self._sites: dict[str, Sites | None] = {}

    @property
    def several_modes(self) -> bool:
        """Whether the posterior may have several modes: the likelihood is not log-concave."""
        return not self.likelihood.log_concave

    def sites(self, name: str) -> Sites | None:
        """Sites of an approximation, or None if it fails."""
        if name not in self._sites:
            rule = as_inference(name)
            found: Sites | None = None
            try:
                if rule.supports(self.likelihood):
                    found = rule.infer(self.prior, self.observations).sites
            except (ValueError, np.linalg.LinAlgError, NotImplementedError):
                found = None
            self._sites[name] = found
        return self._sites[name]

    def best_sites(self) -> Sites | None:
        """Those of EP, or of Laplace's method."""
        return self.sites("ep") or self.sites("laplace")

    def bridge(self, start: str, metric: str) -> Bridge:
        """The path from a start, with the curvatures of a metric."""
        given = self.prior, self.observations
        if start != "prior":
            return Bridge(*given, sites=self.sites(start))
        reference = self.best_sites() if metric != "none" else None
        if reference is None:
            return Bridge(*given)
        center = Conditioned(self.prior, reference)
        sites = np.maximum(reference.precision, 0.0)
        bound = self._bound(center)
        curvature = {"sites": sites, "bound": bound, "middle": np.sqrt(sites * bound)}[metric]
        # only if sites and bound agree is the likelihood nearly Gaussian, and the end known at all temperatures
        near = bool(np.all(np.abs(sites - bound) <= 0.05 * bound))
        return Bridge(*given, curvature=curvature, end=center.mean if near else None)

    def _bound(self, center: Conditioned) -> Array:
        places = np.concatenate(
            [
                self.prior.mean + SPREADS[:, None] * np.sqrt(self.prior.diagonal),
                center.mean + SPREADS[:, None] * np.sqrt(center.var),
            ]
        )
        return largest_curvature(self.observations, places)

    def start(self, name: str, runs: int, rng: np.random.Generator) -> Start | None:
        """The start of this name with its bridge and pilot, or None if it does not exist."""
        if name not in self.starts:
            if name != "prior" and self.sites(name) is None:
                return None
            try:
                self.starts[name] = self._with_pilot(name, runs, rng)
            except ImproperPosteriorError:
                return None
        return self.starts[name]

    def required_start(self, name: str, runs: int, rng: np.random.Generator) -> Start:
        """The same; an error if the start does not exist."""
        found = self.start(name, runs, rng)
        if found is None:
            raise ValueError(
                f"start={name!r} does not exist for this model and these data; use start='prior'"
            )
        return found

    def main_start(self, name: str, runs: int, rng: np.random.Generator) -> Start:
        """The start of the main runs: the one asked for, or for "auto" the first that exists."""
        names = ("ep", "laplace", "prior") if name == "auto" else (name,)
        for one in names[:-1]:
            found = self.start(one, runs, rng)
            if found is not None and np.isfinite(found.pilot.difficulty):
                return found
        return self.required_start(names[-1], runs, rng)

    def _with_pilot(self, name: str, runs: int, rng: np.random.Generator) -> Start:
        """A start with the metric whose pilot promises the least cost."""
        metrics = [self.metric]
        if name != "prior":
            metrics = ["start"]
        elif self.metric == "auto":
            metrics = ["none"] if self.moves.kind == "elliptical" else ["middle", "sites"]
        best: Start | None = None
        for metric in metrics:
            bridge = self.bridge(name, metric)
            pilot = run_pilot(bridge, self.moves, runs, rng, refine=len(metrics) == 1)
            if best is None or pilot.cost < best.pilot.cost:
                best = Start(name, metric, bridge, pilot)
        assert best is not None
        if len(metrics) > 1:
            best.pilot = run_pilot(best.bridge, best.pilot.moves, runs, rng)
        return best


def _without_vague_basis(model: Any) -> Any:
    """Basis functions are integrated through the covariance, as for every rule that is not exact."""
    if model.inference.name != "exact":
        return model
    changed = model.with_likelihood(model.likelihood)
    changed.inference = as_inference("laplace")
    return changed


# --- arguments and schedules ----------------------------------------------------------------------------------


def check_arguments(
    runs: int,
    steps: int | None,
    start: str,
    moves: str,
    leapfrogs: int,
    updates: int,
    metric: str,
    target_error: float | None,
    max_time: float | None,
) -> None:
    """Refuse invalid arguments by name."""
    counts = {"runs": (runs, 2), "leapfrogs": (leapfrogs, 1), "updates": (updates, 1)}
    if steps is not None:
        counts["steps"] = (steps, 1)
    for name, (value, least) in counts.items():
        require_integer(value, name, least)
    for name, text, known in (("start", start, STARTS), ("moves", moves, MOVES), ("metric", metric, METRICS)):
        require_one_of(text, name, known)
    for name, number in (("target_error", target_error), ("max_time", max_time)):
        if number is not None and not number > 0:
            raise ValueError(f"{name} must be positive, got {number!r}")


def schedule_functions(given: Any) -> tuple[Callable[[Pilot, int], Array], Callable[[Pilot, int], Array]]:
    """Functions of pilot and number of steps: the schedule asked for, and another one."""

    def adaptive(pilot: Pilot, steps: int) -> Array:
        return resampled(pilot.levels, steps)

    def power(exponent: float) -> Callable[[Pilot, int], Array]:
        return lambda pilot, steps: power_schedule(steps, exponent)

    if isinstance(given, str):
        if given not in ("adaptive", "power"):
            raise ValueError(f"schedule must be 'adaptive', 'power', a number or an array, got {given!r}")
        return (adaptive, power(4.0)) if given == "adaptive" else (power(4.0), adaptive)
    if np.ndim(given) == 0:
        return power(float(given)), adaptive
    levels = as_schedule(given)
    return (lambda pilot, steps: levels if steps == len(levels) - 1 else resampled(levels, steps)), adaptive
