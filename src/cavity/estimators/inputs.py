"""What estimators are given: numbers as they are, other data frames as `cavity fit` reads a table.

A data frame with text, categories, dates or missing values is coded (`cavity.frames.coding`), and the coding is kept
for predictions. Arrays hold numbers; a missing one is refused, since nothing says what it means.
"""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from sklearn.utils.validation import check_array, check_X_y, validate_data

from cavity.frames.coding import Coding, Decider
from cavity.frames.errors import Problems, TableError
from cavity.frames.notes import TableWarning
from cavity.learning.training_rows import require_numbers
from cavity.numerics.arrays import Array
from cavity.runtime.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

ARRAY_REMEDY = (
    "give X as a data frame, whose missing values are filled in and marked, or fill them in yourself, as "
    "sklearn.impute.SimpleImputer does"
)
FRAME_REMEDY = (
    "none was missing when the model was fitted, so that it has no stand-in: complete the rows, or fit it to rows of "
    "which some have missing values"
)

OURS = ("cavity.", "sklearn.")
"""Packages whose lines no warning is about."""


def checked_inputs(estimator: Any, X: Any, *, reset: bool) -> Array:
    """Inputs as numbers, shape (n, features), after scikit-learn's checks."""
    coded = _coded(estimator, X, reset)
    if coded is not None:
        return cast(Array, check_array(coded, dtype=np.float64))
    require_numbers(X, "X")
    checked = validate_data(estimator, X, reset=reset, dtype=np.float64, ensure_all_finite=False)
    _require_finite(checked, "X", FRAME_REMEDY if is_frame(X) else ARRAY_REMEDY)
    return cast(Array, checked)


def checked_data(estimator: Any, X: Any, y: Any, *, reset: bool, **of_targets: Any) -> tuple[Array, Any]:
    """Inputs as numbers and targets, after scikit-learn's checks; `of_targets` are those of the targets."""
    if np.asarray(y).dtype.kind == "f":
        _require_finite(np.asarray(y), "y", "leave out rows whose target is missing")
    coded = None if y is None else _coded(estimator, X, reset)
    if coded is not None:
        return cast("tuple[Array, Any]", check_X_y(coded, y, dtype=np.float64, **of_targets))
    require_numbers(X, "X")
    checked, targets = validate_data(
        estimator, X, y, reset=reset, dtype=np.float64, ensure_all_finite=False, **of_targets
    )
    _require_finite(checked, "X", ARRAY_REMEDY)
    return checked, targets


def _require_finite(values: Array, name: str, remedy: str) -> None:
    """Refuse NaN and infinity, with the place of the first; `remedy` is that of NaN."""
    if np.isfinite(values).all():
        return
    first = np.argwhere(~np.isfinite(values))[0]
    what = "NaN" if np.isnan(values).any() else "infinity"
    column = f", column {first[1]}" if len(first) > 1 else ""
    if what == "infinity":
        remedy = "correct it, or leave the row out"
    place = f"the first not finite value is at row {first[0]}{column}, counted from 0"
    raise InputError(f"Input {name} contains {what} ({place})", remedy=remedy)


# --- data frames --------------------------------------------------------------------------------------------


def _coded(estimator: Any, X: Any, reset: bool) -> Array | None:
    """A data frame that is not all numbers as numbers; None for anything else. Keeps the coding of a fit."""
    if not reset:
        coding = getattr(estimator, "coding_", None)
        return None if coding is None else _coded_again(estimator, coding, X)
    estimator.coding_ = None
    if not is_frame(X) or len(X) == 0:
        return None
    frame = as_pandas(X)
    if frame.columns.duplicated().any() or not _needs_coding(frame):
        return None
    validate_data(estimator, X, skip_check_array=True)
    problems = Problems()
    coding = Decider(np.arange(1, len(frame) + 1)).coding(frame, list(frame.columns), problems)
    problems.tell()
    estimator.coding_ = coding
    for note in coding.notes:
        if note.warns:
            _warn(TableWarning(note.parts))
    return coding.encode(frame)


def _coded_again(estimator: Any, coding: Coding, X: Any) -> Array:
    """New rows as those of the fit were coded, with a warning of what is new about them."""
    validate_data(estimator, X, reset=False, skip_check_array=True)
    if is_frame(X):
        frame = as_pandas(X)
    else:
        import pandas as pd

        if np.ndim(X) != 2:
            raise InputError(f"must have rows and columns, got shape {np.shape(X)}", parameter="X")
        frame = pd.DataFrame(np.asarray(X, dtype=object))
    if frame.shape[1] != len(coding.given):
        raise TableError(f"X has {frame.shape[1]} columns, and the model was fitted with {len(coding.given)}")
    if len(frame) == 0:
        raise InputError("Found array with 0 sample(s) where a minimum of 1 is required", parameter="X")
    frame.columns = list(coding.given)  # of which scikit-learn has compared the names, if there are any
    numbers = coding.encode(frame)
    for news in coding.news(frame):
        for sentence in news.sentences:
            _warn(TableWarning(sentence))
    return numbers


def _warn(warning: TableWarning) -> None:
    """Warn at the line of the user that called fit or predict."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(OURS):
        frame, level = frame.f_back, level + 1
    warnings.warn(warning, stacklevel=level)


def is_frame(X: Any) -> bool:
    """Whether it is a data frame of pandas, polars or their like."""
    return hasattr(X, "columns") and hasattr(X, "dtypes") and hasattr(X, "shape")


def as_pandas(X: Any) -> pd.DataFrame:
    """A data frame of pandas with texts as names; one of pandas itself is not copied."""
    import pandas as pd

    if isinstance(X, pd.DataFrame):
        frame = X.copy(deep=False)
        frame.columns = [str(name) for name in X.columns]
        return frame.reset_index(drop=True)
    return pd.DataFrame({str(name): np.asarray(X[name]) for name in X.columns})


def _needs_coding(frame: pd.DataFrame) -> bool:
    """Whether some column is not all numbers."""
    return not all(_all_numbers(frame[name]) for name in frame)


def _all_numbers(values: pd.Series) -> bool:
    import pandas as pd

    if isinstance(values.dtype, pd.CategoricalDtype) or values.dtype.kind in "mM":
        return False
    if values.isna().any():
        return False
    if values.dtype.kind in "biuf":
        return True
    if values.dtype.kind != "O":
        return values.dtype.kind == "c"  # which is refused as an array of it would be
    try:
        values.to_numpy(dtype=float)
    except (TypeError, ValueError):
        return any(not isinstance(value, str | bytes) and _is_odd(value) for value in values)
    return True


def _is_odd(value: Any) -> bool:
    """Whether a value is nothing that a table holds, such as a list."""
    return isinstance(value, list | tuple | dict | set | np.ndarray)
