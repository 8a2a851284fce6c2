"""Reading tables from files: CSV, TSV and Parquet, the first two also compressed by gzip, whole or in blocks.

Text files are read as text and converted column by column later (`cavity.tables.preparation`), so that what a column
means never depends on which part of the file is being looked at. Rows are numbered from 1, the first row after the
header.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

BLOCK_ROWS = 20_000
"""Rows read at a time."""

SEPARATORS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
PARQUET = (".parquet", ".pq")


class TableError(ValueError):
    """A table that cannot be used; the message is one sentence with the remedy."""


@dataclass(frozen=True)
class Table:
    """Rows of a file.

    Attributes
    ----------
    frame : DataFrame
        Columns of text (from CSV and TSV) or of typed values (from Parquet).
    rows : array of int
        Number of each row in the file, from 1.
    total : int
        Rows in the file, of which these may be a random part.
    """

    frame: pd.DataFrame
    rows: NDArray[np.intp]
    total: int


def read_table(path: str | Path, max_rows: int | None = None, seed: int = 0) -> Table:
    """A whole table, or a random subset of its rows that is drawn while the file is read in blocks.

    Parameters
    ----------
    path : path of a .csv, .tsv or .parquet file, or .csv.gz, .tsv.gz
    max_rows : int, optional
        Keep at most so many rows, all with the same probability; the file may be larger than memory.
    seed : int
        For the choice of rows.
    """
    import pandas as pd

    if max_rows is not None and max_rows < 1:
        raise TableError(f"max_rows must be at least 1, got {max_rows}")
    rng = np.random.default_rng(seed)
    kept: list[Any] = []
    keys: list[NDArray[np.float64]] = []
    numbers: list[NDArray[np.intp]] = []
    total = 0
    for block in read_blocks(path):
        kept.append(block)
        keys.append(rng.random(len(block)))
        numbers.append(np.arange(total + 1, total + 1 + len(block)))
        total += len(block)
        if max_rows is not None and sum(map(len, kept)) > max_rows + BLOCK_ROWS:
            kept, keys, numbers = _smallest(kept, keys, numbers, max_rows)
    if total == 0:
        raise TableError(f"{path} has a header but no rows")
    if max_rows is not None and total > max_rows:
        kept, keys, numbers = _smallest(kept, keys, numbers, max_rows)
    return Table(pd.concat(kept, ignore_index=True), np.concatenate(numbers), total)


def _smallest(frames: list[Any], keys: list[Any], numbers: list[Any], count: int) -> tuple[list[Any], ...]:
    """The rows with the smallest random keys: a fair sample of all rows so far, in the order of the file."""
    import pandas as pd

    key = np.concatenate(keys)
    chosen = np.sort(np.argpartition(key, count - 1)[:count]) if len(key) > count else np.arange(len(key))
    frame = pd.concat(frames, ignore_index=True).iloc[chosen]
    return [frame.reset_index(drop=True)], [key[chosen]], [np.concatenate(numbers)[chosen]]


def read_blocks(path: str | Path, rows: int = BLOCK_ROWS) -> Iterator[pd.DataFrame]:
    """A table in blocks of rows."""
    file = Path(path)
    if not file.exists():
        raise TableError(f"there is no file {path}")
    if file.is_dir():
        raise TableError(f"{path} is a folder, not a table")
    suffixes = [s.lower() for s in file.suffixes]
    zipped = bool(suffixes) and suffixes[-1] == ".gz"
    kind = (suffixes[:-1] if zipped else suffixes)[-1:] or [""]
    if kind[0] in PARQUET and not zipped:
        return _parquet_blocks(file, rows)
    if kind[0] in SEPARATORS:
        return _text_blocks(file, SEPARATORS[kind[0]], zipped, rows)
    known = ", ".join([*SEPARATORS, ".csv.gz", ".tsv.gz", *PARQUET])
    raise TableError(f"{path} is no kind of table that can be read; its name must end in one of {known}")


# --- text ---------------------------------------------------------------------------------------------------


def _text_blocks(file: Path, separator: str, zipped: bool, rows: int) -> Iterator[pd.DataFrame]:
    import pandas as pd

    try:
        names, separator = _header(file, separator, zipped)
        reader = pd.read_csv(
            file,
            sep=separator,
            header=0,
            names=names,
            index_col=False,
            dtype=str,
            chunksize=rows,
            compression="gzip" if zipped else None,
            skipinitialspace=True,
            encoding="utf-8-sig",
            on_bad_lines="error",
        )
        with reader:
            for block in reader:
                if len(block):
                    yield block.reset_index(drop=True)
    except UnicodeDecodeError:
        raise TableError(f"{file} is not text in UTF-8; save it again in that encoding") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise TableError(f"{file} is damaged or not compressed by gzip ({error})") from None
    except pd.errors.ParserError as error:
        reason = " ".join(str(error).replace("Error tokenizing data. C error:", "").split())
        raise TableError(f"{file} is not a regular table ({reason})") from None
    except csv.Error as error:
        raise TableError(f"{file} is not a regular table ({error})") from None


def _header(file: Path, separator: str, zipped: bool) -> tuple[list[str], str]:
    """Column names, each of them once; a comma may turn out to be a semicolon."""
    options: dict[str, Any] = {"encoding": "utf-8-sig", "newline": ""}
    with gzip.open(file, "rt", **options) if zipped else file.open(**options) as lines:
        first = next((line for line in lines if line.strip()), "")
    if not first:
        raise TableError(f"{file} is empty")
    if "\0" in first:
        raise TableError(f"{file} is not a text file")
    if separator == "," and "," not in first and ";" in first:
        separator = ";"
    names = [name.strip() for name in next(csv.reader([first], delimiter=separator))]
    _check_names(names, file)
    return names, separator


def _check_names(names: list[str], file: Path) -> None:
    if any(not name for name in names):
        raise TableError(f"{file}: column {names.index('') + 1} has no name in the header")
    for name in names:
        if names.count(name) > 1:
            raise TableError(f"{file}: two columns are called {name!r}; rename one of them")


# --- Parquet ------------------------------------------------------------------------------------------------


def _parquet_blocks(file: Path, rows: int) -> Iterator[pd.DataFrame]:
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise TableError(
            f"reading {file} needs the package pyarrow: install it with pip install 'cavity[data]'"
        ) from None
    try:
        with parquet.ParquetFile(file) as source:
            _check_names([str(name) for name in source.schema_arrow.names], file)
            for batch in source.iter_batches(batch_size=rows):
                yield batch.to_pandas()
    except (pyarrow.ArrowInvalid, pyarrow.ArrowException, OSError) as error:
        raise TableError(
            f"{file} is not a readable Parquet file ({' '.join(str(error).split())[:200]})"
        ) from None
