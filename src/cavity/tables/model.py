"""`TableModel`: a fitted estimator together with how tables become its inputs, in one file.

mean, sd, lower, upper           for regression, the interval at the level asked for
class, one column per class      for classification, probabilities that add up to one
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cavity.frames.coding import Coding
from cavity.frames.columns import News
from cavity.frames.errors import TableError
from cavity.runtime.storing import Storable
from cavity.tables.fit_report import FitReport
from cavity.tables.preparation import Preparation
from cavity.tables.reading import BLOCK_ROWS, read_blocks

if TYPE_CHECKING:
    import pandas as pd


class PredictsFiles(Storable, ABC):
    """A model of a table that predicts files, which may be larger than memory, and is stored in one."""

    @abstractmethod
    def predict(
        self,
        frame: pd.DataFrame,
        interval: float = 0.9,
        rows: NDArray[np.intp] | None = None,
        *,
        clean: bool = False,
    ) -> pd.DataFrame:
        """Predictions for the rows of a table, one row each."""

    @property
    @abstractmethod
    def columns_of_fit(self) -> tuple[Coding, list[str]]:
        """How columns become inputs, and the names of the targets."""

    def predict_file(
        self,
        path: str | Path,
        interval: float = 0.9,
        block_rows: int = BLOCK_ROWS,
        heard: Callable[[str], None] | None = None,
        keep: Sequence[str] = (),
        *,
        clean: bool = False,
    ) -> Iterator[pd.DataFrame]:
        """Predictions for a file, block by block.

        `heard` is called with a sentence where the file has columns that the model does not know, and in the end with
        one for each column that has missing values or levels that it had not when the model was fitted. Columns to
        `keep` (keys, say) stand before the predictions, as they are in the file; inputs of the model as they were
        understood.
        """
        done = 0
        news: list[News] | None = None
        coding, targets = self.columns_of_fit
        inputs = {column.name for column in coding.columns}
        for block in read_blocks(path, block_rows, [name for name in keep if name not in inputs]):
            if done == 0:
                unknown = [name for name in coding.unknown(block, targets) if name not in keep]
                if unknown and heard is not None:
                    coding.require_columns(block, targets)
                    listed = ", ".join(map(repr, unknown))
                    heard(f"Ignored, because the data of the fit did not have them: {listed}.")
            predicted = self.predict(block, interval, np.arange(done + 1, done + 1 + len(block)), clean=clean)
            found = coding.news(block)
            news = found if news is None else [a + b for a, b in zip(news, found)]
            yield _beside(block, keep, predicted)
            done += len(block)
        if done == 0:
            raise TableError(f"{path} has a header but no rows")
        for sentence in (told for one in news or [] for told in one.sentences):
            if heard is not None:
                heard(f"Warning: {sentence}.")


@dataclass(frozen=True)
class TableModel(PredictsFiles):
    """A model of a table.

    Attributes
    ----------
    preparation : Preparation
    estimator : GPRegressor or GPClassifier
    report : FitReport
        What was found when it was fitted: sizes, held-out scores, calibration, outliers.
    """

    preparation: Preparation
    estimator: Any
    report: FitReport

    def predict(
        self,
        frame: pd.DataFrame,
        interval: float = 0.9,
        rows: NDArray[np.intp] | None = None,
        *,
        clean: bool = False,
    ) -> pd.DataFrame:
        """Predictions for the rows of a table, one row each.

        Parameters
        ----------
        frame : DataFrame with the columns of the fit, in any order
        interval : float
            Probability that the central interval of a regression holds, between 0 and 1.
        rows : array of int, optional
            Row numbers for error messages.
        clean : bool
            Whether sd and interval are those of observations that are no outliers (`GPRegressor.predict_dist`).
        """
        import pandas as pd

        checked_level(interval)
        X = self.preparation.inputs(frame, rows)
        if self.preparation.task == "classification":
            if clean:
                raise TableError(
                    "is for regression: classes have no outliers", parameter="clean", value=clean
                )
            probabilities = self.estimator.predict_proba(X)
            classes = [_label(c) for c in self.estimator.classes_]
            table = pd.DataFrame(probabilities, columns=[f"p({c})" for c in classes])
            table.insert(0, self.preparation.target, [classes[i] for i in np.argmax(probabilities, axis=1)])
            return table
        prediction = self.estimator.predict_dist(X, clean=clean)
        lower, upper = prediction.interval(interval)
        with np.errstate(invalid="ignore"):
            sd = np.sqrt(prediction.variance)
        return pd.DataFrame({"mean": prediction.mean, "sd": sd, "lower": lower, "upper": upper})

    @property
    def columns_of_fit(self) -> tuple[Coding, list[str]]:
        """How columns become inputs, and the target."""
        return self.preparation.coding, [self.preparation.target]


def checked_level(interval: float) -> None:
    """Refuse what is no probability of an interval."""
    if not 0.0 < interval < 1.0:
        raise TableError(f"must be between 0 and 1, got {interval!r}", parameter="interval", value=interval)


def _beside(block: pd.DataFrame, keep: Sequence[str], predicted: pd.DataFrame) -> pd.DataFrame:
    """Predictions behind columns of the table."""
    for i, name in enumerate(dict.fromkeys(keep)):
        if name not in block:
            raise TableError(
                f"there is no column {name!r} to keep; there are: {', '.join(map(str, block.columns))}"
            )
        if name in predicted:
            raise TableError(
                f"column {name!r} cannot be kept, because predictions have one of that name; rename it in the table"
            )
        predicted.insert(i, name, block[name].to_numpy())
    return predicted


def _label(value: Any) -> str:
    """A class as text: whole numbers without a decimal point."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)
