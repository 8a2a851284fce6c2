"""Jumps between modes of the hyperparameters that are known before sampling.

Chains find only the modes that they start in, and checks of chains see only those that were visited. An optimizer that
was started in several places has met more: its end points, moved uphill on the density that is to be sampled (an
approximate evidence times the priors), are the modes here. Chains start at all of them, and a jump takes theta near a
mode m_a to

    theta' = theta + m_b - m_a,

b being any other mode. a is the mode nearest to theta; if b is not the one nearest to theta', the way back would be
another, and there is no jump. So a jump is its own inverse and keeps volume: it can be proposed as it is.

Jumps of hyperparameters and function together (`JointJumps`). A move from theta to theta' far away is rejected if the
function f (or noise variances, or indicators) stays as it was. If f is replaced too, the ratio of the evidences
p(y | theta) decides. They are known up to a factor close to one: EP gives a Gaussian with mass Z_EP(theta) near
p(y, f | theta), and a few steps of annealing along the bridge between the two (`annealing.path`) an unbiased estimate
of Z / Z_EP. With s the sites, scaled so that the mass is Z_EP,

    from f,  at theta,   back to the Gaussian:    w  = prod_t [p(y|f_t) / s(f_t)]^-(1/T),   E w  = Z_EP / Z,
    from the Gaussian at theta',  to f':          w' = prod_t [p(y|f'_t) / s'(f'_t)]^(1/T), E w' = Z' / Z'_EP.

The function f' at the end belongs to theta'. A jump is accepted in two decisions (Christen and Fox 2005), the second of
which needs f only if the first was passed:

    min(1, p(theta') Z'_EP / p(theta) Z_EP),    then   min(1, w w').

The moves on the way are reversible for the densities of the bridge, the way back is the same, and the Gaussians are
functions of theta alone: so the joint posterior of theta and f is left invariant, whatever EP's errors are (Neal 1996,
Karagiannis and Andrieu 2013). A bad Gaussian costs acceptance, nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cavity.inference.ep import EP
from cavity.likelihoods.observations import Observations
from cavity.numerics.arrays import Array
from cavity.numerics.threads import threads_for
from cavity.sampling.affine import AffineTarget, inverse_hessian_factor, lowest_seen
from cavity.sampling.annealing.moves import Moves, RunState
from cavity.sampling.annealing.path import Bridge
from cavity.sampling.hyperparameter_target import HyperparameterTarget
from cavity.sampling.targets import Target
from cavity.sampling.trace import JumpCounts

MOST_MODES = 4
"""Modes, at most: the best ones."""

SAME_MODE = 0.05
"""Distance, in unit steps, below which two searches ended in the same mode: not worth a closer look."""

APART = 2.0
"""Distance, in standard deviations of a mode, below which two modes are one."""

NEGLIGIBLE = 12.0
"""Nats below the best mode at which another is left out: all jumps there would be rejected."""

JUMP_PROBABILITY = 0.25
"""Probability of an attempt after each move of a chain by other means."""

STEPS = 30
"""Temperatures between the Gaussian and the posterior. On Boston housing ln w then has a standard deviation of 0.6."""

MOVES = Moves("hmc", 5, np.array([0.0, 1.0]), np.full(2, 0.3))
"""Trajectories at each temperature: five rotations of 0.3, of which 95 % are accepted if EP is good."""

RULE = EP(effort=0.0)
"""Sweeps, and what the variational solution leads to: no search, which may take seconds."""


@dataclass(frozen=True)
class Modes:
    """Modes to jump between.

    Attributes
    ----------
    locations : array (k, p)
        Hyperparameters `theta` of each mode, the best first; at least two.
    factor : array (p, p)
        F, where F F' is roughly the covariance of one mode: the metric of distances.

    Examples
    --------
    >>> import numpy as np
    >>> modes = Modes(np.array([[0.0], [10.0]]), np.eye(1))
    >>> modes.propose(np.array([0.5]), np.random.default_rng(0))
    array([10.5])
    """

    locations: Array
    factor: Array

    def __len__(self) -> int:
        return len(self.locations)

    def nearest(self, theta: Array) -> int:
        """Index of the mode nearest to theta (p,)."""
        off = np.linalg.solve(self.factor, (theta - self.locations).T)
        return int(np.argmin(np.einsum("ij,ij->j", off, off)))

    def propose(self, theta: Array, rng: np.random.Generator) -> Array | None:
        """Where a jump from theta (p,) leads, or None if the way back would be another."""
        a, k = self.nearest(theta), len(self)
        b = (a + 1 + int(rng.integers(k - 1))) % k
        there = theta + self.locations[b] - self.locations[a]
        return there if self.nearest(there) == b else None

    def starts(
        self,
        white: AffineTarget,
        base: Callable[[Array], Array],
        chains: int,
        rng: np.random.Generator,
        bounds: Array,
    ) -> Array:
        """White positions (C, d) of chains that start at all modes in turn.

        `base` gives all coordinates (d,) at a mode; the whitened ones are spread within their `bounds` (p, 2), as in
        `AffineTarget.start`.
        """
        out = []
        for c in range(chains):
            mode = self.locations[c % len(self)]
            there = AffineTarget(white.target, mode, white.factor, white.moves)
            out.append(there.from_white(there.start(base(mode)[None], rng, bounds))[0])
        return white.to_white(np.array(out))


def find_modes(target: HyperparameterTarget, ends: Sequence[Array], unit: Array) -> Modes | None:
    """The distinct modes of a density uphill from where runs of an optimizer ended; None if there is only one.

    Parameters
    ----------
    target : HyperparameterTarget
        The density of the hyperparameters, by a fast rule.
    ends : sequence of arrays (p,)
        The best ones first.
    unit : array (p,)
        Sizes of unit steps of the coordinates.
    """
    bounds = np.array(target.model.theta_bounds).reshape(-1, 2)

    def negative_log_density(w: Array) -> tuple[float, Array]:
        inside = np.clip(w * unit, *bounds.T)  # an end at a bound must not leave it by rounding
        value, gradient = target.value_and_gradient(inside[None])
        return -float(value[0]), -gradient[0] * unit

    found: list[tuple[float, Array]] = []
    for end in ends[:MOST_MODES]:
        place = lowest_seen(negative_log_density, np.clip(end, *bounds.T) / unit, bounds / unit[:, None])
        value = -negative_log_density(place)[0]
        if np.isfinite(value):  # the fast rule may fail where the optimizer, warm-started, did not
            found.append((value, place))
    found.sort(key=lambda one: -one[0])
    possible = [place for value, place in found if value > found[0][0] - NEGLIGIBLE]
    if not any(np.max(np.abs(place - possible[0]), initial=0.0) > SAME_MODE for place in possible):
        return None
    factor = inverse_hessian_factor(negative_log_density, possible[0])
    kept: list[Array] = []
    for place in possible:
        off = [np.linalg.norm(np.linalg.solve(factor, place - other)) for other in kept]
        if min(off, default=np.inf) > APART:
            kept.append(place)
    locations = np.clip(unit * np.array(kept), *bounds.T)
    return Modes(locations, unit[:, None] * factor) if len(kept) > 1 else None


def metropolis_accepts(log_ratio: float, rng: np.random.Generator) -> bool:
    """The decision of Metropolis; a ratio that is not a number is rejected."""
    return bool(np.log1p(-rng.random()) < log_ratio)


# --- jumps ------------------------------------------------------------------------------------------------------


class JumpCounter:
    """Modes, and how many jumps between them were attempted and accepted."""

    def __init__(self, modes: Modes) -> None:
        self.modes, self.attempts, self.accepted = modes, 0, 0


def jump_counts(counters: Sequence[JumpCounter | None]) -> JumpCounts | None:
    """Sums over the chains' counters; None if chains do not jump."""
    found = [one for one in counters if one is not None]
    if not found:
        return None
    attempts, accepted = sum(one.attempts for one in found), sum(one.accepted for one in found)
    return JumpCounts(len(found[0].modes), attempts, accepted)


