"""Exact solutions of finite decision processes: Bellman equations, policy and value iteration, linear programming.

V = r + gamma T V          (7.12), r and T those of a policy: a linear system
Q(s, a) = E[r | s, a] + gamma sum_s' T(s' | s, a) V(s')                                                 (7.7b)
p+(s) = argmax_a Q(s, a)                                                                                (7.14)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cavity.control.mdp.tables import MDP, Array, Indices

TIE = 1e-10
"""Improvement of a value, relative to the largest one, below which two actions count as equally good."""


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
        Bound of the error of the values; zero up to rounding where they come from linear equations, infinite where
        no bound is known (gamma = 1).
    converged : bool
    """

    policy: Indices
    values: Array
    q: Array
    iterations: int
    error: float
    converged: bool = True


def q_values(mdp: MDP, values: ArrayLike) -> Array:
    """Q(s, a) of one action followed by what `values` (S,) promise, shape (S, A)."""
    return np.asarray(mdp.expected_rewards + mdp.gamma * (mdp.transitions @ np.asarray(values, dtype=float)))


def bellman_residual(mdp: MDP, values: ArrayLike, policy: ArrayLike | None = None) -> float:
    """Largest violation of the Bellman equation: of a policy, or of optimality by default."""
    v, q = np.asarray(values, dtype=float), q_values(mdp, values)
    right = q.max(axis=1) if policy is None else (mdp.policy(policy) * q).sum(axis=1)
    return float(np.abs(right - v).max())


def evaluate(mdp: MDP, policy: ArrayLike) -> Array:
    """Values of a policy, exactly, from the linear equations (I - gamma T) v = r, shape (S,).

    Raises
    ------
    ValueError
        For gamma = 1 and a policy under which some states are never left: their values are infinite or undefined.
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
    can = T.sum(axis=1) < 1.0 - 1e-9
    for _ in range(len(T)):
        more = can | ((T > 0) & can).any(axis=1)
        if (more == can).all():
            break
        can = more
    # it ends for sure unless a state can be reached from which it cannot end at all
    lost = ~can
    for _ in range(len(T)):
        more = lost | ((T > 0) & lost).any(axis=1)
        if (more == lost).all():
            break
        lost = more
    return np.asarray(~lost)


def greedy(q: ArrayLike) -> Indices:
    """The best action in each state; the first among equals, up to rounding. Shape (S,) for q (S, A)."""
    q = np.asarray(q, dtype=float)
    best = q.max(axis=-1, keepdims=True)
    return np.asarray(np.argmax(q >= best - TIE * np.maximum(1.0, np.abs(best)), axis=-1))


def soft_greedy(q: ArrayLike, epsilon: float) -> Array:
    """Probabilities of the epsilon-greedy policy: greedy, but with probability epsilon any action, shape (S, A)."""
    q = np.asarray(q, dtype=float)
    A = q.shape[-1]
    return np.asarray((1.0 - epsilon) * np.eye(A)[greedy(q)] + epsilon / A)


def policy_iteration(mdp: MDP, policy: ArrayLike | None = None, max_iterations: int = 1000) -> Solution:
    """Exact evaluation and greedy improvement in turn, until nothing improves (Algorithm 3).

    Parameters
    ----------
    policy : array, optional
        Where to begin; by default any action with equal probability. For gamma = 1 it must be one that ends.
    """
    first = mdp.uniform_policy() if policy is None else mdp.policy(policy)
    present, values = greedy(first), evaluate(mdp, first)
    rows = np.arange(mdp.states)
    for iteration in range(1, max_iterations + 1):
        q = q_values(mdp, values)
        better = greedy(q)
        # a policy is kept where it is as good as the best one, so that ties cannot go round in circles
        kept = q[rows, present] >= q.max(axis=1) - TIE * np.maximum(1.0, np.abs(values))
        following = np.where(kept, present, better)
        # the first policy may be a random one, whose values are not those of `present`
        if (following == present).all() and iteration > 1:
            return Solution(present, values, q, iteration, 0.0)
        present = following
        values = evaluate(mdp, present)
    return Solution(present, values, q_values(mdp, values), max_iterations, np.inf, converged=False)


def value_iteration(
    mdp: MDP, values: ArrayLike | None = None, tolerance: float = 1e-10, max_iterations: int = 100_000
) -> Solution:
    """v <- max_a Q(s, a) until the values are within `tolerance` of the optimal ones.

    The bound is |v - v*| <= gamma / (1 - gamma) |change| for gamma < 1; for gamma = 1 iteration stops when the change
    is below `tolerance`, without a bound.
    """
    if max_iterations < 1:
        raise ValueError(f"max_iterations must be positive, got {max_iterations!r}")
    v = np.zeros(mdp.states) if values is None else np.array(values, dtype=float)
    if v.shape != (mdp.states,):
        raise ValueError(f"values must have shape ({mdp.states},), got {v.shape}")
    factor = mdp.gamma / (1.0 - mdp.gamma) if mdp.gamma < 1.0 else 1.0
    change, iterations = np.inf, 0
    while iterations < max_iterations and not factor * change <= tolerance:
        new = q_values(mdp, v).max(axis=1)
        change, v, iterations = float(np.abs(new - v).max()), new, iterations + 1
    q = q_values(mdp, v)
    converged = factor * change <= tolerance
    return Solution(greedy(q), v, q, iterations, factor * change if mdp.gamma < 1.0 else np.inf, converged)


def linear_program(mdp: MDP) -> Array:
    """Optimal values as the smallest v with v >= Q(s, a) for all actions (`scipy.optimize.linprog`), shape (S,)."""
    from scipy.optimize import linprog

    S, A = mdp.states, mdp.actions
    constraints = mdp.gamma * mdp.transitions.reshape(S * A, S) - np.repeat(np.eye(S), A, axis=0)
    done = linprog(
        np.ones(S), A_ub=constraints, b_ub=-mdp.expected_rewards.ravel(), bounds=(None, None), method="highs"
    )
    if done.status != 0:
        raise ValueError(f"the linear program has no solution ({done.message}): do all episodes end?")
    return np.asarray(done.x)
