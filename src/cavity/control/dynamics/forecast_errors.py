"""How far learned dynamics are off, by one and by several steps, for each state variable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.numerics.arrays import Array

if TYPE_CHECKING:
    import pandas as pd

    from cavity.control.dynamics.model import Dynamics
    from cavity.control.dynamics.transitions import Transitions
    from cavity.control.problems import Trajectory


def forecast_errors(
    dynamics: Dynamics,
    test: Transitions | None,
    trajectories: Trajectory | Sequence[Trajectory] | None,
    horizons: Sequence[int],
) -> pd.DataFrame:
    """The table that `Dynamics.report` describes."""
    import pandas as pd

    from cavity.control.problems.problem import Trajectory

    names = (
        [f"s{k}" for k in range(dynamics.state_size)]
        if dynamics.problem is None
        else dynamics.problem.state_names
    )
    seen = dynamics.transitions
    targets = np.where(dynamics.difference, seen.differences, seen.next_states).T
    columns: dict[str, Any] = {
        "change": _rms(seen.differences),
        "leave-one-out": [_rms(y - m.leave_one_out().mean) for m, y in zip(dynamics.models, targets)],
        "noise": [
            float(np.sqrt(m.likelihood_.predictive(np.zeros(1), np.zeros(1)).variance[0]))
            for m in dynamics.models
        ],
        "log evidence": [m.log_evidence_ for m in dynamics.models],
    }
    if test is not None:
        mean, variance = dynamics.predict(test.states, test.actions)
        columns["one step"] = _rms(test.next_states - mean)
        columns["z"] = _rms((test.next_states - mean) / np.sqrt(variance))
    if trajectories is not None:
        listed = [trajectories] if isinstance(trajectories, Trajectory) else list(trajectories)
        for h in horizons:
            errors = [_window_errors(dynamics, one, h) for one in listed]
            columns[f"{h} steps"] = _rms(np.concatenate(errors))
    return pd.DataFrame(
        {key: np.asarray(value, dtype=float) for key, value in columns.items()}, index=list(names)
    )


def _rms(e: Array) -> Array:
    return np.asarray(np.sqrt(np.mean(e**2, axis=0)))


def _window_errors(dynamics: Dynamics, trajectory: Trajectory, h: int) -> Array:
    """Errors after h steps of the mean from every state of a trajectory that has so many behind it."""
    T = len(trajectory.actions)
    if not 1 <= h <= T:
        raise ValueError(f"horizons must be between 1 and the {T} steps of each trajectory, got {h}")
    s = trajectory.states[: T + 1 - h]
    for t in range(h):
        s = dynamics.step(s, trajectory.actions[t : T + 1 - h + t])
    return (trajectory.states[h:] - s).reshape(-1, dynamics.state_size)
