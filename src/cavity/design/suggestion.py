"""Which experiment next: a function of the history, the space, the options and a seed, and of nothing else.

A `Study` is what the history says: the model of the outcomes, the recommendation, doubtful rows, how far from the best
one may still be. `suggest` first fills the initial design, then repeats a measurement that matters and is doubtful, and
otherwise maximizes an acquisition function, in batches given what is pending. It never proposes what failed before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from cavity.design.acquisition.confidence import lower_confidence_bound
from cavity.design.acquisition.pointwise import OfMoments
from cavity.design.feasibility import Limit, limit_scores, success_score
from cavity.design.history import History, Status
from cavity.design.maximize import CENTERS, SAME, maximize
from cavity.design.policies import ACQUISITIONS, Where, best_points
from cavity.design.second_search import at_its_end, log_gain, second_search
from cavity.design.space import Setting, Space
from cavity.design.surrogate import NOISES, Surrogate, fit_surrogate, lengths_of
from cavity.numerics.arrays import Array
from cavity.runtime.checks import is_number
from cavity.runtime.errors import InputError

GOALS = ("minimize", "maximize")

DOUBTFUL = (0.2, 0.8)
"""Outlier probabilities between which a measurement that matters is repeated."""

CONFIRMATIONS = 2
"""Most times that one setting is repeated."""

CERTAIN = 2.0
"""Standard deviations of the bounds that make the gap."""

ELSEWHERE = "a second search: little is left to gain near the best so far, and most of the box is unknown"
"""Why an experiment is suggested that is beyond the reach of the best row."""

PROBES = 256
"""Points at which it is looked up whether most of the box is unknown."""

TRUST_REGION_FROM = 20
"""Inputs from which suggestions stay in a box around the recommendation."""


class Reason(StrEnum):
    """Why a setting is suggested.

    Examples
    --------
    >>> from cavity.design import History, Reason, Space, suggest
    >>> suggest(History(), Space({"x": (0.0, 1.0)}))[0].reason is Reason.INITIAL
    True
    """

    INITIAL = "initial"
    CONFIRM = "confirm"
    EXPLOIT = "exploit"
    EXPLORE = "explore"


@dataclass(frozen=True)
class Options:
    """How suggestions are made.

    Attributes
    ----------
    goal : {"minimize", "maximize"}
    noise : {"auto", "none", "gaussian", "student-t", "mixture"}
    acquisition : {"ei", "nei", "pi", "ucb", "thompson", "kg", "mes", "gibbon", "pes"}
        What makes an experiment worth doing (`cavity.design.policies`): expected improvement unless told otherwise.
    n_initial : int, optional
        Trials before a model is trusted; by default between 5 and 20, twice the number of inputs.
    limits : tuple of Limit
        On further outcomes.
    confirm : bool
        Whether measurements that matter and are doubtful are asked for again.
    explore : bool
        Learn about the whole function, by the information that an experiment brings; nothing is optimized.
    fixed : dict
        Inputs that are held at a value.

    Examples
    --------
    >>> from cavity.design import Options
    >>> Options(goal="maximize").goal
    'maximize'
    """

    goal: str = "minimize"
    noise: str = "auto"
    acquisition: str = "ei"
    n_initial: int | None = None
    limits: tuple[Limit, ...] = ()
    confirm: bool = True
    explore: bool = False
    fixed: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        given = (self.goal, GOALS), (self.noise, NOISES), (self.acquisition, ACQUISITIONS)
        for name, (value, known) in zip(("goal", "noise", "acquisition"), given):
            if value not in known:
                raise InputError(
                    f"must be one of {', '.join(map(repr, known))}, got {value!r}", parameter=name
                )
        if self.n_initial is not None and not (is_number(self.n_initial) and self.n_initial >= 1):
            raise InputError(f"must be a whole number >= 1, got {self.n_initial!r}", parameter="n_initial")

    @property
    def sign(self) -> float:
        """What outcomes are multiplied with to be minimized."""
        return 1.0 if self.goal == "minimize" else -1.0

    def initial(self, space: Space) -> int:
        """Trials before a model is trusted."""
        return self.n_initial or max(5, min(2 * space.n, 20))


@dataclass(frozen=True)
class Estimate:
    """A setting with what the model says of it, in the user's units.

    Attributes
    ----------
    x : dict
    mean, sd : float
        Of the function, without noise.
    trial : int or None
        The trial it belongs to, if any.

    Examples
    --------
    >>> from cavity.design import History, Space, Study
    >>> history = History().with_outcome({"x": 0.2}, 3.0).with_outcome({"x": 0.7}, 1.0)
    >>> Study(history, Space({"x": (0.0, 1.0)})).recommendation.trial
    2
    """

    x: Setting
    mean: float
    sd: float
    trial: int | None = None


@dataclass(frozen=True)
class Suggestion:
    """An experiment worth doing.

    Attributes
    ----------
    x : dict
        The setting.
    reason : Reason
    why : str
        The reason in words.
    mean, sd : float
        What the model expects there, without noise; nan while there is none.
    improvement : float
        Probability that the function is better there than the best so far; nan while there is no model.
    confirms : int or None
        The trial that is repeated.

    Examples
    --------
    >>> from cavity.design import History, Space, suggest
    >>> one = suggest(History(), Space({"x": (0.0, 1.0)}))[0]
    >>> 0.0 <= one.x["x"] <= 1.0, one.confirms is None
    (True, True)
    """

    x: Setting
    reason: Reason
    why: str
    mean: float = float("nan")
    sd: float = float("nan")
    improvement: float = float("nan")
    confirms: int | None = None


class Study:
    """What a history says.

    Parameters
    ----------
    history : History
    space : Space
    options : Options, optional
    fit : Surrogate, optional
        The model of the outcomes, if it is known from the same finished trials.

    Examples
    --------
    >>> from cavity.design import History, Space, Study
    >>> history = History()
    >>> for x in (0.0, 0.25, 0.5, 0.75, 1.0):
    ...     history = history.with_outcome({"x": x}, (x - 0.4) ** 2)
    >>> Study(history, Space({"x": (0.0, 1.0)})).recommendation.x
    {'x': 0.5}
    """

    def __init__(
        self, history: History, space: Space, options: Options | None = None, fit: Surrogate | None = None
    ) -> None:
        self.history, self.space, self.options = history, space, options or Options()
        self._fit = fit
        history.check(space)
        for name in self.options.fixed:
            space.require(name)
        self.done = history.of(Status.DONE)
        self.failed = history.of(Status.FAILED)
        self.pending = history.of(Status.PENDING)
        self.X = self._points(self.done)
        self.y = np.array([trial.y for trial in self.done], dtype=float)

    def _points(self, trials: Sequence[Any]) -> Array:
        return np.array([self.space.to_unit(t.x) for t in trials], dtype=float).reshape(-1, self.space.n)

    @property
    def waiting(self) -> Array:
        """Points where no outcome is known, or will be, (p, D)."""
        return self._points([*self.pending, *self.failed])

    def of_rows(self, kept: NDArray[np.bool_]) -> Study:
        """The study of some of the rows (n,) with outcomes, with noise of the kind that all of them have."""
        left_out = {trial.id for trial, keep in zip(self.done, kept) if not keep}
        history = History(tuple(trial for trial in self.history if trial.id not in left_out))
        return Study(history, self.space, replace(self.options, noise=self.fit.noise))

    @cached_property
    def fit(self) -> Surrogate:
        """The model of what is minimized."""
        if self._fit is not None:
            return self._fit
        sd = np.array([trial.noise_sd or 0.0 for trial in self.done])
        return fit_surrogate(
            self.space,
            self.X,
            self.options.sign * self.y,
            noise=self.options.noise,
            noise_sd=sd if sd.any() else None,
        )

    @property
    def modeled(self) -> bool:
        """Whether there are outcomes to learn from."""
        return len(self.y) >= 2 and bool(np.ptp(self.y) > 0)

    @cached_property
    def mostly_unknown(self) -> bool:
        """Whether at most points of the box the outcomes leave over half of the prior variance.

        Then there may be basins that nothing hints at. Never if there is noise to speak of: too little is known then
        of the basin that was found.
        """
        if self.fit.has_noise:
            return False
        _, variance, prior = self.fit.moments.relative(self.space.sobol(PROBES, np.random.default_rng(0)))
        return bool(np.mean(variance > 0.5 * prior) > 0.5)

    @cached_property
    def extra(self) -> tuple[OfMoments, ...]:
        """Log probabilities that limits hold and that an experiment succeeds, to be added to a score."""
        scores = limit_scores(self.space, self.done, self.options.limits)
        success = success_score(self.space, self.X, self._points(self.failed))
        return (*scores, success) if success is not None else scores

    @cached_property
    def feasible(self) -> NDArray[np.bool_]:
        """Which rows probably meet all limits, shape (n,)."""
        scores = limit_scores(self.space, self.done, self.options.limits)
        return (
            np.all([score(self.X) > np.log(0.5) for score in scores], axis=0)
            if scores
            else np.ones(len(self.y), bool)
        )

    @cached_property
    def best(self) -> int | None:
        """The row with the best mean of those that are feasible; None if there is none."""
        if not self.modeled or not self.feasible.any():
            return None
        return int(np.argmin(np.where(self.feasible, self.fit.at_data[0], np.inf)))

    @cached_property
    def recommended(self) -> int | None:
        """The row that is recommended: the best one, unless noise is robust.

        Then each row's own outcome may be wrong (`Surrogate.with_doubt`), and it is the row with the least upper bound,
        at two standard deviations: one that stands alone and was never repeated must be much better than others.
        """
        if self.best is None or not self.fit.robust:
            return self.best
        mean, sd = self.fit.with_doubt
        return int(np.argmin(np.where(self.feasible, mean + CERTAIN * sd, np.inf)))

    @property
    def recommendation(self) -> Estimate | None:
        """The best setting tried, by the posterior mean and not by a lucky measurement, with its uncertainty."""
        k = self.recommended
        if k is not None:
            mean, sd = (float(v[k]) for v in self.fit.with_doubt)
            return Estimate(self.done[k].x, *self.in_units(mean, sd), self.done[k].id)
        if not (len(self.y) and self.feasible.any()):
            return None
        k = int(np.flatnonzero(self.feasible)[np.argmin((self.options.sign * self.y)[self.feasible])])
        return Estimate(self.done[k].x, float(self.y[k]), float("nan"), self.done[k].id)

    def in_units(self, mean: float, sd: float) -> tuple[float, float]:
        """Mean and standard deviation in the user's units."""
        units = self.fit.units
        return self.options.sign * (units.center + units.size * mean), units.size * sd

    @property
    def doubtful(self) -> dict[int, float]:
        """Outlier probabilities of trials that are more likely outliers than not, by their id."""
        if not self.modeled:
            return {}
        p = self.fit.outlier_probability
        return {trial.id: float(v) for trial, v in zip(self.done, p) if v > 0.5}

    @cached_property
    def gap(self) -> float:
        """How much better than the recommendation the function may still be somewhere, in the user's units.

        The least upper bound at a row minus the least lower bound anywhere, both at two standard deviations (Makarova
        et al., 2022). Infinite while there is no model.
        """
        if self.best is None:
            return float("inf")
        mean, sd = self.fit.with_doubt
        upper = float(np.min((mean + CERTAIN * sd)[self.feasible]))
        bound = OfMoments(self.fit.moments, partial(lower_confidence_bound, multiplier=CERTAIN), (), False)
        _, values = maximize(bound, self.space, self.centers(), np.random.default_rng(0))
        return float(max(0.0, upper + float(values[0]))) * self.fit.units.size

    def centers(self) -> Array:
        """The best rows by their means, (c, D)."""
        return self.X[np.argsort(self.fit.at_data[0], kind="stable")[:CENTERS]]

    @property
    def settled(self) -> bool:
        """Whether the gap is below what noise leaves unknown of the recommendation: the time to stop."""
        if self.best is None:
            return False
        unknown = float(self.fit.at_data[1][self.best])
        return self.gap < max(unknown, 1e-12) * self.fit.units.size


