"""Finite processes to work on: grid worlds, the random walk, and Gymnasium's tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cavity.control.mdp.tables import MDP
from cavity.runtime.checks import require_between

MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))
"""Left, down, right, up, as (row, column); the order of Gymnasium's FrozenLake."""


def grid_world(
    rows: Sequence[str],
    *,
    slip: float = 0.0,
    step_reward: float = -0.04,
    goal_reward: float = 1.0,
    pit_reward: float = -1.0,
    gamma: float = 0.95,
) -> MDP:
    """A grid drawn with characters: "." free, "#" wall, "G" goal, "X" pit, "S" start (anywhere free by default).

    Actions are left, down, right, up. With probability `slip` the move goes to one of the two sides instead; a move
    into a wall or over the edge stays. Moves into a goal or a pit end the episode, with its reward instead of that of
    a step.

    Only free cells are states, numbered row by row.

    Examples
    --------
    >>> from cavity.control.mdp import grid_world, policy_iteration
    >>> world = grid_world(["...G", ".#.X", "S..."], slip=0.2)
    >>> world.states, policy_iteration(world).policy[0]  # right
    (9, np.int64(2))
    """
    cells = [list(row) for row in rows]
    if not cells or len({len(row) for row in cells}) != 1:
        raise ValueError(f"rows must be strings of one length, got {list(rows)!r}")
    strange = {cell for row in cells for cell in row} - set(".#GXS")
    if strange:
        raise ValueError(f"rows must consist of '.', '#', 'G', 'X' and 'S', got {sorted(strange)}")
    require_between(slip, "slip")
    free = [(i, j) for i, row in enumerate(cells) for j, cell in enumerate(row) if cell in ".S"]
    if not free:
        raise ValueError("rows must have at least one free cell, '.' or 'S'")
    number = {cell: k for k, cell in enumerate(free)}
    S, A = len(free), len(MOVES)
    T, R, ending = np.zeros((S, A, S)), np.full((S, A, S), step_reward), np.zeros((S, A))
    ends = {"G": goal_reward, "X": pit_reward}
    stopped = np.zeros((S, A))
    for k, (i, j) in enumerate(free):
        for a in range(A):
            for direction, p in ((a, 1.0 - slip), ((a + 1) % A, slip / 2.0), ((a - 1) % A, slip / 2.0)):
                y, x = i + MOVES[direction][0], j + MOVES[direction][1]
                inside = 0 <= y < len(cells) and 0 <= x < len(cells[0]) and cells[y][x] != "#"
                if inside and cells[y][x] in ends:
                    stopped[k, a] += p
                    ending[k, a] += p * ends[cells[y][x]]
                else:
                    T[k, a, number[(y, x)] if inside else k] += p
    end_rewards = np.divide(ending, stopped, out=np.zeros_like(ending), where=stopped > 0)
    first = np.array([cells[i][j] == "S" for i, j in free], dtype=float)
    start = first / first.sum() if first.any() else None
    return MDP(T, R, gamma, end_rewards=end_rewards, start=start)


def random_walk(size: int = 5) -> MDP:
    """Sutton's random walk: `size` states in a row, left or right, reward 1 for leaving on the right.

    Under the uniform policy the values are k / (size + 1), k = 1, ..., size.

    Examples
    --------
    >>> from cavity.control.mdp import random_walk
    >>> walk = random_walk(5)
    >>> walk.states, walk.actions
    (5, 2)
    """
    T, R_end = np.zeros((size, 2, size)), np.zeros((size, 2))
    for k in range(size):
        if k > 0:
            T[k, 0, k - 1] = 1.0
        if k < size - 1:
            T[k, 1, k + 1] = 1.0
    R_end[-1, 1] = 1.0
    start = np.eye(size)[size // 2]
    return MDP(T, np.zeros((size, 2, size)), 1.0, end_rewards=R_end, start=start)


def from_gymnasium(env: Any, gamma: float = 0.99) -> MDP:
    """The tables of a Gymnasium environment of the toy-text family: `FrozenLake-v1`, `CliffWalking-v1`, `Taxi-v3`.

    Parameters
    ----------
    env : gymnasium.Env
        With an attribute `P`: P[s][a] = [(probability, next state, reward, terminated), ...].
    gamma : float

    Examples
    --------
    >>> class Coin:
    ...     "An environment with tables as Gymnasium's toy texts have them: heads ends it with a reward."
    ...     unwrapped = type("Tables", (), {"P": {0: {0: [(0.5, 0, 1.0, True), (0.5, 0, 0.0, False)]}}})
    ...
    >>> from cavity.control.mdp import evaluate, from_gymnasium
    >>> evaluate(from_gymnasium(Coin(), gamma=1.0), [[1.0]])
    array([1.])
    """
    inner = getattr(env, "unwrapped", env)
    table = getattr(inner, "P", None)
    if table is None:
        raise ValueError(f"{env} has no table P of transitions; only toy-text environments have one")
    S, A = len(table), len(table[0])
    T, gained = np.zeros((S, A, S)), np.zeros((S, A, S))
    stopped, ending = np.zeros((S, A)), np.zeros((S, A))
    for s in range(S):
        for a in range(A):
            for p, after, reward, terminated in table[s][a]:
                if terminated:
                    stopped[s, a] += p
                    ending[s, a] += p * reward
                else:
                    T[s, a, after] += p
                    gained[s, a, after] += p * reward
    R = np.divide(gained, T, out=np.zeros_like(T), where=T > 0)
    end_rewards = np.divide(ending, stopped, out=np.zeros_like(ending), where=stopped > 0)
    start = getattr(inner, "initial_state_distrib", None)
    return MDP(
        T, R, gamma, end_rewards=end_rewards, start=None if start is None else np.asarray(start, float)
    )
