"""`MDP`: a finite Markov decision process as tables.

Notation: S states, A actions, T[s, a, s'] = p(s' | s, a), R[s, a, s'] = E[r | s, a, s'] (7.1), discount gamma. An
episode may end with a transition; its probability is what T[s, a] lacks of one, with a reward R_end[s, a]. So terminal
states need no special treatment anywhere: values of what comes after the end are zero because nothing comes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cavity.numerics.arrays import Array
from cavity.runtime.checks import require_between

Indices = NDArray[np.int64]

ROUNDING = 1e-9
"""By how much probabilities may miss one."""


@dataclass(frozen=True, eq=False)
class MDP:
    """A finite Markov decision process.

    Parameters
    ----------
    transitions : array (S, A, S)
        Probabilities of the next state. Rows may sum to less than one: with the rest the episode ends.
    rewards : array (S, A, S) or (S, A)
        Expected reward of each transition, or of each action.
    gamma : float
        Discount rate in [0, 1]; 1 only for processes that end.
    end_rewards : array (S, A), optional
        Expected reward of a transition that ends the episode; zero by default, or that of the action.
    start : array (S,), optional
        Probabilities of the first state; uniform by default.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.control.mdp import MDP, policy_iteration
    >>> stay_or_leave = MDP([[[1.0], [0.0]]], [[1.0, 5.0]], gamma=0.9)
    >>> policy_iteration(stay_or_leave).values  # staying for ever: 1 / (1 - 0.9)
    array([10.])
    """

    transitions: Array
    rewards: Array
    gamma: float = 0.9
    end_rewards: Array | None = None
    start: Array | None = None
    end: Array = field(init=False, repr=False)
    """Probability that the episode ends, shape (S, A)."""

    def __post_init__(self) -> None:
        T = np.array(self.transitions, dtype=float)
        if T.ndim != 3 or T.shape[0] != T.shape[2] or 0 in T.shape:
            raise ValueError(f"transitions must have shape (S, A, S), got {T.shape}")
        total = T.sum(axis=2)
        if not np.isfinite(T).all() or (T < -ROUNDING).any() or (total > 1.0 + ROUNDING).any():
            s, a = np.argwhere(~np.isfinite(total) | (T.min(axis=2) < -ROUNDING) | (total > 1.0 + ROUNDING))[
                0
            ]
            raise ValueError(
                f"transitions must be probabilities that sum to at most one, got {T[s, a]} for state {s} and action {a}"
            )
        end = np.where(total > 1.0 - ROUNDING, 0.0, 1.0 - total)
        R = np.array(self.rewards, dtype=float)
        if R.shape not in (T.shape, T.shape[:2]) or not np.isfinite(R).all():
            raise ValueError(f"rewards must be finite and of shape {T.shape} or {T.shape[:2]}, got {R.shape}")
        ending = R if R.ndim == 2 else np.zeros(T.shape[:2])
        if self.end_rewards is not None:
            ending = np.array(self.end_rewards, dtype=float)
            if ending.shape != T.shape[:2] or not np.isfinite(ending).all():
                raise ValueError(f"end_rewards must be finite and of shape {T.shape[:2]}, got {ending.shape}")
        require_between(self.gamma, "gamma")
        start = np.full(len(T), 1.0 / len(T)) if self.start is None else np.array(self.start, dtype=float)
        if start.shape != (len(T),) or not (start >= 0).all() or abs(start.sum() - 1.0) > ROUNDING:
            raise ValueError(f"start must be {len(T)} probabilities that sum to one, got {self.start!r}")
        full = R if R.ndim == 3 else np.repeat(R[:, :, None], len(T), axis=2)
        for name, value in (
            ("transitions", T),
            ("rewards", full),
            ("end_rewards", ending),
            ("start", start),
            ("end", end),
        ):
            object.__setattr__(self, name, value)

    @property
    def states(self) -> int:
        """Number S of states."""
        return int(self.transitions.shape[0])

    @property
    def actions(self) -> int:
        """Number A of actions."""
        return int(self.transitions.shape[1])

    @property
    def expected_rewards(self) -> Array:
        """E[r | s, a], shape (S, A)."""
        ending = 0.0 if self.end_rewards is None else self.end * self.end_rewards
        return np.asarray(np.einsum("ijk,ijk->ij", self.transitions, self.rewards) + ending)

    def policy(self, given: ArrayLike) -> Array:
        """A policy as probabilities (S, A): from probabilities, or from one action for each state."""
        p = np.asarray(given)
        if p.shape == (self.states,) and np.issubdtype(p.dtype, np.integer):
            if (p < 0).any() or (p >= self.actions).any():
                raise ValueError(f"policy must name actions from 0 to {self.actions - 1}, got {p}")
            return np.asarray(np.eye(self.actions)[p])
        p = np.asarray(p, dtype=float)
        if p.shape != (self.states, self.actions) or not (p >= -ROUNDING).all():
            raise ValueError(
                f"policy must be {self.states} integers, or probabilities of shape "
                f"{(self.states, self.actions)}, got {given!r}"
            )
        if (np.abs(p.sum(axis=1) - 1.0) > ROUNDING).any():
            raise ValueError(f"policy must sum to one in each state, got sums {p.sum(axis=1)}")
        return p

    def uniform_policy(self) -> Array:
        """Each action equally likely, shape (S, A)."""
        return np.full((self.states, self.actions), 1.0 / self.actions)


class Simulator:
    """Many independent agents in one process, a step of all of them at a time."""

    def __init__(self, mdp: MDP, agents: int, rng: np.random.Generator) -> None:
        self.mdp, self.rng, self.agents = mdp, rng, agents
        outcomes = np.concatenate([mdp.transitions, mdp.end[:, :, None]], axis=2)
        self._cumulated = np.cumsum(outcomes, axis=2)
        self._cumulated[:, :, -1] = 1.0 + ROUNDING
        ending = np.zeros((mdp.states, mdp.actions)) if mdp.end_rewards is None else mdp.end_rewards
        self._rewards = np.concatenate([mdp.rewards, ending[:, :, None]], axis=2)
        assert mdp.start is not None
        self._start = np.cumsum(mdp.start)
        self._start[-1] = 1.0 + ROUNDING

    def reset(self, size: int | None = None) -> Indices:
        """First states of some agents."""
        u = self.rng.random(self.agents if size is None else size)
        return np.searchsorted(self._start, u, side="right").astype(np.int64)

    def step(self, s: Indices, a: Indices) -> tuple[Indices, Array, NDArray[np.bool_]]:
        """Next states, rewards, and whether episodes ended (the next state then is a new first one)."""
        u = self.rng.random(len(s))
        after = (self._cumulated[s, a] <= u[:, None]).sum(axis=1)
        reward = self._rewards[s, a, after]
        over = after == self.mdp.states
        if over.any():
            after = after.copy()
            after[over] = self.reset(int(over.sum()))
        return after.astype(np.int64), reward, over
