"""`Transitions`: what was seen of a system, (state, action, next state), one row each.

They come from a simulated system (`draw`), from any Gymnasium environment with boxes for spaces (`collect`), from a
trajectory, from a log (`of_log`), or as arrays; Gymnasium is needed only for its own environments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cavity.control.problems.problem import Policy, Problem, System, Trajectory, checked_ends
from cavity.numerics.arrays import Array
from cavity.runtime.checks import require_integer
from cavity.runtime.progress import Progress

IN_VAIN = 100
"""Episodes in a row without a complete transition, after which collecting is given up."""


@dataclass(frozen=True, eq=False)
class Transitions:
    """Observed transitions of a system.

    Parameters
    ----------
    states : array (n, D)
    actions : array (n, F)
        A vector of length n is taken for one column.
    next_states : array (n, D)
        Angles must not be wrapped between a state and its next one: a step from 3.1 to 3.2 is not one to -3.08. See
        `unwrapped`.

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
        """The transitions of some rows: an index, a slice, indices or a mask."""
        chosen = np.atleast_1d(np.arange(len(self))[rows])
        return Transitions(self.states[chosen], self.actions[chosen], self.next_states[chosen])

    def __add__(self, other: Transitions) -> Transitions:
        return Transitions.concatenate([self, other])

    @property
    def differences(self) -> Array:
        """next_states - states, shape (n, D)."""
        return self.next_states - self.states

    def unwrapped(self, angles: Sequence[int]) -> Transitions:
        """The same with next angles within half a turn of the present ones, for columns that were measured modulo 2 pi.

        Examples
        --------
        >>> from cavity.control import Transitions
        >>> Transitions([[3.1]], [[0.0]], [[-3.08]]).unwrapped([0]).next_states.round(2)
        array([[3.2]])
        """
        columns = [int(k) for k in angles]
        if not all(0 <= k < self.states.shape[1] for k in columns):
            raise ValueError(f"angles must be columns of the {self.states.shape[1]} states, got {angles!r}")
        after = self.next_states.copy()
        after[:, columns] = _nearest_turn(after[:, columns], self.states[:, columns])
        return Transitions(self.states, self.actions, after)

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
    def of_log(
        cls, states: ArrayLike, actions: ArrayLike, *, episodes: ArrayLike | None = None, memory: int = 0
    ) -> Transitions:
        """The transitions of a log with a row for each point in time, all the same time apart.

        Parameters
        ----------
        states : array or DataFrame (T, D)
            In the order of time. Transitions from or to a row with missing values are left out.
        actions : array or DataFrame (T, F)
            The action of a row is held until the next row.
        episodes : array (T,), optional
            A label for each row: rows that follow each other with different labels make no transition.
        memory : int
            Earlier actions that count as states, behind those given: the last action, the one before it, and so on,
            F columns each. For systems that answer to actions with a delay of up to that many steps.

        Examples
        --------
        >>> import numpy as np
        >>> from cavity.control import Transitions
        >>> log = Transitions.of_log([[0.0], [1.0], [3.0], [9.0]], [1.0, 2.0, 6.0, 0.0], episodes=[7, 7, 7, 8])
        >>> log.states.ravel(), log.actions.ravel(), log.next_states.ravel()
        (array([0., 1.]), array([1., 2.]), array([1., 3.]))
        """
        s, a = _columns(states, "states"), _columns(actions, "actions")
        if len(a) != len(s):
            raise ValueError(f"actions must have one row for each of {len(s)} states, got {len(a)}")
        labels = np.zeros(len(s)) if episodes is None else np.asarray(episodes)
        if labels.shape != (len(s),):
            raise ValueError(f"episodes must be a label for each of {len(s)} rows, got shape {labels.shape}")
        run = np.concatenate([[0], np.cumsum(labels[1:] != labels[:-1])])[: len(s)]
        for k in range(1, require_integer(memory, "memory", 0) + 1):
            earlier = np.full(a.shape, np.nan)
            earlier[k:] = np.where((run[k:] == run[:-k])[:, None], a[:-k], np.nan)
            s = np.hstack([s, earlier])
        known = np.asarray(np.isfinite(s).all(axis=1))
        kept = (run[1:] == run[:-1]) & known[1:] & known[:-1] & np.isfinite(a[:-1]).all(axis=1)
        if not kept.any():
            raise ValueError(
                f"no two rows of the log that follow each other make a transition: of {len(s)} rows in "
                f"{len(np.unique(run))} episodes, {int(known.sum())} have all states"
            )
        return cls(s[:-1][kept], a[:-1][kept], s[1:][kept])

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
            Maps a state (D,) to an action (F,), which is limited to the action space, as by an actuator; by default
            actions are drawn uniformly within their bounds.
        seed : int, optional
            Of the environment's first reset and of the random actions.
        problem : Problem, optional
            Says how states follow from observations and which are angles; by default observations are states. Angles
            that come from sines and cosines, or whose observations span one turn, go on beyond it.
        action_bounds : array (F, 2), optional
            For random actions if the action space is unbounded.
        hold : int
            Steps of the environment for which an action is held; they make one transition. One that is cut short by
            the end of an episode is left out.
        """
        size, hold = require_integer(size, "size", 1), require_integer(hold, "hold", 1)
        bounds = _random_bounds(env, problem, action_bounds) if policy is None else None
        rng = np.random.default_rng(seed)
        state_of: Callable[[Any], Array] = np.asarray if problem is None else problem.state_of
        angles = _wrapped_angles(env, problem)
        rows: list[tuple[Array, Array, Array]] = []
        over, first, state, in_vain = True, True, np.empty(0), 0
        with Progress("collecting", size) as progress:
            while len(rows) < size:
                if over:
                    if in_vain == IN_VAIN:
                        raise ValueError(
                            f"{IN_VAIN} episodes of the environment ended within hold={hold} steps: give fewer"
                        )
                    in_vain += 1
                    seen, _ = env.reset(seed=seed if first else None)
                    state, first = np.array(state_of(seen), dtype=float), False
                action = (
                    rng.uniform(*bounds) if bounds is not None else _action(policy, state, env.action_space)
                )
                seen, made, over = _held(env, action, hold)
                if made < hold:
                    continue
                after = np.array(state_of(seen), dtype=float)
                after[angles] = _nearest_turn(after[angles], state[angles])
                rows.append((state, action, after))
                state, in_vain = after, 0
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
        columns = zip(*((part.states, part.actions, part.next_states) for part in parts))
        return cls(*(np.concatenate(column) for column in columns))


def _columns(given: ArrayLike, name: str) -> Array:
    """A matrix of numbers, missing ones too; a vector becomes a column."""
    try:
        matrix: Array = np.array(given, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers in rows of equal length: {error}") from None
    if matrix.ndim == 1:
        matrix = matrix[:, None]
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise ValueError(f"{name} must have shape (n, columns), got {matrix.shape}")
    return matrix


def _matrix(given: ArrayLike, name: str) -> Array:
    """A finite matrix; a vector becomes a column."""
    matrix = _columns(given, name)
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
        return checked_ends(given, "action_bounds", len(low))
    if problem is not None:
        low, high = problem.action_low, problem.action_high
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise ValueError(
            f"random actions need bounds, and action_space is unbounded: {env.action_space}. Give action_bounds, "
            "an array of rows (low, high), or a policy"
        )
    return np.asarray(low, dtype=float), np.asarray(high, dtype=float)


def _held(env: Any, action: Array, hold: int) -> tuple[Any, int, bool]:
    """What is seen after an action was held, the steps that were made, and whether the episode is over."""
    made, over, seen = 0, False, None
    while made < hold and not over:
        seen, _, terminated, truncated, _ = env.step(action.astype(env.action_space.dtype))
        made, over = made + 1, bool(terminated or truncated)
    return seen, made, over


def _action(policy: Policy | None, state: Array, space: Any) -> Array:
    """The action of a policy, limited to the action space."""
    assert policy is not None
    wanted = np.atleast_1d(np.asarray(policy(state), dtype=float))
    low, high = getattr(space, "low", None), getattr(space, "high", None)
    return wanted if low is None or high is None else np.clip(wanted, low, high)


def _wrapped_angles(env: Any, problem: Problem | None) -> list[int]:
    """Columns of angles that an environment shows modulo 2 pi: from sines and cosines, or within one turn."""
    if problem is None or not problem.angles:
        return []
    if type(problem).state_of is not Problem.state_of:
        return list(problem.angles)
    space = env.observation_space
    low, high = getattr(space, "low", None), getattr(space, "high", None)
    if low is None or high is None:
        return []
    rounding = 1e-5  # of single precision
    return [k for k in problem.angles if high[k] - low[k] <= 2.0 * np.pi + rounding]


def _nearest_turn(angle: Array, to: Array) -> Array:
    """Angles plus as many full turns as bring them nearest to others."""
    return np.asarray(angle - 2.0 * np.pi * np.round((angle - to) / (2.0 * np.pi)))


# --- inputs of learned dynamics -----------------------------------------------------------------------------


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
