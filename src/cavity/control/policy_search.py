"""Feedback policies learned from scratch by the gradient of the expected long-term loss.

In the manner of PILCO (Deisenroth and Rasmussen, 2011).

`PolicyRisk` is J(theta) = sum_t E L(s_t) over a moment-matched roll-out of model and policy, with dJ/dtheta in reverse
mode; `improve` minimizes it by L-BFGS; `learn` is the loop around it: act, add what was seen to the transitions, fit
the dynamics again, improve the policy, act again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from cavity.control.dynamics import Dynamics
from cavity.control.losses import Loss
from cavity.control.policies import Policy, RBFPolicy
from cavity.control.problems import System, Trajectory
from cavity.control.result import Array, checked_gaussian
from cavity.control.transitions import Transitions
from cavity.progress import Progress


class PolicyRisk:
    """Expected long-term loss of a policy, per step, and its gradient.

    Parameters
    ----------
    model : Dynamics
    loss : Loss
    mean, cov : array (D,), array (D, D) or (D,)
        Distribution of the state an episode starts in.
    horizon : int
        Steps.
    """

    def __init__(self, model: Dynamics, loss: Loss, mean: ArrayLike, cov: ArrayLike, horizon: int) -> None:
        self.model, self.loss, self.horizon = model, loss, int(horizon)
        self.mean, self.cov = checked_gaussian(mean, cov, model.state_size)
        if self.horizon < 1:
            raise ValueError(f"horizon must be at least 1, got {horizon!r}")

    def __call__(self, policy: Policy) -> tuple[float, Array]:
        """Mean loss over the horizon and its derivative in the policy's parameters."""
        D, F, T = self.model.state_size, policy.F, self.horizon
        m, S = self.mean, self.cov
        means, covs, caches = np.empty((T, D)), np.empty((T, D, D)), []
        for t in range(T):
            u, c_u = policy.forward(m, S)
            joint = np.empty((D + F, D + F))
            joint[:D, :D], joint[:D, D:], joint[D:, D:] = S, u.cross, u.covariance
            joint[D:, :D] = u.cross.T
            result, c_s = self.model.forward(np.concatenate([m, u.mean]), joint, check=False)
            caches.append((c_u, c_s, S, u.gain))
            m, S = result.mean, result.covariance
            means[t], covs[t] = m, S
        values, d_means, d_covs = self.loss.expected(means, covs)
        m_bar, S_bar, gradient = np.zeros(D), np.zeros((D, D)), np.zeros(len(policy.theta))
        for t in reversed(range(T)):
            c_u, c_s, S, K = caches[t]
            d_m, d_S = self.model.pull(c_s, m_bar + d_means[t] / T, S_bar + d_covs[t] / T)
            crossed = 2.0 * d_S[:D, D:]  # adjoint of Cov(s, u) = S K
            m_u, S_u, d_theta = policy.pull(c_u, d_m[D:], d_S[D:, D:], S @ crossed)
            gradient += d_theta
            turned = crossed @ K.T
            m_bar, S_bar = d_m[:D] + m_u, d_S[:D, :D] + S_u + 0.5 * (turned + turned.T)
        return float(values.mean()), gradient


def improve(
    risk: PolicyRisk, policy: Policy, iterations: int = 50, label: str = "improving policy"
) -> tuple[Policy, float]:
    """A policy with lower expected loss, by L-BFGS from the given one, and that loss."""
    best: list[Any] = [policy.theta, np.inf]
    with Progress(label, iterations) as progress:

        def function(theta: Array) -> tuple[float, Array]:
            with np.errstate(all="ignore"):
                value, gradient = risk(policy.with_parameters(theta))
            if not (np.isfinite(value) and np.isfinite(gradient).all()):
                return 1e6, np.zeros(len(theta))  # a step too far: the line search comes back
            if value < best[1]:
                best[:] = [theta.copy(), value]
            return value, gradient

        try:
            minimize(
                function,
                policy.theta,
                jac=True,
                method="L-BFGS-B",
                # far from the goal a saturating loss is nearly flat: small gradients are no reason to stop
                options={
                    "maxiter": iterations,
                    "maxfun": int(1.25 * iterations) + 1,
                    "gtol": 1e-9,
                    "ftol": 1e-9,
                },
                callback=lambda _: progress.advance(),
            )
        except KeyboardInterrupt:
            if not np.isfinite(best[1]):
                raise
    return policy.with_parameters(best[0]), float(best[1])


