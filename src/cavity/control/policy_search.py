"""Feedback policies learned from scratch by the gradient of the expected long-term loss.

The loop is that of PILCO (Deisenroth and Rasmussen, 2011): act, add what was seen to the transitions, fit the dynamics
again, improve the policy on the model, act again. The expected loss is over systems that are drawn from the model
(`ParticleRisk` of `DrawnDynamics`) or by moment matching (`PolicyRisk`, as in PILCO).

It has many local minima, most of them poor, and more of them the longer the roll-outs are. So before each episode a
search begins anew at the best of many random policies, with roll-outs that may be shorter: all are improved a little,
the best two of them more, and the best one of these to the end. What it finds is then improved with roll-outs of full
length, beside the present policy, and the better of the two has the next episode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from cavity.control.dynamics.model import Dynamics
from cavity.control.dynamics.sampled_functions import DrawnDynamics
from cavity.control.dynamics.transitions import Transitions
from cavity.control.losses import Loss
from cavity.control.policies import Policy, RBFPolicy
from cavity.control.problems import Problem, System
from cavity.control.risk import ParticleRisk, PolicyRisk
from cavity.numerics.arrays import Array
from cavity.runtime.checks import require_integer
from cavity.runtime.progress import Progress

Risk = Callable[[Policy], tuple[float, Array]]
"""Expected loss of a policy, and its derivative in the parameters."""

STARTS = 5
"""Random policies at which a search begins."""

LEAST_NOISE = 0.01
"""Of the model, as for `Dynamics.fit`. Simulated transitions have no noise at all, and learning would be slow."""

TOO_FAR = 1e6
"""Stands for a loss that is not finite, in units of the first one of a descent."""

RELEARNED = 1.5
"""Hyperparameters are learned again when there are this many times as many transitions as the last time."""


# --- searching ----------------------------------------------------------------------------------------------


def search(
    risk: Risk, policies: Sequence[Policy], iterations: int = 50, label: str = "searching policy"
) -> tuple[Policy, float]:
    """The best policy that is found from several starts, and its expected loss.

    All starts are improved by a fifth of the iterations, the best two by another two fifths, the best of these by all
    of them.
    """
    if not policies:
        raise ValueError("policies must hold at least one policy to start from")
    stages = [(len(policies), max(1, iterations // 5)), (2, max(1, 2 * iterations // 5)), (1, iterations)]
    stages = stages[2:] if len(policies) == 1 else stages[1:] if len(policies) == 2 else stages
    found: list[tuple[Policy, float]] = [(policy, np.inf) for policy in policies]
    with Progress(label, sum(count * steps for count, steps in stages)) as progress:
        for count, steps in stages:
            chosen = found[:count]
            found = [_descend(risk, policy, steps, progress) for policy, _ in chosen]
            found.sort(key=lambda pair: pair[1])
    return found[0]


def _descend(risk: Risk, policy: Policy, iterations: int, progress: Progress) -> tuple[Policy, float]:
    """The best policy met by L-BFGS, and its expected loss."""
    best: list[Any] = [policy.theta, np.inf]
    unit: float | None = None

    def function(theta: Array) -> tuple[float, Array]:
        nonlocal unit
        with np.errstate(all="ignore"):
            value, gradient = risk(policy.with_parameters(theta))
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return TOO_FAR, np.zeros(len(theta))  # the line search comes back
        if unit is None:
            # tolerances are for values near one; a power of two, so that nothing is rounded
            unit = float(2.0 ** np.round(np.log2(abs(value)))) if value else 1.0
        if value < best[1]:
            best[:] = [theta.copy(), value]
        return value / unit, gradient / unit

    minimize(
        function,
        policy.theta,
        jac=True,
        method="L-BFGS-B",
        # far from the goal a saturating loss is nearly flat: small gradients are no reason to stop
        options={
            "maxiter": iterations,
            "maxfun": int(1.25 * iterations) + 5,
            "maxcor": 20,
            "gtol": 1e-9,
            "ftol": 1e-9,
        },
        callback=lambda _: progress.advance(f"loss {best[1]:.3f}"),
    )
    return policy.with_parameters(best[0]), float(best[1])


# --- learning -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Episode:
    """One episode: what happened, what was predicted, and whether the policy was good afterwards."""

    transitions: Transitions
    """As they were, without noise of measurement."""

    loss: float
    """Mean loss over the episode."""

    predicted: float
    """What the model said of it; nan for the random episode."""

    successes: float
    """Share of test starts from which the policy succeeds; nan without a test."""


@dataclass
class LearnedPolicy:
    """What `learn_policy` gives.

    Attributes
    ----------
    policy : Policy
    model : Dynamics
    transitions : Transitions
        All that was seen.
    episodes : list of Episode
        The first is random.

    Examples
    --------
    >>> from cavity.control import Pendulum, SaturatingLoss, learn_policy, tip_distance
    >>> pendulum = Pendulum()
    >>> loss = SaturatingLoss(tip_distance(pendulum, speed=0.1), 0.5)
    >>> found = learn_policy(pendulum, loss, steps=10, episodes=1, iterations=3, particles=5, candidates=5)
    >>> found.policy(pendulum.start).shape
    (1,)
    """

    policy: Policy
    model: Dynamics
    transitions: Transitions
    episodes: list[Episode] = field(default_factory=list)


def learn_policy(
    system: Problem,
    loss: Loss,
    *,
    steps: int,
    episodes: int,
    policy: Policy | None = None,
    centers: int = 20,
    start_sd: ArrayLike = 0.05,
    iterations: int = 50,
    horizon: int | None = None,
    first_horizon: int | None = None,
    particles: int = 40,
    candidates: int = 100,
    moment_matching: bool = False,
    test: Callable[[Policy], float] | None = None,
    stop: float = np.inf,
    noise: ArrayLike = 0.0,
    env: Any = None,
    hold: int = 1,
    rng: np.random.Generator | int = 0,
) -> LearnedPolicy:
    """Learn to control a system from nothing but episodes with it.

    Ctrl-C ends it with the policy of the last episode that was completed.

    Parameters
    ----------
    system : System, or Problem with `env`
        Asked for nothing but episodes.
    loss : Loss
    steps : int
        Actions in an episode.
    episodes : int
        Episodes with a learned policy; a random one comes before them.
    policy : Policy, optional
        To start from; by default the search starts from random `RBFPolicy`.
    centers : int
        Number of their radial basis functions.
    start_sd : float or array (D,)
        Standard deviation of the first state of an episode.
    iterations : int
        Of L-BFGS between episodes, for the best policy.
    horizon : int, optional
        Steps of the roll-outs; by default `steps`.
    first_horizon : int, optional
        Steps of the roll-outs on which random policies are searched; by default `horizon`. Where holding a goal is
        hard, first reach it: over a long time that is unstable the loss is too rugged for a descent.
    particles : int
        Roll-outs, each under a system of its own that is drawn from the model.
    candidates : int
        Random policies that are tried on the means of the model before each episode. The search begins at the best five
        of them; if `policy` is given, only that is improved.
    moment_matching : bool
        Whether the expected loss is by moment matching, as in PILCO, in place of roll-outs of particles.
    test : callable, optional
        Gives the share of successes of a policy; it is only reported, never learned from.
    stop : float
        Stop when `test` gives at least this share.
    noise : float or array (D,)
        Standard deviation of noise on the states that are recorded.
    env : gymnasium.Env, optional
        Where episodes are, in place of the system itself; `system` says how its observations are read, and where
        episodes start.
    hold : int
        Steps of `env` for which an action is held.
    rng : int or Generator

    Examples
    --------
    >>> from cavity.control import Pendulum, SaturatingLoss, learn_policy, tip_distance
    >>> pendulum = Pendulum()
    >>> loss = SaturatingLoss(tip_distance(pendulum, speed=0.1), 0.5)
    >>> found = learn_policy(pendulum, loss, steps=10, episodes=1, iterations=3, particles=5, candidates=5)
    >>> len(found.episodes), len(found.transitions)  # too short to learn anything
    (2, 20)
    """
    last = steps if horizon is None else horizon
    short = last if first_horizon is None else first_horizon
    counts = {
        "steps": steps,
        "episodes": episodes,
        "centers": centers,
        "hold": hold,
        "iterations": iterations,
    }
    counts |= {"particles": particles, "candidates": candidates, "horizon": last, "first_horizon": short}
    for name, value in counts.items():
        require_integer(value, name, 2 if name == "steps" else 1)
    if env is None and not isinstance(system, System):
        raise ValueError(f"env must be given for a problem that is no System, got {system!r}")
    rng = np.random.default_rng(rng)
    sd = np.broadcast_to(np.asarray(start_sd, dtype=float), (system.state_size,))
    if not (np.isfinite(sd).all() and np.all(sd >= 0)):
        raise ValueError(f"start_sd must be finite and at least 0, got {start_sd!r}")
    life = _Life(system, env, hold, int(steps), sd, rng)
    first = life.episode(None)
    seen = _recorded(first, noise, rng)
    done = [Episode(first, float(loss(first.next_states).mean()), np.nan, np.nan)]
    model: Dynamics | None = None
    learned_from = 0
    current = policy
    try:
        for k in range(episodes):
            model, learned_from = _model(model, learned_from, seen, system, rng)
            starts = system.start + sd * rng.standard_normal((particles, system.state_size))
            systems = None if moment_matching else DrawnDynamics(model, particles, rng=rng)
            risk = partial(_risk, model, systems, loss, system.start, sd, starts)
            label = f"episode {k + 1}"
            begin = [] if current is None else [current]
            if policy is None:
                means = ParticleRisk(model, loss, starts[:1], short)
                fresh = _screened(means, system, candidates, centers, rng)
                begin.append(search(risk(short), fresh, iterations, label)[0])
            full = risk(last)
            found, predicted = min((search(full, [p], iterations, label) for p in begin), key=lambda r: r[1])
            lived = life.episode(found)
            current, seen = found, seen + _recorded(lived, noise, rng)
            share = np.nan if test is None else float(test(found))
            done.append(Episode(lived, float(loss(lived.next_states).mean()), predicted, share))
            if share >= stop:
                break
    except KeyboardInterrupt:
        if model is None or current is None:
            raise
    assert model is not None
    assert current is not None
    return LearnedPolicy(current, model, seen, done)


def _model(
    known: Dynamics | None, learned_from: int, seen: Transitions, problem: Problem, rng: np.random.Generator
) -> tuple[Dynamics, int]:
    """The model of all that was seen, and from how many transitions its hyperparameters were learned."""
    if known is not None and len(seen) < RELEARNED * learned_from:
        return known.given(seen), learned_from
    model = Dynamics.fit(seen, problem=problem, least_noise=LEAST_NOISE, n_restarts=0, rng=rng)
    return model, len(seen)


def _risk(
    model: Dynamics,
    systems: DrawnDynamics | None,
    loss: Loss,
    start: Array,
    sd: Array,
    starts: Array,
    horizon: int,
) -> Risk:
    """The expected loss over drawn systems, or by moment matching if there are none."""
    if systems is None:
        return PolicyRisk(model, loss, start, sd**2, horizon)
    return ParticleRisk(systems, loss, starts, horizon)


def _screened(
    risk: ParticleRisk, problem: Problem, size: int, centers: int, rng: np.random.Generator
) -> list[Policy]:
    """The best of random policies, with large weights: most of them drive actions to their bounds."""
    drawn = [RBFPolicy.start(problem, centers, rng, size=1.0) for _ in range(size)]
    values = np.array([risk.value(policy) for policy in drawn])
    order = np.argsort(np.where(np.isfinite(values), values, np.inf))
    return [drawn[int(j)] for j in order[:STARTS]]


@dataclass
class _Life:
    """Episodes with a system, or with an environment."""

    system: Problem
    env: Any
    hold: int
    steps: int
    sd: Array
    rng: np.random.Generator

    def episode(self, policy: Policy | None) -> Transitions:
        """An episode under a policy, or under random actions."""
        system, rng = self.system, self.rng
        if self.env is not None:
            seed = int(rng.integers(2**31))
            return Transitions.collect(
                self.env, self.steps, policy, seed=seed, problem=system, hold=self.hold
            )
        assert isinstance(system, System)
        start = system.start + self.sd * rng.standard_normal(system.state_size)
        control: Any = system.draw_actions(self.steps, rng) if policy is None else policy
        return Transitions.of_trajectory(system.simulate(control, self.steps, start))


def _recorded(lived: Transitions, noise: ArrayLike, rng: np.random.Generator) -> Transitions:
    """Transitions of an episode as they are measured: a state has the same error at the end of one and the start of
    the next."""
    sd = np.asarray(noise, dtype=float)
    if not np.any(sd != 0):
        return lived
    before, after = lived.states, lived.next_states
    error = sd * rng.standard_normal((len(before) + 1, before.shape[1]))
    return Transitions(before + error[:-1], lived.actions, after + error[1:])
