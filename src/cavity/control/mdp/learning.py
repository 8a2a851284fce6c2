"""Learning values from experience: TD(lambda), Sarsa(lambda), Q-learning and Watkins' Q(lambda).

    V(s_t) <- V(s_t) + alpha [r_{t+1} + gamma V(s_{t+1}) - V(s_t)]                                          (7.15)

and likewise for Q, with the action taken next (Sarsa) or the best one (7.18). With eligibility traces e, all states
visited before share in the update: e <- gamma lambda e, e(s_t) <- 1 ("replacing") or + 1 ("accumulating"), V <- V +
alpha delta e (Sutton and Barto, 1998, ch. 7). Lambda = 0 gives TD(0), Sarsa and Q-learning.

Many independent agents learn side by side, each with a table of its own: one pass gives values and their Monte Carlo
error. An agent whose episode ends starts a new one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cavity.control.mdp.solving import greedy
from cavity.control.mdp.tables import MDP, Indices, Simulator
from cavity.numerics.arrays import Array
from cavity.runtime.checks import require_between, require_integer, require_one_of
from cavity.runtime.progress import Progress

TRACES = ("replacing", "accumulating")


@dataclass(frozen=True)
class Rate:
    """Learning rate alpha = scale * ((offset + 1) / (offset + n))^power at the n-th visit.

    Robbins and Monro's conditions (7.16) hold for powers in (1/2, 1]; power 0 is a constant rate.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.control.mdp import Rate
    >>> Rate(power=1.0)(np.array([1, 2, 4]))
    array([1.  , 0.5 , 0.25])
    """

    power: float = 0.7
    scale: float = 1.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        if not (0.0 <= self.power <= 1.0 and 0.0 < self.scale <= 1.0 and self.offset >= 0.0):
            raise ValueError(
                f"a rate needs a power in [0, 1], a scale in (0, 1] and an offset >= 0, got {self}"
            )

    def __call__(self, visits: Array) -> Array:
        """Rates of entries with these numbers of visits."""
        return np.asarray(
            self.scale * ((self.offset + 1.0) / (self.offset + np.maximum(visits, 1.0))) ** self.power
        )


@dataclass(frozen=True)
class LearnedValues:
    """What agents have learned.

    Attributes
    ----------
    tables : array (agents, S) or (agents, S, A)
        Values of each agent.
    visits : array like tables
    episodes : int
        Episodes finished by all agents together.
    steps : int
        Steps of each agent; fewer than asked for after Ctrl-C.
    reward : array (agents,)
        Mean reward per step.

    Examples
    --------
    >>> from cavity.control.mdp import grid_world, q_learning
    >>> learned = q_learning(grid_world(["S.G"]), 200, agents=3, rng=0)
    >>> learned.tables.shape, learned.standard_error.shape
    ((3, 2, 4), (2, 4))
    """

    tables: Array
    visits: Array
    episodes: int
    steps: int
    reward: Array

    @property
    def mean(self) -> Array:
        """Mean over agents, shape (S,) or (S, A)."""
        return np.asarray(self.tables.mean(axis=0))

    @property
    def standard_error(self) -> Array:
        """Monte Carlo standard error of the mean; infinite for one agent."""
        n = len(self.tables)
        if n < 2:
            return np.full(self.tables.shape[1:], np.inf)
        return np.asarray(self.tables.std(axis=0, ddof=1) / np.sqrt(n))

    @property
    def policy(self) -> Indices:
        """Greedy policy of the mean over agents, shape (S,); for tables of state-action values."""
        if self.tables.ndim != 3:
            raise ValueError("values of states alone name no actions; learn state-action values instead")
        return greedy(self.mean)


def td(
    mdp: MDP,
    policy: ArrayLike,
    steps: int,
    *,
    trace: float = 0.0,
    traces: str = "replacing",
    rate: Callable[[Array], Array] | float | None = None,
    agents: int = 1,
    rng: np.random.Generator | int | None = None,
) -> LearnedValues:
    """TD(lambda): values of a fixed policy from experience, without knowing the tables.

    Parameters
    ----------
    mdp : MDP
        Used as a simulator only.
    policy : array (S, A) or (S,) of int
    steps : int
        Transitions of each agent.
    trace : float
        Lambda in [0, 1].
    traces : {"replacing", "accumulating"}
    rate : callable or float, optional
        Learning rate as a function of the number of visits; `Rate()` by default.
    agents : int

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.control.mdp import evaluate, random_walk, td
    >>> walk, policy = random_walk(3), [[0.5, 0.5]] * 3
    >>> learned = td(walk, policy, 1000, agents=20, rng=0)
    >>> bool(np.abs(learned.mean - evaluate(walk, policy)).max() < 0.1)
    True
    """
    probabilities = mdp.policy(policy)
    run = _Run(mdp, steps, agents, trace, traces, rate, rng)
    cumulated = np.cumsum(probabilities, axis=1)
    V, visits, e = (np.zeros((agents, mdp.states)) for _ in range(3))
    rows = np.arange(agents)
    s = run.simulator.reset()
    with suppress(KeyboardInterrupt):  # what was learned so far is kept
        for _ in run.steps():
            a = _draw(cumulated[s], run.rng)
            after, r, over = run.step(s, a)
            visits[rows, s] += 1
            delta = r + mdp.gamma * np.where(over, 0.0, V[rows, after]) - V[rows, s]
            run.learn(V, e, visits, (rows, s), delta)
            run.fade(e, over)
            s = after
    return run.result(V, visits)


def sarsa(
    mdp: MDP,
    steps: int,
    *,
    epsilon: float | Callable[[int], float] = 0.1,
    policy: ArrayLike | None = None,
    trace: float = 0.0,
    traces: str = "replacing",
    rate: Callable[[Array], Array] | float | None = None,
    agents: int = 1,
    rng: np.random.Generator | int | None = None,
) -> LearnedValues:
    """Sarsa(lambda): state-action values of the policy that is followed.

    That is epsilon-greedy in the present values, or a fixed `policy`; other parameters as for `td`. `epsilon` may be
    a function of the step.

    Examples
    --------
    >>> from cavity.control.mdp import grid_world, sarsa
    >>> learned = sarsa(grid_world(["S.G"]), 300, trace=0.5, rng=0)
    >>> learned.mean.shape, learned.policy
    ((2, 4), array([2, 2]))
    """
    run = _Run(mdp, steps, agents, trace, traces, rate, rng)
    fixed = None if policy is None else np.cumsum(mdp.policy(policy), axis=1)
    Q, visits, e = (np.zeros((agents, mdp.states, mdp.actions)) for _ in range(3))
    rows = np.arange(agents)

    def choose(s: Indices, t: int) -> Indices:
        if fixed is not None:
            return _draw(fixed[s], run.rng)
        return _explore(Q[rows, s], _epsilon(epsilon, t), run.rng)[0]

    s = run.simulator.reset()
    a = choose(s, 0)
    with suppress(KeyboardInterrupt):  # what was learned so far is kept
        for t in run.steps():
            after, r, over = run.step(s, a)
            following = choose(after, t + 1)
            visits[rows, s, a] += 1
            delta = r + mdp.gamma * np.where(over, 0.0, Q[rows, after, following]) - Q[rows, s, a]
            run.learn(Q, e, visits, (rows, s, a), delta)
            run.fade(e, over)
            s, a = after, following
    return run.result(Q, visits)


def q_learning(
    mdp: MDP,
    steps: int,
    *,
    epsilon: float | Callable[[int], float] = 0.1,
    trace: float = 0.0,
    traces: str = "replacing",
    rate: Callable[[Array], Array] | float | None = None,
    agents: int = 1,
    rng: np.random.Generator | int | None = None,
) -> LearnedValues:
    """Q-learning (Algorithm 4), or with `trace` > 0 Watkins' Q(lambda): optimal values from exploring behavior.

    Parameters as for `sarsa`. Traces end after an action that was not the greedy one: what follows says nothing about
    the optimal values of what came before.

    Examples
    --------
    >>> from cavity.control.mdp import grid_world, policy_iteration, q_learning
    >>> world = grid_world(["S.G"])
    >>> learned = q_learning(world, 1000, rng=0)
    >>> bool((learned.policy == policy_iteration(world).policy).all())
    True
    """
    run = _Run(mdp, steps, agents, trace, traces, rate, rng)
    Q, visits, e = (np.zeros((agents, mdp.states, mdp.actions)) for _ in range(3))
    rows = np.arange(agents)
    s = run.simulator.reset()
    a, _ = _explore(Q[rows, s], _epsilon(epsilon, 0), run.rng)
    with suppress(KeyboardInterrupt):  # what was learned so far is kept
        for t in run.steps():
            after, r, over = run.step(s, a)
            visits[rows, s, a] += 1
            best = Q[rows, after].max(axis=1)
            delta = r + mdp.gamma * np.where(over, 0.0, best) - Q[rows, s, a]
            run.learn(Q, e, visits, (rows, s, a), delta)
            following, was_greedy = _explore(Q[rows, after], _epsilon(epsilon, t + 1), run.rng)
            run.fade(e, over | ~was_greedy)
            s, a = after, following
    return run.result(Q, visits)


# --- what they share ----------------------------------------------------------------------------------------


class _Run:
    """Checks, simulation, traces and progress of one run of agents."""

    def __init__(
        self,
        mdp: MDP,
        steps: int,
        agents: int,
        trace: float,
        traces: str,
        rate: Callable[[Array], Array] | float | None,
        rng: np.random.Generator | int | None,
    ) -> None:
        require_between(trace, "trace")
        require_one_of(traces, "traces", TRACES)
        steps, agents = require_integer(steps, "steps", 1), require_integer(agents, "agents", 1)
        self.rate: Callable[[Array], Array] = Rate() if rate is None else _as_rate(rate)
        self.rng = np.random.default_rng(rng)
        self.simulator = Simulator(mdp, agents, self.rng)
        self.decay, self.accumulate = mdp.gamma * trace, traces == "accumulating"
        self.asked, self.done, self.episodes = steps, 0, 0
        self.reward = np.zeros(agents)

    def steps(self) -> Any:
        """Count steps, with progress."""
        with Progress("learning values", self.asked) as progress:
            for t in range(self.asked):
                yield t
                self.done += 1
                if t % 256 == 255:
                    progress.advance(steps=256)

    def step(self, s: Indices, a: Indices) -> tuple[Indices, Array, Any]:
        after, r, over = self.simulator.step(s, a)
        self.reward += r
        self.episodes += int(over.sum())
        return after, r, over

    def learn(self, table: Array, e: Array, visits: Array, at: Any, delta: Array) -> None:
        """table <- table + alpha delta e, the entries `at` having just been visited."""
        if self.decay == 0.0:
            table[at] += self.rate(visits[at]) * delta
            return
        e[at] = e[at] + 1.0 if self.accumulate else 1.0
        table += self.rate(visits) * e * delta.reshape(-1, *(1,) * (e.ndim - 1))

    def fade(self, e: Array, cut: Any) -> None:
        """Traces before the next step: faded, and gone for agents in `cut`."""
        if self.decay == 0.0:
            return
        e *= self.decay
        e[cut] = 0.0

    def result(self, table: Array, visits: Array) -> LearnedValues:
        return LearnedValues(table, visits, self.episodes, self.done, self.reward / max(1, self.done))


def _as_rate(rate: Callable[[Array], Array] | float) -> Callable[[Array], Array]:
    if callable(rate):
        return rate
    return Rate(power=0.0, scale=float(rate))


def _epsilon(epsilon: float | Callable[[int], float], t: int) -> float:
    value = float(epsilon(t)) if callable(epsilon) else float(epsilon)
    require_between(value, "epsilon")
    return value


def _draw(cumulated: Array, rng: np.random.Generator) -> Indices:
    """One action from each row of cumulated probabilities."""
    u = rng.random(len(cumulated)) * cumulated[:, -1]
    a = np.minimum((cumulated <= u[:, None]).sum(axis=1), cumulated.shape[1] - 1)
    return np.asarray(a, dtype=np.int64)


def _explore(q: Array, epsilon: float, rng: np.random.Generator) -> tuple[Indices, Any]:
    """Epsilon-greedy actions for rows of values, ties broken at random; and whether each is a greedy one."""
    best = q >= q.max(axis=1, keepdims=True)
    a = np.argmax(best * rng.random(q.shape), axis=1)
    anything = rng.random(len(q)) < epsilon
    a = np.where(anything, rng.integers(q.shape[1], size=len(q)), a)
    return a.astype(np.int64), best[np.arange(len(q)), a]