def suggest(
    history: History, space: Space, options: Options | None = None, seed: int = 0, n: int = 1
) -> list[Suggestion]:
    """The next experiments.

    A function of its arguments alone: a history that was stored, edited or told in another session gives what an
    uninterrupted run would have given.

    Parameters
    ----------
    n : int
        How many, to be done at the same time.

    Examples
    --------
    >>> from cavity.design import History, Space, suggest
    >>> space = Space({"x": (0.0, 1.0)})
    >>> suggest(History(), space, seed=1)[0].why
    'initial design, 1 of 5'
    """
    options = options or Options()
    if n < 1:
        raise InputError(f"must be a whole number >= 1, got {n!r}", parameter="n")
    found: list[Suggestion] = []
    fit: Surrogate | None = None
    for _ in range(n):
        study = Study(history, space, options, fit)  # pending trials change nothing in the model
        one = _suggest_one(study, seed)
        fit = None if one.reason is Reason.INITIAL else study.fit
        found.append(one)
        history = history.with_pending(one.x, one.why)
    return found


def _suggest_one(study: Study, seed: int) -> Suggestion:
    options, space, asked = study.options, study.space, len(study.history)
    rng = np.random.default_rng([seed, asked])
    wanted = options.initial(space)
    if asked < wanted or not study.modeled:
        return _initial(study, seed, wanted)
    again = _to_confirm(study) if options.confirm and not options.explore else None
    if again is not None:
        return again
    return _best_point(study, seed, rng)


