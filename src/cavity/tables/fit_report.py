"""What was found when a model of a table was fitted; stored with the model and shown by commands and reports."""

from __future__ import annotations

from dataclasses import dataclass

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
        Probability of a central interval, and share of the targets inside it.
    """

    rmse: float
    guess_rmse: float
    nlp: float
    guess_nlp: float
    coverage: tuple[tuple[float, float], ...]


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
    """

    error: float
    guess_error: float
    nlp: float
    guess_nlp: float
    information: float
    calibration: float


Scores = RegressionScores | ClassificationScores


@dataclass(frozen=True)
class Relevance:
    """Share of the variance of predictions that is due to a column of the table, and its standard error."""

    column: str
    share: float
    error: float


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
    choice : Message or None
        Why this noise, if that was left open. It was chosen with all rows.
    warnings : tuple of Message
        What a user should know about the fit.
    seconds : float
        Time that learning took.
    robust : bool
        Whether the noise tells outliers from other rows.
    scores : RegressionScores, ClassificationScores or None
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
    choice: Message | None = None
    warnings: tuple[Message, ...] = ()
    seconds: float = 0.0
    robust: bool = False
    scores: Scores | None = None
    relevance: tuple[Relevance, ...] | None = None
    outliers: tuple[Outlier, ...] | None = None
    interrupted: bool = False
    undone: tuple[str, ...] = ()

    @property
    def interruption(self) -> str:
        """That Ctrl-C ended the fit, and what was not done, in a sentence; empty if it did not."""
        if not self.interrupted:
            return ""
        return "; ".join(["Interrupted: the best values so far were kept", *self.undone]) + "."
