"""Learned dynamics and policies in model files.

Dynamics are their fitted regressors with the transitions they saw; the problem goes along if it is one of this package,
a plain `Problem`, or of a registered class. Policies are their settings and parameters.
"""

from __future__ import annotations

from copy import copy
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cavity.control.dynamics.model import Dynamics
from cavity.control.dynamics.transitions import Transitions
from cavity.control.policies import LinearPolicy, Policy, RBFPolicy
from cavity.control.problems import CartPole, MountainCar, Pendulum, Problem
from cavity.estimators import GPRegressor
from cavity.io.records import require, typed
from cavity.io.registry import Codec, add, constructor_arguments
from cavity.numerics.arrays import Array

MOST_VARIABLES = 1000
"""Most states and actions together that a file may have: matrices of their square are made."""

# --- problems and transitions -------------------------------------------------------------------------------


def _problem_fields(problem: Problem) -> dict[str, Any]:
    return {
        "name": problem.name,
        "state_names": list(problem.state_names),
        "action_names": list(problem.action_names),
        "region": np.column_stack([problem.state_low, problem.state_high]),
        "action_bounds": np.column_stack([problem.action_low, problem.action_high]),
        "angles": list(problem.angles),
        "start": problem.start,
        "goal": problem.goal,
        "dt": problem.dt,
    }


def _cart_pole_fields(pole: CartPole) -> dict[str, Any]:
    return {**constructor_arguments(pole), "force": float(pole.action_high[0])}


def _transitions_fields(seen: Transitions) -> dict[str, Any]:
    return {"states": seen.states, "actions": seen.actions, "next_states": seen.next_states}


add(Codec("Problem", Problem, _problem_fields, Problem))
add(Codec("MountainCar", MountainCar, constructor_arguments, MountainCar))
add(Codec("CartPole", CartPole, _cart_pole_fields, CartPole))
add(Codec("Pendulum", Pendulum, constructor_arguments, Pendulum))
add(Codec("Transitions", Transitions, _transitions_fields, Transitions))


# --- dynamics -----------------------------------------------------------------------------------------------


def _dynamics_fields(model: Dynamics) -> dict[str, Any]:
    return {
        # learning is over: where its random numbers came from is of no use, and a generator is not stored
        "models": [copy(one).set_params(random_state=None) for one in model.models],
        "transitions": model.transitions,
        "angles": list(model.angles),
        "difference": model.difference,
        "noise": model.noise,
        "problem": model.problem,
    }


@typed
def _dynamics(
    models: list[Any],
    transitions: Transitions,
    angles: list[int],
    difference: NDArray[np.bool_],
    noise: bool,
    problem: Problem | None,
) -> Dynamics:
    D, F = transitions.states.shape[1], transitions.actions.shape[1]
    require(D + F <= MOST_VARIABLES, f"states and actions must be at most {MOST_VARIABLES}")
    right = len(models) == D and all(type(m) is GPRegressor for m in models)
    require(right, "models must be a regressor for each state")
    require(_are_columns(angles, D), "angles must be columns of the states")
    inputs = D + F + len(angles)
    require(all(m.n_features_in_ == inputs for m in models), f"models must be of {inputs} inputs")
    require(difference.shape == (D,), "difference must be a flag for each state")
    sizes = problem is None or (problem.state_size, problem.action_size) == (D, F)
    require(sizes, "problem must have the states and actions of the transitions")
    return Dynamics(models, transitions, angles, difference, noise, problem)


def _are_columns(angles: list[int], D: int) -> bool:
    return all(k < D for k in angles) and len(set(angles)) == len(angles)


add(Codec("Dynamics", Dynamics, _dynamics_fields, _dynamics))


# --- policies -----------------------------------------------------------------------------------------------


def _policy_fields(policy: Policy) -> dict[str, Any]:
    return {
        "state_size": policy.state_size,
        "action_bounds": policy.bounds,
        "angles": list(policy.angles),
        "theta": policy.theta,
    }


@typed
def _policy(
    kind: type[Policy], state_size: int, action_bounds: Array, angles: list[int], theta: Array
) -> Policy:
    require(state_size >= 1, "state_size must be a count")
    require(action_bounds.ndim == 2, "action_bounds must be rows (low, high)")
    small = state_size + len(action_bounds) <= MOST_VARIABLES
    require(small, f"states and actions must be at most {MOST_VARIABLES}")
    require(_are_columns(angles, state_size), "angles must be columns of the states")
    require(theta.ndim == 1, "theta must be parameters")
    return kind(state_size, action_bounds, angles, theta)


for _kind in (LinearPolicy, RBFPolicy):
    add(Codec(_kind.__name__, _kind, _policy_fields, partial(_policy, _kind)))
