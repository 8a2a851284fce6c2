"""Tables as dictionaries of columns, read from CSV files without further dependencies."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Column = NDArray[Any]
Table = dict[str, Column]


def as_column(texts: list[str]) -> Column:
    """Numbers if all entries are numbers (integers stay integers), else text."""
    for kind in (np.int64, np.float64):
        try:
            return np.array(texts).astype(kind)
        except ValueError:
            continue
    return np.array(texts)


def not_a_number(column: Column) -> str:
    """The first entry of a column of text that is no number."""
    return next((str(text) for text in column if as_column([str(text)]).dtype.kind not in "fiu"), "")


def read_csv(path: Path) -> Table:
    """Columns of a CSV file with a header line."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = [row for row in csv.reader(file) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} is not a table of text: {error}") from error
    if not rows:
        raise ValueError(f"{path} is empty; a header line and rows of values are expected")
    header = [name.strip() for name in rows[0]]
    ragged = next((i for i, row in enumerate(rows) if len(row) != len(header)), None)
    if ragged is not None:
        raise ValueError(
            f"{path}: row {ragged + 1} has {len(rows[ragged])} values, the header has {len(header)}"
        )
    columns = zip(*rows[1:]) if len(rows) > 1 else [()] * len(header)
    return {name: as_column([text.strip() for text in column]) for name, column in zip(header, columns)}


def decimal_year(months: Column) -> Column:
    """Years as decimal numbers from texts such as '1949-02' (start of the month); numbers stay."""
    if months.dtype.kind in "fi":
        return months.astype(float)
    parts = np.char.partition(months.astype(str), "-")
    return parts[:, 0].astype(float) + (parts[:, 2].astype(float) - 1.0) / 12.0
