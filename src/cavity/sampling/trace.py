"""What a sampler returns: the draws of several chains, and how they were made.

Chains run side by side: a position is an array (C, d) of C chains in d coordinates, and a trace holds C x T draws. The
draws of warm-up, in which step sizes still change, are not kept: they are not from the target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cavity.numerics.arrays import Array
from cavity.runtime.checks import require_integer
from cavity.runtime.deadlines import time_is_up
from cavity.runtime.errors import NoDrawsInTimeError, Setting
from cavity.runtime.progress import ProgressLike, ProgressReport
from cavity.runtime.stop_reason import StopReason

Drawn = TypeVar("Drawn")
"""What a check of draws looks at."""


@dataclass(frozen=True)
class JumpCounts:
    """Jumps between modes of the hyperparameters, of all chains together.

    Attributes
    ----------
    modes : int
        Modes that are known.
    attempts, accepted : int
        Jumps proposed, and those made.
    """

    modes: int
    attempts: int
    accepted: int


@dataclass(frozen=True)
class Trace:
    """Draws of several Markov chains.

    Attributes
    ----------
    positions : array (C, T, d)
    log_density : array (C, T)
        Log density of each draw, up to the constant that the target leaves out.
    acceptance : array (C,)
        Mean acceptance probability of each chain after warm-up.
    divergences : array of int (C,)
        Trajectories after warm-up with an energy error beyond all bounds.
    step_size : array (d,)
        Step of each coordinate after warm-up; empty if a sampler has none.
    warmup : int
        Transitions that were made before the first draw kept.
    stopped : StopReason or None
        Why the run ended before all draws were made; those that were made are here.
    names : tuple of str
        One name per coordinate; empty if they have none.
    evaluations : int
        Evaluations of the target, or of its gradient, for single chains; zero if they were not counted.
    jumps : JumpCounts or None
        Jumps between modes of the hyperparameters, if there are several.

    Examples
    --------
    >>> import numpy as np
    >>> trace = Trace(np.zeros((4, 100, 2)), np.zeros((4, 100)), names=("a", "b"))
    >>> trace.chains, trace.draws, trace.dim
    (4, 100, 2)
    >>> trace.pooled.shape
    (400, 2)
    """

    positions: Array
    log_density: Array
    acceptance: Array = field(default_factory=lambda: np.zeros(0))
    divergences: NDArray[np.int_] = field(default_factory=lambda: np.zeros(0, dtype=int))
    step_size: Array = field(default_factory=lambda: np.zeros(0))
    warmup: int = 0
    stopped: StopReason | None = None
    names: tuple[str, ...] = ()
    evaluations: int = 0
    jumps: JumpCounts | None = None

    @property
    def chains(self) -> int:
        """C."""
        return int(self.positions.shape[0])

    @property
    def draws(self) -> int:
        """T, of each chain."""
        return int(self.positions.shape[1])

    @property
    def dim(self) -> int:
        """d."""
        return int(self.positions.shape[2])

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the run."""
        return self.stopped is StopReason.INTERRUPTED

    @property
    def pooled(self) -> Array:
        """All draws of all chains, shape (C T, d)."""
        return self.positions.reshape(self.chains * self.draws, self.dim)

    @property
    def last(self) -> Array:
        """The last position of each chain, shape (C, d), from which another run may go on."""
        return self.positions[:, -1].copy()

    def __getitem__(self, name: str) -> Array:
        """Draws of one coordinate by name, shape (C, T)."""
        if name not in self.names:
            raise KeyError(f"no coordinate is called {name!r}; there are: {', '.join(self.names) or 'none'}")
        return self.positions[:, :, self.names.index(name)]

    def thin(self, every: int = 1, discard: int = 0) -> Trace:
        """Every `every`-th draw after the first `discard` ones."""
        if every < 1 or not 0 <= discard <= self.draws:
            raise ValueError(
                f"every must be at least 1 and discard between 0 and {self.draws}, got {every!r} and {discard!r}"
            )
        kept = slice(discard, None, every)
        return replace(self, positions=self.positions[:, kept], log_density=self.log_density[:, kept])

    def map(
        self, function: Callable[[Array], ArrayLike], names: Sequence[str] = (), rows: int = 4096
    ) -> Trace:
        """The trace of a function of the position, given as (S, d) -> (S, ...); results are flattened to (S, e)."""
        pieces = [
            np.asarray(function(self.pooled[i : i + rows]), dtype=float)
            for i in range(0, max(1, len(self.pooled)), rows)
        ]
        values = np.concatenate(pieces)
        shaped = values.reshape(self.chains, self.draws, -1)
        return replace(self, positions=shaped, names=tuple(names), step_size=np.zeros(0))


