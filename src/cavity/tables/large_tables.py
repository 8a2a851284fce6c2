"""Tables with more rows than are looked at one by one: a sample decides what columns mean and what is learned, and the
model is then conditioned on all rows, which are read in blocks.

Parquet files stay on disk, or are read by the workers of a Dask cluster. Text is read once, and its numbers are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cavity.frames.errors import TableError
from cavity.numerics.arrays import Array
from cavity.rows.base import ArrayRows, RowSource
from cavity.rows.parquet import ParquetRows, Part, parquet_files
from cavity.runtime.errors import InputError, Message
from cavity.tables.preparation import Preparation
from cavity.tables.reading import is_parquet, read_blocks

if TYPE_CHECKING:
    import pandas as pd

SAMPLE_ROWS = 50_000
"""Rows of a table that are looked at one by one, at random if there are more."""


@dataclass(frozen=True)
class Prepared:
    """Inputs of a part of a table, as a preparation makes them; errors name the file and the row in it."""

    preparation: Preparation

    def __call__(self, frame: pd.DataFrame, part: Part) -> Array:
        """Inputs (n, D)."""
        with in_file(part):
            numbers = np.arange(part.first, part.first + len(frame))
            return np.ascontiguousarray(self.preparation.inputs(frame, numbers).to_numpy())


class in_file:
    """Errors within it name the file."""

    def __init__(self, part: Part) -> None:
        self.part = part

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, InputError):
            message = error.message
            where = Message((f"{self.part.file}: ", *message.clause), remedy=message.remedy)
            raise TableError.of(where) from error


@dataclass(frozen=True)
class WholeTable:
    """All rows of a table: inputs in blocks, and targets in memory."""

    rows: RowSource
    y: NDArray[Any]


def whole_table(path: str | Path, preparation: Preparation, scheduler: str | None = None) -> WholeTable:
    """All rows of a file or of several, in the meaning that a sample of them has.

    Parameters
    ----------
    scheduler : str, optional
        Address of a Dask scheduler whose workers read the files, which must be Parquet.
    """
    if not is_parquet(path):
        if scheduler is not None:
            raise TableError("is for Parquet files", parameter="scheduler", value=scheduler)
        return WholeTable(*_from_text(path, preparation))
    columns = [column.name for column in preparation.columns]
    rows = ParquetRows(parquet_files(path), columns, Prepared(preparation), len(preparation.features))
    y = np.concatenate(list(_targets(rows, preparation)))
    if scheduler is None:
        return WholeTable(rows, y)
    from cavity.rows.distributed import DaskRows, connect

    return WholeTable(DaskRows.of_parquet(rows, connect(scheduler)), y)


def _targets(rows: ParquetRows, preparation: Preparation) -> Iterator[NDArray[Any]]:
    from cavity.rows.parquet import frames_of

    for part, frame in frames_of(rows.pieces, [preparation.target]):
        with in_file(part):
            yield preparation.targets(frame, np.arange(part.first, part.first + len(frame)))


def _from_text(path: str | Path, preparation: Preparation) -> tuple[RowSource, NDArray[Any]]:
    X, y, done = [], [], 0
    for block in read_blocks(path):
        numbers = np.arange(done + 1, done + 1 + len(block))
        X.append(preparation.inputs(block, numbers).to_numpy())
        y.append(preparation.targets(block, numbers))
        done += len(block)
    return ArrayRows(np.concatenate(X)), np.concatenate(y)