def _held(study: Study) -> tuple[NDArray[np.bool_], Array]:
    """Which inputs are held, and where."""
    space, fixed = study.space, study.options.fixed
    held = np.array([name in fixed for name in space.names])
    at = np.array([space.inputs[name].to_unit(fixed[name]) if name in fixed else 0.0 for name in space.names])
    return held, at


def _initial(study: Study, seed: int, wanted: int) -> Suggestion:
    """The next point of the initial design that is not there yet."""
    space, asked = study.space, len(study.history)
    count = max(wanted, 8)
    while count < 4 * (asked + wanted):
        count *= 2
    points = space.sobol(count, np.random.default_rng([seed, 0]))
    held, at = _held(study)
    points[:, held] = at[held]
    known = study._points(study.history.trials)
    fresh = [p for p in points[:wanted] if _is_new(p, known)] if asked < wanted else []
    chosen = (
        fresh[0]
        if fresh
        else next((p for p in points[asked:] if _is_new(p, known)), points[asked % len(points)])
    )
    why = (
        f"initial design, {asked + 1} of {wanted}"
        if asked < wanted
        else "no model yet: outcomes are missing or all equal"
    )
    return Suggestion(space.from_unit(chosen), Reason.INITIAL, why)


def _is_new(point: Array, known: Array) -> bool:
    return not len(known) or bool(np.min(np.max(np.abs(known - point), axis=1)) > SAME)


