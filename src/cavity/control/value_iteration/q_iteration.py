"""Approximate Q-iteration with a Gaussian process over states and actions (Kuss, 2006, 7.3.2, Algorithm 6).

Support points are pairs (s, a)_i. Their next states N(m_i, diag(v_i)) and expected rewards r_i are computed once;
then repeat

    q_i <- r_i + gamma max_a' E Q(s', a'),    (s', a') ~ N((m_i, a'), diag(v_i, 0))                (7.42), (7.45).

The greedy policy argmax_a Q(s, a) needs no dynamics. Unlike in (7.41), the maximum is outside the expectation: one
action for all states s' may be. By Jensen's inequality these values are too low if the next state is uncertain.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cavity.control.problems.problem import checked_ends
from cavity.control.value_iteration.backup import Backup, Monitor, Round
from cavity.control.value_iteration.improvement import ascend, candidate_actions
from cavity.control.value_iteration.next_states import as_model
from cavity.control.value_iteration.rewards import Reward
from cavity.control.value_iteration.value_gp import Support, ValueGP
from cavity.numerics.arrays import Array
from cavity.runtime.checks import require_integer


@dataclass(frozen=True)
class QPolicy:
    """A Q-function and its greedy policy: what Q-iteration found.

    Call it with states (..., D) for actions (..., F); attributes as those of `ValuePolicy`, with `q` a `ValueGP` over
    states and actions.
    """

    q: ValueGP
    rounds: list[Round]
    converged: bool
    diverged: bool
    history: list[Array]
    bound: float
    low: Array
    high: Array
    candidates: int
    refine: int
    state_size: int = field(default=0)

    def __call__(self, states: ArrayLike) -> Array:
        """Greedy actions (..., F) for states (..., D)."""
        return self._best(states)[0]

    def state_value(self, states: ArrayLike) -> Array:
        """V(s) = max_a Q(s, a), shape (...)."""
        return self._best(states)[1]

    def _best(self, states: ArrayLike) -> tuple[Array, Array]:
        s = np.asarray(states, dtype=float)
        flat = s.reshape(-1, s.shape[-1])
        grid = candidate_actions(self.low, self.high, self.candidates)
        a, v = maximize_q(self.q, flat, np.zeros(flat.shape), grid, self.low, self.high, self.refine)
        return a.reshape(s.shape[:-1] + (len(self.low),)), v.reshape(s.shape[:-1])


def maximize_q(
    q: ValueGP, mean: Array, variance: Array, candidates: Array, low: Array, high: Array, refine: int
) -> tuple[Array, Array]:
    """Actions (B, F) that maximize E Q(s', a') for s' ~ N(mean, diag(variance)), and the maxima (B,)."""
    B, C, F = len(mean), len(candidates), len(low)
    of_actions = _Reduced(q, mean, variance) if q.support.axes is not None else _Joint(q, mean, variance)
    table = of_actions.table(candidates)
    best = table.argmax(axis=1)
    if refine == 0:
        return candidates[best], table[np.arange(B), best]
    first = 0.5 * (high - low) / max(C ** (1.0 / F) - 1.0, 1.0)
    return ascend(of_actions.gradient, candidates[best], low, high, first, refine)


class _Joint:
    """E Q(s', a') as a function of actions, for any support points."""

    def __init__(self, q: ValueGP, mean: Array, variance: Array) -> None:
        self.q, self.mean, self.variance = q, mean, variance

    def table(self, candidates: Array) -> Array:
        """Every row with every candidate, shape (B, C)."""
        B, C = len(self.mean), len(candidates)
        z = np.concatenate([np.repeat(self.mean, C, axis=0), np.tile(candidates, (B, 1))], axis=1)
        still = np.zeros((B * C, candidates.shape[1]))
        spread = np.concatenate([np.repeat(self.variance, C, axis=0), still], axis=1)
        return self.q.expected(z, spread).reshape(B, C)

    def gradient(self, rows: NDArray[np.intp], a: Array) -> tuple[Array, Array]:
        """Values (b,) and slopes (b, F) of some rows with actions (b, F)."""
        z = np.concatenate([self.mean[rows], a], axis=1)
        spread = np.concatenate([self.variance[rows], np.zeros(a.shape)], axis=1)
        value, slope, _ = self.q.derivatives(z, spread)
        return value, slope[:, -a.shape[1] :]


