"""Interleaved timing: subjects take turns, so that what disturbs the machine disturbs them alike."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

Timed = Callable[[int], float]
"""Runs once and returns the seconds of the part that counts; the number says which repetition this is."""


FEWEST = 5
"""Rounds below which a median would say little."""


@dataclass
class Series:
    """Times of each subject by round; a subject that sat a round out has no entry there."""

    rounds: list[dict[str, float]] = field(default_factory=list)

    def times(self, name: str) -> list[float]:
        return [times[name] for times in self.rounds if name in times]

    def median(self, name: str) -> float | None:
        times = self.times(name)
        return statistics.median(times) if times else None

    def ratio(self, over: str, under: str, *, bracket: bool = False) -> float | None:
        """Median over rounds of the ratio of two subjects that took part in the same round.

        With `bracket`, the lower one is averaged over this round and the next, one before and one after the
        upper one: for subjects that take part in few rounds.
        """
        pairs = []
        for k, times in enumerate(self.rounds):
            if over in times and under in times:
                near = self.rounds[k : k + 2] if bracket else [times]
                pairs.append(times[over] / statistics.mean(t[under] for t in near if under in t))
        return statistics.median(pairs) if pairs else None


def interleave(
    always: Mapping[str, Timed],
    sometimes: Mapping[str, Timed],
    rounds: int,
    every: int,
    *,
    budget: float = math.inf,
    warm_up: int = 2,
    warm_sometimes: bool = True,
    settle: float = 0.0,
) -> Series:
    """Time subjects in turn, in an order that is reversed every other round.

    Parameters
    ----------
    always : subjects timed in every round
    sometimes : subjects timed in each round whose number is a multiple of `every`
    budget : seconds after which no further round is begun, once there are five
    warm_up : uncounted rounds of the first kind
    warm_sometimes : whether the second kind gets one uncounted call
    settle : seconds of rest after each call of the second kind: threads of another process may spin for a while after
        its turn, which would disturb the next one alone
    """
    for k in range(warm_up):
        for timed in always.values():
            timed(k)
    if warm_sometimes:
        for timed in sometimes.values():
            timed(0)
            time.sleep(settle)
    series, began = Series(), time.perf_counter()
    for k in range(rounds):
        if k >= FEWEST and time.perf_counter() - began > budget:
            break
        turn: Sequence[tuple[str, Timed]] = list(always.items())
        turn = turn if k % 2 == 0 else turn[::-1]
        if k % every == 0:
            turn = [*turn, *sometimes.items()]
        series.rounds.append({name: timed(warm_up + k) for name, timed in turn})
        if k % every == 0 and sometimes:
            time.sleep(settle)
    return series