def as_chains(start: ArrayLike, dim: int | None = None) -> Array:
    """Starting positions as a fresh array (C, d)."""
    position = np.array(start, dtype=float, ndmin=2, order="C")
    if position.ndim != 2 or len(position) == 0 or (dim is not None and position.shape[1] != dim):
        wanted = "(chains, dim)" if dim is None else f"(chains, {dim})"
        raise ValueError(f"start must have shape {wanted}, got {position.shape}")
    if not np.isfinite(position).all():
        raise ValueError("start must be finite: at least one coordinate is not")
    return position


def check_counts(n_draws: int, warmup: int) -> None:
    """Refuse invalid numbers of transitions."""
    require_integer(n_draws, "n_draws", 1)
    require_integer(warmup, "warmup", 0)


@dataclass(frozen=True)
class Until(Generic[Drawn]):
    """When chains have run long enough: a check of what was drawn, made each time that the draws have doubled.

    Attributes
    ----------
    limit : int
        Draws of each chain, at most.
    enough : callable
        What was drawn (a `Trace`, or `Draws` of a model) -> bool.
    """

    limit: int
    enough: Callable[[Drawn], bool]

    def of(self, convert: Callable[[Trace], Drawn]) -> Until[Trace]:
        """The same check of a trace, which `convert` turns into what `enough` takes."""
        return Until(self.limit, lambda trace: self.enough(convert(trace)))


def nothing_drawn_in_time() -> NoDrawsInTimeError:
    """The error of sampling whose time is up before there is a draw to keep."""
    return NoDrawsInTimeError(
        (*StopReason.OUT_OF_TIME.parts, " before the warm-up of the chains was over: there are no draws"),
        remedy=("give more ", Setting("max_time"), ", or ask for fewer draws and a shorter warm-up"),
    )


class Recorder:
    """Collects draws while chains run, shows progress, and survives an interrupt.

    Iterating yields the number of each transition, warm-up first. The loop ends on an interrupt (Ctrl-C) or if the time
    is up (`runtime.deadlines`), and what was drawn is kept; before the first draw a KeyboardInterrupt is passed on, and
    a TimeoutError is raised. With `until`, the loop goes on for as many draws again if those made do not suffice.
    Sampling code is then

        recorder = Recorder("sampling", chains, dim, n_draws, warmup, progress)
        with recorder:
            for t in recorder:
                ...
                if t >= warmup:
                    recorder.add(position, log_density, acceptance, divergent)
        return recorder.trace(...)
    """

    def __init__(
        self,
        label: str,
        chains: int,
        dim: int,
        n_draws: int,
        warmup: int,
        progress: ProgressLike = None,
        until: Until[Trace] | None = None,
    ) -> None:
        check_counts(n_draws, warmup)
        self.positions = np.empty((chains, n_draws, dim))
        self.log_density = np.empty((chains, n_draws))
        self.acceptance = np.zeros(chains)
        self.divergences = np.zeros(chains, dtype=int)
        self.count, self.warmup = 0, warmup
        self.stopped: StopReason | None = None
        self.until = until
        self._report = ProgressReport(progress, label, n_draws + warmup)

    @property
    def total(self) -> int:
        """Transitions to be made, warm-up included."""
        return self._report.total

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: Any) -> bool:
        self._report.__exit__(kind, value, trace)
        if kind is not None and issubclass(kind, KeyboardInterrupt) and self.count:
            self.stopped = StopReason.INTERRUPTED
            return True
        return False

    def __iter__(self) -> Iterator[int]:
        t = 0
        while t < self.total or self._goes_on():
            if time_is_up():
                if not self.count:
                    raise nothing_drawn_in_time()
                self.stopped = StopReason.OUT_OF_TIME
                return
            yield t
            t += 1
            self._report.advance()

    def _goes_on(self) -> bool:
        """Whether more draws are wanted; then there is room for as many again, up to the limit."""
        T = self.count
        if self.until is None or self.until.limit <= T or self.until.enough(self.trace()):
            return False
        more = min(T, self.until.limit - T)
        chains, _, dim = self.positions.shape
        self.positions = np.concatenate([self.positions, np.empty((chains, more, dim))], axis=1)
        self.log_density = np.concatenate([self.log_density, np.empty((chains, more))], axis=1)
        self._report.extend(more)
        return True

    def add(
        self,
        position: Array,
        log_density: Array,
        acceptance: Array | float = 1.0,
        divergent: NDArray[np.bool_] | None = None,
    ) -> None:
        """One draw of every chain."""
        t = self.count
        self.positions[:, t], self.log_density[:, t] = position, log_density
        self.acceptance += acceptance
        if divergent is not None:
            self.divergences += divergent
        self.count = t + 1

    def trace(self, step_size: Array | None = None, names: Iterable[str] = (), evaluations: int = 0) -> Trace:
        """What was drawn."""
        T = self.count
        return Trace(
            self.positions[:, :T],
            self.log_density[:, :T],
            self.acceptance / max(T, 1),
            self.divergences,
            np.zeros(0) if step_size is None else step_size,
            self.warmup,
            self.stopped,
            tuple(names),
            evaluations,
        )
