"""Exact solutions of finite decision processes: Bellman equations, policy and value iteration, linear programming.

V = r + gamma T V          (7.12), r and T those of a policy: a linear system
Q(s, a) = E[r | s, a] + gamma sum_s' T(s' | s, a) V(s')                                                 (7.7b)
p+(s) = argmax_a Q(s, a)                                                                                (7.14)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cavity.control.mdp.tables import MDP, Indices
from cavity.numerics.arrays import Array
from cavity.runtime.checks import require_integer

TIE = 1e-10
"""Difference of two actions, relative to the values of a state, below which they count as equally good."""

ROUNDING = 1e-14
"""The same relative to the values of all states: what linear equations leave undecided."""


@dataclass(frozen=True)
class Solution:
    """A policy with its values.

    Attributes
    ----------
    policy : array (S,) of int
    values : array (S,)
    q : array (S, A)
    iterations : int
    error : float
        Bound of the error of the values; zero up to rounding if they come from linear equations, infinite if
        no bound is known (gamma = 1).
    converged : bool

    Examples
    --------
    >>> from cavity.control.mdp import random_walk, value_iteration
    >>> solution = value_iteration(random_walk(3))
    >>> solution.values.round(4), solution.converged
    (array([1., 1., 1.]), True)
    """

    policy: Indices
    values: Array
    q: Array
    iterations: int
    error: float
    converged: bool = True


def q_values(mdp: MDP, values: ArrayLike) -> Array:
    """Q(s, a) of one action followed by what `values` (S,) promise, shape (S, A).

    Examples
    --------
    >>> from cavity.control.mdp import q_values, random_walk
    >>> q_values(random_walk(3), [0.25, 0.5, 0.75])  # to the left, to the right
    array([[0.  , 0.5 ],
           [0.25, 0.75],
           [0.5 , 1.  ]])
    """
    return np.asarray(mdp.expected_rewards + mdp.gamma * (mdp.transitions @ np.asarray(values, dtype=float)))


def evaluate(mdp: MDP, policy: ArrayLike) -> Array:
    """Values of a policy, exactly, from the linear equations (I - gamma T) v = r, shape (S,).

    Raises
    ------
    ValueError
        For gamma = 1 and a policy under which some states are never left: their values are infinite or undefined.

    Examples
    --------
    >>> from cavity.control.mdp import evaluate, random_walk
    >>> evaluate(random_walk(3), [[0.5, 0.5]] * 3)  # how likely the walk ends on the right
    array([0.25, 0.5 , 0.75])
    """
    p = mdp.policy(policy)
    T = np.einsum("sa,sak->sk", p, mdp.transitions)
    r = (p * mdp.expected_rewards).sum(axis=1)
    if mdp.gamma == 1.0:
        stuck = ~_ends(T)
        if stuck.any():
            raise ValueError(
                f"with gamma = 1 every episode must end, but from {int(stuck.sum())} states (first: "
                f"{int(np.argmax(stuck))}) this policy never ends; use gamma < 1, or another policy"
            )
    return np.asarray(np.linalg.solve(np.eye(mdp.states) - mdp.gamma * T, r))


def _ends(T: Array) -> NDArray[np.bool_]:
    """From which states an episode under the matrix T ends with probability one."""
    can = _leading_to(T.sum(axis=1) < 1.0 - 1e-9, T)
    # it ends for sure unless a state can be reached from which it cannot end at all
    return ~_leading_to(~can, T)


def _leading_to(states: NDArray[np.bool_], T: Array) -> NDArray[np.bool_]:
    """From which states these may be reached under the matrix T, themselves included."""
    while ((more := states | ((T > 0) & states).any(axis=1)) != states).any():
        states = more
    return states


def greedy(q: ArrayLike) -> Indices:
    """The best action in each state; the first among equals, up to rounding. Shape (S,) for q (S, A).

    Examples
    --------
    >>> from cavity.control.mdp import greedy
    >>> greedy([[1.0, 2.0], [3.0, 3.0]])
    array([1, 0])
    """
    return np.asarray(np.argmax(_as_good(np.asarray(q, dtype=float)), axis=-1))


def _as_good(q: Array) -> NDArray[np.bool_]:
    """Which actions are the best of their state up to rounding, in whatever units rewards are; of the shape of q."""
    size = np.abs(q)
    slack = TIE * size.max(axis=-1, keepdims=True) + ROUNDING * size.max()
    return np.asarray(q >= q.max(axis=-1, keepdims=True) - slack)


def _greedy_to_an_end(mdp: MDP, q: Array) -> Indices:
    """Greedy actions; for gamma = 1 such among equals that episodes end, if any do.

    Without a discount, going round in circles looks as good as what it puts off for ever. So states are settled from
    the end of episodes backwards: each takes an action, among its best, that may end the episode or lead to a state
    that is settled already.
    """
    chosen = greedy(q)
    if mdp.gamma < 1.0:
        return chosen
    best, settled = _as_good(q), np.zeros(mdp.states, dtype=bool)
    leads = best & (mdp.end > 0)
    while (new := leads.any(axis=1) & ~settled).any():
        chosen[new] = np.argmax(leads[new], axis=1)
        settled |= new
        leads = best & (mdp.transitions[:, :, settled] > 0).any(axis=2)
    return chosen


def policy_iteration(mdp: MDP, policy: ArrayLike | None = None, max_iterations: int = 1000) -> Solution:
    """Exact evaluation and greedy improvement in turn, until nothing improves (Algorithm 3).

    Parameters
    ----------
    policy : array, optional
        Where to begin; by default any action with equal probability. For gamma = 1 it must be one that ends.

    Examples
    --------
    >>> from cavity.control.mdp import grid_world, policy_iteration
    >>> solution = policy_iteration(grid_world(["S.G"]))
    >>> solution.converged, solution.policy[:2]  # right, right
    (True, array([2, 2]))
    """
    first = mdp.uniform_policy() if policy is None else mdp.policy(policy)
    present, values = greedy(first), evaluate(mdp, first)
    evaluated = bool((first.max(axis=1) == 1.0).all())  # a random policy has other values than `present`
    rows = np.arange(mdp.states)
    for iteration in range(1, max_iterations + 1):
        q = q_values(mdp, values)
        better = _greedy_to_an_end(mdp, q)
        # a policy is kept where it is as good as the best one, so that ties cannot go round in circles
        kept = _as_good(q)[rows, present] & evaluated
        following = np.where(kept, present, better)
        if evaluated and (following == present).all():
            return Solution(present, values, q, iteration, 0.0)
        present, evaluated = following, True
        values = evaluate(mdp, present)
    return Solution(present, values, q_values(mdp, values), max_iterations, np.inf, converged=False)


def value_iteration(
    mdp: MDP, values: ArrayLike | None = None, tolerance: float = 1e-10, max_iterations: int = 100_000
) -> Solution:
    """v <- max_a Q(s, a) until the values are within `tolerance` times the largest reward of the optimal ones.

    The bound is |v - v*| <= gamma / (1 - gamma) |change| for gamma < 1; for gamma = 1 iteration stops when the change
    is that small, without a bound.

    Examples
    --------
    >>> from cavity.control.mdp import grid_world, value_iteration
    >>> solution = value_iteration(grid_world(["S.G"]))
    >>> solution.converged, solution.policy  # to the right, to the right
    (True, array([2, 2]))
    """
    require_integer(max_iterations, "max_iterations", 1)
    v = np.zeros(mdp.states) if values is None else np.array(values, dtype=float)
    if v.shape != (mdp.states,):
        raise ValueError(f"values must have shape ({mdp.states},), got {v.shape}")
    factor = mdp.gamma / (1.0 - mdp.gamma) if mdp.gamma < 1.0 else 1.0
    enough = tolerance * (float(np.abs(mdp.expected_rewards).max()) or 1.0)
    change, iterations = np.inf, 0
    while iterations < max_iterations and not factor * change <= enough:
        new = q_values(mdp, v).max(axis=1)
        change, v, iterations = float(np.abs(new - v).max()), new, iterations + 1
    q = q_values(mdp, v)
    error = factor * change if mdp.gamma < 1.0 else np.inf
    return Solution(_greedy_to_an_end(mdp, q), v, q, iterations, error, factor * change <= enough)


def linear_program(mdp: MDP) -> Array:
    """Optimal values as the smallest v with v >= Q(s, a) for all actions (`scipy.optimize.linprog`), shape (S,).

    Examples
    --------
    >>> from cavity.control.mdp import grid_world, linear_program, value_iteration
    >>> world = grid_world(["S.G"])
    >>> bool(abs(linear_program(world) - value_iteration(world).values).max() < 1e-6)
    True
    """
    from scipy.optimize import linprog

    S, A = mdp.states, mdp.actions
    constraints = mdp.gamma * mdp.transitions.reshape(S * A, S) - np.repeat(np.eye(S), A, axis=0)
    rewards = mdp.expected_rewards
    unit = float(np.abs(rewards).max()) or 1.0  # tolerances of the program are for numbers near one
    done = linprog(
        np.ones(S), A_ub=constraints, b_ub=-rewards.ravel() / unit, bounds=(None, None), method="highs"
    )
    if done.status != 0:
        raise ValueError(f"the linear program has no solution ({done.message}): do all episodes end?")
    return unit * np.asarray(done.x, dtype=float)
