"""What warm-up learns: step size, scales of the coordinates, and the length of trajectories.

Dual averaging of the log step (Hoffman and Gelman 2014); standard deviations over windows that double in length; ChEES,
the expected change of the squared distance from the mean over a trajectory (Hoffman, Radul and Sountsov 2021). All
chains share what is learned.
"""

from __future__ import annotations

import numpy as np

from cavity.numerics.arrays import Array


class Acceptance:
    """The acceptance rate to adapt to: the mean over chains, or that of a chain which is stuck.

    A chain that hardly moves while the others do well needs a smaller step, which their mean would never ask for.
    """

    stuck, memory = 0.25, 0.9

    def __init__(self, chains: int, goal: float) -> None:
        self.smooth, self.goal = np.full(chains, goal), goal

    def rate(self, acceptance: Array) -> float:
        """From the acceptance probabilities of one transition of each chain."""
        self.smooth = self.memory * self.smooth + (1 - self.memory) * acceptance
        worst = int(np.argmin(self.smooth))
        if self.smooth[worst] < self.stuck * self.goal:
            return float(acceptance[worst])
        return float(acceptance.mean())


class DualAveraging:
    """Step size whose acceptance rate approaches a target (Hoffman and Gelman 2014, section 3.2)."""

    def __init__(self, step: float, target_acceptance: float) -> None:
        self.goal = target_acceptance
        self.restart(step)

    def restart(self, step: float) -> None:
        """Begin anew around another step."""
        self.center = float(np.log(10.0 * step))
        self.count, self.error = 0, 0.0
        self.log_step = self.log_average = float(np.log(step))

    @property
    def step(self) -> float:
        """The step to try next."""
        return float(np.exp(self.log_step))

    @property
    def average(self) -> float:
        """The step to keep."""
        return float(np.exp(self.log_average))

    def update(self, acceptance: float) -> None:
        """Learn from the acceptance rate of a transition."""
        self.count += 1
        share = 1.0 / (self.count + 10.0)
        self.error = (1.0 - share) * self.error + share * (self.goal - acceptance)
        self.log_step = self.center - np.sqrt(self.count) / 0.05 * self.error
        weight = self.count**-0.75
        self.log_average = weight * self.log_step + (1.0 - weight) * self.log_average


class Scales:
    """Standard deviation of each coordinate over the draws of a window (all chains), by Welford's updates.

    `prior_draws` draws with the present scales are added in, so that a short window does not overrule what is known.
    """

    prior_draws = 10.0

    def __init__(self, dim: int) -> None:
        self.scale = np.ones(dim)
        self.clear()

    def clear(self) -> None:
        """Begin a window."""
        self.count, self.mean, self.squares = 0, np.zeros(len(self.scale)), np.zeros(len(self.scale))

    def add(self, position: Array) -> None:
        """One draw of each chain."""
        C = len(position)
        mean = position.mean(axis=0)
        inner = ((position - mean) ** 2).sum(axis=0)
        shift = mean - self.mean
        total = self.count + C
        self.squares += inner + shift**2 * (self.count * C / total)
        self.mean = self.mean + shift * (C / total)
        self.count = total

    def learn(self) -> None:
        """Take the scales of the window."""
        variance = (self.squares + self.prior_draws * self.scale**2) / (self.count + self.prior_draws)
        self.scale = np.sqrt(np.maximum(variance, np.finfo(float).tiny))


class TrajectoryLength:
    """Length of trajectories, in units of the scales, by ascent on ChEES in its logarithm (Adam without momentum)."""

    rate, memory, most = 0.05, 0.95, 1000

    def __init__(self, length: float, adapt: bool) -> None:
        self.log_length, self.adapt = float(np.log(length)), adapt
        self.log_average = self.log_length
        self.square, self.count = 0.0, 0

    @property
    def length(self) -> float:
        """The present length."""
        return float(np.exp(self.log_length))

    def freeze(self) -> None:
        """Keep the average of the lengths so far from now on."""
        if self.count:
            self.log_length = self.log_average

    def update(
        self, before: Array, after: Array, momentum: Array, weight: Array, stretch: float, step: float
    ) -> None:
        """Learn from one transition that was `stretch` times the present length.

        `before` and `after` are the ends of the trajectories relative to the mean, in units of the scales; `weight`
        their acceptance probabilities.
        """
        if not self.adapt or not weight.sum() > 0:
            return
        x, z = before, after
        change = np.einsum("ij,ij->i", z, z) - np.einsum("ij,ij->i", x, x)
        rate = np.einsum("ij,ij->i", z, momentum)
        terms = np.where(weight > 0, weight * change * rate, 0.0)
        slope = stretch * self.length * float(terms.sum() / weight.sum())
        if not np.isfinite(slope):
            return
        self.count += 1
        self.square = self.memory * self.square + (1 - self.memory) * slope**2
        size = np.sqrt(self.square / (1 - self.memory**self.count))
        self.log_length += self.rate * slope / size if size > 0 else 0.0
        self.log_length = float(np.clip(self.log_length, np.log(step), np.log(step * self.most)))
        share = self.count**-0.5
        self.log_average = share * self.log_length + (1 - share) * self.log_average


def windows(warmup: int) -> tuple[int, tuple[int, ...]]:
    """(first, ends): warm-up transitions before any window, and where the windows for the scales end.

    The first part (15 %) finds the bulk, windows then double in length, and a last part (15 %) settles the step.
    """
    if warmup < 20:
        return warmup, ()
    first, last = max(5, warmup * 3 // 20), max(5, warmup * 3 // 20)
    ends, start, length = [], first, max(10, (warmup - first - last) // 15)
    while start < warmup - last:
        stop = start + length
        if stop + 2 * length > warmup - last:
            stop = warmup - last
        ends.append(stop)
        start, length = stop, 2 * length
    return first, tuple(ends)
