"""What was found when a model of a table was fitted; stored with the model and shown by commands and reports."""

from __future__ import annotations

from dataclasses import dataclass

from cavity.learning.choice import Choice
from cavity.runtime.errors import Message


@dataclass(frozen=True)
class RegressionScores:
    """Scores of rows that learning has not seen, beside those of a guess that knows no inputs.

    Attributes
    ----------
    rmse, guess_rmse : float
        Root mean squared error, in units of the target; the guess is the mean of the targets learned from.
    nlp, guess_nlp : float
        Mean negative log predictive density, in nats; the guess is normal with their mean and variance.
    coverage : tuple of (float, float)
        Probability of a central interval, and share of the targets inside it, as `cavity.tables.scores` counts them.
    median_error, guess_median_error : float
        Median absolute error, which outliers among the rows do not move.
    target_variance : float
        Of the held-out targets.
    """

    rmse: float
    guess_rmse: float
    nlp: float
    guess_nlp: float
    coverage: tuple[tuple[float, float], ...]
    median_error: float
    guess_median_error: float
    target_variance: float

    @property
    def smse(self) -> float:
        """Standardized mean squared error: of the model, over the variance of the held-out targets."""
        return self.standardized(self.rmse)

    @property
    def msll(self) -> float:
        """Mean standardized log loss: negative log density less that of the guess; below zero is better."""
        return self.gain(self.nlp)

    def gain(self, nlp: float) -> float:
        """MSLL of any model with this log loss on the same rows; zero for the guess, whatever rounding says."""
        return 0.0 if abs(nlp - self.guess_nlp) < 1e-12 * (1.0 + abs(nlp)) else nlp - self.guess_nlp

    def standardized(self, rmse: float) -> float:
        """SMSE of any model with this RMSE on the same rows; nan if the targets do not vary."""
        return rmse**2 / self.target_variance if self.target_variance > 0 else float("nan")


@dataclass(frozen=True)
class ClassificationScores:
    """Scores of rows that learning has not seen, beside those of a guess that knows no inputs.

    Attributes
    ----------
    error, guess_error : float
        Share of wrong classes; the guess is the most frequent class of the rows learned from.
    nlp, guess_nlp : float
        Mean negative log probability of the class, in nats; the guess is by the frequencies of the classes.
    information : float
        Mean of log2 p(class) above that of the guess, in bits.
    calibration : float
        Mean difference of stated certainty and share of right answers.
    confusion : tuple of tuples of int
        Rows held out by true class and by chosen class, in the order of the classes.
    reliability : tuple of (float, int, int)
        Of groups of rows of similar certainty: mean stated certainty, right answers, rows.
    """

    error: float
    guess_error: float
    nlp: float
    guess_nlp: float
    information: float
    calibration: float
    confusion: tuple[tuple[int, ...], ...] = ()
    reliability: tuple[tuple[float, int, int], ...] = ()


Scores = RegressionScores | ClassificationScores


@dataclass(frozen=True)
class Baseline:
    """A plain model on the rows of the scores.

    Attributes
    ----------
    name : str
        "guessing", "linear regression" or "logistic regression", "gradient boosting".
    error : float
        RMSE of a regression, in units of the target; share of wrong classes.
    nlp : float or None
        Mean negative log predictive density or probability, in nats; None if the model has no noise.
    seconds : float
        Time that it took.
    median_error : float or None
        Median absolute error of a regression.
    """

    name: str
    error: float
    nlp: float | None
    seconds: float
    median_error: float | None = None


@dataclass(frozen=True)
class Relevance:
    """How much, and how, predictions depend on a column of the table.

    Attributes
    ----------
    column : str
    share, error : float
        Share of the variance of predictions that is due to it, alone or together with others, and its standard error.
    shape : str
        How the average prediction goes along it, as `cavity.measures.effects.Shape` says; "levels" for text,
        "classes" if there are several, and empty if that is unknown.
    highest, lowest : str
        Where the average prediction is highest and lowest: a number, or a level. Of several classes, those that are
        likelier at its large and at its small values.
    """

    column: str
    share: float
    error: float
    shape: str = ""
    highest: str = ""
    lowest: str = ""


@dataclass(frozen=True)
class Outlier:
    """A row that the others make improbable: its number in the file, its target, the probability of an outlier."""

    row: int
    value: float
    probability: float


@dataclass(frozen=True)
class FitReport:
    """What was found at the fit.

    Attributes
    ----------
    rows : int
        Rows the model was learned from.
    rows_in_file : int
        Rows of the file, of which they may be a random part.
    held_out_rows : int
        Rows of the scores; a model with the same noise was learned without them, for the scores alone.
    choice : Choice or None
        Which kind of model, if that was left open, and why. It was chosen with all rows.
    warnings : tuple of Message
        What a user should know about the fit.
    seconds : float
        Time that learning took.
    robust : bool
        Whether the noise tells outliers from other rows.
    scores : RegressionScores, ClassificationScores or None
    baselines : tuple of Baseline
        Plain models, learned from the same rows and scored on the same rows; none if there are no scores.
    relevance : tuple of Relevance or None
        Largest share first.
    outliers : tuple of Outlier or None
        Most probable first.
    interrupted : bool
        Whether Ctrl-C ended the fit.
    undone : tuple of str
        What was left out because of it, in clauses.
    """

    rows: int
    rows_in_file: int
    held_out_rows: int = 0
    choice: Choice | None = None
    warnings: tuple[Message, ...] = ()
    seconds: float = 0.0
    robust: bool = False
    scores: Scores | None = None
    baselines: tuple[Baseline, ...] = ()
    relevance: tuple[Relevance, ...] | None = None
    outliers: tuple[Outlier, ...] | None = None
    interrupted: bool = False
    undone: tuple[str, ...] = ()

    def regression_rows(self) -> list[tuple[str, float, float, float, float, float]]:
        """Name, RMSE, median error, log loss, SMSE and MSLL of this model and of the plain ones; nan if unknown."""
        scores, unknown = self.scores, float("nan")
        assert isinstance(scores, RegressionScores)
        rows = []
        for name, error, *known in (
            ("this model", scores.rmse, scores.median_error, scores.nlp),
            *((b.name, b.error, b.median_error, b.nlp) for b in self.baselines),
        ):
            median, loss = (unknown if one is None else one for one in known)
            rows.append((name, error, median, loss, scores.standardized(error), scores.gain(loss)))
        return rows

    @property
    def interruption(self) -> str:
        """That Ctrl-C ended the fit, and what was not done, in a sentence; empty if it did not."""
        if not self.interrupted:
            return ""
        return "; ".join(["Interrupted: the best values so far were kept", *self.undone]) + "."
