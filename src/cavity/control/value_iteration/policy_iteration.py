"""Approximate policy iteration with a Gaussian process for the value function (Kuss, 2006, 7.3.1, Algorithm 5).

Repeat: greedy actions at all support points (7.39); values of that policy from linear equations,

    v = r + gamma W Q_v^-1 v    =>    v = (I - gamma W Q_v^-1)^-1 r                                       (7.38)

with the rows of W from (7.37); length scales and signal of the value function anew by evidence maximization. For more
support points than a linear system allows, the backup is repeated instead.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cavity.control.problems.problem import checked_ends
from cavity.control.value_iteration.backup import Backup, Monitor, Round, spectral_radius
from cavity.control.value_iteration.improvement import candidate_actions
from cavity.control.value_iteration.next_states import as_model
from cavity.control.value_iteration.rewards import Reward
from cavity.control.value_iteration.value_gp import Support, ValueGP
from cavity.numerics.arrays import Array
from cavity.runtime.checks import require_integer

MOST_EQUATIONS = 3000
"""Support points up to which policies are evaluated by linear equations; beyond, by repeated backups."""


@dataclass(frozen=True)
class Evaluation:
    """Values of a policy at the support points, and the spectral radius of its backup (NaN if not computed)."""

    values: Array
    radius: float


def evaluate(value: ValueGP, mean: Array, variance: Array, reward: Array, gamma: float) -> Evaluation:
    """Values (m,) of a policy from linear equations (7.38).

    Parameters
    ----------
    value : ValueGP
        Its support points and hyperparameters are used, its values are not.
    mean, variance : array (m, D)
        Of the next state of each support point under the policy.
    reward : array (m,)
        Expected rewards (7.36).
    gamma : float
    """
    M = gamma * value.solve(value.rows(mean, variance).T).T
    return Evaluation(np.asarray(np.linalg.solve(np.eye(len(M)) - M, reward)), spectral_radius(M))


def sweep(
    value: ValueGP, mean: Array, variance: Array, reward: Array, gamma: float, sweeps: int
) -> Evaluation:
    """Values after some repetitions of the backup v <- r + gamma W Q_v^-1 v, from those of `value`."""
    for _ in range(sweeps):
        value = value.with_values(reward + gamma * value.expected(mean, variance))
    return Evaluation(value.values, float("nan"))


@dataclass(frozen=True)
class ValuePolicy:
    """A value function and its greedy policy: what policy iteration found.

    Call it with states (..., D) for actions (..., F).

    Attributes
    ----------
    value : ValueGP
    actions : array (m, F)
        Of the greedy policy at the support points.
    mean, variance : array (m, D)
        Of the next state of each support point under these actions.
    rounds : list of Round
        One for each iteration: largest value, change, spectral radius, hyperparameters.
    converged : bool
        Whether values became stable.
    diverged : bool
        Whether the values are beyond their bound, or the backup is no contraction.
    history : list of arrays (m,)
        Values at the support points before the first iteration and after each.
    """

    value: ValueGP
    actions: Array
    mean: Array
    variance: Array
    rounds: list[Round]
    converged: bool
    diverged: bool
    history: list[Array]
    backup: Backup
    low: Array
    high: Array
    candidates: int
    refine: int
    hyperparameters: list[ValueGP] = field(default_factory=list)

    @property
    def bound(self) -> float:
        """r_max / (1 - gamma)."""
        return self.backup.bound

    @property
    def support(self) -> Support:
        """The support points."""
        return self.value.support

    def __call__(self, states: ArrayLike) -> Array:
        """Greedy actions (..., F) for states (..., D)."""
        s = np.asarray(states, dtype=float)
        flat = s.reshape(-1, s.shape[-1])
        known = self.backup.outcomes(flat, candidate_actions(self.low, self.high, self.candidates))
        best, _ = self.backup.greedy(self.value, flat, known, self.low, self.high, self.refine)
        return best.reshape(s.shape[:-1] + (len(self.low),))


def policy_iteration(
    model: Any,
    support: Support,
    reward: Reward,
    action_bounds: ArrayLike,
    *,
    gamma: float = 0.9,
    noise: float = 0.01,
    iterations: int = 20,
    tolerance: float = 0.02,
    candidates: int = 17,
    refine: int = 6,
    learn: bool = True,
    sweeps: int | None = None,
    start: ValueGP | None = None,
) -> ValuePolicy:
    """Algorithm 5: a value function and its greedy policy.

    Parameters
    ----------
    model : Dynamics, System or NextStates
        Learned dynamics; or a system, for the same iteration with exact dynamics.
    support : Support
        Where values are kept: a grid, or any points.
    reward : Reward
        Of the next state.
    action_bounds : array (F, 2)
    gamma : float
        Discount factor.
    noise : float
        sigma_v of the value function, fixed.
    iterations : int
        Largest number of iterations.
    tolerance : float
        Values are stable, and the iteration ends, when none changes by more than this part of the largest.
    candidates : int
        Values of each action tried at each support point, before gradient ascent.
    refine : int
        Steps of gradient ascent; 0 for candidates alone.
    learn : bool
        Whether length scales and signal of the value function are learned in each iteration.
    sweeps : int, optional
        Number of backups by which a policy is evaluated. By default linear equations evaluate it for up to 3000 support
        points, else 20 backups.
    start : ValueGP, optional
        Value function to start from; by default that of the rewards at the support points.

    Warns
    -----
    DivergenceWarning
        Where values exceed r_max / (1 - gamma).

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.control import MountainCar
    >>> from cavity.control.value_iteration import Support, factors_of, policy_iteration, reward_of
    >>> car = MountainCar()
    >>> axes = [np.linspace(-1, 1, 19), np.linspace(-2, 2, 19)]
    >>> found = policy_iteration(
    ...     car, Support.grid(axes, factors_of(car)), reward_of(car), [[-4, 4]], candidates=5, refine=0, iterations=2
    ... )
    >>> found.actions.shape, found.bound
    ((361, 1), 10.000000000000002)
    """
    require_integer(iterations, "iterations", 1)
    model = as_model(model)
    low, high = checked_ends(action_bounds, "action_bounds", model.action_size)
    backup = Backup(model, reward, gamma)
    states = support.points
    if states.shape[1] != model.state_size:
        raise ValueError(
            f"support must have the {model.state_size} columns of the states, got {states.shape[1]}"
        )
    if sweeps is None and len(support) > MOST_EQUATIONS:
        sweeps = 20
    value = ValueGP(support, reward(states), noise=noise) if start is None else start
    if learn and start is None:
        value = value.fit()
    known = backup.outcomes(states, candidate_actions(low, high, candidates))
    monitor = Monitor(backup.bound, tolerance)
    actions = mean = variance = np.empty(0)

    def step(value: ValueGP) -> tuple[ValueGP, float]:
        nonlocal actions, mean, variance
        actions, _ = backup.greedy(value, states, known, low, high, refine)
        mean, variance = model.predict(states, actions)
        r = reward.expected(mean, variance)
        if sweeps is None:
            found = evaluate(value, mean, variance, r, gamma)
        else:
            found = sweep(value, mean, variance, r, gamma, sweeps)
        new = value.with_values(found.values)
        return new.fit() if learn else new, found.radius

    made, stable = monitor.iterate("policy iteration", iterations, value, step)
    return ValuePolicy(
        made[-1], actions, mean, variance, monitor.rounds, stable, monitor.exceeded, [v.values for v in made],
        backup, low, high, candidates, refine, made,
    )  # fmt: skip
