"""What was tried, and what came of it: an immutable list of trials.

A trial is pending until its outcome is told; an outcome that is not a finite number is a failure. Nothing else is
remembered: whatever is suggested next is a function of the history.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np

from cavity.design.space import Setting, Space
from cavity.runtime.errors import InputError


class Status(StrEnum):
    """What is known of a trial.

    Examples
    --------
    >>> from cavity.design import History, Status
    >>> History().with_pending({"x": 0.5}).trials[0].status is Status.PENDING
    True
    """

    PENDING = "pending"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True)
class Trial:
    """One experiment.

    Attributes
    ----------
    id : int
    x : dict
        The setting.
    status : Status
    y : float or None
        The outcome, if it is done.
    noise_sd : float or None
        Its standard deviation, if that is known.
    outcomes : dict
        Further outcomes by name, of which limits speak.
    why : str
        Why it was suggested.

    Examples
    --------
    >>> from cavity.design import History
    >>> trial = History().with_outcome({"x": 0.5}, 1.2).trials[0]
    >>> trial.id, trial.y
    (1, 1.2)
    """

    id: int
    x: Setting
    status: Status = Status.PENDING
    y: float | None = None
    noise_sd: float | None = None
    outcomes: Mapping[str, float] = field(default_factory=dict)
    why: str = ""


@dataclass(frozen=True)
class History:
    """Trials in the order in which they were asked for.

    Examples
    --------
    >>> from cavity.design import History
    >>> history = History().with_outcome({"x": 0.5}, 1.2).with_outcome({"x": 0.1}, float("nan"))
    >>> [str(trial.status) for trial in history]
    ['done', 'failed']
    """

    trials: tuple[Trial, ...] = ()

    def __iter__(self) -> Iterator[Trial]:
        return iter(self.trials)

    def __len__(self) -> int:
        return len(self.trials)

    def __getitem__(self, id: int) -> Trial:
        for trial in self.trials:
            if trial.id == id:
                return trial
        raise InputError(f"there is no trial {id}; there are {len(self.trials)}")

    @property
    def next_id(self) -> int:
        """That of the next trial."""
        return max((trial.id for trial in self.trials), default=0) + 1

    def with_pending(self, x: Setting, why: str = "", id: int | None = None) -> History:
        """With one more trial, whose outcome is not known yet."""
        trial = Trial(self.next_id if id is None else id, dict(x), why=why)
        return History((*self.trials, trial))

    def completed(
        self,
        id: int,
        y: Any,
        *,
        noise_sd: float | None = None,
        outcomes: Mapping[str, Any] | None = None,
        failed: bool = False,
    ) -> History:
        """With the outcome of a trial; another one told before is replaced."""
        trial = self[id]
        value = None if failed else _finite(y)
        if noise_sd is not None and not noise_sd >= 0:
            raise InputError(f"must be a number >= 0, got {noise_sd!r}", parameter="noise_sd")
        further = {name: number for name, v in (outcomes or {}).items() if (number := _finite(v)) is not None}
        new = replace(
            trial,
            status=Status.FAILED if value is None else Status.DONE,
            y=value,
            noise_sd=None if noise_sd is None else float(noise_sd),
            outcomes=further,
        )
        return History(tuple(new if t.id == id else t for t in self.trials))

    def with_outcome(self, x: Setting, y: Any, **further: Any) -> History:
        """With a trial that is done, or failed if y is not a finite number."""
        id = self.next_id
        return self.with_pending(x).completed(id, y, **further)

    def of(self, status: Status) -> tuple[Trial, ...]:
        """Trials of one status."""
        return tuple(trial for trial in self.trials if trial.status is status)

    def check(self, space: Space) -> None:
        """Refuse trials whose settings are none of the space."""
        for trial in self.trials:
            try:
                space.to_unit(trial.x)
            except InputError as error:
                raise InputError(f"trial {trial.id}: {error}") from None


def _finite(y: Any) -> float | None:
    """A finite number, or None for a failure; refuses what is neither a number nor missing."""
    if y is None:
        return None
    try:
        value = float(y)
    except (TypeError, ValueError):
        raise InputError(f"an outcome is a number, nan or None for a failure, got {y!r}") from None
    return value if np.isfinite(value) else None
