"""Dyna: a model learned beside the values, and steps taken in imagination between real ones (Sutton, 1990).

The model is the conjugate one for finite processes (Martin, 1967): for each state and action the probabilities of the
outcomes have a Dirichlet distribution, whose parameters are prior pseudo-counts plus the numbers of times outcomes
were seen.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np

from cavity.control.mdp.learning import LearnedValues, _epsilon, _explore, _Run
from cavity.control.mdp.tables import MDP, Indices
from cavity.numerics.arrays import Array
from cavity.runtime.checks import require_integer


class DirichletModel:
    """Dirichlet-multinomial model of the outcomes of each state and action, with mean rewards.

    Outcomes are the S next states and, last, the end of the episode.

    Parameters
    ----------
    states, actions : int
    prior : float
        Pseudo-count of each outcome.
    prior_reward : float
        Reward supposed of an outcome that was never seen.

    Examples
    --------
    >>> from cavity.control.mdp import DirichletModel
    >>> model = DirichletModel(2, 1, prior=0.5)
    >>> model.update([0, 0, 0], [0, 0, 0], [1, 1, 0], [1.0, 3.0, 0.0], [False, False, False])
    >>> model.mean()[0, 0]  # (0.5 + 1, 0.5 + 2, 0.5) / 4.5
    array([0.33333333, 0.55555556, 0.11111111])
    """

    def __init__(self, states: int, actions: int, prior: float = 0.1, prior_reward: float = 0.0) -> None:
        if not (np.isfinite(prior) and prior > 0):
            raise ValueError(f"prior must be a positive pseudo-count, got {prior!r}")
        self.states, self.actions, self.prior = int(states), int(actions), float(prior)
        self.prior_reward = float(prior_reward)
        self.counts = np.zeros((self.states, self.actions, self.states + 1))
        self.reward_sums = np.zeros_like(self.counts)

    def update(self, s: object, a: object, after: object, reward: object, over: object) -> None:
        """Count transitions: states, actions, next states (n,), rewards, and whether episodes ended with them."""
        ended = np.asarray(over, dtype=bool)
        outcome = np.where(ended, self.states, np.asarray(after, dtype=np.int64))
        where = (np.asarray(s, dtype=np.int64), np.asarray(a, dtype=np.int64), outcome)
        np.add.at(self.counts, where, 1.0)
        np.add.at(self.reward_sums, where, np.asarray(reward, dtype=float))

    @property
    def concentration(self) -> Array:
        """Parameters of the Dirichlet distributions, shape (S, A, S + 1)."""
        return self.counts + self.prior

    def mean(self) -> Array:
        """Expected probabilities of the outcomes, shape (S, A, S + 1)."""
        alpha = self.concentration
        return np.asarray(alpha / alpha.sum(axis=2, keepdims=True))

    def variance(self) -> Array:
        """Variances of the probabilities of the outcomes, shape (S, A, S + 1)."""
        p, total = self.mean(), self.concentration.sum(axis=2, keepdims=True)
        return np.asarray(p * (1.0 - p) / (total + 1.0))

    def rewards(self) -> Array:
        """Mean reward of each outcome, shape (S, A, S + 1)."""
        return np.where(self.counts > 0, self.reward_sums / np.maximum(self.counts, 1.0), self.prior_reward)

    def expected(self, gamma: float) -> MDP:
        """The process with expected probabilities."""
        return self._mdp(self.mean(), gamma)

    def sample(self, gamma: float, rng: np.random.Generator | int | None = None) -> MDP:
        """A process drawn from the posterior: a world that is possible given what was seen (Strens, 2000)."""
        draws = np.random.default_rng(rng).standard_gamma(self.concentration)
        return self._mdp(draws / draws.sum(axis=2, keepdims=True), gamma)

    def _mdp(self, p: Array, gamma: float) -> MDP:
        r = self.rewards()
        return MDP(p[:, :, :-1], r[:, :, :-1], gamma, end_rewards=r[:, :, -1])


def dyna(
    mdp: MDP,
    steps: int,
    *,
    planning: int = 10,
    epsilon: float | Callable[[int], float] = 0.1,
    prior: float = 1e-3,
    rate: Callable[[Array], Array] | float | None = None,
    rng: np.random.Generator | int | None = None,
) -> tuple[LearnedValues, DirichletModel]:
    """Dyna: Q-learning, and after each real step `planning` full backups in the model.

    A full backup sets Q(s, a) of a pair seen before to its expectation under the model, r + gamma E[max Q]; the pairs
    are drawn at random from those seen, all backups of one step being done at once.

    Parameters
    ----------
    planning : int
        Backups in the model for each real step; 0 is Q-learning.
    prior : float
        Pseudo-count of each outcome; of the order of 1 / S or less, for processes in which few states follow each.
    steps, epsilon, rate, rng
        As for `q_learning`; there is one agent.

    Examples
    --------
    >>> from cavity.control.mdp import dyna, grid_world, policy_iteration
    >>> world = grid_world(["S.G"])
    >>> learned, model = dyna(world, 300, rng=0)
    >>> bool((learned.policy == policy_iteration(world).policy).all())
    True
    """
    require_integer(planning, "planning", 0)
    run = _Run(mdp, steps, 1, 0.0, "replacing", rate, rng)
    model = DirichletModel(mdp.states, mdp.actions, prior)
    Q, visits = np.zeros((1, mdp.states, mdp.actions)), np.zeros((1, mdp.states, mdp.actions))
    seen: list[tuple[int, int]] = []
    row = np.zeros(1, dtype=np.int64)
    s = run.simulator.reset()
    with suppress(KeyboardInterrupt):  # what was learned so far is kept
        for t in run.steps():
            a, _ = _explore(Q[row, s], _epsilon(epsilon, t), run.rng)
            after, r, over = run.step(s, a)
            if visits[0, s[0], a[0]] == 0:
                seen.append((int(s[0]), int(a[0])))
            visits[row, s, a] += 1
            model.update(s, a, after, r, over)
            delta = r + mdp.gamma * np.where(over, 0.0, Q[row, after].max(axis=1)) - Q[row, s, a]
            run.learn(Q, Q, visits, (row, s, a), delta)
            if planning:
                pairs = np.array([seen[k] for k in run.rng.integers(len(seen), size=planning)])
                _backup(Q[0], model, mdp.gamma, pairs[:, 0], pairs[:, 1])
            s = after
    return run.result(Q, visits), model


def _backup(Q: Array, model: DirichletModel, gamma: float, s: Indices, a: Indices) -> None:
    """Q(s, a) <- expectation under the model, for several pairs at once."""
    alpha = model.counts[s, a] + model.prior
    p = alpha / alpha.sum(axis=1, keepdims=True)
    seen = model.counts[s, a]
    r = np.where(seen > 0, model.reward_sums[s, a] / np.maximum(seen, 1.0), model.prior_reward)
    Q[s, a] = (p * r).sum(axis=1) + gamma * p[:, :-1] @ Q.max(axis=1)
