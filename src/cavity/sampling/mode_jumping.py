"""Jumps of hyperparameters and function together: down to a Gaussian near the posterior, across, and up again.

A move of the hyperparameters from theta to theta' far away is lost where the function f (or noise variances, or
indicators) stays as it was. With f replaced too, what decides is the ratio of the evidences p(y | theta). These are
known but for a factor close to one: EP gives a Gaussian with mass Z_EP(theta) near p(y, f | theta), and a few steps of
annealing along the bridge between the two (`bridge`) an estimate of Z / Z_EP without bias. With s the sites, scaled so
that the mass is Z_EP,

    from f,  at theta,   back to the Gaussian:    w  = prod_t [p(y|f_t) / s(f_t)]^-(1/T),   E w  = Z_EP / Z,
    from the Gaussian at theta',  to f':          w' = prod_t [p(y|f'_t) / s'(f'_t)]^(1/T), E w' = Z' / Z'_EP.

The function f' at the end belongs to theta'. A jump is accepted in two decisions (Christen and Fox 2005), the second of
which needs f only if the first was passed:

    min(1, p(theta') Z'_EP / p(theta) Z_EP),    then   min(1, w w').

The moves on the way are reversible for the densities of the bridge, the way back is the same, and the Gaussians are
functions of theta alone: so the joint posterior of theta and f is left as it was, whatever EP's errors are (Neal 1996,
Karagiannis and Andrieu 2013). A bad Gaussian costs acceptance, nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cavity.inference.ep import EP
from cavity.numerics.arrays import Array
from cavity.numerics.threads import threads_for
from cavity.sampling.annealing.moves import State
from cavity.sampling.annealing.path import Bridge
from cavity.sampling.annealing.runs import Kernel
from cavity.sampling.modes import SHARE, Attempts, Modes, passes

STEPS = 30
"""Temperatures between the Gaussian and the posterior. On Boston housing ln w then has a standard deviation of 0.6."""

MOVES = Kernel("hmc", 5, np.array([0.0, 1.0]), np.full(2, 0.3))
"""Trajectories at each temperature: five rotations of 0.3, of which 95 % are accepted where EP is good."""

RULE = EP(effort=0.0)
"""Sweeps, and what the variational solution leads to: no search, which may take seconds."""


@dataclass(frozen=True)
class Near:
    """A Gaussian near the posterior of f at some hyperparameters."""

    bridge: Bridge
    log_evidence: float
    log_prior: float

    @property
    def log_density(self) -> float:
        """ln p(theta) Z_EP."""
        return self.log_prior + self.log_evidence

    def down(self, f: Array, rng: np.random.Generator) -> float:
        """Estimate of ln Z / Z_EP on the way from a draw f of the posterior to the Gaussian."""
        state, log_w = State.at(self.bridge, self.bridge.position(f[None])), 0.0
        for t in range(STEPS, 0, -1):
            log_w += float(state.log_ratio[0]) / STEPS
            if t > 1:
                state, _ = MOVES.move(self.bridge, state, (t - 1) / STEPS, rng)
        return log_w + self.bridge.log_mass - self.log_evidence

    def up(self, rng: np.random.Generator) -> tuple[float, Array]:
        """The same from a draw of the Gaussian to the posterior, and f (n,) there."""
        state, log_w = State.at(self.bridge, rng.standard_normal((1, self.bridge.n))), 0.0
        for t in range(1, STEPS + 1):
            log_w += float(state.log_ratio[0]) / STEPS
            if t < STEPS:
                state, _ = MOVES.move(self.bridge, state, t / STEPS, rng)
        return log_w + self.bridge.log_mass - self.log_evidence, state.F[0]


class Jumps(Attempts):
    """Jumps between modes for a sampler that can draw f.

    Parameters
    ----------
    modes : Modes
    model : GP
        Bound to the data, with proper priors; its likelihood has one latent value per observation.
    X, y : arrays (n, D), (n,)
    """

    def __init__(self, modes: Modes, model: Any, X: Array, y: Array) -> None:
        super().__init__(modes)
        self.model, self.X, self.y = model, X, y
        self._bounds = np.array(model.theta_bounds).reshape(-1, 2)

    def near(self, theta: Array) -> Near | None:
        """The Gaussian at some hyperparameters; None where there is none."""
        low, high = self._bounds.T
        if not np.all((theta >= low) & (theta <= high)):
            return None
        try:
            with np.errstate(all="ignore"), threads_for(len(self.X)):
                model = self.model.replace(theta)
                prior = model.prior(self.X)
                found = RULE.infer(prior, model.likelihood, self.y)
                bridge = Bridge(prior, model.likelihood, self.y, sites=found.sites)
                return Near(bridge, found.log_evidence, model.log_prior(jacobian=True)[0])
        except (ValueError, np.linalg.LinAlgError):  # a value that overflows, or no Gaussian that exists
            return None

    def sometimes(
        self, theta: Array, draw: Callable[[], Array], rng: np.random.Generator
    ) -> tuple[Array, Array] | None:
        """Other hyperparameters with a function (n,) that belongs to them, or None: no attempt, or not accepted.

        `draw` gives a draw of f given the data and everything else at theta.
        """
        there = self.modes.across(theta, rng) if rng.random() < SHARE else None
        if there is None:
            return None
        self.attempts += 1
        old, new = self.near(theta), self.near(there)
        if old is None or new is None or not passes(new.log_density - old.log_density, rng):
            return None
        with threads_for(len(self.X)):
            loss = old.down(draw(), rng)
            gain, f = new.up(rng)
        if not passes(gain - loss, rng):
            return None
        self.accepted += 1
        return there, f
