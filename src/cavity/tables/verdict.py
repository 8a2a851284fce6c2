"""What a model of a table comes to, in three lines: how good it is, what matters, what to beware of.

Everything is read off the report of the fit: fields first (`Verdict`), sentences last (`Verdict.lines`).

How good. Of a regression the root mean squared error on rows held out, or under robust noise the median absolute
error, because outliers among these rows would drown everything else. Of classes the share of wrong ones; whose
probabilities are best is told by the log loss, which has more to go by. Errors of n rows have a relative standard
error of about n^-1/2 at most; models that differ by less are called equally good.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import bdtr, bdtrc

from cavity.frames.columns import Column
from cavity.likelihoods import OrdinalProbit
from cavity.measures.effects import Shape
from cavity.runtime.errors import Message, Part, Setting, Words
from cavity.runtime.sentences import counted, shortened
from cavity.tables.description import CLASSES, LEVELS, NO_INFLUENCE
from cavity.tables.fit_report import ClassificationScores, FitReport, RegressionScores, Relevance
from cavity.tables.formatting import percent, plain, rounded

if TYPE_CHECKING:
    from cavity.tables.model import TableModel

LEVEL = 0.05
"""Relative difference of errors up to which two models are called equally good, if there are many rows."""

DENSER = 0.1
"""Log density a row, in nats, by which intervals are called better, if there are many rows."""

SURPRISING = 0.01
"""Probability of what was counted, under fair intervals, below which they are called unfair."""

NAMED = 3
"""Inputs named in a sentence."""

LISTED = 5
"""Rows listed in a sentence."""

CAUTIONS = 2
"""Cautions told in a sentence; others are counted."""

SURE = 0.9
"""Probability from which a row is called probably wrong, if there are such; those from one half on are listed."""

ANY_ROW = 0.05
"""Probability that some row of a table is called far from its prediction, if no noise but the expected is there."""

FEW_ROWS = 20
"""Rows held out below which an error is a rough figure."""

FEW_LEARNED = 12
"""Rows learned from below which nothing tells one kind of model from another."""

GUESSING = "guessing"


class Standing(Enum):
    """A model beside plain ones on the same rows."""

    BETTER = "better"
    LEVEL = "level"
    WORSE = "worse"
    GUESSING = "no better than guessing"
    ALONE = "alone"


@dataclass(frozen=True)
class Quality:
    """How good predictions of rows held out are.

    Attributes
    ----------
    rows : int
    measure : {"rmse", "median", "wrong"}
        What `error` is: a root mean square, a median absolute error, a share of wrong classes.
    error, guess : float
        Of the model and of a guess that knows no inputs.
    standing : Standing
        Beside plain models.
    rivals : tuple of (str, float)
        The plain models that `standing` is about, with their errors: all that were tried if the model is better, else
        the best of them.
    intervals : {"", "worse", "none"}
        Of a rival that is level in a regression, or of guessing if the mean is no closer: whether its intervals are
        clearly worse, or it has none.
    """

    rows: int
    measure: str
    error: float
    guess: float
    standing: Standing
    rivals: tuple[tuple[str, float], ...]
    intervals: str = ""

    @property
    def worth_it(self) -> bool:
        """Whether it is better than every plain model that was tried."""
        return self.standing in (Standing.BETTER, Standing.ALONE)

    @property
    def is_empty(self) -> bool:
        """Whether rows held out show nothing that was learned."""
        return self.standing is Standing.GUESSING and not self.intervals


@dataclass(frozen=True)
class Verdict:
    """What a model of a table comes to.

    Attributes
    ----------
    target : str
        What is predicted; of two classes the probability of the second.
    quality : Quality or None
        None if no rows were held out.
    matter : tuple of Relevance
        Inputs that matter, the most important first.
    idle : tuple of str
        Inputs with next to no influence.
    cautions : tuple of Message
        The most serious first.
    """

    target: str
    quality: Quality | None
    matter: tuple[Relevance, ...]
    idle: tuple[str, ...]
    cautions: tuple[Message, ...]

    def lines(self, words: Words = str) -> tuple[tuple[str, str], ...]:
        """Three pairs of a heading and a sentence."""
        return (
            ("How good", how_good(self.quality)),
            ("What matters", self._what_matters()),
            ("Beware", beware(self.cautions, words)),
        )

    def _what_matters(self) -> str:
        if self.matter and self.quality is not None and self.quality.is_empty:
            return "nothing that rows held out confirm."
        return _what_matters(self.target, self.matter, self.idle)


def verdict(model: TableModel) -> Verdict:
    """What a fitted model comes to."""
    report, preparation = model.report, model.preparation
    classes: Any = getattr(model.estimator, "classes_", ())
    target = f"P({preparation.target} = {classes[1]})" if len(classes) == 2 else preparation.target
    found = report.relevance or ()
    matter = tuple(one for one in found if one.share >= NO_INFLUENCE)
    idle = tuple(one.column for one in found if one.share < NO_INFLUENCE)
    return Verdict(target, quality(report), matter, idle, tuple(_cautions(model, matter)))


# --- how good -----------------------------------------------------------------------------------------------


Plain = tuple[str, float | None, float | None]
"""A plain model: name, error, loss."""


def quality(report: FitReport) -> Quality | None:
    """Where a model stands beside plain ones; None if no rows were held out."""
    scores, rows = report.scores, report.held_out_rows
    if scores is None:
        return None
    if isinstance(scores, ClassificationScores):
        others: list[Plain] = [(one.name, one.error, one.nlp) for one in report.baselines]
        return _placed(rows, "wrong", scores.error, scores.guess_error, scores.nlp, scores.guess_nlp, others)
    if report.robust:
        others = [(one.name, one.median_error, one.median_error) for one in report.baselines]
        error, guess = scores.median_error, scores.guess_median_error
        return _with_intervals(_placed(rows, "median", error, guess, error, guess, others), report)
    others = [(one.name, one.error, one.error) for one in report.baselines]
    error, guess = scores.rmse, scores.guess_rmse
    return _with_intervals(_placed(rows, "rmse", error, guess, error, guess, others), report)


def _with_intervals(found: Quality, report: FitReport) -> Quality:
    """What a rival that is as close lacks, or a guess that is."""
    if found.standing not in (Standing.LEVEL, Standing.GUESSING) or report.scores is None:
        return found
    guess = found.standing is Standing.GUESSING
    nlp = (
        report.scores.guess_nlp
        if guess
        else next(one for one in report.baselines if one.name == found.rivals[0][0]).nlp
    )
    if nlp is None:
        return replace(found, intervals="none")
    worse = nlp - report.scores.nlp > max(DENSER, found.rows**-0.5)
    return replace(found, intervals="worse" if worse else "")


def _placed(
    rows: int,
    measure: str,
    error: float,
    guess: float,
    loss: float,
    guess_loss: float,
    others: Sequence[Plain],
) -> Quality:
    """Where a loss stands beside those of plain models: (name, error, loss) each."""
    rivals = [
        (name, e, at) for name, e, at in others if name != GUESSING and e is not None and at is not None
    ]
    margin = max(LEVEL, rows**-0.5)
    best = min(rivals, key=lambda one: one[2], default=(GUESSING, guess, guess_loss))
    no_closer = loss >= guess_loss * (1.0 - LEVEL) and error >= guess * (1.0 - margin)
    if no_closer and best[2] >= guess_loss / (1.0 + margin):  # else the inputs do say something
        return Quality(rows, measure, error, guess, Standing.GUESSING, ())
    if not rivals:
        return Quality(rows, measure, error, guess, Standing.ALONE, ())
    if loss < best[2] / (1.0 + margin):
        behind = sorted(rivals, key=lambda one: one[2])
        return Quality(rows, measure, error, guess, Standing.BETTER, tuple((n, e) for n, e, _ in behind))
    standing = Standing.LEVEL if loss <= best[2] * (1.0 + margin) else Standing.WORSE
    return Quality(rows, measure, error, guess, standing, (best[:2],))


def how_good(found: Quality | None) -> str:
    """The same in a sentence."""
    if found is None:
        return "unknown, because no rows held out were scored."
    rows = f"{found.rows} held-out row" + ("" if found.rows == 1 else "s")
    few = " (few: a rough figure)" if found.rows < FEW_ROWS else ""
    if found.measure == "wrong":
        error, guess = percent(found.error, 1), percent(found.guess, 1)
        said = f"wrong about {error} of {rows}{few}, guessing about {guess}"
    elif found.measure == "median":
        error, guess = plain(found.error, 3), plain(found.guess, 3)
        said = f"half of {rows}{few} are within {error} of the prediction (guessing: {guess})"
    else:
        said = f"typically off by {plain(found.error, 3)} on {rows}{few}, guessing by {plain(found.guess, 3)}"
    return f"{said}; {_beside(found)}."


def _beside(found: Quality) -> str:
    if found.standing is Standing.GUESSING:
        if found.intervals:
            return "no closer than guessing, but its intervals are better"
        why = "these inputs say next to nothing about the target"
        return (
            f"no better than guessing: {why if found.rows >= FEW_ROWS else 'so few rows tell nothing else'}"
        )
    if found.standing is Standing.ALONE:
        return "no plain model was there to compare with"
    classes = found.measure == "wrong"
    names = [f"{name} ({percent(e, 1) if classes else plain(e, 3)})" for name, e in found.rivals]
    if found.standing is Standing.BETTER:
        return f"{'better probabilities than' if classes else 'better than'} {' and '.join(names)}"
    if found.standing is Standing.LEVEL and found.intervals:
        lacks = "has no intervals" if found.intervals == "none" else "its intervals are worse"
        return f"{names[0]} is about as close, but {lacks}"
    if found.standing is Standing.LEVEL:
        return f"{names[0]} {'has about as good probabilities' if classes else 'is about as good'}, and is simpler"
    what = "gives better probabilities" if classes else "is better"
    return f"{names[0]} {what}: a Gaussian process was not worth it"


# --- what matters -------------------------------------------------------------------------------------------


def effect_in_words(target: str, one: Relevance) -> str:
    """How predictions depend on an input, in a clause.

    >>> effect_in_words("price", Relevance("rooms", 0.8, 0.1, "rises"))
    'price rises with rooms'
    """
    name = one.column
    return {
        Shape.RISES: f"{target} rises with {name}",
        Shape.FALLS: f"{target} falls with {name}",
        Shape.PEAK: f"{target} is highest near {name} {one.highest}",
        Shape.DIP: f"{target} is lowest near {name} {one.lowest}",
        Shape.VARIES: f"{target} goes up and down with {name}",
        CLASSES: f"high {name} speaks for {shortened(one.highest)}, low for {shortened(one.lowest)}",
        LEVELS: f"{target} is highest for {name} {shortened(one.highest)}, lowest for {shortened(one.lowest)}",
    }.get(one.shape, name)


def _what_matters(target: str, matter: Sequence[Relevance], idle: Sequence[str]) -> str:
    if not matter:
        return "unknown." if not idle else "no input: predictions hardly depend on any of them."
    told = [f"{effect_in_words(target, one)} ({percent(min(one.share, 1.0))})" for one in matter[:NAMED]]
    told[0] = told[0].removesuffix(")") + " of the variation)"
    less = len(matter) - NAMED
    rest = [f"{counted(less, 'other input')} matter{'s' if less == 1 else ''} less"] if less > 0 else []
    if idle:
        names = idle[0] if len(idle) == 1 else counted(len(idle), "input")
        rest.append(f"{names} {'has' if len(idle) == 1 else 'have'} next to no influence")
    return "; ".join([*told, *rest]) + "."


# --- what to beware of --------------------------------------------------------------------------------------


def beware(cautions: Sequence[Message], words: Words) -> str:
    """The first cautions, in sentences."""
    if not cautions:
        return "of nothing that was found."
    told = [caution.render(words).strip().rstrip(".") for caution in cautions[:CAUTIONS]]
    more = len(cautions) - CAUTIONS
    return ". ".join(text[:1].upper() + text[1:] for text in told) + (
        f". {counted(more, 'more warning')} above." if more > 0 else "."
    )


def _cautions(model: TableModel, matter: Sequence[Relevance]) -> list[Message]:
    """What a user should know before use, the most serious first."""
    report = model.report
    found = [Message((report.interruption.rstrip("."),))] if report.interrupted else []
    if report.rows < FEW_LEARNED:
        said = f"it was learned from {counted(report.rows, 'row')}, from which little can be known"
        found.append(Message((said,), remedy=("give more rows",)))
    found += report.warnings
    found += _taken_as_ordered(model)
    found += unfair_intervals(report) + _unfair_probabilities(report) + _outliers(report)
    if report.rows_in_file > report.rows:
        part = f"it was learned from {report.rows} of {report.rows_in_file} rows, a random subset"
        found.append(Message((part,), remedy=("give more ", Setting("learn_rows"))))
    if len(found) < CAUTIONS:
        found += _beyond(model, matter)
    return found


def _taken_as_ordered(model: TableModel) -> list[Message]:
    """That whole numbers were taken as ratings, if nobody said so: numbers of classes look the same."""
    noise = getattr(model.estimator, "likelihood_", None)
    if model.report.choice is None or not isinstance(noise, OrdinalProbit):
        return []
    said = f"values of {model.preparation.target} were taken as ratings, in order"
    return [
        Message((said,), remedy=("if they are numbers of classes, use ", Setting("task", "classification")))
    ]


def unfair_intervals(report: FitReport) -> list[Message]:
    """If the 90 % intervals held fewer or more rows than fair ones do."""
    if not isinstance(report.scores, RegressionScores):
        return []
    level, share = max(report.scores.coverage, key=lambda pair: (pair[0] == 0.9, pair[0]), default=(0.9, 0.9))
    n = report.held_out_rows
    inside = round(share * n)
    low, high = float(bdtr(inside, n, level)), float(bdtrc(inside - 1, n, level))
    if min(low, high) >= SURPRISING / 2:
        return []
    narrow = low < high
    said = (
        f"intervals of {percent(level)} held {percent(share)} of the held-out rows: they are too "
        f"{'narrow' if narrow else 'wide'}"
    )
    remedy: tuple[Part, ...] = ("try another ", Setting("likelihood"), " or ", Setting("kernel"))
    return [Message((said,), remedy=remedy)]


def _unfair_probabilities(report: FitReport) -> list[Message]:
    """If classes were right more or less often than their probabilities say, by more than chance explains."""
    if not isinstance(report.scores, ClassificationScores) or not report.scores.reliability:
        return []
    stated, right, rows = (np.array(part, dtype=float) for part in zip(*report.scores.reliability))
    spread = float(np.sqrt(np.sum(rows * stated * (1.0 - stated))))
    gap = float(np.sum(right - rows * stated))
    if abs(gap) <= 2.58 * spread + 0.5:  # two-sided 1 %, and half a row because rows are counted
        return []
    total = float(rows.sum())
    said = (
        f"probabilities are too {'cautious' if gap > 0 else 'sure of themselves'}: classes given "
        f"{percent(np.sum(rows * stated) / total)} on average were right in {percent(np.sum(right) / total)}"
    )
    return [Message((said,), remedy=("try another ", Setting("kernel")))]


def _outliers(report: FitReport) -> list[Message]:
    """Rows that the noise calls outliers, those of which it is sure alone; or rows further out than chance explains.

    Of many rows some are in the tails of noise that is right: the more rows, the further out one must be.
    """
    listed = report.outliers or ()
    least = SURE if report.robust else 1.0 - ANY_ROW / report.rows
    sure = tuple(one for one in listed if one.probability >= least)
    found = sure or (listed if report.robust else ())
    if not found:
        return []
    rows = ", ".join(str(one.row) for one in sorted(found[:LISTED], key=lambda one: one.row))
    if len(found) > LISTED:
        rows += " and others"
    one = len(found) == 1
    if not report.robust:
        what = "is far from its prediction" if one else "are far from their predictions"
    elif sure:
        what = f"{'is' if one else 'are'} probably wrong"
    else:
        what = "may be wrong"
    said = f"row {rows} {what}" if one else f"{len(found)} rows {what} ({rows})"
    return [Message((said,), remedy=(f"check {'it' if one else 'them'}",))]


def _beyond(model: TableModel, matter: Sequence[Relevance]) -> list[Message]:
    """Where the data end along the most important input that is a number."""
    columns = {column.name: column for column in model.preparation.columns}
    names = [one.column for one in matter if columns[one.column].is_number]
    if not names:
        return []
    low, high = input_range(model, columns[names[0]])
    ends = f"{rounded(low, high - low)} to {rounded(high, high - low)}"
    return [Message((f"there are no rows outside {names[0]} {ends}, and predictions there are guesses",))]


def input_range(model: TableModel, column: Column) -> tuple[float, float]:
    """Smallest and largest value of a column of numbers, among the rows learned from."""
    place = model.preparation.features.index(column.features[0])
    ends = [(m.rows.X[:, place].min(), m.rows.X[:, place].max()) for m in model.estimator.members_]
    return float(min(low for low, _ in ends)), float(max(high for _, high in ends))
