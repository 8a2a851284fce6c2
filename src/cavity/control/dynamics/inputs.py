"""Inputs of learned dynamics: state and action, with each angle as sine and cosine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cavity.control.dynamics.transitions import Transitions
from cavity.numerics.arrays import Array

if TYPE_CHECKING:
    from cavity.control.problems import Problem


def model_inputs(s: Array, a: Array, angles: Sequence[int]) -> Array:
    """x = g(s, a), shape (..., inputs): other columns in order, then sine and cosine of angles, as `angle_map`."""
    rest = [k for k in range(s.shape[-1]) if k not in angles]
    trig = [part for k in angles for part in (np.sin(s[..., k : k + 1]), np.cos(s[..., k : k + 1]))]
    return np.concatenate([s[..., rest], a, *trig], axis=-1)


def input_names(transitions: Transitions, angles: Sequence[int], problem: Problem | None) -> list[str]:
    """Names of the columns of `model_inputs`."""
    D, F = transitions.states.shape[1], transitions.actions.shape[1]
    states = [f"s{k}" for k in range(D)] if problem is None else problem.state_names
    actions = [f"a{k}" for k in range(F)] if problem is None else problem.action_names
    rest = [states[k] for k in range(D) if k not in angles]
    return [*rest, *actions, *(f"{wave} {states[k]}" for k in angles for wave in ("sin", "cos"))]
