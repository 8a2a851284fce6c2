"""`OutputsModel`: several targets of one table as outputs that tell about each other (`CoregionalizedRegressor`).

A cell of a target may be empty: that output was not seen in this row. Predictions of a row have mean, sd, lower and
upper for each target, called by it: "price mean", "price sd", ...
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cavity.frames.coding import Coding, Decider, note, style_note
from cavity.frames.columns import (
    as_numbers,
    is_missing,
    looks_like_dates,
    refuse_extreme,
    texts_of,
    try_numbers,
)
from cavity.frames.errors import Problems, TableError
from cavity.frames.notes import Note
from cavity.frames.numbers import NumberStyle, style_of
from cavity.numerics.arrays import Array
from cavity.runtime.errors import Message
from cavity.runtime.sentences import counted, listed
from cavity.tables.fit_report import FitReport
from cavity.tables.model import PredictsFiles, checked_level
from cavity.tables.preparation import FEWEST_ROWS, check_columns, check_text, check_treatment
from cavity.tables.reading import Table
from cavity.tables.writing import REGRESSION

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Output:
    """A target: its name, how its numbers are written if they are no plain ones, and its kind of noise."""

    name: str
    style: NumberStyle | None = None
    noise: str = "gaussian"


@dataclass(frozen=True)
class OutputsReport:
    """What was found at the fit.

    Attributes
    ----------
    rows : int
        Rows with at least one target.
    by_row : bool
        Whether whole rows were held out, as of a table without gaps, or single cells, whose rows may have others.
    each : tuple of FitReport
        Of every output: cells seen, scores, plain models. The last of these is a model of this output alone.
    warnings : tuple of Message
    seconds : float
    interrupted : bool
    """

    rows: int
    by_row: bool
    each: tuple[FitReport, ...]
    warnings: tuple[Message, ...] = ()
    seconds: float = 0.0
    interrupted: bool = False


@dataclass(frozen=True)
class OutputsModel(PredictsFiles):
    """A model of several targets of a table.

    Attributes
    ----------
    coding : Coding
        How inputs are made.
    outputs : tuple of Output
    estimator : CoregionalizedRegressor
    report : OutputsReport
    """

    coding: Coding
    outputs: tuple[Output, ...]
    estimator: Any
    report: OutputsReport

    @property
    def names(self) -> list[str]:
        """The targets."""
        return [output.name for output in self.outputs]

    @property
    def columns_of_fit(self) -> tuple[Coding, list[str]]:
        """How columns become inputs, and the targets."""
        return self.coding, self.names

    def predict(
        self,
        frame: pd.DataFrame,
        interval: float = 0.9,
        rows: NDArray[np.intp] | None = None,
        *,
        clean: bool = False,
    ) -> pd.DataFrame:
        """Mean, sd, lower and upper of each target for the rows of a table; arguments as of `TableModel.predict`."""
        import pandas as pd

        checked_level(interval)
        self.coding.require_columns(frame, self.names)
        X = pd.DataFrame(self.coding.encode(frame, rows), columns=self.coding.features)
        columns: dict[str, Array] = {}
        for name, found in self.estimator.predict_dist(X, clean=clean).items():
            with np.errstate(invalid="ignore"):
                parts = (found.mean, np.sqrt(found.variance), *found.interval(interval))
            columns |= {f"{name} {part}": values for part, values in zip(REGRESSION, parts)}
        return pd.DataFrame(columns)


# --- deciding -----------------------------------------------------------------------------------------------


def prepare_outputs(
    table: Table,
    targets: Sequence[str],
    *,
    drop: Sequence[str] = (),
    impute: str = "median",
    categories: str = "one-hot",
    text: Sequence[str] = (),
) -> tuple[Coding, tuple[Output, ...], Table, pd.DataFrame, pd.DataFrame]:
    """Decide what the columns of a table mean, and turn it into inputs and outputs.

    Returns
    -------
    coding, outputs
    table : Table
        Its rows that have at least one target.
    X : DataFrame (n, D) of floats
    Y : DataFrame (n, p) of floats, nan where an output was not seen

    Raises
    ------
    TableError
        With all that is wrong, if there are several things.
    """
    import pandas as pd

    names = [str(name) for name in targets]
    check_columns(table.frame, names, drop)
    check_treatment(impute, categories)
    check_text(table.frame, names, drop, text)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise TableError(f"{twice!r} is named twice as a target")
    seen = ~np.column_stack([is_missing(table.frame[name]) for name in names])
    for name, there in zip(names, seen.T):
        if not there.any():
            raise TableError(f"the target {name!r} has no value at all; leave it out")
    some = int(seen.any(axis=1).sum())
    if some < FEWEST_ROWS:
        raise TableError(f"{counted(some, 'row')} with a target; a model needs at least {FEWEST_ROWS}")
    table, notes = _with_some_target(table, seen)
    problems, outputs, columns = Problems(), [], {}
    for name in names:
        with problems.kept():
            output, numbers, told = _output(table.frame[name], table.rows, name)
            outputs.append(output)
            notes += told
            columns[name] = numbers
    dropped = list(dict.fromkeys(str(name) for name in drop))
    inputs = [name for name in map(str, table.frame.columns) if name not in (*names, *dropped)]
    decider = Decider(table.rows, impute == "median", categories == "kernel", tuple(text))
    coding = decider.coding(table.frame, inputs, problems)
    problems.tell()
    if drop:
        notes.append(note(f"Left out as asked: {listed(drop)}."))
    coding = Coding((*coding.given, *dropped), coding.columns, (*notes, *coding.notes))
    X = pd.DataFrame(coding.encode(table.frame, table.rows), columns=coding.features)
    return coding, tuple(outputs), table, X, pd.DataFrame(columns)


def _with_some_target(table: Table, seen: NDArray[np.bool_]) -> tuple[Table, list[Note]]:
    """The rows in which something was seen, and what is said about gaps."""
    some = seen.any(axis=1)
    notes = []
    if not some.all():
        notes.append(note(f"{counted(int((~some).sum()), 'row')} without any of the targets were left out."))
        table = Table(
            table.frame.iloc[np.flatnonzero(some)].reset_index(drop=True),
            table.rows[some],
            int(some.sum()),
            table.notes,
        )
    gaps = int((~seen[some]).sum())
    if gaps:
        share = gaps / seen[some].size
        notes.append(
            note(f"{counted(gaps, 'cell')} of the targets are empty ({share:.0%}): these were not seen.")
        )
    return table, notes


def _output(values: pd.Series, rows: NDArray[np.intp], name: str) -> tuple[Output, Array, list[Note]]:
    """A target as numbers, nan where it was not seen."""
    present, style = ~is_missing(values), None
    if looks_like_dates(values):
        raise TableError(f"the target {name!r} holds dates; convert it to numbers first")
    if np.isnan(try_numbers(values)[present]).any():
        style = style_of(f"the target {name!r}", texts_of(values))
        if style is None:
            odd = str(values[present & np.isnan(try_numbers(values))].iloc[0])
            raise TableError(
                f"the target {name!r} holds text, such as {odd!r}: several targets at once must be numbers; fit a "
                "target of classes by itself"
            )
    numbers = as_numbers(values, rows, style)
    refuse_extreme(f"the target {name!r}", numbers)
    distinct = np.unique(numbers[present])
    if len(distinct) < 2:
        raise TableError(
            f"the target {name!r} is the same in all rows, {distinct[0]:g}: there is nothing to learn"
        )
    told = [
        note(f"Target {name!r}: {counted(int(present.sum()), 'value')}, {len(distinct)} of them different.")
    ]
    if style is not None:
        told.append(style_note(f"The target {name!r}", values, numbers))
    return Output(name, style), numbers, told