class HyperparameterJumps(JumpCounter):
    """Jumps on a density of the hyperparameters alone: moves for `hamiltonian(between=...)`."""

    def __init__(self, modes: Modes, target: Target) -> None:
        super().__init__(modes)
        self.target = target

    def __call__(self, U: Array, rng: np.random.Generator) -> Array:
        """Positions (C, p), after a jump of each chain that attempts one and is accepted."""
        return np.array([self._attempt(theta, rng) for theta in U])

    def _attempt(self, theta: Array, rng: np.random.Generator) -> Array:
        there = self.modes.propose(theta, rng) if rng.random() < JUMP_PROBABILITY else None
        if there is None:
            return theta
        self.attempts += 1
        old, new = self.target.log_density(np.stack([theta, there]))
        if not metropolis_accepts(new - old, rng):
            return theta
        self.accepted += 1
        return there


@dataclass(frozen=True)
class LocalGaussian:
    """EP's Gaussian near the posterior of f at some hyperparameters, and the bridge between the two."""

    bridge: Bridge
    log_evidence: float
    log_prior: float

    @property
    def log_density(self) -> float:
        """ln p(theta) Z_EP."""
        return self.log_prior + self.log_evidence

    def anneal_down(self, f: Array, rng: np.random.Generator) -> float:
        """Estimate of ln Z / Z_EP on the way from a draw f (n,) of the posterior to the Gaussian."""
        state, log_w = RunState.at(self.bridge, self.bridge.position(f[None])), 0.0
        for t in range(STEPS, 0, -1):
            log_w += float(state.log_ratio[0]) / STEPS
            if t > 1:
                state, _ = MOVES.move(self.bridge, state, (t - 1) / STEPS, rng)
        return log_w + self.bridge.log_mass - self.log_evidence

    def anneal_up(self, rng: np.random.Generator) -> tuple[float, Array]:
        """The same from a draw of the Gaussian to the posterior, and f (n,) there."""
        state, log_w = RunState.at(self.bridge, rng.standard_normal((1, self.bridge.dim))), 0.0
        for t in range(1, STEPS + 1):
            log_w += float(state.log_ratio[0]) / STEPS
            if t < STEPS:
                state, _ = MOVES.move(self.bridge, state, t / STEPS, rng)
        return log_w + self.bridge.log_mass - self.log_evidence, state.F[0]