class _Reduced:
    """The same on a grid: columns of the state are integrated out once, a sum over bumps in the actions is left."""

    def __init__(self, q: ValueGP, mean: Array, variance: Array) -> None:
        D = mean.shape[1]
        assert q.support.axes is not None
        self.rest = q.remainder(mean, variance)
        self.parts = list(zip(q.support.factors[D:], q.support.axes[D:], q.lengths[D:]))

    def table(self, candidates: Array) -> Array:
        """Every row with every candidate, shape (B, C)."""
        T = np.ones((len(candidates), 1))
        for d, (f, axis, width) in enumerate(self.parts):
            b = f.expected(candidates[:, d], np.zeros(len(candidates)), axis, float(width))
            T = (T[:, :, None] * b[:, None, :]).reshape(len(candidates), -1)
        return np.asarray(self.rest.reshape(len(self.rest), -1) @ T.T)

    def gradient(self, rows: NDArray[np.intp], a: Array) -> tuple[Array, Array]:
        """Values (b,) and slopes (b, F) of some rows with actions (b, F)."""
        still = np.zeros(len(a))
        bumps = [
            f.derivatives(a[:, d], still, axis, float(width))[:2]
            for d, (f, axis, width) in enumerate(self.parts)
        ]
        plain = [b for b, _ in bumps]
        slopes = [
            _rows(self.rest[rows], [*plain[:d], bumps[d][1], *plain[d + 1 :]]) for d in range(len(bumps))
        ]
        return _rows(self.rest[rows], plain), np.stack(slopes, axis=1)


def _rows(coefficients: Array, factors: list[Array]) -> Array:
    """sum over bumps of coefficients (b, n_1, ...) times the product of factors (b, n_d), shape (b,)."""
    T = coefficients
    for f in factors:
        T = np.einsum("bi...,bi->b...", T, f)
    return T


def q_iteration(
    model: Any,
    support: Support,
    reward: Reward,
    action_bounds: ArrayLike,
    *,
    gamma: float = 0.9,
    noise: float = 0.01,
    iterations: int = 60,
    tolerance: float = 0.02,
    candidates: int = 17,
    refine: int = 4,
    learn: bool = True,
    start: ValueGP | None = None,
) -> QPolicy:
    """Algorithm 6: a Q-function and its greedy policy.

    Parameters
    ----------
    model : Dynamics, System or NextStates
    support : Support
        Points (m, D + F) of states and actions together.
    reward, action_bounds, gamma, noise, iterations, tolerance, candidates, refine, learn, start
        As for `policy_iteration`; by default it starts from the expected rewards.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.control import MountainCar
    >>> from cavity.control.value_iteration import Line, Support, factors_of, q_iteration, reward_of
    >>> car = MountainCar()
    >>> axes = [np.linspace(-1, 1, 13), np.linspace(-2, 2, 13), np.linspace(-4, 4, 10)]
    >>> found = q_iteration(
    ...     car, Support.grid(axes, [*factors_of(car), Line()]), reward_of(car), [[-4, 4]], refine=0, iterations=2
    ... )
    >>> found(car.start).shape
    (1,)
    """
    require_integer(iterations, "iterations", 1)
    model = as_model(model)
    low, high = checked_ends(action_bounds, "action_bounds", model.action_size)
    D, F = model.state_size, model.action_size
    z = support.points
    if z.shape[1] != D + F:
        raise ValueError(f"support must have {D + F} columns, states and actions, got {z.shape[1]}")
    backup = Backup(model, reward, gamma)
    mean, variance = model.predict(z[:, :D], z[:, D:])
    r = reward.expected(mean, variance)
    grid = candidate_actions(low, high, candidates)
    q = ValueGP(support, r, noise=noise) if start is None else start
    q = q.fit() if learn and start is None else q
    monitor = Monitor(backup.bound, tolerance)

    def step(q: ValueGP) -> tuple[ValueGP, float]:
        _, best = maximize_q(q, mean, variance, grid, low, high, refine)
        new = q.with_values(r + gamma * best)
        return new.fit() if learn else new, float("nan")

    made, stable = monitor.iterate("Q-iteration", iterations, q, step)
    history = [one.values for one in made]
    return QPolicy(
        made[-1], monitor.rounds, stable, monitor.exceeded, history, backup.bound, low, high, candidates, refine, D
    )  # fmt: skip
