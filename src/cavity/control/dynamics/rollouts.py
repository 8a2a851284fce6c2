"""Distributions of states over time, what a controller does at a distribution of states, and errors of forecasts.

A controller is a sequence of actions, or a policy. With s ~ N(m, S), the joint distribution of s and the action u(s) is
needed: from the policy's own moments, if it has a method `forward`, or by third-degree spherical cubature: the
2 D points m +- sqrt(D) A_i, A_i the columns of a root of S, all with the same weight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.control.dynamics.transitions import Transitions, model_inputs
from cavity.control.problems import Trajectory
from cavity.numerics.arrays import Array
from cavity.runtime.checks import require_integer
from cavity.runtime.progress import Progress

if TYPE_CHECKING:
    import pandas as pd

    from cavity.control.dynamics.model import Dynamics


@dataclass(frozen=True)
class Rollout:
    """Distributions of the state over time, Gaussian by moment matching or of particles.

    Attributes
    ----------
    means : array (T + 1, D)
    covariances : array (T + 1, D, D)
    crosses : array (T, D, D)
        Cov(s_t, s_{t+1}).
    actions : array (T, F)
        Mean actions.
    particles : array (T + 1, R, D) or None
        The states themselves, of Monte Carlo roll-outs.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.control import Dynamics, MountainCar, Transitions
    >>> car = MountainCar(dt=0.3)
    >>> model = Dynamics.fit(Transitions.draw(car, 20, rng=0), problem=car, n_restarts=0, rng=0)
    >>> rollout = model.rollout(car.start, np.zeros((3, 1)))
    >>> rollout.means.shape, rollout.sds.shape
    ((4, 2), (4, 2))
    """

    means: Array
    covariances: Array
    crosses: Array
    actions: Array
    particles: Array | None = None

    @property
    def sds(self) -> Array:
        """Standard deviations, shape (T + 1, D)."""
        return np.sqrt(np.maximum(np.diagonal(self.covariances, axis1=1, axis2=2), 0.0))


def controller(control: Any, horizon: int | None, F: int) -> tuple[int, Callable[[int], Array | None]]:
    """Number of steps, and the given action of each step (None for a policy)."""
    if callable(control) or hasattr(control, "forward"):
        if horizon is None:
            raise ValueError("horizon must be given with a policy: the number of steps")
        return require_integer(horizon, "horizon", 0), lambda t: None
    actions: Array = np.asarray(control, dtype=float)
    if actions.ndim != 2 or actions.shape[1] != F or not np.isfinite(actions).all():
        raise ValueError(f"actions must be finite and of shape (steps, {F}), got {actions.shape}")
    if horizon is not None and horizon > len(actions):
        raise ValueError(f"horizon must be at most the number of actions, {len(actions)}, got {horizon}")
    return len(actions) if horizon is None else require_integer(horizon, "horizon", 0), lambda t: actions[t]


def at_point(control: Any, given: Array | None, s: Array, F: int) -> Array:
    """The F actions at states (..., D): those given, or the policy's, shape (..., F)."""
    lead = s.shape[:-1]
    if given is not None:
        return np.broadcast_to(given, (*lead, F))
    if callable(control):
        actions: Array = np.asarray(control(s), dtype=float)
        if actions.shape != (*lead, F) and not (F == 1 and actions.shape == lead):
            raise ValueError(
                f"the policy must map states of shape {s.shape} to actions of shape {(*lead, F)}, row by row, but "
                f"gave {actions.shape}; index states as in s[..., 0]"
            )
        return actions.reshape(*lead, F)
    flat = s.reshape(-1, s.shape[-1])
    zero = np.zeros((s.shape[-1],) * 2)
    values = np.array([control.forward(row, zero)[0].mean for row in flat])
    return values.reshape(*lead, F)


def joint(mean: Array, cov: Array, control: Any, given: Array | None, F: int) -> tuple[Array, Array]:
    """Mean and covariance of (s, a) for s ~ N(mean, cov)."""
    if given is not None:
        cross, u, V = np.zeros((len(mean), len(given))), given, np.zeros((len(given),) * 2)
    elif hasattr(control, "forward"):
        action, _ = control.forward(mean, cov)
        u, V, cross = action.mean, action.covariance, cov @ action.gain
    else:
        D = len(mean)
        spread = np.sqrt(D) * root(cov).T
        offsets = np.concatenate([spread, -spread])
        values = at_point(control, None, mean + offsets, F)
        u = values.mean(axis=0)
        V, cross = (values - u).T @ (values - u) / (2 * D), offsets.T @ (values - u) / (2 * D)
    m = np.concatenate([mean, u])
    return m, np.block([[cov, cross], [cross.T, V]])


