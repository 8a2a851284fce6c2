"""Modes of the hyperparameters that are known before sampling, and the way from one to another.

Chains find only the modes that they start in, and checks of chains see only those that were met. An optimizer that was
started in several places has met more: its ends, moved uphill on the density that is to be sampled (an approximate
evidence times the priors), are the places here. Chains start at all of them, and a jump takes theta near a place m_a to

    theta' = theta + m_b - m_a,

b being any other place. a is the place nearest to theta; where b is not the one nearest to theta' the way back would be
another, and there is no jump. So a jump is its own inverse and keeps volume: it can be proposed as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cavity.numerics.arrays import Array
from cavity.sampling.affine import Turned, lowest, spread_at
from cavity.sampling.targets import HyperTarget, Target

MOST = 4
"""Places, at most: the best ones."""

SAME = 0.05
"""Distance, in unit steps, below which two searches ended at the same place: not worth a closer look."""

APART = 2.0
"""Distance, in standard deviations of a mode, below which two places are one."""

NEGLIGIBLE = 12.0
"""Nats below the best place at which another is left out: jumps there would all be refused."""

SHARE = 0.25
"""Probability of an attempt after each move of a chain by other means."""


@dataclass(frozen=True)
class Modes:
    """Places to jump between.

    Attributes
    ----------
    places : array (k, p)
        Hyperparameters `theta`, the best first; at least two.
    factor : array (p, p)
        F, where F F' is the covariance of one mode, roughly: what distances are measured by.

    Examples
    --------
    >>> import numpy as np
    >>> modes = Modes(np.array([[0.0], [10.0]]), np.eye(1))
    >>> modes.across(np.array([0.5]), np.random.default_rng(0))
    array([10.5])
    """

    places: Array
    factor: Array

    def __len__(self) -> int:
        return len(self.places)

    def nearest(self, theta: Array) -> int:
        """The place nearest to theta."""
        off = np.linalg.solve(self.factor, (theta - self.places).T)
        return int(np.argmin(np.einsum("ij,ij->j", off, off)))

    def across(self, theta: Array, rng: np.random.Generator) -> Array | None:
        """Where a jump from theta would lead, or None where there is none."""
        a, k = self.nearest(theta), len(self)
        b = (a + 1 + int(rng.integers(k - 1))) % k
        there = theta + self.places[b] - self.places[a]
        return there if self.nearest(there) == b else None

    def starts(
        self,
        turned: Turned,
        base: Callable[[Array], Array],
        chains: int,
        rng: np.random.Generator,
        bounds: Array,
    ) -> Array:
        """Positions (C, d), in the coordinates of `turned`, at all places in turn.

        `base` gives the coordinates (d,) of a place, of which the turned ones are spread within their `bounds` (p, 2),
        as in `Turned.start`.
        """
        out = []
        for c in range(chains):
            place = self.places[c % len(self)]
            there = Turned(turned.target, place, turned.factor, turned.moves)
            out.append(there.out(there.start(base(place)[None], rng, bounds))[0])
        return turned.into(np.array(out))


def find_modes(target: HyperTarget, ends: Sequence[Array], unit: Array) -> Modes | None:
    """The distinct modes of a density uphill from where runs of an optimizer ended; None if there is only one.

    Parameters
    ----------
    target : HyperTarget
        The density of the hyperparameters, by a fast rule.
    ends : sequence of arrays (p,)
        The best ones first.
    unit : array (p,)
        Sizes of unit steps of the coordinates.
    """
    bounds = np.array(target.model.theta_bounds).reshape(-1, 2)

    def down(w: Array) -> tuple[float, Array]:
        inside = np.clip(w * unit, *bounds.T)  # an end at a bound is not to leave it by rounding
        value, gradient = target.value_and_gradient(inside[None])
        return -float(value[0]), -gradient[0] * unit

    found: list[tuple[float, Array]] = []
    for end in ends[:MOST]:
        place = lowest(down, np.clip(end, *bounds.T) / unit, bounds / unit[:, None])
        value = -down(place)[0]
        if np.isfinite(value):  # the fast rule may find nothing where the optimizer's memory did
            found.append((value, place))
    found.sort(key=lambda one: -one[0])
    possible = [place for value, place in found if value > found[0][0] - NEGLIGIBLE]
    if not any(np.max(np.abs(place - possible[0]), initial=0.0) > SAME for place in possible):
        return None
    best = possible[0]
    factor = spread_at(down, best)
    kept: list[Array] = []
    for place in possible:
        off = [np.linalg.norm(np.linalg.solve(factor, place - other)) for other in kept]
        if min(off, default=np.inf) > APART:
            kept.append(place)
    places = np.clip(unit * np.array(kept), *bounds.T)
    return Modes(places, unit[:, None] * factor) if len(kept) > 1 else None


class Attempts:
    """Jumps between modes, and how many of them were made.

    Attributes
    ----------
    modes : Modes
    attempts, accepted : int
    """

    def __init__(self, modes: Modes) -> None:
        self.modes, self.attempts, self.accepted = modes, 0, 0


def told(jumps: Sequence[Attempts | None]) -> dict[str, int]:
    """What the `info` of a trace says of jumps; nothing where there are none."""
    made = [one for one in jumps if one is not None]
    if not made:
        return {}
    return {
        "modes": len(made[0].modes),
        "jumps": sum(one.accepted for one in made),
        "jump_attempts": sum(one.attempts for one in made),
    }


class HyperJumps(Attempts):
    """Jumps on a density of the hyperparameters alone: moves for `hamiltonian(between=...)`."""

    def __init__(self, modes: Modes, target: Target) -> None:
        super().__init__(modes)
        self.target = target

    def __call__(self, U: Array, rng: np.random.Generator) -> Array:
        """Positions (C, p) after jumps, attempted now and then."""
        return np.array([self._sometimes(theta, rng) for theta in U])

    def _sometimes(self, theta: Array, rng: np.random.Generator) -> Array:
        there = self.modes.across(theta, rng) if rng.random() < SHARE else None
        if there is None:
            return theta
        self.attempts += 1
        old, new = self.target.log_density(np.stack([theta, there]))
        if not passes(new - old, rng):
            return theta
        self.accepted += 1
        return there


def passes(log_ratio: float, rng: np.random.Generator) -> bool:
    """The decision of Metropolis; a ratio that is not a number is refused."""
    return bool(np.log1p(-rng.random()) < log_ratio)