def _to_confirm(study: Study) -> Suggestion | None:
    """A doubtful measurement that matters again.

    That of the best row, or of one that would be by far the best, and is taken for an outlier though the others say
    little of it: functions have narrow valleys that a process with normal tails does not expect.
    """
    best = _incumbent(study)
    if study.best is None or best is None or not study.fit.robust:
        return None
    p, known = study.fit.outlier_probability, study._points(study.history.trials)
    times = np.array([np.sum(np.max(np.abs(known - row), axis=1) <= SAME) for row in study.X])
    k, looks = study.best, "looks best"
    if not (DOUBTFUL[0] < p[k] < DOUBTFUL[1] and times[k] <= CONFIRMATIONS):
        t = study.fit.units.to_unit(study.fit.y)
        alone = study.feasible & study.fit.stands_alone & (p > DOUBTFUL[1]) & (times == 1)
        alone &= t < best - CERTAIN * study.fit.noise_sd / study.fit.units.size
        if not alone.any():
            return None
        k, looks = int(np.argmin(np.where(alone, t, np.inf))), "would be the best"
    trial = study.done[k]
    why = (
        f"repeats trial {trial.id}: it {looks}, but its outcome {trial.y:.6g} is far from what the others predict "
        f"(an outlier with probability {p[k]:.0%})"
    )
    mean, sd = study.in_units(*(float(v[k]) for v in study.fit.at_data))
    return Suggestion(trial.x, Reason.CONFIRM, why, mean, sd, confirms=trial.id)