def root(cov: Array) -> Array:
    """A with A A' = cov, also if that is singular."""
    values, vectors = np.linalg.eigh(cov)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def moment_rollout(
    dynamics: Dynamics, start: tuple[Array, Array], control: Any, horizon: int | None, mean_only: bool
) -> Rollout:
    """Gaussian states by moment matching; see `Dynamics.rollout`. `start` is a mean (D,) and a covariance (D, D)."""
    mean, cov = start
    steps, action_at = controller(control, horizon, dynamics.action_size)
    D = dynamics.state_size
    means, covs, crosses, actions = [mean], [cov], [], []
    for t in range(steps):
        if mean_only:
            a = at_point(control, action_at(t), mean, dynamics.action_size)
            mean, cov, cross = dynamics.step(mean, a), np.zeros((D, D)), np.zeros((D, D))
        else:
            m, S = joint(mean, cov, control, action_at(t), dynamics.action_size)
            a = m[D:]
            result, _ = dynamics.forward(m, S, check=False)
            mean, cov, cross = result.mean, result.covariance, result.cross[:D]
        means.append(mean)
        covs.append(cov)
        crosses.append(cross)
        actions.append(a)
    return Rollout(
        np.array(means),
        np.array(covs),
        np.array(crosses).reshape(steps, D, D),
        np.array(actions).reshape(steps, dynamics.action_size),
    )


def sampled_rollouts(
    dynamics: Dynamics,
    start: tuple[Array, Array],
    control: Any,
    horizon: int | None,
    size: int,
    rng: np.random.Generator,
    consistent: bool,
) -> Rollout:
    """Monte Carlo roll-outs; see `Dynamics.sample_rollouts`. `start` is a mean (D,) and a covariance (D, D)."""
    from cavity.control.dynamics.sampled_functions import FunctionDraws

    mean, cov = start
    steps, action_at = controller(control, horizon, dynamics.action_size)
    s = mean + rng.standard_normal((size, len(mean))) @ root(cov).T
    draws = [FunctionDraws(p.process, size, steps if consistent else 0) for p in dynamics.posteriors]
    noise_sd = np.sqrt(dynamics.moments.noise) if dynamics.noise else np.zeros(dynamics.state_size)
    states, actions = [s], []
    with Progress("roll-outs", steps) as progress:
        for t in range(steps):
            a = at_point(control, action_at(t), s, dynamics.action_size)
            x = model_inputs(s, a, dynamics.angles)
            f = np.column_stack([draw.at(x, rng) for draw in draws])
            s = dynamics.difference * s + f + noise_sd * rng.standard_normal(s.shape)
            states.append(s)
            actions.append(a)
            progress.advance()
    particles = np.array(states)
    centered = particles - particles.mean(axis=1, keepdims=True)
    covs = np.einsum("tri,trj->tij", centered, centered) / (size - 1)
    crosses = np.einsum("tri,trj->tij", centered[:-1], centered[1:]) / (size - 1)
    mean_actions = np.array(actions).reshape(steps, size, dynamics.action_size).mean(axis=1)
    return Rollout(particles.mean(axis=1), covs, crosses, mean_actions, particles)


def forecast_errors(
    dynamics: Dynamics,
    test: Transitions | None,
    trajectories: Trajectory | Sequence[Trajectory] | None,
    horizons: Sequence[int],
) -> pd.DataFrame:
    """The table that `Dynamics.report` describes."""
    import pandas as pd

    seen, problem = dynamics.transitions, dynamics.problem
    names = [f"s{k}" for k in range(dynamics.state_size)] if problem is None else problem.state_names
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
    """Errors of the mean after h steps, from every state of a trajectory that h more steps follow."""
    T = len(trajectory.actions)
    if not 1 <= h <= T:
        raise ValueError(f"horizons must be between 1 and the {T} steps of each trajectory, got {h}")
    s = trajectory.states[: T + 1 - h]
    for t in range(h):
        s = dynamics.step(s, trajectory.actions[t : T + 1 - h + t])
    return (trajectory.states[h:] - s).reshape(-1, dynamics.state_size)