@dataclass(frozen=True)
class Episode:
    """One episode: what happened, what was predicted, and whether the policy was good afterwards."""

    trajectory: Trajectory
    loss: float
    """Mean loss over the episode."""

    predicted: float
    """What the model said of it; nan for the random episode."""

    successes: float
    """Share of test starts from which the policy succeeds; nan without a test."""


@dataclass
class Learned:
    """What `learn` gives.

    Attributes
    ----------
    policy : Policy
    model : Dynamics
    transitions : Transitions
        All that was seen.
    episodes : list of Episode
        The first is random, unless transitions were given.
    """

    policy: Policy
    model: Dynamics
    transitions: Transitions
    episodes: list[Episode] = field(default_factory=list)


def learn(
    system: System,
    loss: Loss,
    *,
    steps: int,
    episodes: int,
    policy: Policy | None = None,
    centers: int = 20,
    start_sd: ArrayLike = 0.05,
    iterations: int = 50,
    horizon: int | None = None,
    test: Callable[[Policy], float] | None = None,
    stop: float = np.inf,
    noise: ArrayLike = 0.0,
    rng: np.random.Generator | int = 0,
) -> Learned:
    """Learn to control a system from nothing but episodes with it.

    Parameters
    ----------
    system : System
        Asked for nothing but episodes.
    loss : Loss
    steps : int
        Actions in an episode.
    episodes : int
        Episodes with a learned policy; a random one comes before them.
    policy : Policy, optional
        To start from; by default radial basis functions at states that were seen.
    centers : int
        Number of them.
    start_sd : float or array (D,)
        Standard deviation of the first state of an episode.
    iterations : int
        Of L-BFGS between episodes.
    horizon : int, optional
        Steps of the roll-outs; by default `steps`.
    test : callable, optional
        Gives the share of successes of a policy; it is only reported, never learned from.
    stop : float
        Stop when `test` gives at least this share.
    noise : float or array (D,)
        Standard deviation of noise on the states that are recorded.
    rng : int or Generator
    """
    rng = np.random.default_rng(rng)
    D = system.state_size
    sd = np.broadcast_to(np.asarray(start_sd, dtype=float), (D,))
    first = system.simulate(system.draw_actions(steps, rng), start=system.start + sd * rng.standard_normal(D))
    seen = _recorded(first, noise, rng)
    done = [Episode(first, float(loss(first.states[1:]).mean()), np.nan, np.nan)]
    model, current = None, policy
    try:
        for k in range(episodes):
            model = Dynamics.fit(seen, problem=system, random_state=rng)
            if current is None:
                current = RBFPolicy.start(system, centers, rng, states=seen.states, size=1.0)
            risk = PolicyRisk(model, loss, system.start, sd**2, steps if horizon is None else horizon)
            current, predicted = improve(risk, current, iterations, f"episode {k + 1}")
            start = system.start + sd * rng.standard_normal(D)
            lived = system.simulate(current, steps, start)
            share = np.nan if test is None else float(test(current))
            done.append(Episode(lived, float(loss(lived.states[1:]).mean()), predicted, share))
            seen = seen + _recorded(lived, noise, rng)
            if share >= stop:
                break
    except KeyboardInterrupt:
        if model is None or current is None:
            raise
    if model is None or current is None:
        raise ValueError(f"episodes must be at least 1, got {episodes!r}")
    return Learned(current, model, seen, done)


def _recorded(trajectory: Trajectory, noise: ArrayLike, rng: np.random.Generator) -> Transitions:
    """Transitions of an episode as they are measured."""
    states = trajectory.states
    if np.any(np.asarray(noise) != 0):
        states = states + np.asarray(noise) * rng.standard_normal(states.shape)
    return Transitions.of_trajectory(Trajectory(states, trajectory.actions, trajectory.dt))
