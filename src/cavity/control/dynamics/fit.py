"""Learning of `Dynamics`: a Gaussian process for each state variable, with defaults and bounds if none were given."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from cavity.control.dynamics.transitions import Transitions, input_names, model_inputs
from cavity.control.problems import Problem
from cavity.estimators import GPRegressor
from cavity.kernels import SE, ard
from cavity.likelihoods import Gaussian
from cavity.numerics.arrays import Array
from cavity.parameters.param import Param
from cavity.runtime.interrupts import not_swallowed
from cavity.runtime.progress import Progress

TARGETS = ("difference", "next")

LARGEST_SIGNAL, LEAST_NOISE = 30.0, 1e-3
"""Bounds of signal and noise sd, in units of what the mean function leaves of the targets. On data without noise the
evidence has no maximum in their ratio, and covariances of predictions would drown in rounding errors."""


def fit_models(
    transitions: Transitions,
    problem: Problem | None,
    angles: Sequence[int] | None,
    target: str,
    kernel: Any,
    mean: Any,
    likelihood: Any,
    least_noise: float,
    rng: Any,
    **options: Any,
) -> tuple[Sequence[int], Array, list[GPRegressor]]:
    """Angles that enter as sine and cosine, columns whose difference is predicted (D,), and a fitted model for each.

    Parameters are those of `Dynamics.fit`; `options` go to `GPRegressor`.
    """
    chosen = _checked_angles(transitions, problem, angles, target, least_noise)
    D = transitions.states.shape[1]
    _warn_of_wrapped(transitions, chosen)
    difference = np.full(D, target == "difference")
    if problem is not None:
        difference[list(problem.angles)] = True
    difference[list(chosen)] = True
    X = model_inputs(transitions.states, transitions.actions, chosen)
    Y = np.where(difference, transitions.differences, transitions.next_states)
    mean = _learnable_mean(mean, X, input_names(transitions, chosen, problem))
    rng = np.random.default_rng(rng)
    models = []
    with Progress("learning dynamics", D) as progress:
        for k in range(D):
            model = _regressor(
                X,
                Y[:, k],
                _of_state(kernel, k, D, "kernel"),
                mean,
                _of_state(likelihood, k, D, "likelihood"),
                least_noise,
                random_state=rng,
                **options,
            )
            # learning that is stopped keeps what it has; the states after this one would have nothing
            with not_swallowed():
                models.append(model.fit(X, Y[:, k]))
            progress.advance()
    return chosen, difference, models


def _checked_angles(
    transitions: Transitions,
    problem: Problem | None,
    angles: Sequence[int] | None,
    target: str,
    least_noise: float,
) -> Sequence[int]:
    """Refuse options that do not go together; the columns of angles."""
    if target not in TARGETS:
        raise ValueError(f"target must be 'difference' or 'next', got {target!r}")
    if not len(transitions):
        raise ValueError("transitions are empty: at least one is needed to learn from")
    D = transitions.states.shape[1]
    if problem is not None and (problem.state_size, problem.action_size) != (D, transitions.actions.shape[1]):
        raise ValueError(
            f"transitions have {D} states and {transitions.actions.shape[1]} actions, but the problem "
            f"{problem.name!r} has {problem.state_size} and {problem.action_size}"
        )
    chosen = (problem.angles if problem is not None else ()) if angles is None else tuple(angles)
    if not all(0 <= int(k) < D for k in chosen):
        raise ValueError(f"angles must be columns of the {D} states, got {tuple(chosen)}")
    if not 0 < least_noise <= LARGEST_SIGNAL:
        raise ValueError(f"least_noise must be positive and at most {LARGEST_SIGNAL:g}, got {least_noise!r}")
    return chosen


def _warn_of_wrapped(transitions: Transitions, angles: Sequence[int]) -> None:
    """Warn of angles that jump by more than half a turn and never leave one turn: they were measured modulo 2 pi."""
    for k in angles:
        jumps = np.abs(transitions.differences[:, k]) > np.pi
        both = np.concatenate([transitions.states[:, k], transitions.next_states[:, k]])
        if jumps.any() and np.ptp(both) <= 2.0 * np.pi:
            row = int(np.argmax(jumps))
            warnings.warn(
                f"column {k} of the states is an angle, and jumps by more than half a turn in {int(jumps.sum())} "
                f"transitions (first: from {transitions.states[row, k]:.3g} to {transitions.next_states[row, k]:.3g} "
                f"in row {row}): it seems to be wrapped. Use transitions.unwrapped([{k}])",
                stacklevel=4,
            )


def _of_state(given: Any, k: int, D: int, name: str) -> Any:
    """An option for all states, or that of one of them."""
    if not isinstance(given, list | tuple):
        return given
    if len(given) != D:
        raise ValueError(f"{name} must be one, or one for each of {D} states, got {len(given)}")
    return given[k]


def _learnable_mean(mean: Any, X: Array, names: Sequence[str]) -> Any:
    """The mean function, but a constant in place of a linear one whose slopes the inputs X (n, P) cannot tell.

    Predictions take estimated slopes for known. If the data say nothing about a slope, they would be sure of a guess; a
    process around a constant is uncertain there.
    """
    if not (isinstance(mean, str) and mean == "linear"):
        return mean
    n, P = X.shape
    spread = X.std(axis=0)
    still = spread <= 1e-12 * np.abs(X).max(axis=0, initial=0.0)
    if n <= P + 1:
        why = f"{n} transitions cannot tell the {P + 1} weights of a linear mean"
    elif still.any():
        listed = ", ".join(f"{names[int(k)]} (always {X[0, k]:g})" for k in np.flatnonzero(still))
        why = f"the transitions say nothing of the effect of inputs that never change: {listed}"
    elif np.linalg.matrix_rank((X - X.mean(axis=0)) / spread, tol=1e-8 * np.sqrt(n)) < P:
        why = f"some of the inputs {', '.join(names)} follow from the others, and their effects cannot be told apart"
    else:
        return mean
    warnings.warn(
        f"{why}: the mean function is constant, not linear. Use more varied transitions, or mean='constant'",
        stacklevel=4,
    )
    return "constant"


def _regressor(
    X: Array, y: Array, kernel: Any, mean: Any, likelihood: Any, least: float, **options: Any
) -> GPRegressor:
    """A regressor for one state variable; with bounds on signal and noise if neither was given."""
    if kernel is None:
        unit = _left_over(X, y, mean) ** 2
        ceiling = LARGEST_SIGNAL**2 * unit
        kernel = Param(unit, bounds=(LEAST_NOISE**2 * unit, ceiling)) * SE(ard)
        if likelihood == "gaussian":
            likelihood = Gaussian(Param(max(0.01, least**2) * unit, bounds=(least**2 * unit, ceiling)))
    return GPRegressor(kernel, mean=mean, likelihood=likelihood, **options)


def _left_over(X: Array, y: Array, mean: Any) -> float:
    """Standard deviation of what the mean function leaves of the targets, by least squares."""
    H = np.column_stack([np.ones(len(y)), X]) if mean == "linear" else np.ones((len(y), 1))
    rest = y - H @ np.linalg.lstsq(H, y, rcond=None)[0]
    # targets that a line fits but for rounding, or constants: any small unit will do
    smallest = 1e-8 * (float(np.abs(y).max(initial=0.0)) or 1.0)
    return max(float(np.sqrt(np.mean(rest**2))), smallest)