def _incumbent(study: Study) -> float | None:
    """The best mean at a feasible row, in the model's units."""
    return None if study.best is None else float(study.fit.at_data[0][study.best])


def _best_point(study: Study, seed: int, rng: np.random.Generator) -> Suggestion:
    space, best = study.space, _incumbent(study)
    waiting = study.waiting
    held, at = _held(study)
    where = Where(space, study.centers(), rng, _trust_region(study), held if held.any() else None, at)
    points = best_points(study, best, waiting, seed, where)
    elsewhere = _elsewhere(study, best, points[:1], seed, where)
    if elsewhere is not None:
        points = elsewhere
    known = waiting if study.fit.noisy and space.size < np.inf else study._points(study.history.trials)
    point = next((p for p in points if _is_new(p, known)), points[0])
    one = _described(study, point, best)
    return one if elsewhere is None else replace(one, reason=Reason.EXPLORE, why=ELSEWHERE)


def _elsewhere(study: Study, best: float | None, first: Array, seed: int, where: Where) -> Array | None:
    """Points of the second search, the best first, if it has its turn."""
    improves = study.options.acquisition == "ei" and not study.options.explore
    if best is None or not improves or where.inside is not None or not study.mostly_unknown:
        return None
    gain = float(log_gain(study, first, best)[0])
    return second_search(study, seed, where) if at_its_end(study, gain) else None


def _described(study: Study, point: Array, best: float | None) -> Suggestion:
    mean, variance = study.fit.moments(point[None])
    m, s = float(mean[0, 0]), float(np.sqrt(variance[0]))
    told_mean, told_sd = study.in_units(m, s)
    x = study.space.from_unit(point)
    if study.options.explore:
        return Suggestion(x, Reason.EXPLORE, "least is known here", told_mean, told_sd)
    if best is None:
        return Suggestion(
            x, Reason.EXPLORE, "no setting meets the limits yet: most likely to meet them", told_mean, told_sd
        )
    chance = float(ndtr((best - m) / s))
    if m < best:
        return Suggestion(
            x, Reason.EXPLOIT, "expected to be better than the best so far", told_mean, told_sd, chance
        )
    why = "not expected to be better, but uncertain enough that it may be"
    return Suggestion(x, Reason.EXPLORE, why, told_mean, told_sd, chance)


def _trust_region(study: Study) -> tuple[Array, Array] | None:
    """A box around the recommendation, from many inputs on (`trust_region`)."""
    if study.space.n < TRUST_REGION_FROM or study.best is None:
        return None
    from cavity.design.trust_region import trust_region

    lengths = lengths_of(study.fit, study.space)
    return trust_region(study.X, study.fit.at_data[0], lengths, study.space)