class JointJumps(JumpCounter):
    """Jumps of hyperparameters and function together, for a sampler that can draw f.

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

    def gaussian_at(self, theta: Array) -> LocalGaussian | None:
        """The Gaussian at hyperparameters (p,); None if EP fails there."""
        low, high = self._bounds.T
        if not np.all((theta >= low) & (theta <= high)):
            return None
        try:
            with np.errstate(all="ignore"), threads_for(len(self.X)):
                model = self.model.replace(theta)
                prior = model.prior(self.X)
                seen = Observations(model.likelihood, self.y)
                found = RULE.infer(prior, seen)
                bridge = Bridge(prior, seen, sites=found.sites)
                return LocalGaussian(bridge, found.log_evidence, model.log_prior(jacobian=True)[0])
        except (ValueError, np.linalg.LinAlgError):  # a value overflows, or there is no Gaussian
            return None

    def attempt(
        self, theta: Array, draw: Callable[[], Array], rng: np.random.Generator
    ) -> tuple[Array, Array] | None:
        """New hyperparameters (p,) with a function (n,) that belongs to them; None without an accepted jump.

        `draw` gives a draw of f given the data and everything else at theta.
        """
        there = self.modes.propose(theta, rng) if rng.random() < JUMP_PROBABILITY else None
        if there is None:
            return None
        self.attempts += 1
        old, new = self.gaussian_at(theta), self.gaussian_at(there)
        if old is None or new is None or not metropolis_accepts(new.log_density - old.log_density, rng):
            return None
        with threads_for(len(self.X)):
            loss = old.anneal_down(draw(), rng)
            gain, f = new.anneal_up(rng)
        if not metropolis_accepts(gain - loss, rng):
            return None
        self.accepted += 1
        return there, f
