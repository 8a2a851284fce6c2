"""`Transitions`: what was seen of a system, (state, action, next state), one row each.

They come from a simulated system (`draw`), from any Gymnasium environment with boxes for spaces (`collect`), from a
trajectory, or as logged arrays; Gymnasium is needed only for its own environments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cavity.progress import Progress

if TYPE_CHECKING:
    import pandas as pd

    from cavity.control.problems import Policy, Problem, System, Trajectory

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Transitions:
    """Observed transitions of a system.

    Parameters
    ----------
    states : array (n, D)
    actions : array (n, F)
        A vector of length n is taken for one column.
    next_states : array (n, D)
        Angles must not be wrapped between a state and its next one: a step from 3.1 to 3.2 is not one to -3.08.

    Examples
    --------
    >>> from cavity.control import MountainCar, Transitions
    >>> seen = Transitions.draw(MountainCar(), 50, rng=0)
    >>> len(seen), seen.states.shape, seen.actions.shape
    (50, (50, 2), (50, 1))
    """

    states: Array
    actions: Array
    next_states: Array

    def __post_init__(self) -> None:
        for name in ("states", "actions", "next_states"):
            object.__setattr__(self, name, _matrix(getattr(self, name), name))
        n, D = self.states.shape
        if self.next_states.shape != (n, D):
            raise ValueError(
                f"next_states must have the shape of states, {(n, D)}, got {self.next_states.shape}; "
                "each row is the state that follows the one in the same row"
            )
        if len(self.actions) != n:
            raise ValueError(f"actions must have one row for each of {n} states, got {len(self.actions)}")

    def __len__(self) -> int:
        return len(self.states)

    def __repr__(self) -> str:
        n, D = self.states.shape
        return f"Transitions({n} rows, {D} states, {self.actions.shape[1]} actions)"

    def __getitem__(self, rows: Any) -> Transitions:
        """The transitions of some rows: a slice, indices or a mask."""
        return Transitions(self.states[rows], self.actions[rows], self.next_states[rows])

    def __add__(self, other: Transitions) -> Transitions:
        return Transitions.concatenate([self, other])

    @property
    def differences(self) -> Array:
        """next_states - states, shape (n, D)."""
        return self.next_states - self.states

    # --- where they come from -------------------------------------------------------------------------------

    @classmethod
    def draw(
        cls, system: System, size: int, rng: np.random.Generator | int | None = None, noise: ArrayLike = 0.0
    ) -> Transitions:
        """Independent transitions: states uniform in the system's region, actions uniform within their bounds.

        `noise` is the standard deviation of Gaussian noise on each column of the next states.
        """
        rng = np.random.default_rng(rng)
        states, actions = system.draw_states(size, rng), system.draw_actions(size, rng)
        after = system.step(states, actions)
        if np.any(np.asarray(noise) != 0):
            after = after + np.asarray(noise) * rng.standard_normal(after.shape)
        return cls(states, actions, after)

    @classmethod
    def of_trajectory(cls, trajectory: Trajectory) -> Transitions:
        """The transitions of a trajectory, or of a batch of them with states (T + 1, n, D)."""
        D, F = trajectory.states.shape[-1], trajectory.actions.shape[-1]
        return cls(
            trajectory.states[:-1].reshape(-1, D),
            trajectory.actions.reshape(-1, F),
            trajectory.states[1:].reshape(-1, D),
        )

    @classmethod
    def collect(
        cls,
        env: Any,
        size: int,
        policy: Policy | None = None,
        *,
        seed: int | None = None,
        problem: Problem | None = None,
        action_bounds: ArrayLike | None = None,
        hold: int = 1,
    ) -> Transitions:
        """Transitions of a Gymnasium environment; a new episode begins when one ends.

        Parameters
        ----------
        env : gymnasium.Env
            With boxes for observations and actions.
        size : int
            Number of transitions.
        policy : callable, optional
            Maps a state (D,) to an action (F,); by default actions are drawn uniformly within their bounds.
        seed : int, optional
            Of the environment's first reset and of the random actions.
        problem : Problem, optional
            Says how states follow from observations and which are angles; by default observations are states.
        action_bounds : array (F, 2), optional
            For random actions where the action space is unbounded.
        hold : int
            Steps of the environment for which an action is held; they make one transition.
        """
        bounds = _random_bounds(env, problem, action_bounds) if policy is None else None
        rng = np.random.default_rng(seed)
        state_of: Callable[[Any], Array] = np.asarray if problem is None else problem.state_of
        angles = list(problem.angles) if problem is not None else []
        rows: list[tuple[Array, Array, Array]] = []
        over, first, state = True, True, np.empty(0)
        with Progress("collecting", size) as progress:
            while len(rows) < size:
                if over:
                    seen, _ = env.reset(seed=seed if first else None)
                    state, first = np.array(state_of(seen), dtype=float), False
                action = rng.uniform(*bounds) if bounds is not None else _action(policy, state)
                for _ in range(hold):
                    seen, _, terminated, truncated, _ = env.step(action.astype(env.action_space.dtype))
                    after = np.array(state_of(seen), dtype=float)
                    over = bool(terminated or truncated)
                    if over:
                        break
                # an angle that was found from its sine and cosine is that next to the one before
                turns = np.round((after[angles] - state[angles]) / (2.0 * np.pi))
                after[angles] -= 2.0 * np.pi * turns * _was_wrapped(problem)
                rows.append((state, action, after))
                state = after
                progress.advance()
        return cls(*(np.array(column) for column in zip(*rows)))

    @classmethod
    def concatenate(cls, parts: Iterable[Transitions]) -> Transitions:
        """All rows of several sets of transitions, in order."""
        parts = list(parts)
        if not parts:
            raise ValueError("parts must hold at least one set of transitions")
        shapes = {(part.states.shape[1], part.actions.shape[1]) for part in parts}
        if len(shapes) > 1:
            raise ValueError(f"parts must have the same (states, actions) columns, got {sorted(shapes)}")
        return cls(
            np.concatenate([part.states for part in parts]),
            np.concatenate([part.actions for part in parts]),
            np.concatenate([part.next_states for part in parts]),
        )

    # --- as a table -----------------------------------------------------------------------------------------

    def to_frame(
        self, state_names: Sequence[str] | None = None, action_names: Sequence[str] | None = None
    ) -> pd.DataFrame:
        """A DataFrame with columns of states, actions and, named "next ...", next states."""
        import pandas as pd

        D, F = self.states.shape[1], self.actions.shape[1]
        states = [f"s{i}" for i in range(D)] if state_names is None else list(state_names)
        actions = [f"a{i}" for i in range(F)] if action_names is None else list(action_names)
        if len(states) != D or len(actions) != F:
            raise ValueError(
                f"need {D} state_names and {F} action_names, got {len(states)} and {len(actions)}"
            )
        columns = states + actions + [f"next {name}" for name in states]
        return pd.DataFrame(np.hstack([self.states, self.actions, self.next_states]), columns=columns)

    @classmethod
    def from_frame(
        cls, frame: pd.DataFrame, state_names: Sequence[str], action_names: Sequence[str]
    ) -> Transitions:
        """Transitions from the columns of a DataFrame as `to_frame` makes it."""
        after = [f"next {name}" for name in state_names]
        missing = [name for name in [*state_names, *action_names, *after] if name not in frame.columns]
        if missing:
            raise ValueError(f"frame lacks the columns {missing}; it has {list(frame.columns)}")
        parts = (list(state_names), list(action_names), after)
        return cls(*(frame[names].to_numpy(dtype=float) for names in parts))


def _matrix(given: ArrayLike, name: str) -> Array:
    """A finite matrix; a vector becomes a column."""
    try:
        matrix: Array = np.array(given, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers in rows of equal length: {error}") from None
    if matrix.ndim == 1:
        matrix = matrix[:, None]
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise ValueError(f"{name} must have shape (n, columns), got {matrix.shape}")
    bad = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
    if len(bad):
        raise ValueError(
            f"{name} must be finite, but {len(bad)} rows are not; the first is row {bad[0]}: {matrix[bad[0]]}. "
            "Leave out these rows"
        )
    matrix.setflags(write=False)
    return matrix


def _random_bounds(env: Any, problem: Problem | None, given: ArrayLike | None) -> tuple[Array, Array]:
    """Lower and upper ends of random actions."""
    low, high = getattr(env.action_space, "low", None), getattr(env.action_space, "high", None)
    if low is None or high is None:
        raise ValueError(f"action_space must be a Box, got {env.action_space}")
    if given is not None:
        ends: Array = np.asarray(given, dtype=float)
        if ends.shape != (len(low), 2):
            raise ValueError(
                f"action_bounds must have a row (low, high) for each of {len(low)} actions, got {given!r}"
            )
        low, high = ends.T
    elif problem is not None:
        low, high = problem.action_low, problem.action_high
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise ValueError(
            f"random actions need bounds, and action_space is unbounded: {env.action_space}. Give action_bounds, "
            "an array of rows (low, high), or a policy"
        )
    return np.asarray(low, dtype=float), np.asarray(high, dtype=float)


def _action(policy: Policy | None, state: Array) -> Array:
    assert policy is not None
    return np.atleast_1d(np.asarray(policy(state), dtype=float))


def _was_wrapped(problem: Problem | None) -> bool:
    """Whether states are not the observations themselves, so that angles come from sines and cosines."""
    from cavity.control.problems.problem import Problem as Base

    return problem is not None and type(problem).state_of is not Base.state_of
