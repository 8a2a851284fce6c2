"""The Bellman backup E[r(s') + gamma V(s')] of a state and an action (7.37), greedy actions, the bound of values."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from cavity.control.value_iteration.improvement import ascend
from cavity.control.value_iteration.next_states import NextStates
from cavity.control.value_iteration.rewards import Reward
from cavity.control.value_iteration.value_gp import ValueGP
from cavity.numerics.arrays import Array
from cavity.runtime.progress import Progress

ROWS = 20_000
"""Next states predicted at a time."""

SLACK = 0.05
"""Part of the bound by which interpolated values may exceed it before there is a warning."""


Step = Callable[[ValueGP], tuple[ValueGP, float]]
"""One iteration: from a value function to the next, with the spectral radius of the backup (NaN if not computed)."""


class DivergenceWarning(UserWarning):
    """Values beyond what any policy can earn: errors of the approximation feed on themselves."""


@dataclass(frozen=True)
class Outcomes:
    """Next states of every state with every candidate, which do not change while values do.

    `mean` and `variance` have shape (m * C, D), `reward` (m * C,), `candidates` (C, F).
    """

    candidates: Array
    mean: Array
    variance: Array
    reward: Array


class Backup:
    """Expected reward and value of what follows.

    Parameters
    ----------
    model : NextStates
    reward : Reward
    gamma : float
        Discount factor, 0 <= gamma < 1.
    """

    def __init__(self, model: NextStates, reward: Reward, gamma: float) -> None:
        if not 0 <= gamma < 1:
            raise ValueError(f"gamma must be at least 0 and below 1, got {gamma!r}")
        self.model, self.reward, self.gamma = model, reward, float(gamma)

    @property
    def bound(self) -> float:
        """r_max / (1 - gamma): no policy earns more."""
        return self.reward.largest / (1.0 - self.gamma)

    def outcomes(self, states: Array, candidates: Array) -> Outcomes:
        """Next states and rewards of states (m, D) with each of the candidates (C, F)."""
        s = np.repeat(states, len(candidates), axis=0)
        a = np.tile(candidates, (len(states), 1))
        parts = [self.model.predict(s[i : i + ROWS], a[i : i + ROWS]) for i in range(0, len(s), ROWS)]
        mean, variance = (np.concatenate(part) for part in zip(*parts))
        return Outcomes(candidates, mean, variance, self.reward.expected(mean, variance))

    def of(self, value: ValueGP, states: Array, actions: Array) -> Array:
        """E[r(s') + gamma V(s')] for states (B, D) and actions (B, F), shape (B,)."""
        mean, variance = self.model.predict(states, actions)
        return self.reward.expected(mean, variance) + self.gamma * value.expected(mean, variance)

    def gradient(self, value: ValueGP, states: Array, actions: Array) -> tuple[Array, Array]:
        """The backup (B,) and its derivative in the actions (B, F)."""
        mean, variance = self.model.predict(states, actions)
        r, r_m, r_v = self.reward.derivatives(mean, variance)
        V, V_m, V_v = value.derivatives(mean, variance)
        m_a, v_a = self.model.slopes(states, actions)
        slope = np.einsum("bd,bdf->bf", r_m + self.gamma * V_m, m_a)
        slope += np.einsum("bd,bdf->bf", r_v + self.gamma * V_v, v_a)
        return r + self.gamma * V, slope

    def greedy(
        self, value: ValueGP, states: Array, known: Outcomes, low: Array, high: Array, refine: int
    ) -> tuple[Array, Array]:
        """Actions (m, F) that maximize the backup (7.39), and its values (m,)."""
        q = known.reward + self.gamma * value.expected(known.mean, known.variance)
        q = q.reshape(len(states), -1)
        best = q.argmax(axis=1)
        actions = known.candidates[best]
        if refine == 0:
            return actions, q[np.arange(len(q)), best]
        per_action = len(known.candidates) ** (1.0 / len(low))
        first = 0.5 * (high - low) / max(per_action - 1.0, 1.0)  # half the way to the next candidate
        return ascend(
            lambda rows, a: self.gradient(value, states[rows], a), actions, low, high, first, refine
        )


@dataclass(frozen=True)
class Round:
    """One iteration.

    Attributes
    ----------
    largest : float
        Largest |v| at the support points, to compare with the bound.
    change : float
        Largest change of a value, relative to `largest`.
    radius : float
        Spectral radius of the backup gamma W Q_v^-1; below one if repeated backups converge, NaN if not computed.
    lengths : array (D,)
        Length scales of the value function.
    signal : float
    """

    largest: float
    change: float
    radius: float
    lengths: Array
    signal: float


@dataclass
class Monitor:
    """Keeps the rounds, tells when values are stable, and warns when they exceed the bound."""

    bound: float
    tolerance: float
    rounds: list[Round] = field(default_factory=list)
    warned: bool = False

    def add(self, old: Array, value: ValueGP, radius: float = float("nan")) -> bool:
        """Record an iteration; whether values are stable."""
        largest = float(np.abs(value.values).max())
        change = float(np.abs(value.values - old).max()) / (largest or 1.0)
        self.rounds.append(Round(largest, change, radius, value.lengths, value.signal))
        if not self.warned and (largest > (1.0 + SLACK) * self.bound or radius >= 1.0):
            self.warned = True
            if largest > (1.0 + SLACK) * self.bound:
                said = (
                    f"in iteration {len(self.rounds)} the largest is {largest:.3g}, and no policy can earn more than "
                    f"r_max / (1 - gamma) = {self.bound:.3g}"
                )
            else:
                said = (
                    f"the backup of iteration {len(self.rounds)} has spectral radius {radius:.3f}, and repeated "
                    "backups converge only below one"
                )
            warnings.warn(
                f"values may diverge: {said}. Use more support points, a smaller gamma, or a larger noise of the "
                "value function. Later iterations may recover, and the greedy policy may be good even so: try it",
                DivergenceWarning,
                stacklevel=4,
            )
        return change < self.tolerance

    def iterate(self, label: str, iterations: int, value: ValueGP, step: Step) -> tuple[list[ValueGP], bool]:
        """The first value function and those after each step, and whether they became stable.

        Ctrl-C ends it after the first iteration.
        """
        made, stable = [value], False
        with Progress(label, iterations) as progress:
            for _ in range(iterations):
                try:
                    new, radius = step(made[-1])
                except KeyboardInterrupt:
                    if not self.rounds:
                        raise
                    break
                stable = self.add(made[-1].values, new, radius)
                made.append(new)
                progress.advance(f"max {self.rounds[-1].largest:.2f}")
                if stable:
                    break
        return made, stable

    @property
    def exceeded(self) -> bool:
        """Whether values were beyond the bound, or the backup no contraction, in the last round."""
        last = self.rounds[-1]
        return last.largest > (1.0 + SLACK) * self.bound or last.radius >= 1.0


def spectral_radius(M: Array) -> float:
    """Largest modulus of an eigenvalue."""
    small = 600  # rows up to which all eigenvalues are cheap
    if len(M) <= small:
        return float(np.abs(np.linalg.eigvals(M)).max())
    from scipy.sparse.linalg import ArpackNoConvergence, eigs

    try:
        start = np.ones(len(M))  # a fixed start: results repeat
        return float(np.abs(eigs(M, k=1, which="LM", v0=start, tol=1e-4, return_eigenvectors=False)).max())
    except ArpackNoConvergence:
        return float("nan")
